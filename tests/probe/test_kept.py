#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles kept in a file: told again, as a trace, compared, and damaged.

tests/golden/resnet50_graph.profile was recorded on an H100: PyTorch's ResNet-50 at batch 1, once
captured as a CUDA graph and replayed 20 times, then once eager (gpu_programs.py graph).
"""
import csv
import io
import json
import os
import pathlib
import sqlite3
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).parents[1]))
from active_share import shares  # noqa: E402  (works the shares out apart from the program)
import runner  # noqa: E402

PLUMB = os.environ.get("PLUMB", "build/plumb")
GUEST = str(pathlib.Path(os.environ.get("PLUMB_BUILD", "build")) / "tests/guest")
RECORDED = "tests/golden/resnet50_graph.profile"
RUN, SPOOL, SECTION = 2, 3, 48  # kinds of sections; the bytes before a section's own


def run(*words, code=0):
    done = subprocess.run([PLUMB, *words], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, LC_ALL="C"), check=False)
    assert done.returncode == code, (words, done.returncode, done.stderr)
    return done


def test_a_recorded_profile_is_told_again():
    found = json.loads(run("trace", "--json", RECORDED).stdout)
    device, = found["devices"]
    assert device["name"] == "NVIDIA H100 80GB HBM3" and found["complete"]
    # ResNet-50 has 53 convolutions; 20 replays and one eager pass are 21 times them.
    convolved = sum(k["calls"] for k in device["kernels"] if k["class"] in ("convolution",
                                                                           "matmul"))
    assert convolved >= 21 * 53, convolved
    graph = sum(k["graph_calls"] for k in device["kernels"])
    eager = sum(k["calls"] - k["graph_calls"] for k in device["kernels"])
    assert graph == 20 * eager == 4360, (graph, eager)
    assert abs(device["active"] + device["move"] + device["idle"] - 1) < 1e-9
    assert found["exit_code"] == 0 and found["cards"][0]["joules"] > 100
    text = run("trace", "--top", "3", RECORDED).stdout
    assert "H100" in text and "11 more kernels" not in text and "more kernels" in text


def test_its_trace_says_the_same():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        found = json.loads(run("trace", "--json", "--trace", path, RECORDED).stdout)
        trace = json.load(open(path))
    device, = found["devices"]
    apart = shares(trace)
    for name in ("active", "move", "idle"):
        assert abs(apart[name] - device[name]) < 1e-6, (name, apart[name], device[name])
    kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
    assert len(kernels) == device["launches"]
    total = sum(k["total_ms"] for k in device["kernels"])
    assert abs(sum(e["dur"] for e in kernels) / 1000 - total) < 1e-3
    # Within a stream nothing overlaps, and watts are those of a card.
    for stream in {e["tid"] for e in kernels}:
        ends = sorted((e["ts"], e["ts"] + e["dur"]) for e in kernels if e["tid"] == stream)
        assert all(a[1] <= b[0] + 1e-3 for a, b in zip(ends, ends[1:]))
    assert min(e["ts"] for e in trace["traceEvents"] if "ts" in e) == 0  # Perfetto drops negatives
    watts = [e["args"]["value"] for e in trace["traceEvents"] if e["ph"] == "C" and
             e["name"].endswith(": W")]
    assert len(watts) > 10 and 30 < max(watts) < 800, watts[:3]


def test_comparing():
    same = json.loads(run("compare", "--json", RECORDED, RECORDED).stdout)
    assert same["unequal"] == [] and same["kernels"]
    assert all(k["changed"] == "" and k["change_ms"] == 0 for k in same["kernels"])
    with tempfile.TemporaryDirectory() as folder:
        known, window = (os.path.join(folder, n) for n in ("known", "window"))
        run("profile", "--save", known, "--", GUEST, "known")
        run("profile", "--save", window, "--", GUEST, "mixed")
        found = json.loads(run("compare", "--json", known, window).stdout)
        rows = {k["name"]: k for k in found["kernels"]}
        assert found["unequal"] == ["the commands differ"], found["unequal"]
        # gemm: once 20 ms for twice 30 in all, in another shape; relu is gone, tanh is new.
        assert rows["gemm"]["changed"] == "count time grid", rows["gemm"]
        assert abs(rows["gemm"]["change_ms"] + 10) < 1e-9, rows["gemm"]
        assert rows["relu"]["changed"] == "vanished" and rows["relu"]["b"] is None
        assert rows["tanh"]["changed"] == "appeared" and rows["tanh"]["a"] is None
        text = run("compare", known, window).stdout
        assert text.startswith("Not the same: the commands differ"), text
        assert "Not the same: the commands differ" in text and "vanished" in text
        api, cut = (os.path.join(folder, n) for n in ("api", "cut"))
        run("profile", "--api", "--save", api, "--", GUEST, "known")
        found = json.loads(run("compare", "--json", known, api).stdout)
        assert len(found["unequal"]) == 1, found["unequal"]
        assert found["unequal"][0].startswith("recorded in different ways: trace=0"), found
        run("profile", "--save", cut, "--", GUEST, "abort", code=134)
        found = json.loads(run("compare", "--json", known, cut).stdout)
        assert found["unequal"] == ["the commands differ", "exit code 0 against 134",
                                    "A: whole; B: the program ended without leaving"], found
        found = json.loads(run("compare", "--json", known, RECORDED).stdout)
        assert any("devices differ" in u for u in found["unequal"])


def test_damage_is_told():
    whole = pathlib.Path(RECORDED).read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "damaged")
        for size in (0, 4, 15, 16, 40, 70, 5000, 50000, len(whole) // 2, len(whole) - 1):
            pathlib.Path(path).write_bytes(whole[:size])
            if size == 16:
                continue  # an empty profile is whole
            done = run("trace", path, code=2)
            assert len(done.stderr.splitlines()) == 1 and path in done.stderr, done.stderr
        for at in (0, 8, 12, 16, 52, 60):
            changed = bytearray(whole)
            changed[at] ^= 0x85
            pathlib.Path(path).write_bytes(changed)
            done = subprocess.run([PLUMB, "trace", path], capture_output=True, text=True,
                                  timeout=60, check=False)
            assert done.returncode in (0, 2) and len(done.stderr.splitlines()) <= 1, (at, done)
        assert os.listdir(folder) == ["damaged"]
    run("trace", "/nonexistent", code=2)
    for words, reason in (((RECORDED, "/nonexistent"), "/nonexistent: cannot open"),
                          ((__file__, RECORDED), "not a profile")):
        assert reason in run("compare", *words, code=2).stderr, words


def sections(whole):
    """Kind, start and length of each section of a kept profile."""
    at = 16
    while at < len(whole):
        kind, = struct.unpack_from("<I", whole, at)
        size, = struct.unpack_from("<Q", whole, at + SECTION - 8)
        yield kind, at + SECTION, size
        at += SECTION + size


def test_numbers_that_no_run_has_are_told():
    whole = pathlib.Path(RECORDED).read_bytes()
    start = next(start for kind, start, _ in sections(whole) if kind == RUN)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "damaged")
        for at, what in ((8, "run"), (16, "run"), (24, "run"), (56, "run"), (192, "thread 0")):
            changed = bytearray(whole)
            changed[start + at + 7] ^= 0xc0
            pathlib.Path(path).write_bytes(changed)
            for words in ((path,), ("--json", path)):
                done = run("trace", *words, code=2)
                assert len(done.stderr.splitlines()) == 1 and what in done.stderr, (at, done)


def test_files_without_a_name_are_refused():
    """They would be hidden ones, which nobody clears away."""
    changed = bytearray(pathlib.Path(RECORDED).read_bytes())
    start = next(start for kind, start, _ in sections(changed) if kind == SPOOL)
    changed[start - SECTION + 8:start - 8] = bytes(SECTION - 16)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "damaged")
        pathlib.Path(path).write_bytes(changed)
        done = subprocess.run([PLUMB, "trace", path], capture_output=True, text=True, timeout=60,
                              env=dict(os.environ, TMPDIR=folder), check=False)
        assert done.returncode == 2 and "has no name" in done.stderr, done
        assert os.listdir(folder) == ["damaged"], os.listdir(folder)


def test_a_store_keeps_profiles_as_runs():
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store.db")
        told = json.loads(run("profile", "--json", "--db", store, "--label", "first", "--", GUEST,
                              "known").stdout)
        run("profile", "--db", store, "--", GUEST, "mixed")
        for name in ("1", "first"):
            again = json.loads(run("trace", "--json", "--db", store, name).stdout)
            assert again == told, name
        runs = json.loads(run("runs", "--json", "--db", store).stdout)["runs"]
        assert [r["label"] for r in runs if r["label"]] == ["first"] and len(runs) == 2, runs
        with sqlite3.connect(store) as db:
            active, = db.execute("SELECT document ->> '$.devices[0].active' FROM profile "
                                 "WHERE run = 1").fetchone()
        assert active == told["devices"][0]["active"] == .45
        assert "7: the store has no run" in run("trace", "--db", store, "7", code=2).stderr
        assert "profile" in run("show", "1", "--db", store).stdout
        document = json.loads(run("show", "1", "--db", store, "--json").stdout)
        assert document["profile"]["devices"] == told["devices"]


def test_exports_say_what_is_told():
    told = json.loads(run("trace", "--json", RECORDED).stdout)
    assert json.loads(run("export", RECORDED).stdout) == told
    rows = list(csv.DictReader(io.StringIO(run("export", RECORDED, "--format", "csv").stdout)))
    device, = told["devices"]
    kernels = [r for r in rows if r["table"] == "kernel"]
    assert [(r["name"], r["detail"], int(r["calls"])) for r in kernels] == [
        (k["name"], k["class"], k["calls"]) for k in device["kernels"]]
    for row, kernel in zip(kernels, device["kernels"]):
        assert all(abs(float(row[k]) - kernel[k]) < 1e-6 for k in ("total_ms", "min_ms", "max_ms"))
    assert abs(sum(float(r["share"]) for r in kernels) - 1) < 1e-6
    times = {r["name"]: float(r["share"]) for r in rows if r["table"] == "time of the device"}
    assert all(abs(times[a] - device[b]) < 1e-8 for a, b in
               (("active", "active"), ("copying", "move"), ("idle", "idle"))), times
    assert {r["name"]: int(r["calls"]) for r in rows if r["table"] == "call"} == {
        c["name"]: c["calls"] for c in told["api"]}
    text = run("export", RECORDED, "--format", "markdown").stdout
    lines = [line for line in text.splitlines() if line.startswith("| device 0: ")]
    assert len(lines) == 3 + 20 and "Incomplete" not in text, text[:300]
    for kernel in device["kernels"][:20]:
        cells = f"| {kernel['class']} | {kernel['calls']} | {kernel['total_ms']:.3f} |"
        assert any(cells in line for line in lines), cells
    assert "tests nothing" in run("export", RECORDED, "--format", "junit", code=2).stderr


def test_exports_of_a_store_have_its_profiles():
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store.db")
        told = json.loads(run("profile", "--json", "--ranges", "--db", store, "--", GUEST,
                              "ranges").stdout)
        exported = run("export", "1", "--db", store).stdout
        assert json.loads(exported)["profile"]["devices"] == told["devices"]
        found = csv.DictReader(io.StringIO(run("export", "1", "--db", store, "--format",
                                               "csv").stdout))
        ranges = {r["name"]: [float(r[k]) for k in ("calls", "total_ms", "self_ms", "device_ms",
                                                    "self_device_ms")]
                  for r in found if r["table"] == "range"}
        assert ranges["step"] == [1, 50, 20, 37, 7] and ranges["epoch"] == [1, 15, 15, 0, 0], ranges
        # What was exported is a run that can be taken in, without its profile.
        path = os.path.join(folder, "run.json")
        pathlib.Path(path).write_text(exported)
        other = os.path.join(folder, "other.db")
        run("import", path, "--db", other)
        assert "profile" not in json.loads(run("export", "1", "--db", other).stdout)


def test_a_profile_may_have_any_number_of_sections():
    """Those of a kind that a later version brings are passed over."""
    section = struct.pack("<II32sQ", 99, 0, b"7-0", 0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "many")
        pathlib.Path(path).write_bytes(pathlib.Path(RECORDED).read_bytes() + 5000 * section)
        assert run("trace", "--json", path).stdout == run("trace", "--json", RECORDED).stdout


def test_processes_beyond_those_that_are_read_are_told():
    files = ("sh", "-c", 'cd "$PLUMB_PROBE_DIR"; for n in $(seq 1030); do : >$n-0.spool; done')
    done = run("profile", "--json", "--strict", "--", *files, code=6)
    found = json.loads(done.stdout)
    assert found["probes_unread"] == 6 and not found["complete"], found
    assert found["incomplete_reason"] == "the probe was in 1030 processes: 1024 are told", found


def test_a_probe_file_that_cannot_be_read_is_told_again():
    junk = ("sh", "-c", 'echo junk >"$PLUMB_PROBE_DIR/7-0.spool"')
    with tempfile.TemporaryDirectory() as folder:
        kept = os.path.join(folder, "kept")
        told = json.loads(run("profile", "--json", "--save", kept, "--", *junk).stdout)
        again = json.loads(run("trace", "--json", kept).stdout)
        for found in (told, again):
            assert not found["complete"], found
            reason = found["incomplete_reason"].partition("/7-0.spool: ")[2]
            assert reason.endswith("found 5"), found["incomplete_reason"]
        run("trace", "--strict", kept, code=6)


sys.exit(runner.run(globals()))
