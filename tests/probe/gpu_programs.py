#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that tools/probe-check looks at through the probe, in PyTorch and JAX.

    gpu_programs.py step [--kineto TRACE.json]      three steps of ResNet-18, always the same
    gpu_programs.py operators [--kineto -]          the same under emit_nvtx, or its operators as
                                                    torch.profiler tells them
    gpu_programs.py jax                             as many products and sums as it is told
    gpu_programs.py budget [--seconds S]            eager ResNet-50, batch 1, and what it takes
    gpu_programs.py graph                           a captured graph of PyTorch's, replayed
    gpu_programs.py counted                         products of known size, for counters
    gpu_programs.py kineto_later                    torch.profiler starts while the probe is there
    gpu_programs.py model NAME TASK [--steps N] [--seconds S]
                                                    one of the networks of the breakdown
"""
import argparse
import ctypes
import json
import os
import sys
import time


def mark(torch, begin):
    """The window that both profilers look at."""
    torch.cuda.synchronize()
    if begin:
        torch.cuda.profiler.start()
    else:
        torch.cuda.profiler.stop()


def steps_of_resnet18():
    """Makes one step, always the same."""
    import torch
    import torchvision
    torch.manual_seed(1)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    model = torchvision.models.resnet18().cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    pinned = torch.randn(16, 3, 224, 224).pin_memory()
    labels = torch.randint(0, 1000, (16,))

    def one():
        image, label = pinned.cuda(non_blocking=True), labels.cuda()
        loss = torch.nn.functional.cross_entropy(model(image), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(4):
        one()
    return torch, one


def step(options):
    torch, one = steps_of_resnet18()
    if options.kineto:
        from torch.profiler import ProfilerActivity, profile
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as found:
            losses = [one() for _ in range(3)]
            torch.cuda.synchronize()
        found.export_chrome_trace(options.kineto)
    else:
        mark(torch, True)
        losses = [one() for _ in range(3)]
        mark(torch, False)
    print(json.dumps({"losses": losses}))


def operators(options):
    torch, one = steps_of_resnet18()
    found = {}
    if options.kineto:
        from torch.profiler import ProfilerActivity, profile
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
            for _ in range(3):
                one()
            torch.cuda.synchronize()
        found = {e.key: [e.count, e.self_device_time_total / 1e3, e.device_time_total / 1e3]
                 for e in seen.key_averages() if e.key.startswith("aten::")}
    else:
        mark(torch, True)
        with torch.autograd.profiler.emit_nvtx():
            for _ in range(3):
                one()
        mark(torch, False)
    print(json.dumps({"operators": found}))


def jax_program(_):
    import jax
    import jax.numpy as jnp
    a = jnp.ones((1024, 1024), jnp.float32) / 32
    product = jax.jit(lambda x: jnp.tanh(x @ x) / 32)
    for _ in range(20):
        a = product(a)
    a.block_until_ready()
    print(json.dumps({"sum": float(a.sum()), "device": str(jax.devices()[0])}))


def resnet50(torch):
    import torchvision
    torch.manual_seed(1)
    return torchvision.models.resnet50().cuda().eval(), torch.randn(1, 3, 224, 224, device="cuda")


def budget(options):
    """Times of iterations in ms, one after the other, and of each whether the probe was in the way
    of it: what it costs a program that is bound by its launches."""
    import torch
    probe = os.environ.get("CUDA_INJECTION64_PATH")
    there = ctypes.CDLL(probe).plb_probe_is_there if probe else lambda: 0
    model, image = resnet50(torch)
    found = []
    with torch.no_grad():
        for _ in range(10):
            model(image)
        torch.cuda.synchronize()
        end = time.perf_counter() + options.seconds
        now, was = time.perf_counter(), there()
        while now < end:
            begin, before = now, was
            model(image)
            if len(found) % 50 == 0:
                torch.cuda.synchronize()
            now, was = time.perf_counter(), there()
            found.append([round((now - begin) * 1e3, 4), int(before or was)])
    print(json.dumps({"iterations": found}))


def graph(_):
    import torch
    model, image = resnet50(torch)
    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                model(image)
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            model(image)
        mark(torch, True)
        for _ in range(20):
            captured.replay()
        mark(torch, False)
        mark(torch, True)
        model(image)
        mark(torch, False)


def counted(_):
    """Ten products of 1024 x 1024 matrices in each of three kinds of arithmetic, then a sum of 64
    million numbers: the counters must say 2 n^3 for each, and 8 bytes a number."""
    import torch
    n = 1024
    a, b = torch.randn(n, n, device="cuda"), torch.randn(n, n, device="cuda")
    half, other = a.bfloat16(), b.bfloat16()
    long = torch.randn(64 << 20, device="cuda")

    def products(left, right, tf32):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        for _ in range(10):
            left @ right
    for warm in (True, False):
        if not warm:
            mark(torch, True)
        products(a, b, False)
        products(a, b, True)
        products(half, other, False)
        long.add_(1)
        if not warm:
            mark(torch, False)


def kineto_later(options):
    import torch
    from torch.profiler import ProfilerActivity, profile
    model, image = resnet50(torch)
    with torch.no_grad():
        for _ in range(5):
            model(image)
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
            for _ in range(3):
                model(image)
            torch.cuda.synchronize()
        for _ in range(3):
            model(image)
        torch.cuda.synchronize()
    rows = [e for e in found.events() if str(e.device_type).endswith("CUDA")]
    print(json.dumps({"kineto_kernels": len(rows)}))


def network(torch, name):
    """The network, its input, and a loss of its output."""
    import torchvision
    labels = torch.randint(0, 10, (options_batch(name),), device="cuda")

    def classify(out):
        return torch.nn.functional.cross_entropy(out, labels)
    if name == "mlp":
        layers = [torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512),
                  torch.nn.ReLU(), torch.nn.Linear(512, 10)]
        return torch.nn.Sequential(*layers), (options_batch(name), 784), classify
    if name == "bert":
        from transformers import BertConfig, BertForSequenceClassification
        model = BertForSequenceClassification(BertConfig(num_labels=10))
        return model, (options_batch(name), 128), lambda out: classify(out.logits)
    return getattr(torchvision.models, name)(), (options_batch(name), 3, 224, 224), classify


def options_batch(name):
    return {"mlp": 64, "bert": 16}.get(name, 32)


def model(options):
    """Steps as a plain script makes them: a batch from the host each, and a look at the loss. At
    least --steps, and as many as fill --seconds."""
    import torch
    torch.manual_seed(1)
    net, shape, loss_of = network(torch, options.name)
    net = net.cuda()
    train = options.task == "train"
    net.train(train)
    data = torch.randint(0, 30000, shape) if options.name == "bert" else torch.randn(shape)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9) if train else None

    def one():
        batch = data.cuda()
        if not train:
            with torch.no_grad():
                return net(batch)
        loss = loss_of(net(batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    def many(steps):
        begin = time.perf_counter()
        for _ in range(steps):
            with torch.cuda.nvtx.range("step"):
                one()
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    many(5)
    steps = max(options.steps, int(options.seconds / (many(5) / 5)))
    mark(torch, True)
    seconds = many(steps)
    mark(torch, False)
    print(json.dumps({"ms_per_step": seconds / steps * 1e3, "steps": steps,
                      "torch": torch.__version__}))


def wait_for_turn(options):
    """Where GPU_PROGRAMS_GATE names a file: what takes long without the device, and then to wait
    until the file is there."""
    gate = os.environ.get("GPU_PROGRAMS_GATE")
    if not gate:
        return
    if options.what == "jax":
        import jax.numpy  # noqa: F401
    else:
        import torch  # noqa: F401
        import torchvision  # noqa: F401
    if options.name == "bert":
        import transformers  # noqa: F401
    while not os.path.exists(gate):
        time.sleep(0.01)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what")
    parser.add_argument("name", nargs="?")
    parser.add_argument("task", nargs="?", default="infer")
    parser.add_argument("--kineto")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    programs = {"step": step, "jax": jax_program, "graph": graph, "budget": budget,
                "kineto_later": kineto_later, "model": model, "counted": counted,
                "operators": operators}
    wait_for_turn(options)
    programs[options.what](options)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
