#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/probe-check makes of iterations in which the cost of the probe is known, that what it
begins ahead waits for its turn, and what an interrupt leaves."""
import importlib.machinery
import importlib.util
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import types

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/probe-check"
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
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


def scripts(work):
    """A GPU that answers, and a plumb that writes down who it is and stays."""
    for name, text in (("nvidia-smi", "echo 'No card, 1.2'"),
                       ("plumb", f"echo $$ >>{work}/pids; exec sleep 60")):
        (work / name).write_text(f"#!/bin/sh\n{text}\n")
        (work / name).chmod(0o755)
    (work / "tmp").mkdir()
    return {**os.environ, "PATH": f"{work}:{os.environ['PATH']}", "TMPDIR": str(work / "tmp")}


def alive(pid):
    status = pathlib.Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def interrupted(number):
    """Status, and what is left of the programs and of the folder that they worked in."""
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        environment, pids = scripts(work), []
        with subprocess.Popen([sys.executable, TOOL, "--parts", "later,jax", "--out", work / "out",
                               "--programs", work], env=environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
                              ) as tool:
            until = time.monotonic() + 30
            while len(pids) < 2 and time.monotonic() < until:
                time.sleep(.05)
                pids = (work / "pids").read_text().split() if (work / "pids").exists() else []
            time.sleep(.3)  # until it waits for the first
            tool.send_signal(number)
            tool.wait(timeout=30)
        left = [pid for pid in pids if alive(pid)]
        for pid in left:
            os.kill(int(pid), signal.SIGKILL)
        return tool.returncode, len(pids), left, list((work / "tmp").iterdir())


def test_an_interrupt_leaves_nothing():
    assert interrupted(signal.SIGINT) == (-signal.SIGINT, 2, [], [])
    assert interrupted(signal.SIGTERM) == (128 + signal.SIGTERM, 2, [], [])


def test_results_that_are_broken():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        environment = scripts(work)
        kept = work / "probe-check.json"
        for text in ('{"parts": {', "[]", "{}"):
            kept.write_text(text)
            done = subprocess.run([sys.executable, TOOL, "--parts", "jax", "--resume", "--out",
                                   work, "--programs", work], env=environment, check=False,
                                  capture_output=True, text=True)
            told = done.stderr.splitlines()
            assert done.returncode == 2 and len(told) == 1 and "--resume" in told[0], told
            assert kept.read_text() == text


def test_results_are_whole_whatever_comes_between():
    whole = pathlib.Path.write_text

    def half(path, text, **_):
        whole(path, text[:len(text) // 2])
        raise KeyboardInterrupt

    with tempfile.TemporaryDirectory() as folder:
        c = types.SimpleNamespace(out=pathlib.Path(folder), checks=[], data={
            "device": "No card", "driver": "1", "seconds": 1, "parts": {}})
        check.write(c)
        before = (c.out / "probe-check.json").read_bytes()
        pathlib.Path.write_text = half
        try:
            check.write(c)
        except KeyboardInterrupt:
            pass
        finally:
            pathlib.Path.write_text = whole
        assert (c.out / "probe-check.json").read_bytes() == before


sys.exit(run(globals()))
