# SPDX-License-Identifier: Apache-2.0
"""A stack that cheats: it stands between `plumb bench` and an honest worker of ours and changes
what one says to the other, as its second argument names. `honest` changes nothing.

    cheat_stack.py PLUMB CHEAT
"""
import json
import math
import os
import struct
import sys
import tempfile
import time

from proxy import Cheat

QUICK_NS = 10000  # what a sample that did nothing claims


def rounded(data, bits):
    """f32 values with the last `bits` bits of their mantissas rounded away."""
    words = struct.unpack(f"{len(data) // 4}I", data)
    half, mask = 1 << (bits - 1), 0xffffffff ^ ((1 << bits) - 1)
    return struct.pack(f"{len(words)}I", *[min(w + half, 0xffffffff) & mask for w in words])


def change_weights(path, change):
    """A copy of a safetensors file in which change(name, bytes) replaced each tensor's bytes."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header, values = json.loads(file.read(length)), bytearray(file.read())
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            values[begin:end] = change(name, bytes(values[begin:end]))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    handle, copy = tempfile.mkstemp(suffix=".safetensors")
    with os.fdopen(handle, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + values)
    return copy


class HalfBatch(Cheat):
    """Computes the first half of the batch and repeats it."""

    def shorten(self, answer):
        for tensor in answer.get("tensors", ()):
            if tensor["name"] == "output":
                data = self.read(tensor)
                half = tensor["shape"][0] // 2 * (len(data) // tensor["shape"][0])
                data[half:2 * half] = data[:half]
                self.replace(tensor, data)
        return answer

    def prove(self, request):
        return self.shorten(self.ask(request))

    def sample(self, request):
        return self.shorten(self.ask(request))


class HalfBatchWhileTimed(HalfBatch):
    """The same, but honest in the proof."""

    def prove(self, request):
        return self.ask(request)


class SmallImage(Cheat):
    """Sees the middle of each picture only."""

    def change_input(self, request, name, data):
        if name != "x":
            return data
        size, edge = request["size"], 3
        data = bytearray(data)
        for begin in range(0, len(data), 4 * size * size):
            for row in range(size):
                at = begin + 4 * size * row
                if row < edge or row >= size - edge:
                    data[at:at + 4 * size] = bytes(4 * size)
                else:
                    data[at:at + 4 * edge] = bytes(4 * edge)
                    data[at + 4 * (size - edge):at + 4 * size] = bytes(4 * edge)
        return bytes(data)


class CachedOutput(Cheat):
    """Whatever comes in, the first output goes out."""
    kept = None

    def keep(self, answer):
        for tensor in answer.get("tensors", ()):
            if tensor["name"] == "output":
                self.kept = self.kept or bytes(self.read(tensor))
                self.replace(tensor, self.kept)
        return answer

    def prove(self, request):
        return self.keep(self.ask(request))

    def sample(self, request):
        return self.keep(self.ask(request))


class Memo(Cheat):
    """Computes only for batches that it has not seen."""
    known = None

    def digest(self, slot):
        x = self.load_request["inputs"][0]
        return os.pread(self.in_fd, self.bytes_of(x), x["offsets"][slot])

    def load(self, request):
        self.known = {}
        return super().load(request)

    def sample(self, request):
        samples, slots = [], request["batches"]
        for i in range(request["n"]):
            key = self.digest(slots[i % len(slots)])
            if key not in self.known:
                answer = self.ask(dict(request, n=1, check=0, batches=[slots[i % len(slots)]]))
                output, = [t for t in answer["tensors"] if t["name"] == "output"]
                self.known[key] = dict(output), self.read(output)
                samples += self.samples(answer)
            else:
                samples.append(QUICK_NS)
        answer = {"type": "samples", "id": request["id"], "n": request["n"],
                  "count": len(samples), "recompiled": 0, "compile_ns": None, "tensors": []}
        self.replace_samples(answer, samples)
        if request["check"] >= 0:
            slot = slots[request["check"] % len(slots)]
            output, data = self.known[self.digest(slot)]
            self.replace(output, data)
            answer["tensors"] = [dict(output, batch=slot)]
        return answer


class AheadOfTime(Memo):
    """Does the work when batches arrive; an iteration only looks the result up."""

    def compute(self, slots):
        for slot in slots:
            answer = self.ask({"type": "sample", "id": 0, "n": 1, "region": "latency",
                               "check": 0, "batches": [slot]})
            output, = [t for t in answer["tensors"] if t["name"] == "output"]
            self.known[self.digest(slot)] = dict(output), self.read(output)

    def load(self, request):
        answer = super().load(request)
        self.compute(range(len(request["inputs"][0]["offsets"])))
        return answer

    def batches(self, request):
        answer = super().batches(request)
        self.compute(request["slots"])
        return answer


class ChangedWeights(Cheat):
    def change(self, name, data):
        raise NotImplementedError

    def load(self, request):
        copy = change_weights(request["weights"], self.change)
        try:
            return super().load(dict(request, weights=copy))
        finally:
            os.unlink(copy)


class SkippedLayer(ChangedWeights):
    """The last layer before the softmax adds no bias."""

    def change(self, name, data):
        return bytes(len(data)) if name == "fc2.bias" else data


class OtherWeights(Cheat):
    """Draws weights of its own."""

    def load(self, request):
        return super().load({k: v for k, v in request.items() if k != "weights"})


class NoTrainingMode(Cheat):
    """Trains without dropout, as evaluation mode would."""

    def load(self, request):
        return super().load(dict(request, dropout="off"))


class NoEvaluationMode(Cheat):
    """Infers in training mode, with dropout."""

    def load(self, request):
        labels = os.fstat(self.in_fd).st_size
        n = request["batch"]
        os.ftruncate(self.copy_fd, labels + 8 * n)
        size, shape = labels + 8 * n, [n]
        y = {"name": "y", "dtype": "i64", "shape": shape,
             "offsets": [labels] * len(request["inputs"][0]["offsets"])}
        self.load_request = request
        self.copy_inputs(request)
        os.ftruncate(self.copy_fd, size)
        return self.ask(dict(request, task="train", dropout="on", inputs=request["inputs"] + [y]))

    def prove(self, request):
        tensors = []
        for i, slot in enumerate(request["batches"]):
            answer = self.ask(dict(request, batches=[slot]))
            tensors += [dict(t, batch=i, offset=self.put(self.read(t)))
                        for t in answer["tensors"] if t["name"] == "output"]
        return dict(answer, tensors=tensors)


class NoOptimizer(Cheat):
    """Steps of length zero."""

    def load(self, request):
        return super().load(dict(request, optimizer=dict(request["optimizer"], lr=0.0)))


class NoOptimizerWhileTimed(Cheat):
    """Honest in the proof; then the weights stay where they were."""

    def state(self, request):
        # What a model whose optimizer was never called would show: the file's weights.
        self.ask(dict(self.load_request, id=request["id"]))
        return self.ask(request)


class DroppedGradient(Cheat):
    """One gradient is zero, and its weight stays where it was."""

    def prove(self, request):
        answer = self.ask(request)
        for tensor in answer["tensors"]:
            if tensor["name"] == "grad.conv2.weight":
                self.replace(tensor, bytes(self.bytes_of(tensor)))
        return answer


class Coarse(Cheat):
    """No cheat: says that it multiplies in bf16, and is more exact than that."""

    def hello(self, request):
        answer = self.ask(request)
        return dict(answer, capabilities=dict(answer["capabilities"], autocast=["none", "bf16"]))

    def load(self, request):
        return super().load(dict(request, autocast=None))

    def ran(self, request):
        return dict(self.ask(request), autocast="bf16")


class CoarseDroppedGradient(Coarse, DroppedGradient):
    """The same with a gradient that is zero: no further from the right one than rounding may be."""


class CoarseLongGradient(Coarse):
    """The same with a gradient that is half as long again: rounding would not do that here."""

    def prove(self, request):
        answer = self.ask(request)
        for tensor in answer["tensors"]:
            if tensor["name"] == "grad.conv2.weight":
                n = self.bytes_of(tensor) // 4
                values = struct.unpack(f"{n}f", self.read(tensor))
                self.replace(tensor, struct.pack(f"{n}f", *[1.5 * v for v in values]))
        return answer


class Optimizer(Cheat):
    """Another optimizer than it was told."""
    change = {}

    def load(self, request):
        told = request["optimizer"]
        own = {key: told[key] * factor for key, factor in self.change.items()}
        return super().load(dict(request, optimizer=dict(told, **own)))


class WrongMomentum(Optimizer):
    """Keeps 0.8 of its speed in place of 0.9."""
    change = {"momentum": 0.8 / 0.9}


class WrongRate(Optimizer):
    """Its steps are a twentieth too long."""
    change = {"lr": 1.05}


class SecondStep(Cheat):
    """Honest in the first step of a proof; `replaced` of the second comes from another proof."""
    replaced = ()

    def other(self, request):
        raise NotImplementedError

    def prove(self, request):
        answer = self.ask(request)
        if len(request["batches"]) < 2:
            return answer
        for tensor in answer["tensors"]:
            self.replace(tensor, self.read(tensor))  # The next request writes over it.
        wrong = {(t["name"], t["batch"]): t for t in self.other(request)["tensors"]}
        for tensor in answer["tensors"]:
            kind = tensor["name"].split(".")[0]
            if kind in self.replaced and tensor["batch"] == 1:
                self.replace(tensor, self.read(wrong[tensor["name"], tensor["batch"]]))
        return answer

    def shorter(self, request, slot):
        """The proof of a single step, whose results are told as those of the second."""
        answer = self.ask(dict(request, batches=[slot]))
        return dict(answer, tensors=[dict(t, batch=1) for t in answer["tensors"]])


class StaleStatistics(SecondStep):
    """The second step does not touch running statistics."""
    replaced = ("buffer",)

    def other(self, request):
        return self.shorter(request, request["batches"][0])


class StaleWeights(StaleStatistics):
    """The second step's results are those of the file's weights."""
    replaced = ("loss", "output")

    def other(self, request):
        return self.shorter(request, request["batches"][1])


class NoSecondStep(StaleStatistics):
    """The optimizer steps once."""
    replaced = ("weight",)


class SameDataTwice(SecondStep):
    """The second step computes on the batch of the first."""
    replaced = ("loss", "output", "weight", "buffer")

    def other(self, request):
        return self.ask(dict(request, batches=request["batches"][:1] * 2))


class LowPrecision(ChangedWeights):
    """Multiplies numbers that were rounded first. Products of the first layer are then exactly
    those of a low precision; later activations keep more than a real cheat's would."""
    bits = 0

    def change(self, name, data):
        return rounded(data, self.bits)

    def change_input(self, request, name, data):
        return rounded(data, self.bits) if name == "x" else data


