#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `plumb stacks add` asks a family's Python for, it must also have installed."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FAMILY = re.compile(r'FAMILY\((\w+),\s*"[^"]*",\s*"([^"]*)",\s*"[^"]*",\s*"([^"]*)"\)')


def families():
    """(name, folder of the worker, packages) of each family that installs anything."""
    text = (ROOT / "src/stacks/family.def").read_text()
    for name, worker, packages in FAMILY.findall(re.sub(r"//.*", "", text)):
        if list((ROOT / "stacks" / worker).parent.glob("requirements*.txt")):
            yield name, (ROOT / "stacks" / worker).parent, packages.split(",")


def installed(folder):
    for path in folder.glob("requirements*.txt"):
        for line in path.read_text().splitlines():
            if line and not line.startswith("#"):
                name, version = line.split("==")  # a pin, nothing looser
                yield name, version


def main():
    passed = failed = 0
    pins = {}
    for name, folder, packages in families():
        have = dict(installed(folder))
        for package in packages:
            if package in have:
                passed += 1
            else:
                print(f"{name} needs {package}, which {folder.name}/requirements*.txt lack")
                failed += 1
        for package, version in have.items():
            if pins.setdefault(package, version) != version:
                print(f"{package} has two versions: {version} and {pins[package]}")
                failed += 1
    if passed < 6:
        print("src/stacks/family.def could not be read")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
