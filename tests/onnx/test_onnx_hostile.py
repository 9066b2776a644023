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
    "transposed_shape": "node y (ConvTranspose): 1 output extents, 0 output pads of 2 axes",
    "transposed_pad": "node y (ConvTranspose): output_padding: expected 0 to 1073741824",
    "wide_kernel": "node y (Conv): extents of the kernel: expected 0 to 1073741824",
    "col2im_block": "node y (Col2Im): extents of the kernel: expected 0 to 1073741824",
    "unpool_kernel": "node y (MaxUnpool): shape [1, 1, 1073741825, 1073741825, 1073741825] is too",
    "block_size": "node y (DequantizeLinear): blocks of 4611686018427387904",
    "affine_size": "node y (AffineGrid): size: expected 1 to 1073741824",
    "cumsum_axis": "node y (CumSum): input 1: expected -2 to 1",
    "mel_bins": "node y (MelWeightMatrix): 4.61169e+18 bins of 16 points",
    "dft_last": "node y (DFT): expected 1 or 2 numbers in the last axis, found 3",
    "stft_last": "node y (STFT): expected 1 or 2 numbers in the last axis, found 3",
    "dft_bool": "node y (DFT): infer: y: mul: expected numbers, found bool",
    "attribute_nameless": "node Y (RoiAlign): attribute  stands for ",
    "attention_alone": "node ? (Attention): input 1 is missing",
    "one_hot_depth": "node y (OneHot): input 1: expected 0 to 1073741824, found nan",
    "gather_batch": "node y (GatherND): indices of 1 axes into a value of rank 2",
    "einsum_diagonal": "node y (Einsum): infer: y: one label for extents 3 and 5",
    "resize_nothing": "node y (Resize): 5 elements of none",
    "resize_huge": "node y (Resize): 800000000 elements along an axis: too many",
    "deform_taps": "node y (DeformConv): shape [4, 2147483651, 2147483651] is too large",
    "clip_nothing": "node y (Clip): infer: y: reshape: [0] and [] have different counts",
    "old_axis": "node y (Add): broadcast from axis 9223372036854775807 does not fit",
    "if_nothing": "node y (If): input 0: expected one value, found 0",
    "depth_overflow": "node y (DepthToSpace): extents: expected 0 to 1073741824",
    "two_open": "node y (Reshape): extents 0 and 1 are both -1",
    "crop_axes": "node y (CenterCropPad): 2 extents of 1 axes",
    "lp_norm": "node y (LpNormalization): p: expected 1 or 2, found 3",
    "missing": "node y (Add): 'nothing' is no input",
    "recursive": "node y (Again): node q (Again): the function calls itself",
    "escape": "external data ../../etc/passwd: a path that leaves the model's folder",
    "huge": "tensor w: expected 4398046511104 bytes of values, found 4",
    "wrong_size": "tensor w: expected 16 bytes of values, found 8",
    "wrong_dtype": "node y (Add): ",
    "attribute_int": "attribute alpha: expected a float, found an int",
    "attribute_float": "attribute axis: expected an int, found a float",
    "attribute_ints": "node y (Transpose): attribute perm: expected ints, found an int",
    "more_inputs": "node y (Relu): expected at most 1 input, found 2",
    "while_rows": "node y (Loop): rows are kept of a loop whose most trips are not known",
    "einsum_label": "node y (Einsum): the output's label k is no input's",
    "sequence_lens": "node y (LSTM): sequence_lens: expected 0 to 2 steps, found 99",
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
