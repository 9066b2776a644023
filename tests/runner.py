# SPDX-License-Identifier: Apache-2.0
"""Runs tests that are written in Python: the functions test_something of a script, in its order.

    sys.path.append(str(pathlib.Path(__file__).parents[1]))
    from runner import Skip, run  # noqa: E402
    ...
    sys.exit(run(globals()))

PLB_TEST_FILTER=WORD runs those whose names have the word. The last line is what tools/run_tests
counts.
"""
import contextlib
import os
import time

LONG_S = 5  # a test that takes longer says how long


class Skip(Exception):
    """Raised by a test that cannot run here, with the reason."""


def tried(test, *arguments, tries=3):
    """Runs what depends on times, which a neighbour may disturb: wrong is what always is."""
    for left in reversed(range(tries)):
        try:
            return test(*arguments)
        except Skip:
            raise
        except Exception as error:  # pylint: disable=broad-except (what is missing, too)
            if not left:
                raise
            print(f"{test.__name__}, once more: {error!r}")


def run(names, *arguments, each=None, timed=()):
    """Calls every test with the arguments, and with what `each()` gives on entry, a context of its
    own (a temporary folder), if there is one; those in `timed` are tried. The exit status."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    wanted = os.environ.get("PLB_TEST_FILTER", "")
    for name, test in list(names.items()):
        if not name.startswith("test_") or wanted not in name or not callable(test):
            continue
        begin = time.monotonic()
        try:
            with each() if each else contextlib.nullcontext() as own:
                tried(test, *arguments, *([own] if each else []), tries=3 if test in timed else 1)
            counts["passed"] += 1
        except Skip as reason:
            counts["skipped"] += 1
            print(f"skipped {name}: {reason}")
        except Exception as error:  # pylint: disable=broad-except (the others shall run)
            counts["failed"] += 1
            print(f"FAILED  {name}: {type(error).__name__}: {error}")
        if time.monotonic() - begin > LONG_S:
            print(f"{name} took {time.monotonic() - begin:.1f} s")
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return counts["failed"] != 0
