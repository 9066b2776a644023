# SPDX-License-Identifier: Apache-2.0
"""Every known way to cheat is caught, with a reason that names it; an honest stack passes."""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from stacks import Place, check, finish  # noqa: E402

# The cheat, and what the reason must say (one of several, by |): in inference and in training
# (None: not tried there).
CHEATS = {
    "honest": ("", ""),
    "taking-turns": ("", ""),
    "half-batch": ("output of batch", "differs"),
    "half-batch-timed": ("output of a timed iteration", None),
    "small-image": ("output of batch", "differs"),
    "cached-output": ("output of batch 1", None),
    "memo": ("never seen|outside of the time", None),
    "ahead": ("when batches arrive|outside of the time", None),
    "skipped-layer": ("output of batch", "differs"),
    "other-weights": ("output of batch", "differs"),
    "no-evaluation-mode": ("output of batch", None),
    "no-training-mode": (None, "dropout"),
    "no-optimizer": (None, "loss|weight."),
    "no-optimizer-timed": (None, "did not change"),
    "dropped-gradient": (None, "grad.conv2.weight"),
    "tf32": ("output of batch", "differs"),
    "bf16": ("output of batch", "differs"),
    "early-return": ("answers before|timed iteration|only|batches arrive|outside of the time",
                     None),
    "early-return-inside": ("outside of the time", "outside of the time"),
    "every-other": ("outside of the time", "outside of the time"),
    "shortened-later": ("cannot take less than", "cannot take less than"),
    "more-threads": ("thread was told", "thread was told"),
    "admitted-threads": ("thread", "thread"),
    "other-device": ("cuda:0", "cuda:0"),
    "other-math": ("tf32", "tf32"),
    "nan": ("not finite", "not finite"),
}
HONEST = ("honest", "taking-turns")
# Where it begins to differ: the last layer's bias is left out; all weights are others.
LAYERS = {"skipped-layer": "fc2", "other-weights": "conv1", "small-image": "conv1"}


def run(place, task, column):
    names = [name for name, reasons in CHEATS.items() if reasons[column] is not None]
    status, document, err = place.run(
        "bench", "mnist_cnn", "--task", task, "--stack", ",".join(names), "--batch", "32",
        "--threads", "1", "--time", "0.1", "--starts", "1", "--no-lock")
    check(status == 1, f"{task}: exit status {status}: {err[-2000:]}")
    if not document:
        return
    cases = {case["stack"]: case for case in document["cases"]}
    check(list(cases) == names, f"{task}: cases {list(cases)}")
    for name, case in cases.items():
        expected = CHEATS[name][column]
        found = f"{task} {name}: {case['outcome']}, {case['reason']}"
        if name in HONEST:
            check(case["outcome"] == "ok" and case["proof"]["equal"] and case["median_ms"] > 0,
                  found)
            check(0 < case["least_ms"] < case["median_ms"], f"{found}, {case['least_ms']} ms")
        else:
            check(case["outcome"] == "invalid" and
                  any(words in (case["reason"] or "") for words in expected.split("|")), found)
            check(case["median_ms"] is None, f"{task} {name}: has a time")
        if name in LAYERS and task == "infer":
            check(case["proof"]["first_layer"] == LAYERS[name] and
                  f"first layer that differs is {LAYERS[name]}," in case["reason"], found)
        if name in ("tf32", "bf16"):  # by a factor, so that an honest stack has room below
            error, allowed = map(float, re.findall(r"[\d.]+e-\d+|0\.\d+", case["reason"])[:2])
            check(error >= 2 * allowed, f"{task} {name}: {error} against {allowed}")
            print(f"{task} {name}: differs by {error}, allowed are {allowed}")


def main():
    place = Place()
    place.add_script("cheat_stack.py", *CHEATS)
    run(place, "infer", 0)
    run(place, "train", 1)
    finish()


main()
