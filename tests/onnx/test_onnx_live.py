# SPDX-License-Identifier: Apache-2.0
"""Trained networks, run by `plumb predict F.onnx` and by ONNX Runtime on the same arrays. Needs a
Python with onnxruntime (PLB_PYTHON) and the files of PLUMB_TEST_DATA."""
import gzip
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))
sys.path.append(str(pathlib.Path(__file__).parents[1]))
import onnx_old  # noqa: E402
from runner import run  # noqa: E402

PLUMB = os.environ["PLUMB"]
DATA = pathlib.Path(os.environ.get("PLUMB_TEST_DATA", "../shared/data"))
TOLERANCE = 1e-4


def ours(model, arrays, folder, *flags):
    import numpy as np

    paths = []
    for i, array in enumerate(arrays):
        paths.append(f"{folder}/in{i}.npy")
        np.save(paths[-1], array)
    subprocess.run([PLUMB, "predict", model, *paths, "--save", folder, *flags], check=True,
                   stdout=subprocess.DEVNULL)
    out = []
    while os.path.exists(f"{folder}/{len(out)}.npy"):
        out.append(np.load(f"{folder}/{len(out)}.npy"))
    return out


def theirs(model):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    # Old files list their weights as inputs too, which have values already.
    given = {i.name for i in session.get_overridable_initializers()}
    names = [i.name for i in session.get_inputs() if i.name not in given]
    return lambda *arrays: session.run(None, dict(zip(names, arrays)))


def close(name, found, expected):
    import numpy as np

    assert len(found) == len(expected), (name, len(found), len(expected))
    for a, b in zip(found, expected):
        assert a.shape == b.shape, (name, a.shape, b.shape)
        worst = float(np.max(np.abs(a - b)))
        limit = TOLERANCE * max(1.0, float(np.max(np.abs(b))))
        assert worst <= limit, (name, worst, limit)
        print(f"{name}: largest difference {worst:.2e}")


def test_mnist(folder):
    import numpy as np

    model = DATA / "models/mnist.onnx"
    with gzip.open(DATA / "mnist/t10k-images-idx3-ubyte.gz") as f:
        images = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 1, 1, 28, 28)
    images = images.astype(np.float32)
    found = ours(model, [images], folder)[0]
    run = theirs(str(model))
    expected = np.stack([run(image)[0] for image in images])
    assert (found.argmax(-1) == expected.argmax(-1)).all()
    close("mnist", [found], [expected])


def test_super_resolution(folder):
    import numpy as np

    model = DATA / "models/super-resolution.onnx"
    x = np.random.default_rng(1).random((1, 1, 224, 224), np.float32)
    close("super-resolution", ours(model, [x], folder), theirs(onnx_old.modernised(model))(x))


def test_ultraface(folder):
    import numpy as np

    model = DATA / "models/ultraface-rfb-320.onnx"
    x = np.random.default_rng(2).standard_normal((1, 3, 240, 320)).astype(np.float32)
    close("ultraface", ours(model, [x], folder), theirs(str(model))(x))


def test_faces(folder):
    """The example draws the boxes that ONNX Runtime's answer gives."""
    import tarfile

    import numpy as np
    from PIL import Image

    sys.path.insert(0, "docs/examples")
    import faces

    model = DATA / "models/ultraface-rfb-320.onnx"
    with tarfile.open(DATA / "images/voc-samples.tar.gz") as tar:
        photo = Image.open(tar.extractfile("voc-samples/JPEGImages/2011_000006.jpg"))
        photo = photo.convert("RGB")
    photo.save(f"{folder}/photo.png")
    told = subprocess.run([sys.executable, "docs/examples/faces.py", model, f"{folder}/photo.png",
                           f"{folder}/boxes.png"], check=True, capture_output=True, text=True)
    x = faces.prepared(photo)
    expected = faces.faces(*theirs(str(model))(x))
    found = faces.faces(*ours(model, [x], folder))
    assert len(found) == len(expected) == len(told.stdout.splitlines()) >= 2, told.stdout
    close("faces", [np.array([[s, *box] for s, box in found])],
          [np.array([[s, *box] for s, box in expected])])
    drawn, plain = np.asarray(Image.open(f"{folder}/boxes.png")), np.asarray(photo)
    red = (drawn == (255, 40, 40)).all(-1)
    assert drawn.shape == plain.shape and red.any() and (drawn[~red] == plain[~red]).all()


