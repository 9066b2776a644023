#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The probe inside a program: what it counts, and that the program does not notice.

The program is tests/probe/guest.c over a CUPTI that reports made-up scenarios; what must come out
is worked out here.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from probed import ENVIRONMENT, GUEST, PLUMB, near, profile  # noqa: E402
sys.path.append(str(pathlib.Path(__file__).parents[1]))
from runner import run  # noqa: E402


def test_known_times():
    found, _ = profile("known")
    device, = found["devices"]
    near(device["span_ms"], 100)
    near(device["active"], .45)  # 0-10, 20-50, 60-65
    near(device["move"], .20)    # 50-60, 90-100
    near(device["idle"], .35)
    near(device["overlap"]["kernels"], .10)      # 30-40
    near(device["overlap"]["kernel_copy"], .05)  # 45-50
    near(device["part_of_active"]["memset"], .05)
    near(device["idle_ms"]["synchronising"], 15)
    near(device["idle_ms"]["allocating"], 5)
    near(device["idle_ms"]["unknown"], 15)
    kernels = {k["name"]: k for k in device["kernels"]}
    assert (kernels["gemm"]["calls"], kernels["gemm"]["class"]) == (2, "matmul")
    near(kernels["gemm"]["total_ms"], 30)
    assert kernels["relu"]["grid"] == [4, 2, 1] and kernels["relu"]["registers"] == 32
    copies = [(c["kind"], c["pinned"], c["calls"], c["bytes"]) for c in device["copies"]]
    assert copies == [("in", True, 1, 1 << 20), ("out", False, 1, 12)], copies
    memory = {k: v for k, v in device["memory"].items() if k != "timeline"}
    assert memory == {"in_part": False, "peak_bytes": 4 << 20, "left_bytes": 3 << 20,
                      "allocations": 2, "pool_peak_bytes": 0, "pool_used_peak_bytes": 0,
                      "takers": []}
    assert {c["name"]: c["calls"] for c in found["api"]} == {"cudaDeviceSynchronize_v3020": 1,
                                                             "cudaMalloc_v3020": 1}
    assert found["ranges"] == [] and found["complete"] and found["lost"]["records"] == 0


def test_how_much_of_a_multiprocessor_a_kernel_can_fill():
    """128 threads of 32 registers and 1024 bytes: as many as may be, by the driver's word that the
    device is of compute capability 9.0; without that word it is unknown."""
    driver = str(pathlib.Path(GUEST).parent / "fake/driver/libcuda.so.1")
    found, _ = profile("known", GUEST_CUDA=driver)
    device, = found["devices"]
    assert device["name"] == "Made-up 9000", device["name"]
    assert [k["occupancy"] for k in device["kernels"]] == [1, 1], device["kernels"]
    assert [k["occupancy"] for k in profile("known")[0]["devices"][0]["kernels"]] == [None, None]
    done = subprocess.run([PLUMB, "profile", "--", GUEST, "known"], text=True, check=True,
                          capture_output=True, env=dict(ENVIRONMENT, GUEST_CUDA=driver))
    row = next(line for line in done.stdout.splitlines() if "gemm" in line)
    assert row.split()[6:9] == ["32", "1024", "100"], row


def test_copies_against_what_they_can_reach():
    """By a driver whose copies of 64 MiB take 16, 8 and 4 ms: pageable, pinned and inside."""
    driver = str(pathlib.Path(GUEST).parent / "fake/driver")
    found, _ = profile("known", "--bandwidth", LD_LIBRARY_PATH=driver)
    reach = found["devices"][0]["bandwidth"]
    assert reach["reason"] is None, reach
    for name, ms in (("in_pageable", 16), ("out_pageable", 16), ("in_pinned", 8),
                     ("out_pinned", 8), ("inside", 4)):
        assert .6 < reach[name] / ((64 << 20) / ms / 1e6) <= 1, (name, reach)
    done = subprocess.run([PLUMB, "profile", "--bandwidth", "--", GUEST, "known"], text=True,
                          check=True, capture_output=True,
                          env=dict(ENVIRONMENT, LD_LIBRARY_PATH=driver))
    row = next(line for line in done.stdout.splitlines() if "to the device, pinned" in line)
    # 1 MiB in 15 ms is 0.07 GB/s, of about 8.4.
    assert row.split()[4] == "0.07" and .7 < float(row.split()[6]) < 1.4, row
    found, _ = profile("known", "--bandwidth", LD_LIBRARY_PATH="")
    reach = found["devices"][0]["bandwidth"]
    assert reach["in_pinned"] == 0 and "CUDA" in reach["reason"], reach
    assert profile("known")[0]["devices"][0]["bandwidth"] is None


