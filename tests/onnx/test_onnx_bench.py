# SPDX-License-Identifier: Apache-2.0
"""An ONNX file in place of a model's name: our levels and, where PLB_PYTHON has them, ONNX Runtime
and OpenVINO compute the same from it, by the proof of `plumb verify`; its extents are part of the
case; what a file cannot be asked for is refused."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).parents[1]))
from runner import run  # noqa: E402

PLUMB = os.environ["PLUMB"]
DATA = pathlib.Path(os.environ.get("PLUMB_TEST_DATA", "../shared/data")) / "models"
OWN = ["plumb-plan", "plumb-interp"]


def plumb(*words, status=0):
    run = subprocess.run([PLUMB, *map(str, words)], capture_output=True, text=True, check=False)
    if run.returncode != status:
        raise AssertionError(f"plumb {words}: {run.returncode}: {run.stderr}{run.stdout}")
    return json.loads(run.stdout) if "--json" in words else run


def others():
    """Manifests of the run times that PLB_PYTHON can import."""
    python = os.environ.get("PLB_PYTHON", "")
    found = []
    for name in ("onnxruntime", "openvino"):
        if python and subprocess.run([python, "-c", f"import numpy, {name}"], check=False,
                                     stderr=subprocess.DEVNULL).returncode == 0:
            found.append(name)
            folder = pathlib.Path(os.environ["PLUMB_STACKS"], name)
            folder.mkdir(parents=True)
            worker = pathlib.Path("stacks", name, "worker.py").resolve()
            (folder / "stack.json").write_text(json.dumps(
                {"protocol": 1, "name": name, "command": [python, "-u", str(worker)]}))
    return found


def verify(stacks, path, *flags):
    answer = plumb("verify", path, "--stack", ",".join(stacks), "--threads", 1, "--json", *flags)
    outcomes = {c["stack"]: c["outcome"] for c in answer["cases"]}
    assert outcomes == {name: "ok" for name in stacks}, answer["cases"]
    return answer


def test_small(stacks, folder):
    """Two inputs of several types, several outputs, an open extent."""
    path = pathlib.Path(folder, "conv.onnx")
    path.write_bytes(pathlib.Path("fuzz/corpus/onnx/conv").read_bytes())
    verify(stacks, path)


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def message(*fields):
    """A protobuf message of (number, value): an int, or bytes."""
    return b"".join(varint(n << 3) + varint(v) if isinstance(v, int)
                    else varint(n << 3 | 2) + varint(len(v)) + v for n, v in fields)


def test_values_beside(_stacks, folder):
    """What an export stands for changes with every file that the model has values in."""
    sys.path.insert(0, str(pathlib.Path("stacks/common").resolve()))
    from plumb_stack import exports

    names = ["w.bin", "data/w.bin", "long/" + "n" * 200 + ".bin", "absent.bin"]
    entries = [(13, message((1, b"location"), (2, name.encode()))) for name in names]
    path = pathlib.Path(folder, "beside.onnx")
    path.write_bytes(message((7, message((5, message(*entries))))))
    for name in names[:3]:
        pathlib.Path(folder, name).parent.mkdir(exist_ok=True)
        pathlib.Path(folder, name).write_bytes(b"1234")
    before = exports.beside(path)
    assert [name for name, _, _ in before] == sorted(names[:3]), before
    pathlib.Path(folder, names[1]).write_bytes(b"12345")
    assert exports.beside(path) != before


def cast_model(*types, extent=2):
    """y0 = Cast(Abs(x)), y1 = ..., f32 [2, 3] to the types with these numbers in ONNX; `extent`, in
    place of 2, may be a name."""
    def value(name, dtype):
        shape = message(*((1, message((1 if isinstance(n, int) else 2, n))) for n in (extent, 3)))
        return message((1, name), (2, message((1, message((1, dtype), (2, shape))))))
    names = [b"y%d" % i for i in range(len(types))]
    nodes = [message((1, b"x"), (2, b"a"), (4, b"Abs"))]
    for name, dtype in zip(names, types):
        to = message((1, b"to"), (20, 2), (3, dtype))
        nodes.append(message((1, b"a"), (2, name), (4, b"Cast"), (5, to)))
    graph = message(*((1, node) for node in nodes), (2, b"g"), (11, value(b"x", 1)),
                    *((12, value(name, dtype)) for name, dtype in zip(names, types)))
    return message((1, 8), (8, message((1, b""), (2, 17))), (7, graph))


def test_types(stacks, folder):
    """Outputs of many types; those of 16 bits are as exact as these are."""
    path = pathlib.Path(folder, "cast.onnx")
    f16, u16, u32, u64, bf16 = 10, 4, 12, 13, 16
    path.write_bytes(cast_model(u16, u32, u64, f16))
    verify(stacks, path)
    path.write_bytes(cast_model(bf16))
    answer = plumb("verify", path, "--stack", ",".join(stacks), "--threads", 1, "--json")
    for case in answer["cases"]:
        if case["stack"] in OWN:
            assert case["outcome"] == "ok", case
        else:
            assert case["outcome"] == "refused" and "numpy has no such type" in case["reason"], case


def test_silero(stacks, folder):
    """An LSTM with state, an integer input whose value is given, an extent by name."""
    path = DATA / "silero-vad-16k-op15.onnx"
    if not path.exists():
        return
    answer = verify(stacks, path, "--dim", "sequence=512,sr=16000")
    settings = answer["cases"][0]["settings"]
    assert settings == {"dim.sequence": "512", "dim.sr": "16000"}, settings


def test_old(stacks, folder):
    """Of before operator set 7, which the others read as plumb writes it."""
    path = DATA / "super-resolution.onnx"
    if path.exists():
        verify(stacks, path)


def test_refused(stacks, folder):
    path = pathlib.Path(folder, "conv.onnx")
    path.write_bytes(pathlib.Path("fuzz/corpus/onnx/conv").read_bytes())
    looped = pathlib.Path(folder, "loop.onnx")
    looped.write_bytes(pathlib.Path("fuzz/corpus/onnx/loop").read_bytes())
    for file, words, says in (
            (path, ["--batch", 2], "--dim NAME=N"),
            (looped, ["--task", "train"], "expected batches of at least two axes"),
            (DATA / "mnist.onnx", ["--task", "train", "--batch", 4], "has batches of 1, not of 4"),
            (DATA / "super-resolution.onnx", ["--task", "train"], "no loss can be made of")):
        if file.exists():
            run = plumb("verify", file, *words, status=2)
            assert says in run.stderr and len(run.stderr.splitlines()) == 1, run.stderr
    named = pathlib.Path(folder, "named.onnx")
    for length in (43, 44):  # with "dim." before it, a key of a case
        named.write_bytes(cast_model(1, extent=b"n" * length))
        run = plumb("verify", named, "--stack", "plumb-plan", "--no-lock", "--dim",
                    f"{'n' * length}=2", status=0 if length == 43 else 2)
        assert (length == 43) != run.stderr.endswith(
            "n=2: expected a name of at most 43 bytes, found 44\n"), run.stderr
    run = plumb("verify", "mnist_cnn", "--dim", "n=2", status=2)
    assert "is for ONNX files" in run.stderr, run.stderr
    broken = pathlib.Path(folder, "cycle.onnx")
    broken.write_bytes(pathlib.Path("fuzz/corpus/onnx/cycle").read_bytes())
    run = plumb("verify", broken, status=2)
    assert "node p (Neg)" in run.stderr and len(run.stderr.splitlines()) == 1, run.stderr


def test_bench(stacks, folder):
    """Timed, with the audit, and kept under the file's own name."""
    path = DATA / "mnist.onnx"
    if not path.exists():
        return
    answer = plumb("bench", path, "--stack", "plumb-plan", "--threads", 1, "--starts", 1, "--time",
                   0.2, "--no-lock", "--json")
    case = answer["cases"][0]
    assert case["outcome"] == "ok" and case["model"].startswith("mnist.onnx#"), case


