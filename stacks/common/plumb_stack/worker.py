# SPDX-License-Identifier: Apache-2.0
"""The worker around a stack: answers requests until the caller goes."""
import errno
import math
import os
import sys
import time
import traceback

import numpy as np

from . import measure, process
from .case import parse, take, take_count, take_list
from .channel import Channel
from .errors import Cancelled, DiskFull, Invalid, OutOfMemory, RequestError, Unsupported, one_line
from .shared import Inputs, Outputs

PROTOCOL = 1


class Worker:
    def __init__(self, stack, channel, inputs, outputs):
        self.stack = stack
        self.channel = channel
        self.inputs = inputs
        self.outputs = outputs
        self.capabilities = None
        self.libraries_rss_bytes = None
        self.case = None
        self.session = None
        self.thread_count = process.ThreadCount()
        self.epoch_step = None
        self.arrived_ns = 0

    # Requests, by type.

    def hello(self, request):
        if take(request, "protocol", int) != PROTOCOL:
            raise Unsupported(f"protocol {request['protocol']}: this worker speaks {PROTOCOL}")
        self.capabilities = self.stack.capabilities()
        answer = {"stack": self.stack.name, "versions": self.stack.versions(),
                  "capabilities": self.capabilities}
        self.libraries_rss_bytes = process.resident_bytes()
        return answer

    def load(self, request):
        if self.capabilities is None:
            self.capabilities = self.stack.capabilities()
        self.session = self.case = self.epoch_step = None
        case = parse(request, self.capabilities)
        for given in case.inputs.values():
            for offset in given.offsets:  # Before anybody makes room for what is not there.
                self.inputs.array(given.dtype, given.shape, offset)
        session = self.stack.load(case, self.inputs)
        self.case, self.session = case, session
        self.thread_count = process.ThreadCount()
        taken_ns = time.perf_counter_ns() - self.arrived_ns
        return {"type": "loaded", "load_ns": taken_ns - (session.export_ns or 0),
                "compile_ns": session.compile_ns, "export_ns": session.export_ns}

    def batches(self, request):
        self.need_session().take(self.take_slots(request, "slots"))
        return {"type": "ok"}

    def prove(self, request):
        session = self.need_session()
        slots = self.take_slots(request, "batches")
        tensors = []
        if take(request, "trace", bool, False):
            if not self.capabilities["trace"]:
                raise Unsupported("this stack cannot trace")
            session.reset()
            tensors += self.put(session.trace(slots[0]), 0)
        session.reset()
        calls = session.calls("latency")
        with session.block():
            for i, slot in enumerate(slots):
                out = calls[slot]()
                if session.finish:
                    session.finish()
                results = session.results(out)
                del out  # Not one batch's results longer than the call that made them.
                tensors += self.put(results.items(), i)
                if self.case.training and i == 0:
                    tensors += self.put(session.gradients(slot).items(), i)
                if self.channel.cancelled():
                    raise Cancelled("as asked")
        if self.case.training:
            tensors += self.put(session.state().items(), len(slots) - 1)
            session.reset()
        return {"type": "proof", "tensors": tensors}

    def sample(self, request):
        session = self.need_session()
        n = take_count(request, "n", 1, 1 << 32)
        region = take(request, "region", str)
        if region not in self.capabilities["regions"]:
            raise Invalid(f"sample: region {region!r:.20}: this stack has "
                          f"{', '.join(self.capabilities['regions'])}")
        slots = self.take_slots(request, "batches")
        check = take_count(request, "check", -1, n - 1, -1)
        if region == "queued" and check >= 0:
            check = n - 1
        if self.case.training and take(request, "restart", bool, False):
            session.reset()
        calls = session.calls(region)
        count = 1 if region == "queued" else n
        times, offset = self.outputs.place(np.int64, (count,))
        times[...] = 0  # Touched before it is measured into.
        tensors = []

        def keep(i, out):
            tensors.extend(self.put(session.results(out).items(), slots[i % len(slots)]))

        block = measure.Block([calls[slot] for slot in slots], memoryview(times), check, keep,
                              session.finish, self.channel.cancelled)
        before = session.compiled()
        if take(request, "profile", bool, False):
            session.profile_begin(host_only=True)
        self.thread_count.begin()
        try:
            with session.block():
                measure.run(block, region, n)
        finally:  # cancelled or not: nothing is recorded any more
            recorded = self.operators()
        self.thread_count.end()
        return {"type": "samples", "n": n, "offset": offset, "count": count, "tensors": tensors,
                **self.compiled_since(before), **recorded}

    def compiled_since(self, before):
        if before is None:
            return {"compile_ns": None, "recompiled": 0}
        after = self.session.compiled()
        spent_ns, graphs = after[0] - before[0], after[1] - before[1]
        return {"compile_ns": spent_ns if spent_ns else None, "recompiled": graphs}

    def state(self, _request):
        session = self.need_session()
        if not self.case.training:
            raise Invalid("state: only training has one")
        return {"type": "proof", "tensors": self.put(session.state().items(), 0)}

    def ran(self, _request):
        answer = self.need_session().ran()
        answer["active_threads"] = self.thread_count.most
        return answer

    def memory(self, _request):
        session = self.session
        return {"rss_bytes": process.resident_bytes(),
                "peak_rss_bytes": process.peak_resident_bytes(),
                "libraries_rss_bytes": self.libraries_rss_bytes,
                "planned_bytes": session.planned_bytes() if session else None,
                "devices": session.devices_memory() if session else []}

    def epoch(self, request):
        session = self.need_session()
        train = take(request, "train", bool, True)
        if train and not self.case.training:
            raise Invalid("epoch: the case was loaded for inference")
        self.epoch_step = session.epoch(train)
        if take(request, "profile", bool, False):
            session.profile_begin()
        return {"type": "ok"}

    def batch(self, request):
        if self.epoch_step is None:
            raise Invalid("batch: no epoch has begun")
        slot = take_count(request, "slot", 0, self.case.slots - 1)
        rows = take_count(request, "rows", 1, self.case.batch, self.case.batch)
        spent_ns, loss, correct = self.epoch_step(slot, rows)
        # JSON has no word for what a training that diverged gives.
        return {"type": "done", "ns": spent_ns, "loss": loss if math.isfinite(loss) else None,
                "correct": correct}

    def epoch_end(self, _request):
        if self.epoch_step is None:
            raise Invalid("epoch_end: no epoch has begun")
        self.session.epoch_end()
        self.epoch_step = None
        return {"type": "ok", **self.operators()}

    def operators(self):
        """Those recorded since profile_begin, if any were."""
        operators = self.session.profile_end()
        return {} if operators is None else {"operators": operators}

    # What they share.

    def need_session(self):
        if self.session is None:
            raise Invalid("nothing is loaded")
        return self.session

    def take_slots(self, request, name):
        slots = take_list(request, name, int)
        if not slots or min(slots) < 0 or max(slots) >= self.case.slots:
            raise Invalid(f"{request['type']}: \"{name}\": expected numbers from 0 to "
                          f"{self.case.slots - 1}, found {slots!r:.60}")
        return slots

    def put(self, named, batch):
        return [self.outputs.put(name, array, batch) for name, array in named]

    def answer(self, request):
        kind = request.get("type")
        handlers = {name: getattr(self, name) for name in
                    ("hello", "load", "batches", "prove", "sample", "state", "ran", "memory",
                     "epoch", "batch", "epoch_end")}
        if kind == "bye":
            return {"type": "ok"}
        if not isinstance(kind, str) or kind not in handlers:
            raise Unsupported(f"no request of type {kind!r:.40}")
        return handlers[kind](request)

    def failure(self, error):
        if isinstance(error, RequestError):
            kind = {"kind": error.kind} if hasattr(error, "kind") else {}
            return {"type": "error", "code": error.code, "reason": one_line(error), **kind}
        traceback.print_exception(error, file=sys.stderr)
        if self.stack.is_out_of_memory(error):
            return {"type": "error", "code": OutOfMemory.code, "reason": one_line(error)}
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return {"type": "error", "code": DiskFull.code, "reason": one_line(error)}
        return {"type": "error", "code": "internal", "reason": one_line(error)}

    def serve(self):
        """Until `bye` or the end of the stream."""
        while True:
            request = number = None
            try:
                request = self.channel.receive()
                self.arrived_ns = time.perf_counter_ns()
                if request is None:
                    return
                number = request.get("id")
                if request.get("type") == "cancel":
                    continue  # Nothing is under way.
                self.outputs.begin()
                answer = self.answer(request)
            except Exception as error:  # pylint: disable=broad-except
                answer = self.failure(error)
            kind = request.get("type") if request else None
            self.channel.send({"type": kind, **answer, "id": number})
            if kind == "bye":
                return


def run(stack):
    """The whole program of a worker."""
    channel = Channel(int(os.environ.get("PLUMB_FD", "3")))
    inputs = Inputs(int(os.environ.get("PLUMB_IN_FD", "4")))
    outputs = Outputs(int(os.environ.get("PLUMB_OUT_FD", "5")))
    try:
        Worker(stack, channel, inputs, outputs).serve()
    except (BrokenPipeError, ConnectionResetError):
        pass  # The caller has gone.
    sys.stdout.flush()
    sys.stderr.flush()
    # Without the libraries' own endings, which take long and may hang.
    os._exit(0)
