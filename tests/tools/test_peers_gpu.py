#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How peers_gpu.py hands out cases, with workers that compute nothing: whoever is timed is alone,
what finds no memory has its turn when the others are done, and an end is no end of the rest."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "tests"))
sys.path.append(str(TOP / "tools"))
import peers_gpu  # noqa: E402
from peers_gpu import Turns  # noqa: E402
from runner import run  # noqa: E402

# Speaks as peers_gpu_torch.py does. While it prepares it writes down when it ran.
WORKER = """
import json, os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def say(**words): print(json.dumps(words), flush=True)
say(torch="none")
for case in iter(sys.stdin.readline, ""):
    case = case.strip()
    if case == "lasts":
        time.sleep(60)
    here = folder / f"has-{os.getpid()}"
    here.touch()
    if case == "dies":
        print("Traceback\\nno such kernel", file=sys.stderr, flush=True)
        os._exit(9)
    end = time.monotonic() + 0.5
    with open(folder / f"ran-{os.getpid()}", "a") as ran:
        while time.monotonic() < end:
            print(time.monotonic(), file=ran, flush=True)
            time.sleep(0.005)
    refused, beside = folder / "refused", False
    while case == "large" and not refused.exists() and not beside:
        time.sleep(0.005)  # until another has a case, too
        beside = len(list(folder.glob("has-*"))) > 1
    if case == "large" and (beside or len(list(folder.glob("has-*"))) > 1):
        refused.touch()
        say(case=case, error="CUDA out of memory. Tried to allocate")
    else:
        say(state="ready")
        sys.stdin.readline()
        say(state="settled")
        sys.stdin.readline()
        begin = time.monotonic()
        if case == "kills":  # one that is stopped meanwhile
            stopped = [p for p in folder.glob("has-*") if p != here]
            os.kill(int(stopped[0].name[4:]), signal.SIGKILL)
            stopped[0].unlink()
        time.sleep(0.4)
        say(case=case, pid=os.getpid(), begin=begin, end=time.monotonic())
    here.unlink()
    say(state="idle")
"""


def told(cases, jobs, folder, seconds=60):
    found = []
    command = [sys.executable, "-c", WORKER, folder]
    Turns(command, cases, jobs, seconds, found.append).run()
    assert [f for f in found if "torch" in f] == [{"torch": "none"}], found
    return {f["case"]: f for f in found if "case" in f}


def test_others_stop_while_one_is_timed(folder):
    found = told([f"case{i}" for i in range(6)], 3, folder)
    assert sorted(found) == [f"case{i}" for i in range(6)], found
    times = sorted((f["begin"], f["end"]) for f in found.values())
    assert all(a[1] <= b[0] for a, b in zip(times, times[1:])), times
    ran = {p.name[4:]: [float(t) for t in p.read_text().split()]
           for p in pathlib.Path(folder).glob("ran-*")}
    assert len(ran) == 3 and all(ran.values()), {pid: len(t) for pid, t in ran.items()}
    beside = [t for f in found.values() for pid, moments in ran.items() if pid != str(f["pid"])
              for t in moments if f["begin"] < t < f["end"]]
    assert not beside, beside


def test_no_memory_beside_others(folder):
    found = told(["large", "case1", "case2", "case3"], 2, folder)
    assert all("error" not in f for f in found.values()) and len(found) == 4, found
    assert found["large"]["begin"] > max(f["end"] for c, f in found.items() if c != "large"), found


def test_end_of_a_worker(folder):
    found = told(["case1", "dies", "case2", "case3"], 2, folder, seconds=1e9)  # no limit
    assert found["dies"]["error"] == "its process ended with 9: no such kernel", found
    assert all("begin" in found[f"case{i}"] for i in (1, 2, 3)), found


def test_where_nothing_begins_each_case_is_told_why(folder):
    found = []
    command = [sys.executable, "-c", "import sys; sys.exit('no card here')"]
    Turns(command, ["case1", "case2", "case3"], 1, 60, found.append).run()
    assert [f["case"] for f in found] == ["case1", "case2", "case3"], found
    assert {f["error"] for f in found} == {"its process ended with 1: no card here"}, found


def test_no_case_after_the_time(folder):
    assert list(told(["case1", "case2", "case3"], 1, folder, seconds=1)) == ["case1"]  # of 1.2 s


def test_case_that_is_ended_is_told(folder):
    before, peers_gpu.LATE_S = peers_gpu.LATE_S, 0.5
    try:
        found = told(["lasts", "case1"], 2, folder, seconds=2)
    finally:
        peers_gpu.LATE_S = before
    assert "begin" in found["case1"] and "it was ended" in found["lasts"]["error"], found


def test_one_that_is_killed_while_another_is_timed(folder):
    found = told(["kills", "case1", "case2", "case3", "case4"], 3, folder)
    killed, = [f for f in found.values() if "error" in f]
    assert "ended with -9" in killed["error"] and len(found) == 5, found
    timed = found["kills"]
    moments = [t for p in pathlib.Path(folder).glob("ran-*") if p.name[4:] != str(timed["pid"])
               for t in map(float, p.read_text().split())]
    beside = [t for t in moments if timed["begin"] < t < timed["end"]]
    assert moments and not beside, beside


def alive(pid):
    status = pathlib.Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_sigterm_ends_the_workers(folder):
    script = (f"import sys; sys.path.insert(0, {str(TOP / 'tools')!r}); import peers_gpu\n"
              f"peers_gpu.WORKER = [sys.executable, '-c', {WORKER!r}, {folder!r}]\n"
              "sys.argv = ['peers_gpu', '--jobs', '2'] + ['m:infer:bf16:1:graph'] * 9\n"
              # what it takes --timing for is no matter to this worker
              "sys.exit(peers_gpu.main())")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        until = time.monotonic() + 30
        while len(list(pathlib.Path(folder).glob("ran-*"))) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        pids = [int(p.name[4:]) for p in pathlib.Path(folder).glob("ran-*")]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    left = [pid for pid in pids if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert process.returncode == 143 and len(pids) == 2 and not left, (process.returncode, left)


def refused(*arguments):
    done = subprocess.run([sys.executable, TOP / "tools/peers_gpu.py", *arguments], timeout=60,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2 and not done.stdout, (done.returncode, done.stdout)
    return done.stderr.splitlines()[-1]


def test_what_makes_no_sense(_):
    good = "resnet50:infer:bf16:1:graph"
    for case in ("resnet50:infer:bf16:1:inductr", good + ":nhwc", "resnet50:infer:bf17:1:graph",
                 "resnet50:infr:bf16:1:graph", "resnet50:infer:bf16:0:graph", "resnet50"):
        assert f"{case}: expected MODEL:TASK" in refused(good, case)
    assert "expected cases" in refused()
    assert "--jobs 0: expected 1 or more" in refused("--jobs", "0", good)


if __name__ == "__main__":
    sys.exit(run(globals(), each=tempfile.TemporaryDirectory))
