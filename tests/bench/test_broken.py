# SPDX-License-Identifier: Apache-2.0
"""Workers that crash, hang, eat memory, talk nonsense: each is an outcome of its own case, the
suite goes on, nothing stays behind. Kills of plumb itself, full disks, resumed runs."""
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from stacks import PLUMB, Place, check, finish, judged  # noqa: E402

WAYS = {
    "crash": ("crash", "signal 11"),
    "exits": ("crash", "status 7"),
    "exit-at-once": ("crash", "no module named torch"),
    "exception": ("crash", "KeyError"),
    "hang": ("timeout", "no answer"),
    "slow-hello": ("timeout", "hello"),
    "eats-memory": ("oom", "--memory-limit"),
    "reports-oom": ("oom", "CUDA"),
    "refuses": ("refused", "frobnicate"),
    "garbage": ("protocol", ""),
    "no-newline": ("protocol", "line"),
    "wrong-id": ("protocol", "id"),
    "deep": ("protocol", "expected an answer"),
    "closes": ("protocol", "closed its descriptor"),
    "old-protocol": ("protocol", "protocol 7"),
    "outside": ("protocol", "outside"),
    "negative": ("protocol", "samples"),
    "time": ("protocol", "negative"),
    "other-batch": ("protocol", "of batch"),
    "fewer": ("protocol", "samples"),
    "huge": ("protocol", ""),
    "shape": ("protocol", "tensor"),
    "types": ("protocol", "samples"),
    "noise": ("ok", None),
    "exports": ("ok", None),
}
# What is no worker at all, and one of ours: the suite goes on.
OTHERS = {"bad-json": ("crash", "stack.json"), "no-program": ("crash", "No such file"),
          "plumb-plan": ("ok", None)}
COMMON = ("--batch", "8", "--threads", "1", "--time", "0.1", "--starts", "1", "--no-lock")


