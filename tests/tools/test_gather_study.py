#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What gather_study does with files that are none, and with what lies where it is to write."""
import json
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).parents[1]))
from runner import run  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parents[2]
ITEM = {"part": "p", "keys": {"kind": "infer"}, "outcome": "ok", "reason": None,
        "results": {"ms": 1}}
GOOD = {"document": "study", "study": "small", "items": [ITEM]}


def gather(folder, *documents, name="small", more=()):
    """Status and the lines of standard error, of OUT.db from these texts or documents."""
    folder = pathlib.Path(folder)
    (folder / "study.yaml").write_text(f"name: {name}\nparts: []\n")
    files = []
    for i, document in enumerate(documents):
        files.append(folder / f"{i}.json")
        files[-1].write_text(document if isinstance(document, str) else json.dumps(document))
    done = subprocess.run([sys.executable, TOP / "tools/gather_study", folder / "study.yaml", "-o",
                           folder / "OUT.db", *files, *more], capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stderr.splitlines()


def items(folder):
    store = sqlite3.connect(pathlib.Path(folder) / "OUT.db")
    found = [json.loads(row[0]) for row in store.execute("SELECT results FROM study_item")]
    store.close()
    return found


def test_later_files_win(folder):
    later = {**ITEM, "results": {"ms": 2}}
    worse = {**ITEM, "outcome": "oom", "results": None}
    assert gather(folder, GOOD, {**GOOD, "items": [later]}, {**GOOD, "items": [worse]}) == (0, [])
    assert items(folder) == [{"ms": 2}]
    assert gather(folder, GOOD, name="'small'") == (0, [])  # in the place of what was gathered
    assert items(folder) == [{"ms": 1}]
    left = sorted(p.name for p in pathlib.Path(folder).iterdir())
    assert not [name for name in left if name.startswith("OUT.db.")], left


def test_items_are_in_the_order_of_the_document_that_has_most(folder):
    def document(*numbers):
        return {**GOOD, "items": [{**ITEM, "keys": {"kind": "infer", "n": n}, "results": {"n": n}}
                                  for n in numbers]}
    assert gather(folder, document(3, 10, 9), document(1, 4, 2, 3), document(2)) == (0, [])
    assert [i["n"] for i in items(folder)] == [1, 4, 2, 3, 9, 10]  # what it has not: sorted


def test_files_that_are_none(folder):
    gather(folder, GOOD)
    for wrong, words in (("{", "Expecting"), ("[]", "expected what"),
                         ({**GOOD, "items": [{"part": "p"}]}, "expected what"),
                         ({**GOOD, "items": [3]}, "expected what"),
                         ({**GOOD, "study": "large"}, "of the study large, not small")):
        status, told = gather(folder, GOOD, wrong)
        assert status == 1 and len(told) == 1 and words in told[0], (wrong, told)
    status, told = gather(folder, GOOD, more=[pathlib.Path(folder) / "nothing.json"])
    assert status == 1 and len(told) == 1 and "nothing.json" in told[0], told
    (pathlib.Path(folder) / "study.yaml").unlink()
    assert items(folder) == [{"ms": 1}]  # what was there is as it was


def test_study_without_a_name(folder):
    gather(folder, GOOD)
    status, told = gather(folder, GOOD, name="")
    assert status == 1 and len(told) == 1 and "expected a study's file" in told[0], told
    assert items(folder) == [{"ms": 1}]


def test_what_a_killed_program_left_is_not_read_into_the_new_one(folder):
    gather(folder, GOOD)
    subprocess.run([sys.executable, "-c", "import os, sqlite3\n"
                    "store = sqlite3.connect('OUT.db')\n"
                    "store.execute('PRAGMA journal_mode = WAL')\n"
                    "store.execute('DELETE FROM study_item')\n"
                    "store.commit()\n"
                    "os._exit(0)"], cwd=folder, check=True)
    assert (pathlib.Path(folder) / "OUT.db-wal").stat().st_size
    assert gather(folder, GOOD) == (0, [])
    assert items(folder) == [{"ms": 1}]


def test_store_with_other_runs_is_left_alone(folder):
    gather(folder, GOOD)
    store = sqlite3.connect(pathlib.Path(folder) / "OUT.db")
    store.execute("INSERT INTO machine (hash, facts) VALUES ('a machine', '{}')")
    store.commit()
    store.close()
    status, told = gather(folder, {**GOOD, "items": []})
    assert status == 1 and "it has other runs; name a new store" in told[0], told
    assert items(folder) == [{"ms": 1}]
    (pathlib.Path(folder) / "OUT.db").write_text("a letter " * 99)
    status, told = gather(folder, GOOD)
    assert status == 1 and "no store" in told[0], told
    assert (pathlib.Path(folder) / "OUT.db").read_text() == "a letter " * 99


if __name__ == "__main__":
    sys.exit(run(globals(), each=tempfile.TemporaryDirectory))
