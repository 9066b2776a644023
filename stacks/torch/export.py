# SPDX-License-Identifier: Apache-2.0
"""Writes a model with its weights for other stacks, at one shape, as TorchScript (traced, not
frozen):

    export.py '{"path":…,"model":…,"weights":…,"batch":…,"size":…,"classes":…,"channels":…}'

Evaluation mode, f32. A failure is one line on standard error that begins with "export: ", and
status 1.
"""
import io
import json
import pathlib
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

import models  # noqa: E402
from plumb_stack.errors import one_line  # noqa: E402


def export(wanted):
    if not models.known(wanted["model"]):
        raise ValueError(f"torchvision has no model {wanted['model']}")
    model = models.make(wanted["model"], num_classes=wanted["classes"], size=wanted["size"],
                        draw=False)
    state = load_file(wanted["weights"])
    missing, unknown = model.load_state_dict(state, strict=False)
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if missing or unknown:
        raise ValueError(f"{wanted['weights']}: no tensor {(missing + unknown)[0]}")
    model.eval()
    x = torch.zeros(wanted["batch"], wanted["channels"], wanted["size"], wanted["size"])
    with torch.no_grad():
        traced = torch.jit.trace(model, x, check_trace=False)
    # By way of memory: PyTorch's own writer aborts the process where the disk is full.
    saved = io.BytesIO()
    torch.jit.save(traced, saved)
    with open(wanted["path"], "wb") as file:
        file.write(saved.getbuffer())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    try:
        export(json.loads(sys.argv[1]))
    except Exception as error:  # pylint: disable=broad-except
        sys.exit("export: " + one_line(error))
