#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include "..." below src/ and include/ against LAYERS, and that none of our own
stands in angle brackets. Exit: 0 all are allowed, 1 some are not, or there was nothing to check."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUFFIXES = {".c", ".h", ".i", ".inc", ".def", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
ANGLED = re.compile(r"^\s*#\s*include\s+<([^>]+)>")


def read_layers(text):
    layers = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        folder, colon, allowed = line.partition(":")
        if not colon or folder in layers:
            sys.exit(f"LAYERS:{number}: expected 'folder: folders', each folder once")
        layers[folder] = set(allowed.split())
    for folder, allowed in layers.items():
        for other in allowed - set(layers):
            sys.exit(f"LAYERS: {folder} names {other}, which has no line of its own")
    return layers


def layer_of(folder, layers):
    """The nearest folder at or above `folder` that has a line, or None."""
    while folder and folder not in layers:
        folder = folder.rpartition("/")[0]
    return folder or None


def complaints(path, text, layers):
    """Yields a line for every include of src/<path> (or include/...) that LAYERS does not allow."""
    public = path.startswith("include/")
    layer = None if public else layer_of(str(pathlib.PurePosixPath(path[4:]).parent), layers)
    if not public and layer is None:
        yield f"{path}: its folder has no line in LAYERS"
        return
    for number, line in enumerate(text.splitlines(), 1):
        match, angled = INCLUDE.match(line), ANGLED.match(line)
        if angled and layer_of(str(pathlib.PurePosixPath(angled[1]).parent), layers):
            yield f'{path}:{number}: <{angled[1]}> is our own: write it as "{angled[1]}"'
        if not match or match[1].startswith("plumb/"):
            continue
        target = layer_of(str(pathlib.PurePosixPath(match[1]).parent), layers)
        if public:
            yield f'{path}:{number}: a public header includes "{match[1]}"'
        elif target is None:
            yield f'{path}:{number}: "{match[1]}": write it as "folder/file.h", seen from src/'
        elif target != layer and target not in layers[layer]:
            yield f"{path}:{number}: {layer} may not include {target} ({match[1]})"


def main():
    layers = read_layers((ROOT / "LAYERS").read_text(encoding="utf-8"))
    passed = failed = 0
    for top in ("src", "include"):
        for file in sorted(f for f in (ROOT / top).rglob("*") if f.suffix in SUFFIXES):
            path = file.relative_to(ROOT).as_posix()
            found = list(complaints(path, file.read_text(encoding="utf-8"), layers))
            for line in found:
                print(line)
            passed, failed = passed + (not found), failed + bool(found)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    if not passed + failed:
        sys.exit(f"check_layers: no file to check below {ROOT}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
