#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ten training steps of resnet18 on a GPU beside PyTorch on the same GPU: the losses of each.

Two runs of PyTorch, with cuDNN's deterministic algorithms and with its default ones, say how far
honest runs may differ: ours may be off by three times the largest relative difference between
them over the ten steps, by at least 1e-5 in f32 and 2e-3 under bf16 autocast. As sums are added in
another order each time, both differences are other ones in every run, by a factor of three and
more: each is the median of several. TF32 is off. The learning rate is small, since with ten times
as much rounding grows so fast that two runs of PyTorch's f32 are 3e-3 apart after six steps; where
cuDNN's default algorithms happen to be the deterministic ones, only that least difference is
allowed.

    PLUMB_BUILD=build torch_steps.py        # a Python with torch, torchvision and safetensors

Prints a line of JSON for each dtype, with the losses of all runs, then the counts.
"""
import copy
import json
import os
import statistics
import subprocess
import sys
import tempfile

import torch
import torchvision
from safetensors.torch import load_file, save_file

DUMP = os.path.join(os.environ.get("PLUMB_BUILD", "build"), "tests/zoo_dump")
STEPS, BATCH, SIZE, LR = 10, 32, 128, 0.001
RUNS = 5  # of PyTorch's default algorithms, and of ours
LEAST = {"f32": 1e-5, "bf16": 2e-3}


def losses_of_torch(model, data, dtype, deterministic):
    torch.backends.cudnn.deterministic = deterministic
    model = copy.deepcopy(model).cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    losses = []
    for x, y in data:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=dtype == "bf16"):
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def losses_of_plumb(model, data, dtype):
    tensors = {k: v.contiguous() for k, v in model.state_dict().items()}
    for i, (x, y) in enumerate(data):
        tensors[f"x.{i}"], tensors[f"y.{i}"] = x, y
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "in"), os.path.join(folder, "out")
        save_file(tensors, source)
        subprocess.run([DUMP, source, target, "model=resnet18", f"steps={STEPS}", f"lr={LR}",
                        "momentum=0.9", "device=cuda", "level=replay", "tune=5",
                        f"autocast={'bf16' if dtype == 'bf16' else 'no'}"], check=True)
        found = load_file(target)
        return [found[f"step.loss.{i}"].item() for i in range(STEPS)]


def furthest(a, b):
    return max(abs(x - y) / abs(y) for x, y in zip(a, b))


def judge(ours, usual, fixed, least):
    """What was found, and what is allowed; each of many runs beside one of PyTorch's."""
    spread = statistics.median(furthest(run, fixed) for run in usual)
    found = statistics.median(min(furthest(run, fixed), furthest(run, other))
                              for run, other in zip(ours, usual))
    return found, max(least, 3 * spread)


def main():
    torch.manual_seed(5)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    model = torchvision.models.resnet18(weights=None)
    data = [(torch.randn(BATCH, 3, SIZE, SIZE), torch.randint(0, 1000, (BATCH,)))
            for _ in range(STEPS)]
    failed = 0
    for dtype, least in LEAST.items():
        usual = [losses_of_torch(model, data, dtype, False) for _ in range(RUNS)]
        fixed = losses_of_torch(model, data, dtype, True)
        ours = [losses_of_plumb(model, data, dtype) for _ in range(RUNS)]
        found, allowed = judge(ours, usual, fixed, least)
        failed += not found <= allowed
        print(json.dumps({"dtype": dtype, "plumb": ours, "torch": usual, "torch_fixed": fixed,
                          "difference": found, "allowed": allowed}), flush=True)
    print(f"{len(LEAST) - failed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
