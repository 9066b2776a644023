#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""explain as a user meets it: what it says of ops and memory, and how it ends."""
import csv
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from commands import (  # noqa: E402
    Folder, PLUMB, Skip, document, expect_refusal, minds_interrupt, plumb, run_tests)


def check_explained(found):
    total, roof = found["planned_bytes"], found["roof"]
    assert roof["flops_per_s"] > 1e8 and roof["memory_bytes_per_s"] > 1e7
    assert roof["cache_bytes"] > 0 and found["ms"] > 0 and found["passes"]
    most = max(op["live_bytes"] for op in found["ops"])
    assert 0 < most <= total["transient"] <= total["total"]
    for op in found["ops"]:
        assert op["kernel"] and op["bound"] in ("arithmetic", "cache", "memory")
        if op["ms"] and op["bytes"]:
            fits = op["bytes"] <= roof["cache_bytes"]
            rate = roof["cache_bytes_per_s"] if fits else roof["memory_bytes_per_s"]
            least = max(op["flops"] / roof["flops_per_s"], op["bytes"] / rate)
            percent = op["percent_of_roof"]
            assert abs(percent - 1e5 * least / op["ms"]) < 1e-6 * percent
            assert abs(op["flops_per_byte"] * op["bytes"] - op["flops"]) <= 1e-6 * op["flops"]


def test_explain_tells_of_every_op():
    found = document("explain", "resnet18", "--size", 64, "--batch", 2, "--threads", 1, "--runs", 2)
    check_explained(found)
    assert found["threads"] == 1 and found["input"] == [3, 64, 64] and found["batch"] == 2
    convolutions = [op for op in found["ops"] if op["op"] == "conv"]
    assert len(convolutions) == 20 and convolutions[0]["scope"] == "conv1"
    assert not any("batch_norm" in op["op"] for op in found["ops"]) # all are folded
    plain = document("explain", "resnet18", "--size", 64, "--batch", 2, "--no-winograd",
                     "--no-fusion", "--deterministic", "--runs", 1)
    check_explained(plain)
    assert sum("batch_norm" in op["op"] for op in plain["ops"]) == 20
    assert not any(op["kernel"] == "winograd" for op in plain["ops"])
    text = plumb("explain", "mnist_cnn", "--batch", 8).stdout
    for words in ("Passes", "Roof", "arithmetic", "conv1: conv [8, 10, 24, 24]", "#",
                  "Planned memory"):
        assert words in text, words


def test_explain_tells_of_training():
    found = document("explain", "mnist_cnn", "--task", "train", "--batch", 8, "--runs", 2)
    check_explained(found)
    scopes = {(op["scope"], op["op"], op["backward"]) for op in found["ops"]}
    assert ("conv2", "conv_weight_grad", True) in scopes and ("conv2", "conv", False) in scopes
    assert any(op["scope"] == "optimizer" for op in found["ops"])
    assert found["planned_bytes"]["gradients"] > 0
    assert found["planned_bytes"]["optimizer"] >= 4 * 21840 # momentum


def test_explain_trains_a_file_as_it_trains_the_model_it_came_of():
    with Folder() as f:
        file, words = f.path / "m.onnx", ("--task", "train", "--batch", 4, "--runs", 1)
        if plumb("export-onnx", "mnist_cnn", "--batch", 4, "-o", file).returncode == 3:
            raise Skip("this build has no ONNX")
        of_file = document("explain", file, *words)
        of_zoo = document("explain", "mnist_cnn", *words)
        expect_refusal(plumb("explain", file, *words[:2], "--dim", "n=4"), "--dim is for inference")
        expect_refusal(plumb("explain", file, "--batch", 4), "--batch is for models of the zoo")
    check_explained(of_file)
    kinds = [sorted(op["op"] for op in d["ops"] if "conv" in op["op"] or "matmul" in op["op"])
             for d in (of_file, of_zoo)]
    assert kinds[0] == kinds[1] and "conv_weight_grad" in kinds[0], kinds
    assert of_file["parameters"] == of_zoo["parameters"] == 21840
    gradients = [d["planned_bytes"]["gradients"] for d in (of_file, of_zoo)]
    assert gradients[0] == gradients[1] > 0, gradients


