#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What peers_cpu.py, onnx_speed.py and accuracy.py say to who asks wrongly, and what is kept for
the next run."""
import contextlib
import io
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
import accuracy  # noqa: E402
import peers_cpu  # noqa: E402
from runner import run  # noqa: E402

CASE = "mnist_cnn:infer:1"


def called(*arguments, tool="peers_cpu.py", **changes):
    done = subprocess.run([sys.executable, TOP / "tools" / tool, *arguments], timeout=120,
                          capture_output=True, text=True, check=False,
                          env={"PLUMB_BUILD": str(TOP / "build"), **os.environ, **changes})
    return done.returncode, done.stdout, done.stderr.splitlines()[-1:]


def test_onnx_speed(folder):
    for wrong, words in ((["mnist:x"], "mnist:x: expected"), (["mnist", "--rounds", "0"], "1 or")):
        status, told, last = called(*wrong, tool="onnx_speed.py")
        assert status == 2 and not told and words in last[0], (wrong, told, last)
    status, told, last = called("mnist", tool="onnx_speed.py", PLUMB_BUILD=folder)
    assert status == 1 and last[0].startswith("onnx_speed: mnist: ") and not told, (told, last)


def test_accuracy(folder):
    status, told, last = called("--seeds", "0", tool="accuracy.py")
    assert status == 2 and not told and "expected 1 or more" in last[0], (told, last)
    plumb = pathlib.Path(folder) / "plumb"
    plumb.write_text("#!/bin/sh\necho no MNIST here >&2; exit 3\n")
    plumb.chmod(0o755)
    status, told, last = called(tool="accuracy.py", PLUMB=str(plumb))
    assert status == 1 and last == [f"accuracy.py: {plumb} ended with 3: no MNIST here"], last


def test_accuracy_of_one_seed_knows_no_noise(_):
    found = {"accuracy": 0.99, "cpu_s": 1, "wall_s": 1}
    before = accuracy.run_plumb, accuracy.run_torch, sys.argv
    accuracy.run_plumb = lambda *_: found
    accuracy.run_torch = lambda *_: {**found, "accuracy": 0.98}
    sys.argv = ["accuracy.py", "--seeds", "1"]
    told = io.StringIO()
    try:
        with contextlib.redirect_stdout(told):
            accuracy.main()
    finally:
        accuracy.run_plumb, accuracy.run_torch, sys.argv = before
    assert "beyond" not in told.getvalue() and "tells no noise" in told.getvalue(), told.getvalue()


def test_what_makes_no_sense(_):
    for wrong, words in ((["mnist_cnn:infr:1"], "mnist_cnn:infr:1: expected"),
                         (["mnist_cnn:infer"], "mnist_cnn:infer: expected"),
                         ([CASE, "--stacks", "eager,onnxruntme"], "--stacks onnxruntme: expected"),
                         ([CASE, "--stacks", "inductor"], "--stacks inductor: expected"),
                         ([CASE, "--rounds", "0"], "--rounds 0: expected 1 or more")):
        status, told, last = called(*wrong)
        assert status == 2 and not told and words in last[0], (wrong, told, last)


def test_no_build(folder):
    status, told, last = called(CASE, PLUMB_BUILD=folder)
    assert status == 1 and not told and last[0].startswith("peers_cpu: "), (told, last)


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
