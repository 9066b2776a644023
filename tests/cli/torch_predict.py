# SPDX-License-Identifier: Apache-2.0
"""What torchvision says of three photographs, as JSON, for test_commands.py.

    torch_predict.py PHOTOGRAPHS.tar FOLDER

Weights are random and written to FOLDER as safetensors, photographs are unpacked there. Exits 77
where a package is missing.
"""
import json
import pathlib
import sys
import tarfile

try:
    import torch
    import torchvision
    from PIL import Image
    from safetensors.torch import save_file
    from torchvision import transforms
except ImportError as missing:
    print(f"{missing}", file=sys.stderr)
    sys.exit(77)


def preset(size, resize):
    return transforms.Compose([
        transforms.Resize(resize), transforms.CenterCrop(size), transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])


def settled(name, x):
    """Random weights whose running statistics are those of the pictures, so that outputs differ,
    and whose logits have the deviation 2, so that neither all nor one of the classes are likely."""
    torch.manual_seed(1)
    options = {"aux_logits": False, "init_weights": True} if name == "inception_v3" else {}
    model = getattr(torchvision.models, name)(weights=None, **options)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        model.train()(x)
        model.fc.weight *= 2 / model.eval()(x).std()
    return model


def case(name, dtype, files, folder):
    size, resize = (299, 342) if name == "inception_v3" else (224, 256)
    pictures = [Image.open(file).convert("RGB") for file in files]
    x = torch.stack([preset(size, resize)(picture) for picture in pictures])
    model = settled(name, x)
    weights = str(folder / f"{name}-{dtype}.safetensors")
    # Saved in a narrower type, the values that both sides compute with are the narrow ones.
    state = {key: value.to(getattr(torch, dtype)) if value.is_floating_point() else value
             for key, value in model.state_dict().items()}
    save_file({key: value.contiguous() for key, value in state.items()}, weights)
    model.load_state_dict({key: value.double() if value.is_floating_point() else value
                           for key, value in state.items()})
    with torch.no_grad():
        probabilities = model.double()(x.double()).softmax(1)
    values, indices = probabilities.topk(5)
    return {"model": name, "dtype": dtype, "weights": weights, "files": [str(f) for f in files],
            "top": [list(zip(i, v)) for i, v in zip(indices.tolist(), values.tolist())]}


def main():
    folder = pathlib.Path(sys.argv[2])
    with tarfile.open(sys.argv[1]) as archive:
        members = [m for m in archive.getmembers() if m.name.endswith(".JPEG")][:3]
        files = []
        for member in members:
            files.append(folder / pathlib.Path(member.name).name)
            files[-1].write_bytes(archive.extractfile(member).read())
    torch.set_num_threads(2)
    print(json.dumps([case("resnet18", "float32", files, folder),
                      case("resnet18", "float16", files, folder),
                      case("inception_v3", "float32", files, folder)]))


if __name__ == "__main__":
    main()