def test_silero_vad(folder):
    import numpy as np

    model = DATA / "models/silero-vad-16k-op15.onnx"
    run, random = theirs(str(model)), np.random.default_rng(3)
    our_state = their_state = np.zeros((2, 1, 128), np.float32)
    rate = np.array(16000, np.int64)
    for step in range(4):
        x = (0.1 * random.standard_normal((1, 512))).astype(np.float32)
        found = ours(model, [x, our_state, rate], folder, "--dim", "sequence=512")
        expected = run(x, their_state, rate)
        close(f"silero-vad, step {step}", found, expected)
        our_state, their_state = found[1], expected[1]


def small_network(path, chain=False):
    """Convolutions, a sum, poolings and a product, in f32; or of them a chain, without what ONNX's
    own operator set has no quantised op for."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(4)
    weights = {"w0": (16, 3, 3, 3), "b0": (16,), "w1": (16, 16, 3, 3), "b1": (16,),
               "w2": (16, 16, 1, 1), "b2": (16,), "w3": (16, 10), "b3": (10,)}
    nodes = [("Conv", ["x", "w0", "b0"], "c0", {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
             ("Relu", ["c0"], "r0", {}),
             ("MaxPool", ["r0"], "m0", {"kernel_shape": [2, 2], "strides": [2, 2]}),
             ("Conv", ["m0", "w1", "b1"], "c1", {"pads": [1, 1, 1, 1]}),
             ("Conv", ["m0", "w2", "b2"], "c2", {}), ("Add", ["c1", "c2"], "a0", {}),
             ("Relu", ["a0"], "r1", {}), ("GlobalAveragePool", ["r1"], "p0", {}),
             ("Flatten", ["p0"], "f0", {}), ("Gemm", ["f0", "w3", "b3"], "y", {})]
    if chain:
        weights["w3"] = (16 * 64, 10)
        nodes[4:] = [("Relu", ["c1"], "r1", {}), ("Flatten", ["r1"], "f0", {}),
                     ("MatMul", ["f0", "w3"], "y", {})]
    arrays = {k: (random.standard_normal(s) / np.sqrt(np.prod(s[1:]) or 1)).astype(np.float32)
              for k, s in weights.items() if any(k in inputs for _, inputs, _, _ in nodes)}
    graph = helper.make_graph(
        [helper.make_node(op, i, [o], name=o, **a) for op, i, o, a in nodes], "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(a, k) for k, a in arrays.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    pathlib.Path(path).write_bytes(model.SerializeToString())


def test_quantised(folder):
    """What ONNX Runtime's own quantiser makes: as near as its graph is to its own kernels."""
    import numpy as np
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):
        left = 8

        def get_next(self):
            self.left -= 1
            x = np.random.default_rng(max(self.left, 0)).standard_normal((1, 3, 32, 32))
            return {"x": x.astype(np.float32)} if self.left >= 0 else None

    def check(form, x):
        for activations in (quantization.QuantType.QUInt8, quantization.QuantType.QInt8):
            for per_channel in (False, True):
                name = f"{folder}/small-int8.onnx"
                quantization.quantize_static(
                    f"{folder}/small.onnx", name, Reader(), per_channel=per_channel,
                    quant_format=form, activation_type=activations,
                    weight_type=quantization.QuantType.QInt8)
                found, expected = ours(name, [x], folder)[0], theirs(name)(x)[0]
                step = np.min(np.diff(np.unique(np.concatenate([expected.ravel(), [0]]))))
                worst = float(np.max(np.abs(found - expected)))
                assert worst <= 2.01 * step, (form, activations, per_channel, worst, step)
                print(f"{form}, {activations}, per channel {per_channel}: {worst / step:.2f} steps")

    x = np.random.default_rng(9).standard_normal((1, 3, 32, 32)).astype(np.float32)
    small_network(f"{folder}/small.onnx")
    check(quantization.QuantFormat.QDQ, x)
    small_network(f"{folder}/small.onnx", chain=True)
    check(quantization.QuantFormat.QOperator, x)


