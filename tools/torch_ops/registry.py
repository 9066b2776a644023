# SPDX-License-Identifier: Apache-2.0
"""What PyTorch calls our ops. A module beside this one holds a family, one small function an op:

    @op("softmax")
    def softmax(a, x):
        return torch.softmax(x, a["axis"])

`a` is the dictionary that the op's `describe` writes; the inputs follow as tensors (f64 where they
are floats), None for absent ones. The result is a tensor or a list, one for each output; None in
the list: not compared, and no gradient comes from there. Gradients are taken by autograd.
"""
import torch

FUNCTIONS = {}
WITHOUT = {}


def op(*names):
    """The function computes these ops. With several names it gets the name as keyword `name`."""

    def register(function):
        for name in names:
            if len(names) == 1:
                FUNCTIONS[name] = function
            else:
                FUNCTIONS[name] = lambda a, *x, name=name: function(a, *x, name=name)
        return function

    return register


def without(name, reason):
    """PyTorch has no such op: finite differences and the other tests must do."""
    WITHOUT[name] = reason


def pulled_back(function, x, dy):
    """What `function` at x makes of dy on the way back, differentiable in x and dy."""
    x = x if x.requires_grad else x.detach().requires_grad_(True)
    with torch.enable_grad():
        return torch.autograd.grad(function(x), x, dy, create_graph=True)[0]


def activated(a, y):
    """The epilogue's activation."""
    if a.get("activation") == "relu":
        return torch.relu(y)
    if a.get("activation") == "silu":
        return torch.nn.functional.silu(y)
    return torch.clamp(y, a["low"], a["high"]) if a.get("activation") == "clamp" else y
