# SPDX-License-Identifier: Apache-2.0
"""Reductions, scans, softmax and sorting."""
import warnings

import torch

from registry import op

warnings.filterwarnings("ignore", message="var")  # of lines that are not there


def axes_of(a, x):
    axes = [i for i in range(x.dim()) if a["axes"] >> i & 1]
    return axes or list(range(x.dim()))


def one_axis_at_a_time(function, a, x):
    for axis in sorted(axes_of(a, x), reverse=True):
        x = function(x, axis)
    return x


@op("reduce_sum")
def reduce_sum(a, x):
    return torch.sum(x, axes_of(a, x), bool(a["keep"]), dtype=x.dtype)


@op("reduce_mean")
def reduce_mean(a, x):
    return torch.mean(x, axes_of(a, x), bool(a["keep"]))


@op("reduce_prod")
def reduce_prod(a, x):
    keep = bool(a["keep"])
    return one_axis_at_a_time(lambda x, i: torch.prod(x, i, keep, dtype=x.dtype), a, x)


@op("reduce_max")
def reduce_max(a, x):
    return torch.amax(x, axes_of(a, x), bool(a["keep"]))


@op("reduce_min")
def reduce_min(a, x):
    return torch.amin(x, axes_of(a, x), bool(a["keep"]))


@op("reduce_any")
def reduce_any(a, x):
    return one_axis_at_a_time(lambda x, i: torch.any(x, i, bool(a["keep"])), a, x)


@op("reduce_all")
def reduce_all(a, x):
    return one_axis_at_a_time(lambda x, i: torch.all(x, i, bool(a["keep"])), a, x)


@op("reduce_var")
def reduce_var(a, x):
    return torch.var(x, axes_of(a, x), correction=a["p"], keepdim=bool(a["keep"]))


@op("reduce_norm")
def reduce_norm(a, x):
    return torch.linalg.vector_norm(x, a["p"], axes_of(a, x), bool(a["keep"]))


@op("reduce_logsumexp")
def reduce_logsumexp(a, x):
    return torch.logsumexp(x, axes_of(a, x), bool(a["keep"]))


@op("arg_max")
def arg_max(a, x):
    return torch.argmax(x, a["axis"], bool(a["keep"]))


@op("arg_min")
def arg_min(a, x):
    return torch.argmin(x, a["axis"], bool(a["keep"]))


@op("softmax")
def softmax(a, x):
    return torch.softmax(x, a["axis"])


@op("log_softmax")
def log_softmax(a, x):
    return torch.log_softmax(x, a["axis"])


@op("softmax_grad")
def softmax_grad(a, dy, y):
    return torch.ops.aten._softmax_backward_data(dy, y, a["axis"], dy.dtype)


@op("log_softmax_grad")
def log_softmax_grad(a, dy, y):
    return torch.ops.aten._log_softmax_backward_data(dy, y, a["axis"], dy.dtype)


@op("cumsum")
def cumsum(a, x):
    if x.dim() == 0:
        return torch.cumsum(x, 0, dtype=x.dtype)
    axis = a["axis"]
    if a["reverse"]:
        x = x.flip(axis)
    y = torch.cumsum(x, axis, dtype=x.dtype)
    if a["exclusive"]:
        y = y - x
    return y.flip(axis) if a["reverse"] else y


@op("top_k")
def top_k(a, x):
    return list(torch.topk(x, a["k"], a["axis"], bool(a["descending"])))


@op("sort")
def sort(a, x):
    return list(torch.sort(x, dim=a["axis"], descending=bool(a["descending"]), stable=True))
