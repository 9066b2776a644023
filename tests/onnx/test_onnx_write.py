# SPDX-License-Identifier: Apache-2.0
"""Every model of the zoo as an ONNX file and back: the graph that is read has the digest of the one
that was written. Where PLB_PYTHON has onnx and onnxruntime: onnx's checker passes the file, and
ONNX Runtime computes what `plumb predict` computes from it."""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PLUMB = os.environ["PLUMB"]
DATA = pathlib.Path(os.environ.get("PLUMB_TEST_DATA", "../shared/data"))
TOLERANCE = 1e-4
LARGE = {"inception_v3": 96}  # what its stem leaves something of; else 64
# The same layers as smaller ones of their families: under PLB_TEST_FULL only.
LONG = ["vgg11", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn", "resnet101",
        "resnet152", "wide_resnet50_2"]
MODELS = ["mnist", "super-resolution", "ultraface-rfb-320"]


def plumb(*words):
    run = subprocess.run([PLUMB, *map(str, words)], capture_output=True, text=True, check=False)
    if run.returncode:
        raise AssertionError(f"plumb {' '.join(map(str, words))}: {run.stderr.strip()}")
    return json.loads(run.stdout) if "--json" in words else run.stdout


def tasks():
    """Name, and the words of export-onnx."""
    for model in plumb("models", "--json")["models"]:
        name = model["name"]
        if name in LONG and not os.environ.get("PLB_TEST_FULL"):
            continue
        size = LARGE.get(name, 64) if model["input"][1] > 32 else model["input"][1]
        yield name, [name, "--batch", 2, "--size", size]
    for name in MODELS:
        path = DATA / "models" / f"{name}.onnx"
        if path.exists():
            yield path.stem + ".onnx", [path]


