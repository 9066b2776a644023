#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`plumb stacks`: what is listed, added, removed, and what an interruption leaves.

Packages come from wheels made here, so that nothing is fetched: a folder of workers' sources, whose
requirements name them, stands in for the real one.
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).parents[1]))
from runner import run  # noqa: E402

PLUMB = os.environ["PLUMB"]
FAMILIES = {"torch": ["torch", "torchvision"], "onnxruntime": ["onnxruntime", "numpy"],
            "openvino": ["openvino", "numpy"]}
MORE = ["safetensors", "onnx"]


def make_wheel(folder, name, version="1.2.3"):
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "")
        wheel.writestr(f"{info}/METADATA",
                       f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\n"
                       "Root-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{name}/__init__.py,,\n{info}/METADATA,,\n"
                       f"{info}/WHEEL,,\n{info}/RECORD,,\n")
    return path


class Place:
    """A folder for the user's data and one of workers' sources."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.sources, self.home = self.folder / "sources", self.folder / "data/plumb/stacks"
        self.index = self.folder / "index"
        self.env = {**os.environ, "XDG_DATA_HOME": str(self.folder / "data"),
                    "PLUMB_STACK_SOURCES": str(self.sources), "PIP_NO_INDEX": "1",
                    "PLUMB_STACKS": ""}
        for family, packages in FAMILIES.items():
            (self.sources / family).mkdir(parents=True)
            (self.sources / family / "worker.py").write_text("print('a worker')\n")
            wheels = [str(make_wheel(self.folder, name)) for name in packages]
            (self.sources / family / "requirements.txt").write_text("\n".join(wheels) + "\n")
        more = [str(make_wheel(self.folder, name)) for name in MORE]
        (self.sources / "torch/requirements-more.txt").write_text("\n".join(more) + "\n")

    def run(self, *words):
        return subprocess.run([PLUMB, "stacks", *words], env=self.env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=120, check=False)

    def states(self):
        run = self.run("list", "--json")
        assert run.returncode == 0, run.stderr
        return {entry["name"]: entry for entry in json.loads(run.stdout)["stacks"]}

    def state(self, name):
        return self.states()[name]["state"]

    def files(self):
        """All but environments' contents and logs."""
        return sorted(p.name for p in self.home.rglob("*")
                      if "venv" not in p.parts[:-1] and p.suffix != ".log")

    def slow_python(self):
        """A Python that begins, and does not end."""
        path = self.folder / "slow-python"
        path.write_text("#!/bin/sh\necho $$ >" + str(self.folder / "pid") + "\nsleep 60 & wait\n")
        path.chmod(0o755)
        return str(path)

    def start_slow(self):
        command = [PLUMB, "stacks", "add", "onnxruntime", "--python", self.slow_python()]
        process = subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        for _ in range(1200):
            if (self.folder / "pid").exists() and (self.folder / "pid").read_text().strip():
                return process, int((self.folder / "pid").read_text())
            time.sleep(0.05)
        raise AssertionError("the slow Python did not begin")


def refused(run, words, code):
    assert run.returncode == code, (run.args, run.returncode, run.stderr)
    assert words in run.stderr and run.stderr.splitlines()[-1].startswith("plumb "), run.stderr


def test_list(place):
    states = place.states()
    assert list(states)[:4] == ["torch-eager", "torch-script", "torch-compile", "torch-cudagraph"]
    assert {e["state"] for e in states.values()} == {"missing"}, states
    text = place.run().stdout
    assert "plumb stacks add torch\n" in text and "plumb stacks add openvino\n" in text, text
    assert not place.home.exists()


