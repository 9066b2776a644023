# SPDX-License-Identifier: Apache-2.0
"""The zoo's models in PyTorch, as the workers have them, and torchvision's word on its own."""
import pathlib
import sys

import torchvision

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "stacks/torch"))
from models import OWN, criterion, make, training_loss, without_dropout  # noqa: E402, F401


def published(name):
    """(parameters, multiply-adds in 1e9) that torchvision states, or None."""
    if name in OWN:
        return None
    weights = torchvision.models.get_model_weights(name)["IMAGENET1K_V1"]
    return weights.meta["num_params"], weights.meta["_ops"]