def test_centred_pixels(folder):
    """Bytes less 127.5 are no quantised numbers, though weights behind them may be."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(5)
    arrays = {"middle": np.float32(127.5), "scale": np.float32(1 / 127.5),
              "w": random.integers(-127, 128, (16, 3, 3, 3)).astype(np.int8),
              "w_scale": np.float32(0.01), "w_zero": np.int8(0)}
    nodes = [("Cast", ["x"], "f", {"to": TensorProto.FLOAT}), ("Sub", ["f", "middle"], "c", {}),
             ("Mul", ["c", "scale"], "p", {}),
             ("DequantizeLinear", ["w", "w_scale", "w_zero"], "v", {}),
             ("Conv", ["p", "v"], "y", {})]
    graph = helper.make_graph(
        [helper.make_node(op, i, [o], name=o, **a) for op, i, o, a in nodes], "centred",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 14, 14])],
        [numpy_helper.from_array(np.asarray(a), k) for k, a in arrays.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    name = f"{folder}/centred.onnx"
    pathlib.Path(name).write_bytes(model.SerializeToString())
    x = random.integers(0, 256, (1, 3, 16, 16)).astype(np.uint8)
    close("bytes less 127.5", ours(name, [x], folder), theirs(name)(x))


def test_channels_last(folder):
    """Permutations around every convolution, as exporters of such networks write them, cancel over
    what is pointwise, also where two branches meet."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    random, first, last = np.random.default_rng(8), [0, 3, 1, 2], [0, 2, 3, 1]
    arrays = [numpy_helper.from_array(random.standard_normal(s).astype(np.float32) / 9, k)
              for k, s in {"w": (8, 3, 3, 3), "u": (8, 3, 3, 3), "v": (8, 8, 3, 3)}.items()]
    nodes = []

    def conv(x, w, y):
        for op, inputs, output, attributes in (
                ("Transpose", [x], f"{y}.in", {"perm": first}),
                ("Conv", [f"{y}.in", w], f"{y}.conv", {"pads": [1] * 4}),
                ("Transpose", [f"{y}.conv"], y, {"perm": last})):
            nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))

    conv("x", "w", "a")
    nodes.append(helper.make_node("Tanh", ["a"], ["b"], name="b"))
    conv("b", "v", "c")
    conv("x", "u", "d")
    nodes.append(helper.make_node("Add", ["c", "d"], ["e"], name="e"))
    nodes.append(helper.make_node("Relu", ["e"], ["f"], name="f"))
    conv("f", "v", "y")
    graph = helper.make_graph(
        nodes, "last", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 9, 7, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], arrays)
    path = f"{folder}/last.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    pathlib.Path(path).write_bytes(model.SerializeToString())
    x = random.standard_normal((2, 9, 7, 3)).astype(np.float32)
    close("channels last", ours(path, [x], folder), theirs(path)(x))
    told = subprocess.run([PLUMB, "explain", path], check=True, capture_output=True, text=True)
    left = [line for line in told.stdout.splitlines() if "permute [" in line]
    assert len(left) <= 3 and "permutations: " in told.stdout, told.stdout  # of x twice, and y