def test_who_takes_memory():
    found, _ = profile("memory", "--takers")
    memory = found["devices"][0]["memory"]
    rows = {t.pop("library"): t for t in memory["takers"]}
    assert rows == {
        "libframework.so": {"allocations": 10, "bytes": 10 << 20, "peak_bytes": 10 << 20,
                            "left_bytes": 5 << 20},
        "libblas.so.12": {"allocations": 1, "bytes": 3 << 20, "peak_bytes": 3 << 20,
                          "left_bytes": 3 << 20}}, rows
    assert memory["left_bytes"] == 8 << 20 and memory["pool_peak_bytes"] == 6 << 20, memory
    done = subprocess.run([PLUMB, "profile", "--takers", "--", GUEST, "memory"], text=True,
                          check=True, capture_output=True, env=ENVIRONMENT)
    assert "libframework.so: taken 10 times, 10.0 MiB, at most 10.0 MiB at once, 5.00 MiB left" in (
        done.stdout), done.stdout
    assert profile("memory")[0]["devices"][0]["memory"]["takers"] == []


def test_copies_in_text_and_tables():
    with tempfile.TemporaryDirectory() as folder:
        saved = f"{folder}/known"
        profile("known", "--save", saved)
        told = {form: subprocess.run([PLUMB, *words, saved], check=True, capture_output=True,
                                     text=True).stdout
                for form, words in (("csv", ("export", "--format", "csv")), ("text", ("trace",)))}
    rows = [line for line in told["csv"].splitlines() if line.startswith("copies,")]
    assert rows == ['copies,0,to the device,"pinned, from 1048576 B",1,1048576,15,,,,,,',
                    'copies,0,to the host,"pageable, from 8 B",1,12,10,,,,,,'], rows
    assert "device 0, to the device, pinned, from 1.00 MiB" in told["text"], told["text"]
    assert "device 0, to the host, pageable, from 8 B" in told["text"], told["text"]


def test_by_stream_and_by_thread():
    """Of the scenarios "known" and "ranges" (guest.c), whose work and threads are known."""
    found, _ = profile("known")
    rows = {s["stream"]: s for s in found["streams"]}
    near(rows[7]["kernels_ms"], 30), near(rows[9]["kernels_ms"], 20)
    assert (rows[7]["kernels"], rows[9]["kernels"]) == (2, 1), rows
    assert sum(s["copies"] for s in found["streams"]) == 2
    assert sum(s["copied_bytes"] for s in found["streams"]) == (1 << 20) + 12
    near(sum(s["copies_ms"] for s in found["streams"]), 25)
    near(sum(s["memsets_ms"] for s in found["streams"]), 5)
    thread, = found["calling_threads"]
    assert (thread["tid"], thread["calls"]) == (77, 2), thread
    near(thread["calls_ms"], 20), near(thread["waiting_ms"], 15)
    assert found["devices"][0]["memory"]["timeline"] == {"each_ms": 1.0, "most_bytes": [4 << 20]}
    found, _ = profile("ranges", "--ranges")
    other, = [t for t in found["calling_threads"] if t["tid"] == 999]
    near(other["device_ms"], 20)
    mine, = [t for t in found["calling_threads"] if t["tid"] != 999]
    assert (mine["launches"], other["launches"]) == (4, 1), found["calling_threads"]
    near(mine["device_ms"], 18)
    for group, row in (("stream", "7 of device 0 in guest"), ("thread", "77  of guest")):
        done = subprocess.run([PLUMB, "profile", "--group", group, "--", GUEST, "known"],
                              capture_output=True, text=True, env=ENVIRONMENT, check=True)
        assert row in done.stdout, done.stdout


