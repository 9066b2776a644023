#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`plumb serve`: its pages over HTTP, who is let in, and what a browser sees if there is one."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).parents[1]))
import browser  # noqa: E402
import samples  # noqa: E402
from runner import Skip, run  # noqa: E402


class Server:
    """The program, serving on a free port."""

    def __init__(self, db, *words):
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(
            [samples.PLUMB, "serve", "--db", db, "--port", "0", "--json", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        document = ""
        for line in self.process.stdout:
            document += line
            if line.startswith("}"):
                break
        else:
            error = self.process.stderr.read()
            self.process.wait()
            raise Skip("no libmicrohttpd") if "libmicrohttpd" in error else AssertionError(error)
        self.address = json.loads(document)["address"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(10) == 0
        self.process.stdout.close()
        self.process.stderr.close()

    def get(self, path, method="GET", **headers):
        host, port = self.address[len("http://"):-1].rsplit(":", 1)
        line = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=20)
        line.request(method, path, headers=headers)
        answer = line.getresponse()
        text = answer.read().decode()
        line.close()
        return answer.status, text, answer.headers


def fill(folder):
    db = folder / "plumb.db"
    if not db.exists():
        draw = samples.generator()
        for label in ("first", "second", samples.EVIL):
            samples.add(db, folder, samples.small_run(draw, label))
    return db


def test_pages(folder):
    with Server(fill(folder)) as server:
        status, text, headers = server.get("/")
        assert status == 200 and "/run/3" in text and "/compare/2/3" in text
        assert "<img" not in text and "default-src 'none'" in headers["Content-Security-Policy"]
        status, text, _ = server.get("/run/3")
        assert status == 200 and "<figure" in text and "/case/" in text
        case = text.split("/case/")[1].split('"')[0]
        status, text, _ = server.get("/case/" + case)
        assert status == 200 and text.count('<a href="/run/') >= 3, text[:300]
        # A beginning of several cases' hashes is none's page.
        hashes = set(re.findall("/case/([0-9a-f]+)", server.get("/run/3")[1]))
        for digit in "0123456789abcdef":
            of = [h for h in hashes if h.startswith(digit)]
            assert server.get("/case/" + digit)[0] == (200 if len(of) == 1 else 404), (digit, of)
        status, text, _ = server.get("/compare/1/3")
        assert status == 200 and "plumb compare 1 3" in text and ">SLOWER<" not in text
        for path in ("/run/77", "/run/x", "/case/ffff", "/case/xyz", "/compare/1", "/compare/1/99",
                     "/compare/1/1", "/compare/1/3/2", "/compare/1/3x", "/nothing",
                     "//evil.example/", "/run/../etc"):
            assert server.get(path)[0] == 404, path


def test_what_is_wrong_has_no_time(folder):
    db = fill(folder)
    with contextlib.closing(sqlite3.connect(db)) as store, store:
        store.execute("UPDATE measurement SET outcome = 'invalid' WHERE run = 2")
    with Server(db) as server:
        case = re.search("/case/([0-9a-f]+)", server.get("/run/3")[1])[1]
        rows = server.get("/case/" + case)[1].split("<tr>")
    of = {run: next(r for r in rows if f'<a href="/run/{run}"' in r) for run in (2, 3)}
    assert "invalid" in of[2] and not re.search("[0-9] [mµ]?s<", of[2]), of[2]
    assert re.search("[0-9] [mµ]?s<", of[3]), of[3]


def test_reads_only(folder):
    with Server(fill(folder)) as server:
        for method in ("POST", "PUT", "DELETE"):
            assert server.get("/", method)[0] == 405, method
        status, text, _ = server.get("/", "HEAD")
        assert status == 200 and not text
        # A page of the web that gave its own name this machine's address.
        assert server.get("/", Host="evil.example")[0] == 403
        assert server.get("/", Host="localhost:1234")[0] == 200


def test_token(folder):
    with Server(fill(folder), "--token", "very-secret") as server:
        assert server.get("/")[0] == 401 and server.get("/?token=very-secre")[0] == 401
        status, _, headers = server.get("/run/3?token=very-secret")
        assert status == 303 and headers["Location"] == "/run/3"
        cookie = headers["Set-Cookie"].split(";")[0]
        assert "HttpOnly" in headers["Set-Cookie"] and "Strict" in headers["Set-Cookie"]
        assert server.get("/run/3", Cookie=cookie)[0] == 200
        assert server.get("/", Authorization="Bearer very-secret")[0] == 200
        assert server.get("/", Authorization="Bearer ")[0] == 401


def half_requests(server, count):
    """Clients that leave in the middle of a request."""
    host, port = server.address[len("http://"):-1].rsplit(":", 1)
    for _ in range(count):
        with socket.create_connection((host, int(port)), 20) as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: loc")


def test_clients_that_leave(folder):
    with Server(fill(folder)) as server:
        half_requests(server, 100)
        begin = time.monotonic()
        assert server.get("/")[0] == 200
        assert time.monotonic() - begin < 4, time.monotonic() - begin


def test_silent_clients(folder):
    """Those that stay and say nothing more are let go after some seconds."""
    with Server(fill(folder)) as server:
        host, port = server.address[len("http://"):-1].rsplit(":", 1)
        silent = [socket.create_connection((host, int(port)), 20) for _ in range(40)]
        begin = time.monotonic()
        for line in silent:
            line.sendall(b"GET / HTTP/1.1\r\n")
        for _ in range(20):  # one that found no place asks again
            try:
                assert server.get("/")[0] == 200
                break
            except ConnectionError:
                time.sleep(1)
        assert time.monotonic() - begin < 18, time.monotonic() - begin
        for line in silent:
            line.close()


def test_addresses(folder):
    for words, code, error in ((["--bind", "0.0.0.0"], 2, "--token is needed"),
                               (["--bind", "example.org"], 2, "expected an IP address"),
                               (["--token", "short"], 2, "expected 8"),
                               (["--token", "with a blank"], 2, "expected 8")):
        run = subprocess.run([samples.PLUMB, "serve", "--db", fill(folder), "--port", "0", *words],
                             capture_output=True, text=True, timeout=20, check=False)
        if "libmicrohttpd" in run.stderr:
            raise Skip("no libmicrohttpd")
        assert run.returncode == code and error in run.stderr, run.stderr
    run = subprocess.run([samples.PLUMB, "serve", "--db", folder / "none.db"], capture_output=True,
                         text=True, timeout=20, check=False)
    assert run.returncode == 3, run.stderr
    with Server(fill(folder)) as server:
        port = server.address.rsplit(":", 1)[1][:-1]
        run = subprocess.run([samples.PLUMB, "serve", "--db", fill(folder), "--port", port],
                             capture_output=True, text=True, timeout=20, check=False)
        assert run.returncode == 2 and "cannot listen" in run.stderr, run.stderr


def test_running(folder):
    """A run under way is shown as such, with what it has so far, and its page loads anew."""
    db = folder / "running.db"
    draw = samples.generator()
    content = samples.run_of(draw, [samples.measured(draw, 1e6)])
    samples.add(db, folder, content)
    import sqlite3
    line = sqlite3.connect(db)
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    fields = pathlib.Path("/proc/self/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    line.execute("UPDATE run SET state = 'running', ended_ms = NULL, process = ?",
                 (f"{boot} {os.getpid()} {fields[19]}",))
    line.commit()
    line.close()
    with Server(db) as server:
        for path in ("/", "/run/1"):
            text = server.get(path)[1]
            assert "running" in text and 'http-equiv="refresh"' in text, path


def test_in_a_browser(folder):
    program = browser.find()
    if not program:
        raise Skip("no Chromium (Debian: chromium; tools/setup installs it)")
    with Server(fill(folder)) as server, browser.Browser(program) as page:
        page.open(server.address)
        page.follow("tbody a")
        assert page.run("document.title").startswith("Run 3")
        assert page.run("document.querySelectorAll('figure svg').length") > 10
        page.open(server.address + "compare/1/3")
        assert page.run("document.querySelector('h1').textContent") == "Run 3 against run 1"
        assert page.run("document.querySelectorAll('tbody tr').length") == 19
        assert not page.problems, page.problems
        if os.environ.get("PLB_PICTURES"):
            page.picture(os.environ["PLB_PICTURES"] + "/compare.png")
            page.open(server.address)
            page.picture(os.environ["PLB_PICTURES"] + "/runs.png")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="plumb-test-") as name:
        sys.exit(run(globals(), pathlib.Path(name),
                     timed=(test_clients_that_leave, test_silent_clients)))
