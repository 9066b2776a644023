#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The timed loops of the Python workers: what each region covers, and what a loop costs; and what
they say of a model that cannot be exported."""
import gc
import os
import sys
import time

import harness

harness.need("numpy")

import numpy as np  # noqa: E402
from plumb_stack import exports, measure  # noqa: E402
from plumb_stack.errors import Cancelled, Refused  # noqa: E402


def block(calls, n, finish=None, check=-1, keep=None, cancelled=lambda: False):
    times = np.zeros(n, np.int64)
    return measure.Block(calls, memoryview(times), check, keep, finish, cancelled), times


def sleeper(log, name, seconds):
    def call():
        log.append(name)
        time.sleep(seconds)
        return name
    return call


def test_regions(_folder):
    """A call that returns at once and a device that needs 3 ms."""
    for region, low, high in (("latency", 3e6, 1e9), ("return", 0, 2e6), ("host", 3e6, 1e9)):
        log = []
        job, times = block([sleeper(log, "a", 0), sleeper(log, "b", 0)], 6,
                           sleeper(log, "wait", 0.003))
        assert measure.run(job, region, 6) == 6
        assert log == ["wait"] + ["a", "wait", "b", "wait"] * 3, (region, log)
        assert low <= np.median(times) <= high, (region, times)
    log = []
    job, times = block([sleeper(log, "a", 0.001)], 1, sleeper(log, "wait", 0.003))
    assert measure.run(job, "queued", 5) == 1
    assert log == ["wait"] + ["a"] * 5 + ["wait"], log
    assert times[0] >= 8e6, times


def test_checked(_folder):
    """The iteration asked for is kept once, behind its own time; with `queued` the last."""
    for region, check, expected in (("latency", 2, (2, "a")), ("return", 1, (1, "b")),
                                    ("queued", 0, (3, "b"))):
        kept, log = [], []
        job, _ = block([sleeper(log, "a", 0), sleeper(log, "b", 0)], 4, lambda: None, check,
                       lambda i, out: kept.append((i, out)))
        measure.run(job, region, 4)
        assert kept == [expected], (region, kept)


def test_collector(_folder):
    """No garbage is collected in a block, and the collector is as before behind it."""
    seen = []
    job, _ = block([lambda: seen.append(gc.isenabled())], 3)
    measure.run(job, "latency", 3)
    assert seen == [False] * 3 and gc.isenabled()


def test_cancel(_folder):
    asked = []

    def cancelled():
        asked.append(1)
        return True
    job, _ = block([lambda: None], 5, cancelled=cancelled)
    measure.run(job, "latency", 5)
    assert not asked  # Short iterations are not looked between.
    job, _ = block([lambda: time.sleep(0.11)], 5, cancelled=cancelled)
    try:
        measure.run(job, "latency", 5)
    except Cancelled:
        assert len(asked) == 1 and gc.isenabled()
    else:
        raise AssertionError("not cancelled")


def test_overhead(_folder):
    """An empty iteration costs less than 1 us, all of the loop counted: the least of many."""
    best = {}
    for region in ("latency", "queued", "return"):
        for _ in range(200):
            job, times = block([int, int], 5000)
            begin = time.perf_counter_ns()
            measure.run(job, region, 5000)
            spent = (time.perf_counter_ns() - begin) / 5000
            best[region] = min(best.get(region, 1e9), spent)
            if best[region] < 1000:
                break
    assert max(best.values()) < 1000, best
    return ", ".join(f"{region} {ns:.0f} ns" for region, ns in best.items())


def test_refused_export(folder):
    """What plumb says about a model that it does not write is the reason, not its exit code."""
    program = os.path.abspath(os.environ.get("PLUMB", "build/plumb"))
    os.environ.update(PLUMB_PROGRAM=program, PLUMB_CACHE=str(folder))
    try:
        exports.cached({"format": "onnx", "model": "nosuch", "weights": __file__, "batch": 1,
                        "size": 8, "classes": 2})
    except Refused as refused:
        assert (refused.kind, str(refused)) == ("export", "no model nosuch"), refused
    else:
        raise AssertionError("not refused")


def test_room_for_exports(folder):
    """What was used longest ago goes; what another process writes stays, whatever its size."""
    ages = {"a.onnx": 50, "b.onnx": 40, "c.onnx": 30, "new.onnx": 0, "growing.onnx.7.part": 20,
            "left.onnx.8.part": 7200}
    for name, age in ages.items():
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(bytes(100))
        os.utime(path, (time.time() - age, time.time() - age))
    kept, exports.KEEP_BYTES = exports.KEEP_BYTES, 250
    real = exports.os.scandir

    def disturbed(where):
        for entry in real(where):
            if entry.name == "c.onnx":
                os.unlink(entry.path)  # by somebody else, just now
            yield entry
    exports.os.scandir = disturbed
    try:
        exports.make_room(str(folder), os.path.join(folder, "new.onnx"))
    finally:
        exports.os.scandir, exports.KEEP_BYTES = real, kept
    assert sorted(os.listdir(folder)) == ["b.onnx", "growing.onnx.7.part", "new.onnx"], \
        os.listdir(folder)


TESTS = [("room for exports", test_room_for_exports), ("regions", test_regions),
         ("checked", test_checked), ("collector", test_collector), ("cancel", test_cancel),
         ("overhead", test_overhead), ("refused export", test_refused_export)]

if __name__ == "__main__":
    sys.exit(harness.run_all(TESTS))
