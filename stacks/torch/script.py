# SPDX-License-Identifier: Apache-2.0
"""torch-script: traced and frozen for inference, scripted for training; or a TorchScript file.

Tracing needs one pass over values that nobody uses: zeros, never a batch of the case.
"""
import contextlib
import time
import warnings

import torch

from plumb_stack.errors import Refused, one_line
from session import TorchSession, TorchStack

warnings.filterwarnings("ignore", category=FutureWarning)  # That TorchScript is an old way.
warnings.filterwarnings("ignore", category=DeprecationWarning)


def check_ends(frozen):
    """One tensor in, one tensor out: what is timed is told nothing else of a file."""
    given = list(frozen.graph.inputs())[1:]  # behind the module itself
    returned = [value.type().kind() for value in frozen.graph.outputs()]
    if len(given) != 1 or returned != ["TensorType"]:
        raise Refused("model", f"forward takes {len(given)} values and returns "
                               f"{', '.join(returned) or 'nothing'}: expected one tensor each")


class ScriptSession(TorchSession):
    def make(self):
        if not self.case.file:
            super().make()
        elif self.case.training:
            raise Refused("task", "a file is only inferred")

    def prepare(self):
        begin = time.perf_counter_ns()
        try:
            run = (self.scripted() if self.case.training else
                   self.loaded() if self.case.file else self.frozen())
        except (RuntimeError, NotImplementedError, ValueError,
                torch.jit.frontend.NotSupportedError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            if self.case.file:
                raise Refused("model", f"{self.case.file}: {one_line(error)}") from error
            raise Refused("script", one_line(error)) from error
        self.compile_ns = time.perf_counter_ns() - begin
        return run

    def scripted(self):
        # From now on all talk to the scripted module; its parameters are the model's own.
        self.model = torch.jit.script(self.model)
        return self.model

    def loaded(self):
        """The file's module, frozen as a traced one is."""
        module = torch.jit.load(self.case.file, map_location=self.device)
        module.eval()
        module.to(dtype=self.dtype)
        frozen = torch.jit.freeze(module) if hasattr(module, "training") else module
        check_ends(frozen)
        if self.case.settings["optimize_for_inference"]:
            frozen = torch.jit.optimize_for_inference(frozen)
        return frozen

    def frozen(self):
        mixed = (torch.autocast(self.device.type, dtype=self.autocast, cache_enabled=False)
                 if self.autocast else contextlib.nullcontext())
        with torch.no_grad(), mixed:
            traced = torch.jit.trace(self.model, torch.zeros_like(self.x[0]), check_trace=False)
            frozen = torch.jit.freeze(traced)
            if self.case.settings["optimize_for_inference"]:
                frozen = torch.jit.optimize_for_inference(frozen)
        self.model = None  # The weights are the frozen module's constants: no second copy.
        return frozen

    def forward(self):
        # Casts are operators of the trace.
        return super().forward() if self.case.training else self.run

    def evidence_model(self):
        return self.model if self.case.training else self.run

    def weights(self):
        if self.case.training:
            return super().weights()
        graph = self.run.inlined_graph  # Its nodes live as long as it does.
        constants = [node.t("value") for node in graph.findAllNodes("prim::Constant")
                     if node.hasAttribute("value") and node.kindOf("value") == "t"]
        return [tensor for tensor in constants if tensor.dim() and tensor.is_floating_point()]


class Script(TorchStack):
    name = "torch-script"
    files = ["torchscript"]
    session = ScriptSession

    def settings(self):
        return {**super().settings(), "optimize_for_inference": [False, True]}
