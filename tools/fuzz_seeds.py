#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the first inputs in fuzz/corpus/npy and fuzz/corpus/safetensors anew.

Run from the root, with numpy and safetensors. Pictures come from tools/golden_images.py --seeds.
"""
import json
import pathlib
import struct

import numpy as np
from safetensors.numpy import save

CORPUS = pathlib.Path("fuzz/corpus")


def npy_seeds() -> None:
    arrays = {"scalar": np.array(1.5, "<f4"), "empty": np.zeros((0, 3), "<f8"),
              "big": np.arange(6, dtype=">i2").reshape(2, 3),
              "fortran": np.asfortranarray(np.arange(8, dtype="<u4").reshape(2, 2, 2)),
              "bool": np.array([True, False]), "records": np.zeros(2, [("a", "<f4")])}
    for i, (name, array) in enumerate(arrays.items()):
        with open(CORPUS / "npy" / f"{name}.npy", "wb") as file:
            np.lib.format.write_array(file, array, version=(1 + i % 3, 0))


def safetensors_seeds() -> None:
    folder = CORPUS / "safetensors"
    tensors = {"a": np.arange(6, dtype="<f4").reshape(2, 3), "b": np.array([True]),
               "é\n": np.zeros((0, 2), "<i8")}
    (folder / "three.safetensors").write_bytes(save(tensors, {"format": "pt", "k": "v"}))
    (folder / "none.safetensors").write_bytes(save({}))
    header = json.dumps({"odd": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}).encode()
    header += b" " * (1 - len(header) % 2)  # odd: the values are misaligned
    data = struct.pack("<Q", len(header)) + header + bytes(8)
    (folder / "misaligned.safetensors").write_bytes(data)


if __name__ == "__main__":
    npy_seeds()
    safetensors_seeds()