def test_recurrent(folder):
    """Layers of more steps than would be unrolled, in both directions."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    random, steps, batch, features, hidden = np.random.default_rng(6), 1100, 2, 5, 16
    for op, gates, attributes in (("LSTM", 4, {}), ("GRU", 3, {}),
                                  ("GRU", 3, {"linear_before_reset": 1}), ("RNN", 1, {}),
                                  ("RNN", 1, {"activations": ["Relu", "Relu"]})):
        shapes = {"w": (2, gates * hidden, features), "r": (2, gates * hidden, hidden),
                  "b": (2, 2 * gates * hidden)}
        arrays = [numpy_helper.from_array(
            (random.uniform(-1, 1, s) * 0.2).astype(np.float32), k) for k, s in shapes.items()]
        outputs = ["y", "h", "c"][: 3 if op == "LSTM" else 2]
        node = helper.make_node(op, ["x", "w", "r", "b"], outputs, hidden_size=hidden,
                                direction="bidirectional", **attributes)
        graph = helper.make_graph(
            [node], "layer",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, batch, features])],
            [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs], arrays)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
        path = f"{folder}/layer.onnx"
        pathlib.Path(path).write_bytes(model.SerializeToString())
        x = random.standard_normal((steps, batch, features)).astype(np.float32)
        close(f"{op} {attributes}", ours(path, [x], folder)[: len(outputs)], theirs(path)(x))


def of_nodes(path, nodes, x, arrays, opset=17):
    """A file of these nodes, whose inputs are `x` and whose output is "z"."""
    from onnx import helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node(op, i, o.split(), name=o, **a) for op, i, o, a in nodes], "edge",
        [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
         for k, v in x.items()], [helper.make_empty_tensor_value_info("z")],
        [numpy_helper.from_array(a, k) for k, a in arrays.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    pathlib.Path(path).write_bytes(model.SerializeToString())


def edges():
    """name: (nodes, inputs, constants, opset), each of what went wrong once."""
    import numpy as np

    random = np.random.default_rng(9)

    def drawn(*shape):
        return random.standard_normal(shape).astype(np.float32)

    def f32(*values):
        return np.array(values, np.float32)

    def quantised(dtype, zero, shape, weights, groups):
        """A convolution of 8-bit integers, in floats between QDQ pairs."""
        nodes = [("QuantizeLinear", ["x", "s", "zero"], "q", {}),
                 ("DequantizeLinear", ["q", "s", "zero"], "d", {}),
                 ("DequantizeLinear", ["w", "ws"], "v", {}),
                 ("Conv", ["d", "v"], "z", {"group": groups})]
        constants = {"s": np.array(0.05, np.float32), "zero": np.array(zero, dtype),
                     "w": random.integers(-127, 128, weights).astype(np.int8),
                     "ws": np.array(0.01, np.float32)}
        return nodes, {"x": drawn(*shape)}, constants, 17

    one, half, root = np.ones((3, 1, 1), np.float32), f32(0.5), f32(2 ** -0.5)
    roi = {"output_height": 2, "output_width": 2}
    return {
        "rows of padding, a residual and an activation": (
            [("Conv", ["x", "w"], "c", {"pads": [1, 0, 1, 0], "dilations": [2, 1]}),
             ("Add", ["c", "r"], "a", {}), ("Relu", ["a"], "z", {})],
            {"x": drawn(1, 8, 1, 6)}, {"w": drawn(8, 8, 2, 2), "r": drawn(1, 8, 1, 5)}, 17),
        "rows of padding, a bias and a residual": (
            [("Conv", ["x", "w", "b"], "c", {"pads": [1, 0, 1, 0]}), ("Add", ["c", "r"], "z", {})],
            {"x": drawn(1, 4, 3, 3)},
            {"w": drawn(4, 4, 1, 1), "b": drawn(4), "r": drawn(1, 4, 5, 3)}, 17),
        "a one of more axes in a GELU": (
            [("Mul", ["x", "root"], "s", {}), ("Erf", ["s"], "e", {}),
             ("Add", ["e", "one"], "o", {}), ("Mul", ["x", "o"], "m", {}),
             ("Mul", ["m", "half"], "g", {}),
             ("Softmax", ["g"], "z", {"axis": 0})],
            {"x": drawn(2, 4)}, {"one": one, "half": half, "root": root}, 17),
        "a mask wider than the scores": (
            [("Transpose", ["k"], "t", {"perm": [0, 1, 3, 2]}), ("MatMul", ["x", "t"], "s", {}),
             ("Add", ["s", "mask"], "a", {}), ("Softmax", ["a"], "p", {"axis": 3}),
             ("MatMul", ["p", "v"], "z", {})],
            {"x": drawn(1, 2, 4, 8)},
            {"k": drawn(1, 2, 5, 8), "v": drawn(1, 2, 5, 8), "mask": drawn(3, 1, 4, 5)}, 17),
        "as many samples of a region as it is long": (
            [("RoiAlign", ["x", "rois", "batch"], "z", roi)], {"x": drawn(1, 3, 9, 7)},
            {"rois": f32([0, 0, 6, 5], [1, 2, 4, 8]), "batch": np.zeros(2, np.int64)}, 16),
        "more pixels than a float counts": (
            [("RoiAlign", ["x", "rois", "batch"], "z", {**roi, "sampling_ratio": 1})],
            {"x": np.tile(np.arange(2100, dtype=np.float32), (4, 1, 2100, 1))},
            {"rois": f32([7, 2000, 11, 2004]), "batch": f32(3).astype(np.int64)}, 16),
        "an odd number of elements that a transposed convolution leaves out": (
            [("ConvTranspose", ["x", "w"], "z", {"output_shape": [8]})],
            {"x": drawn(1, 1, 7)}, {"w": drawn(1, 1, 3)}, 17),
        "the nearest of fewer, as it was": (
            [("Resize", ["x", "scales"], "z", {"mode": "nearest"})],
            {"x": np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)},
            {"scales": f32(1, 1, 0.6, 0.6)}, 10),
        "an edge that negative pads took off": (
            [("Pad", ["x", "pads"], "z", {"mode": "edge"})], {"x": drawn(3, 5)},
            {"pads": np.array([1, -2, -1, 3])}, 18),
        "a reflection of what negative pads left": (
            [("Pad", ["x", "pads"], "z", {"mode": "reflect"})], {"x": drawn(3, 5)},
            {"pads": np.array([-1, 2, 1, -1])}, 18),
        "infinity above a limit that is left out": (
            [("Clip", ["x"], "z", {"min": -1.0})], {"x": f32(np.inf, 5, -np.inf)}, {}, 7),
        "infinity below a limit that is left out": (
            [("Clip", ["x"], "z", {"max": 1.0})], {"x": f32(-np.inf, 5, -3)}, {}, 7),
        "kernels of 8 elements, depth-wise, of u8": quantised(
            np.uint8, 128, (1, 8, 3, 3, 3), (8, 1, 2, 2, 2), 8),
        "numbers of the activations that take one": (
            [("RNN", ["x", "W", "R"], "z", {"hidden_size": 3, "direction": "bidirectional",
                                            "activations": ["Softsign", "Elu"],
                                            "activation_alpha": [0.15]})],
            {"x": drawn(2, 1, 4)}, {"W": drawn(2, 3, 4), "R": drawn(2, 3, 3)}, 14),
        "numbers behind an activation that takes none": (
            [("GRU", ["x", "W", "R"], "z", {"hidden_size": 3, "activations": ["Sigmoid", "Affine"],
                                            "activation_alpha": [2.0], "activation_beta": [0.64]})],
            {"x": drawn(2, 1, 4)}, {"W": drawn(1, 9, 4), "R": drawn(1, 9, 3)}, 14),
        "8 x 8 weights in groups, of i8": quantised(np.int8, 0, (1, 32, 3, 3), (8, 8, 1, 1), 4),
    }


def test_edges(folder):
    path = f"{folder}/edge.onnx"
    for name, (nodes, x, arrays, opset) in edges().items():
        of_nodes(path, nodes, x, arrays, opset)
        close(name, ours(path, list(x.values()), folder), theirs(path)(*x.values()))


def of_integers(path, nodes, x, arrays, opset=17):
    """Expects of a file like those of `of_nodes`, at two levels, ONNX Runtime's very integers."""
    import numpy as np

    of_nodes(path, nodes, x, arrays, opset)
    expected = theirs(path)(*x.values())[0]
    for level in ("plan", "interp"):
        with tempfile.TemporaryDirectory() as folder:
            found = ours(path, list(x.values()), folder, "--level", level)[0]
        assert found.dtype == expected.dtype and found.shape == expected.shape, (level, found)
        assert np.array_equal(found, expected), (level, found, expected)


