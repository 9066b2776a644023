#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles of part of the time: what recording costs, what it is kept to, and what is told of the
rest. The program is that of test_profile.py."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from probed import ENVIRONMENT, GUEST, PLUMB, profile  # noqa: E402
sys.path.append(str(pathlib.Path(__file__).parents[1]))
from runner import run  # noqa: E402


def check_estimate(device, cost):
    """Kernels of 1 us, as many as the driver numbered."""
    e = device["estimate"]
    assert e["from"] == "launches" and e["blocks"] >= 6, e
    assert .2 < e["recorded_launches"] / e["launches"] < .5, e
    assert device["launches"] == e["recorded_launches"], (device["launches"], e)
    assert abs(e["active"] * e["span_ms"] - e["launches"] * .001) < .02 * e["launches"] * .001, e
    assert e["active_low"] <= e["active"] <= e["active_high"] and e["move"] == 0, e
    assert abs(e["active"] + e["idle"] - 1) < 1e-9
    assert device["estimated"] and (device["active"], device["idle"]) == (e["active"], e["idle"])
    # Time between blocks is no time in which the device idled.
    assert .2 < device["recorded"] < .5, device["recorded"]
    assert sum(device["idle_ms"].values()) < .5 * device["span_ms"], device["idle_ms"]
    assert cost["in_all"] == cost["recorded"] * cost["share"] and .2 < cost["recorded"] < .6, cost


def test_the_cost_of_recording():
    """Of a program that says it is slower by a quarter of its own time while recorded (the machine
    adds to both), with kernels of 1 us, of which two fifths of the time are recorded: by a CUPTI
    that leaves between blocks, and by one that cannot."""
    assert profile("known", "--cost")[0]["overhead"] is None
    for version in ("130001", "120600"):
        with tempfile.TemporaryDirectory() as folder:
            kept = os.path.join(folder, "kept")
            found, _ = profile("blocks", "--cost", "--record", "40", "--cost-block", "50",
                               "--save", kept, FAKE_CUPTI_VERSION=version)
            text = subprocess.run([PLUMB, "trace", kept], capture_output=True, text=True,
                                  check=True)
        cost = found["overhead"]
        assert cost["blocks"] >= 6 and cost["low"] <= cost["share"] <= cost["high"], cost
        assert 0.05 < cost["share"] < 0.40, cost
        device, = found["devices"]
        check_estimate(device, cost)
        assert found["probes"][0]["calls_in_part"] == (version == "130001"), found["probes"]
        assert "ESTIMATED from " in text.stdout and "+- %" in text.stdout, text.stdout
    assert profile("known")[0]["devices"][0]["estimate"] is None


def test_what_records_are_asked_for():
    for flags, word in ((["--record", "50", "--range", "profiler-api"], "--record"),
                        (["--record", "0"], "found '0'"), (["--record", "some"], "found 'some'"),
                        (["--budget", "-1"], "--budget"),
                        (["--budget", "1", "--api"], "without --record")):
        done = subprocess.run([PLUMB, "profile", *flags, "--", "true"], capture_output=True,
                              text=True, env=ENVIRONMENT, check=False)
        assert done.returncode == 2 and word in done.stderr, done


def within(estimate, truth, name):
    """In the interval, or as far beyond it as one in a thousand is."""
    low, high, middle = (estimate[name + end] for end in ("_low", "_high", ""))
    assert abs(truth - middle) <= 1.7 * (high - low) / 2 + 1e-6 * truth, (name, truth, estimate)


def test_recording_keeps_to_its_budget():
    """60,000 launches a second cost more than 4 % of the time: after the first the rest is recorded
    in blocks, and what is told of the whole is what the program says it did."""
    found, done = profile("rapid=8", "--budget", "4")
    said = json.loads(done.stdout)
    probe, = found["probes"]
    assert probe["in_part"] and probe["calls_in_part"] and probe["budget_kept"], probe
    assert probe["budget"] == .04 and found["complete"], found["incomplete_reason"]
    device, = found["devices"]
    e = device["estimate"]
    assert device["estimated"] and e["from"] == "launches" and e["blocks"] >= 4, e
    assert .05 < device["recorded"] < .6, device["recorded"]
    launches = said["third"] + said["others"]
    # But for what came after the last block.
    seen = launches * (device["span_ms"] - 1000) / 8000
    assert abs(e["launches"] - seen) < .02 * seen, (e, seen)
    of = {k["name"]: k for k in device["kernels"]}
    within(of["third"]["estimate"], e["launches"] / 3, "calls")
    within(of["others"]["estimate"], e["launches"] * 2 / 3, "calls")
    within(of["third"]["estimate"], e["launches"] / 3 * .01, "total_ms")
    active = e["launches"] * .006 / e["span_ms"]
    assert abs(device["active"] - active) < .02, (device["active"], active)
    classes = sum(c["estimate"]["calls"] for c in found["classes"])
    assert abs(classes - e["launches"]) < 1e-6 * launches, (classes, e)