def processes(words):
    """Command lines of all live processes that contain the words."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read().replace(b"\0", b" ").decode(errors="replace")
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                state = file.read().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if words in line and state != "Z" and int(pid) != os.getpid():
            found.append(line)
    return found


def wait_for(condition, seconds):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()


def judge(name, case):
    """What must hold of a case: pairs of a condition and what to say if it does not."""
    outcome, words = WAYS.get(name) or OTHERS[name]
    reason = case["reason"] or ""
    yield (case["outcome"] == outcome and (not words or words in reason),
           f"{name}: {case['outcome']}, {case['reason']}")
    yield ((case["median_ms"] is not None) == (outcome == "ok"), f"{name}: has a time")
    if name == "exports":  # writing the model as a file is not loading it
        yield case["load_ms"] < 500, f"{name}: loads in {case['load_ms']} ms"


def test_ways():
    place = Place()
    place.add_script("broken_stack.py", *WAYS)
    place.add("bad-json", text="{\"protocol\": 1,")
    place.add("no-program", "/nowhere/python")

    def bench(names, attempt):  # one that neighbours disturbed may take longer
        status, document, err = place.run("bench", "mnist_cnn", "--stack", ",".join(names),
                                          "--timeout", str(2.5 * 3**attempt), "--memory-limit",
                                          "120M", *COMMON)
        if attempt == 0:
            check(status == 6, f"exit status {status}: {err[-2000:]}")
        return {case["stack"]: case for case in document["cases"]} if document else {}

    cases = judged([*WAYS, *OTHERS], bench, judge)
    check(cases["refuses"]["kind"] == "export", "kind of a refusal")
    check("assertion" in cases["crash"]["log"], f"log of a crash: {cases['crash']['log']}")
    check(wait_for(lambda: not processes("sleep 987654"), 3), "a hung worker's child lives on")
    check(not processes(place.stacks) and not processes("broken_stack"), "a worker lives on")


def stored(place):
    return sqlite3.connect(os.path.join(place.path, "data", "plumb", "plumb.db"))


def test_memory():
    """Of every start it is what the measured work took, not what telling of it took besides."""
    place = Place()
    place.add_script("broken_stack.py", "looks-back")
    status, _, err = place.run("bench", "mnist_cnn", "--stack", "looks-back", *COMMON, "--starts",
                               "2")
    check(status == 0, f"exit status {status}: {err[-2000:]}")
    peaks = [row[0] for row in stored(place).execute("select peak_rss_bytes from start")]
    check(len(peaks) == 2 and all(0 < peak < 1 << 40 for peak in peaks), f"peaks {peaks}")


def test_kill(how):
    """kill -9 of plumb in the middle of sampling; then --resume finishes."""
    place = Place()
    place.add_script("broken_stack.py", "honest")
    words = ("bench", "mnist_cnn", "--stack", "plumb-plan,honest", "--batch", "8,16", "--threads",
             "1", "--time", "0.6", "--starts", "1", "--no-lock")
    process = place.start(*words)
    database = os.path.join(place.path, "data", "plumb", "plumb.db")

    def sampled():
        try:
            return stored(place).execute("select count(*) from block").fetchone()[0] > 3
        except sqlite3.Error:
            return False

    check(wait_for(sampled, 60), "nothing was sampled")
    process.send_signal(how)
    out, err = process.communicate(timeout=30)
    check(wait_for(lambda: not processes(place.stacks) and not processes("broken_stack"), 5),
          f"{how}: a worker outlives plumb: {processes('broken_stack')}")
    check(os.path.exists(database), "no store")
    check(stored(place).execute("pragma integrity_check").fetchone()[0] == "ok", "store broken")
    blocks = stored(place).execute("select count(*) from block").fetchone()[0]
    check(blocks > 3, f"{blocks} blocks are left")
    if how == signal.SIGINT:
        check(process.returncode == 130 and "run 1" in out, f"interrupt: {process.returncode}")
        check("--no-lock --resume 1" in err, f"how to go on: {err[-500:]}")
    status, document, err = place.run(*words, "--resume", "1")
    check(status == 0, f"resume: {status} {err[-500:]}")
    check(document["run"]["id"] == 1 and len(document["cases"]) == 4, "resumed another run")
    for case in document["cases"]:  # what was measured before is told like the rest
        check(case["outcome"] == "ok" and case["median_ms"] > 0 and case["proof"]["equal"] and
              case["load_ms"] > 0 and case["samples"] > 0 and case["starts"] == 1,
              f"resumed: {case}")
    whole = stored(place).execute("select * from run").fetchall()
    status, again, err = place.run(*words, "--resume", "1")
    check(status == 0 and all(case["resumed"] for case in again["cases"]), "measured again")
    check(stored(place).execute("select * from run").fetchall() == whole, "a done run was changed")
    status, _, err = place.run(*words, "--starts", "2", "--resume", "1")
    check(status == 2 and "expected --starts 1, as it began, found --starts 2" in err,
          f"other flags: {status} {err[-500:]}")
    for old, new in zip(document["cases"], again["cases"]):
        check(all(old[key] == new[key] for key in ("median_ms", "samples", "load_ms", "proof",
                                                   "steady", "versions", "peak_rss_bytes", "stop")),
              f"{old} became {new}")
    place.environment["DNNL_VERBOSE"] = "0"  # times of two such processes are not compared either
    status, _, err = place.run(*words, "--resume", "1")
    refusal = 'run 1 was measured elsewhere: DNNL_VERBOSE was not set there and is "0" here'
    check(status == 2 and err.endswith(f"\nplumb bench: {refusal}\n"), f"elsewhere: {err}")
    del place.environment["DNNL_VERBOSE"]
    outcomes = stored(place).execute("select outcome from measurement").fetchall()
    check(len(outcomes) == 4 and all(o == ("ok",) for o in outcomes), f"resumed: {outcomes}")
    status, document, err = place.run("bench", "mnist_cnn", *COMMON[:4], "--stack", "plumb-plan",
                                      "--time", "0.1", "--starts", "1")
    check(status == 0, f"a lock was left: {err[-300:]}")


def test_failed():
    """A run that fails tells what it measured before, and how to go on, as an interrupted one."""
    place = Place()
    words = ("bench", "mnist_cnn", "lenet5", "--stack", "plumb-plan", *COMMON)
    weights = os.path.join(place.path, "cache", "plumb", "weights")
    status, _, err = place.run("verify", "lenet5", "--stack", "plumb-plan", "--batch", "8",
                               "--no-lock")
    check(status == 0, f"before a failure: {status} {err[-500:]}")
    weights = os.path.join(weights, os.listdir(weights)[0])
    os.remove(weights)
    os.mkdir(weights)  # where a file is to be written
    process = place.start(*words)
    out, err = process.communicate(timeout=60)
    check(process.returncode == 6 and weights in err.splitlines()[-1],
          f"failed: {process.returncode} {err[-500:]}")
    check("EQUAL" in out and "not reached" in out and "run 1" in out, f"failed, told: {out}")
    check("--no-lock --resume 1" in err, f"how to go on: {err[-500:]}")
    status, document, err = place.run(*words)
    outcomes = [case["outcome"] for case in document["cases"]] if document else None
    check(status == 6 and outcomes == ["ok", None], f"failed, as JSON: {status} {outcomes}")
    os.rmdir(weights)
    status, document, err = place.run(*words, "--resume", "1")
    check(status == 0 and [case["resumed"] for case in document["cases"]] == [True, False],
          f"after a failure: {status} {err[-500:]}")


def test_full_disk():
    place = Place()
    disk = os.path.join(place.path, "small")
    os.mkdir(disk)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", disk],
                             check=False, stderr=subprocess.DEVNULL).returncode == 0
    if not mounted:
        print("skipped test_full_disk: no right to mount")
        return
    try:
        database = os.path.join(disk, "plumb.db")
        batches = ",".join(str(n) for n in range(1, 40))
        process = place.start("bench", "mnist_cnn", "--stack", "plumb-plan", "--batch", batches,
                              "--threads", "1", "--time", "0.3", "--starts", "1", "--no-lock",
                              "--db", database)
        _, err = process.communicate(timeout=200)
        check(process.returncode == 3, f"full disk: {process.returncode}: {err[-500:]}")
        check(database in err.splitlines()[-1], f"full disk: {err.splitlines()[-1]}")
        check(not processes(place.path), "a worker outlives a full disk")
        # Weights that a worker was to write for all: its full disk is ours.
        place.environment["XDG_CACHE_HOME"] = disk
        status, _, err = place.run("verify", "resnet18", "--size", "64", "--batch", "1", "--stack",
                                   "plumb-plan")
        check(status == 3 and "weights" in err and "No space left" in err.splitlines()[-1],
              f"full cache: {status}: {err[-500:]}")
        copy = os.path.join(place.path, "copy")
        shutil.copytree(disk, copy)
        whole = sqlite3.connect(os.path.join(copy, "plumb.db"))
        check(whole.execute("pragma integrity_check").fetchone()[0] == "ok", "the store is broken")
    finally:
        subprocess.run(["umount", "-l", disk], check=False)


def test_refused_by_capability():
    place = Place()
    for words in (("--dtype", "bf16"), ("--math", "tf32"), ("--device", "cuda:7"),
                  ("--set", "plumb-plan.no_winograd=perhaps"), ("--set", "plumb-plan.speed=9")):
        status, document, err = place.run("bench", "mnist_cnn", "--stack", "plumb-plan", *words,
                                          *COMMON)
        case = document["cases"][0] if document else {}
        check(status == 5 and case.get("outcome") == "refused" and case["reason"],
              f"{words}: {status} {case.get('outcome')} {err[-300:]}")
    for words in (("--stack", "plumb-plam"), ("--task", "trian"), ("--batch", "0"),
                  ("--region", "latecy"), ("--device", "gpu"), ("--device", "cuda,cuda:0"),
                  ("--device", "cuda:1,cpu,cuda:01"), ("--set", "x"),
                  ("--memory-limit", "many"), ("--batch", "8", "--resume", "99")):
        status, document, err = place.run("bench", "mnist_cnn", *words)
        check(status == 2 and err.count("\n") <= 2, f"{words}: {status} {err}")
    check(place.run("bench", "mnist_cnn", "--device", "cuda,cuda:0")[2].endswith(
        "--device: cuda and cuda:0 are the same device\n"), "one device by two names")
    status, _, err = place.run("bench", "mnist_cnn", "--set", f"plumb-plan.{'k' * 48}=1")
    check(status == 2 and err.endswith("=1: expected a key of at most 47 bytes, found 48\n"),
          f"a long key: {status} {err}")
    status, _, err = place.run("bench", "resnet81")
    check(status == 2 and "resnet18" in err, f"unknown model: {err}")


def test_dots_in_a_name():
    """Of a stack whose name has one, beside a stack that has the name up to there."""
    place = Place()
    place.add_script("broken_stack.py", "my", "my.stack")
    status, document, err = place.run("verify", "mnist_cnn", "--stack", "my,my.stack", "--batch",
                                      "8", "--no-lock", "--set", "my.stack.no_tuning=true")
    settings = {c["stack"]: c["settings"] for c in document["cases"]} if document else None
    check(status == 0 and settings == {"my": {}, "my.stack": {"no_tuning": "true"}},
          f"a dot in a name: {status} {settings} {err[-300:]}")


def test_reasons_steer_no_terminal():
    place = Place()
    place.add_script("broken_stack.py", "steers")
    out, err = place.start("bench", "mnist_cnn", "--stack", "steers", *COMMON).communicate(
        timeout=600)
    for text in (out, err):
        check("refused: a" in text and not set("\x1b\x7f\x9b") & set(text), f"steers: {text!r}")
    ours, terminal = os.openpty()
    subprocess.run([PLUMB, "bench", "mnist_cnn", "--stack", "plumb-plan", "--set",
                    "plumb-plan.odd=a\x9b2Jc", *COMMON], env=place.environment, timeout=600,
                   stdout=subprocess.DEVNULL, stderr=terminal, check=False)
    os.close(terminal)
    text = os.read(ours, 1 << 16).decode()
    os.close(ours)
    check("odd=a" in text and "start ..." in text and "\x9b" not in text,
          f"progress: {text!r}")


def test_waits_before_it_starts_anything():
    """Where another plumb measures, neither a reference nor a stack runs beside it; what is wrong
    at sight is told at once."""
    place = Place()
    with socket.socket(socket.AF_UNIX) as lock:
        def locked():
            try:
                lock.bind("\0plumb-measures")
            except OSError:
                pass
            return bool(lock.getsockname())

        check(wait_for(locked, 300), "somebody else measures all the time")
        for words in (("--region", "latecy"), ("--stack", "plumb-plam"), ("--set", "no-stack.a=b")):
            status, _, err = place.run("bench", "mnist_cnn", *words)
            check(status == 2 and err.count("\n") == 1, f"wrong at sight: {status} {err}")
        process = place.start("bench", "mnist_cnn", "--stack", "plumb-plan", *COMMON[:-1])
        said = process.stderr.readline()
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
            children = file.read()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        check("another plumb measures" in said and not children, f"{said} {children}")
        check(process.returncode == 130, f"interrupted while it waits: {process.returncode}")


def test_floor():
    """The lowest level of ours is what the others are compared with, wherever it stands."""
    place = Place()
    process = place.start("bench", "mnist_cnn", "--stack", "plumb-interp,plumb-plan", *COMMON)
    out, err = process.communicate(timeout=600)
    ratios = {line.split()[0]: float(line.split("one start")[1].split()[0])
              for line in out.splitlines() if "one start" in line}
    check(ratios.get("plumb-plan") == 1 and ratios.get("plumb-interp", 1) != 1,
          f"floor: {ratios} {out[-600:]} {err[-300:]}")


def test_busy():
    """Blocks that are taken while another program keeps a processor busy are marked, and kept."""
    place = Place()
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        status, document, err = place.run("bench", "mnist_cnn", "--stack", "plumb-plan", "--batch",
                                          "64", "--threads", "1", "--time", "3", "--precision",
                                          "0.01", "--starts", "1", "--no-lock")
    finally:
        spinner.kill()
        spinner.wait()
    check(status == 0, f"busy: {status} {err[-500:]}")
    case = document["cases"][0]
    marked = stored(place).execute("select count(*) from block where marks & 2 and timed"
                                   ).fetchone()[0]
    check(0 < marked == case["busy_blocks"] <= case["blocks"], f"busy: {marked} of {case}")


def test_json():
    place = Place()
    status, document, err = place.run("bench", "mnist_cnn", "--task", "infer,train", "--stack",
                                      "plumb-plan,plumb-interp", "--region", "latency,queued",
                                      "--label", "a name", "--set", "plumb-plan.no_tuning=true",
                                      "--batch", "8", "--threads", "1", "--time", "0.2",
                                      "--starts", "2", "--no-lock")
    check(status == 0 and len(document["cases"]) == 8, f"{status} {err[-500:]}")
    check(document["run"]["label"] == "a name" and document["run"]["seconds"] > 0, "run")
    check(isinstance(document["run"]["fingerprint"], dict), "fingerprint")
    end, = stored(place).execute("select fingerprint_end from run").fetchone()
    check("load_1min" in json.loads(end)["state"], f"at the end: {end}")
    for case in document["cases"]:
        title = f"{case['task']} {case['stack']} {case['region']}"
        missing = {"id", "model", "task", "stack", "device", "batch", "size", "dtype", "threads",
                   "region", "math", "autocast", "settings", "starts", "outcome", "reason", "proof",
                   "median_ms", "low_ms", "high_ms", "samples", "steady", "warmup_iterations",
                   "load_ms", "first_call_ms", "compile_ms", "peak_rss_bytes",
                   "device_peak_bytes", "throughput"} - set(case)
        check(not missing, f"{title}: lacks {missing}")
        check(case["outcome"] == "ok" and case["starts"] == 2, f"{title}: {case['reason']}")
        check(case["low_ms"] <= case["median_ms"] <= case["high_ms"], f"{title}: interval")
        check(abs(case["throughput"] * case["median_ms"] / 8000 - 1) < 1e-6, f"{title}: rate")
        check(case["proof"]["equal"] and 0 < case["proof"]["max_rel_error"] < 1e-4 and
              "output" in case["proof"]["checked"], f"{title}: {case['proof']}")
        check(case["load_ms"] > 0 and case["first_call_ms"] > 0, f"{title}: load")
        check(case["peak_rss_bytes"] > 1 << 20 and case["compile_ms"] is None, f"{title}: memory")
        tuned = case["settings"].get("no_tuning")
        check(tuned == ("true" if case["stack"] == "plumb-plan" else None), f"{title}: settings")
    trained = [c for c in document["cases"] if c["task"] == "train"]
    check(all({"loss", "gradients", "weights", "dropout"} <= set(c["proof"]["checked"])
              for c in trained), "what training proves")
    check(len({c["id"] for c in document["cases"]}) == 8, "cases share an id")


def main():
    test_refused_by_capability()
    test_json()
    test_dots_in_a_name()
    test_reasons_steer_no_terminal()
    test_waits_before_it_starts_anything()
    test_floor()
    test_busy()
    test_ways()
    test_memory()
    test_kill(signal.SIGKILL)
    test_kill(signal.SIGINT)
    test_failed()
    test_full_disk()
    finish()


main()
