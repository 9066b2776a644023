# SPDX-License-Identifier: Apache-2.0
"""What tests of `plumb bench` share: folders of stacks, a place of their own, the program."""
import json
import os
import subprocess
import sys
import tempfile

PLUMB = os.environ["PLUMB"]
HERE = os.path.dirname(os.path.abspath(__file__))
passed = failed = 0


def check(condition, what):
    global passed, failed
    if condition:
        passed += 1
    else:
        failed += 1
        print("FAILED ", what, file=sys.stderr)


def finish():
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(failed != 0)


def judged(names, bench, judge, tries=3):
    """The last case of each name. Those that judge(name, case), pairs of a condition and what it
    says, finds wrong are run again by bench(names, attempt): neighbours may have disturbed it, and
    wrong is what always is."""
    cases, left = {}, names
    for attempt in range(tries):
        found = bench(left, attempt)
        cases.update((name, found[name]) for name in left if name in found)
        left = [name for name in left
                if name not in cases or not all(good for good, _ in judge(name, cases[name]))]
        if not left:
            break
        print(f"once more: {', '.join(left)}")
    check(list(cases) == names, f"cases {list(cases)}")
    for name, case in cases.items():
        for good, what in judge(name, case):
            check(good, what)
    return cases


class Place:
    """A home of its own: stacks, store, caches."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = self.folder.name
        self.stacks = os.path.join(self.path, "stacks")
        os.mkdir(self.stacks)
        self.environment = dict(os.environ, PLUMB_STACKS=self.stacks,
                                XDG_DATA_HOME=os.path.join(self.path, "data"),
                                XDG_CACHE_HOME=os.path.join(self.path, "cache"))

    def add(self, name, *command, text=None):
        folder = os.path.join(self.stacks, name)
        os.makedirs(folder)
        with open(os.path.join(folder, "stack.json"), "w", encoding="utf-8") as file:
            file.write(text or json.dumps({"protocol": 1, "name": name, "command": command}))

    def add_script(self, script, *names):
        for name in names:
            self.add(name, sys.executable, os.path.join(HERE, script), PLUMB, name)

    def start(self, *words):
        return subprocess.Popen([PLUMB, *words], env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run(self, *words):
        """(exit status, document or None, standard error)"""
        process = self.start(*words, "--json")
        out, err = process.communicate(timeout=600)
        return process.returncode, json.loads(out) if out else None, err
