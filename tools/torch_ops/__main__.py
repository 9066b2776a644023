# SPDX-License-Identifier: Apache-2.0
"""Compares the reference of every op, and its gradients, with PyTorch in f64.

    build/tests/test_ops --dump ops.dump && python tools/torch_ops ops.dump
    python tools/torch_ops --test build/tests/test_ops              # both at once
    python tools/torch_ops --test build/tests/test_ops --write tests/golden/ops.json

--write also stores fingerprints of PyTorch's numbers, for tests where PyTorch is not installed;
nothing is written where a case has none.
Exit status: 0 all equal, 1 not, 2 bad usage.
"""
import argparse
import importlib
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import torch

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
from registry import FUNCTIONS, WITHOUT  # noqa: E402
from pointwise import DTYPES  # noqa: E402

for module in sorted(FOLDER.glob("*.py")):
    if not module.stem.startswith("_"):
        importlib.import_module(module.stem)

TOLERANCE = 1e-10  # of the largest element


def tensor_of(item):
    if item is None:
        return None
    dtype = DTYPES[item["dtype"]]
    data = item["data"]
    if item["dtype"] == "u64":  # written as i64
        data = [x & 0xFFFFFFFFFFFFFFFF for x in data]
    return torch.tensor(data, dtype=dtype).reshape(item["shape"])


def fingerprint(x):
    """L2 norm, and product with a fixed vector that tests/engine/test_ops.c has too."""
    flat = x.detach().to(torch.float64).reshape(-1)
    i = torch.arange(flat.numel(), dtype=torch.int64)
    fixed = (i * 2654435761 % 2**32).to(torch.float64) / 2**31 - 1
    return [float(flat.square().sum().sqrt()), float((flat * fixed).sum())]


def difference(found, expected):
    """None when equal, else words."""
    if found.dtype != expected.dtype:
        return f"{found.dtype} for {expected.dtype}"
    if found.shape != expected.shape:
        return f"shape {list(found.shape)} for {list(expected.shape)}"
    a, b = found.to(torch.float64), expected.to(torch.float64)
    if not torch.equal(a.isnan(), b.isnan()):
        return "other NaNs"
    same = (a == b) | a.isnan()
    finite = b[torch.isfinite(b)]
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    error = torch.where(same, torch.zeros_like(a), (a - b).abs())
    worst = float(error.max()) if error.numel() else 0.0
    allowed = TOLERANCE * scale if expected.is_floating_point() else 0
    return f"differs by {worst:.3g} of {scale:.3g}" if worst > allowed else None


def gradients_of(case, inputs, outputs):
    """Of the sum of outputs times weights, for every input that is asked for."""
    loss = 0
    for y, weight in zip(outputs, case["weights"]):
        if y is not None and weight is not None and y.requires_grad:
            loss = loss + (y.to(torch.float64) * tensor_of(weight)).sum()
    if not isinstance(loss, torch.Tensor):
        return [torch.zeros_like(x) if asked else None for x, asked in zip(inputs, case["asked"])]
    wanted = [x for x, asked in zip(inputs, case["asked"]) if asked]
    found = iter(torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True))
    return [next(found) if asked else None for asked in case["asked"]]


def check(case):
    """The entry for the golden file, and a list of what differs."""
    if case["op"] in WITHOUT:
        return {"without": WITHOUT[case["op"]]}, []
    if case["op"] not in FUNCTIONS:
        return None, ["no function in tools/torch_ops"]
    inputs = [tensor_of(item) for item in case["inputs"]]
    for x, asked in zip(inputs, case.get("asked", [])):
        if asked:
            x.requires_grad_(True)
    outputs = FUNCTIONS[case["op"]](case["attrs"], *inputs)
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    wrong = []
    if len(outputs) != len(case["outputs"]):
        wrong.append(f"{len(case['outputs'])} outputs for {len(outputs)}")
    for k, (y, item) in enumerate(zip(outputs, case["outputs"])):
        words = difference(tensor_of(item), y.detach()) if y is not None else None
        if words:
            wrong.append(f"output {k}: {words}")
    entry = {"inputs": [fingerprint(x) if x is not None else None for x in inputs],
             "outputs": [fingerprint(y) if y is not None else None for y in outputs]}
    if "gradients" in case:
        gradients = gradients_of(case, inputs, outputs)
        entry["gradients"] = [fingerprint(g) if g is not None else None for g in gradients]
        for k, (g, item) in enumerate(zip(gradients, case["gradients"])):
            if g is None:
                continue
            ours = tensor_of(item) if item is not None else torch.zeros_like(g)
            words = difference(ours, g)
            if words:
                wrong.append(f"gradient {k}: {words}")
    return entry, wrong


def check_all(cases):
    golden, failures = {}, 0
    for case in cases:
        try:
            entry, wrong = check(case)
        except Exception as error:  # one bad mapping must not hide the others
            entry, wrong = None, [f"{type(error).__name__}: {error}"]
        if wrong:
            failures += 1
            print(f"{case['op']}, {case['sample']}: {'; '.join(wrong)}", file=sys.stderr)
        if entry:
            golden.setdefault(case["op"], {})[case["sample"]] = entry
    return golden, failures


def write(golden, path):
    """One line a sample, so that changes show in diffs."""
    for samples in golden.values():
        for name, entry in samples.items():
            if not all(math.isfinite(x) for v in entry.values() if isinstance(v, list)
                       for pair in v if pair for x in pair):
                raise SystemExit(f"{name}: NaN or infinity has no fingerprint")
    ops = []
    for name, samples in golden.items():
        lines = [f"  {json.dumps(key)}: {json.dumps(entry)}" for key, entry in samples.items()]
        ops.append(f" {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n }")
    path.write_text("{\n" + ",\n".join(ops) + "\n}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump", nargs="?", type=pathlib.Path)
    parser.add_argument("--test", type=pathlib.Path, help="the test_ops to take the dump from")
    parser.add_argument("--write", type=pathlib.Path, metavar="GOLDEN")
    args = parser.parse_args()
    if (args.dump is None) == (args.test is None):
        parser.error("give either a dump or --test")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        dump = args.dump or pathlib.Path(folder) / "ops.dump"
        if args.test:
            subprocess.run([args.test, "--dump", dump], check=True)
        cases = json.loads(dump.read_text())
    if not cases:
        raise SystemExit(f"torch_ops: {args.dump or args.test}: no case in it")
    golden, failures = check_all(cases)
    if args.write and sum(map(len, golden.values())) < len(cases):
        print(f"{args.write} is left as it was: a case has no numbers of PyTorch's",
              file=sys.stderr)
    elif args.write:
        write(golden, args.write)
    print(f"PyTorch {torch.__version__}")
    print(f"{len(cases) - failures} passed, {failures} failed, 0 skipped")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