def test_roof_of_more_threads_than_processors():
    processors = len(os.sched_getaffinity(0))
    each = [document("explain", "lenet5", "--runs", 1, "--threads", n)["roof"]
            for n in (processors, 8 * processors)]
    assert each[1]["flops_per_s"] < 2 * each[0]["flops_per_s"], each
    assert each[1]["cache_bytes_per_s"] < 4 * each[0]["cache_bytes_per_s"], each


def test_roofline_has_the_kinds_that_take_most_time():
    # The gradient of weights comes late in the schedule, behind more kinds than the figure holds.
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.md"
        run = plumb("explain", "mnist_cnn", "--task", "train", "--batch", 64, "--threads", 1,
                    "--deterministic", "--runs", 2, "-o", page)
        assert run.returncode == 0 and run.stdout == f"{page}\n", run.stderr
        text = page.read_text(encoding="utf-8")
    figure = text.split("### Ops against the measured roofs")[1].split("</details>")[0]
    kinds = {line.split("|")[1].strip() for line in figure.splitlines() if line.startswith("|")}
    assert {"conv", "conv\\_weight\\_grad", "memory"} <= kinds and len(kinds) <= 2 + 9 + 3, kinds


def test_page_of_a_file_has_no_batch_of_the_zoo():
    with Folder() as f:
        file, page = f.path / "m.onnx", f.path / "page.md"
        if plumb("export-onnx", "mnist_cnn", "--batch", 1, "-o", file).returncode == 3:
            raise Skip("this build has no ONNX")
        for model, words in ((file, "infer, cpu, 1 thread,"),
                             ("mnist_cnn", "infer, batch 1 of 1×28×28, cpu, 1 thread,")):
            batch = () if model == file else ("--batch", 1)
            run = plumb("explain", model, *batch, "--threads", 1, "--runs", 1, "-o", page)
            assert run.returncode == 0 and words in page.read_text(encoding="utf-8"), run.stderr


def test_explain_writes_beside_json():
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.html"
        found = document("explain", "mnist_cnn", "--batch", 1, "--runs", 1, "-o", page)
        assert found["model"] == "mnist_cnn" and page.read_text(encoding="utf-8").count("<svg")
    # Said before anything is measured, which the number of runs would make longer than the test.
    many = ("explain", "mnist_cnn", "--runs", 100000)
    expect_refusal(plumb(*many, "-o", "page.film"), "format film: expected html")
    expect_refusal(plumb(*many, "--plot", "--json"), "--plot prints no JSON")


def test_a_table_of_explain_is_that_of_the_ops():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.csv"
        found = document("explain", "mnist_cnn", "--batch", 1, "--runs", 1, "-o", path)
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["scope"] for row in rows] == [op["scope"] for op in found["ops"]], rows
        assert any(row["op"].startswith("conv") for row in rows), rows


def test_explain_stops_when_told():
    for wait in (0, 1.5):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
            env = {**os.environ, "TMPDIR": folder, "XDG_CACHE_HOME": cache}
            run = subprocess.Popen([PLUMB, "explain", "mnist_cnn", "--batch", "16", "--runs",
                                    "100000"], cwd=folder, env=env, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            while not minds_interrupt(run.pid):
                time.sleep(0.01)
            time.sleep(wait)
            run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=120)
            assert run.returncode == 130, (run.returncode, err)
            assert out == "" and err == "plumb explain: interrupted\n", (out, err)
            assert os.listdir(folder) == []
            left = [p for p in pathlib.Path(cache).rglob("*") if p.is_file()]
            assert all(p.name == "kernels" for p in left), left


if __name__ == "__main__":
    run_tests(dict(globals()))
