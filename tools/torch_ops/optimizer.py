# SPDX-License-Identifier: Apache-2.0
"""Steps of PyTorch's own optimizers, with given moments."""
import torch

from registry import op


def stepped(kind, w, g, state, lr, unscale, **settings):
    """With a scaled loss gradients are divided first, and 0 says that some were not finite: then
    torch.amp.GradScaler makes no step."""
    parameter = torch.nn.Parameter(w.detach().clone())
    if unscale is not None and float(unscale) == 0:
        return parameter.detach()
    parameter.grad = g.detach() * (1 if unscale is None else unscale.detach())
    optimizer = kind([parameter], foreach=False, **settings)
    optimizer.param_groups[0]["lr"] = float(lr)  # negative ones too
    optimizer.state[parameter] = state
    optimizer.step()
    return parameter.detach()


@op("sgd")
def sgd(a, w, g, m, lr, unscale=None):
    state = {} if m is None else {"momentum_buffer": m.detach().clone()}
    new = stepped(torch.optim.SGD, w, g, state, lr, unscale, momentum=a["momentum"],
                  dampening=a["dampening"], weight_decay=a["weight_decay"],
                  nesterov=bool(a["nesterov"]))
    return [new] if m is None else [new, state["momentum_buffer"]]


@op("adam")
def adam(a, w, g, m, v, lr, step, unscale=None):
    state = {"step": step.detach() - 1, "exp_avg": m.detach().clone(),
             "exp_avg_sq": v.detach().clone()}
    kind = torch.optim.AdamW if a["decoupled"] else torch.optim.Adam
    new = stepped(kind, w, g, state, lr, unscale, betas=(a["beta1"], a["beta2"]), eps=a["eps"],
                  weight_decay=a["weight_decay"])
    return [new, state["exp_avg"], state["exp_avg_sq"]]
