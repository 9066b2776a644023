# SPDX-License-Identifier: Apache-2.0
"""openvino: OpenVINO on the processor, on a model that plumb wrote as an ONNX file.

One stream, one request in flight. Each batch has a request whose input and output tensors are
memory that is there, so that the calls of region `latency` copy nothing. Region `host` is the
ordinary call with numpy arrays, which copies inputs in and results out.
"""
import collections
import pathlib
import platform
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

import numpy as np  # noqa: E402
import openvino as ov  # noqa: E402

from plumb_stack import exports, worker  # noqa: E402
from plumb_stack.errors import Refused, one_line  # noqa: E402
from plumb_stack.shared import DTYPES  # noqa: E402
from plumb_stack.stack import Session, Stack, capabilities, refuse_layout  # noqa: E402

HINTS = {None: "f32", "bf16": "bf16", "f16": "f16"}
PRODUCTS = ("Convolution", "FullyConnected", "MatMul", "GroupConvolution")
NO_WORK = ("Input", "Output", "Const")


class OpenVinoSession(Session):
    def __init__(self, case, inputs, core):
        self.case = case
        self.inputs = inputs
        begin = time.perf_counter_ns()
        path = case.file or exports.cached(
            {"format": "onnx", "model": case.model, "weights": case.weights, "batch": case.batch,
             "size": case.size, "classes": case.classes})
        self.export_ns = time.perf_counter_ns() - begin
        self.spelling = []
        try:
            model = self.read(core, path)
        except RuntimeError as error:
            if not case.file:
                raise Refused("export", one_line(error)) from error
            model = self.read_rewritten(core, error)
        config = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
                  "INFERENCE_NUM_THREADS": case.threads,
                  "INFERENCE_PRECISION_HINT": HINTS[case.autocast]}
        if case.settings["pinning"] != "auto":
            config["ENABLE_CPU_PINNING"] = case.settings["pinning"] == "on"
        begin = time.perf_counter_ns()
        self.compiled_model = core.compile_model(model, "CPU", config)
        self.compile_ns = time.perf_counter_ns() - begin
        if any(o.element_type == ov.Type.bf16 for o in self.compiled_model.outputs):
            raise Refused("dtype", "outputs of bf16: numpy has no such type")
        self.x = [{name: np.empty(given.shape, DTYPES[given.dtype])
                   for name, given in case.inputs.items()} for _ in range(case.slots)]
        self.out = [[None if output.partial_shape.is_dynamic else
                     np.empty(list(output.shape), output.element_type.to_dtype())
                     for output in self.compiled_model.outputs] for _ in range(case.slots)]
        self.requests = [self.request(slot) for slot in range(case.slots)]
        self.take(range(case.slots))

    def read(self, core, path):
        model = core.read_model(path)
        if self.case.file:
            model.reshape({name: list(given.shape) for name, given in self.case.inputs.items()})
        return model

    def read_rewritten(self, core, error):
        """A file that OpenVINO does not take, as plumb writes it; else its own reason."""
        self.spelling = ["the file as plumb writes it, since: " + one_line(error)]
        try:
            return self.read(core, exports.rewritten(self.case))
        except (RuntimeError, Refused):
            raise Refused("model", one_line(error)) from error

    def request(self, slot):
        request = self.compiled_model.create_infer_request()
        for name, array in self.x[slot].items():
            request.set_tensor(name, ov.Tensor(array, shared_memory=True))
        for i, array in enumerate(self.out[slot]):
            if array is not None:
                request.set_output_tensor(i, ov.Tensor(array, shared_memory=True))
        return request

    def take(self, slots):
        for slot in slots:
            for name, given in self.case.inputs.items():
                self.x[slot][name][...] = self.inputs.array(given.dtype, given.shape,
                                                            given.offsets[slot])

    def calls(self, region):
        make = self.on_host if region == "host" else self.bound
        return [make(slot) for slot in range(self.case.slots)]

    def bound(self, slot):
        request = self.requests[slot]
        infer = request.infer

        def call():
            infer(share_outputs=True)
            return request
        return call

    def on_host(self, slot):
        # A request of its own: its tensors belong to the library.
        infer, x = self.compiled_model.create_infer_request().infer, self.x[slot]
        return lambda: infer(x)

    def results(self, out):
        if isinstance(out, ov.InferRequest):
            found = [out.get_output_tensor(i).data for i in range(len(out.model_outputs))]
        else:
            found = [out[i] for i in range(len(self.compiled_model.outputs))]
        return {f"output.{i}" if self.case.file else "output": v for i, v in enumerate(found)}

    def ran(self):
        operations = [op.get_rt_info() for op in self.compiled_model.get_runtime_model().get_ops()]
        text = [{key: self.text(info, key) for key in ("layerType", "runtimePrecision",
                                                       "outputLayouts")} for info in operations]
        work = [op for op in text if op["layerType"] not in NO_WORK]
        products = [op for op in work if op["layerType"] in PRODUCTS]
        precision = collections.Counter(op["runtimePrecision"] for op in products).most_common(1)
        precision = precision[0][0] if precision else None
        get = self.compiled_model.get_property
        layouts = collections.Counter(op["outputLayouts"] for op in products
                                      if op["layerType"] != "FullyConnected").most_common(1)
        layout = {"acdb": "nhwc", "abcd": "nchw"}.get(layouts[0][0], layouts[0][0]
                                                      ) if layouts else None
        return {"threads": {"inference": int(get("INFERENCE_NUM_THREADS"))},
                "devices": [{"device": name.lower(), "nodes": len(work)}
                            for name in get("EXECUTION_DEVICES")],
                "dtype": "f32", "math": "f32",
                "autocast": precision if precision in ("bf16", "f16") else None,
                "layout": layout, "training": False, "graphs": None, "breaks": None,
                "recompiles": None, "fallbacks": self.spelling,
                "settings": self.settings(get)}

    def settings(self, get):
        """As they are; `pinned` is what the library made of "auto"."""
        pinned, asked = get("ENABLE_CPU_PINNING"), self.case.settings["pinning"]
        return {"pinning": asked if asked == "auto" else "on" if pinned else "off",
                "pinned": bool(pinned), "streams": int(get("NUM_STREAMS"))}

    @staticmethod
    def text(info, key):
        value = info[key] if key in info else ""
        return value if isinstance(value, str) else value.astype(str)


class OpenVino(Stack):
    name = "openvino"
    out_of_memory_words = ("Failed to allocate", "bad_alloc")

    def __init__(self):
        self.core = ov.Core()

    def versions(self):
        return {"openvino": ov.__version__, "python": platform.python_version()}

    def capabilities(self):
        able = self.core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        mixed = [name for name, there in (("bf16", "BF16"), ("f16", "FP16")) if there in able]
        return capabilities(files=["onnx"], autocast=mixed,
                            settings={"pinning": ["auto", "on", "off"]})

    def load(self, case, inputs):
        refuse_layout(case, ["default"])
        return OpenVinoSession(case, inputs, self.core)


if __name__ == "__main__":
    worker.run(OpenVino())
