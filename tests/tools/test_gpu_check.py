#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What gpu-check says to who asks wrongly: before it looks for a GPU, and with status 2."""
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).parents[1]))
from runner import run  # noqa: E402

TOOL = pathlib.Path(__file__).resolve().parent.parent.parent / "tools/gpu-check"


def refused(*arguments):
    """The last line of standard error."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, TOOL, "--out", folder, *arguments],
                              capture_output=True, text=True)
    assert done.returncode == 2, (done.returncode, done.stderr)
    return done.stderr.splitlines()[-1]


def test_unknown_part():
    assert "--parts opps: expected some of ops,models" in refused("--parts", "ops,opps")


def test_row_without_batch():
    message = refused("--parts", "bench", "--rows", "resnet50:infer:bf16")
    assert "--rows resnet50:infer:bf16: expected MODEL:TASK:DTYPE:BATCH" in message


def test_missing_programs():
    with tempfile.TemporaryDirectory() as empty:
        message = refused("--parts", "ops", "--programs", empty)
    assert f"--programs {empty}: no test_cuda_ops, test_cuda_own there" in message


if __name__ == "__main__":
    sys.exit(run(globals()))
