#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`plumb report` in every form that needs no browser: Markdown, CSV, SVG, PNG, PDF, terminal."""
import csv
import io
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zlib

sys.path.append(str(pathlib.Path(__file__).parents[1]))
import samples  # noqa: E402
from runner import Skip, run  # noqa: E402
from samples import plumb  # noqa: E402


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_csv(folder, path):
    first = rows_of(plumb("report", path, "--format", "csv"))  # the first table
    assert len(first) == 20 and first[0] == {"name": "row 00", "time ns": "500000",
                                             "remark": "text 0"}
    assert first[3]["remark"] == "-"
    bars = rows_of(plumb("report", path, "--format", "csv", "--part", "bars"))
    assert [row["low ns"] for row in bars] == ["280000", "2500000", ""]
    assert bars[2]["name"] == samples.EVIL and bars[2]["time ns"] == "oom"
    grid = rows_of(plumb("report", path, "--format", "csv", "--part", "surface"))
    assert len(grid) == 2 * 3 * 4 and grid[-1]["series"] == samples.EVIL
    cell = next(r for r in grid if r["size"] == "64" and r["batch"] == "8")
    assert abs(float(cell["time ns"]) - 0.1 * 64 / (1 + 8 / 9) * 1e6) < 1
    plumb("report", path, "-o", folder / "t.csv", "--part", "accuracy")
    accuracy = rows_of((folder / "t.csv").read_text())
    assert [r["accuracy"] for r in accuracy[:2]] == ["0.4", "0.55"]
    assert [r["low"] for r in accuracy[:2]] == ["0.38", "0.53"]


def test_formula_is_a_text(folder, _path):
    path = folder / "formula.json"
    path.write_text(json.dumps({"document": "report", "version": 1, "title": "t", "sections": [
        {"title": "s", "blocks": [{"kind": "table", "columns": [{"name": "n", "type": "text"}],
                                   "rows": [["=cmd()"], ["-3"], ["@x"],
                                            ["-2+3+cmd|' /C'!A0"]]}]}]}))
    assert rows_of(plumb("report", path, "--format", "csv")) == [
        {"n": "'=cmd()"}, {"n": "-3"}, {"n": "'@x"}, {"n": "'-2+3+cmd|' /C'!A0"}]


def test_long_titles_are_whole(folder, _path):
    path, name = folder / "long.json", "n" * 300
    path.write_text(json.dumps({"document": "report", "version": 1, "title": "t", "sections": [
        {"title": "s", "blocks": [{"kind": "table", "rows": [[1]], "columns": [
            {"name": name, "type": "number", "unit": "furlongs"}]}]}]}))
    assert rows_of(plumb("report", path, "--format", "csv")) == [{f"{name} (furlongs)": "1"}]


def without_code(text):
    """Markdown without its fenced code; ends of lines are those that CommonMark knows."""
    kept, fence = [], None
    for line in re.split("\r\n|\r|\n", text):
        if fence:
            fence = None if re.fullmatch(fence + "`* *", line) else fence
        elif line.startswith("```"):
            fence = re.match("`+", line)[0]
        else:
            kept.append(line)
    return "\n".join(kept)


