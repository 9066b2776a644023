#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plumb_bench times what was asked for, and nothing where a flag or a case makes no sense."""
import json
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).parents[1]))
from runner import run  # noqa: E402

BENCH = pathlib.Path(os.environ.get("PLUMB_BUILD", "build")) / "plumb_bench"
CASE = "mnist_cnn:infer:plan:1:1"


def bench(*arguments):
    done = subprocess.run([BENCH, *arguments], capture_output=True, text=True, check=False,
                          timeout=300)
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


def test_flags_and_cases_in_any_order():
    status, told, wrong = bench("mnist_cnn:train:interp:2:1", "--seconds", "0", CASE)
    assert status == 0 and not wrong, wrong
    found = [json.loads(line) for line in told]
    assert [(f["task"], f["level"], f["batch"], f["n"]) for f in found] == [
        ("train", "interp", 2, 5), ("infer", "plan", 1, 5)], found


def test_what_makes_no_sense():
    for case in ("mnist_cnn:infer:reply:1:1", "mnist_cnn:trian:plan:1:1", CASE + "x", CASE + ":",
                 CASE + ":28:1", "mnist_cnn:infer:plan:0:1", "mnist_cnn"):
        status, told, wrong = bench("--seconds", "0", CASE, case)
        assert status == 2 and not told, (case, told)
        assert wrong[0].startswith(f"bench: {case}: expected MODEL:TASK") and len(wrong) == 1, wrong
    for flag, value in (("--seconds", "x"), ("--seconds", "-1"), ("--seconds", "nan"),
                        ("--tune-time", "2s"), ("--math", "bf16"), ("--autocast", "f32"),
                        ("--set", "n"), ("--set", "n=x"), ("--sceonds", "1")):
        status, told, wrong = bench(CASE, flag, value)
        assert status == 2 and not told, (flag, told)
        assert wrong[0].startswith(f"bench: {flag} {value}: expected") and len(wrong) == 1, wrong
    status, told, wrong = bench(CASE, "--device")
    assert status == 2 and not told and len(wrong) == 1, (told, wrong)


if __name__ == "__main__":
    sys.exit(run(globals()))
