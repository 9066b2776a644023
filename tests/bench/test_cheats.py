# SPDX-License-Identifier: Apache-2.0
"""Every known way to cheat is caught, with a reason that names it; an honest stack passes."""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from stacks import Place, check, finish, judged  # noqa: E402

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
    "wrong-momentum": (None, "weight.|length of two steps"),
    "wrong-rate": (None, "step 2|weight.|length of two steps"),
    "stale-weights": (None, "of step 2"),
    "no-second-step": (None, "weight."),
    "same-data-twice": (None, "of step 2"),
    "second-in-bf16": (None, "of step 2"),
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
    "no-device": ("does not say", "does not say"),
    "other-math": ("tf32", "tf32"),
    "nan": ("not finite", "not finite"),
}
TASKS = ("infer", "train")
HONEST = ("honest", "taking-turns")
# Where it begins to differ: the last layer's bias is left out; all weights are others.
LAYERS = {"skipped-layer": "fc2", "other-weights": "conv1", "small-image": "conv1"}


def judge(task, name, case):
    """What must hold of a case: pairs of a condition and what to say if it does not."""
    expected = CHEATS[name][TASKS.index(task)]
    found = f"{task} {name}: {case['outcome']}, {case['reason']}"
    reason = case["reason"] or ""
    if name in HONEST:
        yield (case["outcome"] == "ok" and case["proof"]["equal"] and case["median_ms"] > 0, found)
        yield (case["outcome"] == "ok" and 0 < case["least_ms"] < case["median_ms"],
               f"{found}, {case['least_ms']} ms")
    else:
        yield (case["outcome"] == "invalid" and
               any(words in reason for words in expected.split("|")), found)
        yield (case["median_ms"] is None, f"{task} {name}: has a time")
    if name in LAYERS and task == "infer":
        yield (case["proof"]["first_layer"] == LAYERS[name] and
               f"first layer that differs is {LAYERS[name]}," in reason, found)
    if name in ("tf32", "bf16"):  # by a factor, so that an honest stack has room below
        numbers = re.findall(r"[\d.]+e-\d+|0\.\d+", reason)
        yield (len(numbers) >= 2 and float(numbers[0]) >= 2 * float(numbers[1]), found)


def run(place, task):
    def bench(names, attempt):
        status, document, err = place.run(
            "bench", "mnist_cnn", "--task", task, "--stack", ",".join(names), "--batch", "32",
            "--threads", "1", "--time", "0.1", "--starts", "1", "--no-lock")
        if attempt == 0:
            check(status == 1, f"{task}: exit status {status}: {err[-2000:]}")
        return {case["stack"]: case for case in document["cases"]} if document else {}

    names = [name for name, reasons in CHEATS.items() if reasons[TASKS.index(task)] is not None]
    judged(names, bench, lambda name, case: judge(task, name, case))


def verify(place, expected, *words):
    """`expected`: of each stack, what the reason says why it is not equal; "" where it is."""
    _, document, err = place.run("verify", *words, "--threads", "1", "--stack", ",".join(expected),
                                 "--no-lock")
    check(document, f"verify {words}: {err[-2000:]}")
    reasons = {case["stack"]: case["reason"] or "" for case in (document or {"cases": []})["cases"]}
    for name, text in expected.items():
        reason = reasons.get(name, "no case")
        check(text in reason and bool(text) == bool(reason), f"{words}, {name}: {reason}")


def field(number, value):
    """A field of a protocol buffer: an integer, or bytes with their length."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    value = value.encode() if isinstance(value, str) else value
    assert len(value) < 128
    return bytes([number << 3 | 2, len(value)]) + value


def write_log_model(path):
    """y = log(x) of two rows of 64, as an ONNX file."""
    dims = b"".join(field(1, field(1, extent)) for extent in (2, 64))
    of_type = field(2, field(1, field(1, 1) + field(2, dims)))
    graph = field(1, field(1, "x") + field(2, "y") + field(4, "Log")) + field(2, "log")
    graph += field(11, field(1, "x") + of_type) + field(12, field(1, "y") + of_type)
    with open(path, "wb") as file:
        file.write(field(1, 8) + field(7, graph) + field(8, field(2, 17)))


def run_no_numbers(place):
    """Of normal noise the logarithm is no number half of the time, and nothing else is right."""
    path = os.path.join(place.path, "log.onnx")
    write_log_model(path)
    verify(place, {"honest": "", "numbers-for-none": "not finite"}, path)


def run_coarse(place):
    """Coarse numbers excuse what their rounding does, and nothing else."""
    verify(place, {"coarse": "", "coarse-dropped-gradient": "grad.conv2.weight",
                   "coarse-long-gradient": "grad.conv2.weight differs"},
           "lenet5", "--task", "train", "--batch", "8", "--autocast", "bf16")
    verify(place, {"says-tf32": "", "tf32-in-bf16": "output of batch"},
           "lenet5", "--batch", "8", "--math", "tf32")
    verify(place, {"tf32-in-bf16": "output of step"},
           "lenet5", "--task", "train", "--batch", "8", "--math", "tf32")


def run_faded(place):
    """Values of a network that nobody trained must not fade: all inputs would have one output."""
    verify(place, {"honest": "", "small-image": "output of batch"},
           "googlenet", "--size", "64", "--batch", "1")


def run_return(place):
    """Region `return` ends before the work does: that is what it is."""
    _, document, err = place.run("bench", "mnist_cnn", "--region", "return", "--batch", "32",
                                 "--threads", "1", "--time", "0.1", "--starts", "1", "--no-lock",
                                 "--stack", "early-return-inside")
    case = document["cases"][0] if document else {"outcome": err[-2000:], "reason": None}
    check(case["outcome"] == "ok", f"region return: {case['outcome']}, {case['reason']}")


def run_statistics(place):
    """What only a model with running statistics shows; its reference takes a while."""
    verify(place, {"honest": "", "stale-statistics": "buffer.", "second-in-bf16": "of step 2"},
           "shufflenet_v2_x1_0", "--size", "32", "--task", "train", "--batch", "8")


def main():
    place = Place()
    place.add_script("cheat_stack.py", *CHEATS, "stale-statistics", "coarse",
                     "coarse-dropped-gradient", "coarse-long-gradient", "says-tf32",
                     "tf32-in-bf16", "numbers-for-none")
    for task in TASKS:
        run(place, task)
    run_no_numbers(place)
    run_coarse(place)
    run_faded(place)
    run_return(place)
    if os.environ.get("PLB_TEST_FULL") == "1":
        run_statistics(place)
    finish()


main()
