#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's stacks compute what PyTorch in f64 does, say what ran, refuse only what they may, and
answer wrong messages with an error. PLB_TEST_FULL=1: also what takes minutes to compile."""
import errno
import os
import sys
import warnings

import harness

harness.need("torch", "torchvision", "safetensors")

from driver import Worker, WorkerError  # noqa: E402

FULL = os.environ.get("PLB_TEST_FULL")


def worker_of(stack, folder):
    return Worker(harness.python_worker(stack), environment={"PLUMB_CACHE": folder})


def cases_of(stack, cases):
    return harness.cases_of(stack, worker_of, cases)


BOTH = [("mnist_cnn", "infer", 28, {}), ("mnist_cnn", "train", 28, {}),
        ("resnet18", "infer", 64, {}), ("resnet18", "train", 64, {})]
EAGER = BOTH + [("lenet5", "train", 28, {"fused_optimizer": True}),
                ("resnet18", "infer", 64, {"channels_last": True, "inference_mode": False})]
SCRIPT = BOTH + [("resnet18", "infer", 64, {"optimize_for_inference": True})]
COMPILE = BOTH if FULL else BOTH[:2] + [("resnet18", "infer", 64, {"freezing": True})]


def test_batches(folder):
    """Other values in the same memory are taken in when the caller says so, and not before."""
    problem = harness.Problem(folder, "mnist_cnn", "infer", 28)
    worker = worker_of("torch-eager", folder)
    try:
        worker.ask("hello", protocol=1)
        problem.load(worker)
        worker.write_inputs({"x": problem.x[::-1]})

        def outputs():
            return worker.tensors(worker.ask("prove", batches=[0, 1]))
        before = outputs()
        assert harness.error(before["output", 0], problem.expected["output", 0]) < 1e-5
        worker.ask("batches", slots=[0, 1])
        after = outputs()
        assert harness.error(after["output", 0], problem.expected["output", 1]) < 1e-5
    finally:
        worker.kill()


def test_training_goes_on(folder):
    """Timed steps train: all parameters move, and `restart` begins again."""
    import numpy as np
    problem = harness.Problem(folder, "mnist_cnn", "train", 28)
    worker = worker_of("torch-eager", folder)
    try:
        worker.ask("hello", protocol=1)
        problem.load(worker)

        def loss(**fields):
            return float(worker.tensors(worker.sample(1, check=0, **fields)[1])["loss", 0])

        first = loss(restart=True)
        worker.sample(30, batches=[0])
        state = worker.tensors(worker.ask("state"))
        for name, value in problem.state.items():
            moved = np.abs(state[f"weight.{name}", 0] - value.numpy()).max()
            assert moved > 0, f"{name} did not change"
        assert loss() < 0.9 * first
        assert loss(restart=True) == first
    finally:
        worker.kill()


def test_dropout(folder):
    """With dropout, equal steps differ; without, they do not."""
    problem = harness.Problem(folder, "mnist_cnn", "train", 28)
    worker = worker_of("torch-eager", folder)
    try:
        worker.ask("hello", protocol=1)
        for dropout in ("off", "on"):
            problem.load(worker, dropout=dropout, optimizer={"name": "sgd", "lr": 0.0})
            losses = [float(worker.tensors(worker.sample(1, check=0)[1])["loss", 0])
                      for _ in range(2)]
            assert (losses[0] == losses[1]) == (dropout == "off"), (dropout, losses)
    finally:
        worker.kill()


def evaluated(problem, slot):
    """The sum of the loss over a batch, in f64."""
    import torch
    import models
    out = problem.made().eval()(torch.from_numpy(problem.x[slot]).double())
    labels = torch.from_numpy(problem.y[slot])
    return models.criterion(problem.model)(out, labels, reduction="sum").item()


def test_epoch(folder):
    """Streamed batches train, a smaller last one too, and are counted by row."""
    import torch
    import models
    problem = harness.Problem(folder, "mnist_cnn", "train", 28)
    worker = worker_of("torch-eager", folder)
    try:
        worker.ask("hello", protocol=1)
        problem.load(worker)
        worker.ask("epoch", train=False, count=2)
        done = [worker.ask("batch", slot=0, rows=8), worker.ask("batch", slot=1, rows=3)]
        worker.ask("epoch_end")
        model = problem.made().eval()
        for slot, (answer, rows) in enumerate(zip(done, (8, 3))):
            x, y = (torch.from_numpy(v[slot][:rows]) for v in (problem.x, problem.y))
            out = model(x.double())
            loss = models.criterion("mnist_cnn")(out, y, reduction="sum").item()
            assert abs(answer["loss"] - loss) < 1e-4 * loss, (answer, loss)
            assert answer["correct"] == (out.argmax(1) == y).sum().item(), answer
            assert answer["ns"] > 0
        worker.ask("epoch", train=True, count=30)
        losses = [worker.ask("batch", slot=0, rows=8)["loss"] for _ in range(30)]
        worker.ask("epoch_end")
        assert losses[-1] < losses[0], losses
        # Of what diverged the answer is JSON still, which knows no NaN.
        problem.load(worker, optimizer={"name": "sgd", "lr": 1e38})
        worker.ask("epoch", train=True, count=3)
        losses = [worker.ask("batch", slot=0, rows=8)["loss"] for _ in range(3)]
        assert losses[0] > 0 and losses[-1] is None, losses
    finally:
        worker.kill()


def test_mixed_epoch(folder):
    """Outputs of 16 bits have three digits each; the mean of their losses has more."""
    problem = harness.Problem(folder, "mnist_cnn", "train", 28)
    worker = worker_of("torch-eager", folder)
    try:
        worker.ask("hello", protocol=1)
        problem.load(worker, autocast="bf16")
        worker.ask("epoch", train=False, count=2)
        losses = [worker.ask("batch", slot=slot, rows=8)["loss"] for slot in (0, 1)]
        worker.ask("epoch_end")
        assert harness.error(losses[0], evaluated(problem, 0)) < 2e-3, losses
        assert harness.error(losses[1], evaluated(problem, 1)) < 2e-3, losses
    finally:
        worker.kill()


def test_operators(folder):
    """Of a block on request, with the memory that shapes say: two convolutions of 5 x 5 and a
    pooling of 2 x 2 (values of 4 bytes, places of 8) after each."""
    problem = harness.Problem(folder, "mnist_cnn", "infer", 28)
    worker = worker_of("torch-eager", folder)
    try:
        worker.ask("hello", protocol=1)
        problem.load(worker)
        _, answer = worker.sample(3, profile=True)
        rows = {row["name"]: row for row in answer["operators"]}
        n = harness.BATCH
        convolved = 4 * n * (10 * 24 * 24 + 20 * 8 * 8)
        pooled = 12 * n * (10 * 12 * 12 + 20 * 4 * 4)
        assert rows["aten::conv2d"]["calls"] == 6, rows["aten::conv2d"]
        assert rows["aten::conv2d"]["cpu_bytes"] == 3 * convolved, rows["aten::conv2d"]
        pool = rows["aten::max_pool2d_with_indices"]
        assert pool["self_cpu_bytes"] == 3 * pooled, pool
        assert 0 < pool["self_cpu_ns"] <= pool["cpu_ns"] and pool["device_ns"] is None, pool
        assert "operators" not in worker.sample(3)[1]
    finally:
        worker.kill()


def test_device(_folder):
    """torch.cuda.set_device refuses a card without its number, which a case need not give."""
    import torch
    import session
    for name, whole in (("cpu", "cpu"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1")):
        assert session.device_of(name) == torch.device(whole), name


def test_trace(folder):
    problem = harness.Problem(folder, "resnet18", "infer", 64)
    worker = worker_of("torch-eager", folder)
    try:
        assert worker.ask("hello", protocol=1)["capabilities"]["trace"]
        problem.load(worker)
        answer = worker.ask("prove", batches=[0], trace=True)
        names = [t["name"] for t in answer["tensors"]]
        assert names[0] == "layer.conv1" and "layer.layer1.0" in names, names
        assert names[-1] == "output", names
        fc = next(t for t in answer["tensors"] if t["name"] == "layer.fc")
        assert harness.error(worker.tensor(fc), problem.expected["output", 0]) < 1e-5
        # Layers are those of the pass that is measured, with what it mixes.
        problem.load(worker, autocast="bf16")
        answer = worker.ask("prove", batches=[0], trace=True)
        named = {t["name"]: worker.tensor(t) for t in answer["tensors"]}
        assert (named["layer.fc"] == named["output"]).all()
    finally:
        worker.kill()


def test_recompiles(_folder):
    """A frame that is compiled again is counted, whether or not a break stands before all else."""
    import torch
    import compiled

    class Broken(torch.nn.Module):
        def __init__(self, early):
            super().__init__()
            self.early, self.inner = early, torch.nn.Linear(4, 4)

        def forward(self, x):
            x = x if self.early else self.inner(x)
            torch._dynamo.graph_break()
            return self.inner(x)

    for early, frames in ((True, 1), (False, 2)):  # that look at the shape
        torch._dynamo.reset()
        compiled.counters.clear()
        run = torch.compile(Broken(early), backend="eager", dynamic=False)
        for rows, again in ((2, 0), (3, frames), (3, frames), (4, 2 * frames)):
            run(torch.ones(rows, 4))
            found = compiled.CompileSession.compilers(None)
            assert found["recompiles"] == again and found["breaks"], (early, rows, found)


def test_precisions(folder):
    """What was asked is what ran, and shows in the error."""
    problem = harness.Problem(folder, "resnet18", "infer", 64)
    worker = worker_of("torch-eager", folder)
    try:
        worker.ask("hello", protocol=1)
        for fields, low, high in (({"dtype": "f64"}, 0, 1e-7), ({"dtype": "bf16"}, 5e-4, 0.1),
                                  ({"autocast": "bf16"}, 5e-4, 0.1)):
            problem.load(worker, **fields)
            found = worker.tensors(worker.ask("prove", batches=[0]))
            wrong = harness.error(found["output", 0], problem.expected["output", 0])
            assert low <= wrong <= high, (fields, wrong)
            ran = worker.ask("ran")
            assert ran["dtype"] == fields.get("dtype", "f32"), ran
            assert ran["autocast"] == fields.get("autocast"), ran
    finally:
        worker.kill()


def test_refusals(folder):
    problem = harness.Problem(folder, "mnist_cnn", "train", 28)
    worker = worker_of("torch-eager", folder)
    try:
        worker.ask("hello", protocol=1)
        for kind, changed in (("task", {"task": "dream"}), ("device", {"devices": ["tpu"]}),
                              ("device", {"devices": ["cpu", "cpu"]}), ("dtype", {"dtype": "i8"}),
                              ("math", {"math": "tf32"}), ("autocast", {"autocast": "i8"}),
                              ("model", {"model": "no_such_net"}), ("region", {"region": "warp"}),
                              ("settings", {"settings": {"speed": 11}}),
                              ("settings", {"settings": {"channels_last": 1}}),
                              ("settings", {"layout": "nchw",
                                            "settings": {"channels_last": True}})):
            harness.refused(worker, kind, lambda c=changed: problem.load(worker, **c))
        problem.load(worker)
        harness.check_proof(worker, problem)
    finally:
        worker.kill()
    worker = worker_of("torch-cudagraph", folder)
    try:
        worker.ask("hello", protocol=1)
        harness.refused(worker, "device", lambda: problem.load(worker))
    finally:
        worker.kill()


def script_files(folder, problem):
    """{name: path} of TorchScript files: of the problem's model, and of what cannot be timed."""
    import models
    import torch
    made = models.make(problem.model).eval()
    made.load_state_dict(problem.state)
    x = torch.from_numpy(problem.x[0])

    class Pair(torch.nn.Module):
        def forward(self, a):
            return a, a + 1

    class Sum(torch.nn.Module):
        def forward(self, a, b):
            return a + b
    warnings.simplefilter("ignore")  # That TorchScript is an old way.
    traced = torch.jit.trace(made, x)
    files = {"traced": traced, "frozen": torch.jit.freeze(traced), "scripted": torch.jit.script(
        made.train()), "pair": torch.jit.script(Pair()), "sum": torch.jit.script(Sum())}
    paths = {name: os.path.join(folder, f"{name}.pt") for name in (*files, "broken", "absent")}
    for name, module in files.items():
        torch.jit.save(module, paths[name])
    with open(paths["broken"], "wb") as file:
        file.write(b"PK\3\4" + bytes(200))
    return paths


