# SPDX-License-Identifier: Apache-2.0
"""torch-compile: the model through Dynamo and Inductor; loss and optimizer run eagerly.

Shapes are static. Where the compiler would give up and quietly run eager code, it fails instead.
"""
import collections

import torch
import torch._dynamo
import torch._inductor.config
from torch._dynamo import convert_frame
from torch._dynamo.utils import calculate_time_spent, counters

from plumb_stack.errors import Refused
from session import TorchSession, TorchStack


class CompileSession(TorchSession):
    def prepare(self):
        settings = self.case.settings
        if settings["freezing"] and self.case.training:
            raise Refused("settings", "freezing is for inference")
        torch._dynamo.reset()
        counters.clear()
        torch._dynamo.config.fail_on_recompile_limit_hit = True
        torch._dynamo.config.suppress_errors = False
        torch._inductor.config.freezing = settings["freezing"]
        torch._inductor.config.force_disable_caches = not settings["cache"]
        # The settings are the model's own, or it would find the ones of the last load.
        mode = None if settings["mode"] == "default" else settings["mode"]
        return torch.compile(self.model, mode=mode, dynamic=False)

    def nodes(self):
        """Of parameters: the operators of a pass that is not compiled are not those that run."""
        where = collections.Counter(str(weight.device) for weight in self.weights())
        return [{"device": device, "nodes": n} for device, n in where.items()]

    def compiled(self):
        seconds = calculate_time_spent().get("total_wall_time", 0)
        return int(seconds * 1e9), counters["stats"]["unique_graphs"]

    def compilers(self):
        breaks = sum(counters["graph_break"].values())
        frames = counters["frames"]
        fallbacks = [f"graph break: {reason}" for reason in counters["graph_break"]]
        fallbacks += [f"not compiled: {frames['total'] - frames['ok']} of {frames['total']} frames"
                      ] if frames["total"] != frames["ok"] else []
        if counters["inductor"]["cudagraph_skips"]:
            fallbacks.append(f"{counters['inductor']['cudagraph_skips']} graphs without a CUDA "
                             f"graph")
        # Of every frame the compilations after its first: a break may leave one graph or two, and
        # is met again in each.
        again = sum(n - 1 for n in convert_frame.FRAME_COMPILE_COUNTER.values())
        return {"graphs": counters["stats"]["unique_graphs"], "breaks": breaks,
                "recompiles": again, "fallbacks": fallbacks,
                "compile_cache": {"hits": counters["inductor"]["fxgraph_cache_hit"],
                                  "misses": counters["inductor"]["fxgraph_cache_miss"]}}


class Compile(TorchStack):
    name = "torch-compile"
    session = CompileSession

    def settings(self):
        return {**super().settings(), "mode": ["default", "reduce-overhead", "max-autotune"],
                "freezing": [False, True], "cache": [True, False]}
