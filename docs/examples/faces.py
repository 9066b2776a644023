#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds faces on a photo with the network ultraface-rfb-320.onnx, run by `plumb predict`, and draws
boxes around them:

    docs/examples/faces.py ultraface-rfb-320.onnx photo.jpg boxes.png

PLUMB names the program, else the one on the path. Needs numpy and Pillow.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image, ImageDraw

WIDTH, HEIGHT = 320, 240
LEAST_SCORE, MOST_OVERLAP = 0.7, 0.3


def prepared(photo):
    """The photo as the network wants it: [1, 3, 240, 320], numbers around 0."""
    pixels = np.asarray(photo.resize((WIDTH, HEIGHT)), np.float32)
    return ((pixels - 127) / 128).transpose(2, 0, 1)[None].copy()


def run(model, x):
    """Scores [1, N, 2] and boxes [1, N, 4]: corners as shares of width and height."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", x)
        subprocess.run([os.environ.get("PLUMB", "plumb"), "predict", model, f"{folder}/x.npy",
                        "--save", folder], check=True, stdout=subprocess.DEVNULL)
        return np.load(f"{folder}/0.npy"), np.load(f"{folder}/1.npy")


def overlap(box, others):
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=1)
    sizes = np.prod(others[:, 2:] - others[:, :2], axis=1)
    return shared / (np.prod(box[2:] - box[:2]) + sizes - shared)


def faces(scores, boxes):
    """(score, box) of each face, the surest first; of boxes that overlap the surest stays."""
    score = scores[0, :, 1]
    left = np.argsort(-score, kind="stable")
    left = left[score[left] > LEAST_SCORE]
    found = []
    while len(left):
        best, left = left[0], left[1:]
        found.append((float(score[best]), boxes[0, best]))
        left = left[overlap(boxes[0, best], boxes[0, left]) <= MOST_OVERLAP]
    return found


def draw(photo, found, path):
    photo = photo.copy()
    pen, size = ImageDraw.Draw(photo), np.array(photo.size * 2)
    for _, box in found:
        pen.rectangle([float(v) for v in box * size], outline=(255, 40, 40), width=3)
    photo.save(path)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    model, photo_path, out = map(pathlib.Path, sys.argv[1:])
    photo = Image.open(photo_path).convert("RGB")
    found = faces(*run(model, prepared(photo)))
    draw(photo, found, out)
    for score, box in found:
        print(f"{score:.3f}  {' '.join(f'{v:.4f}' for v in box)}")


if __name__ == "__main__":
    main()
