# SPDX-License-Identifier: Apache-2.0
"""Indexing, and the losses whose target is a class."""
import torch
from torch.nn import functional

from registry import op


@op("take")
def take(a, x, index):
    axis = a["axis"]
    shape = list(x.shape[:axis]) + list(index.shape) + list(x.shape[axis + 1 :])
    return x.index_select(axis, index.reshape(-1)).reshape(shape)


@op("take_grad")
def take_grad(a, dy, index):
    axis, rows = a["axis"], dy.shape[a["axis"] + index.dim() :]
    flat = dy.reshape(list(dy.shape[:axis]) + [index.numel()] + list(rows))
    dx = torch.zeros(list(dy.shape[:axis]) + [a["extent"]] + list(rows), dtype=dy.dtype)
    return dx.index_add(axis, index.reshape(-1), flat)


@op("gather")
def gather(a, x, index):
    return x.gather(a["axis"], index)


@op("scatter")
def scatter(a, x, index, source):
    return x.scatter(a["axis"], index, source)


@op("scatter_add")
def scatter_add(a, x, index, source):
    return x.scatter_add(a["axis"], index, source)


@op("scatter_reduce")
def scatter_reduce(a, x, index, source):
    return x.scatter_reduce(a["axis"], index, source, a["how"])


@op("nonzero")
def nonzero(_, x):
    found = x.nonzero()
    rows = torch.zeros([x.numel(), x.dim()], dtype=torch.int64)
    rows[: len(found)] = found
    return [rows, torch.tensor(len(found))]


@op("nms")
def nms(a, boxes, scores):
    from torchvision.ops import nms as torchvision_nms
    low, high = boxes[..., :2], boxes[..., 2:]
    if a["centred"]:
        low, high = low - high / 2, low + high / 2
    corners = torch.cat([torch.minimum(low, high), torch.maximum(low, high)], -1)
    found = []
    for batch in range(scores.shape[0]):
        for kind in range(scores.shape[1]):
            good = (scores[batch, kind] > a["least_score"]).nonzero()[:, 0]
            kept = torchvision_nms(corners[batch, good], scores[batch, kind, good],
                                   a["most_overlap"])[: int(a["most"])]
            found += [[batch, kind, int(good[k])] for k in kept]
    most = scores.shape[0] * scores.shape[1] * min(int(a["most"]), boxes.shape[1])
    rows = torch.zeros([most, 3], dtype=torch.int64)
    if found:
        rows[: len(found)] = torch.tensor(found)
    return [rows, torch.tensor(len(found))]


@op("iota")
def iota(a):
    shape, axis = a["shape"], a["axis"]
    dtype = {"f32": torch.float32, "i32": torch.int32, "i64": torch.int64}[a["dtype"]]
    line = torch.arange(shape[axis], dtype=dtype)
    return line.reshape([-1 if i == axis else 1 for i in range(len(shape))]).expand(shape)


@op("cross_entropy")
def cross_entropy(a, x, target, weight=None):
    return functional.cross_entropy(x, target, weight, ignore_index=a["ignore_index"],
                                    reduction=a["reduction"], label_smoothing=a["smoothing"])


@op("nll")
def nll(a, x, target, weight=None):
    return functional.nll_loss(x, target, weight, ignore_index=a["ignore_index"],
                               reduction=a["reduction"])


@op("cross_entropy_grad")
def cross_entropy_grad(a, dy, x, target, weight=None):
    if not x.requires_grad:
        x = x.clone().requires_grad_()
    loss = cross_entropy(a, x, target, weight)
    return torch.autograd.grad(loss, x, dy, create_graph=True)[0]


@op("nll_grad")
def nll_grad(a, dy, target, weight=None):
    shape = [target.shape[0], a["classes"]] + list(target.shape[1:])
    x = torch.zeros(shape, dtype=dy.dtype, requires_grad=True)
    return torch.autograd.grad(nll(a, x, target, weight), x, dy, create_graph=True)[0]