def test_script_files(folder):
    """A TorchScript file in place of a model, with its own weights, in evaluation mode whatever it
    was saved in; what takes or returns more than a tensor, or is no such file, is refused."""
    problem = harness.Problem(folder, "mnist_cnn", "infer", 28)
    paths = script_files(folder, problem)
    worker = worker_of("torch-script", folder)
    try:
        assert worker.ask("hello", protocol=1)["capabilities"]["files"] == ["torchscript"]
        for name in ("traced", "frozen", "scripted"):
            problem.load(worker, model=name, file=paths[name], weights=paths[name], dropout="on")
            found = worker.tensors(worker.ask("prove", batches=[0, 1]))
            assert found.keys() == {("output.0", 0), ("output.0", 1)}, found.keys()
            for slot in (0, 1):
                wrong = harness.error(found["output.0", slot], problem.expected["output", slot])
                assert wrong < harness.OUTPUT_LIMIT, (name, slot, wrong)
            assert worker.sample(3)[0].min() > 0
            assert worker.ask("ran")["devices"][0]["device"] == "cpu"
        for name in ("pair", "sum", "broken", "absent"):
            harness.refused(worker, "model", lambda n=name: problem.load(
                worker, model=n, file=paths[n], weights=paths[n]))
        harness.refused(worker, "model", lambda: problem.load(worker, file="/net.onnx"))
        harness.refused(worker, "task", lambda: harness.Problem(
            folder, "mnist_cnn", "train", 28).load(worker, file=paths["traced"]))
        problem.load(worker)  # a named model again
        harness.check_proof(worker, problem)
    finally:
        worker.kill()


