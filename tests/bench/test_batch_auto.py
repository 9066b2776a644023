# SPDX-License-Identifier: Apache-2.0
"""`--batch auto`: which batches are tried, what ends the search, and that all of it is told."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from stacks import Place, check, finish  # noqa: E402

SHORT = ("--time", "0.1", "--starts", "1", "--threads", "1", "--no-lock")


def bench(place, *words):
    status, document, err = place.run("bench", *words, *SHORT)
    if not document:
        check(False, f"{words}: {err[-1000:]}")
        return status, {}
    return status, {case["stack"]: case for case in document["cases"]}


def tried(case):
    return [(t["batch"], t["outcome"]) for t in case["batch_search"]["trials"]]


def test_limits(place):
    """At most two doublings before each limit, which noise cannot end."""
    status, cases = bench(place, "mnist_cnn", "--stack", "card,eater,breaker", "--batch", "auto",
                          "--memory-limit", "270M")
    check(status == 0, f"exit status {status}")
    for name, outcome, stop, reason in (
            ("card", "oom", "memory", "CUDA out of memory"),
            ("eater", "oom", "memory", "allowed are 270 MiB (--memory-limit)"),
            ("breaker", "crash", "failed", "KeyError")):
        case = cases[name]
        found = f"{name}: {case['outcome']}, {case['reason']}, {case['batch_search']}"
        limit = {"card": 4, "eater": 4, "breaker": 2}[name]
        doublings = [b for b in (1, 2, 4) if b < limit]
        check(tried(case)[:len(doublings) + 1] ==
              [(b, "ok") for b in doublings] + [(limit, outcome)], found)
        check(case["batch_search"]["stop"] == stop, found)
        check(reason in case["batch_search"]["trials"][len(doublings)]["reason"], found)
        # It goes on with one that fits, proven and timed like any other.
        check(case["outcome"] == "ok" and case["proof"]["equal"] and case["median_ms"] > 0, found)
        ok = {t["batch"]: t["throughput"] for t in case["batch_search"]["trials"]
              if t["outcome"] == "ok"}
        check(case["batch"] == min(b for b in ok if ok[b] * 1.02 >= max(ok.values())), found)
    # Half-way, where two samples were better than one and four did not fit.
    search = cases["card"]["batch_search"]["trials"]
    rose = search[1]["throughput"] > 1.02 * search[0]["throughput"]
    check(((3, "ok") in tried(cases["card"])) == rose, f"card: {search}")


def check_rule(search):
    """It ends at the second trial in a row that gains less than 2 %, and at no earlier one."""
    best = stale = 0
    for trial in search["trials"]:
        check(stale < 2, f"goes on after two without gain: {search}")
        stale = 0 if trial["throughput"] > 1.02 * best else stale + 1
        best = max(best, trial["throughput"])
    check((search["stop"] == "no-gain") == (stale == 2), f"ends elsewhere: {search}")


def test_none_fits(place):
    """Refused, or too large from the first batch on: rows with their reasons."""
    status, cases = bench(place, "mnist_cnn", "--stack", "refuser,plumb-plan", "--batch", "auto")
    check(status == 0, f"exit status {status}")
    case = cases["refuser"]
    check((case["outcome"], case["reason"], case["kind"]) == ("refused", "trains nothing", "task"),
          f"refuser: {case}")
    check(tried(case) == [(1, "refused")], f"refuser: {tried(case)}")
    case = cases["plumb-plan"]
    check(case["outcome"] == "ok", f"plumb-plan: {case['outcome']}, {case['reason']}")
    check(tried(case) == [(2**i, "ok") for i in range(len(tried(case)))], f"{tried(case)}")
    check_rule(case["batch_search"])
    check(all(t["bytes"] > 0 for t in case["batch_search"]["trials"]),
          f"plumb-plan: {case['batch_search']}")
    status, cases = bench(place, "squeezenet1_1", "--task", "train", "--size", "448", "--stack",
                          "plumb-plan", "--set", "plumb-plan.no_tuning=true", "--batch", "auto",
                          "--memory-limit", "150M")
    case = cases["plumb-plan"]  # it is not run: what it has resident is below the limit
    check(status == 6 and case["outcome"] == "oom" and "its plan takes" in case["reason"] and
          case["reason"].endswith("allowed are 150 MiB (--memory-limit)"),
          f"exit status {status}, {case['reason']}")
    status, cases = bench(place, "mnist_cnn", "--stack", "eater", "--batch", "auto",
                          "--memory-limit", "60M")
    case = cases["eater"]
    check(status == 6 and case["outcome"] == "oom" and case["batch"] > 0 and
          "resident, allowed are 60 MiB" in case["reason"] and tried(case) == [(1, "oom")],
          f"exit status {status}, {case}")


def test_words(place):
    """The table names the batch; what makes no sense is refused before anything runs."""
    process = place.start("bench", "mnist_cnn", "--stack", "card", "--batch", "auto", *SHORT)
    out, err = process.communicate(timeout=600)
    check("batch auto, 28x28" in out and "card batch " in out and
          "4 is oom: load: CUDA out of memory" in out, out + err)
    run = out.strip().split("run ")[-1]
    process = place.start("show", run)
    out, err = process.communicate(timeout=60)
    check(process.returncode == 0 and "mnist_cnn" in out, out + err)
    for words, reason in (
            (("--batch", "1,auto"), "--batch auto: expected numbers from 1"),
            (("--batch", "auto,8"), "expected numbers"),
            (("--batch", "8,8"), "--batch: 8 is there twice"),
            (("--batch", "8,08"), "--batch: 8 and 08 are the same number"),
            (("mnist_cnn",), "the model mnist_cnn is there twice"),
            (("--batch", "autos"), "expected numbers")):
        status, _, err = place.run("bench", "mnist_cnn", *words, *SHORT)
        check(status == 2 and reason in err, f"{words}: {status}, {err}")
    status, _, err = place.run("verify", "mnist_cnn", "--batch", "auto")
    check(status == 2 and "found by timing" in err, f"verify: {status}, {err}")


def main():
    place = Place()
    place.add_script("growing_stack.py", "card", "eater", "refuser", "breaker")
    test_limits(place)
    test_none_fits(place)
    test_words(place)
    finish()


main()
