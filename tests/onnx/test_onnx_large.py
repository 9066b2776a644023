# SPDX-License-Identifier: Apache-2.0
"""A model of 500 MB, its values beside it or in it: understood in less than a second, in private
memory of less than 0.3 of its size. The values are holes in the file, so that the disk has no part.
With PLB_TEST_FULL=1 also its first result: what a plan makes of the weights, it makes once."""
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


def ends():
    graph, x = b"", "x"
    for i in range(LAYERS):
        graph += node("MatMul", [x, f"w{i}"], f"m{i}") + node("Relu", [f"m{i}"], f"y{i}")
        x = f"y{i}"
    return graph + field(2, "large") + end(11, "x") + end(12, x)


def write_beside(folder):
    graph = ends() + b"".join(weight(i, i * WIDTH * WIDTH * 4) for i in range(LAYERS))
    path = folder / "large.onnx"
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(2, 17)))
    with open(folder / "large.data", "wb") as file:
        file.truncate(SIZE)
    return path


def write_inside(folder):
    """The same in one file. A message's length stands before it: the parts are measured first."""
    bytes_of_one = WIDTH * WIDTH * 4
    heads = []
    for i in range(LAYERS):
        head = field(1, WIDTH) + field(1, WIDTH) + field(2, 1) + field(8, f"w{i}")
        head += number(9 << 3 | 2) + number(bytes_of_one)
        heads.append(number(5 << 3 | 2) + number(len(head) + bytes_of_one) + head)
    rest = ends()
    length = len(rest) + sum(map(len, heads)) + SIZE
    path = folder / "inside.onnx"
    with open(path, "wb") as file:
        file.write(field(1, 8) + field(8, field(2, 17)))
        file.write(number(7 << 3 | 2) + number(length) + rest)
        for head in heads:
            file.write(head)
            file.seek(bytes_of_one, os.SEEK_CUR)
        file.truncate()
    return path


def within(limit_bytes):
    return lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))


def understood(path):
    times = []
    for _ in range(3):  # others may be at work: the shortest counts
        begin = time.perf_counter()
        run = subprocess.run([PLUMB, "models", path], capture_output=True, text=True,
                             check=False, preexec_fn=within(int(0.3 * SIZE)))
        times.append(time.perf_counter() - begin)
    good = run.returncode == 0 and f"parameters   {SIZE // 4}" in run.stdout and min(times) < 1
    print(f"{path.name}: {SIZE >> 20} MiB understood in {min(times):.3f} s")
    return path.name, good, run


def computed(path, folder):
    """Of zero weights the result is zero; the weights are not there more than twice."""
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, %d), }" % WIDTH
    head = head.ljust(117) + b"\n"
    (folder / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head
                                   + bytes([0, 0, 128, 63]) * WIDTH)
    run = subprocess.run([PLUMB, "predict", path, folder / "x.npy", "--threads", "1"],
                         capture_output=True, text=True, check=False,
                         preexec_fn=within(int(2.3 * SIZE)))
    return f"{path.name} computed", run.returncode == 0 and "max 0\n" in run.stdout, run


def main():
    if subprocess.run([PLUMB, "models", "none.onnx"], capture_output=True,
                      check=False).returncode == 3 or os.environ.get("PLUMB_SANITIZE"):
        print("no ONNX in this build, or a sanitizer, which has memory of its own")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    results = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for path in write_beside(folder), write_inside(folder):
            results.append(understood(path))
            if os.environ.get("PLB_TEST_FULL"):
                results.append(computed(path, folder))
        # Cut short, it is refused and not read past its end.
        os.truncate(folder / "large.data", SIZE - 1)
        os.truncate(folder / "inside.onnx", (folder / "inside.onnx").stat().st_size - 1)
        for path, says in ((folder / "large.onnx", "w29"), (folder / "inside.onnx", "offset")):
            run = subprocess.run([PLUMB, "models", path], capture_output=True, text=True,
                                 check=False)
            good = run.returncode == 2 and says in run.stderr and run.stderr.count("\n") == 1
            results.append((f"{path.name} cut short", good, run))
    for name, good, run in results:
        if not good:
            print(f"FAILED {name}: exit {run.returncode}: {run.stderr}{run.stdout}")
    passed = sum(good for _, good, _ in results)
    print(f"{passed} passed, {len(results) - passed} failed, 0 skipped")
    return 0 if passed == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