def bad_messages(problem, worker):
    """(what is wrong, line to send, the code that must come back)"""
    weights = os.path.join(os.path.dirname(problem.weights), "broken.safetensors")
    with open(weights, "wb") as file:
        file.write(b"\xff" * 100)
    place = problem.load(worker)  # so that samples would be possible
    assert place["type"] == "loaded"
    sample = b'{"type":"sample","id":1,"n":2,"region":"latency","batches":[0,1]'
    return [("no JSON", b"}{", "invalid"), ("no object", b"[1,2]", "invalid"),
            ("bytes", b"\xff\xfe\x00", "invalid"), ("deep", b"[" * 100000, "invalid"),
            ("too long", b"x" * (17 << 20), "invalid"),
            ("no type", b'{"id":1}', "unsupported"), ("type 5", b'{"type":5}', "unsupported"),
            ("unknown type", b'{"type":"dance","id":1}', "unsupported"),
            ("other protocol", b'{"type":"hello","id":1,"protocol":99}', "unsupported"),
            ("n missing", b'{"type":"sample","id":1,"region":"latency"}', "invalid"),
            ("n 0", sample.replace(b"2,", b"0,", 1) + b"}", "invalid"),
            ("n text", sample.replace(b"2,", b'"2",', 1) + b"}", "invalid"),
            ("unknown region", sample.replace(b"latency", b"warp") + b"}", "invalid"),
            ("slot 7", sample.replace(b"[0,1]", b"[7]") + b"}", "invalid"),
            ("no slots", sample.replace(b"[0,1]", b"[]") + b"}", "invalid"),
            ("check n", sample + b',"check":2}', "invalid"),
            ("batch without epoch", b'{"type":"batch","id":1,"slot":0}', "invalid, unsupported"),
            ("load without fields", b'{"type":"load","id":1}', "invalid")]


