# SPDX-License-Identifier: Apache-2.0
"""Losses of classes."""
import torch
import torch.nn.functional as F

from registry import op, pulled_back


def entropy(a, x, target, weight):
    return F.cross_entropy(x, target, weight, ignore_index=a["ignore_index"],
                           reduction=a["reduction"], label_smoothing=a["smoothing"])


def likelihood(a, x, target, weight):
    return F.nll_loss(x, target, weight, ignore_index=a["ignore_index"], reduction=a["reduction"])


@op("cross_entropy")
def cross_entropy(a, x, target, weight=None):
    return entropy(a, x, target, weight)


@op("cross_entropy_grad")
def cross_entropy_grad(a, dy, x, target, weight=None):
    return pulled_back(lambda x: entropy(a, x, target, weight), x, dy)


@op("nll")
def nll(a, x, target, weight=None):
    return likelihood(a, x, target, weight)


@op("nll_grad")
def nll_grad(a, dy, target, weight=None):
    x = torch.zeros(target.shape[0], a["classes"], *target.shape[1:], dtype=dy.dtype)
    return pulled_back(lambda x: likelihood(a, x, target, weight), x, dy)
