# SPDX-License-Identifier: Apache-2.0
"""A model of 500 MB, its values beside it: understood in less than a second, in private memory of
less than 0.3 of its size. The file of values has nothing in it, so that the disk has no part."""
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

PLUMB = os.environ["PLUMB"]
LAYERS, WIDTH = 30, 2048
SIZE = LAYERS * WIDTH * WIDTH * 4


def number(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(place, value):
    """A field of a message: a number, or text, or another message."""
    if isinstance(value, int):
        return number(place << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(place << 3 | 2) + number(len(data)) + data


def entry(key, value):
    return field(13, field(1, key) + field(2, value))


def weight(i, offset):
    return field(5, field(1, WIDTH) + field(1, WIDTH) + field(2, 1) + field(8, f"w{i}")
                 + entry("location", "large.data") + entry("offset", str(offset))
                 + entry("length", str(WIDTH * WIDTH * 4)) + field(14, 1))


def node(op, inputs, output):
    return field(1, b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, op))


def end(place, name):
    shape = field(2, field(1, field(1, 1)) + field(1, field(1, WIDTH)))
    return field(place, field(1, name) + field(2, field(1, field(1, 1) + shape)))


def write(folder):
    graph, x = b"", "x"
    for i in range(LAYERS):
        graph += node("MatMul", [x, f"w{i}"], f"m{i}") + node("Relu", [f"m{i}"], f"y{i}")
        x = f"y{i}"
    graph += field(2, "large")
    for i in range(LAYERS):
        graph += weight(i, i * WIDTH * WIDTH * 4)
    graph += end(11, "x") + end(12, x)
    path = folder / "large.onnx"
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(2, 17)))
    with open(folder / "large.data", "wb") as file:
        file.truncate(SIZE)
    return path


def within(limit_bytes):
    return lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))


def main():
    if subprocess.run([PLUMB, "models", "none.onnx"], capture_output=True,
                      check=False).returncode == 3 or os.environ.get("PLUMB_SANITIZE"):
        print("no ONNX in this build, or a sanitizer, which has memory of its own")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = write(pathlib.Path(folder))
        times = []
        for _ in range(3):  # others may be at work: the shortest counts
            begin = time.perf_counter()
            run = subprocess.run([PLUMB, "models", path], capture_output=True, text=True,
                                 check=False, preexec_fn=within(int(0.3 * SIZE)))
            times.append(time.perf_counter() - begin)
        good = run.returncode == 0 and f"parameters   {SIZE // 4}" in run.stdout and min(times) < 1
        # Cut short, it is refused and not read past its end.
        os.truncate(pathlib.Path(folder, "large.data"), SIZE - 1)
        cut = subprocess.run([PLUMB, "models", path], capture_output=True, text=True, check=False)
        refused = cut.returncode == 2 and "w29" in cut.stderr and cut.stderr.count("\n") == 1
    print(f"{SIZE >> 20} MiB understood in {min(times):.3f} s")
    for name, passed, what in (("large", good, run), ("cut short", refused, cut)):
        if not passed:
            print(f"FAILED {name}: exit {what.returncode}: {what.stderr}{what.stdout}")
    print(f"{good + refused} passed, {2 - good - refused} failed, 0 skipped")
    return 0 if good and refused else 1


sys.exit(main())
