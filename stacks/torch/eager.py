# SPDX-License-Identifier: Apache-2.0
"""torch-eager: operator by operator, as PyTorch runs unless told otherwise."""
from session import TorchStack


class Eager(TorchStack):
    name = "torch-eager"
    trace = True