def check_no_work_in_rests(events):
    """An empty track of a trace is an idle device or one that nobody looked at: the trace tells."""
    marks = [e for e in events if e.get("cat") == "not_recorded"]
    rests = [(e["ts"], e["ts"] + e["dur"]) for e in marks]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert len({(e["pid"], e["tid"]) for e in marks}) == 1, marks  # one device's one track
    for begin, end in rests:
        inside = [k for k in kernels if begin < k["ts"] + k["dur"] / 2 < end]
        assert begin < end and not inside, (begin, end, len(inside), inside[:2])
    return rests, kernels


def check_rests(events, device):
    rests, kernels = check_no_work_in_rests(events)
    first, last = min(k["ts"] for k in kernels), max(k["ts"] + k["dur"] for k in kernels)
    rested = sum(min(end, last) - max(begin, first) for begin, end in rests
                 if end > first and begin < last)
    # More than the time between blocks is marked where a block begins behind queued work, or in a
    # pause that may be such: what is unmarked is known.
    recorded = 1e3 * device["recorded"] * device["span_ms"]
    assert rested + recorded > .95 * (last - first), (rested, recorded, first, last)


def test_what_is_recorded_where_nothing_is_said():
    """What is cheap, whole; else as much as costs 1 %, or 3 % where a trace is wanted. Everything
    where that is asked for, or a part of it that only the whole has."""
    found, _ = profile("blocks")
    assert not found["probes"][0]["in_part"] and found["probes"][0]["budget"] == .01, found
    assert found["devices"][0]["recorded"] == 1 and not found["devices"][0]["estimated"]
    for flags in (["--record", "all"], ["--api"], ["--time-limit", "100"]):
        found, done = profile("rapid=1", *flags)
        said, probe = json.loads(done.stdout), found["probes"][0]
        assert not probe["in_part"] and probe["budget"] is None, (flags, probe)
        assert found["devices"][0]["launches"] == said["third"] + said["others"], (flags, said)
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.json")
        for flags, budget in (([], .01), (["--trace", trace], .03)):
            found, _ = profile("rapid=3", *flags)
            probe, = found["probes"]
            assert probe["in_part"] and probe["budget"] == budget, (flags, probe)
        with open(trace, encoding="utf-8") as file:
            check_rests(json.load(file)["traceEvents"], found["devices"][0])


def test_an_old_cupti_records_everything():
    found, done = profile("rapid=2", "--budget", "1", FAKE_CUPTI_VERSION="120600")
    probe, = found["probes"]
    assert not probe["in_part"] and not probe["budget_kept"], probe
    said = json.loads(done.stdout)
    assert found["devices"][0]["launches"] == said["third"] + said["others"] and found["complete"]


def test_who_cannot_be_left_is_recorded_on():
    """Another subscriber keeps CUPTI from leaving: from then on everything is recorded."""
    found, done = profile("rapid=3", "--budget", "1", GUEST_SUBSCRIBES="1")
    probe, = found["probes"]
    assert not probe["budget_kept"] and found["complete"], probe
    said = json.loads(done.stdout)
    assert found["devices"][0]["launches"] > .8 * (said["third"] + said["others"])


def profile_with_trace(scenario, **more):
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.json")
        found, done = profile(scenario, "--trace", trace, **more)
        with open(trace, encoding="utf-8") as file:
            return found, done, json.load(file)["traceEvents"]


def test_another_profiler_may_come_while_it_is_away():
    found, _, events = profile_with_trace("away=3")
    assert found["probes"][0]["state"] == "aside", found["probes"]
    assert "another profiler" in found["incomplete_reason"]
    assert found["devices"][0]["launches"] > 10000, found["devices"]
    check_no_work_in_rests(events)


def test_another_profiler_has_records_to_itself():
    """It comes while the probe waits for a launch by which to leave: then that is given up."""
    found, done = profile("stops", "--budget", "1", FAKE_FLUSH_US="3000")
    said = json.loads(done.stdout)
    assert found["probes"][0]["state"] == "aside" and not said["recorded"], (found["probes"], said)
    assert said["waited_ms"] < 80, said


def test_what_was_killed_has_no_rest_where_it_was_recorded():
    _, _, events = profile_with_trace(None, command=["timeout", "-s", "KILL", "3.3", GUEST,
                                                     "rapid=8"], code=137)
    rests, kernels = check_no_work_in_rests(events)
    assert rests and len(kernels) > 10000, (rests, len(kernels))


sys.exit(run(globals(), timed=(test_the_cost_of_recording, test_recording_keeps_to_its_budget,
                               test_what_is_recorded_where_nothing_is_said,
                               test_who_cannot_be_left_is_recorded_on,
                               test_another_profiler_may_come_while_it_is_away,
                               test_another_profiler_has_records_to_itself)))