def test_add_and_remove(place):
    """A new environment with what the requirements name; its stacks are ready, until removed."""
    run = place.run("add", "torch")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("added: torch (torch-eager, torch-script"), run.stdout
    entry = place.states()["torch-script"]
    assert entry["state"] == "ready" and entry["family"] == "torch", entry
    assert entry["versions"].startswith("torch 1.2.3, torchvision 1.2.3"), entry
    written = json.loads((place.home / "torch-script/stack.json").read_text())
    assert written["protocol"] == 1 and written["name"] == "torch-script", written
    python, _, worker, name = written["command"]
    assert python == str(place.home / "torch/venv/bin/python"), written
    assert worker == str(place.sources / "torch/worker.py") and name == "torch-script", written
    ran = subprocess.run(written["command"], stdout=subprocess.PIPE, text=True, check=True)
    assert ran.stdout == "a worker\n"
    # Again, over what is there.
    assert place.run("add", "torch-eager").returncode == 0
    assert not [p for p in place.home.iterdir() if p.name.endswith(".part")]
    # Whatever it needs may go.
    (place.sources / "torch/worker.py").rename(place.folder / "gone.py")
    entry = place.states()["torch-eager"]
    assert entry["state"] == "broken" and "worker.py is gone" in entry["reason"], entry
    (place.folder / "gone.py").rename(place.sources / "torch/worker.py")
    run = place.run("remove", "torch-script", "--json")
    assert json.loads(run.stdout)["removed"] == "torch-script", run.stdout
    assert place.state("torch-script") == "missing" and place.state("torch-eager") == "ready"
    assert place.run("remove", "torch").returncode == 0
    assert {e["state"] for e in place.states().values()} == {"missing"}
    assert [p.name for p in place.home.iterdir()] == [".lock"]
    refused(place.run("remove", "torch"), 'no stack "torch"', 2)


def test_existing_python(place):
    """--python uses what is there, and says what is not."""
    venv = place.folder / "mine"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = str(venv / "bin/python")
    refused(place.run("add", "onnxruntime", "--python", python), "has no onnxruntime", 3)
    assert place.state("onnxruntime") == "missing"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", "-r",
                    str(place.sources / "onnxruntime/requirements.txt")], check=True)
    assert place.run("add", "onnxruntime", "--python", python).returncode == 0
    entry = place.states()["onnxruntime"]
    assert entry["state"] == "ready" and entry["python"] == python, entry
    assert not (place.home / "onnxruntime/venv").exists()
    # A package that is there and cannot be imported.
    for module in venv.glob("lib/python*/site-packages/onnxruntime/__init__.py"):
        module.write_text("raise ImportError('libonnx.so: no such file')\n")
    run = place.run("add", "onnxruntime", "--python", python)
    refused(run, "libonnx.so", 3)
    assert place.state("onnxruntime") == "ready"  # as it was


def test_failures(place):
    """What fails says so in one line with the log's place, and changes nothing."""
    assert place.run("add", "openvino").returncode == 0
    (place.sources / "openvino/requirements.txt").write_text("no-such-package==1\n")
    run = place.run("add", "openvino")
    refused(run, "no-such-package", 3)
    assert str(place.home / "openvino.log") in run.stderr
    assert "No matching distribution" in (place.home / "openvino.log").read_text()
    assert place.state("openvino") == "ready"
    assert not list(place.home.glob(".*.part"))
    for words, text in ((["add", "torhc"], "did you mean torch?"), (["dance"], "found \"dance\""),
                        (["add"], "expected a stack's name"), (["list", "x"], "unexpected"),
                        (["add", "openvino", "--torch-index", "u"], "--torch-index is for torch"),
                        (["remove", "../data"], "no name of a stack"),
                        (["remove", "x", "--python", "p"], "are for add"),
                        (["add", "torch", "--python", "/bin/true"], "this is no Python")):
        refused(place.run(*words), text, 2)
    refused(place.run("add", "libtorch"), "plumb stacks add torch comes first", 3)
    place.env["PLUMB_STACK_SOURCES"] = "/nowhere"
    if not (pathlib.Path(PLUMB).parents[1] / "stacks").exists():
        refused(place.run("add", "torch"), "sources are missing", 3)