def compare(path, read, folder):
    import numpy as np
    import onnx
    import onnxruntime

    onnx.checker.check_model(str(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    random, arrays = np.random.default_rng(1), {}
    for i, entry in enumerate(read["inputs"]):
        arrays[entry["name"]] = random.standard_normal(entry["shape"]).astype(np.float32)
        np.save(f"{folder}/in{i}.npy", arrays[entry["name"]])
    expected = session.run(None, arrays)
    plumb("predict", path, *[f"{folder}/in{i}.npy" for i in range(len(arrays))], "--save", folder,
          "--threads", 1)
    for i, right in enumerate(expected):
        found = np.load(f"{folder}/{i}.npy")
        worst = float(np.max(np.abs(found - right)))
        limit = TOLERANCE * max(1.0, float(np.max(np.abs(right))))
        assert found.shape == right.shape and worst <= limit, (worst, limit)


def round_trip(words, live, external):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.onnx")
        beside = ["--external"] if external else []
        wrote = plumb("export-onnx", *words, "-o", path, "--json", *beside)
        read = plumb("models", path, "--json")
        assert read["graph"] == wrote["graph"], (read["graph"], wrote["graph"])
        assert wrote["external"] == external == pathlib.Path(f"{path}.data").exists()
        again = pathlib.Path(folder, "again.onnx")
        assert plumb("export-onnx", path, "-o", again, "--json")["graph"] == wrote["graph"]
        if live:
            compare(path, read, folder)


def refused():
    """What cannot be written is refused by node and op, and leaves no file."""
    with tempfile.TemporaryDirectory() as folder:
        to = pathlib.Path(folder, "out.onnx")
        run = subprocess.run([PLUMB, "export-onnx", "fuzz/corpus/onnx/loop.onnx", "-o", to],
                             capture_output=True, text=True, check=False)
        assert run.returncode == 2 and "no such file" in run.stderr.lower(), run.stderr
        loop = pathlib.Path(folder, "loop.onnx")
        loop.write_bytes(pathlib.Path("fuzz/corpus/onnx/loop").read_bytes())
        run = subprocess.run([PLUMB, "export-onnx", loop, "-o", to], capture_output=True,
                             text=True, check=False)
        assert run.returncode == 2 and len(run.stderr.splitlines()) == 1, run.stderr
        assert not to.exists()
        to = pathlib.Path(folder, "none", "out.onnx")
        run = subprocess.run([PLUMB, "export-onnx", "lenet5", "-o", to], capture_output=True,
                             text=True, check=False)
        assert run.returncode == 2 and run.stderr.count(str(to)) == 1, run.stderr


def locations(path):
    """The files that a model's values are in, by a plain search of its bytes."""
    data = path.read_bytes()
    return {name for name in os.listdir(path.parent)
            if name != path.name and name.encode() in data}


def replaced():
    """New values never lie where the old model looks for its own: it is replaced in one step. A
    process that is killed at any moment leaves a model that reads what was written with it."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "m.onnx")
        plumb("export-onnx", "lenet5", "-o", path, "--external", "--seed", 1)
        first = locations(path)
        digests = {}
        for seed in (1, 2):
            one = pathlib.Path(folder, f"one{seed}.onnx")
            plumb("export-onnx", "lenet5", "-o", one, "--seed", seed)
            digests[seed] = one.read_bytes()
        assert first == {"m.onnx.data"}, first
        values = pathlib.Path(folder, "m.onnx.data").read_bytes()
        kept = pathlib.Path(folder, "kept")  # what the first model reads, wherever it is named
        os.link(f"{path}.data", kept)
        plumb("export-onnx", "lenet5", "-o", path, "--external", "--seed", 2)
        second = locations(path)
        assert len(second) == 1 and not second & first, (first, second)
        assert kept.read_bytes() == values, "written over while it could be read"
        assert not pathlib.Path(f"{path}.data").exists(), "the old values were left"
        # The first weights of 2 are what the file beside it has, and those of 1 are not.
        inside = pathlib.Path(folder, second.pop()).read_bytes()[:1024]
        assert inside in digests[2] and inside not in digests[1]
        killed(folder, path)


def killed(folder, path):
    """Killed at moments all over an export: what is there can be read, and is one of the two."""
    import random
    import time

    command = [PLUMB, "export-onnx", "lenet5", "-o", str(path), "--external", "--seed"]
    begin = time.perf_counter()
    subprocess.run([*command, "2"], check=True, stdout=subprocess.DEVNULL)
    took, draw = time.perf_counter() - begin, random.Random(3)
    for i in range(12):
        with subprocess.Popen([*command, str(3 + i)], stdout=subprocess.DEVNULL) as process:
            time.sleep(draw.uniform(0, 1.2 * took))
            process.kill()
        names = locations(path)
        assert len(names) == 1 and "61706" in plumb("models", path), names


def run_all(live):
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = {name: pool.submit(round_trip, words, live, name in ("alexnet", "resnet18"))
                for name, words in tasks()}
        jobs["refused"] = pool.submit(refused)
        jobs["replaced"] = pool.submit(replaced)
    for name, job in jobs.items():
        error = job.exception()
        passed, failed = passed + (not error), failed + bool(error)
        if error:
            print(f"FAILED {name}: {error!r}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


def main():
    if sys.argv[1:] == ["run"]:
        return run_all(True)
    absent = subprocess.run([PLUMB, "models", "none.onnx"], capture_output=True,
                            check=False).returncode == 3
    if absent:
        print("this build has no ONNX")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    python = os.environ.get("PLB_PYTHON", "")
    live = python and not os.environ.get("PLUMB_SANITIZE") and subprocess.run(
        [python, "-c", "import numpy, onnx, onnxruntime"], check=False,
        stderr=subprocess.DEVNULL).returncode == 0
    if live:
        return subprocess.run([python, __file__, "run"], check=False).returncode
    print("without onnx and onnxruntime (PLB_PYTHON), or under a sanitizer: files are only read "
          "again")
    return run_all(False)


if __name__ == "__main__":
    sys.exit(main())
