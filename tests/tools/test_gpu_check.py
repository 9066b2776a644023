#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What gpu-check says to who asks wrongly: before it looks for a GPU, and with status 2. And what
it makes of programs that fail, are cut off, or say nothing, with scripts in their places."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import types

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).parents[1]))
sys.path.append(str(pathlib.Path(__file__).parents[2] / "tools"))
from runner import run  # noqa: E402

TOOL = pathlib.Path(__file__).resolve().parent.parent.parent / "tools/gpu-check"


def refused(*arguments):
    """The last line of standard error."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, TOOL, "--out", folder, *arguments],
                              capture_output=True, text=True)
    assert done.returncode == 2, (done.returncode, done.stderr)
    return done.stderr.splitlines()[-1]


def test_unknown_part():
    assert "--parts opps: expected some of ops,models" in refused("--parts", "ops,opps")


def test_row_without_batch():
    message = refused("--parts", "bench", "--rows", "resnet50:infer:bf16")
    assert "--rows resnet50:infer:bf16: expected MODEL:TASK:DTYPE:BATCH" in message


def test_missing_programs():
    with tempfile.TemporaryDirectory() as empty:
        message = refused("--parts", "ops", "--programs", empty)
    assert f"--programs {empty}: no test_cuda_ops, test_cuda_own there" in message


def test_empty_lists():
    for flag in ("--parts", "--rows", "--modes"):
        assert f"{flag} ',': expected at least one" in refused(flag, ",")


def test_what_makes_no_sense():
    for row in ("resnet50:infr:bf16:1", "resnet50:infer:bf17:1", "resnet50:infer:bf16:0"):
        assert f"--rows {row}: expected" in refused("--parts", "bench", "--rows", row)
    assert "--modes inductr: expected some of" in refused("--modes", "graph,inductr")
    assert "--cifar /nowhere: there is nothing" in refused("--cifar", "/nowhere")
    assert "--peer-jobs 0: expected" in refused("--peer-jobs", "0")


SCRIPTS = {"nvidia-smi": "echo 'No card, 1.2, 3 MiB, 4 MHz, 5 W'"}
ROW = {"device": "No card", "model": "m", "task": "infer", "dtype": "bf16", "batch": 1,
       "level": "replay", "median_ms": 1.5, "peers": {}, "bar_ms": None, "target_ms": None,
       "roof_ms": 1.0, "queued_ms": 1.4, "peak_bytes": None, "peer_peak_bytes": None}


def checked(folder, parts, *arguments, before=None, **scripts):
    """Status, standard output, and what the results say, of a call with these scripts of sh."""
    folder = pathlib.Path(folder)
    for name, text in {**SCRIPTS, **scripts}.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    out = folder / "out"
    out.mkdir(exist_ok=True)
    if before is not None:
        (out / "gpu-check.json").write_text(before)
    done = subprocess.run([sys.executable, TOOL, "--out", out, "--parts", parts, "--programs",
                           folder, *arguments], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
    kept = out / "gpu-check.md"
    return done.returncode, done.stdout + done.stderr, kept.read_text() if kept.exists() else ""


def test_results_that_are_broken():
    with tempfile.TemporaryDirectory() as folder:
        status, told, _ = checked(folder, "start", before='{"rows": [', plumb_bench="exit 1")
        assert (pathlib.Path(folder) / "out/gpu-check.json").read_text() == '{"rows": ['
    assert status == 2 and "is no file of results" in told and len(told.splitlines()) == 1, told


def test_epoch_that_fails_or_is_slow():
    with tempfile.TemporaryDirectory() as folder:
        status, told, kept = checked(folder, "epoch", plumb="echo no memory >&2; exit 1")
        assert status == 1 and "1 broke, or did not run: epoch" in told, told
        assert "The last run failed: no memory" in kept, kept
        slow = """echo '{"epochs": [{"seconds": 1.0, "test_accuracy": 0.9}]}'"""
        status, told, kept = checked(folder, "epoch", plumb=slow)
        assert status == 1 and "1 bars missed: epoch" in told and "0 broke" in told, told
        status, told, _ = checked(folder, "epoch", plumb=slow.replace("1.0", "0.1"))
        assert status == 0, told


def test_start_and_roof_that_fail():
    with tempfile.TemporaryDirectory() as folder:
        status, told, _ = checked(folder, "start", plumb_bench="echo no memory >&2; exit 1")
        assert status == 1 and "1 broke, or did not run: start" in told, told
        row = json.dumps({"rows": [{**ROW, "roof_ms": None}]})
        status, told, _ = checked(folder, "roof", "--rows", "m:infer:bf16:1", before=row,
                                  plumb="echo no memory >&2; exit 1")
        assert status == 1 and "roof: m:infer:bf16:1: no memory" in told, told


def test_row_that_breaks_beside_its_old_time():
    with tempfile.TemporaryDirectory() as folder:
        status, told, kept = checked(folder, "bench", "--rows", "m:infer:bf16:1",
                                     before=json.dumps({"rows": [ROW]}),
                                     plumb_bench="echo no memory >&2; exit 1")
    assert status == 1 and "1 broke, or did not run: m:infer:bf16:1" in told, told
    assert "| 1.500 no memory |" in kept, kept


def test_bars_beside_those_of_times():
    row = {**ROW, "model": "resnet50", "task": "train", "batch": 256, "host_ms": 0.009,
           "peer_peak_bytes": 1000}
    with tempfile.TemporaryDirectory() as folder:
        told_of = '{"load_s": %s, "planned_bytes": %s, "median_ms": 1}'
        for seconds, planned, host, missed in (
                (0.9, 750, 0.009, "0 bars missed"), (1.1, 750, 0.009, "1 bars missed: start"),
                (0.9, 751, 0.009, "1 bars missed: memory --recompute"),
                (0.9, 951, 0.009, "2 bars missed: memory memory --recompute"),
                (0.9, 750, 0.011, "1 bars missed: resnet50:train:bf16:256 (host)")):
            status, told, kept = checked(folder, "start,memory",
                                         before=json.dumps({"rows": [{**row, "host_ms": host}]}),
                                         plumb_bench=f"echo '{told_of % (seconds, planned)}'")
            assert missed in told and status == (missed[0] != "0"), told
    assert "--recompute: 0 MiB of the device planned, 1.00 ms a step" in kept, kept


def test_memory_that_fails():
    with tempfile.TemporaryDirectory() as folder:
        status, told, _ = checked(folder, "memory", plumb_bench="echo no memory >&2; exit 1")
    assert status == 1 and "1 broke, or did not run: memory" in told, told


def test_proofs_that_are_none():
    case = {"model": "m", "task": "infer", "stack": "s", "region": "latency", "math": "f32",
            "autocast": "none", "outcome": "ok", "reason": None, "proof": {"equal": True}}
    worse = {**case, "proof": {"equal": False, "first_different": "output"}}
    with tempfile.TemporaryDirectory() as folder:
        for cases, passed, failed in (([case, case], 16, 0), ([case, worse], 8, 8), ([], 0, 8),
                                      ([{**case, "outcome": "refused", "proof": None}], 0, 8)):
            text = json.dumps({"cases": cases})
            status, told, _ = checked(folder, "proof", plumb=f"echo '{text}'")
            assert f"{passed} passed, {failed} failed" in told and status == bool(failed), told
        kinds = [{"kind": "output", "name": "output", "error": error, "allowed": 2e-3}
                 for error in (1e-4, 1e-3, 0.0)]
        told = [{**case, "proof": {"equal": True, "by_kind": [kind]}} for kind in kinds]
        _, _, kept = checked(folder, "proof", plumb=f"echo '{json.dumps({'cases': told})}'")
        assert "| m infer f32 | 0.500 |" in kept, kept
        status, told, _ = checked(folder, "proof", plumb="echo no Python >&2; exit 2")
        assert status == 1 and "stacks add torch: no Python" in told, told


def test_peers_of_which_none_comes():
    with tempfile.TemporaryDirectory() as folder:  # no time is left for any
        status, told, _ = checked(folder, "peers", "--rows", "m:infer:bf16:1", "--minutes", "0.1",
                                  before=json.dumps({"rows": [ROW]}))
    assert status == 1 and "1 without one of PyTorch's" in told, told


def test_tests_that_count_nothing():
    with tempfile.TemporaryDirectory() as folder:
        nothing, skipped = ("echo '0 passed, 0 failed, 0 skipped'",
                            "echo '0 passed, 0 failed, 1 skipped'")
        status, told, _ = checked(folder, "ops", test_cuda_ops=nothing, test_cuda_own=nothing)
        assert status == 1 and "25 failed" in told and "own: it counted nothing" in told, told
        status, told, _ = checked(folder, "ops", test_cuda_ops=skipped, test_cuda_own=skipped)
        assert status == 1 and "1 broke, or did not run: ops" in told, told
        fine = "echo '1 passed, 0 failed, 0 skipped'"
        status, told, _ = checked(folder, "ops", test_cuda_ops=fine, test_cuda_own=fine)
        assert status == 0 and "25 passed, 0 failed" in told, told
        status, told, _ = checked(folder, "sanitizer", "--minutes", "0", test_cuda_ops=fine)
        assert status == 1 and "sanitizer: no time was left for memcheck" in told, told


def loaded():
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


def alive(pid):
    status = pathlib.Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_limit_ends_what_a_command_started():
    tool = loaded()
    with tempfile.TemporaryDirectory() as folder:
        check = tool.Check(types.SimpleNamespace(out=folder, programs=folder))
        out, _, status = check.run(["sh", "-c", "sleep 60 & echo $!; wait"], 1)
    assert status == 124 and not alive(int(out)), (status, out)


def test_sigterm_ends_what_was_started():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, text in {**SCRIPTS, "plumb": f"echo $$ > {folder}/pid; exec sleep 60"}.items():
            (folder / name).write_text(f"#!/bin/sh\n[ \"$1\" = doctor ] && exit 1\n{text}\n")
            (folder / name).chmod(0o755)
        with subprocess.Popen([sys.executable, TOOL, "--out", folder, "--parts", "epoch",
                               "--programs", folder],
                              env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}) as tool:
            until = time.monotonic() + 30
            while not (folder / "pid").exists() and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(0.2)  # until it is written
            pid = int((folder / "pid").read_text())
            tool.send_signal(signal.SIGTERM)
            tool.wait(timeout=30)
        left = alive(pid)
        if left:
            os.kill(pid, signal.SIGKILL)
    assert tool.returncode == 143 and not left, (tool.returncode, left)


def test_results_are_whole_whatever_comes_between():
    tool = loaded()
    whole = pathlib.Path.write_text

    def half(path, text, **_):
        whole(path, text[:len(text) // 2])
        raise KeyboardInterrupt

    with tempfile.TemporaryDirectory() as folder:
        check = tool.Check(types.SimpleNamespace(out=folder, programs=folder))
        check.data["device"] = "No card"
        check.save()
        before = check.file.read_bytes()
        pathlib.Path.write_text = half
        try:
            check.save()
        except KeyboardInterrupt:
            pass
        finally:
            pathlib.Path.write_text = whole
        assert check.file.read_bytes() == before


def test_each_mode_has_its_day():
    tool = loaded()
    found = {"case": "m:infer:bf16:1:graph", "latency_ms": 1.0, "queued_ms": 1.0, "peak_bytes": 1}
    with tempfile.TemporaryDirectory() as folder:
        check = tool.Check(types.SimpleNamespace(out=folder, programs=folder))
        check.data["device"] = "No card"
        tool.take_peer(check, found, "2026-01-01")
        tool.take_peer(check, {**found, "case": "m:infer:bf16:1:eager"}, "2026-02-02")
        row = check.row("m:infer:bf16:1")
    assert tool.peer_date(row, "graph") == "2026-01-01", row
    assert tool.peer_date(row, "eager") == "2026-02-02", row
    assert tool.peer_date({"peers_date": "2026-01-01"}, "graph") == "2026-01-01"
    row = {"peers": {"graph": 1.0}, "peers_date": "2025-12-31"}  # from before modes told it
    check.row = lambda key: row
    tool.take_peer(check, {**found, "case": "m:infer:bf16:1:eager"}, "2026-02-02")
    days = [tool.peer_date(row, mode) for mode in ("graph", "eager")]
    assert days == ["2025-12-31", "2026-02-02"]


if __name__ == "__main__":
    sys.exit(run(globals()))
