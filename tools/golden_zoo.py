#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/zoo_names.json from PyTorch and torchvision.

    tools/golden_zoo.py      (with a Python that has torch and torchvision)

Per model: how many entries its state_dict has, the FNV-1a hash of the lines "name dtype shape\\n"
in their order, the elements of its parameters and buffers, the multiply-adds of the convolutions
and matrix products of one sample in inference as PyTorch's own counter counts them, and, where
torchvision publishes them, its parameters and multiply-adds in 1e9.
"""
import json
import pathlib
import re
import sys

import torch
from torch.utils.flop_counter import FlopCounterMode

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/zoo"))
import torch_models  # noqa: E402
import whole_file  # noqa: E402

DTYPES = {torch.float32: "f32", torch.int64: "i64"}
ENTRY = re.compile(r"^ZOO\((\w+), \w+, -?\d+, \"\w+\", \"\w+\", \d+, \d+, (\d+), (\d+), (\d+)",
                   re.MULTILINE)


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def describe(name, extent):
    model = torch_models.make(name).eval()
    state = model.state_dict()
    lines = "".join(f"{key} {DTYPES[value.dtype]} {list(value.shape)}\n"
                    for key, value in state.items())
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, *extent))
    entry = {
        "variables": len(state),
        "hash": f"{fnv1a(lines):016x}",
        "parameters": sum(p.numel() for p in model.parameters()),
        "buffers": sum(b.numel() for b in model.buffers()),
        "products": counter.get_total_flops() // 2,
    }
    published = torch_models.published(name)
    if published:
        entry["published_parameters"], entry["published_giga_products"] = published
    return entry


def main():
    golden = {}
    for name, *extent in ENTRY.findall((ROOT / "src/zoo/zoo.def").read_text()):
        golden[name] = describe(name, [int(e) for e in extent])
    path = ROOT / "tests/golden/zoo_names.json"
    lines = ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in golden.items())
    whole_file.replace_text(path, "{\n" + lines + "\n}\n")
    print(f"{len(golden)} models in {path}")


if __name__ == "__main__":
    main()
