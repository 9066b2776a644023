# SPDX-License-Identifier: Apache-2.0
"""Compiles the libtorch worker against the torch of the Python that runs this:  build.py OUTPUT

The CMake package in torch's wheel wants a CUDA toolkit where torch was built with CUDA; the
compiler alone does not. CXX names it (c++), CXXFLAGS adds to its flags.
"""
import importlib.util
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = ["message.cpp", "weights.cpp", "models.cpp", "session.cpp", "worker.cpp"]


def torch_folder():
    found = importlib.util.find_spec("torch")
    if found is None or not found.submodule_search_locations:
        sys.exit(f"build.py: {sys.executable} has no torch")
    return pathlib.Path(found.submodule_search_locations[0])


def flags(torch):
    quoted = {"PLUMB_PYTHON": sys.executable,
              "PLUMB_EXPORTER": str(HERE.parent / "torch/export_cached.py")}
    return (["-std=c++20", "-O2", "-fPIC", "-Wall", "-Wextra", "-Wno-unused-parameter",
             f"-isystem{torch}/include", f"-isystem{torch}/include/torch/csrc/api/include"]
            + [f'-D{name}="{value}"' for name, value in quoted.items()]
            + shlex.split(os.environ.get("CXXFLAGS", "")))


def libraries(torch):
    folder = torch / "lib"
    # torch_cuda registers itself when it is loaded; nothing of it is called by name.
    cuda = [f"-l{name}" for name in ("torch_cuda", "c10_cuda")
            if (folder / f"lib{name}.so").exists()]
    return [f"-L{folder}", f"-Wl,-rpath,{folder}", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu",
            "-lc10", *cuda]


def run(command):
    print(shlex.join(command), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode:
        print(done.stdout, flush=True)
        errors = [line for line in done.stdout.splitlines() if "error" in line]
        raise RuntimeError(errors[0] if errors else f"{command[0]} ended with {done.returncode}")


def build(output):
    torch, compiler = torch_folder(), os.environ.get("CXX", "c++")
    with tempfile.TemporaryDirectory() as folder:
        objects = {source: f"{folder}/{source}.o" for source in SOURCES}
        jobs = min(len(SOURCES), len(os.sched_getaffinity(0)))
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(lambda s: run([compiler, *flags(torch), "-c", str(HERE / s), "-o",
                                         objects[s]]), SOURCES))
        run([compiler, *objects.values(), *libraries(torch), "-o", f"{output}.part"])
    os.replace(f"{output}.part", output)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[0])
    try:
        build(sys.argv[1])
    except (RuntimeError, OSError) as error:
        sys.exit(f"ERROR: {error}")
