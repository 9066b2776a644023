# SPDX-License-Identifier: Apache-2.0
"""A model in PyTorch with its weights, batches and optimizer, ready to be called.

The stacks differ in what is called: `TorchSession.prepare` returns it. The batches lie where the
model reads them, in its dtype and layout, before any clock runs; the calls of region `host` begin
and end in ordinary host memory instead.
"""
import contextlib
import functools
import time
import warnings

import torch
from safetensors import safe_open

import evidence
import models
from plumb_stack.errors import Invalid, Refused, one_line
from plumb_stack.stack import Session, Stack, capabilities

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16,
          "f64": torch.float64}
NAMES = {v: k for k, v in DTYPES.items()}


def to_numpy(tensor):
    """The values on the host, dense; bf16, which numpy lacks, as f32."""
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    return tensor.cpu().contiguous().numpy()


def device_of(name):
    """With its number: torch.cuda.set_device takes no "cuda" that has none."""
    device = torch.device(name)
    return torch.device("cuda", 0) if device.type == "cuda" and device.index is None else device


def configure(case):
    """Threads and precision of the whole process."""
    torch.set_num_threads(case.threads)
    with contextlib.suppress(RuntimeError):  # Once a process, before the first parallel work.
        torch.set_num_interop_threads(1)
    precision = case.settings["matmul_precision"]
    if precision == "auto":
        precision = "high" if case.math == "tf32" else "highest"
    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.allow_tf32 = case.math == "tf32"
    torch.backends.cudnn.benchmark = case.settings["cudnn_benchmark"]
    torch.manual_seed(0)


def make_optimizer(parameters, case):
    """The protocol's object has PyTorch's names and defaults; null is a member that is missing."""
    given = {key: value for key, value in case.optimizer.items() if value is not None}
    options = {"fused": True} if case.settings["fused_optimizer"] else {}
    try:
        return named_optimizer(parameters, case, given, options)
    except (TypeError, ValueError) as error:  # PyTorch's own, of what it was given
        raise Invalid(f"load: \"optimizer\": {one_line(error)}") from error


def named_optimizer(parameters, case, given, options):
    name = given.get("name", "sgd")
    if name == "sgd":
        known = ("lr", "momentum", "weight_decay", "dampening", "nesterov")
        options |= {"lr": 0.01, **{key: given[key] for key in known if key in given}}
        return torch.optim.SGD(parameters, **options)
    if name in ("adam", "adamw"):
        options |= {key: given[key] for key in ("lr", "weight_decay", "eps") if key in given}
        options["betas"] = (given.get("beta1", 0.9), given.get("beta2", 0.999))
        options["capturable"] = case.device != "cpu"
        return (torch.optim.Adam if name == "adam" else torch.optim.AdamW)(parameters, **options)
    raise Invalid(f"load: no optimizer {name!r:.40}")


def make_model(case):
    """On the device, with memory but without values: they all come from the file."""
    if not models.known(case.model):
        raise Refused("model", f"torchvision has no model {case.model}")
    options = {"num_classes": case.classes, "size": case.size, "draw": False}
    try:
        with torch.device("meta"):
            model = models.make(case.model, **options)
        model = model.to_empty(device=case.device)
    except (RuntimeError, NotImplementedError):  # Some constructors look at values.
        model = models.make(case.model, **options).to(case.device)
    return model if case.dropout else models.without_dropout(model)


