#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_ops leaves the golden file as it was where PyTorch has no numbers for a case. Needs
PLB_PYTHON, a Python with torch."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).parents[1]))
from runner import Skip, run  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parents[2]
ONE = {"dtype": "f64", "shape": [1], "data": [-1.0]}
CASE = {"op": "neg", "sample": "one", "attrs": {}, "inputs": [ONE],
        "outputs": [{**ONE, "data": [1.0]}]}


def checked(folder, cases):
    """Status, standard error, and the golden file afterwards."""
    python = os.environ.get("PLB_PYTHON")
    if not python or subprocess.run([python, "-c", "import torch"], check=False,
                                    stderr=subprocess.DEVNULL).returncode:
        raise Skip("PLB_PYTHON names no Python with torch")
    dump, golden = pathlib.Path(folder) / "ops.dump", pathlib.Path(folder) / "golden.json"
    dump.write_text(json.dumps(cases))
    golden.write_text("as it was")
    done = subprocess.run([python, TOP / "tools/torch_ops", dump, "--write", golden],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stderr, golden.read_text()


def test_golden_file(folder):
    status, _, golden = checked(folder, [CASE])
    assert status == 0 and list(json.loads(golden)) == ["neg"], golden
    status, told, golden = checked(folder, [CASE, {**CASE, "op": "nonsense"}])
    assert status == 1 and golden == "as it was" and "left as it was" in told, (golden, told)


def test_no_case(folder):
    status, told, golden = checked(folder, [])
    assert status == 1 and golden == "as it was" and "no case in it" in told, (golden, told)


if __name__ == "__main__":
    sys.exit(run(globals(), each=tempfile.TemporaryDirectory))
