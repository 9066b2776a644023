# SPDX-License-Identifier: Apache-2.0
"""What the tests of `plumb profile` share: the guest under the probe, and a way to run them."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

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


def tried(test, tries=3):
    """Runs what depends on times, which a neighbour may disturb: wrong is what always is."""
    for left in reversed(range(tries)):
        try:
            return test()
        except AssertionError as error:
            if not left:
                raise
            print(f"{test.__name__}, once more: {error!r}")


def run(tests, timed=()):
    """Every function of the script that is called test_something; true if one failed."""
    passed = failed = 0
    for name, test in sorted(tests.items()):
        if not name.startswith("test_"):
            continue
        begin = time.monotonic()
        try:
            tried(test, 3 if test in timed else 1)
            passed += 1
        except Exception as error:  # noqa: BLE001 (one test must not stop the others)
            failed += 1
            print(f"FAILED {name}: {type(error).__name__}: {error}", file=sys.stderr)
        if time.monotonic() - begin > 5:
            print(f"{name} took {time.monotonic() - begin:.1f} s")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed != 0
