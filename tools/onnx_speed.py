# SPDX-License-Identifier: Apache-2.0
"""Times ONNX files in Plumb and in ONNX Runtime on the CPU, in turns, and prints the ratios.

    python tools/onnx_speed.py [--threads N] [--seconds S] [--rounds R] [--cpu] [MODEL[:BATCH] ...]

MODEL: mnist, super-resolution, ultraface and silero-vad are the trained networks of
PLUMB_TEST_DATA; resnet50 is torchvision's, exported; bert is the encoder of BERT-base at length
128, exported from transformers where that is installed, else from PyTorch's own encoder layers;
resnet50-int8 is what ONNX Runtime's quantiser makes of resnet50 (QDQ, u8 activations, s8 weights
for each channel). All weights of those three are random. Without arguments: all, at batch 1.

Both run a file of f32 on their own; inputs lie where the run time wants them. With --cpu, times
are the processor's, of all threads, which other work on the machine disturbs least; one thread
then tells most. Needs a Python with onnx and onnxruntime, torch and torchvision for the last
three, and build/plumb_bench (PLUMB_BUILD: another folder).
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import peers_cpu

DATA = pathlib.Path(os.environ.get("PLUMB_TEST_DATA", "../shared/data"))
CACHE = pathlib.Path(os.environ.get("PLUMB_ONNX_MODELS", tempfile.gettempdir() + "/plumb-onnx"))
GIVEN = {"mnist": "mnist.onnx", "super-resolution": "super-resolution.onnx",
         "ultraface": "ultraface-rfb-320.onnx", "silero-vad": "silero-vad-16k-op15.onnx"}
MADE = ("resnet50", "bert", "resnet50-int8")
NUMBERS = {"silero-vad": {"sr": 16000, "sequence": 512}, "bert": {"attention_mask": 1}}
LENGTH = 128


# ---------------------------------------------------------------------------- making models
def plain_bert():
    """The encoder of BERT-base in PyTorch's own layers: post-norm, GELU, learned positions."""
    import torch

    class Bert(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(30522, 768)
            self.places = torch.nn.Embedding(512, 768)
            self.norm = torch.nn.LayerNorm(768, 1e-12)
            self.layers = torch.nn.ModuleList(
                torch.nn.TransformerEncoderLayer(768, 12, 3072, 0.0, "gelu", 1e-12, True)
                for _ in range(12))

        def forward(self, input_ids, attention_mask):
            places = torch.arange(input_ids.shape[1], device=input_ids.device)
            x = self.norm(self.words(input_ids) + self.places(places))
            for layer in self.layers:
                x = layer(x, src_key_padding_mask=attention_mask == 0)
            return x
    return Bert()


def bert_model():
    try:
        import transformers
    except ImportError:
        return plain_bert()
    return transformers.BertModel(transformers.BertConfig(), add_pooling_layer=False)


def make_bert(path):
    import torch

    class Wrapped(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, input_ids, attention_mask):
            y = self.inner(input_ids, attention_mask)
            return y if isinstance(y, torch.Tensor) else y[0]

    torch.manual_seed(0)
    model = Wrapped(bert_model()).eval()
    ids = torch.ones(2, LENGTH, dtype=torch.int64)
    # Traced in training mode, PyTorch's layers export what they compute, not one op of their own.
    torch.backends.mha.set_fastpath_enabled(False)
    torch.onnx.export(model, (ids, ids), path, input_names=["input_ids", "attention_mask"],
                      output_names=["y"], dynamo=False, opset_version=17,
                      dynamic_axes={k: {0: "batch"} for k in ("input_ids", "attention_mask", "y")})


def make_int8(path):
    import numpy
    from onnxruntime import quantization
    import onnxruntime.quantization.shape_inference  # noqa: F401, it is not in the package's own

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = 4
            self.random = numpy.random.default_rng(0)

        def get_next(self):
            self.left -= 1
            if self.left < 0:
                return None
            return {"x": self.random.standard_normal((1, 3, 224, 224)).astype(numpy.float32)}

    plain = path + ".plain"
    quantization.shape_inference.quant_pre_process(model_file("resnet50"), plain,
                                                   skip_symbolic_shape=True)
    quantization.quantize_static(
        plain, path, Reader(), per_channel=True,
        quant_format=quantization.QuantFormat.QDQ,
        activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8)
    os.unlink(plain)


def model_file(name):
    if name in GIVEN:
        return str(DATA / "models" / GIVEN[name])
    if name == "resnet50":
        return peers_cpu.onnx_file("resnet50")
    if name not in MADE:
        return name  # a path
    CACHE.mkdir(parents=True, exist_ok=True)
    return peers_cpu.made_once(str(CACHE / f"{name}.onnx"),
                               {"bert": make_bert, "resnet50-int8": make_int8}[name])


# ---------------------------------------------------------------------------- ONNX Runtime
def inputs_of(session, name, batch):
    import numpy
    random = numpy.random.default_rng(0)
    given = {i.name for i in session.get_overridable_initializers()}
    numbers = NUMBERS.get(name, {})
    for i in session.get_inputs():
        if i.name in given:
            continue
        shape = [d if isinstance(d, int) else numbers.get(d, batch) for d in i.shape]
        if "int" in i.type:
            yield i.name, numpy.full(shape, numbers.get(i.name, 0), numpy.int64)
        else:
            yield i.name, random.standard_normal(shape).astype(numpy.float32)


def run_onnxruntime(name, batch, threads):
    import onnxruntime
    import onnx_old
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    path = model_file(name)
    model = onnx_old.modernised(path) if name == "super-resolution" else path
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    binding = session.io_binding()
    for key, value in inputs_of(session, name, batch):
        binding.bind_cpu_input(key, value)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return lambda: session.run_with_iobinding(binding)


def time_onnxruntime(name, batch, threads, seconds):
    command = [sys.executable, __file__, "--worker", "--threads", str(threads), "--seconds",
               str(seconds), f"{name}:{batch}"]
    out = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


# ---------------------------------------------------------------------------- Plumb
def time_plumb(name, batch, threads, seconds):
    bench = os.path.join(os.environ.get("PLUMB_BUILD", "build"), "plumb_bench")
    numbers = [f"--set={k}={v}".split("=", 1) for k, v in NUMBERS.get(name, {}).items()]
    case = f"{model_file(name)}:infer:plan:{batch}:{threads}"
    command = [bench, "--seconds", str(seconds), *(word for pair in numbers for word in pair), case]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)


