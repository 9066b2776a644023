#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The libtorch worker: builds against the torch of PLB_PYTHON, computes what PyTorch in f64 does,
and answers wrong messages as the Python workers do. Compiling it takes a minute or two, so it is
done with PLB_TEST_FULL=1 alone; what was built is kept in the build folder, for later runs."""
import hashlib
import os
import pathlib
import subprocess
import sys
import warnings

import harness

harness.need("torch", "torchvision", "safetensors")

import test_stacks_torch as torch_tests  # noqa: E402
from driver import Worker, WorkerError  # noqa: E402

SOURCES = harness.STACKS / "libtorch"
FULL = os.environ.get("PLB_TEST_FULL")
CASES = [("mnist_cnn", "infer", 28, {}), ("mnist_cnn", "train", 28, {}),
         ("resnet18", "infer", 64, {}), ("resnet18", "train", 64, {"channels_last": True}),
         ("alexnet", "train", 64, {}), ("lenet5", "infer", 28, {})]
# Deep networks on tiny batches are exact in f64 alone.
WIDE = [("resnet18", False), ("resnet18", True), ("resnet50", False), ("mobilenet_v2", False)] + (
    [("vgg16", False), ("vgg19", False)] if FULL else [])


def built():
    """The worker's path, compiled where no test did so before."""
    import torch
    digest = hashlib.sha256(torch.__version__.encode() + sys.executable.encode())
    for source in sorted(SOURCES.iterdir()):
        if source.is_file():
            digest.update(source.read_bytes())
    folder = pathlib.Path(os.environ.get("PLUMB_BUILD", "build"), "libtorch")
    folder.mkdir(parents=True, exist_ok=True)
    worker = folder / f"worker-{digest.hexdigest()[:16]}"
    if not worker.exists():
        if not FULL:
            harness.leave("the libtorch worker is not built; PLB_TEST_FULL=1 builds it")
        for old in folder.glob("worker-*"):
            old.unlink()
        done = subprocess.run([sys.executable, str(SOURCES / "build.py"), str(worker)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        assert done.returncode == 0, done.stdout[-3000:]
    return str(worker)


def worker_of(_stack, folder):
    return Worker([built()], environment={"PLUMB_CACHE": folder})


def test_wide(folder):
    """Every hand-written model is torchvision's, to the last bits of f64."""
    worker = worker_of("libtorch", folder)
    worst = 0
    try:
        worker.ask("hello", protocol=1)
        for model, channels_last in WIDE:
            problem = harness.Problem(folder, model, "train", 64, batch=4)
            problem.load(worker, dtype="f64", settings={"channels_last": channels_last})
            found = worker.tensors(worker.ask("prove", batches=[0, 1]))
            assert found.keys() == problem.expected.keys(), found.keys() ^ problem.expected.keys()
            worst = max([worst] + [harness.error(found[key], value)
                                   for key, value in problem.expected.items()])
            assert worst < 1e-9, (model, worst)
    finally:
        worker.kill()
    return f"worst error {worst:.1e}"


def test_refusals(folder):
    train = harness.Problem(folder, "mnist_cnn", "train", 28)
    worker = worker_of("libtorch", folder)
    try:
        worker.ask("hello", protocol=1)
        for kind, changed in (("task", {"task": "dream"}), ("device", {"devices": ["cuda:7"]}),
                              ("dtype", {"dtype": "i8"}), ("math", {"math": "tf32"}),
                              ("autocast", {"autocast": "i8"}), ("region", {"region": "warp"}),
                              ("model", {"model": "lenet5"}),
                              ("settings", {"settings": {"fast": True}}),
                              ("settings", {"settings": {"channels_last": 1}})):
            harness.refused(worker, kind, lambda c=changed: train.load(worker, **c))
        infer = harness.Problem(folder, "mnist_cnn", "infer", 28)
        harness.refused(worker, "export", lambda: infer.load(worker, model="no_such_net"))
        train.load(worker)
        harness.check_proof(worker, train)
        try:  # What is cut to a line of 600 bytes is whole characters still, or it were no JSON.
            infer.load(worker, weights="/" + "é" * 400)
        except WorkerError as reason:
            assert reason.answer["code"] == "invalid", reason
        else:
            raise AssertionError("no such file")
    finally:
        worker.kill()


def test_full_disk(folder):
    """What the exporter says of a full disk ends the run; it is no refusal of the model."""
    python = pathlib.Path(folder, "python")
    python.write_text("#!/bin/sh\n[ \"$1\" = -c ] && echo 2.0 && exit\n"
                      "echo 'export: OSError: [Errno 28] No space left on device' >&2\nexit 1\n",
                      encoding="ascii")
    python.chmod(0o755)
    problem = harness.Problem(folder, "lenet5", "infer", 28)
    worker = Worker([built()], environment={"PLUMB_CACHE": folder,
                                            "PLUMB_TORCH_PYTHON": str(python)})
    try:
        worker.ask("hello", protocol=1)
        problem.load(worker)
    except WorkerError as reason:
        assert reason.answer["code"] == "full", reason.answer
    else:
        raise AssertionError("the model was exported")
    finally:
        worker.kill()


def test_integer_outputs(folder):
    """A file may return classes and not logits."""
    import numpy as np
    import torch

    class Largest(torch.nn.Module):
        def forward(self, x):
            return x.flatten(1).argmax(1)
    path = os.path.join(folder, "largest.pt")
    warnings.simplefilter("ignore")  # That TorchScript is an old way.
    torch.jit.save(torch.jit.script(Largest()), path)
    problem = harness.Problem(folder, "mnist_cnn", "infer", 28)
    worker = worker_of("libtorch", folder)
    try:
        worker.ask("hello", protocol=1)
        problem.load(worker, file=path, weights=path)
        found = worker.tensors(worker.ask("prove", batches=[0, 1]))
        for i, x in enumerate(problem.x):
            assert (found["output.0", i] == np.argmax(x.reshape(len(x), -1), 1)).all()
    finally:
        worker.kill()


def same_as_torch(test):
    """A test of the Python workers, with this one in their place."""
    def run(folder):
        before = torch_tests.worker_of
        torch_tests.worker_of = worker_of
        try:
            return test(folder)
        finally:
            torch_tests.worker_of = before
    return run


TESTS = [("libtorch", harness.cases_of("libtorch", worker_of, CASES)), ("wide", test_wide),
         ("refusals", test_refusals), ("full disk", test_full_disk),
         ("integer outputs", test_integer_outputs)] + [
    (name, same_as_torch(test)) for name, test in (
        ("batches", torch_tests.test_batches), ("epoch", torch_tests.test_epoch),
        ("mixed epoch", torch_tests.test_mixed_epoch),
        ("dropout", torch_tests.test_dropout),
        ("training goes on", torch_tests.test_training_goes_on),
        ("wrong messages", torch_tests.test_wrong_messages), ("cancel", torch_tests.test_cancel),
        ("precisions", torch_tests.test_precisions),
        ("script files", torch_tests.test_script_files),
        ("end of stream", torch_tests.test_end_of_stream))]

if __name__ == "__main__":
    if not os.environ.get("CXX") and subprocess.run(["c++", "--version"], check=False,
                                                    stdout=subprocess.DEVNULL).returncode:
        harness.leave("no C++ compiler")
    built()
    sys.exit(harness.run_all(TESTS))
