# SPDX-License-Identifier: Apache-2.0
"""The reference implementation's side of test_safetensors.c.

    peer_safetensors.py write PATH   save the tensors that the test expects
    peer_safetensors.py check PATH   load what the test wrote; exit 1 unless it is that
"""
import sys

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

TENSORS = {
    "weight": np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 8 - 1,
    "größe": np.array([-(2**63), 2**63 - 1], dtype=np.int64),
    "flags": np.array([True, False, True]),
    "half": np.array(1.5, dtype=np.float16),
    "empty": np.zeros((0, 3), dtype=np.uint8),
}
METADATA = {"format": "plumb", "quote\"d\\": "line\nbreak é"}


def main() -> int:
    command, path = sys.argv[1:]
    if command == "write":
        save_file(TENSORS, path, metadata=METADATA)
        return 0
    with safe_open(path, framework="numpy") as file:
        same = set(file.keys()) == set(TENSORS) and file.metadata() == METADATA
        for name, expected in TENSORS.items() if same else ():
            found = file.get_tensor(name)
            same &= found.dtype == expected.dtype and found.shape == expected.shape
            same &= np.array_equal(found, expected)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
