#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How peers_gpu.py hands out cases, with workers that compute nothing: whoever is timed is alone,
what finds no memory has its turn when the others are done, and an end is no end of the rest."""
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "tests"))
sys.path.append(str(TOP / "tools"))
from peers_gpu import Turns  # noqa: E402
from runner import run  # noqa: E402

# Speaks as peers_gpu_torch.py does. While it prepares it writes down when it ran.
WORKER = """
import json, os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
def say(**words): print(json.dumps(words), flush=True)
say(torch="none")
for case in iter(sys.stdin.readline, ""):
    case = case.strip()
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


if __name__ == "__main__":
    sys.exit(run(globals(), each=tempfile.TemporaryDirectory))
