# SPDX-License-Identifier: Apache-2.0
"""`plumb train F.onnx`: one step of plain SGD on a batch of MNIST moves every weight by what
PyTorch's gradient of the same model says, whatever the loss is made of; what is saved is the file
with other weights. Needs a Python with torch, onnx and onnxruntime (PLB_PYTHON) and the files of
PLUMB_TEST_DATA; refusals are tested without."""
import gzip
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
DATA = pathlib.Path(os.environ.get("PLUMB_TEST_DATA", "../shared/data"))
BATCH, LR = 32, 0.1
STEP = ["--data", "mnist", "--limit", BATCH, "--batch", BATCH, "--lr", LR, "--momentum", 0,
        "--weight-decay", 0, "--threads", 1]


def plumb(*words, status=0):
    run = subprocess.run([PLUMB, *map(str, words)], capture_output=True, text=True, check=False)
    if run.returncode != status:
        raise AssertionError(f"plumb {words}: {run.returncode}: {run.stderr}{run.stdout}")
    return json.loads(run.stdout) if "--json" in words else run


def refused(says, *words):
    run = plumb("train", *words, status=2)
    assert says in run.stderr and len(run.stderr.splitlines()) == 1, (words, run.stderr)


# ------------------------------------------------------------------------------ models and data
def digits():
    import numpy as np
    import torch

    with gzip.open(DATA / "mnist/train-images-idx3-ubyte.gz") as file:
        x = np.frombuffer(file.read(16 + BATCH * 784), np.uint8, offset=16)
    with gzip.open(DATA / "mnist/train-labels-idx1-ubyte.gz") as file:
        y = np.frombuffer(file.read(8 + BATCH), np.uint8, offset=8)
    x = (x.reshape(BATCH, 1, 28, 28).astype(np.float32) / 255 - 0.1307) / 0.3081
    return torch.tensor(x), torch.tensor(y.astype(np.int64))


def weights(shapes):
    import numpy as np

    random = np.random.default_rng(7)
    made = {name: random.standard_normal(shape) / max(1, np.prod(shape[1:])) ** 0.5
            for name, shape in shapes.items()}
    made = {name: (1 + 0.1 * w if name.startswith(("gamma", "var")) else w)
            for name, w in made.items()}
    return {name: np.abs(w).astype(np.float32) if name.startswith("var") else
            w.astype(np.float32) for name, w in made.items()}


