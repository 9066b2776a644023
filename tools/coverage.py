#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/coverage.md, from what `plumb coverage` tells (PLUMB names the program, else
build/plumb) and from a run of ONNX's own test suite.

    tools/coverage.py RESULTS [--check]     RESULTS: what onnx_suite --list wrote for the node tests

With --check nothing is written: exit 1 if the file is not what would be. Exit 2: RESULTS are none,
or `plumb coverage` failed.
"""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent
OUT_OF_SCOPE = re.compile(
    r"element type (string|float8|float4|u?int4|u?int2|complex)|a sequence, map, optional"
    r"|domain ai\.onnx\.(preview|ml)"
    r"|\((Sequence|SplitToSequence|Optional|Random|Bernoulli|Multinomial|String|RegexFull)"
    r"|dropout in training|TreeEnsemble")


def refuse(why):
    print(f"coverage.py: {why}", file=sys.stderr)
    sys.exit(2)


def told(member, *flags):
    program = os.environ.get("PLUMB", ROOT / "build/plumb")
    try:
        run = subprocess.run([program, "coverage", "--json", *flags], stdout=subprocess.PIPE,
                             check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        refuse(error)
    return json.loads(run.stdout)[member]


def mappings():
    rows = told("onnx", "--onnx")
    lines = ["| op | from version | not served |", "|---|---|---|"]
    return lines + [f"| {row['op']} | {row['since']} | {row['not_served']} |"
                    for row in rows], len(rows)


def engine():
    rows = told("ops")
    lines = ["| op | gradient | CPU | CUDA | types |", "|---|---|---|---|---|"]
    return lines + [f"| {row['op']} | {row['gradient']} | {row['cpu']} | {row['cuda'] or '-'} | "
                    f"{row['types']} |" for row in rows], len(rows)


def short(reason):
    """Without paths and names of nodes."""
    reason = re.sub(r"^.*?model\.onnx: ", "", reason)
    return re.sub(r"^node \S+ \((\w+)\): (main: \S+: )?", r"\1: ", reason)


def suite(path):
    verdicts = collections.defaultdict(list)
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError) as error:
        refuse(error)
    for number, line in enumerate(lines, 1):
        if line.count("\t") != 2:
            refuse(f"{path}:{number}: expected a verdict, a name and a reason, with tabs between")
        verdict, name, reason = line.split("\t")
        if verdict == "refused" and OUT_OF_SCOPE.search(reason):
            verdict = "out"
        verdicts[verdict].append((name, short(reason)))
    inside = sum(len(v) for k, v in verdicts.items() if k != "out")
    if not inside:
        refuse(f"{path}: no test in it that is in scope")
    passed = len(verdicts["passed"])
    wrong = len(verdicts["wrong"]) + len(verdicts["broke"])
    lines = [
        f"Of {inside + len(verdicts['out'])} node tests {inside} are in scope, and {passed} of "
        f"them pass ({100 * passed / inside:.1f} %); {wrong} are "
        "wrong. Out of scope are strings, sequences, maps, optionals, floats of 8 and fewer "
        "bits, integers of 4 and fewer, complex numbers, training-only domains and other domains "
        "than ONNX's own, and values from a random generator.", ""]
    for verdict, title in (("refused", "In scope, and refused"), ("noise", "Undecided: what is "
                           "expected is itself rounding noise where the exact result is zero"),
                           ("out", "Out of scope")):
        lines += [f"### {title}", ""]
        groups = collections.defaultdict(list)
        for name, reason in verdicts[verdict]:
            groups[reason].append(name.removeprefix("test_"))
        for reason, names in sorted(groups.items()):
            lines.append(f"- {reason}: {', '.join(names)}")
        lines.append("")
    names = ", ".join(name.removeprefix("test_") for name, _ in verdicts["passed"])
    return lines + ["### Passed", "", names]


def document(results):
    table, count = mappings()
    own, own_count = engine()
    lines = [
        "# What is served", "",
        "Written by tools/coverage.py; test_onnx_suite checks that it is up to date.", "",
        f"## Ops of ONNX ({count} rows)", "", *table, "",
        f"## Ops of the engine ({own_count})", "",
        "Kernels are named best first; \"reference\" is plain loops. Which one serves a case, and "
        "why others refuse it, `plumb explain` tells.", "", *own, "",
        "## ONNX's own node tests", "", *suite(results)]
    return "\n".join(lines).rstrip() + "\n"


def main():
    words = [word for word in sys.argv[1:] if word != "--check"]
    if len(words) != 1:
        print(__doc__)
        return 2
    text, path = document(pathlib.Path(words[0])), ROOT / "docs/coverage.md"
    if "--check" not in sys.argv:
        path.write_text(text)
        return 0
    if path.exists() and path.read_text() == text:
        return 0
    print("docs/coverage.md is out of date: tools/coverage.py RESULTS")
    return 1


if __name__ == "__main__":
    sys.exit(main())
