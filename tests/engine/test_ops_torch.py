#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares every op's reference and gradients with PyTorch itself (test_ops only has fingerprints
of PyTorch's numbers). Needs PLB_PYTHON, a Python with torch."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEST = pathlib.Path(os.environ.get("PLUMB_BUILD", ROOT / "build")) / "tests/test_ops"


def main():
    python = os.environ.get("PLB_PYTHON")
    if not python or subprocess.run([python, "-c", "import torch"], check=False).returncode:
        print("skipped: PLB_PYTHON names no Python with torch\n0 passed, 0 failed, 1 skipped")
        return 0
    command = [python, ROOT / "tools/torch_ops", "--test", TEST]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
