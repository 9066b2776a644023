# SPDX-License-Identifier: Apache-2.0
"""Pointwise ops, and the fused programs of them."""
import torch
import torch.nn.functional as F

from registry import op

DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64,
    "bool": torch.bool,
}

UNARY = {
    "neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "exp": torch.exp, "log": torch.log,
    "log1p": torch.log1p, "expm1": torch.expm1, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal, "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "relu": torch.relu, "selu": F.selu, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "mish": F.mish,
    "hardswish": F.hardswish, "hardsigmoid": lambda x: F.relu6(x + 3) / 6,
    "softsign": F.softsign,
    "tan": torch.tan, "sinh": torch.sinh, "cosh": torch.cosh, "asin": torch.asin,
    "acos": torch.acos, "atan": torch.atan, "asinh": torch.asinh, "acosh": torch.acosh,
    "atanh": torch.atanh,
    "erf": torch.erf, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round,
    "trunc": torch.trunc, "isnan": torch.isnan, "not": torch.logical_not,
}


@op(*UNARY)
def unary(a, x, name):
    return UNARY[name](x)


@op("leaky_relu")
def leaky_relu(a, x):
    return F.leaky_relu(x, a["alpha"])


@op("elu")
def elu(a, x):
    return F.elu(x, a["alpha"])


@op("celu")
def celu(a, x):
    # F.celu's gradient takes 1 / alpha as a 32-bit float, and so does F.hardsigmoid's 1 / 6.
    return x.clamp(min=0) + (a["alpha"] * torch.expm1(x.clamp(max=0) / a["alpha"]))


@op("clamp")
def clamp(a, x):
    if x.is_floating_point():
        return torch.clamp(x, a["alpha"], a["beta"])
    return torch.clamp(x, int(a["alpha"]), int(a["beta"]))


@op("softplus")
def softplus(a, x):
    return F.softplus(x, a["alpha"], a["beta"])


@op("affine")
def affine(a, x):
    if x.is_floating_point():
        return x * a["alpha"] + a["beta"]
    return x * int(a["alpha"]) + int(a["beta"])


@op("cast")
def cast(a, x):
    return x.to(DTYPES[a["dtype"]])


BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "pow": torch.pow,
    "remainder": torch.remainder, "min": torch.minimum, "max": torch.maximum,
    "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
    "bit_and": torch.bitwise_and, "bit_or": torch.bitwise_or, "bit_xor": torch.bitwise_xor,
    "shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift,
    "and": torch.logical_and, "or": torch.logical_or, "xor": torch.logical_xor,
}


@op(*BINARY)
def binary(a, x, y, name):
    return BINARY[name](x, y)


@op("div")
def div(a, x, y):
    return torch.div(x, y, rounding_mode=None if x.is_floating_point() else "trunc")


@op("prelu")
def prelu(a, x, slope):
    return torch.where(x > 0, x, x * slope)  # F.prelu does not broadcast


@op("relu_grad")
def relu_grad(a, dy, y):
    return torch.where(y > 0, dy, torch.zeros_like(dy))


@op("where")
def where(a, condition, x, y):
    return torch.where(condition, x, y)


@op("fused")
def fused(a, *inputs):
    from registry import FUNCTIONS

    shape = torch.broadcast_shapes(*[x.shape for x in inputs])
    values = list(inputs)
    for instr in a["instr"]:
        values.append(FUNCTIONS[instr["op"]](instr, *[values[k] for k in instr["in"]]))
    return [values[k].expand(shape) for k in a["out"]]
