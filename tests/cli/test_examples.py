#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the programs of docs/examples/ against the installed library, as a user would."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs/examples"


def install(folder):
    build = os.environ["PLUMB_BUILD"]
    subprocess.run(["cmake", "--build", build, "--target", "plumb_manual", "plumb_library"],
                   stdout=subprocess.DEVNULL, check=True)
    subprocess.run(["cmake", "--install", build, "--prefix", folder], stdout=subprocess.DEVNULL,
                   check=True)


class Installed:
    def __init__(self, folder):
        self.folder = folder
        self.env = {**os.environ, "LD_LIBRARY_PATH": f"{folder}/lib",
                    "PKG_CONFIG_PATH": f"{folder}/lib/pkgconfig", "XDG_CACHE_HOME": folder}

    def run(self, *words):
        return subprocess.run([str(w) for w in words], env=self.env, text=True, check=True,
                              stdout=subprocess.PIPE, timeout=120).stdout

    def build(self, name):
        flags = self.run("pkg-config", "--cflags", "--libs", "plumb").split()
        program = f"{self.folder}/{name}"
        self.run("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-O1", EXAMPLES / f"{name}.c",
                 "-o", program, *flags)
        return program


def check_xor(installed):
    out = installed.run(installed.build("xor"))
    found = [float(value) for value in re.findall(r"xor \d = (\S+)", out)]
    assert len(found) == 4 and all(abs(f - w) < 0.1 for f, w in zip(found, (0, 1, 1, 0))), out


def check_classify(installed):
    program, weights = installed.build("classify"), f"{installed.folder}/w.safetensors"
    installed.run(f"{installed.folder}/bin/plumb", "init", "resnet18", "--save", weights)
    out = installed.run(program, weights)
    assert re.search(r"^sample 1: class \d+, logit \S+$", out, re.MULTILINE), out
    assert "slowest: " in out and "planned memory: " in out, out
    bad = subprocess.run([program, program], env=installed.env, text=True, check=False,
                         stderr=subprocess.PIPE)
    assert bad.returncode == 2 and bad.stderr.startswith("classify: "), bad


def check_second_order(installed):
    out = installed.run(installed.build("second_order"))
    found = [float(value) for value in re.findall(r"= (\S+)", out)]
    sine, cosine = 0.9092974268256817, -0.4161468365471424
    wanted = (8 + sine, 12 + cosine, 12 - sine, 6 - cosine)
    assert len(found) == 4 and all(abs(f - w) < 1e-8 for f, w in zip(found, wanted)), out


CHECKS = {"xor": check_xor, "classify": check_classify, "second_order": check_second_order}


def main():
    if os.environ.get("PLUMB_SANITIZE") or not shutil.which("pkg-config"):
        print("skipped: done in the plain build, where pkg-config is installed")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    assert {file.stem for file in EXAMPLES.glob("*.c")} == set(CHECKS)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        install(folder)
        for name, check in CHECKS.items():
            try:
                check(Installed(folder))
            except (AssertionError, subprocess.SubprocessError) as error:
                print(f"FAILED  {name}: {error}")
                failed += 1
    print(f"{len(CHECKS) - failed} passed, {failed} failed, 0 skipped")
    return failed


if __name__ == "__main__":
    sys.exit(main())
