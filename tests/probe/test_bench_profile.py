#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases of our own under the probe: `plumb bench --profile` and `plumb profile MODEL --stack S`.

A library that is preloaded into the worker reports, through the made-up CUPTI, a kernel of half a
millisecond each millisecond.
"""
import csv
import io
import json
import math
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).parents[1]))
import runner  # noqa: E402

PLUMB = os.environ.get("PLUMB", "build/plumb")
TESTS = pathlib.Path(os.environ.get("PLUMB_BUILD", "build")).resolve() / "tests"
CASE = ["mnist_cnn", "--stack", "plumb-plan", "--batch", "2", "--threads", "1"]
TIMED = ["--starts", "1", "--time", "0.05", "--no-lock"]
WITH_DEVICE = {"LD_PRELOAD": str(TESTS / "libguest_worker.so")}


def run(words, code=0, **environment):
    done = subprocess.run([PLUMB, *words], capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, LC_ALL="C", **environment), check=False)
    assert done.returncode == code, (words, done.returncode, done.stderr)
    return done


def check_half_active(active, launches):
    """n halves of a millisecond, in n - 1/2 of them; the first may have been told twice."""
    lawful = [n / (2 * n - 1) for n in (launches, launches - 1) if n > 0]
    assert any(math.isclose(active, share) for share in lawful), (active, launches)


def check_exports(store, profile, path):
    """The report, CSV and Markdown say of the newest run what its document does."""
    text = run(["export", "1", "--format", "csv", "--db", store]).stdout
    row, = csv.DictReader(io.StringIO(text))
    for key in ("wall_ms", "cpu_ms", "active", "move", "idle", "launches", "device_ms"):
        assert math.isclose(float(row[f"profile_{key}"]), profile[key], rel_tol=1e-6), (key, row)
    text = run(["export", "1", "--format", "markdown", "--db", store]).stdout
    assert f"| {100 * profile['active']:.1f} % | {100 * profile['move']:.1f} % |" in text, text
    words = ["report", "1", "--db", store]
    run([*words, "-o", f"{path}.html"])
    page = pathlib.Path(f"{path}.html").read_text(encoding="utf-8")
    assert "Where the time of the device goes" in page and "Processors busy" in page
    table = run([*words, "--format", "csv", "--part", "profile-work"]).stdout
    kernel, = [line for line in csv.DictReader(io.StringIO(table)) if line["kind"] == "kernel"]
    assert kernel["name"] == "step", kernel
    mine = profile["kernels"][0]
    assert math.isclose(float(kernel["calls"]), mine["calls"], rel_tol=1e-6), kernel
    time = next(value for name, value in kernel.items() if name.startswith("time"))
    assert math.isclose(float(time), 1e6 * mine["ms"], rel_tol=1e-3), (kernel, mine)


def test_bench_has_a_profile_of_each_case():
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store.db")
        words = ["bench", *CASE, *TIMED, "--profile", "--db", store]
        case, = json.loads(run([*words, "--json"], **WITH_DEVICE).stdout)["cases"]
        profile = case["profile"]
        assert case["outcome"] == "ok" and case["starts"] == 1, case
        check_half_active(profile["active"], round(profile["launches"] * profile["iterations"]))
        assert abs(profile["active"] + profile["idle"] - 1) < 1e-9
        kernel, = profile["kernels"]
        assert kernel["name"] == "step" and profile["complete"], profile
        assert abs(kernel["ms"] / kernel["calls"] - .5) < 1e-9, kernel
        assert 3 <= profile["iterations"] <= 500 and profile["wall_ms"] > 0
        with sqlite3.connect(store) as db:
            kept, = db.execute("SELECT results ->> '$.profile' FROM measurement").fetchone()
        assert json.loads(kept) == profile
        check_exports(store, profile, os.path.join(folder, "r"))
        # A run that is taken up again knows what was seen.
        again, = json.loads(run([*words, "--json", "--resume", "1"], **WITH_DEVICE).stdout)["cases"]
        assert again["resumed"] and again["profile"] == profile
        text = run(words, **WITH_DEVICE).stdout
        plots = run([*words, "--plot"], **WITH_DEVICE).stdout
        assert "Where the time of the device goes\n" in plots and "█" in plots, plots
        assert "--plot prints no JSON" in run([*words, "--plot", "--json"], code=2).stderr
        active = float(re.search(r"profile: active ([\d.]+) %", text)[1])
        assert 50 <= active <= 100 and "of the device's work other 100 %" in text, text


def test_bench_without_a_device():
    with tempfile.TemporaryDirectory() as folder:
        words = ["bench", *CASE, *TIMED, "--json", "--db", os.path.join(folder, "store.db")]
        case, = json.loads(run([*words, "--profile"]).stdout)["cases"]
        assert case["profile"]["devices"] == 0 and case["profile"]["cpu_ms"] > 0, case["profile"]
        case, = json.loads(run(words).stdout)["cases"]
        assert case["profile"] is None


def test_a_case_of_our_own():
    done = run(["profile", *CASE, "--json"], **WITH_DEVICE)
    device, = json.loads(done.stdout)["devices"]
    check_half_active(device["active"], device["launches"])
    assert [k["name"] for k in device["kernels"]] == ["step"]
    text = run(["profile", *CASE]).stdout
    assert "plumb-plan, EQUAL to the reference: profile: on the processor" in text, text
    for words, reason in ((["a", "b", "--stack", "plumb-plan"], "expected one model"),
                          (["mnist_cnn", "--stack", "plumb-plan,plumb-interp"], "found 2"),
                          (["mnist_cnn", "--stack", "plumb-plan", "--api"], "do not apply"),
                          (["--threads", "1", "--", "true"], "--threads: says which case")):
        assert reason in run(["profile", *words], code=2).stderr, words


sys.exit(runner.run(globals()))
