#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/images.txt: what PIL and torchvision make of images.

    tools/golden_images.py [--seeds] [--data ../shared/data]

Run from the root, with Pillow, numpy and torchvision. With --seeds it first makes the small files
in fuzz/corpus/jpeg and fuzz/corpus/png anew (deterministic; the encoder of another Pillow may give
other JPEG bytes). Then it describes every seed that PIL can read, and the photos of the test data.

A line holds: path; height, width and CRC-32 of the RGB bytes; height, width and CRC of
Resize(256); CRC of Resize((32, 32)); CRC of CenterCrop(224) of the former; CRC of its normalised
f32 bytes [3, 224, 224]; sixteen samples of the RGB bytes, at i * size // 16.
"""
import argparse
import io
import pathlib
import struct
import tarfile
import warnings
import zlib

import numpy as np
from PIL import Image
from torchvision import transforms

import whole_file

CORPUS = pathlib.Path("fuzz/corpus")
GOLDEN = pathlib.Path("tests/golden/images.txt")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HEIGHT, WIDTH = 17, 23


def picture(channels: int, top: int) -> np.ndarray:
    """[HEIGHT, WIDTH, channels] of 0 to top: gradients with noise."""
    y, x, c = np.meshgrid(range(HEIGHT), range(WIDTH), range(channels), indexing="ij")
    noise = np.random.default_rng(1).uniform(-0.2, 0.2, y.shape)
    wave = 0.5 + 0.4 * np.sin(x / (3 + c) + y / (5 - c / 2))
    return np.clip(np.round((wave + noise) * top), 0, top).astype(np.uint16)


def packed_row(row: np.ndarray, depth: int) -> bytes:
    """[width, channels] samples, most significant bit first."""
    flat = row.reshape(-1)
    if depth == 16:
        return flat.astype(">u2").tobytes()
    if depth == 8:
        return flat.astype(np.uint8).tobytes()
    bits = (flat[:, None] >> np.arange(depth)[::-1]) & 1
    return np.packbits(bits.astype(np.uint8)).tobytes()


def paeth(a: int, b: int, c: int) -> int:
    p = a + b - c
    return min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]


def filtered(rows: list, step: int) -> bytes:
    """PNG's five filters in turn."""
    out, above = bytearray(), bytes(len(rows[0]) if rows else 0)
    for y, row in enumerate(rows):
        kind = y % 5
        out.append(kind)
        for i, value in enumerate(row):
            a = row[i - step] if i >= step else 0
            b, c = above[i], above[i - step] if i >= step else 0
            out.append((value - (0, a, b, (a + b) // 2, paeth(a, b, c))[kind]) % 256)
        above = row
    return bytes(out)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(image: np.ndarray, colour: int, depth: int, interlaced: bool, colours: int = 256) -> bytes:
    step = max(1, image.shape[2] * depth // 8)
    passes = [(0, 0, 1, 1)]
    if interlaced:
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                  (1, 0, 2, 2), (0, 1, 1, 2)]
    data = b""
    for x0, y0, dx, dy in passes:
        part = image[y0::dy, x0::dx]
        if part.size:
            data += filtered([packed_row(row, depth) for row in part], step)
    header = struct.pack(">IIBBBBB", image.shape[1], image.shape[0], depth, colour, 0, 0,
                         interlaced)
    chunks = [chunk(b"IHDR", header), chunk(b"gAMA", struct.pack(">I", 45455))]
    if colour == 3:
        palette = [(i * 37 % 256, i * 91 % 256, 255 - i) for i in range(min(colours, 1 << depth))]
        chunks += [chunk(b"PLTE", bytes(v for rgb in palette for v in rgb)),
                   chunk(b"tRNS", bytes([0, 128]))]
    elif colour == 2:
        chunks.append(chunk(b"tRNS", struct.pack(">HHH", 1, 2, 3)))
    packed = zlib.compress(data, 9)
    half = len(packed) // 2
    chunks += [chunk(b"IDAT", packed[:half]), chunk(b"IDAT", packed[half:]),
               chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def write_png_seeds() -> None:
    kinds = {0: ("grey", 1, (1, 2, 4, 8, 16)), 2: ("rgb", 3, (8, 16)),
             3: ("palette", 1, (1, 2, 4, 8)), 4: ("grey-alpha", 2, (8, 16)),
             6: ("rgba", 4, (8, 16))}
    for colour, (name, channels, depths) in kinds.items():
        for depth in depths:
            top = 400 if colour == 0 and depth == 16 else (1 << depth) - 1  # PIL clips at 255
            for interlaced in (False, True):
                file = CORPUS / "png" / f"{name}{depth}{'-adam7' if interlaced else ''}.png"
                file.write_bytes(png(picture(channels, top), colour, depth, interlaced))
    short = png(picture(1, 255), 3, 8, False, colours=100)  # most indices have no colour
    (CORPUS / "png" / "palette8-short.png").write_bytes(short)


def write_jpeg_seeds() -> None:
    rgb = Image.fromarray(picture(3, 255).astype(np.uint8), "RGB")
    cmyk = Image.fromarray(picture(4, 255).astype(np.uint8), "CMYK")
    kinds = {
        "grey": (rgb.convert("L"), {}),
        "420": (rgb, {"subsampling": 2}),
        "422": (rgb, {"subsampling": 1, "restart_marker_blocks": 2}),
        "444": (rgb, {"subsampling": 0, "optimize": True}),
        "420-progressive": (rgb, {"subsampling": 2, "progressive": True}),
        "rgb": (rgb, {"keep_rgb": True}),
        "cmyk": (cmyk, {}),
        "pixel": (rgb.crop((0, 0, 1, 1)), {}),
    }
    for name, (image, options) in kinds.items():
        data = io.BytesIO()
        image.save(data, "JPEG", quality=80, **options)
        (CORPUS / "jpeg" / f"{name}.jpg").write_bytes(data.getvalue())
    # The same bytes, declared by Adobe's marker to be YCCK: other colours, as valid.
    data = (CORPUS / "jpeg" / "cmyk.jpg").read_bytes()
    at = data.index(b"Adobe") + 11
    (CORPUS / "jpeg" / "ycck.jpg").write_bytes(data[:at] + b"\x02" + data[at + 1:])


def crc(array) -> str:
    return f"{zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}"


def line(path: str, data: bytes) -> str:
    image = Image.open(io.BytesIO(data)).convert("RGB")
    pixels = np.asarray(image)
    resized = transforms.Resize(256)(image)
    square = transforms.Resize((32, 32))(image)
    crop = transforms.CenterCrop(224)(resized)
    values = transforms.Normalize(MEAN, STD)(transforms.ToTensor()(crop)).numpy()
    flat = pixels.reshape(-1)
    samples = [flat[i * flat.size // 16] for i in range(16)]
    return " ".join(map(str, [
        path, *pixels.shape[:2], crc(pixels), resized.height, resized.width, crc(resized),
        crc(square), crc(crop), crc(values.astype("<f4")), *samples]))


def photos(folder: pathlib.Path):
    for name in ("imagenet-samples.tar", "voc-samples.tar.gz"):
        with tarfile.open(folder / "images" / name) as tar:
            for member in sorted(tar.getmembers(), key=lambda m: m.name):
                if member.name.lower().endswith((".jpeg", ".jpg", ".png")):
                    yield member.name, tar.extractfile(member).read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", action="store_true")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("../shared/data"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # palettes with alpha: convert("RGB") drops it on purpose
    if arguments.seeds:
        write_png_seeds()
        write_jpeg_seeds()
    lines = [line(str(path), path.read_bytes())
             for kind in ("jpeg", "png")
             for path in sorted((CORPUS / kind).glob(f"*.{kind[:2]}*g"))]
    lines += [line(name, data) for name, data in photos(arguments.data)]
    GOLDEN.parent.mkdir(exist_ok=True)
    head = f"# Made by tools/golden_images.py with Pillow {Image.__version__}."
    whole_file.replace_text(GOLDEN, "\n".join([head, *lines]) + "\n")


if __name__ == "__main__":
    main()
