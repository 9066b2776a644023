# SPDX-License-Identifier: Apache-2.0
"""The zoo's models in PyTorch: torchvision's, and those that it does not have."""
import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torchvision.ops import StochasticDepth


class MnistCnn(nn.Module):
    """The CNN of PyTorch's MNIST example."""

    def __init__(self, num_classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.conv2 = nn.Conv2d(10, 20, 5)
        self.conv2_drop = nn.Dropout2d()
        self.fc1 = nn.Linear(320, 50)
        self.fc1_drop = nn.Dropout()
        self.fc2 = nn.Linear(50, num_classes)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv2(x)), 2))
        x = self.fc1_drop(F.relu(self.fc1(x.flatten(1))))
        return F.log_softmax(self.fc2(x), 1)


class LeNet5(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, num_classes)

    def forward(self, x):
        x = F.avg_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.avg_pool2d(torch.tanh(self.conv2(x)), 2).flatten(1)
        return self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x)))))


OWN = {"mnist_cnn": MnistCnn, "lenet5": LeNet5}
AUX_WEIGHT = {"googlenet": 0.3, "inception_v3": 0.4}


def make(name):
    if name in OWN:
        return OWN[name]()
    options = {"aux_logits": True, "init_weights": True} if name in AUX_WEIGHT else {}
    return getattr(torchvision.models, name)(weights=None, **options)


def published(name):
    """(parameters, multiply-adds in 1e9) that torchvision states, or None."""
    if name in OWN:
        return None
    weights = torchvision.models.get_model_weights(name)["IMAGENET1K_V1"]
    return weights.meta["num_params"], weights.meta["_ops"]


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, (nn.Dropout, nn.Dropout2d, StochasticDepth)):
            module.p = 0.0
    return model


def training_loss(name, model, x, y):
    """(loss, logits) of the training mode, auxiliary heads included."""
    out = model(x)
    if name == "mnist_cnn":
        return F.nll_loss(out, y), out
    if name not in AUX_WEIGHT:
        return F.cross_entropy(out, y), out
    main, heads = out.logits, [v for k, v in out._asdict().items() if k != "logits"]
    return (F.cross_entropy(main, y)
            + AUX_WEIGHT[name] * sum(F.cross_entropy(h, y) for h in heads)), main
