# SPDX-License-Identifier: Apache-2.0
"""A process of PyTorch in which tools/peers_gpu.py times whole models on a GPU.

    python tools/peers_gpu_torch.py [--timing T]
    python tools/peers_gpu_torch.py --epoch

A case comes from standard input, one a line, as peers_gpu.py has them. It is prepared, and told as
ready; at the next line it is run until nothing is new (cuDNN tries its algorithms then), and told
as settled; at the one after it is timed, and told with its times. --epoch times an epoch of the
MNIST network instead.
"""
import argparse
import gc
import json
import statistics
import sys
import time

import torch
import torchvision

DTYPES = {"f32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
COMPILE = {"inductor": None, "inductor-graph": None, "inductor-ro": "reduce-overhead"}
GRAPHS = ("graph", "inductor-graph")


def settings(dtype, benchmark):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype != "f32"
    torch.backends.cudnn.benchmark = benchmark


def latency(step, rounds):
    times = []
    for _ in range(rounds):
        before, after = torch.cuda.Event(True), torch.cuda.Event(True)
        before.record()
        step()
        after.record()
        torch.cuda.synchronize()
        times.append(before.elapsed_time(after))
    return statistics.median(times)


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

    return step


def train(name, dtype, batch, mode, layout):
    model = network(name, layout, True)
    x = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=layout)
    y = torch.randint(0, 1000, (batch,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    forward = torch.compile(model, mode=COMPILE[mode]) if mode in COMPILE else model
    amp = dtype in ("bf16", "f16")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=DTYPES[dtype] if amp else torch.bfloat16, enabled=amp,
                            cache_enabled=mode not in GRAPHS):
            loss = torch.nn.functional.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()

    return step


def prepared(case):
    """The step of a case, after its first run: what needs the processor more than the device."""
    name, task, dtype, batch, mode, *rest = case.split(":")
    layout = torch.contiguous_format if rest == ["nchw"] else torch.channels_last
    # Reduce-overhead records at its second run, where cuDNN cannot try anything.
    settings(dtype, benchmark=mode == "inductor-ro")
    step = {"infer": infer, "train": train}[task](name, dtype, int(batch), mode, layout)
    step()
    torch.cuda.synchronize()
    return step


def settle(case, step):
    settings(case.split(":")[2], benchmark=True)
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def measure(case, step, timing):
    """One result, or two, by the cases that they are of."""
    mode = case.split(":")[4]
    ways = [(case.replace("inductor-graph", "inductor"), step)] if mode != "graph" else []
    for name, run in ways + ([(case, None)] if mode in GRAPHS else []):
        one, queued = timed(run or captured(step), seconds=timing)
        yield {"case": name, "latency_ms": round(one, 4), "queued_ms": round(queued, 4),
               "peak_bytes": torch.cuda.max_memory_reserved()}


def say(**words):
    print(json.dumps(words), flush=True)


def turns(timing):
    """A process of several: a case from standard input, three steps, each when it is told to."""
    for case in iter(sys.stdin.readline, ""):
        case, step = case.strip(), None
        try:
            begin = time.time()
            step = prepared(case)
            first = round(time.time() - begin, 2)
            say(state="ready")
            sys.stdin.readline()
            settle(case, step)
            say(state="settled")
            sys.stdin.readline()
            for result in measure(case, step, timing):
                say(**result, first_s=first)
        except Exception as error:  # an outcome of its own: the others go on
            say(case=case, error=str(error).split("\n")[0][:160])
        del step
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
        say(state="idle")


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
    settings("f32", benchmark=True)
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--timing", type=float, default=4.0)
    parser.add_argument("--epoch", action="store_true")
    options = parser.parse_args()
    say(torch=torch.__version__, cudnn=torch.backends.cudnn.version(),
        device=torch.cuda.get_device_name())
    if options.epoch:
        for mode in ("eager", "graph"):
            say(case=f"mnist_cnn:epoch:f32:64:{mode}", **epoch(mode))
    else:
        turns(options.timing)


if __name__ == "__main__":
    main()
