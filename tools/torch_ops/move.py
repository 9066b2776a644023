# SPDX-License-Identifier: Apache-2.0
"""Indexing and shapes."""
import torch

from pointwise import DTYPES
from registry import op, pulled_back, without


@op("reorder")
def reorder(a, x):
    return x  # the layout in memory is not its business


def taken(x, index, axis):
    shape = x.shape[:axis] + index.shape + x.shape[axis + 1:]
    return torch.index_select(x, axis, index.flatten()).reshape(shape)


@op("take")
def take(a, x, index):
    return taken(x, index, a["axis"])


@op("take_grad")
def take_grad(a, dy, index):
    axis = a["axis"]
    shape = [*dy.shape[:axis], a["extent"], *dy.shape[axis + index.dim():]]
    return pulled_back(lambda x: taken(x, index, axis), torch.zeros(shape, dtype=dy.dtype), dy)


@op("gather")
def gather(a, x, index):
    return torch.gather(x, a["axis"], index)


@op("scatter")
def scatter(a, x, index, source):
    return torch.scatter(x, a["axis"], index, source)


@op("scatter_add")
def scatter_add(a, x, index, source):
    return torch.scatter_add(x, a["axis"], index, source)


@op("nonzero")
def nonzero(a, x):
    found = torch.nonzero(x)
    rows = torch.zeros(x.numel(), x.dim(), dtype=torch.int64)
    rows[:len(found)] = found
    return [rows, torch.tensor(len(found))]


@op("iota")
def iota(a):
    shape, axis = a["shape"], a["axis"]
    line = torch.arange(shape[axis], dtype=DTYPES[a["dtype"]])
    return line.reshape([-1 if i == axis else 1 for i in range(len(shape))]).expand(shape)


@op("concat")
def concat(a, *parts):
    return torch.cat(parts, a["axis"])


def picked(x, indices):
    """indices[i]: which elements of axis i, in order."""
    for axis, index in enumerate(indices):
        x = torch.index_select(x, axis, index)
    return x


def slice_indices(a, shape):
    return [b + s * torch.arange(n) for b, s, n in zip(a["begin"], a["step"], shape)]


@op("slice")
def slice_(a, x):
    return picked(x, slice_indices(a, a["shape"]))


@op("slice_grad")
def slice_grad(a, dy):
    whole = torch.zeros(a["shape"], dtype=dy.dtype)
    return pulled_back(lambda x: picked(x, slice_indices(a, dy.shape)), whole, dy)


def pads_of(a, rank):
    missing = [0] * (rank - len(a["before"]))
    return a["before"] + missing, a["after"] + missing


def stretched(a, x):
    """Padding with elements of x itself."""
    indices = []
    for n, before, after in zip(x.shape, *pads_of(a, x.dim())):
        i = torch.arange(-before, n + after)
        if a["mode"] == "reflect":
            i = (n - 1) - ((n - 1) - i.abs()).abs()
        indices.append(i.clamp(0, n - 1))
    return picked(x, indices)


@op("pad")
def pad(a, x):
    if a["mode"] != "constant":
        return stretched(a, x)
    before, after = pads_of(a, x.dim())
    both = [p for pair in zip(reversed(before), reversed(after)) for p in pair]
    value = a["value"] if x.is_floating_point() else int(a["value"])
    return torch.nn.functional.pad(x, both, value=value) if both else x


@op("pad_grad")
def pad_grad(a, dy):
    shape = [n - b - e for n, b, e in zip(dy.shape, *pads_of(a, dy.dim()))]
    return pulled_back(lambda x: stretched(a, x), torch.zeros(shape, dtype=dy.dtype), dy)


@op("reshape")
def reshape(a, x):
    return x.reshape(a["shape"])


@op("permute")
def permute(a, x):
    return x.permute(a["axes"][:x.dim()])


@op("expand")
def expand(a, x):
    return x.expand(a["shape"])


@op("flip")
def flip(a, x):
    return torch.flip(x, a["axes"])


for name in ("dropout", "random_uniform", "random_normal"):
    without(name, "its random numbers are ours")
