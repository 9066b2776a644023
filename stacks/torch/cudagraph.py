# SPDX-License-Identifier: Apache-2.0
"""torch-cudagraph: a whole iteration captured as one CUDA graph, and replayed.

A graph reads its inputs where they lay when it was captured. So there is one graph for every batch,
reading that batch in place: an iteration copies nothing. The graphs share one pool of memory, in
which the temporaries of one may lie where another's gradients do: whoever wants the gradients of a
replay reads them before the next one.
"""
import contextlib
import time

import torch

from plumb_stack.errors import Refused
from session import TorchSession, TorchStack, to_numpy

WARM_UP = 3  # Libraries choose and allocate in the first calls, which cannot be captured.


class Place:
    """Where a tensor lies, without owning the memory, which other graphs use as well."""

    def __init__(self, tensor):
        storage = tensor.untyped_storage()
        self.view = tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()
        self.__cuda_array_interface__ = {"shape": (storage.nbytes(),), "typestr": "|u1",
                                         "data": (storage.data_ptr(), False), "version": 3}

    def tensor(self, device):
        dtype, *strided = self.view
        return torch.as_tensor(self, device=device).view(dtype).as_strided(*strided)


class CudaGraphSession(TorchSession):
    def prepare(self):
        """Captures all graphs, on batches of zeros; the real ones come after."""
        begin = time.perf_counter_ns()
        self.run = self.model
        self.gradient_places = []
        for batch in self.x + self.y:
            batch.zero_()
        pool = torch.cuda.graph_pool_handle()
        self.replays = [self.capture(slot, pool) for slot in range(self.case.slots)]
        self.reset()
        torch.cuda.synchronize()
        self.compile_ns = time.perf_counter_ns() - begin
        return self.model

    def capture(self, slot, pool):
        """A function that replays the iteration of a slot and returns what it leaves."""
        once = self.iteration(slot)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), self.recording():
            for _ in range(WARM_UP):
                once()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        if self.optimizer:
            self.optimizer.zero_grad(set_to_none=True)
        with self.recording(), torch.cuda.graph(graph, pool=pool):
            out = once()
        if self.optimizer:
            out = out[0].detach(), out[1].detach()
            self.gradient_places.append({name: Place(p.grad)
                                         for name, p in self.model.named_parameters()
                                         if p.grad is not None})
            self.optimizer.zero_grad(set_to_none=True)

        def replay():
            graph.replay()
            return out
        return replay

    def iteration(self, slot):
        x = self.x[slot]
        if not self.case.training:
            forward = self.forward()
            return lambda: forward(x)
        y, step = self.y[slot], self.step()
        return lambda: step(x, y)

    def recording(self):
        return contextlib.nullcontext() if self.case.training else torch.no_grad()

    def reset(self):
        """In place: the graphs know the addresses."""
        if not self.case.training:
            return
        self.read_weights()
        for state in self.optimizer.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    value.zero_()

    def gradients(self, slot):
        return {f"grad.{name}": to_numpy(place.tensor(self.device))
                for name, place in self.gradient_places[slot].items()}

    def infer_resident(self, slot):
        return self.replays[slot]

    train_resident = infer_resident

    def infer_host(self, slot):
        x, replay = self.x[slot], self.replays[slot]
        (host,) = self.on_host(slot)

        def call():
            x.copy_(host)
            return replay().cpu()
        return call

    def train_host(self, slot):
        x, y, replay = self.x[slot], self.y[slot], self.replays[slot]
        host_x, host_y = self.on_host(slot)

        def call():
            x.copy_(host_x)
            y.copy_(host_y)
            loss, out = replay()
            return loss.cpu(), out.cpu()
        return call

    def stage(self, slot, rows, train):
        """Whole batches lie where the graph reads them; an epoch's last one has another shape."""
        if not train or rows < self.case.batch:
            return super().stage(slot, rows, train)
        self.x[slot].copy_(self.given("x", slot))
        self.y[slot].copy_(self.given("y", slot))
        return self.x[slot], self.y[slot]

    def stream(self, x, y, slot, train):
        """By replay, or eagerly where the shape is another one."""
        if x is self.x[slot]:
            return self.replays[slot]()
        return super().stream(x, y, slot, train)

    def compilers(self):
        return {"graphs": len(self.replays), "breaks": 0, "recompiles": 0, "fallbacks": []}


class CudaGraph(TorchStack):
    name = "torch-cudagraph"
    session = CudaGraphSession

    def devices(self):
        return [device for device in super().devices() if device != "cpu"]

    def load(self, case, inputs):
        if case.optimizer.get("dampening") and case.training:
            raise Refused("settings", "the first step, which ignores dampening, is the same graph")
        return super().load(case, inputs)
