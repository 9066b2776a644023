#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of the accuracy check: resnet18 on CIFAR-10 by the recipe of

    plumb train resnet18 --data cifar10 --size 32 --batch 128 --lr 0.05 --momentum 0.9
          --weight-decay 5e-4 --schedule cosine --device cuda --math tf32

Usage:
    torch_cifar.py prepare FOLDER|TAR OUT    pictures as train/CLASS/*.jpg to CIFAR's binary records
    torch_cifar.py train FOLDER SEED EPOCHS    prints the test accuracy of each epoch as JSON

Needs a Python with torch, torchvision and pillow; `train` a GPU.
"""
import io
import json
import math
import pathlib
import sys
import tarfile

import numpy as np

BATCH, LR, MOMENTUM, DECAY = 128, 0.05, 0.9, 5e-4
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
FILES = {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]}


def pictures(source):
    """(part, class, name, JPEG) of every picture."""
    if source.is_dir():
        for path in source.glob("*/*/*.jpg"):
            yield path.parts[-3], path.parts[-2], path.name, path.read_bytes()
        return
    with tarfile.open(source) as tar:
        for member in tar:
            words = member.name.split("/")
            if member.isfile() and words[-1].endswith(".jpg"):
                yield words[-3], words[-2], words[-1], tar.extractfile(member).read()


def prepare(source, out):
    """A record is a label, then three planes of 32x32. Pictures of all classes take turns."""
    from PIL import Image
    found = {"train": [], "test": []}
    for part, kind, name, data in pictures(source):
        found[part].append((name, kind, data))
    out.mkdir(parents=True, exist_ok=True)
    for part, items in found.items():
        items.sort(key=lambda item: item[:2])
        kinds = sorted({kind for _, kind, _ in items})
        records = np.empty((len(items), 3073), np.uint8)
        for i, (_, kind, data) in enumerate(items):
            image = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
            records[i, 0] = kinds.index(kind)
            records[i, 1:] = image.transpose(2, 0, 1).reshape(-1)
        for file, share in zip(FILES[part], np.array_split(records, len(FILES[part]))):
            share.tofile(out / file)


def load(folder, part):
    import torch
    records = np.concatenate([np.fromfile(folder / file, np.uint8).reshape(-1, 3073)
                              for file in FILES[part]])
    x = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy()).cuda()
    return x, torch.from_numpy(records[:, 0].astype(np.int64)).cuda()


def train(folder, seed, epochs):
    import torch
    import torchvision
    torch.manual_seed(seed)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    model = torchvision.models.resnet18(weights=None, num_classes=10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM, weight_decay=DECAY,
                                fused=True)
    (x, y), (test_x, test_y) = load(folder, "train"), load(folder, "test")
    mean, std = (torch.tensor(v, device="cuda").view(3, 1, 1) for v in (MEAN, STD))

    def pixels(images):
        return (images / 255 - mean) / std

    accuracies = []
    for epoch in range(epochs):
        optimizer.param_groups[0]["lr"] = LR * (1 + math.cos(math.pi * epoch / epochs)) / 2
        model.train()
        for chosen in torch.randperm(len(x), device="cuda").split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(pixels(x[chosen])), y[chosen]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            hits = sum((model(pixels(a)).argmax(1) == b).sum()
                       for a, b in zip(test_x.split(1000), test_y.split(1000)))
        accuracies.append(hits.item() / len(test_x))
    print(json.dumps({"seed": seed, "test_accuracy": accuracies}))


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "prepare":
        prepare(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    elif len(sys.argv) == 5 and sys.argv[1] == "train":
        train(pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
