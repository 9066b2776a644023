# SPDX-License-Identifier: Apache-2.0
"""What the tests of `plumb profile` share: the guest under the probe, and a way to run them."""
import json
import os
import pathlib
import subprocess
import tempfile

PLUMB = os.environ.get("PLUMB", "build/plumb")
GUEST = str(pathlib.Path(os.environ.get("PLUMB_BUILD", "build")) / "tests/guest")
ENVIRONMENT = dict(os.environ, LC_ALL="C")


def profile(scenario, *flags, command=None, code=0, **environment):
    """The profile as JSON, and what the program itself printed."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        done = subprocess.run(
            [PLUMB, "profile", "--json", "--output", report.name, *flags, "--",
             *(command or [GUEST, scenario])],
            env=dict(ENVIRONMENT, **environment), capture_output=True, text=True, timeout=120)
        assert done.returncode == code, (done.returncode, done.stderr)
        return json.load(open(report.name)), done


def near(found, expected):
    assert abs(found - expected) < 1e-9, (found, expected)
