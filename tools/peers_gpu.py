# SPDX-License-Identifier: Apache-2.0
"""Times whole models in PyTorch on a GPU, one JSON line a case.

    python tools/peers_gpu.py [--seconds S] [--timing T] [--turns FILE]
                              MODEL:TASK:DTYPE:BATCH:MODE[:nchw] ...
    python tools/peers_gpu.py --epoch

TASK is infer or train (SGD, momentum 0.9, fused), DTYPE f32, tf32, bf16 or f16: 16-bit inference
runs with cast weights, training under autocast. MODE is eager, graph (one CUDA graph), inductor or
inductor-ro (reduce-overhead). Memory is channels last unless :nchw says otherwise, cuDNN's
benchmark mode is on. latency_ms is the median between two events around one iteration with the
device idle before, queued_ms many iterations divided by their number: 100 of each, or as many as T
seconds (4) hold, at least 20. No case starts after S seconds. Processes that are given the same
FILE prepare their cases side by side, but whoever times one is then alone on the GPU. --epoch times
an epoch of the MNIST network, 937 steps of 64 and one of 32, with the data on the device.
"""
import argparse
import contextlib
import fcntl
import json
import time

import torch
import torchvision

DTYPES = {"f32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
COMPILE = {"inductor": None, "inductor-ro": "reduce-overhead"}


def settings(dtype):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype != "f32"
    torch.backends.cudnn.benchmark = True


def median(values):
    return sorted(values)[len(values) // 2]


def latency(step, rounds):
    times = []
    for _ in range(rounds):
        before, after = torch.cuda.Event(True), torch.cuda.Event(True)
        before.record()
        step()
        after.record()
        torch.cuda.synchronize()
        times.append(before.elapsed_time(after))
    return median(times)


def timed(step, rounds=100, seconds=4.0):
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    step()
    torch.cuda.synchronize()
    once = time.perf_counter() - begin
    rounds = max(20, min(rounds, int(seconds / once)))
    one = latency(step, rounds)
    begin = time.perf_counter()
    for _ in range(rounds):
        step()
    torch.cuda.synchronize()
    return one, (time.perf_counter() - begin) / rounds * 1e3


def captured(step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def network(name, layout, training):
    model = getattr(torchvision.models, name)(weights=None)
    return model.cuda().to(memory_format=layout).train(training)


def infer(name, dtype, batch, mode, layout):
    model = network(name, layout, False).to(DTYPES[dtype])
    x = torch.randn(batch, 3, 224, 224, device="cuda").to(DTYPES[dtype], memory_format=layout)
    if mode in COMPILE:
        model = torch.compile(model, mode=COMPILE[mode])

    def step():
        with torch.no_grad():
            return model(x)

    return captured(step) if mode == "graph" else step


def train(name, dtype, batch, mode, layout):
    model = network(name, layout, True)
    x = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=layout)
    y = torch.randint(0, 1000, (batch,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    forward = torch.compile(model, mode=COMPILE[mode]) if mode in COMPILE else model
    amp = dtype in ("bf16", "f16")

    def step():
        optimizer.zero_grad(set_to_none=mode != "graph")
        with torch.autocast("cuda", dtype=DTYPES[dtype] if amp else torch.bfloat16, enabled=amp,
                            cache_enabled=mode != "graph"):
            loss = torch.nn.functional.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()

    return captured(step) if mode == "graph" else step


@contextlib.contextmanager
def turn(file, alone):
    """Beside others that are not alone; at once without a file."""
    if not file:
        yield
        return
    with open(file, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def run_case(case, timing, turns):
    name, task, dtype, batch, mode, *rest = case.split(":")
    layout = torch.contiguous_format if rest == ["nchw"] else torch.channels_last
    settings(dtype)
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with turn(turns, alone=False):
        begin = time.time()
        step = {"infer": infer, "train": train}[task](name, dtype, int(batch), mode, layout)
        step()
        torch.cuda.synchronize()
        first = time.time() - begin
    with turn(turns, alone=True):
        one, queued = timed(step, seconds=timing)
    return {"latency_ms": round(one, 4), "queued_ms": round(queued, 4),
            "first_s": round(first, 2), "peak_bytes": torch.cuda.max_memory_reserved()}


class Digits(torch.nn.Module):
    """The MNIST network of the zoo (mnist_cnn)."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(1, 10, 5), torch.nn.Conv2d(10, 20, 5)
        self.drop = torch.nn.Dropout2d()
        self.fc1, self.fc2 = torch.nn.Linear(320, 50), torch.nn.Linear(50, 10)

    def forward(self, x):
        pool, relu = torch.nn.functional.max_pool2d, torch.relu
        x = relu(pool(self.conv1(x), 2))
        x = relu(pool(self.drop(self.conv2(x)), 2)).flatten(1)
        x = torch.nn.functional.dropout(relu(self.fc1(x)), training=self.training)
        return torch.log_softmax(self.fc2(x), 1)


def epoch(mode):
    settings("f32")
    model = Digits().cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.5, fused=True)
    images = torch.randn(60000, 1, 28, 28, device="cuda")
    labels = torch.randint(0, 10, (60000,), device="cuda")
    x, y = images[:64].clone(), labels[:64].clone()
    forward = torch.compile(model) if mode == "inductor" else model

    def step():
        optimizer.zero_grad(set_to_none=False)
        torch.nn.functional.nll_loss(forward(x), y).backward()
        optimizer.step()

    run = captured(step) if mode == "graph" else step
    for _ in range(20):
        run()
    best = None
    for _ in range(3):
        order = torch.randperm(60000, device="cuda")
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for i in range(938):
            batch = order[i * 64:(i + 1) * 64]
            x[:len(batch)].copy_(images[batch])
            y[:len(batch)].copy_(labels[batch])
            run()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        best = seconds if best is None else min(best, seconds)
    return {"seconds": round(best, 4)}


def tell(case, measure, *arguments):
    try:
        result = measure(*arguments)
    except Exception as error:  # an outcome of its own: the others go on
        result = {"error": str(error).split("\n")[0][:160]}
    print(json.dumps({"case": case, **result}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--timing", type=float, default=4.0)
    parser.add_argument("--turns")
    parser.add_argument("--epoch", action="store_true")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    begin = time.time()
    print(json.dumps({"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
                      "device": torch.cuda.get_device_name()}), flush=True)
    for mode in ("eager", "graph") if options.epoch else ():
        tell(f"mnist_cnn:epoch:f32:64:{mode}", epoch, mode)
    for case in options.cases:
        if time.time() - begin < options.seconds:
            tell(case, run_case, case, options.timing, options.turns)


if __name__ == "__main__":
    main()
