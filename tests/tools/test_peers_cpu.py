#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What peers_cpu.py says to who asks wrongly, and what it keeps for the next run."""
import os
import pathlib
import subprocess
import sys
import tempfile
import types

sys.dont_write_bytecode = True
TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "tests"))
sys.path.append(str(TOP / "tools"))
import peers_cpu  # noqa: E402
from runner import run  # noqa: E402

CASE = "mnist_cnn:infer:1"


def called(*arguments):
    done = subprocess.run([sys.executable, TOP / "tools/peers_cpu.py", *arguments], timeout=120,
                          capture_output=True, text=True, check=False,
                          env={"PLUMB_BUILD": str(TOP / "build"), **os.environ})
    return done.returncode, done.stdout, done.stderr.splitlines()[-1:]


def test_what_makes_no_sense(_):
    for wrong, words in ((["mnist_cnn:infr:1"], "mnist_cnn:infr:1: expected"),
                         (["mnist_cnn:infer"], "mnist_cnn:infer: expected"),
                         ([CASE, "--stacks", "eager,onnxruntme"], "--stacks onnxruntme: expected"),
                         ([CASE, "--stacks", "inductor"], "--stacks inductor: expected"),
                         ([CASE, "--rounds", "0"], "--rounds 0: expected 1 or more")):
        status, told, last = called(*wrong)
        assert status == 2 and not told and words in last[0], (wrong, told, last)


def test_no_ratio_without_a_peer(folder):
    bench = pathlib.Path(folder) / "plumb_bench"
    bench.write_text("""#!/bin/sh\necho '{"median_ms": 1.5}'\n""")
    bench.chmod(0o755)
    told = subprocess.run([sys.executable, TOP / "tools/peers_cpu.py", CASE, "--rounds", "1",
                           "--stacks", ","], stdout=subprocess.PIPE, text=True, check=True,
                          env={**os.environ, "PLUMB_BUILD": folder}).stdout
    assert told.endswith("plumb 1.5 ms; no peer was timed\n"), told


def test_a_model_is_whole_whatever_comes_between(folder):
    def export(_model, _x, path, **_):
        pathlib.Path(path).write_text("half of it")
        raise KeyboardInterrupt

    sys.modules["torch"] = types.SimpleNamespace(onnx=types.SimpleNamespace(export=export),
                                                 randn=lambda *_: None)
    before, peers_cpu.torch_model = peers_cpu.torch_model, lambda *_: None
    tempfile.tempdir = folder
    try:
        peers_cpu.onnx_file("alexnet")
    except KeyboardInterrupt:
        pass
    finally:
        del sys.modules["torch"]
        tempfile.tempdir, peers_cpu.torch_model = None, before
    left = list(pathlib.Path(folder).iterdir())
    assert not left, left


if __name__ == "__main__":
    sys.exit(run(globals(), each=tempfile.TemporaryDirectory))
