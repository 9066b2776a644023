#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The stacks of others as a user meets them: added with --python, then proven by plumb against its
own f64 reference on mnist_cnn. PLB_TEST_FULL=1: torch-compile and resnet18 as well."""
import json
import os
import subprocess
import sys
import tempfile

import harness

harness.need("torch", "torchvision", "safetensors", "onnx", "onnxruntime", "openvino")

PLUMB = os.environ.get("PLUMB", "build/plumb")
TRAIN = ["torch-eager", "torch-script"] + (["torch-compile"] if os.environ.get("PLB_TEST_FULL")
                                           else [])
INFER = TRAIN + ["onnxruntime", "openvino"]


def plumb(*words, code=0):
    run = subprocess.run([PLUMB, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, timeout=500, check=False)
    assert run.returncode == code, (words, run.returncode, run.stdout[-2000:], run.stderr[-2000:])
    return run.stdout


def outcomes(text):
    return {(c["stack"], c["task"]): (c["outcome"], c.get("reason") or "")
            for c in json.loads(text)["cases"]}


def test_add(_folder):
    for family in ("torch", "onnxruntime", "openvino"):
        plumb("stacks", "add", family, "--python", sys.executable)
    text = plumb("stacks", "list", "--json")
    states = {e["name"]: e["state"] for e in json.loads(text)["stacks"]}
    assert all(states[name] == "ready" for name in INFER), states


def prove(model, size, batch):
    def test(_folder):
        found = outcomes(plumb("verify", model, "--task", "infer,train", "--batch", batch,
                               "--size", size, "--threads", "2", "--stack", ",".join(INFER),
                               "--no-lock", "--json"))
        for stack in INFER:
            assert found[stack, "infer"][0] == "ok", (stack, found[stack, "infer"])
            outcome, reason = found[stack, "train"]
            if stack in TRAIN:
                assert outcome == "ok", (stack, outcome, reason)
            else:
                assert outcome == "refused" and "task train" in reason, (stack, outcome, reason)
    return test


def test_mixed_precision(_folder):
    """What PyTorch trains in 16 bits is equal, though early gradients differ by their own size."""
    text = plumb("verify", "mobilenet_v2", "--task", "train", "--batch", "8", "--size", "64",
                 "--autocast", "bf16,f16", "--stack", "torch-eager", "--no-lock", "--json")
    assert [c["outcome"] for c in json.loads(text)["cases"]] == ["ok", "ok"], text


def test_stacks_test(_folder):
    """`plumb stacks test` is that proof, of one stack; what cannot be proven is no success."""
    found = outcomes(plumb("stacks", "test", "openvino", "--json"))
    assert found["openvino", "infer"][0] == "ok", found
    plumb("stacks", "test", "torch-no-such", code=2)
    found = outcomes(plumb("stacks", "test", "torch-cudagraph", "--json", code=5))
    assert {outcome for outcome, _ in found.values()} == {"refused"}, found


TESTS = [("add", test_add), ("mnist_cnn", prove("mnist_cnn", "28", "8")),
         ("mixed precision", test_mixed_precision), ("stacks test", test_stacks_test)]
if os.environ.get("PLB_TEST_FULL"):
    TESTS.append(("resnet18", prove("resnet18", "224", "8")))

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"XDG_DATA_HOME": home, "XDG_CACHE_HOME": home, "PLUMB_STACKS": ""}
        sys.exit(harness.run_all(TESTS))