class TorchSession(Session):
    def __init__(self, case, inputs):
        configure(case)
        self.case = case
        self.inputs = inputs
        self.device = device_of(case.device)
        self.dtype = DTYPES[case.dtype]
        self.autocast = DTYPES[case.autocast] if case.autocast else None
        self.channels_last = case.layout == "nhwc" or case.settings["channels_last"]
        if self.channels_last and case.layout == "nchw":
            raise Refused("settings", "layout nchw and channels_last contradict each other")
        self.format = torch.channels_last if self.channels_last else torch.contiguous_format
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
            torch.cuda.reset_peak_memory_stats()
            self.finish = torch.cuda.current_stream().synchronize
        self.model = None
        self.make()
        self.x = [self.empty("x", self.dtype, self.format) for _ in range(case.slots)]
        self.y = [self.empty("y", torch.int64) for _ in range(case.slots)] if case.training else []
        self.host = {}
        self.profiler, self.profiled_device = None, False
        self.optimizer = None
        if case.training:
            self.criterion = functools.partial(models.loss_of, case.model)
            self.optimizer = make_optimizer(self.model.parameters(), case)
        self.called = {}
        self.run = self.prepare()
        self.take(range(case.slots))

    def make(self):
        """The model with its weights, in its mode."""
        self.model = make_model(self.case)
        self.model.to(dtype=self.dtype, memory_format=self.format).train(self.case.training)
        self.read_weights()

    def prepare(self):
        """What a forward pass calls with a batch."""
        return self.model

    # Weights and batches.

    def read_weights(self):
        state = self.model.state_dict()
        with safe_open(self.case.weights, framework="pt") as file, torch.no_grad():
            there = set(file.keys())
            missing = [k for k in state if k not in there and "num_batches_tracked" not in k]
            if missing or there - state.keys():
                wrong = missing or sorted(there - state.keys())
                raise Invalid(f"{self.case.weights}: {'no' if missing else 'unknown'} tensor "
                              f"{wrong[0]}, one of {len(wrong)}")
            for name, tensor in state.items():
                if name not in there:
                    tensor.zero_()
                    continue
                value = file.get_tensor(name)
                if value.shape != tensor.shape:
                    raise Invalid(f"{self.case.weights}: {name} is {list(value.shape)}, "
                                  f"{self.case.model} needs {list(tensor.shape)}")
                tensor.copy_(value)

    def empty(self, name, dtype, memory_format=torch.contiguous_format):
        return torch.empty(self.case.inputs[name].shape, dtype=dtype, device=self.device,
                           memory_format=memory_format)

    def given(self, name, slot):
        """The batch as the caller gave it, a view of shared memory."""
        given = self.case.inputs[name]
        array = self.inputs.array(given.dtype, given.shape, given.offsets[slot])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # It is read-only, and read only.
            return torch.from_numpy(array)

    def take(self, slots):
        for slot in slots:
            self.x[slot].copy_(self.given("x", slot))
            if self.y:
                self.y[slot].copy_(self.given("y", slot))
            for host in self.host.get(slot, []):
                host.copy_(self.given("x" if host.is_floating_point() else "y", slot))
        if self.finish:
            self.finish()

    def on_host(self, slot):
        """[x, y] of region `host`: ordinary memory of the host, dense, in the model's dtype."""
        if slot not in self.host:
            names = ["x", "y"] if self.y else ["x"]
            self.host[slot] = [self.given(n, slot).to(self.dtype if n == "x" else torch.int64,
                                                      copy=True) for n in names]
        return self.host[slot]

    # One iteration.

    def calls(self, region):
        kind = "host" if region == "host" else "resident"
        if kind not in self.called:
            make = getattr(self, f"{self.case.task}_{kind}")
            self.called[kind] = [make(slot) for slot in range(self.case.slots)]
        return self.called[kind]

    def mixing(self):
        """The context of mixed precision, where the case has any."""
        return (torch.autocast(self.device.type, dtype=self.autocast) if self.autocast
                else contextlib.nullcontext())

    def forward(self):
        """The forward pass as a function, mixed precision included. Autocast is entered anew in
        every iteration: kept open over many it would keep the casts of the weights as well."""
        run = self.run
        if self.autocast is None:
            return run
        kind, dtype = self.device.type, self.autocast

        def mixed(x):
            with torch.autocast(kind, dtype=dtype):
                return run(x)
        return mixed

    def infer_resident(self, slot):
        return functools.partial(self.forward(), self.x[slot])

    def infer_host(self, slot):
        forward, device, memory_format = self.forward(), self.device, self.format
        (host,) = self.on_host(slot)

        def call():
            return forward(host.to(device, memory_format=memory_format)).cpu()
        return call

    def train_resident(self, slot):
        x, y, step = self.x[slot], self.y[slot], self.step()
        return lambda: step(x, y)

    def train_host(self, slot):
        device, memory_format, step = self.device, self.format, self.step()
        host_x, host_y = self.on_host(slot)

        def call():
            loss, out = step(host_x.to(device, memory_format=memory_format), host_y.to(device))
            return loss.detach().cpu(), out.detach().cpu()
        return call

    def step(self):
        optimizer, run, criterion = self.optimizer, self.run, self.criterion
        kind, autocast = self.device.type, self.autocast
        if autocast is None:
            def step(x, y):
                optimizer.zero_grad(set_to_none=True)
                loss, out = criterion(run(x), y)
                loss.backward()
                optimizer.step()
                return loss, out
            return step

        def mixed_step(x, y):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(kind, dtype=autocast):
                loss, out = criterion(run(x), y)
            loss.backward()
            optimizer.step()
            return loss, out
        return mixed_step

    @contextlib.contextmanager
    def block(self):
        if self.case.training:
            yield
            return
        with (torch.inference_mode() if self.case.settings["inference_mode"]
              else torch.no_grad()):
            yield

    # What came out.

    def results(self, out):
        if not self.case.training:
            return {"output.0" if self.case.file else "output": to_numpy(out)}
        loss, logits = out
        return {"loss": to_numpy(loss), "output": to_numpy(logits)}

    def reset(self):
        if not self.case.training:
            return
        self.read_weights()
        self.optimizer.state.clear()
        self.optimizer.zero_grad(set_to_none=True)

    def gradients(self, slot):
        return {f"grad.{name}": to_numpy(p.grad) for name, p in self.model.named_parameters()
                if p.grad is not None}

    def state(self):
        named = {f"weight.{name}": to_numpy(p) for name, p in self.model.named_parameters()}
        named |= {f"buffer.{name}": to_numpy(b) for name, b in self.model.named_buffers()
                  if b.is_floating_point()}
        return named

    def trace(self, slot):
        with self.block(), self.mixing():
            return evidence.layers(self.model, self.x[slot])

    def ran(self):
        return evidence.ran(self)

    def nodes(self):
        """[{"device", "nodes"}] as the stack knows them; here: the operators of a forward pass."""
        return evidence.operators(self)["devices"]

    def evidence_model(self):
        """What evidence.operators runs: a module."""
        return self.model

    def weights(self):
        return list(self.model.parameters())

    def compilers(self):
        """The members of `ran` that only compilers fill."""
        return {"graphs": None, "breaks": None, "recompiles": None, "fallbacks": []}

    def devices_memory(self):
        return evidence.devices_memory(self.device)

    # Studies.

    def epoch(self, train):
        self.model.train(train)

        def batch(slot, rows):
            x, y = self.stage(slot, rows, train)
            if self.finish:
                self.finish()
            begin = time.perf_counter_ns()
            loss, out = self.stream(x, y, slot, train)
            loss_sum = loss.item() * rows
            spent = time.perf_counter_ns() - begin
            return spent, loss_sum, int((out.detach().argmax(1) == y).sum())
        return batch

    def epoch_end(self):
        self.model.train(self.case.training)

    def stage(self, slot, rows, train):  # pylint: disable=unused-argument
        """(x, y) of the first `rows` of a batch that lies in shared memory, on the device."""
        x = self.given("x", slot)[:rows].to(self.device, self.dtype, copy=True)
        y = self.given("y", slot)[:rows].to(self.device, torch.int64, copy=True)
        return x.contiguous(memory_format=self.format), y

    def stream(self, x, y, slot, train):  # pylint: disable=unused-argument
        """(loss, logits) of a staged batch."""
        if train:
            return self.step()(x, y)
        with torch.no_grad(), self.mixing():
            # The loss too: logits of 16 bits alone would leave it three digits.
            return models.loss_of(self.case.model, self.run(x), y)

    def profile_begin(self, host_only=False):
        kinds = [torch.profiler.ProfilerActivity.CPU]
        self.profiled_device = self.device.type == "cuda" and not host_only
        if self.profiled_device:
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        self.profiler = torch.profiler.profile(activities=kinds, profile_memory=True)
        self.profiler.start()

    def profile_end(self):
        if self.profiler is None:
            return None
        profiler, self.profiler = self.profiler, None
        profiler.stop()
        return evidence.operator_table(profiler, self.device.type == "cuda", self.profiled_device)


