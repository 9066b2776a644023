# SPDX-License-Identifier: Apache-2.0
"""Reports for the tests: a document with every kind of figure, and runs of a store."""
import json
import math
import os
import random
import subprocess

PLUMB = os.environ.get("PLUMB", "build/plumb")
EVIL = "<img src=x onerror=alert(1)>\"'&|`*_[x](javascript:1)</script><script>alert(2)</script>"
STACKS = ["plumb-interp", "plumb-plan", "torch-eager", "torch-compile", "onnxruntime"]


def plumb(*words, code=0, **options):
    run = subprocess.run([PLUMB, *map(str, words)], capture_output=True, text=True, timeout=120,
                         check=False, **options)
    assert run.returncode == code, (run.args, run.returncode, run.stdout[-500:], run.stderr)
    return run.stdout


def line(name, ys, **more):
    return {"name": name, "x": list(range(1, len(ys) + 1)), "y": ys, **more}


def figures():
    """One block of every kind of figure."""
    ramp = [40, 55, 62, 66, 69, 71]
    sizes, batches = [32, 64, 128], [1, 8, 64, 512]
    cells = [[0.1 * s / (1 + b / 9) for b in batches] for s in sizes]
    slow = [[0.5 + 0.12 * s / (1 + b / 9) for b in batches] for s in sizes]
    slow[2][3] = "oom"
    return [
        {"kind": "figure", "type": "bars", "name": "bars", "title": "Levels",
         "caption": "Median and interval.", "y": {"label": "time", "unit": "ms"},
         "categories": ["plumb-plan", "torch-eager", EVIL],
         "series": [{"name": "", "values": [0.3, 3, "oom"], "low": [0.28, 2.5, None],
                     "high": [0.32, 3.4, None]}]},
        {"kind": "figure", "type": "bars", "name": "log", "title": "Two series, logarithmic",
         "y": {"label": "time", "unit": "ms", "log": True}, "categories": ["a", "b"],
         "series": [{"name": "infer", "values": [0.3, 30]}, {"name": "train", "values": [1, 900]}]},
        {"kind": "figure", "type": "stacked", "name": "breakdown", "title": "Where the time goes",
         "y": {"label": "share", "unit": "%"}, "categories": ["infer", "train"],
         "series": [{"name": "active", "values": [61, 82]}, {"name": "moving", "values": [9, 6]},
                    {"name": "idle", "values": [30, 12]}]},
        {"kind": "figure", "type": "lines", "name": "accuracy", "title": "Accuracy",
         "x": {"label": "epoch"}, "y": {"label": "accuracy", "unit": "%"},
         "command": "plumb study levels --part accuracy",
         "series": [line("torch-eager", ramp, low=[y - 2 for y in ramp],
                         high=[y + 2 for y in ramp]),
                    line(EVIL, [y + 0.5 for y in ramp]),
                    line("openvino", [None, "refused", "oom", None, None, None])]},
        {"kind": "figure", "type": "areas", "name": "memory", "title": "Memory over the schedule",
         "x": {"label": "step"}, "y": {"label": "memory", "unit": "MiB"},
         "series": [line("weights", [44] * 6), line("activations", [2, 60, 120, 110, 40, 3])]},
        {"kind": "figure", "type": "scatter", "name": "roofline", "title": "Ops against the roofs",
         "x": {"label": "intensity", "unit": "flop/byte", "log": True},
         "y": {"label": "achieved", "unit": "GFLOP/s", "log": True},
         "series": [{"name": "bandwidth", "style": "line", "x": [0.1, 8], "y": [1.8, 150]},
                    {"name": "conv2d", "x": [20, 40], "y": [80, 120], "labels": ["stem", EVIL]}]},
        {"kind": "figure", "type": "heat", "name": "surface", "title": "A surface", "ratio": True,
         "x": {"label": "batch", "ticks": batches}, "y": {"label": "size", "ticks": sizes},
         "value": {"label": "time", "unit": "ms", "log": True},
         "layers": [{"name": "plumb-plan", "cells": cells}, {"name": EVIL, "cells": slow}]},
    ]


