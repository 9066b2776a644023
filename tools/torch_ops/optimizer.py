# SPDX-License-Identifier: Apache-2.0
"""Steps of PyTorch's own optimizers, with given moments."""
import torch

from registry import op


def stepped(kind, w, g, state, lr, **settings):
    parameter = torch.nn.Parameter(w.detach().clone())
    parameter.grad = g.detach().clone()
    optimizer = kind([parameter], foreach=False, **settings)
    optimizer.param_groups[0]["lr"] = float(lr)  # negative ones too
    optimizer.state[parameter] = state
    optimizer.step()
    return parameter.detach()


@op("sgd")
def sgd(a, w, g, m, lr, step=None):
    state = {} if m is None else {"momentum_buffer": m.detach().clone()}
    new = stepped(torch.optim.SGD, w, g, state, lr, momentum=a["momentum"],
                  dampening=a["dampening"], weight_decay=a["weight_decay"],
                  nesterov=bool(a["nesterov"]))
    return [new] if m is None else [new, state["momentum_buffer"]]


@op("adam")
def adam(a, w, g, m, v, lr, step):
    state = {"step": step.detach() - 1, "exp_avg": m.detach().clone(),
             "exp_avg_sq": v.detach().clone()}
    kind = torch.optim.AdamW if a["decoupled"] else torch.optim.Adam
    new = stepped(kind, w, g, state, lr, betas=(a["beta1"], a["beta2"]), eps=a["eps"],
                  weight_decay=a["weight_decay"])
    return [new, state["exp_avg"], state["exp_avg_sq"]]
