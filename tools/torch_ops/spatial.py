# SPDX-License-Identifier: Apache-2.0
"""Convolution, pooling, resampling; and the matrix product."""
import torch
import torch.nn.functional as F

from registry import activated, op, pulled_back

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
ADAPTIVE = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
INT8 = {"u8": "uint8", "i8": "int8"}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def padded(a, x, value=0.0):
    pads = [p for pair in zip(reversed(a["pad_begin"]), reversed(a["pad_end"])) for p in pair]
    return F.pad(x, pads, value=value)


def convolved(a, x, w):
    return CONV[x.dim() - 2](padded(a, x), w, None, a["stride"], 0, a["dilation"], a["groups"])


@op("conv")
def conv(a, x, w, bias=None, residual=None):
    y = convolved(a, x, w)
    if bias is not None:
        y = y + bias.reshape(-1, *[1] * (x.dim() - 2))
    return activated(a, y if residual is None else y + residual)


@op("conv_input_grad")
def conv_input_grad(a, dy, w):
    x = torch.zeros(dy.shape[0], w.shape[1] * a["groups"], *a["extent"], dtype=dy.dtype)
    return pulled_back(lambda x: convolved(a, x, w), x, dy)


@op("conv_weight_grad")
def conv_weight_grad(a, x, dy):
    w = torch.zeros(dy.shape[1], x.shape[1] // a["groups"], *a["extent"], dtype=dy.dtype)
    return pulled_back(lambda w: convolved(a, x, w), w, dy)


def requantised(a, acc, multiplier, bias):
    """What becomes of a sum of products of integers; channels stand on the last axis."""
    y = (acc + bias) * multiplier
    if a["dtype"] == "f32":
        return y.clamp(a["low"], a["high"]).to(torch.float32)
    return (y.round() + a["y_zero"]).clamp(a["low"], a["high"]).to(getattr(torch, INT8[a["dtype"]]))


@op("int8_conv")
def int8_conv(a, x, w, multiplier, bias):
    acc = convolved(a, x.double() - a["x_zero"], w.double()).movedim(1, -1)
    return requantised(a, acc, multiplier, bias).movedim(-1, 1)


@op("int8_matmul")
def int8_matmul(a, x, w, multiplier, bias):
    w = w.double().mT if a["trans_b"] else w.double()
    return requantised(a, (x.double() - a["x_zero"]) @ w, multiplier, bias)


@op("recurrent")
def recurrent(a, x, r, h, c=None, rb=None):
    """PyTorch's cells: gates in another order, the input's products already made."""
    kind, hidden, y = a["kind"], r.shape[1], []
    order = {"lstm": [0, 2, 3, 1], "gru": [1, 0, 2], "gru_reset_after": [1, 0, 2]}.get(kind, [0])

    def turned(v, axis):
        parts = v.split(hidden, axis)
        return torch.cat([parts[i] for i in order], axis)
    eye = torch.eye(x.shape[2], dtype=x.dtype)
    zero = torch.zeros(x.shape[2], dtype=x.dtype)
    w, b = turned(r, 0), zero if rb is None else turned(rb, 0)
    for t in range(x.shape[0])[:: -1 if a["reverse"] else 1]:
        now = turned(x[t], 1)
        if kind == "lstm":
            h, c = torch.lstm_cell(now, (h, c), eye, w, zero, b)
        elif kind == "gru_reset_after":
            h = torch.gru_cell(now, h, eye, w, zero, b)
        elif kind == "gru":  # PyTorch has the other one alone
            rz = torch.sigmoid(now[:, : 2 * hidden] + F.linear(h, w, b)[:, : 2 * hidden])
            reset, z = rz.split(hidden, 1)
            inner = F.linear(reset * h, w[2 * hidden :], b[2 * hidden :])
            n = torch.tanh(now[:, 2 * hidden :] + inner)
            h = (1 - z) * n + z * h
        else:
            cell = torch.rnn_tanh_cell if kind == "rnn_tanh" else torch.rnn_relu_cell
            h = cell(now, h, eye, w, zero, b)
        y.append(h)
    y = torch.stack(y[::-1] if a["reverse"] else y)
    return [y, h, c] if kind == "lstm" else [y, h]


@op("int8_add")
def int8_add(a, x, y):
    z = (x.double() * a["scale_a"] + y.double() * a["scale_b"] + a["shift"]).round() + a["y_zero"]
    return z.clamp(a["low"], a["high"]).to(getattr(torch, INT8[a["dtype"]]))


@op("attention")
def attention(a, q, k, v, mask=None):
    p = a["scale"] * q @ k.mT + (0 if mask is None else mask)
    return (p.softmax(-1) @ v).transpose(1, 2)  # no sample has a query that sees nothing


@op("matmul")
def matmul(a, x, w, bias=None, residual=None):
    y = torch.matmul(x.mT if a["trans_a"] else x, w.mT if a["trans_b"] else w)
    if bias is not None:
        y = y + bias
    return activated(a, y if residual is None else y + residual)


def padding_fits(a):
    """PyTorch pads both ends alike, by half a window at most."""
    return a["pad_begin"] == a["pad_end"] and all(
        2 * p <= k for p, k in zip(a["pad_begin"], a["kernel"]))


@op("max_pool")
def max_pool(a, x):
    pool, n = MAX_POOL[x.dim() - 2], x.dim() - 2
    if padding_fits(a):
        y, at = pool(x, a["kernel"], a["stride"], a["pad_begin"], a["dilation"],
                     bool(a["ceil_mode"]), True)
        return [y, at.to(torch.int32)]
    wide = padded(a, x, float("-inf"))
    y, at = pool(wide, a["kernel"], a["stride"], 0, a["dilation"], False, True)
    place = torch.zeros_like(at)
    for axis in range(n):  # from positions in the padded plane to those in x
        inner = wide.shape[2 + axis + 1:].numel()
        index = at // inner % wide.shape[2 + axis] - a["pad_begin"][axis]
        place = place * x.shape[2 + axis] + index
    return [y, place.to(torch.int32)]


@op("max_pool_grad")
def max_pool_grad(a, at, dy):
    plane = torch.zeros(*dy.shape[:2], torch.Size(a["extent"]).numel(), dtype=dy.dtype)
    dx = plane.scatter_add(2, at.flatten(2).long(), dy.flatten(2))
    return dx.reshape(*dy.shape[:2], *a["extent"])


@op("max_pool_take")
def max_pool_take(a, at, x):
    return x.flatten(2).gather(2, at.flatten(2).long()).reshape(at.shape)


def averaged(a, x):
    pool = AVG_POOL[x.dim() - 2]
    if padding_fits(a):
        return pool(x, a["kernel"], a["stride"], a["pad_begin"], bool(a["ceil_mode"]),
                    bool(a["count_include_pad"]))
    y = pool(padded(a, x), a["kernel"], a["stride"])
    if a["count_include_pad"]:
        return y
    return y / pool(padded(a, torch.ones_like(x)), a["kernel"], a["stride"])


@op("avg_pool")
def avg_pool(a, x):
    return averaged(a, x)


def zeros_of_extent(a, dy):
    return torch.zeros(*dy.shape[:2], *a["extent"], dtype=dy.dtype)


@op("avg_pool_grad")
def avg_pool_grad(a, dy):
    return pulled_back(lambda x: averaged(a, x), zeros_of_extent(a, dy), dy)


@op("adaptive_avg_pool")
def adaptive_avg_pool(a, x):
    return ADAPTIVE[x.dim() - 2](x, a["extent"])


@op("adaptive_avg_pool_grad")
def adaptive_avg_pool_grad(a, dy):
    pool = ADAPTIVE[dy.dim() - 2]
    return pulled_back(lambda x: pool(x, dy.shape[2:]), zeros_of_extent(a, dy), dy)


def resampled(a, x, extent):
    n = x.dim() - 2
    mode = {"nearest": "nearest", "linear": LINEAR[n], "cubic": "bicubic"}[a["mode"]]
    corners = None if mode == "nearest" else bool(a["align_corners"])
    if not any(a["scale"]):
        return F.interpolate(x, extent, mode=mode, align_corners=corners)
    return F.interpolate(x, scale_factor=a["scale"], mode=mode, recompute_scale_factor=False,
                         align_corners=corners)


@op("interpolate")
def interpolate(a, x):
    return resampled(a, x, a["extent"])


@op("interpolate_grad")
def interpolate_grad(a, dy):
    return pulled_back(lambda x: resampled(a, x, list(dy.shape[2:])), zeros_of_extent(a, dy), dy)