class Tf32(LowPrecision):
    bits = 13


class Bf16(LowPrecision):
    bits = 16


class SaysTf32(Tf32):
    """No cheat: multiplies in TF32 and says so."""

    def hello(self, request):
        answer = self.ask(request)
        return dict(answer, capabilities=dict(answer["capabilities"], math=["f32", "tf32"]))

    def load(self, request):
        return super().load(dict(request, math="f32"))

    def ran(self, request):
        return dict(self.ask(request), math="tf32")


class Tf32InBf16(SaysTf32):
    """Says TF32 and multiplies in bf16, whose mantissa is 3 bits shorter."""
    bits = 16


class SecondInBf16(Bf16, SecondStep):
    """The forward pass of the second step is computed in bf16."""
    replaced = ("loss", "output", "buffer")
    low = False

    def change(self, name, data):
        return super().change(name, data) if self.low else data

    def change_input(self, request, name, data):
        return super().change_input(request, name, data) if self.low else data

    def other(self, request):
        request = dict(request)
        self.low = True
        self.load(self.load_request_told)
        answer = self.ask(request)
        self.low = False
        kept = [dict(t, offset=self.put(self.read(t))) for t in answer["tensors"]]
        self.load(self.load_request_told)
        return dict(answer, tensors=kept)

    def load(self, request):
        self.load_request_told = request
        return super().load(request)


