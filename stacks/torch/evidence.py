# SPDX-License-Identifier: Apache-2.0
"""What really ran, asked from PyTorch and not repeated from the request."""
import collections
import os
import platform

import torch
import torchvision
from torch.utils._python_dispatch import TorchDispatchMode

# Operators that multiply matrices: their type is the precision of the arithmetic.
PRODUCTS = ("convolution", "addmm", "mm", "bmm", "linear", "baddbmm", "matmul")
SHORT = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16",
         torch.float64: "f64"}


def versions():
    found = {"torch": torch.__version__, "torchvision": torchvision.__version__,
             "python": platform.python_version()}
    if torch.cuda.is_available():
        found["cuda"] = torch.version.cuda
        found["cudnn"] = str(torch.backends.cudnn.version())
    return found


class Operators(TorchDispatchMode):
    """Sees every operator of a pass: how many ran on each device, and in what precision."""

    def __init__(self):
        super().__init__()
        self.devices = collections.Counter()
        self.products = collections.Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        first = out[0] if isinstance(out, (tuple, list)) and out else out
        if isinstance(first, torch.Tensor):
            self.devices[str(first.device)] += 1
            name = func.__name__.partition(".")[0]
            if any(part in name for part in PRODUCTS):
                self.products[first.dtype] += 1
        return out


def is_training(model):
    return getattr(model, "training", False)  # What was frozen has no other mode.


def operators(session):
    """Runs one forward pass in evaluation mode, which leaves the model's state alone."""
    model = session.evidence_model()
    was_training = is_training(model)
    if was_training:
        model.eval()
    seen = Operators()
    with torch.no_grad(), session.mixing(), seen:
        model(session.x[0])
    if was_training:
        model.train()
    return {"devices": [{"device": device, "nodes": n} for device, n in seen.devices.items()],
            "products": seen.products}


def effective_math(device):
    """How products of f32 are computed on the device: f32, tf32 or bf16."""
    if device.type == "cuda":
        both = (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
        return "tf32" if any(both) else "f32"
    precision = torch.get_float32_matmul_precision()
    return {"highest": "f32", "high": "tf32", "medium": "bf16"}[precision]


def layout(session):
    """Of the model's largest 4-dimensional weight and of its input."""
    weights = [w for w in session.weights() if w.dim() == 4 and not w.is_mkldnn]
    if not weights:
        return None
    largest = max(weights, key=torch.Tensor.numel)
    return "nhwc" if (largest.is_contiguous(memory_format=torch.channels_last)
                      and not largest.is_contiguous()) else "nchw"


def ran(session):
    seen = operators(session)
    product = seen["products"].most_common(1)
    computed = SHORT.get(product[0][0]) if product else None
    dtypes = collections.Counter(w.dtype for w in session.weights()).most_common(1)
    # Freezing casts weights for mixed precision once and for all; the model's type is its input's.
    frozen = dtypes and dtypes[0][0] == session.autocast
    stored = SHORT.get(session.x[0].dtype if frozen else dtypes[0][0]) if dtypes else None
    mixed = computed if session.autocast and computed != stored else None
    return {"threads": {"intra": torch.get_num_threads(),
                        "inter": torch.get_num_interop_threads()},
            "devices": session.nodes(), "dtype": stored, "math": effective_math(session.device),
            "autocast": mixed, "layout": layout(session),
            "training": is_training(session.evidence_model()), "settings": settings(session),
            **session.compilers()}


def settings(session):
    """The settings as they are, where the library can be asked."""
    return {**session.case.settings,
            "channels_last": session.channels_last,
            "matmul_precision": torch.get_float32_matmul_precision(),
            "cudnn_benchmark": torch.backends.cudnn.benchmark}


def layers(model, x):
    """[("layer.NAME", values)] of every module that has parameters, in the order of execution."""
    found, hooks = [], []

    def note(name):
        def hook(_module, _inputs, out):
            if isinstance(out, torch.Tensor):
                found.append((f"layer.{name}", out.detach().clone().cpu().float().numpy()))
        return hook

    for name, module in model.named_modules():
        if name and next(module.parameters(), None) is not None:
            hooks.append(module.register_forward_hook(note(name)))
    try:
        with torch.no_grad():
            model(x)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def operator_table(profiler, on_device, timed_device):
    """The profiler's averages, summed by name, as the protocol has them."""
    def nanoseconds(event, *names):
        value = next((getattr(event, n) for n in names if hasattr(event, n)), None)
        return None if value is None else int(value * 1000)

    table = []
    for event in profiler.key_averages():
        table.append({
            "name": event.key, "calls": event.count,
            "self_cpu_ns": nanoseconds(event, "self_cpu_time_total"),
            "cpu_ns": nanoseconds(event, "cpu_time_total"),
            "self_device_ns": nanoseconds(event, "self_device_time_total", "self_cuda_time_total")
            if timed_device else None,
            "device_ns": nanoseconds(event, "device_time_total", "cuda_time_total")
            if timed_device else None,
            "self_cpu_bytes": event.self_cpu_memory_usage, "cpu_bytes": event.cpu_memory_usage,
            "self_device_bytes": getattr(event, "self_device_memory_usage", None)
            if on_device else None,
            "device_bytes": getattr(event, "device_memory_usage", None) if on_device else None})
    return table


def devices_memory(device):
    if device.type != "cuda":
        return []
    index = device.index if device.index is not None else torch.cuda.current_device()
    pools = sum(segment["total_size"] for segment in torch.cuda.memory_snapshot()
                if tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0))
    reserved = torch.cuda.memory_reserved(index)
    process = process_bytes(index)
    return [{"device": f"cuda:{index}",
             "allocated_peak_bytes": torch.cuda.max_memory_allocated(index),
             "reserved_peak_bytes": torch.cuda.max_memory_reserved(index),
             "graph_pool_bytes": pools,
             "process_bytes": process,
             "context_bytes": process - reserved if process and process > reserved else None}]


def process_bytes(index):
    """What the driver says this process holds on the card; None where it cannot be told, as in a
    container that knows our process by another number."""
    try:
        import pynvml
        pynvml.nvmlInit()
        card = pynvml.nvmlDeviceGetHandleByIndex(index)
        return next((p.usedGpuMemory for p in pynvml.nvmlDeviceGetComputeRunningProcesses(card)
                     if p.pid == os.getpid()), None)
    except Exception:  # pylint: disable=broad-except
        return None
