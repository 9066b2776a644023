# SPDX-License-Identifier: Apache-2.0
"""Normalisation."""
import torch
import torch.nn.functional as F

from registry import activated, op


def over_channels(x):
    return [0, *range(2, x.dim())]


def per_channel(v, x):
    return v.reshape(-1, *[1] * (x.dim() - 2))


@op("batch_norm")
def batch_norm(a, x, gamma=None, beta=None, residual=None):
    y = F.batch_norm(x, None, None, gamma, beta, True, 0.0, a["eps"])
    if residual is not None:
        y = y + residual
    mean, axes = x.mean(over_channels(x)), over_channels(x)
    return [activated(a, y), mean, torch.rsqrt(x.var(axes, correction=0) + a["eps"])]


@op("batch_norm_grad")
def batch_norm_grad(a, x, dy, gamma, mean, inv_std, y=None, beta=None, more=None):
    if more is not None:
        dy = dy + more
    if beta is not None:
        y = (x - per_channel(mean, x)) * per_channel(inv_std * gamma, x) + per_channel(beta, x)
    if a.get("activation"):
        with torch.enable_grad():
            u = y.detach().requires_grad_(True)
            dy = dy * torch.autograd.grad(activated(a, u).sum(), u)[0]
    elif y is not None:
        dy = torch.where(y > 0, dy, torch.zeros_like(dy))
    h = (x - per_channel(mean, x)) * per_channel(inv_std, x)
    axes, m = over_channels(x), x.numel() // x.shape[1]
    dbeta, dgamma = dy.sum(axes), (dy * h).sum(axes)
    inner = dy - per_channel(dbeta, x) / m - h * per_channel(dgamma, x) / m
    scale = inv_std if gamma is None else gamma * inv_std
    outputs = [per_channel(scale, x) * inner, dgamma, dbeta]
    return outputs + [dy] if a.get("masked") else outputs


@op("batch_norm_infer")
def batch_norm_infer(a, x, gamma, beta, mean, variance, residual=None):
    scale = torch.rsqrt(variance + a["eps"])
    y = (x - per_channel(mean, x)) * per_channel(scale, x)
    if gamma is not None:
        y = y * per_channel(gamma, x)
    if beta is not None:
        y = y + per_channel(beta, x)
    return activated(a, y if residual is None else y + residual)


@op("layer_norm")
def layer_norm(a, x, gamma=None, beta=None):
    return F.layer_norm(x, x.shape[x.dim() - a["axes"]:], gamma, beta, a["eps"])


@op("group_norm")
def group_norm(a, x, gamma=None, beta=None):
    return F.group_norm(x, a["groups"], gamma, beta, a["eps"])