def test_markdown(_folder, path):
    text = plumb("report", path, "--format", "md")
    marked = without_code(text)
    assert "<script>" not in marked and "<img" not in marked and "[x](" not in marked
    assert "- **reproduced**: The gap narrows." in text
    assert "| plumb-plan | 300 µs | 280 µs | 320 µs |" in text
    assert "```\nplumb study levels --part accuracy\n```\n" in text
    for line in text.splitlines():  # a bar in a label does not end its cell
        if line.startswith("| plumb"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 5, line


def test_markdown_of_strange_texts(folder, _path):
    live = "<img src=x>"
    code = f"a\r{live}\r\n```\n{live}\n````` x\n# {live}"
    path = folder / "strange.json"
    path.write_text(json.dumps({"document": "report", "version": 1, "title": "t", "sections": [
        {"title": "s", "blocks": [
            {"kind": "list", "items": ["one"]}, {"kind": "code", "text": code},
            {"kind": "log", "title": "- l", "text": code},
            {"kind": "table", "title": f"a\n\n- b\r\r{live}", "rows": [["r"]] * 20,
             "columns": [{"name": "n", "type": "text"}]}]}]}))
    text = plumb("report", path, "--format", "md")
    marked = without_code(text)
    assert live in text and live not in marked, text
    for begins in ("- ", "+ ", "1. ", "2) ", "---", "    ", "\n\t- "):
        path.write_text(json.dumps({
            "document": "report", "version": 1, "title": "t", "subtitle": begins + "x",
            "summary": [{"text": begins + "x"}], "sections": [{"title": "s", "blocks": [
                {"kind": "text", "text": begins + "x"}, {"kind": "list", "items": [begins + "x"]},
                {"kind": "log", "title": begins + "x", "text": ""}]}]}))
        for line in plumb("report", path, "--format", "md").splitlines():
            if line.endswith(("x", "x:")):
                assert not re.match(r"(- )?(?:[-+] |\d+[.)] |--| )", line[2:] if line.startswith(
                    "- ") else line), (begins, line)
    # A list would take indented code up as a paragraph of its own; a fence at the margin ends it.
    assert re.search(r"- one\n\n``````\na\n<img", text), text
    assert re.search(r"<details><summary>.*&lt;img.* \(20 rows\)</summary>\n", marked), marked


def test_names_of_figures_are_none_of_the_page(folder, _path):
    path, names = folder / "names.json", ["main", "theme", "s1", "h1", "t1", "f-main"]
    bars = next(f for f in samples.figures() if f["kind"] == "figure" and f["type"] == "bars")
    path.write_text(json.dumps({"document": "report", "version": 1, "title": "t", "sections": [
        {"title": "s", "blocks": [{**bars, "name": name} for name in names]},
        {"title": "other", "blocks": []}]}))
    plumb("report", path, "-o", folder / "names.html")
    ids = re.findall(r'\sid="([^"]*)"', (folder / "names.html").read_text(encoding="utf-8"))
    assert len(ids) == len(set(ids)) and {"main", "theme", "s1", "f-main", "f-t1"} <= set(ids), ids


def test_svg(folder, path):
    written = plumb("report", path, "-o", folder / "f.svg").split()
    assert len(written) == 7 and str(folder / "f-surface.svg") in written
    for file in written:
        root = xml.etree.ElementTree.parse(file).getroot()
        width, height = float(root.get("width")), float(root.get("height"))
        assert width == 720 and 100 < height < 2000, (file, width, height)
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert samples.EVIL[:10] in " ".join(texts) and "oom" in texts
    alone = plumb("report", path, "-o", folder / "one.svg", "--part", "bars").split()
    assert alone == [str(folder / "one.svg")]


def test_mark_is_in_the_axis_unit(folder, _path):
    path, svg = folder / "mark.json", folder / "mark.svg"
    path.write_text(json.dumps({"document": "report", "version": 1, "title": "t", "sections": [
        {"title": "s", "blocks": [{
            "kind": "figure", "type": "lines", "title": "f", "x": {"unit": "ms"},
            "mark": {"x": 5, "label": "here"},
            "series": [{"name": "", "x": [0, 5, 10], "y": [1, 2, 3]}]}]}]}))
    plumb("report", path, "-o", svg)
    points = re.findall(r'<circle cx="([\d.]+)"', svg.read_text())
    mark = re.search(r'd="M([\d.]+) [^>]*stroke-dasharray="4 3"', svg.read_text())
    assert len(points) == 3 and mark[1] == points[1], (points, mark)


def pixels(data):
    """Width, height and the raw rows of an 8-bit PNG without interlacing."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert depth == 8 and kind == 2
    at, packed = 8, b""
    while at < len(data):
        length, name = struct.unpack(">I4s", data[at:at + 8])
        packed += data[at + 8:at + 8 + length] if name == b"IDAT" else b""
        at += length + 12
    return width, height, zlib.decompress(packed)


def picture(folder, path, *words):
    known = folder / "leaks"  # fontconfig forgets a few hundred bytes when it is asked for a font
    known.write_text("leak:libfontconfig\n")
    run = subprocess.run([samples.PLUMB, "report", path, *map(str, words)], capture_output=True,
                         text=True, timeout=60, check=False,
                         env={**os.environ, "LSAN_OPTIONS": f"suppressions={known}"})
    if run.returncode == 3 and "libcairo" in run.stderr:
        raise Skip("no cairo (Debian: libcairo2-dev)")
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_png(folder, path):
    written = picture(folder, path, "-o", folder / "f.png")
    assert len(written) == 7
    for file in written:
        width, height, raw = pixels(pathlib.Path(file).read_bytes())
        assert width == 1440 and height > 200 and len(raw) == height * (1 + 3 * width)
        assert len(set(raw)) > 20, file  # something is drawn


def test_pdf(folder, path):
    picture(folder, path, "-o", folder / "f.pdf")
    data = (folder / "f.pdf").read_bytes()
    assert data.startswith(b"%PDF-") and data.rstrip().endswith(b"%%EOF")
    found = len(re.findall(rb"/Type\s*/Page\b", data))
    streams = b"".join(zlib.decompress(s) for s in re.findall(
        rb"stream\r?\n(x.*?)\r?\nendstream", data, re.S) if s[:1] == b"x")
    assert found + len(re.findall(rb"/Type\s*/Page\b", streams)) == 7


def test_terminal(_folder, path):
    text = plumb("report", path, "--plot")
    assert "\x1b" not in text
    assert "█" in text and "┤" in text and "●" in text and "oom" in text
    assert any(0x2800 < ord(c) < 0x2900 for c in text)
    assert "long longer" in text and "longerlonger" not in text, text  # where lines are broken
    plumb("report", path, "--plot", "--json", code=2)
    assert max(len(line) for line in text.splitlines() if "<img" not in line) <= 100


def test_terminal_says_why_a_stack_is_missing(folder, _path):
    path = folder / "stacks.json"
    path.write_text(json.dumps({"document": "report", "version": 1, "title": "t", "sections": [
        {"title": "s", "blocks": [{
            "kind": "figure", "type": "stacked", "title": "f", "y": {"unit": "ms"},
            "categories": ["fits", "large", "none"],
            "series": [{"name": "a", "values": [1, "oom", None]},
                       {"name": "b", "values": [2, None, None]}]}]}]}))
    lines = [line.split() for line in plumb("report", path, "--plot").splitlines()]
    found = {line[0]: line[-2:] for line in lines if line and line[0] in ("fits", "large", "none")}
    assert found == {"fits": ["3.00", "ms"], "large": ["large", "oom"],
                     "none": ["no", "value"]}, found


def in_terminal(path, **environment):
    """What the program prints to a terminal."""
    output = []
    keys = {**os.environ, "TERM": "xterm-256color", **environment}
    child, master = pty.fork()
    if child == 0:
        os.execve(samples.PLUMB, [samples.PLUMB, "report", str(path), "--plot"],
                  {k: v for k, v in keys.items() if v is not None})
    while True:
        try:
            data = os.read(master, 1 << 16)
        except OSError:
            break
        if not data:
            break
        output.append(data)
    assert os.waitpid(child, 0)[1] == 0
    os.close(master)
    return b"".join(output).decode()


def test_colours(_folder, path):
    assert "\x1b[38;5;" in in_terminal(path, NO_COLOR=None)
    for off in ({"NO_COLOR": "1"}, {"TERM": "dumb", "NO_COLOR": None}):
        assert "\x1b" not in in_terminal(path, **off)


def test_control_characters(folder, _path):
    path = folder / "control.json"
    path.write_text(json.dumps({"document": "report", "version": 1, "title": "a\u001b[31mb\u202ec",
                                "sections": [{"title": "s\u0007", "blocks": []}]}))
    for words in (["--plot"], ["--format", "md"]):
        assert plumb("report", path, *words).startswith(("a\ufffd", "# a\ufffd"))
        assert not set(plumb("report", path, *words)) & set("\x1b\x07\u202e")


def test_bad_files(folder, path):
    good = json.loads(path.read_text())
    for change, words in (
            ({"version": 2}, "version: expected 1"),
            ({"document": "run"}, "document: expected report or profile"),
            ({"sections": [{"blocks": [{"kind": "film"}]}]}, "section 1, block 1: kind: expected"),
            ({"sections": [{"blocks": [{"kind": "figure", "type": "pie"}]}]}, "type: expected"),
            ({"sections": [{"blocks": [{"kind": "figure", "type": "bars", "categories": ["a"],
                                        "series": [{"values": [1, 2]}]}]}]},
             "expected 1 values, found 2"),
            ({"sections": [{"blocks": [{"kind": "figure", "type": "lines", "series": [
                {"x": [0, 1, 2], "y": [1e-200, 2, 3]}]}]}]},
             "section 1, block 1: y: expected 0 or a number of 1e-150 to 1e150, found 1e-200"),
            ({"sections": [{"blocks": [{"kind": "figure", "type": "heat", "x": {"ticks": [1]},
                                        "y": {"ticks": [1]},
                                        "layers": [{"cells": [[1.7e308]]}]}]}]},
             "cells: expected 0 or a number of 1e-150 to 1e150, found 1.7e+308"),
            ({"sections": [{"blocks": [{"kind": "table", "columns": [{"name": "a"}, {"name": "b"}],
                                        "rows": [[1]]}]}]}, "rows: expected one cell")):
        broken = folder / "broken.json"
        broken.write_text(json.dumps({**good, **change}))
        run = subprocess.run([samples.PLUMB, "report", broken, "--format", "md"],
                             capture_output=True, text=True, timeout=60, check=False)
        assert run.returncode == 2 and words in run.stderr, (words, run.stderr)
    broken.write_text('{"document": "report",\n oops')
    run = subprocess.run([samples.PLUMB, "report", broken], capture_output=True, text=True,
                         timeout=60, check=False)
    assert run.returncode == 2 and "line 2" in run.stderr
    run = subprocess.run([samples.PLUMB, "report", path, "--format", "csv", "--part", "none"],
                         capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 2 and "surface" in run.stderr, run.stderr
    run = subprocess.run([samples.PLUMB, "report", path, "--part", "numbers", "-o",
                          folder / "x.svg"], capture_output=True, text=True, timeout=60,
                         check=False)
    assert run.returncode == 2 and "numbers is a table; svg takes figures" in run.stderr, run.stderr


def test_profile(folder, _path):
    kernel = {"name": samples.EVIL, "class": "gemm", "calls": 7, "total_ms": 40.0, "min_ms": 5,
              "max_ms": 6}
    device = {"device": 0, "name": "Card", "pid": 5, "program": "python", "span_ms": 100.0,
              "active": 0.61, "move": 0.09, "idle": 0.3, "kernels": [kernel],
              "idle_ms": {"synchronising": 20.0, "unknown": 10.0}}
    path = folder / "profile.json"
    path.write_text(json.dumps({"plumb": "1", "document": "profile", "document_version": 1,
                                "devices": [device, {**device, "pid": 6, "active": 0.5}],
                                "api": [{**kernel, "name": "cuLaunchKernel"}], "ranges": []}))
    rows = rows_of(plumb("report", path, "--format", "csv", "--part", "breakdown"))
    assert [(r["active"], r["moving data"], r["idle"]) for r in rows] == [
        ("0.61", "0.09", "0.3"), ("0.5", "0.09", "0.3")]
    idle = rows_of(plumb("report", path, "--format", "csv", "--part", "idle"))
    assert idle[0]["synchronising ns"] == "20000000" and idle[0]["in no call ns"] == "10000000"
    kernels = rows_of(plumb("report", path, "--format", "csv"))  # of a device, told once
    assert len(kernels) == 1 and kernels[0]["name"] == samples.EVIL
    calls = rows_of(plumb("report", path, "--format", "csv", "--part", "calls"))
    assert [(r["name"], r["calls"], r["total ns"]) for r in calls] == [
        ("cuLaunchKernel", "7", "40000000")]
    assert "61.0 % active" in plumb("report", path, "--plot")
    path.write_text('{"document": "profile", "devices": []}')
    plumb("report", path, code=2)


def test_run_of_store(folder, _path):
    db = folder / "plumb.db"
    draw = samples.generator()
    for _ in range(3):  # a history, without which nothing is called slower
        number = samples.add(db, folder, samples.small_run(draw))
    environment = {**os.environ, "XDG_DATA_HOME": str(folder / "data")}
    printed = plumb("report", "--db", db, env=environment).strip()
    assert printed == str(folder / f"data/plumb/reports/run-{number}.html")
    files = json.loads(plumb("report", "small", "--db", db, "--json", env=environment))
    assert files["files"] == [printed] and files["document"] == "report"
    plots = plumb("report", number, "--db", db, "--plot")
    assert plumb("show", number, "--db", db, "--plot") == plots and "█" in plots
    plumb("show", number, "--db", db, "--plot", "--json", code=2)
    cases = rows_of(plumb("report", number, "--db", db, "--format", "csv"))
    assert len(cases) == 19
    eager = next(r for r in cases if r["stack"] == "torch-eager" and r["batch"] == "8")
    assert eager["verdict"] == "SLOWER" and 4.8 < float(eager["× floor"]) < 5.2
    assert abs(float(eager["throughput 1/s"]) * float(eager["time ns"]) / 8e9 - 1) < 1e-6
    name = next(p for p in parts(number, db) if p.startswith("warm-up"))
    warm = rows_of(plumb("report", number, "--db", db, "--format", "csv", "--part", name))
    marks = {r["iteration"] for r in warm if r["series"] == "measured from here on"}
    assert marks == {"17"}, marks  # each start of the samples warms up 16 times
    broken = next(r for r in cases if r["outcome"] == "crash")
    assert broken["time ns"] == "" and broken["stack"] == "onnxruntime"
    grid = rows_of(plumb("report", number, "--db", db, "--format", "csv", "--part",
                         next(p for p in parts(number, db) if p.startswith("surface"))))
    assert {r["batch"] for r in grid} >= {"1", "8", "16", "32"}


def test_throttled_is_what_happened_during_the_run(folder, _path):
    """The counter is the control group's: it is far above 0 long before the run, and goes on while
    an interrupted run waits."""
    db = folder / "throttled.db"
    draw = samples.generator()

    def state(count):
        return {"state": {} if count is None else {"quota_throttled": count}}

    def again(before, now):
        return {"at_ms": 0, "command": "", "git": None, "fingerprint": state(now),
                "end_before": state(before)}

    for began, resumed, ended, periods in (
            (7, [], 7, 0), (0, [], 3, 3), (0, [], None, 0), (None, [], 3, 0),
            (0, [again(0, 9)], 9, 0), (5, [again(7, 9), again(9, 0)], 1, 3),
            (5, [again(None, 9)], 9, 0), (0, [{"fingerprint": state(4)}], 4, 0)):
        content = samples.run_of(draw, [samples.measured(draw, 1e6)])
        content["run"]["fingerprint"] = {**state(began), "resumed": resumed}
        content["run"]["fingerprint_end"] = state(ended)
        text = plumb("report", samples.add(db, folder, content), "--db", db, "--format", "md")
        said = re.search("THROTTLED.* in ([0-9]+) of", text)
        assert (int(said[1]) if said else 0) == periods, (began, resumed, ended, said)
        assert said or "THROTTLED" not in text, text


def test_threads_relate_to_the_fewest(folder, _path):
    db = folder / "threads.db"
    draw = samples.generator()
    cases = [samples.measured(draw, 4e6 / threads, threads=threads) for threads in (2, 4)]
    cases.append(samples.failed("crash", "signal 11", stack="torch-eager", threads=2))
    cases.append(samples.measured(draw, 1e6, stack="torch-eager", threads=4))
    cases.append(samples.measured(draw, 1e6, stack="openvino", threads=4))
    cases.append(samples.measured(draw, 1e6, stack="openvino", threads=8))
    number = samples.add(db, folder, samples.run_of(draw, cases))
    name = next(p for p in parts(number, db) if p.startswith("over-threads"))
    rows = rows_of(plumb("report", number, "--db", db, "--format", "csv", "--part", name))
    found = {(r["series"], r["threads"]): r["speed-up against 2 threads"] for r in rows}
    ideal = "as many times as threads"
    assert [found[ideal, n] for n in "248"] == ["1", "2", "4"], found
    assert found["plumb-plan", "2"] == "1" and 1.9 < float(found["plumb-plan", "4"]) < 2.1, found
    why = {(r["series"], r["threads"]): r["name"] for r in rows}
    assert [why["torch-eager", n] for n in "24"] == ["crash", "crash with 2 threads"], why
    assert why["openvino", "8"] == "no case with 2 threads", why
    text = plumb("report", number, "--db", db, "--format", "md", "--part", name)
    assert "How many times faster than 2 threads" in text


def test_mark_of_a_long_warm_up(folder, _path):
    db = folder / "long.db"
    draw = samples.generator()
    case = samples.measured(draw, 1e6, starts=1)
    blocks = [{"kind": kind, "sweep": sweep, "began_ns": began, "iterations_per_sample": 1,
               "marks": 0, "samples_ns": [ns] * count}
              for kind, sweep, began, ns, count in (("warmup", None, 0, 3_000_000, 1003),
                                                    ("timed", 0, 10, 1_000_000, 2000))]
    case["starts"][0].update(blocks=blocks, warmup_iterations=1003)
    number = samples.add(db, folder, samples.run_of(draw, [case]))
    name = next(p for p in parts(number, db) if p.startswith("warm-up"))
    rows = rows_of(plumb("report", number, "--db", db, "--format", "csv", "--part", name))
    mark, = (r for r in rows if r["series"] == "measured from here on")
    assert mark["iteration"] == "1004" and mark["time of one iteration ns"] == "1000000", mark
    for row in rows:  # stretches hold one or the other
        slow = float(row["iteration"]) <= 1003
        assert float(row["time of one iteration ns"]) == (3e6 if slow else 1e6), row


def test_part_alone(folder, path):
    text = plumb("report", path, "--format", "md", "--part", "bars")
    assert "280" in text and text.count("\n### ") == 1, text
    page = folder / "part.html"
    plumb("report", path, "-o", page, "--part", "bars")
    html = page.read_text()
    assert html.count("<figure") == 1 and "row 00" not in html
    assert "row 00" not in plumb("report", path, "--plot", "--part", "bars")
    plumb("report", path, "--format", "md", "--part", "none", code=2)


def test_path_is_not_behind_its_page(folder, path):
    assert plumb("report", path, "-o", "/dev/stdout").endswith("</html>\n")
    told = plumb("report", path, "-o", folder / "told.html")
    assert told == f"{folder / 'told.html'}\n"


def test_what_is_left_out_is_told(folder, _path):
    db = folder / "many.db"
    draw = samples.generator()
    names = [f"plumb-{k:02d}" for k in range(14)]
    for _ in range(3):  # a history needs three runs
        cases = [samples.measured(draw, 1e6, stack=stack, model=f"m{model}")
                 for model in range(8) for stack in (names if model == 0 else names[:1])]
        for batch in (1, 16, 32):
            cases += [samples.measured(draw, 1e6, model=f"s{k}", batch=batch) for k in range(18)]
        number = samples.add(db, folder, samples.run_of(draw, cases))
    text = plumb("report", number, "--db", db, "--format", "md")
    groups = 8 + 3 * 18
    assert f"The first 6 of {groups} sets of cases." in text
    assert f"{groups - 6} more sets of cases have a history" in text
    assert text.count("These are the first 12; 2 more are left out of the figure.") == 2
    assert "2 more sweeps have no figure here" in text  # 18 over batch, of which 16 are drawn


def parts(number, db):
    run = subprocess.run([samples.PLUMB, "report", str(number), "--db", db, "--format", "csv",
                          "--part", "?"], capture_output=True, text=True, timeout=60, check=False)
    return run.stderr.split("it has:")[1].split()


def main():
    with tempfile.TemporaryDirectory(prefix="plumb-test-") as name:
        folder = pathlib.Path(name)
        path = folder / "all.json"
        path.write_text(json.dumps(samples.document()), encoding="utf-8")
        return run(globals(), folder, path)


if __name__ == "__main__":
    sys.exit(main())
