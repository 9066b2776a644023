# SPDX-License-Identifier: Apache-2.0
"""Broken and hostile files: one clear line that names the place, exit 2, and nothing else."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PLUMB = os.environ["PLUMB"]
CORPUS = pathlib.Path("fuzz/corpus/onnx")
# File, what its message says; None: it is fine.
CASES = {
    "conv": None,
    "function": None,
    "if": None,
    "loop": None,
    "rows": None,
    "endless": None,
    "truncated": "offset",
    "cycle": "node p (Neg): 'q' is no input, no initializer and made by no earlier node",
    "duplicate": "node y (Exp): y: there is a value of that name already",
    "self": "node y (Add): 'y' is no input, no initializer and made by no earlier node",
    "twice": "initializer w: there is one of that name already",
    "no_output": "output y: 'y' is no input",
    "stranger": "node y (Fancy): ops of the domain com.example are not served",
    "peephole": "node ? (LSTM): ",
    "rotary_rank": "node y (RotaryEmbedding): input 0: expected rank 3 to 4, found 5",
    "rotary_odd": "node y (RotaryEmbedding): 5 of 5 features turned: expected an even number",
    "attention_rank": "node y (Attention): input 1: expected rank 3, found 4",
    "linear_steps": "node y (LinearAttention): queries, keys and values of 3, 2 and 2 steps",
    "missing": "node y (Add): 'nothing' is no input",
    "recursive": "node y (Again): node q (Again): the function calls itself",
    "escape": "external data ../../etc/passwd: a path that leaves the model's folder",
    "huge": "tensor w: expected 4398046511104 bytes of values, found 4",
    "wrong_size": "tensor w: expected 16 bytes of values, found 8",
    "wrong_dtype": "node y (Add): ",
}


def check(name, words, folder):
    path = f"{folder}/{name}.onnx"
    shutil.copy(CORPUS / name, path)
    run = subprocess.run([PLUMB, "models", path], capture_output=True, text=True, check=False,
                         timeout=60)
    if words is None:
        return run.returncode == 0 and run.stderr == "", run
    lines = run.stderr.splitlines()
    return run.returncode == 2 and len(lines) == 1 and words in lines[0], run


def linked_out(folder):
    """A link beside the model that leads out of its folder is not followed."""
    inner = pathlib.Path(folder, "inner")
    inner.mkdir()
    pathlib.Path(folder, "secret").write_bytes(bytes(8))
    (inner / "link").symlink_to("../secret")
    model = (CORPUS / "escape").read_bytes()
    old, new = b"../../etc/passwd", b"././././././link"
    assert len(old) == len(new)
    path = inner / "model.onnx"
    path.write_bytes(model.replace(old, new))
    run = subprocess.run([PLUMB, "models", path], capture_output=True, text=True, check=False)
    return run.returncode == 2 and "leads out of the model's folder" in run.stderr, run


def npy(path, kind, shape, data):
    head = b"{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (kind, shape)
    head = head.ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + data)


def endless(folder):
    """A loop that never ends obeys --time-limit."""
    folder = pathlib.Path(folder)
    shutil.copy(CORPUS / "endless", folder / "endless.onnx")
    npy(folder / "x.npy", b"<f4", b"(1,)", bytes([0, 0, 128, 63]))
    npy(folder / "c.npy", b"|b1", b"()", b"\x01")
    run = subprocess.run([PLUMB, "predict", folder / "endless.onnx", folder / "x.npy",
                          folder / "c.npy", "--time-limit", "0.2"], capture_output=True, text=True,
                         check=False, timeout=60)
    return run.returncode == 2 and run.stderr == (
        "plumb predict: forever: loop: not done within the time limit of 0.2 s\n"), run


def noise(folder):
    """Random bytes, and a good file with bytes changed: one line or none, and no crash."""
    import random
    draw = random.Random(1)
    good = (CORPUS / "conv").read_bytes()
    path = pathlib.Path(folder, "noise.onnx")
    for i in range(60):
        data = bytearray(good if i % 2 else draw.randbytes(draw.randrange(400)))
        for _ in range(draw.randrange(1, 6) if i % 2 else 0):
            data[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(data)
        run = subprocess.run([PLUMB, "models", path], capture_output=True, text=True, check=False,
                             timeout=60, errors="replace")
        if run.returncode not in (0, 2) or len(run.stderr.splitlines()) != run.returncode // 2:
            return False, run
    return True, run


def main():
    if subprocess.run([PLUMB, "models", "none.onnx"], capture_output=True, text=True,
                      check=False).returncode == 3:
        print("this build reads no ONNX")
        print(f"0 passed, 0 failed, {len(CASES) + 3} skipped")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        results = [(name, *check(name, words, folder)) for name, words in CASES.items()]
        results.append(("linked out", *linked_out(folder)))
        results.append(("endless loop", *endless(folder)))
        results.append(("noise", *noise(folder)))
    for name, good, run in results:
        if not good:
            print(f"FAILED {name}: exit {run.returncode}: {run.stderr.strip()}")
            failed += 1
    print(f"{len(results) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
