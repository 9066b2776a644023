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
from plumb_stack.stack import Session, Stack, capabilities, refuse_layout  # noqa: E402

HINTS = {None: "f32", "bf16": "bf16", "f16": "f16"}
PRODUCTS = ("Convolution", "FullyConnected", "MatMul", "GroupConvolution")
NO_WORK = ("Input", "Output", "Const")


class OpenVinoSession(Session):
    def __init__(self, case, inputs, core):
        self.case = case
        self.inputs = inputs
        begin = time.perf_counter_ns()
        path = exports.cached({"format": "onnx", "model": case.model, "weights": case.weights,
                               "batch": case.batch, "size": case.size, "classes": case.classes})
        self.export_ns = time.perf_counter_ns() - begin
        try:
            model = core.read_model(path)
        except RuntimeError as error:
            raise Refused("export", one_line(error)) from error
        config = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
                  "INFERENCE_NUM_THREADS": case.threads,
                  "INFERENCE_PRECISION_HINT": HINTS[case.autocast]}
        if case.settings["pinning"] != "auto":
            config["ENABLE_CPU_PINNING"] = case.settings["pinning"] == "on"
        begin = time.perf_counter_ns()
        self.compiled_model = core.compile_model(model, "CPU", config)
        self.compile_ns = time.perf_counter_ns() - begin
        self.x = [np.empty(case.inputs["x"].shape, np.float32) for _ in range(case.slots)]
        shape = list(self.compiled_model.output(0).shape)
        self.out = [np.empty(shape, np.float32) for _ in range(case.slots)]
        self.requests = [self.request(slot) for slot in range(case.slots)]
        self.take(range(case.slots))

    def request(self, slot):
        request = self.compiled_model.create_infer_request()
        request.set_input_tensor(ov.Tensor(self.x[slot], shared_memory=True))
        request.set_output_tensor(ov.Tensor(self.out[slot], shared_memory=True))
        return request

    def take(self, slots):
        given = self.case.inputs["x"]
        for slot in slots:
            self.x[slot][...] = self.inputs.array(given.dtype, given.shape, given.offsets[slot])

    def calls(self, region):
        make = self.on_host if region == "host" else self.bound
        return [make(slot) for slot in range(self.case.slots)]

    def bound(self, slot):
        infer, out = self.requests[slot].infer, self.out[slot]

        def call():
            infer(share_outputs=True)
            return out
        return call

    def on_host(self, slot):
        # A request of its own: its tensors belong to the library.
        infer, x = self.compiled_model.create_infer_request().infer, self.x[slot]
        return lambda: infer({0: x})[0]

    def results(self, out):
        return {"output": out}

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
                "recompiles": None, "fallbacks": [],
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

    def __init__(self):
        self.core = ov.Core()

    def versions(self):
        return {"openvino": ov.__version__, "python": platform.python_version()}

    def capabilities(self):
        able = self.core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        mixed = [name for name, there in (("bf16", "BF16"), ("f16", "FP16")) if there in able]
        return capabilities(autocast=mixed, settings={"pinning": ["auto", "on", "off"]})

    def load(self, case, inputs):
        refuse_layout(case, ["default"])
        return OpenVinoSession(case, inputs, self.core)


if __name__ == "__main__":
    worker.run(OpenVino())
