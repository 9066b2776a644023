# SPDX-License-Identifier: Apache-2.0
"""Ten minutes of libFuzzer on the reader of ONNX files, with AddressSanitizer, under PLB_TEST_FULL
alone: .ci/run has a phase of its own for all readers. Needs clang; PLB_FUZZ_SECONDS is another
length."""
import os
import pathlib
import shutil
import subprocess
import sys

BUILD = pathlib.Path(os.environ["PLUMB_BUILD"], "fuzzing").resolve()
SECONDS = int(os.environ.get("PLB_FUZZ_SECONDS", 600))


def skipped(why):
    print(f"{why}\n0 passed, 0 failed, 1 skipped")
    return 0


def main():
    if not os.environ.get("PLB_TEST_FULL") or os.environ.get("PLUMB_SANITIZE"):
        return skipped("ten minutes of fuzzing: with PLB_TEST_FULL=1")
    if not shutil.which("clang"):
        return skipped("no clang")
    for words in (["cmake", "-G", "Ninja", "-S", ".", "-B", BUILD, "-DCMAKE_BUILD_TYPE=Check",
                   "-DCMAKE_C_COMPILER=clang", "-DPLB_FUZZ=ON", "-DPLB_CUDA=off"],
                  ["cmake", "--build", BUILD, "--target", "fuzz_onnx"]):
        run = subprocess.run(words, capture_output=True, text=True, check=False)
        if run.returncode and "no target" in (run.stdout + run.stderr).lower():
            return skipped("this build reads no ONNX")
        if run.returncode:
            print(run.stdout[-2000:], run.stderr[-2000:])
            print("0 passed, 1 failed, 0 skipped")
            return 1
    # The folder has one target, which gets all the time; tools/fuzz counts.
    return subprocess.run(["tools/fuzz", BUILD, str(SECONDS)], check=False).returncode


sys.exit(main())
