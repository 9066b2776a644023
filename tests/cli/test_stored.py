#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare, runs, show, export and import over stores made of simulated runs.

PLB_TEST_FULL=1 also compares two runs of 10,000 cases.
"""
import contextlib
import csv
import io
import json
import math
import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

PLUMB = os.environ["PLUMB"]
MACHINE = {"cpu_model": "Test CPU", "logical_cpus": 2, "quota_cpus": 1.1}
UUIDS = random.Random(5)


def plumb(*words, db, **options):
    return subprocess.run([PLUMB, *map(str, words), "--db", str(db)], capture_output=True,
                          text=True, timeout=120, check=False, **options)


def document(*words, db, code=0):
    run = plumb(*words, "--json", db=db)
    assert run.returncode == code and not run.stderr, (run.args, run.returncode, run.stderr)
    return json.loads(run.stdout)


# ---------------------------------------------------------------------------- simulated runs
def case(**keys):
    return {"model": "lenet", "task": "infer", "stack": "plumb-plan", "batch": 8, "threads": 2,
            **keys}


def block(draw, ns, sweep, began, count=16):
    return {"kind": "timed", "sweep": sweep, "began_ns": began, "iterations_per_sample": 1,
            "marks": 0, "samples_ns": [int(ns * draw.lognormvariate(0, 0.01))
                                       for _ in range(count)]}


def start(draw, number, ns, group=None, spread=0.003, sweeps=6):
    ns *= math.exp(draw.uniform(-spread, spread))
    began = number * 1000
    warm = block(draw, 3 * ns, None, began)
    warm["kind"] = "warmup"
    return {"number": number, "group": group, "outcome": "ok", "steady": True, "stop": "precise",
            "warmup_iterations": 16, "load_ns": 5_000_000, "first_call_ns": int(4 * ns),
            "compile_ns": None, "peak_rss_bytes": 1 << 27, "device_peak_bytes": None,
            "ran": {"threads": {"intra": 2}}, "memory": None,
            "blocks": [warm] + [block(draw, ns, None if group is None else sweep, began + 1 + sweep)
                                for sweep in range(sweeps)]}


def measured(draw, keys, ns, groups=True, starts=3, **more):
    return {"case": keys, "outcome": "ok", "proof": {"equal": True}, "versions": {"plumb": "1"},
            "starts": [start(draw, i, ns, i if groups else None, **more) for i in range(starts)]}


def failed(keys, outcome, reason, log=None):
    return {"case": keys, "outcome": outcome, "reason": reason, "log": log, "starts": []}


def run_of(cases, label=None, git=None, machine=None, state="done", command="plumb bench lenet",
           work_tree=None):
    software = {"software": {"work_tree": work_tree}} if work_tree else {}
    return {"document": "run", "document_version": 1, "run": {
        "uuid": f"{UUIDS.getrandbits(128):032x}", "label": label, "command": command,
        "git": git, "state": state, "began_ms": 1_700_000_000_000, "ended_ms": 1_700_000_060_000,
        "machine": machine or MACHINE, "fingerprint": {"state": {"load_1min": 0.25}, **software},
        "fingerprint_end": None}, "cases": cases}


class Store:
    """A store in a temporary folder, filled from documents."""
    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="plumb-test-")
        self.path = pathlib.Path(self.folder.name)
        self.db = self.path / "plumb.db"
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def file(self, content):
        path = self.path / "run.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def add(self, content):
        run = plumb("import", self.file(content), db=self.db)
        assert run.returncode == 0, run.stderr
        return int(run.stdout.split()[-1])


def two_stacks(draw, effect, history=3, starts=3):
    """Runs of two stacks that took turns, the last one to be judged; b is slower by `effect`."""
    return [run_of([measured(draw, case(), 1e6, starts=starts),
                    measured(draw, case(stack="plumb-interp"), 1e6 * (1 + effect), starts=starts)])
            for _ in range(history + 1)]


# ---------------------------------------------------------------------------- tests
def test_round_trip():
    draw = random.Random(1)
    with Store() as store, Store() as other:
        cases = [measured(draw, case(), 2e6),
                 failed(case(batch=16, **{"set.x": "y"}), "crash", "signal 11", "a\nb <&> \"")]
        store.add(run_of(cases, "base", "abcdef0123456789abcdef0123456789abcdef01"))
        exported = document("export", 1, db=store.db)
        other.add(run_of([]))  # so that numbers differ
        assert other.add(exported) == 2
        again = document("export", "label:base", db=other.db)
        for found in (exported, again):
            del found["run"]["id"]
            for entry in found["cases"]:
                del entry["id"]
        assert exported == again
        assert exported["run"]["machine"] == MACHINE
        runs = document("runs", db=other.db)["runs"]
        first = document("runs", db=store.db)["runs"]
        assert runs[0]["uuid"] == first[0]["uuid"] and runs[0]["machine"] == first[0]["machine"]
        assert [r["cases"] for r in runs] == [2, 0] and [r["ok"] for r in runs] == [1, 0]
        assert runs[0]["seconds"] == 60
        entry = exported["cases"][0]
        pooled = [ns for s in entry["starts"] for b in s["blocks"] if b["kind"] == "timed"
                  for ns in b["samples_ns"]]
        assert entry["samples"] == len(pooled) == 288
        assert entry["low_ms"] < entry["median_ms"] < entry["high_ms"]
        middle = sorted(pooled)[144] * 1e-6
        assert abs(entry["median_ms"] / middle - 1) < 0.003, (entry["median_ms"], middle)
        assert abs(entry["min_ms"] - min(pooled) * 1e-6) < 1e-12
        assert exported["cases"][1]["median_ms"] is None
        run = plumb("import", store.file(again | {"run": exported["run"]}), db=store.db)
        assert run.returncode == 2 and "already, as run 1" in run.stderr, run.stderr


def test_numbers_keep_their_digits():
    draw = random.Random(13)
    numbers = [8.184670410489945e-08, 0.1, 1 / 3, 1e300, 5e-324, 2.0, -0.0, 1e22]
    with Store() as store, Store() as other:
        entry = measured(draw, case(), 2e6) | {"proof": {"errors": numbers},
                                               "results": {"flops": 1 / 3, "n": {"deep": numbers}}}
        content = run_of([entry], machine=MACHINE | {"quota_cpus": 1 / 3})
        content["run"]["fingerprint"]["odd"] = numbers
        store.add(content)
        exported = document("export", 1, db=store.db)
        assert exported["cases"][0]["proof"]["errors"] == numbers, exported["cases"][0]["proof"]
        assert exported["run"]["fingerprint"]["odd"] == numbers
        other.add(exported)
        assert plumb("export", 1, db=other.db).stdout == plumb("export", 1, db=store.db).stdout


def test_a_machine_is_the_same_wherever_it_comes_from():
    """Its facts are the text that a run of this machine stores, not only as true."""
    draw = random.Random(14)
    with Store() as store:
        store.add(run_of([measured(draw, case(), 1e6)]))
        with contextlib.closing(sqlite3.connect(store.db)) as db:
            facts, = db.execute("SELECT facts FROM machine").fetchone()
        assert facts == '{"cpu_model": "Test CPU", "logical_cpus": 2, "quota_cpus": 1.1}', facts


def study_of(store, items):
    """Run 1 of the store becomes a study, as `plumb study` writes it."""
    with contextlib.closing(sqlite3.connect(store.db)) as db, db:
        db.execute("INSERT INTO study VALUES (1, 'odd', ?, ?)",
                   ("name: odd\nparts: []\n", '{"quick": false, "time": 0.1}'))
        for item in items:
            db.execute("INSERT INTO study_item (run, part, keys, outcome, reason, results) "
                       "VALUES (1, ?, ?, ?, ?, ?)", item)


def test_studies_come_along():
    items = [("sizes", '{"kind": "sweep", "model": "a\\"b", "batch": 1}', "ok", None,
              '{"median_ns": 8.184670410489945e-08}'),
             ("sizes", '{"kind": "sweep", "model": "c", "batch": 2}', "crash", "signal 11", None),
             ("train", '{"kind": "train", "model": "d"}', "running", "12", None)]
    with Store() as store, Store() as other:
        store.add(run_of([], "s"))
        study_of(store, items)
        exported = document("export", 1, db=store.db)
        assert exported["study"]["name"] == "odd" and len(exported["study"]["items"]) == 3
        other.add(exported)
        with contextlib.closing(sqlite3.connect(other.db)) as db:
            name, spec, options = db.execute("SELECT name, spec, options FROM study").fetchone()
            rows = db.execute("SELECT part, keys, outcome, reason, results FROM study_item "
                              "ORDER BY id").fetchall()
        assert (name, spec) == ("odd", "name: odd\nparts: []\n")
        assert options == '{"quick": false, "time": 0.1}'  # a study is resumed by these texts
        assert rows[:2] == items[:2] and rows[2][:3] == (*items[2][:2], "left-out"), rows
        text = plumb("show", 1, db=store.db).stdout
        assert "the study odd: `plumb report 1 " in text, text
        bad = json.loads(json.dumps(exported))
        bad["run"]["uuid"] = "f" * 32
        bad["study"]["items"][1]["outcome"] = "great"
        run = plumb("import", other.file(bad), db=other.db)
        assert run.returncode == 2 and 'study, item 1: "outcome": expected' in run.stderr, run
        assert len(document("runs", db=other.db)["runs"]) == 1


def test_bad_documents():
    draw = random.Random(2)
    good = run_of([measured(draw, case(), 2e6, starts=1)])

    def changed(change):
        copy = json.loads(json.dumps(good))
        change(copy)
        return copy

    def at(*path, value):
        def change(copy):
            for key in path[:-1]:
                copy = copy[key]
            copy[path[-1]] = value
        return change
    first = ("cases", 0, "starts", 0)
    bad = [("{", "line 1, column"), ("[]", "expected what `plumb export"),
           (changed(at("document_version", value=2)), "version 1"),
           (changed(at("run", "uuid", value=None)), 'run: "uuid": expected a text'),
           (changed(at("run", "state", value="great")),
            'run: "state": expected running, done, interrupted or failed, found "great"'),
           (changed(at("cases", 0, "case", "batch", value="x")), "case 0: case: key batch"),
           (changed(at("cases", 0, "outcome", value="fine")),
            'case 0: "outcome": expected ok, invalid, refused, oom, timeout, crash, protocol or '
            'null, found "fine"'),
           (changed(at(*first, "outcome", value="fine")), 'case 0, start 0: "outcome": expected'),
           (changed(at(*first, "number", value=-1)), 'case 0, start 0: "number"'),
           (changed(at(*first, "blocks", value=None)), "exported without"),
           (changed(at(*first, "blocks", 1, "samples_ns", value=[])), "start 0, block 1"),
           (changed(at(*first, "blocks", 1, "samples_ns", value=[1.5])), "whole numbers"),
           (changed(at(*first, "blocks", 1, "samples_ns", value=[5, -5])),
            'case 0, start 0, block 1: "samples_ns": expected times as whole numbers from 1 to '
            '2^53, found -5'),
           (changed(at(*first, "blocks", 1, "samples_ns", value=[0])), "from 1 to 2^53, found 0"),
           (changed(at(*first, "blocks", 0, "samples_ns", value=[1 << 62])), 'block 0: "samples_'),
           (changed(at(*first, "blocks", 1, "kind", value="x")), "timed or warmup"),
           (changed(at(*first, "blocks", 1, "sweep", value=1 << 30)), "below 2^20"),
           (changed(at(*first, "blocks", 1, "iterations_per_sample", value=1 << 62)), "to 2^40"),
           (changed(at(*first, "blocks", 1, "marks", value=1 << 32)), "below 2^32"),
           (changed(lambda d: d["cases"][0]["starts"].append(d["cases"][0]["starts"][0])),
            "case 0, start 1: "),
           (changed(lambda d: d["cases"].append(d["cases"][0])), "case 1: \"case\": expected each"),
           (changed(at("study", value=[])), '"study": expected an object or null, found a list')]
    with Store() as store:
        for content, words in bad:
            run = plumb("import", store.file(content), db=store.db)
            assert run.returncode == 2 and words in run.stderr, (words, run.stderr)
            assert run.stderr.count("\n") == 1
            assert str(store.path / "run.json") in run.stderr, run.stderr
        assert document("runs", db=store.db)["runs"] == []  # nothing half done is left
        store.add(good)


def test_verdicts():
    draw = random.Random(3)
    for effect, verdict, code in ((0.05, "SLOWER", 1), (-0.05, "FASTER", 0), (0, "SAME", 0)):
        with Store() as store:
            for content in two_stacks(draw, effect):
                store.add(content)
            found = document("compare", "plumb-plan", "plumb-interp", db=store.db, code=code)
            pair, = found["pairs"]
            assert pair["verdict"] == verdict, pair
            assert pair["low"] < 1 + effect < pair["high"] and pair["differs"] == []
            assert pair["design"] == "interleaved" and pair["a"]["run"] == pair["b"]["run"] == 4
            assert pair["needs"] is None and pair["starts_more"] == 0
            text = plumb("compare", "plumb-plan", "plumb-interp", db=store.db)
            assert text.returncode == code and verdict in text.stdout
            assert "3 and 3 starts, 288 and 288 samples" in text.stdout, text.stdout
            plot = plumb("compare", "plumb-plan", "plumb-interp", "--plot", db=store.db)
            assert "Time of B over time of A\nplumb-interp / plumb-plan" in plot.stdout, plot
            assert "█" in plot.stdout and plot.stdout.endswith(text.stdout), plot.stdout
            assert plumb("compare", "--plot", "--json", db=store.db).returncode == 2
            by = document("compare", "--by", "stack", db=store.db, code=code)
            assert by["pairs"][0]["ratio"] == pair["ratio"]


def test_unsure():
    draw = random.Random(4)
    with Store() as store:
        store.add(two_stacks(draw, 0.05, history=0)[0])
        words = ("compare", "--by", "stack")
        pair, = document(*words, db=store.db)["pairs"]
        assert pair["verdict"] == "UNSURE" and pair["starts_more"] == 4, pair
        assert pair["needs"].startswith("needs 4 more starts of each"), pair
        assert plumb(*words, "--fail-unsure", db=store.db).returncode == 4
        store.add(two_stacks(draw, 0.05, history=0)[0])  # one more run, and the spread is known
        pair, = document(*words, db=store.db, code=1)["pairs"]
        assert pair["verdict"] == "SLOWER", pair
        store.add(two_stacks(draw, 0, history=0, starts=2)[0])
        pair, = document(*words, db=store.db)["pairs"]
        assert pair["verdict"] == "UNSURE" and "a verdict takes 3" in pair["needs"], pair


def test_two_runs():
    """Runs by number, label and revision; what only one has; what failed."""
    draw = random.Random(6)
    with Store() as store:
        for label, git, effect in (("base", "aaaa" * 10, 0), ("base", "bbbb" * 10, 0),
                                   ("head", "cccc" * 10, 0.3)):
            cases = [measured(draw, case(batch=b), 1e6 * b * (1 + effect), groups=False)
                     for b in (1, 2)]
            if label == "base":
                cases += [measured(draw, case(batch=4), 1e6, groups=False),
                          measured(draw, case(model="alexnet"), 1e6)]
            else:
                cases += [failed(case(batch=4), "crash", "signal 11")]
            store.add(run_of(cases, label, git))
        found = document("compare", "base", "head", db=store.db, code=1)
        assert [p["verdict"] for p in found["pairs"]] == ["SLOWER", "SLOWER", "REFUSED"], found
        assert {p["design"] for p in found["pairs"][:2]} == {"apart"}
        assert found["pairs"][2]["differs"] == [{"key": "outcome", "a": "ok", "b": "crash"}]
        assert [e["case"]["model"] for e in found["only_a"]] == ["alexnet"]
        same = document("compare", "git:bbbb", "3", db=store.db, code=1)
        assert same["pairs"] == found["pairs"]
        equal = document("compare", 1, 2, db=store.db)
        assert {p["verdict"] for p in equal["pairs"]} <= {"SAME", "UNSURE"}
        assert all("taking turns" in p["needs"] for p in equal["pairs"] if p["needs"])
        text = plumb("compare", "base", "head", db=store.db).stdout
        assert "1 FAILED where A did not" in text and "Only in A:" in text, text


def test_refusals():
    draw = random.Random(7)
    with Store() as store:
        store.add(run_of([measured(draw, case(), 1e6)]))
        store.add(run_of([measured(draw, case(batch=16, size=28), 2e6)]))
        store.add(run_of([measured(draw, case(), 1e6)], machine=MACHINE | {"cpu_model": "Other"}))
        found = document("compare", 1, 2, db=store.db, code=2)
        pair, = found["pairs"]
        assert pair["verdict"] == "REFUSED" and "ratio" not in pair
        assert [d["key"] for d in pair["differs"]] == ["batch", "size"], pair
        text = plumb("compare", 1, 2, db=store.db)
        assert text.returncode == 2 and "batch: 8 -> 16" in text.stdout, text.stdout
        pair, = document("compare", 1, 3, db=store.db, code=2)["pairs"]
        assert pair["differs"] == [{"key": "machine.cpu_model", "a": '"Test CPU"',
                                    "b": '"Other"'}], pair
        pair, = document("compare", 1, 3, "--anyway", db=store.db)["pairs"]
        assert pair["anyway"] and pair["verdict"] == "UNSURE" and 0.9 < pair["ratio"] < 1.1
        text = plumb("compare", 1, 3, "--anyway", db=store.db)
        assert "NOT COMPARABLE: differs in machine.cpu_model" in text.stdout
        for words, message in ((("nothing", 1), "nothing: the store has no run, label"),
                               ((1, "run:9"), 'the store has no run "9"'),
                               ((1,), "expected two names"),
                               (("--by", "stak"), "did you mean stack"),
                               ((1, 2, "--by", "stack"), "expected one name at most")):
            run = plumb("compare", *words, db=store.db)
            assert run.returncode == 2 and message in run.stderr, (words, run.stderr)
        store.add(run_of([failed(case(batch=4), "crash", "signal 11")]))
        assert plumb("compare", 1, 4, db=store.db).returncode == 2  # other work that failed
        store.add(run_of([measured(draw, case(), 1e6)], git="aaaa" * 10, label="one"))
        for words in ((1, 1), ("run:1", 1, "--anyway"), (5, "one"), ("git:aaaa", "git:aaaa")):
            run = plumb("compare", *words, db=store.db)
            assert run.returncode == 2 and "are both of run" in run.stderr, run
            assert run.stderr.count("\n") == 1 and not run.stdout, run
        store.add(run_of([measured(draw, case(batch=3), 1e6)], label="one"))
        run = plumb("compare", "label:one", "one", db=store.db)
        assert run.returncode == 2 and "are the same measurements" in run.stderr, run
        assert plumb("compare", 1, 5, db=store.db).returncode in (0, 1)
        run = plumb("runs", db=store.path / "none.db")
        assert run.returncode == 3 and "no store there yet" in run.stderr, run.stderr


def test_cases_that_vanish():
    draw = random.Random(15)
    with Store() as store:
        whole = [measured(draw, case(batch=b), 1e6 * b, groups=False, starts=4) for b in (1, 2, 4)]
        for cases in (whole, whole, whole[:2], whole[:2] + [failed(case(batch=4), "refused", "no")],
                      whole[:2] + [measured(draw, case(batch=8), 8e6, groups=False)], whole[1:]):
            store.add(run_of(cases, git="aaaa" * 10))
        for run, missing in ((2, 0), (3, 1), (4, 1), (5, 1), (6, 1)):
            counts = document("compare", 1, run, db=store.db)["counts"]
            assert counts["missing"] == missing and counts["failed"] == 0, (run, counts)
            text = plumb("compare", 1, run, db=store.db).stdout.strip().split("\n")[-1]
            assert (", 1 of A MISSING in B" in text) == bool(missing), text
            found = plumb("compare", 1, run, "--fail-missing", db=store.db).returncode
            assert found == missing, (run, found)
        store.add(run_of([failed(case(batch=9), "crash", "signal 11")]))
        store.add(run_of([measured(draw, case(batch=9), 1e6), *whole]))
        counts = document("compare", 7, 8, db=store.db, code=2)["counts"]
        assert counts["missing"] == 0, counts  # A has no time either
        run = plumb("compare", "--by", "batch", "--fail-missing", db=store.db)
        assert run.returncode == 2 and "--by has no B" in run.stderr, run


def test_edits_teach_no_spread_of_runs():
    """What runs of unchanged software differ by is not learnt from runs between which it changed:
    trial edits of one revision, or programs that no revision names."""
    for named in (True, False):
        draw = random.Random(16)

        def one(ns, git, tree, named=named, draw=draw):
            return run_of([measured(draw, case(batch=b), b * ns, groups=False, starts=4)
                           for b in (1, 2)], git=git * 10 if named else None,
                          work_tree=tree if named else None)
        with Store() as store:
            for _ in range(6):
                store.add(one(1e6, "aaaa", "0" * 16))
            store.add(one(1.1e6, "bbbb", "1" * 16))
            before = document("compare", 6, 7, db=store.db, code=1)
            for ns, tree in ((1.6e6, "2"), (2.4e6, "3"), (3.6e6, "4")):
                store.add(one(ns, "aaaa", tree * 16))
            after = document("compare", 6, 7, db=store.db, code=1)
            assert before["counts"]["slower"] == after["counts"]["slower"] == 2, after["counts"]
            if not named:
                continue
            for ns in (1.6e6, 2.4e6, 3.6e6):  # of the very same files they are noise
                store.add(one(ns, "aaaa", "0" * 16))
            unsure = document("compare", 6, 7, db=store.db)
            assert unsure["counts"]["unsure"] == 2, unsure["counts"]


def test_a_run_goes_on_as_it_began():
    draw = random.Random(17)
    began = "plumb bench lenet5 'no model' --region latency --label 'it'\\''s' --db x --no-lock"
    words = ["lenet5", "no model", "--label", "it's"]
    with Store() as store:
        for state in ("interrupted", "done"):
            store.add(run_of([measured(draw, case(), 1e6)], state=state, command=began))
        store.add(run_of([], command="plumb study tiny", state="interrupted"))
        store.add(run_of([], command="plumb profile -- sleep 1"))
        before = [document("export", number, db=store.db) for number in (1, 2, 3, 4)]
        for number, given, message in (
                (1, [*words, "--region", "host"],
                 "--resume 1: expected --region latency, as it began, found --region host"),
                (1, [*words, "--starts", 5], "expected --starts 3, as it began, found --starts 5"),
                (2, [*words, "--profile"], "--resume 2: expected no --profile, as it began"),
                (1, words[:2], "expected --label it's, as it began, found no --label"),
                (1, words[1:], "expected lenet5, as it began, found no model"),
                (2, ["alexnet", *words], "expected lenet5, as it began, found alexnet"),
                (1, [words[0], *words[2:]], "expected no model, as it began, found no more models"),
                (3, words, "expected a run of `plumb bench`, found one of `plumb study`"),
                (4, words, "expected a run of `plumb bench`, found one of `plumb profile`"),
                (9, words, "there is no run 9")):
            run = plumb("bench", *given, "--resume", number, db=store.db)
            assert run.returncode == 2 and message in run.stderr, (given, run.stderr)
        run = plumb("bench", "--time", "3.0", *words, "--json", "--resume=1", db=store.db)
        assert run.returncode == 2 and "--resume" not in run.stderr, run.stderr  # the same command
        assert before == [document("export", number, db=store.db) for number in (1, 2, 3, 4)]


def test_lists_have_a_word_between_commas():
    with Store() as store:
        for flag, value in (("batch", "1,,2"), ("batch", ",1"), ("stack", "plumb-plan,"),
                            ("set", ","), ("threads", "1,")):
            run = plumb("bench", "lenet5", f"--{flag}", value, db=store.db)
            assert run.returncode == 2 and f"--{flag} {value}: expected a word" in run.stderr, run
            assert not store.db.exists()


def test_export_says_what_contradicts():
    draw = random.Random(18)
    with Store() as store:
        store.add(run_of([measured(draw, case(), 1e6)]))
        for form in ("csv", "markdown", "junit"):
            run = plumb("export", 1, "--json", "--format", form, db=store.db)
            assert run.returncode == 2 and not run.stdout, run
            assert f"found --format {form}" in run.stderr, run.stderr
        assert plumb("export", 1, "--json", "--format", "json", db=store.db).returncode == 0


def test_what_was_interrupted_has_not_failed():
    draw = random.Random(10)
    with Store() as store:
        store.add(run_of([measured(draw, case(), 1e6)]))
        store.add(run_of([{**failed(case(), "crash", None), "outcome": None}], state="interrupted"))
        run = plumb("compare", 1, 2, db=store.db)
        assert run.returncode == 2 and "FAILED" not in run.stdout, run.stdout
        store.add(run_of([failed(case(), "crash", "signal 11")]))
        run = plumb("compare", 1, 3, db=store.db)
        assert run.returncode == 1 and "1 FAILED where A did not" in run.stdout, run.stdout


def test_by_stack_where_the_first_failed():
    draw = random.Random(9)
    with Store() as store:
        for _ in range(4):
            store.add(run_of([failed(case(stack="a"), "crash", "signal 11"),
                              measured(draw, case(stack="b"), 1e6),
                              measured(draw, case(stack="c"), 1.5e6)]))
        pairs = document("compare", "--by", "stack", db=store.db, code=1)["pairs"]
        slower, = [p for p in pairs if p["verdict"] == "SLOWER"]
        assert (slower["a"]["case"]["stack"], slower["b"]["case"]["stack"]) == ("b", "c"), pairs


def test_by_batch():
    draw = random.Random(8)
    with Store() as store:
        for _ in range(4):
            store.add(run_of([measured(draw, case(batch=b, input_digest=f"d{b}"), 1e6 * cost)
                              for b, cost in ((1, 1), (8, 4))]))
        pair, = document("compare", "--by", "batch", db=store.db)["pairs"]
        assert pair["per_sample"] and abs(pair["ratio"] - 0.5) < 0.01, pair
        assert pair["verdict"] == "FASTER" and pair["low"] < 0.5 < pair["high"]


def test_ambiguous():
    draw = random.Random(9)
    with Store() as store:
        store.add(run_of([measured(draw, case(), 1e6)], label="plumb-plan"))
        store.add(run_of([measured(draw, case(), 1e6)], label="1"))
        run = plumb("compare", "plumb-plan", 2, db=store.db)
        assert run.returncode == 2 and "write label:plumb-plan or stack:plumb-plan" in run.stderr
        run = plumb("show", "1", db=store.db)
        assert run.returncode == 2 and "write run:1 or label:1" in run.stderr, run.stderr
        assert plumb("show", "run:1", db=store.db).returncode == 0


def test_show():
    draw = random.Random(10)
    with Store() as store:
        store.add(run_of([measured(draw, case(), 2e6), failed(case(batch=9), "oom", "no memory")]))
        text = plumb("show", 1, db=store.db).stdout
        assert "Test CPU" in text and "load_1min" in text and "oom" in text, text
        assert "lenet infer plumb-plan cpu b8 threads 2" in text and "no memory" in text
        found = document("show", 1, db=store.db)["cases"][0]
        text = plumb("show", found["hash"][:8], "--samples", db=store.db).stdout
        assert "stopped by precise" in text and "| ends the warm-up" in text, text
        for entry in found["starts"]:
            for samples in entry["blocks"]:
                assert " ".join(map(str, samples["samples_ns"])) in text
        assert "in run 1" in text and text.count("  start ") == 3
        assert plumb("show", "plumb-plan", db=store.db).returncode == 2


def test_tables():
    draw = random.Random(11)
    odd = 'it said "no|way",\nthen <left> & died'
    with Store() as store:
        store.add(run_of([measured(draw, case(**{"set.mode": "a,b"}), 2e6),
                          failed(case(batch=9), "crash", odd, "log & <tail>\x01"),
                          failed(case(batch=10), "refused", "cannot"),
                          failed(case(batch=11), "invalid", "differs")], label="a|b"))
        exported = document("export", 1, db=store.db)["cases"]
        text = plumb("export", 1, "--format", "csv", db=store.db).stdout
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        assert [r["outcome"] for r in rows] == ["ok", "crash", "refused", "invalid"]
        assert rows[0]["settings"] == "mode=a,b" and rows[1]["reason"] == odd
        assert abs(float(rows[0]["median_ms"]) - exported[0]["median_ms"]) < 1e-6
        assert rows[1]["median_ms"] == "" and rows[0]["batch"] == "8" and rows[0]["threads"] == "2"
        text = plumb("export", 1, "--format", "markdown", db=store.db).stdout
        lines = text.strip().split("\n")
        assert "a\\|b" in lines[0] and len(lines) == 8 and "no\\|way" in lines[5], text
        text = plumb("export", 1, "--format", "junit", db=store.db).stdout
        suite = xml.etree.ElementTree.fromstring(text)
        assert {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
            "tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
        cases = suite.findall("testcase")
        assert cases[1].find("error").get("message") == "crash: " + odd
        assert "log & <tail>" in cases[1].find("error").text
        assert abs(float(cases[0].get("time")) * 1000 - exported[0]["median_ms"]) < 1e-5
        brief = json.loads(plumb("export", 1, "--no-samples", db=store.db).stdout)
        assert "blocks" not in brief["cases"][0]["starts"][0]


def test_what_is_wrong_has_no_time():
    draw = random.Random(13)
    with Store() as store:
        cases = [measured(draw, case(), 2.5e6), measured(draw, case(batch=9), 3e6)]
        cases[1].update(outcome="invalid", reason="output differs", proof={"equal": False})
        store.add(run_of(cases))
        fine, wrong = [c["hash"] for c in document("show", 1, db=store.db)["cases"]]
        text = plumb("export", 1, "--format", "csv", db=store.db).stdout
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        times = ("median_ms", "low_ms", "high_ms", "min_ms", "p05_ms", "p95_ms")
        assert all(rows[0][key] and not rows[1][key] for key in times), rows[1]
        assert rows[1]["starts"] == "3" and rows[1]["samples"] == "288", rows[1]
        lines = plumb("export", 1, "--format", "markdown", db=store.db).stdout.splitlines()
        assert "| ok | 2." in lines[-2] and lines[-1].endswith(
            "| invalid: output differs | - | - to - | 3 | 288 |"), lines
        text = plumb("export", 1, "--format", "junit", db=store.db).stdout
        found = [c.get("time") for c in xml.etree.ElementTree.fromstring(text).findall("testcase")]
        assert found[0] and found[1] is None, found
        lines = plumb("show", 1, db=store.db).stdout.splitlines()
        of = {h: next(x for x in lines if x.startswith(h[:12])).split() for h in (fine, wrong)}
        assert of[fine][2].startswith("2.") and of[wrong][1:7] == [
            "invalid", "-", "-", "-", "3", "288"], of
        text = plumb("show", wrong, db=store.db).stdout
        assert "median    - ms, 95 % interval - to - ms over 3 starts" in text, text


def test_texts_of_others_stay_texts():
    """Runs come from other machines: their labels and reasons steer no terminal, end no line, and
    are no formula of a spreadsheet."""
    draw = random.Random(4)
    label, reason = "a\nb\x1b[2Jc", "=HYPERLINK(1)\x1b]0;x\x07"
    with Store() as store:
        store.add(run_of([measured(draw, case(), 2e6), failed(case(batch=9), "crash", reason)],
                         label=label))
        for words in (["runs"], ["show", 1], ["export", 1, "--format", "markdown"],
                      ["export", 1, "--format", "csv"], ["export", 1, "--format", "junit"]):
            text = plumb(*words, db=store.db).stdout
            assert "\x1b" not in text and "\x07" not in text, (words, text)
        assert len(plumb("runs", db=store.db).stdout.splitlines()) == 2
        assert document("runs", db=store.db)["runs"][0]["label"] == label
        text = plumb("export", 1, "--format", "csv", db=store.db).stdout
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        assert rows[1]["reason"].startswith("'=HYPERLINK"), rows[1]["reason"]


def test_many():
    """The bar: two runs of 10,000 cases within 0.5 s of processor time, summaries being cached."""
    count = 10000 if os.environ.get("PLB_TEST_FULL") else 500
    draw = random.Random(12)
    with Store() as store:
        for _ in range(2):
            store.add(run_of([measured(draw, case(batch=b), 1e6, groups=False, sweeps=4)
                              for b in range(1, count + 1)]))
        assert plumb("compare", 1, 2, db=store.db).returncode in (0, 1)  # fills the cache
        best = math.inf
        for _ in range(3):
            begin = os.times()
            run = plumb("compare", 1, 2, db=store.db)
            end = os.times()
            best = min(best, end.children_user + end.children_system
                       - begin.children_user - begin.children_system)
        judged = run.stdout.strip().split("\n")[-1]
        print(f"{count} cases compared in {best:.3f} s: {judged}")
        wrong = int(judged.split(" SLOWER")[0]) + int(judged.split(", ")[1].split()[0])
        assert wrong <= 0.01 * count, judged  # they are equal
        assert best < 0.5, best


def main():
    tests = [f for name, f in globals().items() if name.startswith("test_") and callable(f)]
    wanted = os.environ.get("PLB_TEST_FILTER", "")
    passed = failed_count = 0
    for test in tests:
        if wanted not in test.__name__:
            continue
        try:
            test()
            passed += 1
        except Exception as error:  # pylint: disable=broad-except
            failed_count += 1
            import traceback
            traceback.print_exc()
            print(f"FAILED  {test.__name__}: {error}", file=sys.stderr)
    print(f"{passed} passed, {failed_count} failed, 0 skipped")
    return failed_count != 0


if __name__ == "__main__":
    sys.exit(main())
