# SPDX-License-Identifier: Apache-2.0
"""A `load` request, read strictly: what a worker trusts has been checked here."""
from dataclasses import dataclass, field

from .errors import Invalid, Refused
from .shared import DTYPES

ABSENT = object()


def take(message, name, kind, default=ABSENT):
    """A field of a message, of the type `kind`; `default` where it is missing or null."""
    value = message.get(name)
    if value is None:
        if default is ABSENT:
            raise Invalid(f"{message.get('type')}: \"{name}\" is missing")
        return default
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise Invalid(f"{message.get('type')}: \"{name}\": expected {kind.__name__}, "
                      f"found {value!r:.60}")
    return value


def take_count(message, name, low, high, default=ABSENT):
    value = take(message, name, int, default)
    if not low <= value <= high:
        raise Invalid(f"{message.get('type')}: \"{name}\": expected {low} to {high}, "
                      f"found {value}")
    return value


def take_list(message, name, kind, default=ABSENT):
    values = take(message, name, list, default)
    if any(type(value) is not kind for value in values):
        raise Invalid(f"{message.get('type')}: \"{name}\": expected a list of {kind.__name__}, "
                      f"found {values!r:.80}")
    return values


@dataclass
class Input:
    name: str
    dtype: str
    shape: tuple
    offsets: list


@dataclass
class Case:
    model: str
    task: str
    device: str
    batch: int
    size: int
    classes: int
    dtype: str
    math: str
    autocast: str
    threads: int
    layout: str
    weights: str
    dropout: bool
    log_probabilities: bool
    inputs: dict
    settings: dict
    file: str | None = None  # path of an ONNX or TorchScript file in place of a model
    dims: str = ""  # of a file: "NAME=N,…"
    optimizer: dict = field(default_factory=dict)

    @property
    def training(self):
        return self.task == "train"

    @property
    def slots(self):
        return len(next(iter(self.inputs.values())).offsets)


def _input(message):
    if not isinstance(message, dict):
        raise Invalid(f"load: \"inputs\": expected objects, found {message!r:.60}")
    dtype = take(message, "dtype", str)
    shape = take_list(message, "shape", int)
    offsets = take_list(message, "offsets", int)
    if dtype not in DTYPES:
        raise Invalid(f"load: an input of dtype {dtype!r:.20}")
    if dtype == "bf16":
        raise Refused("dtype", "inputs of bf16: numpy has no such type")
    if any(extent < 1 for extent in shape) or len(shape) > 8:
        raise Invalid(f"load: an input of shape {shape!r:.60}")
    if not offsets:
        raise Invalid("load: an input without \"offsets\"")
    return Input(take(message, "name", str), dtype, tuple(shape), offsets)


def _inputs(message, task, batch, file):
    inputs = {i.name: i for i in map(_input, take(message, "inputs", list))}
    if file:
        if not inputs or len({len(i.offsets) for i in inputs.values()}) != 1:
            raise Invalid("load: expected inputs with the same number of batches")
        return inputs
    for name in ["x", "y"] if task == "train" else ["x"]:
        if name not in inputs:
            raise Invalid(f"load: no input \"{name}\"")
        if not inputs[name].shape or inputs[name].shape[0] != batch:
            raise Invalid(f"load: input \"{name}\" has shape {inputs[name].shape}, "
                          f"batch is {batch}")
        if len(inputs[name].offsets) != len(inputs["x"].offsets):
            raise Invalid(f"load: input \"{name}\" has {len(inputs[name].offsets)} batches, "
                          f"\"x\" has {len(inputs['x'].offsets)}")
    return inputs


def _settings(given, legal):
    """Every setting, with its default where nothing is given."""
    for key, value in given.items():
        if key not in legal:
            raise Refused("settings", f"no setting {key}; there are: {', '.join(legal) or 'none'}")
        if legal[key] is not None and not any(type(v) is type(value) and v == value
                                              for v in legal[key]):
            raise Refused("settings", f"{key}: expected one of {legal[key]}, found {value!r:.40}")
    return {key: given.get(key, values[0] if values else None) for key, values in legal.items()}


def _refuse(kind, value, able):
    if value not in able:
        raise Refused(kind, f"{kind} {value}: this stack has {', '.join(able) or 'none'}")


def parse(message, capabilities):
    """The case of a `load`; Refused where the capabilities deny it."""
    task = take(message, "task", str)
    devices = take_list(message, "devices", str)
    batch = take_count(message, "batch", 1, 1 << 24)
    file = take(message, "file", str, None)
    case = Case(
        model=take(message, "model", str), task=task, device=devices[0] if devices else "",
        batch=batch, size=take_count(message, "size", 1, 1 << 16),
        classes=take_count(message, "classes", 1, 1 << 24),
        dtype=take(message, "dtype", str, "f32"), math=take(message, "math", str, "f32"),
        autocast=take(message, "autocast", str, None),
        threads=take_count(message, "threads", 1, 4096),
        layout=take(message, "layout", str, "default"), weights=take(message, "weights", str),
        dropout=take(message, "dropout", str, "on") != "off",
        log_probabilities=take(message, "log_probabilities", bool, False),
        inputs=_inputs(message, task, batch, file),
        settings=take(message, "settings", dict, {}), file=file,
        dims=take(message, "dims", str, ""),
        optimizer=take(message, "optimizer", dict, {}))
    _refuse("task", task, capabilities["tasks"])
    if len(devices) != 1:
        raise Refused("device", f"expected one device, found {len(devices)}")
    _refuse("device", case.device, capabilities["devices"])
    _refuse("dtype", case.dtype, capabilities["dtypes"])
    _refuse("math", case.math, capabilities["math"])
    if case.autocast:
        _refuse("autocast", case.autocast, capabilities["autocast"])
    if case.layout not in ("default", "nchw", "nhwc"):
        raise Invalid(f"load: \"layout\": expected default, nchw or nhwc, found "
                      f"{case.layout!r:.20}")
    kind = "TorchScript" if file and file.endswith(".pt") else "ONNX"
    if file and kind.lower() not in capabilities["files"]:
        raise Refused("model", f"this stack runs no {kind} files")
    if capabilities["models"] is not None and not file:
        _refuse("model", case.model, capabilities["models"])
    region = take(message, "region", str, None)
    if region is not None:
        _refuse("region", region, capabilities["regions"])
    case.settings = _settings(case.settings, capabilities["settings"])
    return case