def test_training(stacks, folder):
    """A step, whose loss, gradients and weights are those of the reference; others refuse."""
    path = pathlib.Path(folder, "conv.onnx")
    path.write_bytes(pathlib.Path("fuzz/corpus/onnx/conv").read_bytes())
    answer = plumb("verify", path, "--task", "train", "--batch", 4, "--stack", ",".join(stacks),
                   "--threads", 1, "--json", status=0)
    for case in answer["cases"]:
        own = case["stack"] in OWN
        assert case["outcome"] == ("ok" if own else "refused"), case
        assert own or "does not offer task train" in case["reason"], case
        assert not own or case["batch"] == 4, case
    if (DATA / "mnist.onnx").exists():
        answer = plumb("bench", DATA / "mnist.onnx", "--task", "train", "--stack", "plumb-plan",
                       "--threads", 1, "--starts", 1, "--time", 0.2, "--no-lock", "--json")
        case = answer["cases"][0]
        assert case["outcome"] == "ok" and case["proof"]["equal"], case


def test_profile(stacks, folder):
    """Under the probe, after proof, with extents of its own. Sanitizers keep the probe out."""
    if os.environ.get("PLUMB_SANITIZE"):
        return
    path = DATA / "silero-vad-16k-op15.onnx"
    if path.exists():
        run = plumb("profile", path, "--stack", "plumb-plan", "--threads", 1, "--dim",
                    "sequence=512,sr=16000")
        told = run.stdout + run.stderr
        assert "dim.sequence=512" in told and "EQUAL to the reference" in told, told


def main():
    absent = subprocess.run([PLUMB, "models", "none.onnx"], capture_output=True,
                            check=False).returncode == 3
    if absent:
        print("this build has no ONNX\n0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"XDG_DATA_HOME": home, "XDG_CACHE_HOME": home, "PLUMB_STACKS": home + "/s"}
        stacks = OWN + ([] if os.environ.get("PLUMB_SANITIZE") else others())
        print(f"stacks: {', '.join(stacks)}")
        return run(globals(), stacks, each=tempfile.TemporaryDirectory)


sys.exit(main())
