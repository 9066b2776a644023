# SPDX-License-Identifier: Apache-2.0
"""The worker of PyTorch's stacks:  worker.py torch-eager|torch-script|torch-compile|torch-cudagraph

What all have in common is in session.py; a stack of them is one small file.
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
if os.environ.get("PLUMB_CACHE"):
    # Before torch is imported, which reads it once.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR",
                          os.path.join(os.environ["PLUMB_CACHE"], "inductor"))

from plumb_stack import worker  # noqa: E402


def make_stack(name):
    if name == "torch-eager":
        from eager import Eager
        return Eager()
    if name == "torch-script":
        from script import Script
        return Script()
    if name == "torch-compile":
        from compiled import Compile
        return Compile()
    if name == "torch-cudagraph":
        from cudagraph import CudaGraph
        return CudaGraph()
    sys.exit(f"worker.py: no stack {name}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[0])
    worker.run(make_stack(sys.argv[1]))
