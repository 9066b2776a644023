# SPDX-License-Identifier: Apache-2.0
"""onnxruntime: ONNX Runtime on a model that plumb wrote as an ONNX file.

Inputs and outputs are bound once, to memory that is there: the calls of region `latency` copy
nothing and allocate nothing of their own. Region `host` is the ordinary call with numpy arrays.
"""
import pathlib
import platform
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

import numpy as np  # noqa: E402
import onnxruntime as ort  # noqa: E402

from plumb_stack import exports, worker  # noqa: E402
from plumb_stack.errors import Refused, one_line  # noqa: E402
from plumb_stack.shared import DTYPES  # noqa: E402
from plumb_stack.stack import Session, Stack, capabilities, refuse_layout  # noqa: E402

NUMPY = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
         "tensor(int8)": np.int8, "tensor(int16)": np.int16, "tensor(int32)": np.int32,
         "tensor(int64)": np.int64, "tensor(uint8)": np.uint8, "tensor(uint16)": np.uint16,
         "tensor(uint32)": np.uint32, "tensor(uint64)": np.uint64, "tensor(bool)": np.bool_}
LEVELS = {"all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
          "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
          "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
          "none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL}


class OrtSession(Session):
    def __init__(self, case, inputs):
        self.case = case
        self.inputs = inputs
        begin = time.perf_counter_ns()
        path = case.file or exports.cached(
            {"format": "onnx", "model": case.model, "weights": case.weights, "batch": case.batch,
             "size": case.size, "classes": case.classes})
        self.export_ns = time.perf_counter_ns() - begin
        self.options = self.make_options()
        self.spelling = []
        try:
            self.session = self.open(path)
        except Exception as error:
            if OnnxRuntime().is_out_of_memory(error):
                raise
            if case.file:
                self.session = self.open_rewritten(error)
            elif "NOT_IMPLEMENTED" in str(error) or "NotImplemented" in type(error).__name__:
                raise Refused("export", one_line(error)) from error
            else:
                raise
        for output in self.session.get_outputs():
            if output.type not in NUMPY:
                raise Refused("dtype", f"output {output.name}: {output.type}: numpy has no such "
                                       "type")
        self.device = case.device.partition(":")[0]
        self.index = int(case.device.partition(":")[2] or 0)
        self.numpy = [{} for _ in range(case.slots)]
        self.x = [{given.name: self.value(given.shape, DTYPES[given.dtype])
                   for given in case.inputs.values()} for _ in range(case.slots)]
        self.bindings = [self.bind(slot) for slot in range(case.slots)]
        self.take(range(case.slots))

    def open(self, path):
        return ort.InferenceSession(path, self.options, providers=self.providers())

    def open_rewritten(self, error):
        """A file that ONNX Runtime does not take, as plumb writes it; else its own reason."""
        self.spelling = ["the file as plumb writes it, since: " + one_line(error)]
        try:
            return self.open(exports.rewritten(self.case))
        except Exception:
            raise Refused("model", one_line(error)) from error

    def make_options(self):
        options = ort.SessionOptions()
        options.intra_op_num_threads = self.case.threads
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = LEVELS[self.case.settings["optimization"]]
        options.log_severity_level = 2
        options.add_session_config_entry("session.intra_op.allow_spinning",
                                         "1" if self.case.settings["spinning"] else "0")
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        return options

    def providers(self):
        if self.case.device == "cpu":
            return ["CPUExecutionProvider"]
        index = self.case.device.partition(":")[2] or "0"
        return [("CUDAExecutionProvider",
                 {"device_id": index, "use_tf32": "1" if self.case.math == "tf32" else "0"}),
                "CPUExecutionProvider"]

    def value(self, shape, dtype):
        return ort.OrtValue.ortvalue_from_shape_and_type(list(shape), dtype, self.device,
                                                         self.index)

    def bind(self, slot):
        """Outputs whose extents the file leaves open are the library's to allocate."""
        binding = self.session.io_binding()
        for name, value in self.x[slot].items():
            binding.bind_ortvalue_input(name, value)
        for output in self.session.get_outputs():
            if all(isinstance(extent, int) for extent in output.shape):
                binding.bind_ortvalue_output(
                    output.name, self.value(output.shape, NUMPY[output.type]))
            else:
                binding.bind_output(output.name, self.device, self.index)
        return binding

    def take(self, slots):
        for slot in slots:
            for given in self.case.inputs.values():
                array = self.inputs.array(given.dtype, given.shape, given.offsets[slot])
                # Ordinary memory of the process, as a user's arrays are.
                array = array.astype(DTYPES[given.dtype], copy=True)
                self.numpy[slot][given.name] = array
                self.x[slot][given.name].update_inplace(array)

    def calls(self, region):
        make = self.on_host if region == "host" else self.bound
        return [make(slot) for slot in range(self.case.slots)]

    def bound(self, slot):
        run, binding = self.session.run_with_iobinding, self.bindings[slot]

        def call():
            run(binding)
            return binding
        return call

    def on_host(self, slot):
        run, feed = self.session.run, self.numpy[slot]
        return lambda: run(None, feed)

    def results(self, out):
        found = out if isinstance(out, list) else [v.numpy() for v in out.get_outputs()]
        return {f"output.{i}" if self.case.file else "output": v for i, v in enumerate(found)}

    def nodes(self):
        """{provider: number of nodes}, from the session's own record; None: it keeps none."""
        try:
            parts = self.session.get_provider_graph_assignment_info()
        except (AttributeError, RuntimeError):
            return None
        nodes = {}
        for part in parts:
            nodes[part.ep_name] = nodes.get(part.ep_name, 0) + len(part.get_nodes())
        return nodes

    def ran(self):
        active, asked = self.session.get_providers(), self.case.device
        nodes, fallbacks = self.nodes(), list(self.spelling)
        if asked != "cpu" and "CUDAExecutionProvider" not in active:
            fallbacks.append("CUDAExecutionProvider could not be loaded")
        if nodes and asked != "cpu" and nodes.get("CPUExecutionProvider"):
            fallbacks.append(f"{nodes['CPUExecutionProvider']} nodes on CPUExecutionProvider")
        if nodes is None:
            nodes = {active[0]: None}
        where = {"CPUExecutionProvider": "cpu", "CUDAExecutionProvider": asked}
        options = self.session.get_session_options()
        return {"threads": {"intra": options.intra_op_num_threads,
                            "inter": options.inter_op_num_threads},
                "devices": [{"device": where.get(name, name), "nodes": count}
                            for name, count in nodes.items()],
                "dtype": self.element_type(), "math": self.case.math, "autocast": None,
                "layout": None, "training": False, "graphs": None, "breaks": None,
                "recompiles": None, "fallbacks": fallbacks,
                "settings": {**self.case.settings, "spinning": options.get_session_config_entry(
                    "session.intra_op.allow_spinning") == "1"}}

    def element_type(self):
        if self.case.file:  # in the types that it has
            return self.case.dtype
        kinds = {part.type for part in self.session.get_inputs() + self.session.get_outputs()}
        return "f32" if kinds == {"tensor(float)"} else None


class OnnxRuntime(Stack):
    name = "onnxruntime"
    out_of_memory_words = ("Failed to allocate memory", "bad_alloc", "out of memory",
                           "STATUS_ALLOC_FAILED")

    def versions(self):
        return {"onnxruntime": ort.__version__, "python": platform.python_version()}

    def capabilities(self):
        cuda = "CUDAExecutionProvider" in ort.get_available_providers()
        return capabilities(files=["onnx"], devices=["cpu"] + (["cuda", "cuda:0"] if cuda else []),
                            math=["f32", "tf32"] if cuda else ["f32"],
                            settings={"optimization": list(LEVELS), "spinning": [True, False]})

    def load(self, case, inputs):
        if case.math == "tf32" and case.device == "cpu":
            raise Refused("math", "the processor has no tf32")
        refuse_layout(case, ["default", "nchw"])
        return OrtSession(case, inputs)


if __name__ == "__main__":
    worker.run(OnnxRuntime())