def test_pooled_positions(folder):
    """Of the largest elements, counted along the first axis first, for all numbers of axes."""
    import numpy as np

    x = np.random.default_rng(10).permutation(2 * 2 * 4 * 6 * 4).astype(np.float32)
    for shape in ((2, 2, 96), (2, 2, 4, 24), (2, 2, 4, 6, 4)):
        pool = {"kernel_shape": [2] * (len(shape) - 2), "strides": [2] * (len(shape) - 2)}
        for order in (0, 1):
            of_integers(f"{folder}/pool.onnx",
                        [("MaxPool", ["x"], "y z", {**pool, "storage_order": order})],
                        {"x": x.reshape(shape)}, {})


def test_integer_products(folder):
    """Of all bits, wrapping around."""
    import numpy as np

    random = np.random.default_rng(11)
    for dtype in (np.int32, np.uint32, np.int64, np.uint64):
        span = np.iinfo(dtype)
        a, b = (random.integers(span.min, span.max, s, dtype, endpoint=True)
                for s in ((3, 4, 20), (20, 5)))
        of_integers(f"{folder}/product.onnx", [("MatMul", ["x", "b"], "z", {})], {"x": a}, {"b": b})
    of_integers(f"{folder}/product.onnx",
                [("Einsum", ["x", "b"], "z", {"equation": "ijk,ik->ji"})],
                {"x": random.integers(-2 ** 62, 2 ** 62, (3, 4, 20))},
                {"b": random.integers(-2 ** 62, 2 ** 62, (3, 20))})