class TorchStack(Stack):
    session = TorchSession
    tasks = ["infer", "train"]
    files = []
    trace = False

    def versions(self):
        return evidence.versions()

    def devices(self):
        cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return ["cpu"] + (["cuda"] if cards else []) + [f"cuda:{i}" for i in range(cards)]

    def settings(self):
        return {"channels_last": [False, True], "inference_mode": [True, False],
                "fused_optimizer": [False, True], "cudnn_benchmark": [False, True],
                "matmul_precision": ["auto", "highest", "high", "medium"]}

    def capabilities(self):
        devices = self.devices()
        cuda = any(device.startswith("cuda") for device in devices)
        return capabilities(
            tasks=self.tasks, files=self.files, devices=devices, dtypes=list(DTYPES),
            math=["f32", "tf32"] if cuda else ["f32"], autocast=["bf16", "f16"],
            settings=self.settings(), trace=self.trace, epoch="train" in self.tasks,
            operators="train" in self.tasks)

    def load(self, case, inputs):
        if case.math == "tf32" and case.device == "cpu":
            raise Refused("math", "the processor has no tf32")
        if case.autocast and case.dtype != "f32":
            raise Refused("autocast", f"autocast mixes with f32, not with {case.dtype}")
        return self.session(case, inputs)

    def is_out_of_memory(self, error):
        return (isinstance(error, (MemoryError, torch.OutOfMemoryError))
                or "can't allocate memory" in str(error) or "CUDA out of memory" in str(error))
