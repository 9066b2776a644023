# SPDX-License-Identifier: Apache-2.0
"""ONNX's own backend test suite, where PLUMB_TEST_DATA has it: no case may be wrong or break, and
no fewer may pass than did before."""
import os
import pathlib
import subprocess
import sys
import tarfile

BUILD = pathlib.Path(os.environ["PLUMB_BUILD"])
DATA = pathlib.Path(os.environ.get("PLUMB_TEST_DATA", "../shared/data")) / "onnx"
# Archive, folder in it, and how many of its cases pass.
PARTS = [
    ("onnx-node-tests.tar.gz", "node", 1207),
    ("onnx-pytorch-tests.tar.gz", "pytorch-converted", 82),
    ("onnx-pytorch-tests.tar.gz", "pytorch-operator", 35),
    ("onnx-light-models.tar.gz", "light", 9),
]


def unpacked(archive):
    target = BUILD / "onnx_cases" / archive.removesuffix(".tar.gz")
    if not (target / "done").exists():
        target.mkdir(parents=True, exist_ok=True)
        with tarfile.open(DATA / archive) as tar:
            tar.extractall(target, filter="data")
        (target / "done").touch()
    return target


def main():
    suite = BUILD / "tests" / "onnx_suite"
    if not DATA.exists() or not suite.exists():
        print(f"no {DATA if suite.exists() else suite}")
        print(f"0 passed, 0 failed, {len(PARTS)} skipped")
        return 0
    if os.environ.get("PLUMB_SANITIZE"):  # hours of plain loops
        PARTS[:] = PARTS[:3]
    passed = failed = skipped = 0
    for archive, folder, least in PARTS:
        where = unpacked(archive)
        listed = where / f"{folder}.txt"
        run = subprocess.run([suite, "--verbose", "--list", listed, where / folder],
                             capture_output=True, text=True, check=False)
        lines = run.stdout.splitlines()
        words = lines[-1].replace(",", "").split() if lines else []
        if len(words) != 6:
            print(f"{folder}: onnx_suite died: {run.stderr[-500:]}")
            failed += 1
            continue
        for line in lines:
            if line.startswith(("wrong", "broke")):
                print(line)
        print(f"{folder}: {lines[-1]}")
        counts = [int(word) for word in words[::2]]
        passed, failed, skipped = passed + counts[0], failed + counts[1], skipped + counts[2]
        if int(words[0]) < least:
            print(f"{folder}: expected at least {least} to pass")
            failed += 1
        if folder == "node":
            check = subprocess.run([sys.executable, "tools/coverage.py", listed, "--check"],
                                   check=False)
            passed, failed = passed + (not check.returncode), failed + (check.returncode != 0)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


sys.exit(main())