def write(path, nodes, arrays, inputs=(("x", ["n", 1, 28, 28]),), outputs=("out",), opset=17):
    from onnx import TensorProto, helper, numpy_helper

    ends = [helper.make_tensor_value_info(
        n, TensorProto.INT64 if n == "y" else TensorProto.FLOAT, s) for n, s in inputs]
    graph = helper.make_graph(
        [helper.make_node(op, i, o.split(), name=o.split()[0], **a) for op, i, o, a in nodes],
        "net", ends, [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
        [numpy_helper.from_array(a, k) for k, a in arrays.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    pathlib.Path(path).write_bytes(model.SerializeToString())


def initializers(path):
    import onnx
    from onnx import numpy_helper

    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


def step(path, *words):
    """Trains one step; the report, and the weights after it."""
    report = plumb("train", path, *STEP, *words, "--save", f"{path}.after.onnx", "--json")
    assert report["steps"] == 1 and report["model"] == pathlib.Path(path).name, report
    return report["epochs"][0], initializers(f"{path}.after.onnx")


def compare(path, arrays, loss_of, *words, frozen=(), correct=True):
    """One step against PyTorch: the loss, and the gradient that each weight moved by."""
    import numpy as np
    import torch

    x, y = digits()
    epoch, after = step(path, *words)
    w = {k: torch.tensor(a, requires_grad=a.dtype == np.float32) for k, a in arrays.items()}
    loss = loss_of(x, y, w)
    loss.backward()
    loss = float(loss.detach())
    assert abs(epoch["loss"] - loss) <= 1e-5 * max(1, abs(loss)), (epoch["loss"], loss)
    assert (epoch["train_accuracy"] is not None) == correct, epoch
    for name, before in arrays.items():
        if before.dtype != np.float32:
            assert (after[name] == before).all(), name
            continue
        gradient = w[name].grad
        if name in frozen or gradient is None:
            assert (after[name] == before).all(), f"{name} was to stay"
            continue
        expected = before - LR * gradient.numpy()
        moved = float(np.max(np.abs(after[name] - before)))
        worst = float(np.max(np.abs(after[name] - expected)))
        assert moved > 0 and worst <= 1e-4 * moved + 1e-6, (name, worst, moved)


# ------------------------------------------------------------------------------ against PyTorch
CONV = {"conv": (6, 1, 5, 5), "bias": (6,), "gamma": (6,), "beta": (6,), "mean": (6,), "var": (6,),
        "fc": (10, 864), "fcb": (10,)}
BODY = [("Conv", ["x", "conv", "bias"], "c", {}),
        ("BatchNormalization", ["c", "gamma", "beta", "mean", "var"], "b", {}),
        ("Relu", ["b"], "r", {}),
        ("MaxPool", ["r"], "p", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Flatten", ["p"], "f", {}), ("Gemm", ["f", "fc", "fcb"], "s", {"transB": 1})]


def scores(x, w, training=False):
    import torch.nn.functional as F

    c = F.conv2d(x, w["conv"], w["bias"])
    b = F.batch_norm(c, None if training else w["mean"].detach(),
                     None if training else w["var"].detach(), w["gamma"], w["beta"], training)
    return F.linear(F.max_pool2d(F.relu(b), 2).flatten(1), w["fc"], w["fcb"])


def test_log_softmax(folder):
    """Statistics stay, log-probabilities get the nll; the batch of the file stays open."""
    import onnx
    import torch.nn.functional as F

    arrays = weights(CONV)
    path = f"{folder}/a.onnx"
    write(path, [*BODY, ("LogSoftmax", ["s"], "out", {"axis": 1})], arrays)
    compare(path, arrays, lambda x, y, w: F.nll_loss(F.log_softmax(scores(x, w), 1), y),
            frozen=("mean", "var"))
    after = onnx.load(f"{path}.after.onnx")
    before = onnx.load(path)
    del after.graph.initializer[:], before.graph.initializer[:]
    assert after == before, "only values may change"


def test_softmax(folder):
    """Of probabilities the loss is that of what they were made of; names choose what is trained."""
    import torch.nn.functional as F

    arrays = weights(CONV)
    path = f"{folder}/a.onnx"
    write(path, [*BODY, ("Softmax", ["s"], "out", {"axis": 1})], arrays)

    def loss(x, y, w):
        return F.cross_entropy(scores(x, w), y)

    compare(path, arrays, loss, "--freeze", "conv,g*", frozen=("conv", "gamma", "mean", "var"))
    compare(path, arrays, loss, "--only", "fc*", frozen=set(arrays) - {"fc", "fcb"})
    compare(path, arrays, lambda x, y, w: F.mse_loss(
        F.softmax(scores(x, w), 1), F.one_hot(y, 10).float()), "--loss", "mse",
        frozen=("mean", "var"))


def test_training_mode(folder):
    """A file that says it trains: statistics of the batch, running ones as ONNX defines them."""
    import numpy as np
    import torch
    import torch.nn.functional as F

    arrays = weights(CONV)
    path, (x, _) = f"{folder}/a.onnx", digits()
    body = [(op, i, "b running1 running2" if o == "b" else o,
             {"training_mode": 1, "momentum": 0.75} if o == "b" else a) for op, i, o, a in BODY]
    body[-1] = (*body[-1][:2], "out", body[-1][3])
    write(path, body, arrays)
    _, after = step(path)
    c = F.conv2d(x, *[torch.tensor(arrays[k]) for k in ("conv", "bias")]).numpy()
    for name, fresh in (("mean", c.mean((0, 2, 3))), ("var", c.var((0, 2, 3)))):
        expected = 0.75 * arrays[name] + 0.25 * fresh
        assert np.allclose(after[name], expected, rtol=1e-4, atol=1e-5), name
    trained = {k: v for k, v in arrays.items() if k not in ("mean", "var")}
    compare(path, trained, lambda x, y, w: F.cross_entropy(scores(x, w, True), y))


def test_own_loss(folder):
    """The file takes the classes and has the loss; the accuracy is that of its other output."""
    import torch.nn.functional as F

    arrays = weights(CONV)
    path = f"{folder}/a.onnx"
    write(path, [*BODY, ("SoftmaxCrossEntropyLoss", ["s", "y"], "out", {"reduction": "mean"})],
          arrays, (("x", ["n", 1, 28, 28]), ("y", ["n"])), ("s", "out"), 13)
    compare(path, arrays, lambda x, y, w: F.cross_entropy(scores(x, w), y), frozen=("mean", "var"))


def test_autoencoder(folder):
    """The target of an output as large as the picture is the picture, flat as the file takes it."""
    import torch
    import torch.nn.functional as F

    arrays = weights({"down": (784, 12), "up": (12, 784), "b": (784,)})
    path = f"{folder}/a.onnx"
    write(path, [("MatMul", ["x", "down"], "d", {}), ("Tanh", ["d"], "t", {}),
                 ("MatMul", ["t", "up"], "u", {}), ("Add", ["u", "b"], "out", {})], arrays,
          (("x", ["n", 784]),))

    def loss(x, y, w):
        x = x.flatten(1)
        return F.mse_loss(torch.tanh(x @ w["down"]) @ w["up"] + w["b"], x)

    compare(path, arrays, loss, "--loss", "mse", correct=False)
    told = plumb("train", path, *STEP, "--loss", "mse").stdout
    assert told.splitlines()[2].split()[3] == "-", told  # no scores, no accuracy


def test_attention(folder):
    """Patches, a layer norm, attention spelt out, and channels last."""
    import numpy as np
    import torch
    import torch.nn.functional as F

    arrays = weights({"patch": (16, 1, 7, 7), "gamma": (16,), "beta": (16,), "qkv": (16, 48),
                      "fc": (16, 10)})
    arrays |= {"tokens": np.array([0, 16, 16]), "halves": np.array([0, 0, 3, 16]),
               "scale": np.array(0.25, np.float32)}
    path = f"{folder}/a.onnx"
    write(path, [("Transpose", ["x"], "x0", {"perm": [0, 3, 1, 2]}),
                 ("Conv", ["x0", "patch"], "c", {"strides": [7, 7]}),
                 ("Reshape", ["c", "tokens"], "c1", {}),
                 ("Transpose", ["c1"], "t", {"perm": [0, 2, 1]}),
                 ("LayerNormalization", ["t", "gamma", "beta"], "n", {"axis": -1}),
                 ("MatMul", ["n", "qkv"], "h", {}), ("Split", ["h"], "q k v", {"axis": 2}),
                 ("Transpose", ["k"], "kt", {"perm": [0, 2, 1]}), ("MatMul", ["q", "kt"], "a", {}),
                 ("Mul", ["a", "scale"], "as", {}), ("Softmax", ["as"], "p", {"axis": -1}),
                 ("MatMul", ["p", "v"], "o", {}), ("Add", ["o", "t"], "r", {}),
                 ("Erf", ["r"], "e", {}),
                 ("ReduceMean", ["e"], "m", {"axes": [1], "keepdims": 0}),
                 ("MatMul", ["m", "fc"], "out", {})], arrays, (("x", ["n", 28, 28, 1]),))

    def loss(x, y, w):
        t = F.conv2d(x, w["patch"], stride=7).flatten(2).transpose(1, 2)
        q, k, v = (F.layer_norm(t, (16,), w["gamma"], w["beta"]) @ w["qkv"]).chunk(3, 2)
        r = torch.softmax(q @ k.transpose(1, 2) * 0.25, -1) @ v + t
        return F.cross_entropy(torch.erf(r).mean(1) @ w["fc"], y)

    compare(path, {k: v for k, v in arrays.items() if k != "scale"}, loss)


def test_recurrent(folder):
    """Rows of the picture as steps of an LSTM."""
    import numpy as np
    import torch
    import torch.nn.functional as F

    arrays = weights({"w": (1, 48, 28), "r": (1, 48, 12), "b": (1, 96), "fc": (12, 10)})
    path = f"{folder}/a.onnx"
    arrays |= {"rows": np.array([0, 28, 28]), "flat": np.array([-1, 12])}
    write(path, [("Reshape", ["x", "rows"], "s", {}),
                 ("Transpose", ["s"], "t", {"perm": [1, 0, 2]}),
                 ("LSTM", ["t", "w", "r", "b"], "all last", {"hidden_size": 12}),
                 ("Reshape", ["last", "flat"], "h", {}), ("MatMul", ["h", "fc"], "out", {})],
          arrays)

    def torchs(t):  # gates i o f c -> i f c o
        i, o, f, c = t[0].chunk(4)
        return torch.cat([i, f, c, o])

    def loss(x, y, w):
        steps, h, c = x[:, 0], torch.zeros(BATCH, 12), torch.zeros(BATCH, 12)
        for k in range(28):
            first, second = w["b"].chunk(2, 1)
            h, c = torch._VF.lstm_cell(steps[:, k], (h, c), torchs(w["w"]), torchs(w["r"]),
                                       torchs(first), torchs(second))
        return F.cross_entropy(h @ w["fc"], y)

    compare(path, arrays, loss)


def test_dropout(folder):
    """Random in training alone, and of the right size there."""
    import numpy as np
    import torch
    import torch.nn.functional as F

    arrays = weights({"fc": (784, 10)})
    arrays |= {"ratio": np.array(0.5, np.float32), "yes": np.array(True)}
    path, (x, y) = f"{folder}/a.onnx", digits()
    write(path, [("Flatten", ["x"], "f", {}), ("Dropout", ["f", "ratio", "yes"], "d", {}),
                 ("MatMul", ["d", "fc"], "out", {})], arrays, opset=13)
    epoch = plumb("train", path, *STEP, "--lr", 0, "--json")["epochs"][0]
    fc = torch.tensor(arrays["fc"])
    drawn = torch.stack([F.cross_entropy(F.dropout(x.flatten(1), 0.5) @ fc, y)
                         for _ in range(200)])
    assert abs(epoch["loss"] - float(drawn.mean())) < 5 * float(drawn.std()), (epoch, drawn.mean())
    plain = float(F.cross_entropy(x.flatten(1) @ fc, y))
    assert abs(epoch["loss"] - plain) > 1e-3, (epoch, plain)


def test_attributes_make_another_model(folder):
    """Two files that differ in an attribute alone are two cases, each proven by its own reference;
    of a batch that the proof has no time for, a smaller one is."""
    arrays = weights({"w": (784, 10), "b": (10,)})
    names = set()
    os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
    for alpha, more in ((0.01, []), (0.5, []), (0.5, ["--proof-time", 0.1, "--batch", 2048])):
        path = f"{folder}/a.onnx"
        write(path, [("Flatten", ["x"], "f", {}), ("MatMul", ["f", "w"], "m", {}),
                     ("LeakyRelu", ["m"], "l", {"alpha": alpha}), ("Add", ["l", "b"], "out", {})],
              arrays)
        case, = plumb("verify", path, "--task", "train", "--threads", 1, "--stack", "plumb-interp",
                      "--no-lock", "--json", *(more or ["--batch", 8]))["cases"]
        assert case["proof"]["equal"], (alpha, case)
        names.add(case["model"])
    assert len(names) == 3, names


def test_learns(folder):
    """A trained file is one that ONNX Runtime classifies digits with, as its report said."""
    import numpy as np
    import onnxruntime

    arrays = weights(CONV)
    path, saved = f"{folder}/a.onnx", f"{folder}/b.onnx"
    write(path, [*BODY, ("LogSoftmax", ["s"], "out", {"axis": 1})], arrays)
    report = plumb("train", path, "--data", "mnist", "--limit", 2000, "--batch", 50, "--epochs", 2,
                   "--threads", 1, "--save", saved, "--json")
    with gzip.open(DATA / "mnist/t10k-images-idx3-ubyte.gz") as file:
        x = np.frombuffer(file.read(16 + 2000 * 784), np.uint8, offset=16)
    with gzip.open(DATA / "mnist/t10k-labels-idx1-ubyte.gz") as file:
        y = np.frombuffer(file.read(8 + 2000), np.uint8, offset=8)
    x = (x.reshape(-1, 1, 28, 28).astype(np.float32) / 255 - 0.1307) / 0.3081
    session = onnxruntime.InferenceSession(saved, providers=["CPUExecutionProvider"])
    out = session.run(None, {"x": x})
    accuracy = float((out[0].argmax(1) == y).mean())
    told = report["epochs"][-1]["test_accuracy"]
    assert told > 0.7 and abs(told - accuracy) <= 1 / 2000, (told, accuracy)


def test_refused(folder):
    """What cannot be trained is said in one line, by its name."""
    path = pathlib.Path(folder, "conv.onnx")
    path.write_bytes(pathlib.Path("fuzz/corpus/onnx/conv").read_bytes())
    words = ["--data", "digits", "--limit", 4]
    refused("do not fit [-1, 3, 6, 6]", path, "--data", "shapes", "--limit", 4)
    refused("--loss is for ONNX files, and lenet5 is none", "lenet5", "--loss", "nll")
    lenet = pathlib.Path(folder, "lenet.onnx")
    plumb("export-onnx", "lenet5", "--batch", 4, "-o", lenet)
    for flag in ("--only", "--freeze"):  # one that means nothing is not passed over
        refused('"fc1.weigth" is the name of none', lenet, *words, flag, "conv*,fc1.weigth")
    cycle = pathlib.Path(folder, "cycle.onnx")
    cycle.write_bytes(pathlib.Path("fuzz/corpus/onnx/cycle").read_bytes())
    refused("cycle.onnx", cycle, *words)
    models = DATA / "models"
    if models.exists():
        mnist = models / "mnist.onnx"
        refused("expected one input of pictures", models / "silero-vad-16k-op15.onnx", *words)
        refused("has batches of 1 and no others", mnist, *words, "--batch", 4)
        refused("no loss can be made of output none", mnist, *words, "--output", "none")
        refused("do not fit [1, 3, 240, 320]", models / "ultraface-rfb-320.onnx", "--data",
                "shapes", "--limit", 4)
        refused("expected scores", models / "super-resolution.onnx", *words)


def main():
    if sys.argv[1:] == ["run"]:
        return run(globals(), each=tempfile.TemporaryDirectory)
    python = os.environ.get("PLB_PYTHON", "")
    have = python and subprocess.run([python, "-c", "import numpy, onnx, onnxruntime, torch"],
                                     check=False, stderr=subprocess.DEVNULL).returncode == 0
    if subprocess.run([PLUMB, "models", "none.onnx"], capture_output=True,
                      check=False).returncode == 3:
        print("this build has no ONNX\n0 passed, 0 failed, 1 skipped")
        return 0
    if not have or os.environ.get("PLUMB_SANITIZE") or not (DATA / "mnist").exists():
        print("no Python with torch and onnx (PLB_PYTHON), no MNIST, or a sanitizer: only refusals")
        return run({"test_refused": test_refused}, each=tempfile.TemporaryDirectory)
    return subprocess.run([python, __file__, "run"], check=False).returncode


sys.exit(main())
