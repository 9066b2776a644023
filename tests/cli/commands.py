# SPDX-License-Identifier: Apache-2.0
"""What the tests of plumb's commands share: ways to run it, files to give it, and their runner."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from runner import Skip, run  # noqa: E402, F401 (for those who import all of it from here)

PLUMB = os.environ["PLUMB"]
PYTHON = os.environ.get("PLB_PYTHON")


def plumb(*words, env=None, **options):
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([PLUMB, *map(str, words)], stderr=subprocess.PIPE, text=True,
                          timeout=300, check=False, env={**os.environ, **(env or {})}, **options)


def document(*words, **options):
    run = plumb(*words, "--json", **options)
    assert run.returncode == 0 and run.stderr == "", (run.args, run.returncode, run.stderr)
    found = json.loads(run.stdout)
    assert list(found)[:3] == ["plumb", "document", "document_version"]
    return found


def expect_refusal(run, words, code=2):
    assert run.returncode == code, (run.args, run.returncode, run.stderr)
    assert run.stderr.startswith("plumb ") and run.stderr.count("\n") == 1, (run.args, run.stderr)
    assert words in run.stderr, (run.args, run.stderr)


# ---------------------------------------------------------------------------- files
def read_weights(path):
    """(header, values) of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    length, = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + length]), data[8 + length:]


def write_weights(path, header, values):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + values)


def write_png(path, rows):
    """A grey picture from rows of bytes."""
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))
    raw = b"".join(b"\0" + bytes(row) for row in rows)
    pathlib.Path(path).write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8,
                                                         0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))


class Folder:
    """A temporary folder with weights of mnist_cnn and a picture."""
    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="plumb-test-"))
        self.weights, self.picture = self.path / "w.safetensors", self.path / "p.png"
        assert plumb("init", "mnist_cnn", "--save", self.weights).returncode == 0
        write_png(self.picture, [[(7 * x * y) % 256 for x in range(28)] for y in range(28)])
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def predict(self, weights=None, picture=None, *more):
        return plumb("predict", "mnist_cnn", "--weights", weights or self.weights,
                     picture or self.picture, *more)


def minds_interrupt(pid):
    """Whether the process is plumb by now, and catches Ctrl-C, or leaves it to what it runs."""
    try:
        if os.readlink(f"/proc/{pid}/exe") != os.path.realpath(PLUMB):
            return False
    except FileNotFoundError:
        return True  # it has ended
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(("SigCgt:", "SigIgn:")) and int(line.split()[1], 16) & 1 << 1:
            return True
    return False


def run_tests(tests):
    """Every function of the script that is called test_something."""
    # Kernel choices of a test are nobody's to keep.
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        sys.exit(run(tests))
