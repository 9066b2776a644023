# SPDX-License-Identifier: Apache-2.0
"""What a stack provides. The worker around it does the protocol, the memory and the clock."""
import contextlib

from .errors import Refused, Unsupported


class Session:
    """One loaded case. Made by `Stack.load`; ready to be called when that returns."""

    # Nanoseconds of load that were compilation ahead of time, and those in which the model was
    # exported because no earlier start had done so; None: no such thing.
    compile_ns = None
    export_ns = None
    finish = None  # waits for the device; None where calls return when all is done

    def take(self, slots):
        """Takes the batches of these slots in again from shared memory."""
        raise NotImplementedError

    def calls(self, region):
        """For each slot, a callable without arguments that does one whole iteration."""
        raise NotImplementedError

    def block(self):
        """The context in which calls are made: entered once a block, outside all timing."""
        return contextlib.nullcontext()

    def results(self, out):
        """{name: numpy array} of what a call returned: output, in training also loss."""
        raise NotImplementedError

    def reset(self):
        """Training: the weights of the file and a fresh optimizer."""

    def gradients(self, slot):
        """Training: {"grad.NAME": array} of the step just done with the batch of `slot`."""
        raise Unsupported("this stack does not train")

    def state(self):
        """Training: {"weight.NAME": array, "buffer.NAME": array} as they are now."""
        raise Unsupported("this stack does not train")

    def trace(self, slot):
        """[("layer.NAME", array)] in the order of execution."""
        raise Unsupported("this stack cannot trace")

    def ran(self):
        """The members of the answer to `ran`."""
        raise NotImplementedError

    def devices_memory(self):
        """The member "devices" of the answer to `memory`."""
        return []

    def planned_bytes(self):
        return None

    def compiled(self):
        """(nanoseconds spent in compilers, graphs compiled) since the process began, or None."""
        return None

    def epoch(self, train):
        """A function of (slot, rows) that streams a batch: (nanoseconds, loss sum, correct)."""
        raise Unsupported("this stack streams no epochs")

    def epoch_end(self):
        """Back to what was loaded."""

    def profile_begin(self, host_only=False):
        """Records the operators of what begins; with times of the device, or of the host alone."""
        raise Unsupported("this stack records no operators")

    def profile_end(self):
        """[{"name", "calls", ...}] since profile_begin; None where nothing was recorded."""
        return None


class Stack:
    name = ""

    def versions(self):
        raise NotImplementedError

    def capabilities(self):
        raise NotImplementedError

    def load(self, case, inputs):
        """A Session. `inputs.array(dtype, shape, offset)` are the batches."""
        raise NotImplementedError

    # What errors of its library say when memory of host or device ran out, where only words do.
    out_of_memory_words = ()

    def is_out_of_memory(self, error):
        return isinstance(error, MemoryError) or any(
            word in str(error) for word in self.out_of_memory_words)


def capabilities(**given):
    """The protocol's list, with what most stacks answer."""
    able = {"tasks": ["infer"], "devices": ["cpu"], "dtypes": ["f32"], "math": ["f32"],
            "autocast": [], "regions": ["latency", "queued", "host", "return"], "models": None,
            "files": [], "settings": {}, "trace": False, "epoch": False, "operators": False,
            "group": False}
    unknown = given.keys() - able.keys()
    if unknown:
        raise ValueError(f"no such capability: {unknown}")
    return {**able, **given}


def refuse_layout(case, able):
    if case.layout not in able:
        raise Refused("settings", f"layout {case.layout}: this stack has {', '.join(able)}")