def document():
    rows = [[f"row {i:02d}", (7 * i) % 20 + 0.5, None if i == 3 else f"text {(3 * i) % 20}"]
            for i in range(20)]
    return {
        "document": "report", "version": 1, "title": EVIL, "subtitle": "subtitle " + EVIL,
        "command": "plumb study all --quick",
        "summary": [{"verdict": "reproduced", "text": "The gap narrows. " + EVIL},
                    {"verdict": EVIL, "text": "A strange verdict."},
                    {"text": " ".join(["A", "long"] + 30 * ["longer"] + ["sentence."])}],
        "sections": [
            {"title": "Figures " + EVIL, "blocks": figures()},
            {"title": "Texts", "blocks": [
                {"kind": "text", "text": "First " + EVIL + "\n\nSecond paragraph."},
                {"kind": "list", "items": ["one", EVIL]}, {"kind": "code", "text": "echo " + EVIL},
                {"kind": "log", "title": "Log", "text": "a\nb " + EVIL},
                {"kind": "table", "name": "numbers", "title": "Numbers",
                 "columns": [{"name": "name", "type": "text"},
                             {"name": "time", "type": "number", "unit": "ms"},
                             {"name": "remark", "type": "text"}], "rows": rows}]}],
        "fingerprint": {"cpu": EVIL}, "proof": [{"equal": True}]}


# ---------------------------------------------------------------------------- runs of a store
def block(draw, ns, kind, sweep, began, count):
    return {"kind": kind, "sweep": sweep, "began_ns": began, "iterations_per_sample": 1, "marks": 0,
            "samples_ns": [int(ns * draw.lognormvariate(0, 0.01)) for _ in range(count)]}


def start(draw, number, ns):
    ns *= math.exp(draw.uniform(-0.003, 0.003))
    warm = [block(draw, ns * (1 + 4 / (i + 1)), "warmup", None, i, 4) for i in range(4)]
    timed = [block(draw, ns, "timed", sweep, 10 + sweep, 8) for sweep in range(4)]
    return {"number": number, "group": number, "outcome": "ok", "steady": True, "stop": "precise",
            "warmup_iterations": 16, "load_ns": 5_000_000, "first_call_ns": int(4 * ns),
            "compile_ns": None, "peak_rss_bytes": 1 << 27, "device_peak_bytes": None,
            "ran": {"threads": {"intra": 2}}, "memory": {"planned_bytes": 1 << 20},
            "blocks": warm + timed}


def measured(draw, ns, starts=3, **keys):
    case = {"model": "resnet18", "task": "infer", "stack": "plumb-plan", "batch": 8, "size": 64,
            "threads": 2, **keys}
    return {"case": case, "outcome": "ok", "versions": {"plumb": "1"},
            "proof": {"equal": True, "checked": ["output"], "max_rel_error": 1e-6,
                      "worst_over_tolerance": 0.05},
            "starts": [start(draw, i, ns) for i in range(starts)]}


def failed(outcome, reason, **keys):
    case = {"model": "resnet18", "task": "infer", "stack": "plumb-plan", "batch": 8, "size": 64,
            "threads": 2, **keys}
    return {"case": case, "outcome": outcome, "reason": reason, "log": None, "starts": []}


def run_of(draw, cases, label=None):
    return {"document": "run", "document_version": 1, "run": {
        "uuid": f"{draw.getrandbits(128):032x}", "label": label, "command": "plumb bench resnet18",
        "git": None, "state": "done", "began_ms": 1_700_000_000_000, "ended_ms": 1_700_000_060_000,
        "machine": {"cpu_model": "Test CPU", "logical_cpus": 2}, "fingerprint": {"state": {}},
        "fingerprint_end": None}, "cases": cases}


def small_run(draw, label="small"):
    """Five stacks that are compared, one of which broke, and sweeps of two over three keys."""
    cost = {"plumb-interp": 3e6, "plumb-plan": 1e6, "torch-eager": 5e6, "torch-compile": 1.2e6}
    cases = [measured(draw, ns, stack=stack) for stack, ns in cost.items()]
    cases.append(failed("crash", "signal 11 " + EVIL, stack="onnxruntime"))
    for stack in ("plumb-plan", "torch-eager"):
        for batch in (1, 16, 32):
            for size in (32, 64):
                ns = cost[stack] * (0.2 + batch * size * size / 32768)
                cases.append(measured(draw, ns, stack=stack, batch=batch, size=size))
        cases.append(measured(draw, cost[stack] * 1.8, stack=stack, threads=1))
    return run_of(draw, cases, label)


def large_run(draw, count=1000):
    """A suite: many models in both tasks."""
    cases = []
    for i in range(count // len(STACKS)):
        for k, stack in enumerate(STACKS):
            cases.append(measured(draw, 1e5 * (1 + i) * (1 + 0.3 * k), starts=1, stack=stack,
                                  model=f"model_{i // 2}", task=("infer", "train")[i % 2]))
    return run_of(draw, cases, "suite")


def add(db, folder, content):
    path = os.path.join(folder, "import.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)
    return int(plumb("import", path, "--db", db).split()[-1])


def generator():
    return random.Random(7)
