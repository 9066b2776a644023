# SPDX-License-Identifier: Apache-2.0
"""Models as files for stacks that read files: once a shape and weights, then cached.

ONNX files are written by the plumb that started the worker (PLUMB_PROGRAM), TorchScript by PyTorch:
by the Python that PLUMB_TORCH_PYTHON names, else the worker's own if it has torch, else that of the
stack torch-eager beside this one. PLUMB_CACHE names the folder to keep files in. Nothing here is
timed as the stack's own loading.
"""
import contextlib
import errno
import hashlib
import importlib.util
import json
import mmap
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from .errors import DiskFull, Refused

EXPORTER = pathlib.Path(__file__).resolve().parents[2] / "torch" / "export.py"
KEEP_BYTES = 4 << 30  # of exports; the ones used longest ago go first
PART_SECONDS = 3600   # after which nobody writes an export any more


def torch_python():
    named = os.environ.get("PLUMB_TORCH_PYTHON")
    if named or importlib.util.find_spec("torch"):
        return named or sys.executable
    try:
        # A worker runs in the folder of its stack.json.
        with open("../torch-eager/stack.json", encoding="utf-8") as file:
            return json.load(file)["command"][0]
    except (OSError, ValueError, KeyError, IndexError):
        raise Refused("export", "PyTorch exports the TorchScript that this stack runs, and is "
                      "not there: plumb stacks add torch") from None


def digest_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def torch_version():
    """Of the exporting Python, without importing torch."""
    run = subprocess.run([torch_python(), "-c",
                          "import importlib.metadata as m; print(m.version('torch'))"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        raise Refused("export", f"{torch_python()}, which is to export the model, has no torch")
    return run.stdout.strip()


def plumb_program():
    program = os.environ.get("PLUMB_PROGRAM")
    if program and os.access(program, os.X_OK):
        return program
    raise Refused("export", "plumb writes the ONNX files that this stack runs: PLUMB_PROGRAM does "
                  f"not name it (found {program!r})")


def exporter(wanted):
    """What makes the file, and with it whether an older one is still good."""
    if wanted["format"] == "onnx":
        info = os.stat(plumb_program())
        return {"size": info.st_size, "changed": info.st_mtime_ns}
    sources = [digest_of(EXPORTER), digest_of(EXPORTER.with_name("models.py"))]
    return {"torch": torch_version(), "sources": sources}


def rewritten(case):
    """The case's ONNX file as plumb writes it: for readers that its own spelling is too old or too
    new for."""
    return cached({"format": "onnx", "model": case.model, "weights": case.file,
                   "dims": case.dims, "beside": beside(case.file)})


def locations(data):
    """The paths of external data that a model's bytes name: values of entries with the key
    "location", each a length of seven bits a byte and so many bytes."""
    for entry in re.finditer(rb"\x0a\x08location\x12([\x80-\xff]{0,3}[\x00-\x7f])", data):
        length = sum((byte & 127) << 7 * i for i, byte in enumerate(entry[1]))
        yield data[entry.end():entry.end() + length]


def beside(path):
    """The files in which the model has values, with what tells whether they changed."""
    folder = os.path.dirname(path) or "."
    found = set()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for name in map(os.fsdecode, locations(data)):
            full = os.path.join(folder, name)
            if os.path.isfile(full):
                found.add((name, os.stat(full).st_size, os.stat(full).st_mtime_ns))
    return sorted(found)


def cached(wanted):
    """The path of an exported file. `wanted`: what export.py reads, without the path; or an ONNX
    file as "weights", with "dims"."""
    key = {**wanted, "weights": digest_of(wanted["weights"]), "by": exporter(wanted)}
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]
    folder = os.path.join(os.environ.get("PLUMB_CACHE") or tempfile.gettempdir(), "exports")
    os.makedirs(folder, exist_ok=True)
    ending = {"onnx": "onnx", "script": "pt"}[wanted["format"]]
    path = os.path.join(folder, f"{wanted['model']}-{name}.{ending}")
    if os.path.exists(path):
        os.utime(path)
        return path
    # Under another name until it is whole: two starts may export at once, and either may be killed.
    part = f"{path}.{os.getpid()}.part"
    try:
        export({**wanted, "path": part})
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.unlink(part)
    make_room(folder, path)
    return path


def export(wanted):
    command = write_onnx(wanted) if wanted["format"] == "onnx" else [
        torch_python(), str(EXPORTER), json.dumps(wanted)]
    run = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                         stdout=subprocess.DEVNULL, text=True, errors="replace",
                         env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    sys.stderr.write(run.stderr)
    if run.returncode != 0:
        lines = [line.partition(": ")[2] for line in run.stderr.splitlines()
                 if line.startswith(("export: ", "plumb export-onnx: "))]
        if lines and os.strerror(errno.ENOSPC) in lines[-1]:
            raise DiskFull(lines[-1])
        raise Refused("export", lines[-1] if lines else f"ended with {run.returncode}")


def write_onnx(wanted):
    if "dims" in wanted:
        dims = ["--dim", wanted["dims"]] if wanted["dims"] else []
        return [plumb_program(), "export-onnx", wanted["weights"], *dims, "--output",
                wanted["path"]]
    numbers = [f"--{name}={wanted[name]}" for name in ("batch", "size", "classes")]
    return [plumb_program(), "export-onnx", wanted["model"], "--weights", wanted["weights"],
            "--output", wanted["path"], *numbers]


def may_go(entry):
    """An export that is whole, or what a killed one left: another may still be written."""
    return not entry.name.endswith(".part") or time.time() - entry.stat().st_mtime > PART_SECONDS


def make_room(folder, newest):
    """Removes what was used longest ago. Others may do so at the same time."""
    files = []
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):
            if entry.is_file() and entry.path != newest and may_go(entry):
                files.append((entry.stat().st_mtime, entry.stat().st_size, entry.path))
    total = os.stat(newest).st_size
    for _, size, path in sorted(files, reverse=True):
        total += size
        if total > KEEP_BYTES or path.endswith(".part"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