def test_calls_on_request():
    found, _ = profile("known", "--api")
    near(found["devices"][0]["idle_ms"]["launching"], 1)
    assert "cudaLaunchKernel_v7000" in [c["name"] for c in found["api"]]


def test_ranges_have_the_work_they_launched():
    found, _ = profile("ranges", "--ranges")
    rows = {r["name"]: r for r in found["ranges"]}
    assert [(r["depth"], r["name"]) for r in found["ranges"]] == [
        (0, "step"), (1, "backward"), (1, "forward"), (0, "epoch")], found["ranges"]
    for name, host, device, own, work in (("step", 50, 37, 7, 4), ("forward", 10, 10, 10, 1),
                                          ("backward", 20, 20, 20, 1), ("epoch", 15, 0, 0, 0)):
        row = rows[name]
        assert row["calls"] == 1 and row["device_work"] == work, row
        near(row["total_ms"], host), near(row["device_ms"], device)
        near(row["self_device_ms"], own)
    near(found["outside_ranges_ms"], 1)
    assert found["complete"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profile("ranges", "--ranges", "--trace", path)
        marks = [e["name"] for e in json.load(open(path))["traceEvents"]
                 if e.get("cat") == "user_annotation"]
    assert sorted(marks) == ["backward", "epoch", "forward", "step"], marks


def test_ranges_that_begin_while_nothing_is_recorded_end_no_others():
    found, _ = profile("interrupted", "--ranges", "--range", "profiler-api")
    rows = [(r["depth"], r["name"], r["calls"], r["total_ms"], r["self_device_ms"])
            for r in found["ranges"]]
    assert rows == [(0, "epoch", 1, 99, 0), (1, "inside", 1, 15, 2), (1, "step", 1, 10, 0)], rows
    near(found["outside_ranges_ms"], 0)


def test_ranges_by_name():
    found, _ = profile("ranges", "--ranges", "--sort", "self")
    rows = [(o["name"], o["calls"], o["self_cpu_ms"], o["cpu_ms"], o["self_device_ms"],
             o["device_ms"], o["launches"]) for o in found["operators"]]
    assert rows == [("backward", 1, 20, 20, 20, 20, 1), ("step", 1, 20, 50, 7, 37, 2),
                    ("epoch", 1, 15, 15, 0, 0, 0), ("forward", 1, 10, 10, 10, 10, 1)], rows
    done = subprocess.run([PLUMB, "profile", "--ranges", "--group", "range", "--sort", "device",
                           "--", GUEST, "ranges"], capture_output=True, text=True, timeout=60,
                          env=ENVIRONMENT, check=True)
    table = done.stdout.partition("ranges, by name\n")[2].splitlines()[:4]
    assert [line.split()[-1] for line in table] == ["step", "backward", "forward", "epoch"], table


def test_operators_are_one_however_they_are_numbered():
    found, _ = profile("operators", "--ranges")
    rows = {o["name"]: o for o in found["operators"]}
    shaped = ["aten::addmm, sizes = [[%d, 2], []]" % n for n in (1, 2)]
    assert sorted(rows) == sorted(["aten::linear", *shaped]), sorted(rows)[:5]
    assert [rows[n]["calls"] for n in ("aten::linear", *shaped)] == [6000, 3000, 3000]
    near(rows["aten::linear"]["device_ms"], 6000 * .005)
    near(rows[shaped[0]]["self_device_ms"], 3000 * .005)
    assert found["complete"], found["incomplete_reason"]


def test_only_what_the_program_marks():
    found, _ = profile("window", "--range", "profiler-api")
    device, = found["devices"]
    assert [(k["name"], k["calls"]) for k in device["kernels"]] == [("inside", 2)]
    near(device["span_ms"], 30)
    near(device["move"], 4 / 30)
    assert [(c["kind"], c["calls"]) for c in device["copies"]] == [("in", 1)]
    assert [(c["calls"], c["total_ms"]) for c in found["api"]] == [(1, 6)]
    near(device["idle_ms"]["allocating"], 2)
    found, _ = profile("fail=cuptiSubscribe", "--range", "profiler-api")
    assert "cuptiSubscribe" in found["incomplete_reason"]


def test_a_window_of_time():
    found, _ = profile("blocks", "--delay", "0.8", "--time-limit", "0.6")
    device, = found["devices"]
    assert 400 < device["span_ms"] < 700, device["span_ms"]
    assert 500 < found["probes"][0]["recorded_ms"] < 700
    found, _ = profile("known", "--delay", "100")
    assert found["devices"] == []


def test_another_profiler_may_come_later():
    for scenario in ("later", "clocked"):
        found, _ = profile(scenario)
        kernels = found["devices"][0]["kernels"]
        assert [(k["name"], k["total_ms"]) for k in kernels] == [("ours", 10)], (scenario, found)
        assert found["probes"][0]["state"] == "aside"
        assert "another profiler" in found["incomplete_reason"]


def test_a_million_records_from_four_threads():
    found, _ = profile("threads", "--record", "all")
    device, = found["devices"]
    assert device["launches"] == 1000000
    # Four streams do the same at the same time: active is that of one, and all of it overlaps.
    span = 249999 * 10000 + 4000
    near(device["span_ms"], span / 1e6)
    near(device["active"], 250000 * 4000 / span)
    near(device["overlap"]["kernels"], device["active"])
    assert found["cpu"]["peak_rss_bytes"] < 256 << 20, found["cpu"]["peak_rss_bytes"]
    assert found["lost"]["records"] == 0


def test_an_hour_of_launches_needs_no_more_memory():
    """An hour at 100,000 launches a second is 360 million records; in short, a hundredth."""
    count = 360_000_000 if os.environ.get("PLB_TEST_FULL") else 3_600_000
    found, _ = profile(f"flood={count}", "--record", "all")
    device, = found["devices"]
    assert device["launches"] == count and found["lost"]["records"] == 0, found["lost"]
    assert {k["name"]: k["calls"] for k in device["kernels"]} == {
        f"layer_{i}": count // 100 for i in range(100)}
    near(device["active"] * device["span_ms"] / (count * 4e-3), 1)
    assert found["cpu"]["peak_rss_bytes"] < 256 << 20, found["cpu"]["peak_rss_bytes"]


def test_counters():
    """The made-up counters: launch i has i of the first metric, 10 i of the second, and so on."""
    found, _ = profile("counted", "--counters", "dram,l2")
    counters = found["counters"]
    assert (counters["launches"], counters["passes"], counters["unnamed"]) == (200, 1, 0), counters
    assert counters["uncounted"] == 2  # one in another context, and a graph
    assert "2 launches could not be counted" in found["incomplete_reason"]
    every = sum(range(1, 201))
    assert counters["dram_bytes"] == 11 * every and counters["l2_bytes"] == 100 * every, counters
    assert counters["cores_flops"] is None and found["devices"] == []
    relu = sum(i for i in range(1, 201) if i % 4 == 1)
    assert [(k["name"], k["launches"], k["dram_bytes"]) for k in counters["kernels"]] == [
        ("gemm", 150, 11 * (every - relu)), ("relu", 50, 11 * relu)], counters["kernels"]
    found, _ = profile("counted", "--counters", "flops")
    counters = found["counters"]
    assert counters["passes"] == 5 and counters["dram_bytes"] is None, counters
    # Fused multiply-adds count twice: the first and the fourth metric.
    assert counters["cores_flops"] == every * (2 + 10 + 100 + 2000 + 10**4 + 10**5), counters
    assert counters["tensor_flops"] == every * (10**6 + 10**7 + 10**8 + 10**9), counters
    found, _ = profile("counted_window", "--counters", "l2", "--range", "profiler-api")
    assert found["counters"]["launches"] == 100 and found["complete"], found["counters"]
    assert found["counters"]["l2_bytes"] == sum(range(1, 101))
    with tempfile.TemporaryDirectory() as folder:
        kept = os.path.join(folder, "kept")
        told, _ = profile("counted", "--counters", "cores", "--save", kept)
        again = subprocess.run([PLUMB, "trace", "--json", kept], capture_output=True, text=True,
                               env=ENVIRONMENT, timeout=60, check=True)
        assert json.loads(again.stdout)["counters"] == told["counters"]


def test_counters_that_may_not_be_read():
    found, _ = profile("fail=counters", "--counters", "flops")
    assert "NVreg_RestrictProfilingToAdminUsers" in found["empty_reason"], found["empty_reason"]
    profile("fail=counters", "--strict", "--counters", "flops", code=6)
    for words, reason in ((["--counters", "flops,x"], "found 'x'"),
                          (["--counters", "l2", "--api"], "without --api")):
        done = subprocess.run([PLUMB, "profile", *words, "--", "true"], capture_output=True,
                              text=True, env=ENVIRONMENT, timeout=60)
        assert done.returncode == 2 and reason in done.stderr, done


def test_no_work_of_a_device_is_told():
    for flags, command, cause in (
            ([], ["true"], "loaded no CUDA driver"),
            (["--range", "profiler-api"], [GUEST, "known"], "never called cudaProfilerStart"),
            (["--delay", "100"], [GUEST, "known"], "--delay"),
            ([], [GUEST, "nothing"], "started nothing")):
        found, _ = profile(None, *flags, command=command)
        assert found["devices"] == [] and cause in found["empty_reason"], found["empty_reason"]
        _, done = profile(None, "--strict", *flags, command=command, code=6)
        assert cause in done.stderr, done.stderr
    found, _ = profile(None, "--strict", "--host-only", command=["true"])
    assert found["empty_reason"] is None
    assert profile("known", "--strict")[0]["empty_reason"] is None


def test_a_running_program_is_refused():
    done = subprocess.run([PLUMB, "profile", "--pid", "1"], capture_output=True, text=True,
                          env=ENVIRONMENT, timeout=60)
    assert done.returncode == 2 and "--pid 1: a program that runs already" in done.stderr, done
    done = subprocess.run([PLUMB, "profile"], capture_output=True, text=True, env=ENVIRONMENT,
                          timeout=60)
    assert done.returncode == 2 and "expected a command" in done.stderr, done


def test_steps():
    step = profile("known", "--steps", "4")[0]["step"]
    assert step == {"count": 4, "ms": 25, "joules": None}, step
    step = profile("ranges", "--ranges")[0]["step"]  # 12 to 61 ms, in one range "step"
    assert step == {"count": 1, "ms": 49, "joules": None}, step
    assert profile("known")[0]["step"] is None


def test_a_full_table_is_told():
    found, done = profile("names", "--strict", code=6)
    device, = found["devices"]
    assert device["launches"] == 20000
    near(device["active"], 20000 * 1e-3 / device["span_ms"])
    calls = sum(k["calls"] for k in device["kernels"])
    assert calls + found["lost"]["reasons"]["no row for the name"] == 20000
    assert not found["complete"] and "incomplete" in done.stderr


def test_dropped_records_are_told():
    found, _ = profile("dropped")
    assert found["lost"] == {"records": 5, "reasons": {"dropped by CUPTI": 5}}
    assert not found["complete"]


def test_the_program_keeps_its_exit_code():
    assert profile("code", code=42)[0]["exit_code"] == 42
    found, _ = profile("abort", code=128 + signal.SIGABRT)
    assert not found["complete"] and "ended without leaving" in found["incomplete_reason"]


def test_a_killed_program_leaves_what_it_did():
    for scenario, code in (("kill", 128 + signal.SIGKILL), ("_exit", 4)):
        found, _ = profile(scenario, code=code)
        assert found["devices"][0]["launches"] == 3, scenario
        assert found["probes"][0]["state"] == "cut off"
        assert not found["complete"]


def test_a_forked_child_is_left_alone():
    found, _ = profile("fork")
    names = {k["name"] for k in found["devices"][0]["kernels"]}
    assert names == {"before", "after"}, names
    assert found["complete"] and len(found["probes"]) == 1


def test_each_program_of_a_process_has_its_file():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        found, _ = profile("exec", "--trace", path)
        names = [e["name"] for e in json.load(open(path))["traceEvents"] if e["ph"] == "X"]
    assert len(found["probes"]) == 2 and len({p["pid"] for p in found["probes"]}) == 1
    # Their tables of names are not each other's.
    assert names.count("first_program") == 1 and names.count("gemm") == 4, names


def test_it_steps_aside():
    for function in ("cuptiActivityRegisterCallbacks", "cuptiActivityEnable", "cuptiGetVersion"):
        found, _ = profile("fail=" + function)
        assert found["probes"][0]["state"] == "aside", function
        assert function in found["incomplete_reason"] or "CUPTI" in found["incomplete_reason"]
        assert found["devices"] == []
    found, _ = profile("known", PLUMB_PROBE_CUPTI="/nonexistent")
    assert "no CUPTI" in found["incomplete_reason"]


def test_it_works_with_less():
    for function in ("cuptiActivityFlushAll", "cuptiGetTimestamp", "cuptiGetCallbackName",
                     "cuptiActivityGetNumDroppedRecords", "cuptiActivityEnableRuntimeApi",
                     "cuptiGetResultString", "cuptiActivityGetNextRecord"):
        profile("fail=" + function)  # ends with the program's code, whatever it saw


def test_streams_pass_through():
    done = subprocess.run([PLUMB, "profile", "--output", "/dev/null", "--", "sh", "-c",
                           "cat; echo two >&2"], input="one\n", env=ENVIRONMENT,
                          capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("one\n", "two\n"), done


def test_what_else_is_preloaded_stays():
    others = ":".join(["libc.so.6"] * 600)  # longer than a page
    with tempfile.NamedTemporaryFile("r") as report:
        done = subprocess.run([PLUMB, "profile", "--output", report.name, "--", "sh", "-c",
                               "echo \"$LD_PRELOAD\""],
                              env=dict(ENVIRONMENT, LD_PRELOAD=others), capture_output=True,
                              text=True, timeout=60)
    probe, _, rest = done.stdout.rstrip("\n").partition(":")
    assert os.path.basename(probe) == "libplumb_probe.so" and rest == others, done


def test_host_alone():
    program = "import time\nt = time.process_time()\nwhile time.process_time() - t < .3: pass"
    found, _ = profile(None, command=[sys.executable, "-c", program])
    assert found["devices"] == []
    used = found["cpu"]["user_seconds"] + found["cpu"]["system_seconds"]
    assert .3 <= used < 1, used
    assert found["span_ms"] >= 300


def test_threads_without_a_row_are_told():
    """300 beside the first: there are 256 rows, and each thread is looked at often."""
    program = """import threading, time
threading.stack_size(65536)
end = threading.Event()
threads = [threading.Thread(target=end.wait) for _ in range(300)]
for t in threads: t.start()
time.sleep(.5)
end.set()"""
    found, done = profile(None, "--host-only", "--strict", "--sample", "20", code=6,
                          command=[sys.executable, "-c", program])
    cpu = found["cpu"]
    assert len(cpu["threads"]) == 256 and cpu["threads_unseen"] == 45, cpu["threads_unseen"]
    assert "45 threads of the program have no row" in done.stderr, done.stderr
    done = subprocess.run([PLUMB, "profile", "--host-only", "--", sys.executable, "-c", program],
                          env=ENVIRONMENT, check=True, capture_output=True, text=True, timeout=60)
    assert "45 more threads, for which there was no room" in done.stdout, done.stdout
    assert profile(None, "--host-only", command=["true"])[0]["cpu"]["threads_unseen"] == 0


def test_energy_of_the_processors():
    with tempfile.TemporaryDirectory() as root:
        zone = pathlib.Path(root) / "intel-rapl:0"
        zone.mkdir()
        for name, text in (("name", "package-0"), ("max_energy_range_uj", "1000000"),
                           ("energy_uj", "400000")):
            (zone / name).write_text(text + "\n")
        command = ["sh", "-c", f"echo 100000 > {zone}/energy_uj"]
        found, _ = profile(None, "--host-only", command=command, PLUMB_POWERCAP=root)
        row, = found["cpu"]["energy"]
        assert (row["name"], row["part_of_the_one_before"]) == ("package-0", False), row
        near(row["joules"], .7)  # once round
        assert found["cpu"]["energy_reason"] is None
        kept = os.path.join(root, "kept")
        profile(None, "--host-only", "--save", kept, command=["true"], PLUMB_POWERCAP=root)
        again = subprocess.run([PLUMB, "trace", kept], capture_output=True, text=True, check=True)
        assert "package-0         0.0 J" in again.stdout, again.stdout
    found, _ = profile(None, "--host-only", command=["true"], PLUMB_POWERCAP="/nowhere")
    assert found["cpu"]["energy"] == [] and "no intel-rapl" in found["cpu"]["energy_reason"]


def test_a_signal_reaches_the_program():
    with tempfile.NamedTemporaryFile() as report:
        command = subprocess.Popen(
            [PLUMB, "profile", "--json", "--output", report.name, "--", "sh", "-c",
             "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"], env=ENVIRONMENT,
            stdout=subprocess.PIPE, text=True)
        assert command.stdout.readline() == "ready\n"
        command.send_signal(signal.SIGTERM)
        assert command.wait(timeout=20) == 9
        assert json.load(open(report.name))["exit_code"] == 9


def test_the_program_ignores_what_it_would_without_us():
    """As a shell has it for jobs in the background: Ctrl-C is not for them."""
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM)
    for ignored in ((), (signal.SIGINT, signal.SIGQUIT), (signal.SIGHUP,), (signal.SIGTERM,)):
        def inherit(ignored=ignored):
            for number in numbers:
                signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
        done = subprocess.run([PLUMB, "profile", "--host-only", "--output", "/dev/null", "--",
                               "grep", "SigIgn", "/proc/self/status"], env=ENVIRONMENT, check=True,
                              capture_output=True, text=True, timeout=60, preexec_fn=inherit)
        found = int(done.stdout.split()[1], 16)
        assert {n for n in numbers if found >> (n - 1) & 1} == set(ignored), (ignored, done.stdout)


def test_bad_use():
    for arguments, code, words in (
            ([], 2, "COMMAND"),
            (["--", "/nonexistent/program"], 2, "No such file"),
            (["--sort", "size", "--", "true"], 2, "total"),
            (["mnist_cnn", "--stack", "plumb-plan", "--budget", "1"], 2, "--stack: "),
            (["--classes", "/nonexistent", "--", "true"], 2, "/nonexistent"),
            (["--output", "/nonexistent/a", "--", "true"], 2, "/nonexistent/a")):
        done = subprocess.run([PLUMB, "profile", *arguments], env=ENVIRONMENT, capture_output=True,
                              text=True, timeout=60)
        assert done.returncode == code and words in done.stderr, (arguments, done)
        assert len(done.stderr.splitlines()) == 1, done.stderr


def test_what_cannot_be_kept_is_told_before_the_run():
    for flag in ("--save", "--trace"):
        with tempfile.TemporaryDirectory() as folder:
            path = "/nonexistent/a"
            done = subprocess.run([PLUMB, "profile", flag, path, "--", "echo", "ran"],
                                  env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
            assert done.returncode == 2 and path in done.stderr, done
            assert done.stdout == "", done
            path = folder + "/kept"
            subprocess.run([PLUMB, "profile", flag, path, "--", "true"], env=ENVIRONMENT,
                           check=True, capture_output=True, timeout=60)
            assert os.listdir(folder) == ["kept"]


def test_nothing_is_left_behind():
    with tempfile.TemporaryDirectory() as folder:
        profile("known", TMPDIR=folder)
        assert os.listdir(folder) == []


def test_a_long_path_is_not_cut():
    with tempfile.TemporaryDirectory() as folder:
        deep = os.path.join(folder, *["x" * 200] * 5)
        os.makedirs(deep)
        found, _ = profile("known", TMPDIR=deep)
        assert found["devices"] and found["complete"], found["incomplete_reason"]


def test_trace():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profile("known", "--trace", path)
        trace = json.load(open(path))
        events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
        assert len(events) == 8, len(events)
        gemm = sorted((e for e in events if e["name"] == "gemm"), key=lambda e: e["ts"])
        assert [e["dur"] for e in gemm] == [10000, 20000]
        near(round(gemm[1]["ts"] - gemm[0]["ts"]), 20000)
        assert all(e["dur"] >= 0 and isinstance(e["tid"], int) for e in events)
        found, _ = profile("threads", "--trace", path, "--trace-limit", "1", "--record", "all")
        events = [e for e in json.load(open(path))["traceEvents"] if e["ph"] == "X"]
        left_out = found["lost"]["reasons"]["beyond the trace's limit"]
        assert len(events) + left_out == 1000000, (len(events), left_out)
        assert found["devices"][0]["launches"] == 1000000


def test_what_goes_to_standard_output_stays_out_of_the_report():
    found, done = profile("known", "--trace", "/dev/stdout")
    assert found["document"] == "profile", found
    assert len(json.loads(done.stdout)["traceEvents"]) > 8, done.stdout[:1000]


def test_what_cannot_be_written_keeps_nothing_else_from_it():
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "s.db")
        _, done = profile("known", "--save", "/dev/full", "--db", store, "--label", "kept", code=3)
        assert "No space left on device" in done.stderr, done.stderr
        found = subprocess.run([PLUMB, "trace", "kept", "--db", store, "--json"], check=True,
                               capture_output=True, text=True)
        assert json.loads(found.stdout)["devices"][0]["launches"] == 3
        _, done = profile("known", "--save", os.path.join(folder, "p"), "--trace", "/dev/full",
                          code=3)
        assert os.path.getsize(os.path.join(folder, "p")) > 0


def test_a_full_disk_is_told():
    """A limit of files' sizes ends the trace as a full disk does; Python ignores its signal."""
    limited = ("import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (5 << 20,) * 2)"
               "; os.execv(sys.argv[1], sys.argv[1:])")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        found, _ = profile(None, "--trace", path, "--record", "all",
                           command=[sys.executable, "-c", limited, GUEST, "threads"])
        events = [e for e in json.load(open(path))["traceEvents"] if e["ph"] == "X"]
    left_out = found["lost"]["reasons"]["beyond the trace's limit"]
    assert 0 < len(events) < 100000 and len(events) + left_out == 1000000, (len(events), left_out)
    assert found["devices"][0]["launches"] == 1000000 and not found["complete"]


def test_a_program_that_can_have_no_probe_says_so():
    with tempfile.TemporaryDirectory() as folder:
        source, program = folder + "/static.c", folder + "/static"
        pathlib.Path(source).write_text("int main(void) { return 7; }\n")
        made = subprocess.run([os.environ.get("CC", "cc"), "-static", "-o", program, source],
                              capture_output=True, check=False)
        if made.returncode:
            print("not tested: nothing can be linked statically here")
            return
        found, _ = profile("", command=[program], code=7)
        assert found["empty_reason"] == (f"{program} is linked statically: nothing can be loaded "
                                         "into it; programs that it starts can have the probe")


def test_killed_at_any_moment():
    """Whenever it is killed, the report is whole and says that the profile is not."""
    for delay in (0, .003, .01, .05):
        with tempfile.TemporaryDirectory() as folder:
            report = folder + "/report.json"
            done = subprocess.run(
                [PLUMB, "profile", "--json", "--output", report, "--", "timeout", "--foreground",
                 "-s", "KILL", str(delay or 1e-6), GUEST, "flood=100000000"],
                env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 137 and not done.stderr, done
            found = json.load(open(report))
        reason = found["incomplete_reason"] or found["empty_reason"]
        # It had begun, was about to, or had not come so far as to load its libraries.
        assert any(words in reason for words in ("ended without leaving", "came up in it",
                                                 "loaded no CUDA driver")), reason
        for device in found["devices"]:
            # Shares are added up seconds after the work, of which little is left here.
            shares = device["active"] + device["move"] + device["idle"]
            assert abs(shares - (device["span_ms"] > 0)) < 1e-9, (shares, device["span_ms"])


sys.exit(run(globals(), timed=(test_copies_against_what_they_can_reach, test_a_window_of_time,
                               test_a_killed_program_leaves_what_it_did, test_host_alone)))