def test_interrupted(place):
    """Ctrl-C ends the installer with its children, and leaves what was there."""
    assert place.run("add", "onnxruntime").returncode == 0
    before = place.files()
    process, child = place.start_slow()
    refused(place.run("add", "openvino"), "another plumb", 2)
    process.send_signal(signal.SIGINT)
    _, text = process.communicate(timeout=60)
    assert process.returncode == 130, (process.returncode, text)
    for _ in range(600):
        if subprocess.run(["pgrep", "-g", str(child)], stdout=subprocess.DEVNULL,
                          check=False).returncode:
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the installer goes on")
    assert place.files() == before
    assert place.state("onnxruntime") == "ready"


def test_killed(place):
    """kill -9 leaves no lock, and the next add clears up."""
    process, child = place.start_slow()
    process.kill()
    process.wait()
    os.killpg(child, signal.SIGKILL)
    assert place.state("onnxruntime") == "missing"
    assert place.run("add", "onnxruntime").returncode == 0
    assert place.state("onnxruntime") == "ready" and not list(place.home.glob(".*.part"))


def test_libtorch(place):
    """What is compiled takes its place when it is whole."""
    (place.sources / "libtorch").mkdir()
    build = place.sources / "libtorch/build.py"
    build.write_text("import pathlib, sys\nprint('compiling')\n"
                     "out = pathlib.Path(sys.argv[1])\nout.write_text('#!/bin/sh\\necho built')\n"
                     "out.chmod(0o755)\n")
    assert place.run("add", "torch").returncode == 0
    assert place.run("add", "libtorch").returncode == 0
    entry = place.states()["libtorch"]
    assert entry["state"] == "ready" and entry["versions"] == "torch 1.2.3", entry
    written = json.loads((place.home / "libtorch/stack.json").read_text())
    assert written["command"] == [str(place.home / "libtorch/worker")], written
    ran = subprocess.run(written["command"], stdout=subprocess.PIPE, text=True, check=True)
    assert ran.stdout == "built\n"
    build.write_text("import sys\nprint('x.cpp:1: error: no such header')\nsys.exit('ERROR: x')\n")
    refused(place.run("add", "libtorch"), "ERROR: x", 3)
    assert place.state("libtorch") == "ready" and not list(place.home.glob(".*.part"))
    assert place.run("remove", "libtorch").returncode == 0
    assert place.state("libtorch") == "missing" and place.state("torch-eager") == "ready"


def test_strangers(place):
    """Stacks of others are listed, wrong ones with the reason."""
    other = place.folder / "others"
    for name, text in (("fast", '{"protocol":1,"name":"fast","command":["/bin/cat"]}'),
                       ("slow", "{"), ("gone", '{"command":["/no/such/program"]}'),
                       ("empty", "{}"), ("nameless", '{"protocol":1,"command":["/bin/cat"]}'),
                       ("newer", '{"protocol":2,"name":"newer","command":["/bin/cat"]}'),
                       ("folder", '{"protocol":1,"name":"other","command":["/bin/cat"]}')):
        (other / name).mkdir(parents=True)
        (other / name / "stack.json").write_text(text)
    place.env["PLUMB_STACKS"] = f"/nowhere:{other}"
    states = place.states()
    assert states["fast"]["state"] == "ready" and states["fast"]["family"] is None, states["fast"]
    wrong = ("slow", "gone", "empty", "nameless", "newer")
    assert {states[n]["state"] for n in wrong} == {"broken"}, states
    assert "protocol" in states["newer"]["reason"] and "name" in states["nameless"]["reason"]
    # As `plumb bench` knows it.
    assert states["other"]["state"] == "ready" and "folder" not in states, states
    assert "line 1" in states["slow"]["reason"] and "is gone" in states["gone"]["reason"]


@contextlib.contextmanager
def own_place():
    with tempfile.TemporaryDirectory() as folder:
        yield Place(folder)


if __name__ == "__main__":
    sys.exit(run(globals(), each=own_place))