def bad_loads(problem):
    def inputs(**changed):
        x = {"name": "x", "dtype": "f32", "shape": [8, 1, 28, 28], "offsets": [0, 64]}
        y = {"name": "y", "dtype": "i64", "shape": [8], "offsets": [0, 64]}
        return {"inputs": [{**x, **changed}, y]}
    broken = os.path.join(os.path.dirname(problem.weights), "broken.safetensors")
    return [inputs(offsets=[0, 1 << 40]), inputs(offsets=[-64, 0]), inputs(offsets=[0, 7]),
            inputs(shape=[8, 1, 28, 1 << 40]), inputs(shape=[7, 1, 28, 28]),
            inputs(dtype="f128"), inputs(offsets=[]), {"inputs": []}, {"inputs": [3]},
            {"batch": 0}, {"threads": 0}, {"optimizer": {"name": "guess"}},
            {"weights": broken}, {"weights": "/no/such/file"}]


def test_full_disk(folder):
    """A disk that is full is everybody's trouble, and no refusal of the model."""
    from plumb_stack import exports
    from plumb_stack.errors import DiskFull
    problem = harness.Problem(folder, "mnist_cnn", "infer", 28)
    try:
        exports.export({"format": "script", "model": "mnist_cnn", "weights": problem.weights,
                        "batch": 2, "size": 28, "classes": 10, "channels": 1,
                        "path": "/dev/full"})
    except DiskFull as full:
        assert os.strerror(errno.ENOSPC) in str(full), full
    else:
        raise AssertionError("/dev/full had room")


