# SPDX-License-Identifier: Apache-2.0
"""What the tests of stacks share: cases, the reference in f64, and counting."""
import os
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
STACKS = ROOT / "stacks"
INNER = "PLB_STACKS_INNER"
BATCH = 8
# Honest stacks in f32 stay a decade below these; bf16 and tf32 are a decade above.
OUTPUT_LIMIT = 2e-5
# Rounding that takes an activation over a relu's kink changes all gradients before it; a bias that
# began at 0 shows it undiluted after two steps: bn1.bias of resnet18 by 0.053 in channels last of
# LibTorch, whose f64 is exact (test_stacks_libtorch.py, "wide"). Mixed precision shows 0.5 and
# more. Twice the worst honest error, less than half of the least wrong one.
TRAINING_LIMIT = 0.12


def leave(reason):
    print(f"skipped: {reason}\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)


def need(*modules):
    """Goes on in PLB_PYTHON where this Python lacks a module; skips where that does, too."""
    import importlib.util
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    if not missing:
        sys.path[:0] = [str(STACKS / "torch"), str(STACKS / "common")]
        return
    python = os.environ.get("PLB_PYTHON")
    if not python or os.environ.get(INNER):
        leave(f"PLB_PYTHON names no Python with {', '.join(missing)}")
    os.execve(python, [python, *sys.argv], {**os.environ, INNER: "1"})


def python_worker(stack, folder="torch"):
    return [sys.executable, "-u", str(STACKS / folder / "worker.py")] + (
        [stack] if folder == "torch" else [])


class Problem:
    """A model with weights, two batches, and what is right about them."""

    def __init__(self, folder, model, task, size, batch=BATCH):
        import numpy as np
        import models
        import torch
        self.model, self.task, self.size, self.batch = model, task, size, batch
        channels, self.classes = (1, 10) if model in models.OWN else (3, 1000)
        torch.manual_seed(1)
        made = models.make(model)
        self.weights = os.path.join(folder, f"{model}.safetensors")
        self.state = {k: v.clone().contiguous() for k, v in made.state_dict().items()}
        from safetensors.torch import save_file
        save_file(self.state, self.weights)
        random = np.random.default_rng(2)
        self.x = [random.standard_normal((batch, channels, size, size), np.float32)
                  for _ in range(2)]
        self.y = [random.integers(0, self.classes, batch) for _ in range(2)]
        self.expected = self.infer() if task == "infer" else self.train()

    def made(self):
        import models
        made = models.without_dropout(models.make(self.model))
        made.load_state_dict(self.state)
        return made.double()

    def infer(self):
        import torch
        model = self.made().eval()
        with torch.no_grad():
            return {("output", i): model(torch.from_numpy(x).double()).numpy()
                    for i, x in enumerate(self.x)}

    def train(self):
        import models
        import torch
        model, found = self.made().train(), {}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        for i, (x, y) in enumerate(zip(self.x, self.y)):
            optimizer.zero_grad()
            loss, out = models.training_loss(self.model, model, torch.from_numpy(x).double(),
                                             torch.from_numpy(y))
            loss.backward()
            found["loss", i] = loss.detach().numpy()
            found["output", i] = out.detach().numpy()
            if i == 0:
                found |= {(f"grad.{k}", 0): p.grad.numpy().copy()
                          for k, p in model.named_parameters()}
            optimizer.step()
        found |= {(f"weight.{k}", 1): p.detach().numpy() for k, p in model.named_parameters()}
        return found | {(f"buffer.{k}", 1): b.numpy() for k, b in model.named_buffers()
                        if b.is_floating_point()}

    def load(self, worker, **changed):
        named = {"x": self.x} | ({"y": self.y} if self.task == "train" else {})
        fields = {
            "model": self.model, "task": self.task, "devices": ["cpu"], "batch": self.batch,
            "size": self.size, "classes": self.classes, "dtype": "f32", "math": "f32",
            "autocast": None, "threads": 1, "layout": "default", "settings": {},
            "weights": self.weights, "inputs": worker.write_inputs(named),
            "optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9, "weight_decay": 0.0},
            "dropout": "off", "region": "latency",
            "log_probabilities": self.model == "mnist_cnn"}
        return worker.ask("load", **{**fields, **changed})


def error(found, expected):
    import numpy as np
    return float(np.linalg.norm(found - expected) / max(np.linalg.norm(expected), 1e-3))


def check_proof(worker, problem):
    """The proof's tensors, all of them and no others, are right. Text for the log."""
    found = worker.tensors(worker.ask("prove", batches=[0, 1], trace=False))
    assert found.keys() == problem.expected.keys(), found.keys() ^ problem.expected.keys()
    errors = {key: error(found[key], value) for key, value in problem.expected.items()}
    for key, value in errors.items():
        limit = OUTPUT_LIMIT if key[0] in ("output", "loss") and key[1] == 0 else TRAINING_LIMIT
        assert value <= limit, f"{key}: error {value:.2g}, at most {limit}"
    return max(errors.values())


def check_samples(worker, problem, regions):
    """Every region gives as many times as it should, and hands out the iteration asked for."""
    for region in regions:
        n = 5
        begin = time.perf_counter_ns()
        times, answer = worker.sample(n, region, check=3, restart=True)
        spent = time.perf_counter_ns() - begin
        assert len(times) == (1 if region == "queued" else n), (region, times)
        assert times.min() > 0 and times.sum() <= spent, (region, times, spent)
        found = worker.tensors(answer)
        slot = 0 if region == "queued" else 1  # iteration 4 (always the last) or 3 of two batches
        names = {"output", "loss"} if problem.task == "train" else {"output"}
        assert found.keys() == {(name, slot) for name in names}, found.keys()
        if problem.task == "infer":
            wrong = error(found["output", slot], problem.expected["output", slot])
            assert wrong < OUTPUT_LIMIT, (region, wrong)


def check_ran(worker, problem, device="cpu", math="f32", threads=1):
    ran = worker.ask("ran")
    assert all(n <= threads for n in ran["threads"].values() if n), ran["threads"]
    assert ran["devices"] and {d["device"] for d in ran["devices"]} == {device}, ran["devices"]
    assert ran["dtype"] == "f32" and ran["math"] == math and not ran["autocast"], ran
    assert ran["training"] == (problem.task == "train"), ran
    assert ran["fallbacks"] == [] and not ran["breaks"] and not ran["recompiles"], ran
    memory = worker.ask("memory")
    assert memory["peak_rss_bytes"] >= memory["libraries_rss_bytes"] > 0, memory


def check_case(worker, problem, regions=("latency", "queued", "host", "return"), **changed):
    """Load, first call, proof, samples, what ran: one case as `plumb bench` runs it."""
    loaded = problem.load(worker, **changed)
    assert loaded["load_ns"] > 0, loaded
    worker.sample(1, batches=[0])
    worst = check_proof(worker, problem)
    check_samples(worker, problem, regions)
    check_ran(worker, problem, *[device if device == "cpu" else "cuda:0"
                                 for device in changed.get("devices", ["cpu"])])
    return f"worst error {worst:.1e}"


def refused(worker, kind, call):
    """`call` is refused, for the right reason, and the worker goes on."""
    from driver import WorkerError
    try:
        call()
    except WorkerError as reason:
        answer = reason.answer
        assert answer["code"] == "refused" and answer["kind"] == kind, answer
        assert answer["reason"] and "\n" not in answer["reason"], answer
    else:
        raise AssertionError(f"not refused: {kind}")
    assert worker.ask("memory")["rss_bytes"] > 0


def cases_of(stack, make_worker, cases, **changed):
    """A test that loads the cases one after another into one worker."""
    def test(folder):
        worker = make_worker(stack, folder)
        texts = []
        try:
            hello = worker.ask("hello", protocol=1)
            assert hello["stack"] == stack and hello["versions"], hello
            regions = hello["capabilities"]["regions"]
            for model, task, size, settings in cases:
                problem = Problem(folder, model, task, size)
                texts.append(f"{model} {task}: " + check_case(
                    worker, problem, regions, settings=settings, **changed))
            assert worker.close() == 0
        finally:
            worker.kill()
        return "; ".join(texts)
    return test


def run_one(name, test):
    """Runs a function of a folder; prints what it returns. Whether it passed."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            print(f"{name}: {test(folder) or 'ok'} ({time.monotonic() - begin:.1f} s)", flush=True)
            return True
        except Exception as reason:  # pylint: disable=broad-except
            text = f"{type(reason).__name__}: {reason}"
            print(f"FAILED  {name}: {text[:3000]}", flush=True)
            if not isinstance(reason, AssertionError) or not str(reason):
                import traceback
                traceback.print_exc()
            return False


SHARED = []  # what forked processes find: tests are functions that cannot be sent to them


def run_shared(index):
    import torch
    torch.set_num_threads(1)
    return run_one(*SHARED[index])


def run_all(tests, jobs=1):
    """Runs all, `jobs` at a time in processes of their own; prints the closing line."""
    if jobs == 1:
        passed = [run_one(name, test) for name, test in tests]
    else:
        import multiprocessing
        SHARED[:] = tests
        with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
            passed = pool.map(run_shared, range(len(tests)), chunksize=1)
    print(f"{sum(passed)} passed, {len(tests) - sum(passed)} failed, 0 skipped")
    return not all(passed)
