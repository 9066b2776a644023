# SPDX-License-Identifier: Apache-2.0
"""The zoo's models in PyTorch: torchvision's, and those that it does not have, written once, here.

Parameters have the names of the zoo's variables, so that one safetensors file serves both.
"""
import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torchvision.ops import StochasticDepth


class MnistCnn(nn.Module):
    """The CNN of PyTorch's MNIST example; x[N,1,size,size] to log-probabilities [N,classes]."""

    def __init__(self, num_classes=10, size=28):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.conv2 = nn.Conv2d(10, 20, 5)
        self.conv2_drop = nn.Dropout2d()
        self.fc1 = nn.Linear(20 * (((size - 4) // 2 - 4) // 2) ** 2, 50)
        self.fc1_drop = nn.Dropout()
        self.fc2 = nn.Linear(50, num_classes)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv2(x)), 2))
        x = self.fc1_drop(F.relu(self.fc1(x.flatten(1))))
        return F.log_softmax(self.fc2(x), 1)


class LeNet5(nn.Module):
    """LeNet-5 as it is mostly rebuilt today; x[N,1,size,size] to logits [N,classes]."""

    def __init__(self, num_classes=10, size=28):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * ((size // 2 - 4) // 2) ** 2, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, num_classes)

    def forward(self, x):
        x = F.avg_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.avg_pool2d(torch.tanh(self.conv2(x)), 2).flatten(1)
        return self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x)))))


OWN = {"mnist_cnn": MnistCnn, "lenet5": LeNet5}
AUX_WEIGHT = {"googlenet": 0.3, "inception_v3": 0.4}
RANDOM = (nn.Dropout, nn.Dropout2d, StochasticDepth)


def known(name):
    return name in OWN or name in torchvision.models.list_models(module=torchvision.models)


def make(name, size=28, draw=True, **options):
    """The model called `name`, with first values as its family draws them, unless `draw` says that
    nobody will look at them. `size` matters to the small networks alone."""
    if name in OWN:
        return OWN[name](size=size, **options)
    if name in AUX_WEIGHT:
        options |= {"aux_logits": True, "init_weights": draw}
    return getattr(torchvision.models, name)(weights=None, **options)


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, RANDOM):
            module.p = 0.0
    return model


def criterion(name):
    """What compares outputs and labels: mnist_cnn's outputs are logarithms already."""
    return F.nll_loss if name == "mnist_cnn" else F.cross_entropy


def loss_of(name, out, y):
    """(loss, logits) of what the model `name` returned, auxiliary heads included."""
    loss = criterion(name)
    if not isinstance(out, tuple):
        return loss(out, y), out
    main, heads = out.logits, [v for k, v in out._asdict().items() if k != "logits"]
    return loss(main, y) + AUX_WEIGHT[name] * sum(loss(h, y) for h in heads), main


def training_loss(name, model, x, y):
    """(loss, logits) of a forward pass in training mode."""
    return loss_of(name, model(x), y)