def test_wrong_messages(folder):
    problem = harness.Problem(folder, "mnist_cnn", "train", 28)
    worker = worker_of("torch-eager", folder)
    try:
        worker.ask("hello", protocol=1)
        for what, line, code in bad_messages(problem, worker):
            worker.send(line)
            answer = worker.receive()
            assert answer["type"] == "error" and answer["code"] in code, (what, answer)
            assert answer["reason"] and "\n" not in answer["reason"], (what, answer)
        for changed in bad_loads(problem):
            try:
                problem.load(worker, **changed)
            except WorkerError as reason:
                assert reason.answer["code"] in ("invalid", "internal"), (changed, reason)
            else:
                raise AssertionError(f"taken: {changed}")
            assert worker.ask("memory")["rss_bytes"] > 0
        # Null is what is missing, in the optimizer too.
        problem.load(worker, optimizer={"name": "sgd", "lr": 0.01, "momentum": 0.9,
                                        "weight_decay": None, "nesterov": None})
        harness.check_proof(worker, problem)
        assert worker.close() == 0
    finally:
        worker.kill()


def test_cancel(folder):
    """A block that would take an hour ends between two iterations."""
    problem = harness.Problem(folder, "resnet18", "train", 96, batch=16)
    worker = worker_of("torch-eager", folder)
    try:
        worker.ask("hello", protocol=1)
        problem.load(worker)
        times, _ = worker.sample(1)
        assert times[0] > 1e8, "too fast for this test"
        worker.send(b'{"type":"sample","id":77,"n":20000,"region":"latency","batches":[0,1]}')
        worker.send(b'{"type":"cancel"}')
        answer = worker.receive()
        assert answer["id"] == 77 and answer["code"] == "cancelled", answer
        worker.send(b'{"type":"cancel"}')  # Nothing to cancel: no answer.
        assert worker.ask("memory")["rss_bytes"] > 0
    finally:
        worker.kill()


def test_end_of_stream(folder):
    """A worker whose caller has gone ends by itself."""
    import socket
    worker = worker_of("torch-eager", folder)
    try:
        worker.ask("hello", protocol=1)
        worker.socket.shutdown(socket.SHUT_RDWR)
        assert worker.process.wait(20) == 0
    finally:
        worker.kill()


CHOSEN = os.environ.get("PLB_STACKS_TESTS", "")
# The longest first: two run at a time, each worker with one thread.
TESTS = [("torch-compile", cases_of("torch-compile", COMPILE)),
         ("torch-eager", cases_of("torch-eager", EAGER)),
         ("torch-script", cases_of("torch-script", SCRIPT)),
         ("batches", test_batches), ("training goes on", test_training_goes_on),
         ("dropout", test_dropout), ("epoch", test_epoch),
         ("mixed epoch", test_mixed_epoch),
         ("operators", test_operators),
         ("device", test_device), ("trace", test_trace),
         ("recompiles", test_recompiles),
         ("precisions", test_precisions), ("refusals", test_refusals),
         ("script files", test_script_files),
         ("full disk", test_full_disk),
         ("wrong messages", test_wrong_messages), ("cancel", test_cancel),
         ("end of stream", test_end_of_stream)]

if __name__ == "__main__":
    chosen = [t for t in TESTS if not CHOSEN or t[0] in CHOSEN.split(",")]
    sys.exit(harness.run_all(chosen, jobs=2))
