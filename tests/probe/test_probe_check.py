#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/probe-check makes of iterations in which the cost of the probe is known, and that what
it begins ahead waits for its turn."""
import importlib.machinery
import importlib.util
import pathlib
import random
import sys
import tempfile
import time
import types

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/probe-check"
loader = importlib.machinery.SourceFileLoader("probe_check", str(TOOL))
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("probe_check", loader))
sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).parents[1]))
from runner import run  # noqa: E402
loader.exec_module(check)


def begins(i):
    """Slower by two fifths at first, the longer the less."""
    return 1 + .4 * .99 ** i


def without(seed):
    draw = random.Random(seed)
    return [(3.5 * begins(i) * draw.uniform(.95, 1.1), 0) for i in range(1000)]


def iterations(seed):
    """30 s of a machine that is now and then half as fast for some seconds: the probe is there for
    1 s at first, then 0.24 s every 4.4, at 16 % of the time and 12 ms as it comes. And its cost."""
    draw = random.Random(seed)
    rows, cost, plain, slow = [], 0, 0, 1
    for i in range(7000):
        if i % 400 == 0:
            slow = draw.choice((1, 1, 1.5))
        base = 4 * slow * begins(i) * draw.uniform(.95, 1.1)
        there = i < 250 or i % 1100 < 60
        more = .16 * base * there + (12 if i % 1100 == 0 else 0)
        rows.append((base + more, int(there)))
        cost, plain = cost + more, plain + base
    return rows, cost / plain


def test_a_known_cost_is_found():
    held = 0
    for seed in range(40):
        rows, truth = iterations(seed)
        found = check.slow_down(rows, without(seed + 100))
        assert found["stretches"] == 7 and abs(found["share"] - truth) < .01, (found, truth)
        held += found["low"] <= truth <= found["high"]
    assert held >= 36, held


def test_no_cost_is_none():
    rows, _ = iterations(1)
    draw = random.Random(2)
    free = [(4 * begins(i) * draw.uniform(.95, 1.1), t) for i, (_, t) in enumerate(rows)]
    found = check.slow_down(free, without(3))
    assert abs(found["share"]) < .003 and found["low"] < 0 < found["high"], found


def test_few_stretches_tell_nothing():
    rows, _ = iterations(1)
    try:
        check.slow_down(rows[:2000], without(3))
    except RuntimeError as error:
        assert "too few to tell what they cost" in str(error)
    else:
        raise AssertionError("told from two stretches")


def test_what_is_begun_ahead_waits():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        c = check.Check.__new__(check.Check)
        c.options = types.SimpleNamespace(limit=60)
        c.ends, c.waiting, c.work, c.out = time.monotonic() + 60, {}, work, work
        c.plumb = work / "plumb"
        c.plumb.write_text("#!/bin/sh\nwhile [ ! -e \"$GPU_PROGRAMS_GATE\" ]; do sleep 0.02; done\n"
                           "for word; do [ \"$last\" = --output ] && echo '{\"told\": 1}' >$word; "
                           "last=$word; done\necho \"$@\"\n")
        c.plumb.chmod(0o755)
        check.begin_ahead(c, ["jax", "save"])
        assert len(c.waiting) == 3
        time.sleep(.2)
        assert all(child.poll() is None for child, _ in c.waiting.values())
        found, out = c.profile([], check.script("jax"))
        assert found == {"told": 1} and out.endswith("jax\n") and len(c.waiting) == 2
        assert "--save" in c.run(check.save_commands(c)[0]) and len(c.waiting) == 1
        child = next(iter(c.waiting.values()))[0]
        c.end_all()
        assert child.returncode == -9


sys.exit(run(globals()))
