# SPDX-License-Identifier: Apache-2.0
"""Times whole models in Plumb and in its peers on the CPU, in one run, and prints their ratios.

    python tools/peers_cpu.py [--threads N] [--seconds S] [--rounds R] [--cpu] [--stacks LIST]
                              [--json] MODEL:TASK:BATCH ...

Models are torchvision's by name, and mnist_cnn, the network of PyTorch's MNIST example.
--stacks names the peers to time (default all); --json prints one document of all times in ms.

With --cpu, times are the processor's, of all threads of a stack, which other work on the machine
disturbs least; one thread then tells most.

TASK is infer or train (SGD, momentum 0.9). Peers of infer: PyTorch eager in both memory formats,
TorchScript frozen, ONNX Runtime, OpenVINO, and with --inductor torch.compile; of train: PyTorch
eager in both formats. Each round runs every stack once, in a process of its own, one after the
other, so that a slow minute of the machine meets all of them. The figure of a stack is the median
of its rounds' medians. Needs a Python with torch, torchvision, onnxruntime and openvino (those
missing are left out), and build/plumb_bench.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import whole_file

INFER = ("eager", "eager-nhwc", "script", "onnxruntime", "openvino")
TRAIN = ("eager", "eager-nhwc")


def sample(run, seconds, least=4):
    """Medians in ms, on the clock and of the processor."""
    run()
    run()
    wall, cpu, begin = [], [], time.perf_counter()
    while len(wall) < least or time.perf_counter() - begin < seconds:
        start, used = time.perf_counter(), time.process_time()
        run()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    return {"median_ms": statistics.median(wall) * 1e3, "cpu_ms": statistics.median(cpu) * 1e3}


def mnist_cnn():
    from torch import nn

    return nn.Sequential(nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5),
                         nn.Dropout2d(), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(),
                         nn.Linear(320, 50), nn.ReLU(), nn.Dropout(), nn.Linear(50, 10),
                         nn.LogSoftmax(1))


def input_shape(name):
    return (1, 28, 28) if name == "mnist_cnn" else (3, 224, 224)


def torch_model(name, nhwc, training):
    import torch
    import torchvision
    torch.manual_seed(0)
    model = mnist_cnn() if name == "mnist_cnn" else getattr(torchvision.models, name)()
    model.train(training)
    return model.to(memory_format=torch.channels_last) if nhwc else model


def made_once(path, make):
    """A file that is kept for the next run: made beside and then put in its place, so that nobody
    finds a part of it after an interruption, or meanwhile."""
    if not os.path.exists(path):
        whole_file.replace(path, lambda part: make(str(part)))
    return path


def onnx_file(name):
    import torch

    def export(path):
        torch.onnx.export(torch_model(name, False, False), torch.randn(2, *input_shape(name)), path,
                          input_names=["x"], dynamic_axes={"x": {0: "n"}}, dynamo=False)

    return made_once(os.path.join(tempfile.gettempdir(), f"plumb-peer-{name}.onnx"), export)


def run_onnxruntime(name, batch, threads):
    import numpy
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(onnx_file(name), options, ["CPUExecutionProvider"])
    x = numpy.random.randn(batch, *input_shape(name)).astype(numpy.float32)
    return lambda: session.run(None, {"x": x})


def run_openvino(name, batch, threads):
    import numpy
    import openvino
    core = openvino.Core()
    model = core.read_model(onnx_file(name))
    model.reshape([batch, *input_shape(name)])
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    x = numpy.random.randn(batch, *input_shape(name)).astype(numpy.float32)
    return lambda: request.infer({0: x})


def run_torch(stack, name, task, batch):
    import torch
    nhwc = stack == "eager-nhwc"
    model, x = torch_model(name, nhwc, task == "train"), torch.randn(batch, *input_shape(name))
    if nhwc:
        x = x.to(memory_format=torch.channels_last)
    if task == "train":
        small = name == "mnist_cnn"
        y = torch.randint(0, 10 if small else 1000, (batch,))
        loss = torch.nn.functional.nll_loss if small else torch.nn.functional.cross_entropy
        optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

        def step():
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
        return step
    if stack == "script":
        model = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(model, x)))
    if stack == "inductor":
        model = torch.compile(model)

    def infer():
        with torch.inference_mode():
            return model(x)
    return infer


def worker(stack, name, task, batch, threads, seconds):
    import torch
    torch.set_num_threads(threads)
    with torch.no_grad() if task == "infer" else torch.enable_grad():
        if stack == "onnxruntime":
            run = run_onnxruntime(name, batch, threads)
        elif stack == "openvino":
            run = run_openvino(name, batch, threads)
        else:
            run = run_torch(stack, name, task, batch)
        print(json.dumps(sample(run, seconds)))


def plumb(name, task, batch, threads, seconds):
    bench = os.path.join(os.environ.get("PLUMB_BUILD", "build"), "plumb_bench")
    case = f"{name}:{task}:plan:{batch}:{threads}"
    try:
        out = subprocess.run([bench, "--seconds", str(seconds), case], stdout=subprocess.PIPE,
                             check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"peers_cpu: {error}")
    return json.loads(out)


def peer(stack, name, task, batch, threads, seconds):
    command = [sys.executable, __file__, "--worker", stack, "--threads", str(threads), "--seconds",
               str(seconds), f"{name}:{task}:{batch}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        print(f"{stack}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(lines[-1])


def compare(case, arguments):
    name, task, batch = case.split(":")
    stacks = INFER if task == "infer" else TRAIN
    if arguments.inductor and task == "infer":
        stacks += ("inductor",)
    if arguments.stacks:
        stacks = tuple(stack for stack in stacks if stack in arguments.stacks.split(","))
    times = {"plumb": []} | {stack: [] for stack in stacks}
    key = "cpu_ms" if arguments.cpu else "median_ms"
    for _ in range(arguments.rounds):
        how = (int(batch), arguments.threads, arguments.seconds)
        times["plumb"].append(plumb(name, task, *how)[key])
        for stack in stacks:
            found = peer(stack, name, task, *how)
            if found is not None:
                times[stack].append(found[key])
    return {stack: statistics.median(found) for stack, found in times.items() if found}


def check(parser, arguments):
    """Refuses what makes no sense before anything is timed."""
    for case in arguments.cases:
        if not re.fullmatch(r"[^:]+:(infer|train):[1-9]\d*", case):
            parser.error(f"{case}: expected MODEL:TASK:BATCH, with TASK infer or train")
    known = INFER + ("inductor",) if arguments.inductor else INFER
    wrong = [stack for stack in (arguments.stacks or "").split(",") if stack and
             stack not in known]
    if wrong:
        parser.error(f"--stacks {','.join(wrong)}: expected some of {','.join(known)}")
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: expected 1 or more")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--stacks")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("cases", nargs="+", metavar="MODEL:TASK:BATCH")
    arguments = parser.parse_args()
    if arguments.worker:
        name, task, batch = arguments.cases[0].split(":")
        worker(arguments.worker, name, task, int(batch), arguments.threads, arguments.seconds)
        return
    check(parser, arguments)
    results = []
    for case in arguments.cases:
        result = compare(case, arguments)
        if arguments.json:
            results.append({"case": case, "threads": arguments.threads, "times_ms": result})
            continue
        best = min(((ms, stack) for stack, ms in result.items() if stack != "plumb"), default=None)
        row = " ".join(f"{stack} {ms:.1f}" for stack, ms in result.items())
        what = "ms of the processor" if arguments.cpu else "ms"
        ratio = (f"plumb / {best[1]} = {result['plumb'] / best[0]:.2f}" if best else
                 "no peer was timed")
        print(f"{case} threads {arguments.threads}: {row} {what}; {ratio}", flush=True)
    if arguments.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
