#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""In which functions a program's processors were busy, of one whose shares are known.

Where the system does not let the time be sampled, only that this is said is tested.
"""
import ctypes
import functools
import json
import os
import pathlib
import platform
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).parents[1]))
from runner import Skip, run  # noqa: E402

PLUMB = os.environ.get("PLUMB", "build/plumb")
BUSY = str(pathlib.Path(os.environ.get("PLUMB_BUILD", "build")) / "tests/busy")


def profile(*command, flags=("--functions", "2"), **how):
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        done = subprocess.run(
            [PLUMB, "profile", "--host-only", "--json", "--output", report.name,
             *flags, "--",
             *command], capture_output=True, text=True, timeout=60, **how)
        assert done.returncode == 0, (done.returncode, done.stderr)
        return json.load(open(report.name))["cpu"]


def shares(cpu):
    return {f["name"]: f["share"] for f in cpu["sampled"]["functions"] if f["module"] == "busy"}


def check_shares(cpu):
    sampled, of = cpu["sampled"], shares(cpu)
    both = of["heavy"] + of["light"]
    assert both > (.8 if not os.environ.get("PLUMB_SANITIZE") else .4), sampled
    assert abs(of["heavy"] / both - .75) < .08, of
    # A sample stands for its period: together they are the time that the system counted.
    told = sampled["samples"] * sampled["period_ms"] / 1e3
    used = cpu["user_seconds"] + cpu["system_seconds"] * sampled["kernel_too"]
    assert abs(told / used - 1) < .15, (told, used)
    assert sampled["lost"] == 0 and sampled["period_ms"] == 2.003 and sampled["samples"] >= sum(
        f["samples"] for f in sampled["functions"])


@functools.cache
def why_no_samples():
    return profile(BUSY, "light")["sampled"]["reason"]


def need_samples():
    if why_no_samples():
        raise Skip("this system lets no time be sampled")


def test_one_after_the_other():
    need_samples()
    check_shares(profile(BUSY, "both"))


def test_in_a_thread():
    need_samples()
    check_shares(profile(BUSY, "thread"))


def test_in_a_child():
    need_samples()
    check_shares(profile(BUSY, "fork"))


def test_after_exec():
    need_samples()
    check_shares(profile(BUSY, "exec"))


def test_after_many_names():
    """A program that calls itself by thousands of names is still found in its files."""
    need_samples()
    names = ("i=0; while [ $i -lt 4200 ]; do i=$((i+1)); echo n$i > /proc/$$/comm; done; "
             'exec "$0" light')
    with tempfile.TemporaryDirectory() as folder:
        for more in [], ["--folded", folder + "/calls"]:
            cpu = profile("sh", "-c", names, BUSY, flags=["--functions", "2", *more])
            unknown = sum(f["share"] for f in cpu["sampled"]["functions"]
                          if f["module"] == "[unknown]")
            assert shares(cpu).get("light", 0) > .2 and unknown < .1, cpu


def test_in_the_longest_gap():
    """While the device waits, the program is in one function."""
    need_samples()
    guest = str(pathlib.Path(BUSY).parent / "guest")
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        subprocess.run([PLUMB, "profile", "--json", "--output", report.name, "--functions", "2",
                        "--", guest, "prepares"], capture_output=True, timeout=60, check=True)
        device, = json.load(open(report.name))["devices"]
    gap = device["longest_gaps"]
    assert gap["gaps"] == 1 and gap["total_ms"] > 390, gap
    most = gap["functions"][0]
    assert most["name"] == "prepare_input" and most["module"] == "guest", gap
    assert most["samples"] > (.8 if not os.environ.get("PLUMB_SANITIZE") else .3) * gap["samples"]
    assert gap["samples"] * 2 > .2 * gap["total_ms"], gap


def folded(what):
    """Samples by chain of calls, and all samples that were told beside them."""
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/calls"
        cpu = profile(BUSY, what, flags=["--functions", "2", "--folded", path])
        lines = open(path).read().splitlines()
    assert lines == sorted(lines, key=lambda line: line.rpartition(" ")[0]), lines
    of = {chain: int(samples) for chain, _, samples in (line.rpartition(" ") for line in lines)}
    assert len(of) == len(lines) and sum(of.values()) == cpu["sampled"]["samples"], (of, cpu)
    return of


def share_of(of, calls):
    """Of the samples of heavy and light that came by these calls."""
    ends = ("heavy", "light")
    known = {c: n for c, n in of.items() if c.split(";")[-1] in ends}
    return sum(n for c, n in known.items() if calls in c) / sum(known.values())


def test_who_called():
    """The program keeps frame pointers, so that chains go up to main, or where a thread began."""
    need_samples()
    assert abs(share_of(folded("both"), "main;heavy") - .75) < .08
    of = folded("thread")
    assert abs(share_of(of, "in_thread;light") - .25) < .08, of
    assert not [c for c in of if "main;light" in c or "in_thread;heavy" in c], of
    of = folded("exec")
    assert all(c.startswith("busy;") for c in of if "main" in c), of
    assert abs(share_of(of, "main;light") - .25) < .08, of


def test_deep_calls_are_not_lost():
    """They are taken as often as they need it, however seldom threads are looked at."""
    need_samples()
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--functions", "1", "--folded", folder + "/calls", "--sample", "60000"]
        sampled = profile(BUSY, "deep", flags=flags)["sampled"]
        calls = open(folder + "/calls").read()
    assert sampled["lost"] == 0 and sampled["samples"] > 400, sampled
    assert "main" + 101 * ";deep" + ";heavy " in calls, calls


def test_calls_need_samples():
    done = subprocess.run([PLUMB, "profile", "--functions", "0", "--folded", "x", "--", "true"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--folded" in done.stderr and not os.path.exists("x"), done
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/calls"
        done = subprocess.run([PLUMB, "profile", "--host-only", "--folded", path, "--", "true"],
                              capture_output=True, text=True, preexec_fn=refuse_perf, check=True)
        assert "calls: no samples: perf_event_open: " in done.stderr, done.stderr
        assert open(path).read() == ""


def test_switched_off():
    assert profile(BUSY, "light", flags=["--functions", "0"])["sampled"] is None


def test_kept_and_told_again():
    with tempfile.TemporaryDirectory() as folder:
        kept = folder + "/busy.profile"
        cpu = profile(BUSY, "light", flags=["--save", kept])
        told = subprocess.run([PLUMB, "trace", kept, "--json"], capture_output=True, text=True,
                              timeout=60, check=True)
        assert json.loads(told.stdout)["cpu"] == cpu


def test_chains_without_room_are_told():
    """More than fit would take hours: a kept profile gets their number written into it."""
    need_samples()
    with tempfile.TemporaryDirectory() as folder:
        kept = pathlib.Path(folder) / "busy.profile"
        s = profile(BUSY, "light", flags=["--save", str(kept)])["sampled"]
        assert s["in_other_chains"] == 0, s
        head = struct.pack("=qqqq", s["samples"], s["lost"], s["in_no_row"],
                           round(s["period_ms"] * 1e6))
        before, found, after = kept.read_bytes().partition(head)
        assert found and head not in after
        at = 4 + 4 + 152  # functions, whether the kernel is in them, the reason
        kept.write_bytes(before + head + after[:at] + struct.pack("=q", 3) + after[at + 8:])
        told = subprocess.run([PLUMB, "trace", kept, "--json"], capture_output=True, text=True,
                              check=True)
        assert json.loads(told.stdout)["cpu"]["sampled"]["in_other_chains"] == 3
        told = subprocess.run([PLUMB, "trace", kept], capture_output=True, text=True, check=True)
        assert "3 samples are in chains of calls for which there was no room" in told.stdout, told


def refuse_perf():
    """Lets this process's children have no perf_event_open: it answers EPERM, as in containers."""
    number = {"x86_64": 298, "aarch64": 241}[platform.machine()]
    load, jump, answer = 0x20, 0x15, 0x06  # of the kernel's packet filter
    program = b"".join(struct.pack("HBBI", *line) for line in [
        (load, 0, 0, 0), (jump, 0, 1, number), (answer, 0, 0, 0x00050001),
        (answer, 0, 0, 0x7fff0000)])
    lines = ctypes.create_string_buffer(program)
    head = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(lines)))
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
    assert libc.prctl(22, 2, head, 0, 0) == 0  # a filter of calls


def test_refused():
    sampled = profile(BUSY, "light", preexec_fn=refuse_perf)["sampled"]
    assert sampled["samples"] == 0 and sampled["functions"] == []
    assert "perf_event_open: Operation not permitted; allow it by" in sampled["reason"], sampled


if __name__ == "__main__":
    sys.exit(run(globals(), timed=(test_one_after_the_other, test_in_a_thread, test_in_a_child,
                                   test_after_exec, test_in_the_longest_gap, test_who_called,
                                   test_deep_calls_are_not_lost)))