def test_large_integers(folder):
    """Numbers that no double holds, where they are part of the program."""
    import numpy as np

    path = f"{folder}/large.onnx"
    for value in (2 ** 53 + 1, -2 ** 53 - 1, 7, 2 ** 63 - 1):
        of_integers(path, [("Pad", ["x", "pads", "v"], "z", {})], {"x": np.array([1, 2])},
                    {"pads": np.array([1, 2]), "v": np.array(value)})
    for start, limit, delta in ((2 ** 53 + 1, 2 ** 53 + 6, 2), (2 ** 62, 2 ** 62 + 5, 2),
                                (-2 ** 63, 2 ** 63 - 1, 2 ** 62), (5, -2 ** 63, -2 ** 63),
                                (3, 3, 1), (9, 3, 1), (9, 3, -2), (3, 9, -2)):
        of_integers(path, [("Range", ["a", "b", "c"], "r", {}), ("Add", ["r", "x"], "z", {})],
                    {"x": np.array([0])},
                    {"a": np.array(start), "b": np.array(limit), "c": np.array(delta)})


def test_integers_as_reals(folder):
    """Means, logarithms and shrinking of integers, cut to integers again."""
    import numpy as np

    path = f"{folder}/integers.onnx"
    for dtype in (np.int32, np.int64):
        x = np.array([[3, 4, 6, -20], [7, -9, 1, 0]], dtype)
        for axes in ([0], [1], [0, 1]):
            of_integers(path, [("ReduceMean", ["x"], "z", {"axes": axes})], {"x": x}, {}, 13)
        for op in ("ReduceLogSum", "ReduceLogSumExp"):
            of_integers(path, [(op, ["x"], "z", {"axes": [1]})], {"x": abs(x) + 1}, {}, 13)
        for attributes in ({"bias": 0.5}, {"bias": 1.0, "lambd": 2.5}, {"lambd": 1.5}):
            of_integers(path, [("Shrink", ["x"], "z", attributes)], {"x": x}, {}, 13)


def test_small_losses_of_large_scores(folder):
    """log(1 + e^-10), however large the scores are that are 10 apart."""
    import numpy as np

    for high in (10, 1000, 5000):
        path = f"{folder}/loss.onnx"
        x = np.array([[high, high - 10]], np.float32)
        of_nodes(path, [("SoftmaxCrossEntropyLoss", ["x", "y"], "z", {})], {"x": x},
                 {"y": np.zeros(1, np.int64)})
        found = float(ours(path, [x], folder)[0])
        assert abs(found - np.log1p(np.exp(-10))) < 1e-7, (high, found)


def test_most_inputs(folder):
    """What src/onnx/arity.c says is what ONNX's schemas say."""
    import re

    from onnx import defs

    source = pathlib.Path("src/onnx/arity.c").read_text()
    rows = re.findall(r"\{(\d+),\s+((?:\"[^\"]+\"\s*)+)\}", source)
    ours = {op: int(most) for most, ops in rows for op in re.findall(r"\w+", ops)}
    served = re.findall(r"PLB_ONNX_OP\((\w+),", pathlib.Path("src/onnx/ops.def").read_text())
    theirs = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.name in served:
            theirs[schema.name] = max(schema.max_input, theirs.get(schema.name, 0))
    assert len(rows) == 10 and len(theirs) > 150, (len(rows), len(theirs))
    for op, most in theirs.items():
        assert ours.get(op, 2 ** 31 - 1) == most, (op, ours.get(op), most)


def main():
    if sys.argv[1:] == ["run"]:
        return run(globals(), each=tempfile.TemporaryDirectory)
    python = os.environ.get("PLB_PYTHON", "")
    have = python and subprocess.run([python, "-c", "import numpy, onnx, onnxruntime, PIL"],
                                     check=False, stderr=subprocess.DEVNULL).returncode == 0
    absent = subprocess.run([PLUMB, "models", "none.onnx"], capture_output=True,
                            check=False).returncode == 3
    sanitized = os.environ.get("PLUMB_SANITIZE")
    if not have or absent or sanitized or not (DATA / "models").exists():
        print("no Python with onnx and onnxruntime (PLB_PYTHON), no models, no ONNX in this "
              "build, or a sanitizer")
        print("0 passed, 0 failed, 16 skipped")
        return 0
    return subprocess.run([python, __file__, "run"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