class EarlyReturn(Cheat):
    """Answers at once and computes afterwards."""
    late = None

    def sample(self, request):
        answer = self.ask(dict(request, n=1, check=0, batches=[
            request["batches"][max(request["check"], 0) % len(request["batches"])]]))
        answer["n"] = answer["count"] = request["n"]
        if request["check"] < 0:
            answer["tensors"] = []
        self.replace_samples(answer, [QUICK_NS] * request["n"])
        self.late = request
        return answer

    def after(self, request):
        if request["type"] == "sample":
            self.ask(request)


class EarlyReturnInside(Cheat):
    """Ends each sample before its work is done; all is done before the answer."""

    def sample(self, request):
        answer = self.ask(request)
        self.replace_samples(answer, [QUICK_NS] * answer["count"])
        return answer


class ShortenedLater(Cheat):
    """Honest while it is looked at: the audit ends when batches have been taken in for the fourth
    time. From then on it computes up to the iteration that is checked, and makes up all samples."""
    taken = 0

    def batches(self, request):
        self.taken += 1
        return super().batches(request)

    def sample(self, request):
        if self.taken < 4:
            return self.ask(request)
        check, slots = max(request["check"], 0), request["batches"]
        if self.load_request["task"] == "infer":
            answer = self.ask(dict(request, n=1, check=0, batches=[slots[check % len(slots)]]))
        else:
            answer = self.ask(dict(request, n=check + 1))
        short = max(min(self.samples(answer)) // 500, 1)
        answer["n"] = answer["count"] = request["n"]
        self.replace_samples(answer, [short] * request["n"])
        return answer


class EveryOther(Cheat):
    """Runs twice as many iterations as it times."""

    def sample(self, request):
        self.ask(dict(request, check=-1))
        return self.ask(request)


class MoreThreads(Cheat):
    """Uses one thread more than it was told."""

    def load(self, request):
        return super().load(dict(request, threads=request["threads"] + 1))

    def ran(self, request):
        return dict(self.ask(request), threads={"pool": self.load_request["threads"] - 1})


class AdmittedThreads(MoreThreads):
    """The same, and says so."""

    def ran(self, request):
        return self.ask(request)


class TakingTurns(Cheat):
    """No cheat: two threads, this one and the worker's, but never both at once."""
    OWN_NS = 300_000

    def sample(self, request):
        samples, kept, slots = [], [], request["batches"]
        for i in range(request["n"]):
            begin = end = time.perf_counter_ns()
            while end - begin < self.OWN_NS:
                end = time.perf_counter_ns()
            answer = self.ask(dict(
                request, n=1, check=0 if i == request["check"] else -1,
                batches=[slots[i % len(slots)]], restart=request["restart"] and i == 0))
            samples.append(time.perf_counter_ns() - begin)
            if i == request["check"]:
                # The next iteration writes over what this one handed out.
                kept = [dict(t, offset=self.put(self.read(t))) for t in answer["tensors"]]
        answer = dict(answer, n=len(samples), count=len(samples), tensors=kept)
        self.replace_samples(answer, samples)
        return answer


class OtherDevice(Cheat):
    """Some nodes ran elsewhere."""

    def ran(self, request):
        return dict(self.ask(request), devices=[{"device": "cpu", "nodes": 3},
                                                {"device": "cuda:0", "nodes": 7}])


class OtherMath(Cheat):
    """Says itself that it computed in another precision."""

    def ran(self, request):
        return dict(self.ask(request), math="tf32")


class NotANumber(Cheat):
    """One value of the output is none."""

    def prove(self, request):
        answer = self.ask(request)
        for tensor in answer["tensors"]:
            if tensor["name"] == "output":
                data = self.read(tensor)
                data[20:24] = struct.pack("f", math.nan)
                self.replace(tensor, data)
        return answer


class NumbersForNone(Cheat):
    """Where the right answer is no number, it has one."""

    def prove(self, request):
        answer = self.ask(request)
        for tensor in answer["tensors"]:
            values = struct.unpack(f"{self.bytes_of(tensor) // 4}f", self.read(tensor))
            changed = [12345.0 if math.isnan(v) else v for v in values]
            self.replace(tensor, struct.pack(f"{len(changed)}f", *changed))
        return answer


class NoDevice(Cheat):
    """Something ran, but it does not say where."""

    def ran(self, request):
        return dict(self.ask(request), devices=[{"device": None}, {"device": "cuda:0", "nodes": 0}])


CHEATS = {
    "honest": Cheat, "half-batch": HalfBatch, "half-batch-timed": HalfBatchWhileTimed,
    "small-image": SmallImage, "cached-output": CachedOutput, "memo": Memo,
    "ahead": AheadOfTime, "skipped-layer": SkippedLayer, "other-weights": OtherWeights,
    "no-training-mode": NoTrainingMode, "no-evaluation-mode": NoEvaluationMode,
    "no-optimizer": NoOptimizer, "no-optimizer-timed": NoOptimizerWhileTimed,
    "dropped-gradient": DroppedGradient, "coarse": Coarse,
    "coarse-dropped-gradient": CoarseDroppedGradient,
    "coarse-long-gradient": CoarseLongGradient, "says-tf32": SaysTf32,
    "tf32-in-bf16": Tf32InBf16, "wrong-momentum": WrongMomentum, "wrong-rate": WrongRate,
    "stale-statistics": StaleStatistics, "stale-weights": StaleWeights,
    "no-second-step": NoSecondStep, "same-data-twice": SameDataTwice,
    "second-in-bf16": SecondInBf16, "tf32": Tf32, "bf16": Bf16,
    "early-return": EarlyReturn, "early-return-inside": EarlyReturnInside,
    "shortened-later": ShortenedLater,
    "every-other": EveryOther, "more-threads": MoreThreads, "admitted-threads": AdmittedThreads,
    "taking-turns": TakingTurns, "other-device": OtherDevice, "other-math": OtherMath,
    "nan": NotANumber, "numbers-for-none": NumbersForNone, "no-device": NoDevice,
}

if __name__ == "__main__":
    CHEATS[sys.argv[2]](sys.argv[1]).serve()