def compare(case, arguments):
    name, _, batch = case.partition(":")
    how = (name, int(batch or 1), arguments.threads, arguments.seconds)
    key = "cpu_ms" if arguments.cpu else "median_ms"
    ours, theirs = [], []
    model_file(name) # made outside of all times
    for _ in range(arguments.rounds):
        ours.append(time_plumb(*how)[key])
        theirs.append(time_onnxruntime(*how)[key])
    least = min if arguments.cpu else statistics.median
    return least(ours), least(theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("cases", nargs="*", metavar="MODEL[:BATCH]")
    arguments = parser.parse_args()
    if arguments.worker:
        name, batch = arguments.cases[0].rsplit(":", 1)
        run = run_onnxruntime(name, int(batch), arguments.threads)
        print(json.dumps(peers_cpu.sample(run, arguments.seconds, 5)))
        return
    wrong = [case for case in arguments.cases if not re.fullmatch(r"[^:]+(:[1-9]\d*)?", case)]
    if wrong:
        parser.error(f"{', '.join(wrong)}: expected MODEL[:BATCH]")
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: expected 1 or more")
    what = "ms of the processor" if arguments.cpu else "ms"
    for case in arguments.cases or [*GIVEN, *MADE]:
        try:
            ours, theirs = compare(case, arguments)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"onnx_speed: {case}: {error}")
        print(f"{case} threads {arguments.threads}: plumb {ours:.3f} onnxruntime {theirs:.3f} "
              f"{what}; ratio {ours / theirs:.2f}", flush=True)


if __name__ == "__main__":
    main()
