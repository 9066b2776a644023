#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime and OpenVINO compute what PyTorch in f64 does, on models that plumb writes once;
they refuse what they may refuse and nothing else."""
import os
import resource
import sys
import tempfile

import harness

harness.need("torch", "torchvision", "safetensors", "onnx", "onnxruntime", "openvino")

import numpy as np  # noqa: E402

from driver import Worker, WorkerError  # noqa: E402

PLUMB = os.path.abspath(os.environ.get("PLUMB", "build/plumb"))
STACKS = ("onnxruntime", "openvino")
CASES = [("mnist_cnn", "infer", 28, {}), ("resnet18", "infer", 64, {})]


SHARED = ""  # the folder of exported models that all tests share, as all starts of a user do


def worker_of(stack, _folder, **environment):
    return Worker(harness.python_worker(stack, stack),
                  environment={"PLUMB_CACHE": SHARED, "PLUMB_PROGRAM": PLUMB, **environment})


def address_space(pid):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmSize:"))


def test_exports_once(folder):
    """A second start finds the file, and so does the other stack; another batch does not."""
    exports = os.path.join(SHARED, "exports")
    before = len(os.listdir(exports))
    for stack, batch, more in (("onnxruntime", 8, 0), ("onnxruntime", 5, 1), ("openvino", 5, 1)):
        problem = harness.Problem(folder, "mnist_cnn", "infer", 28, batch)
        worker = worker_of(stack, folder)
        try:
            worker.ask("hello", protocol=1)
            problem.load(worker)
            harness.check_proof(worker, problem)
        finally:
            worker.kill()
        files = os.listdir(exports)
        assert len(files) == before + more and all(f.endswith(".onnx") for f in files), files


def test_batches(folder):
    for stack in STACKS:
        problem = harness.Problem(folder, "mnist_cnn", "infer", 28)
        worker = worker_of(stack, folder)
        try:
            worker.ask("hello", protocol=1)
            problem.load(worker)
            worker.write_inputs({"x": problem.x[::-1]})
            worker.ask("batches", slots=[0])
            found = worker.tensors(worker.ask("prove", batches=[0, 1]))
            for slot in (0, 1):  # The second one was not named: it is as it was.
                wrong = harness.error(found["output", slot], problem.expected["output", 1])
                assert wrong < 1e-5, (stack, slot, wrong)
        finally:
            worker.kill()


def test_out_of_memory(folder):
    """Both say by words alone that memory ran out: an outcome of the case, not a crash."""
    for stack in STACKS:
        problem = harness.Problem(folder, "mnist_cnn", "infer", 28)
        worker = worker_of(stack, folder)
        try:
            worker.ask("hello", protocol=1)
            problem.load(worker)
            batch = 4096  # whose activations are larger than what is left
            problem.batch, problem.x = batch, [np.zeros((batch, 1, 28, 28), np.float32)] * 2
            room = address_space(worker.process.pid) + (100 << 20)
            resource.prlimit(worker.process.pid, resource.RLIMIT_AS, (room, room))
            try:
                problem.load(worker)
                worker.sample(1, batches=[0])
            except WorkerError as reason:
                assert reason.answer["code"] == "oom", (stack, reason.answer)
            else:
                raise AssertionError(f"{stack}: there was room")
        finally:
            worker.kill()


def test_autocast(folder):
    """What the processor can do in 16 bits is listed, happens, and shows in the error."""
    problem = harness.Problem(folder, "resnet18", "infer", 64)
    worker = worker_of("openvino", folder)
    try:
        able = worker.ask("hello", protocol=1)["capabilities"]["autocast"]
        for dtype in able:
            problem.load(worker, autocast=dtype)
            found = worker.tensors(worker.ask("prove", batches=[0]))
            wrong = harness.error(found["output", 0], problem.expected["output", 0])
            assert 1e-4 < wrong < 0.1, (dtype, wrong)
            assert worker.ask("ran")["autocast"] == dtype
        return f"{able}"
    finally:
        worker.kill()


def test_refusals(folder):
    train = harness.Problem(folder, "mnist_cnn", "train", 28)
    infer = harness.Problem(folder, "mnist_cnn", "infer", 28)
    for stack in STACKS:
        worker = worker_of(stack, folder)
        try:
            worker.ask("hello", protocol=1)
            harness.refused(worker, "task", lambda: train.load(worker))
            for kind, changed in (("dtype", {"dtype": "f64"}), ("math", {"math": "tf32"}),
                                  ("settings", {"layout": "nhwc"}),
                                  ("settings", {"settings": {"x": 1}}),
                                  ("export", {"model": "no_such_net"}),
                                  ("device", {"devices": ["cuda:7"]})):
                harness.refused(worker, kind, lambda c=changed: infer.load(worker, **c))
            infer.load(worker)
            harness.check_proof(worker, infer)
            try:
                worker.ask("state")
            except WorkerError as reason:
                assert reason.answer["code"] == "invalid", reason
            else:
                raise AssertionError("inference has no state")
        finally:
            worker.kill()
    worker = worker_of("onnxruntime", folder, PLUMB_PROGRAM="/usr/bin/false")
    try:
        worker.ask("hello", protocol=1)
        harness.refused(worker, "export", lambda: infer.load(worker))
    finally:
        worker.kill()


TESTS = [(stack, harness.cases_of(stack, worker_of, CASES)) for stack in STACKS] + [
    ("exports once", test_exports_once), ("batches", test_batches),
    ("out of memory", test_out_of_memory), ("autocast", test_autocast),
    ("refusals", test_refusals)]

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as SHARED:
        sys.exit(harness.run_all(TESTS))
