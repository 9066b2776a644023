# SPDX-License-Identifier: Apache-2.0
"""Ops that move elements. Where each element comes from is numpy's word, not ours."""
import numpy
import torch
from torch.nn import functional

from registry import op


@op("expand")
def expand(a, x):
    return x.expand(a["shape"])


@op("reshape")
def reshape(a, x):
    return x.reshape(a["shape"])


@op("permute")
def permute(a, x):
    return x.permute(a["axes"][: x.dim()])


@op("flip")
def flip(a, x):
    return x.flip(a["axes"])


@op("concat")
def concat(a, *parts):
    return torch.cat(parts, a["axis"])


@op("reorder")
def reorder(_, x):
    return x


def slice_grid(a, part, whole):
    """For each axis the positions in the whole, so that whole[grid] is the slice."""
    axes = []
    for begin, step, extent, n in zip(a["begin"], a["step"], part, whole):
        stop = begin + step * extent
        axes.append(numpy.arange(n)[begin : None if stop < 0 else stop : step][:extent])
    return tuple(torch.from_numpy(i.copy()) for i in numpy.ix_(*axes))


@op("slice")
def slice_(a, x):
    return x[slice_grid(a, a["shape"], x.shape)] if x.dim() else x.clone()


@op("slice_grad")
def slice_grad(a, dy):
    if dy.dim() == 0:
        return dy.clone()
    return torch.zeros(a["shape"], dtype=dy.dtype).index_put(
        slice_grid(a, dy.shape, a["shape"]), dy)


def widths(a, rank):
    return [(list(a[side]) + [0] * rank)[:rank] for side in ("before", "after")]


@op("pad")
def pad(a, x):
    before, after = widths(a, x.dim())
    if a["mode"] == "constant":
        pairs = [width for i in reversed(range(x.dim())) for width in (before[i], after[i])]
        return functional.pad(x, pairs, value=a["value"]) if pairs else x.clone()
    for i in range(x.dim()):
        source = numpy.pad(numpy.arange(x.shape[i]), (before[i], after[i]), mode=a["mode"])
        x = x.index_select(i, torch.from_numpy(source))
    return x


@op("pad_grad")
def pad_grad(a, dy):
    before, after = widths(a, dy.dim())
    for i in range(dy.dim()):
        shape = list(dy.shape)
        shape[i] -= before[i] + after[i]
        source = numpy.pad(numpy.arange(shape[i]), (before[i], after[i]), mode=a["mode"])
        dy = torch.zeros(shape, dtype=dy.dtype).index_add(i, torch.from_numpy(source), dy)
    return dy
