#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the zoo with PyTorch at small sizes: logits, losses, gradients, running statistics and
ten optimizer steps. Needs PLB_PYTHON, a Python with torch, torchvision and safetensors.

The reference is PyTorch in f64. Our own f64, which goes through the same passes and plan, must
agree with it to 1e-9. In f32 a gradient may be wrong by 1e-3 of its norm where all of PyTorch's are
right within that. Often they are not: an activation that rounding takes to the other side of a
relu's kink changes the gradient of all layers before it, so that two honest f32 runs differ by
several percent in a deep network with a small batch. Then the gradients together may be wrong by
three times what PyTorch's are. As bad luck comes to one of the two alone, a model passes when it
passes with one of six batches.
All else must pass with the first, within 1e-4 or twice the error of PyTorch's f32. Gradients that
are zero but for rounding (of a bias before a batch norm) are held against the norm of all.

This tests graphs, so Winograd kernels are off: with them inception_v3's logits are wrong by 1.2e-4,
without by 4.2e-5, in PyTorch's f32 by 3.0e-5.

PLB_ZOO names the models to run, separated by commas; "all" are all of them. PLB_ZOO_DEVICE=cuda
runs them there, at level PLB_ZOO_LEVEL, and PyTorch on the same device.
"""
import copy
import multiprocessing
import os
import subprocess
import sys
import tempfile

DEFAULT = ("mnist_cnn lenet5 alexnet vgg11_bn resnet18 resnext50_32x4d squeezenet1_1 "
           "mobilenet_v2 mobilenet_v3_large densenet121 mnasnet1_0 shufflenet_v2_x1_0 googlenet "
           "inception_v3 efficientnet_b0").split()
REST = ("vgg11 vgg13 vgg13_bn vgg16 vgg16_bn vgg19 vgg19_bn resnet34 resnet50 resnet101 resnet152 "
        "wide_resnet50_2").split()
SIZES = {"mnist_cnn": 28, "lenet5": 28, "inception_v3": 299}
SEEDS = range(2, 8)
TIGHT = {"mobilenet_v3_large": 1e-7}  # PyTorch takes 1/6 as a float in hardsigmoid's gradient
BATCHES = {"inception_v3": 2, "mnist_cnn": 16, "lenet5": 16}


def leave(reason):
    print(f"skipped: {reason}\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)


try:
    import torch
    import torch_models
    from safetensors.torch import load_file, save_file
except ImportError:
    python = os.environ.get("PLB_PYTHON")
    if not python or os.environ.get("PLB_ZOO_INNER"):
        leave("PLB_PYTHON names no Python with torch, torchvision and safetensors")
    os.execve(python, [python, *sys.argv], {**os.environ, "PLB_ZOO_INNER": "1"})

# Threads that spin for each other stand still on a busy machine.
ENVIRONMENT = {**os.environ, "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"}
DEVICE = "cuda" if os.environ.get("PLB_ZOO_DEVICE") == "cuda" else "cpu"
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
DUMP = os.path.join(os.environ.get("PLUMB_BUILD", "build"), "tests/zoo_dump")


FULL = os.environ.get("PLB_TEST_FULL") == "1"


def batches(name, count):
    size, batch = SIZES.get(name, 224 if FULL else 64), BATCHES.get(name, 3 if FULL else 6)
    channels, classes = (1, 10) if name in torch_models.OWN else (3, 1000)
    return [(torch.randn(batch, channels, size, size), torch.randint(classes, (batch,)))
            for _ in range(count)]


def settled(name, data):
    """A model whose running statistics and norm weights are none of their first values."""
    torch.manual_seed(1)
    model = torch_models.without_dropout(torch_models.make(name))
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    momenta = [m.momentum for m in norms]
    with torch.no_grad():
        for m in norms:
            m.momentum = 1.0
            m.weight.uniform_(0.5, 1.5)
            m.bias.normal_(0, 0.1)
        model.train()(data)
    for m, momentum in zip(norms, momenta):
        m.momentum = momentum
    return model


def dump(folder, weights, data, **arguments):
    """What zoo_dump writes, given the model's weights and the batches."""
    tensors = {k: v.contiguous() for k, v in weights.state_dict().items()}
    for i, (x, y) in enumerate(data):
        tensors[f"x.{i}"], tensors[f"y.{i}"] = x, y
    source, target = os.path.join(folder, "in"), os.path.join(folder, "out")
    save_file(tensors, source)
    if os.environ.get("PLB_ZOO_DEVICE"):
        arguments["device"] = os.environ["PLB_ZOO_DEVICE"]
        arguments.setdefault("level", os.environ.get("PLB_ZOO_LEVEL", "plan"))
    subprocess.run([DUMP, source, target] + [f"{k}={v}" for k, v in arguments.items()],
                   check=True, env=ENVIRONMENT)
    return load_file(target)


def first_step(name, model, x, y):
    """PyTorch's training step without the optimizer: loss, logits, gradients, buffers."""
    model = copy.deepcopy(model).train().to(DEVICE)
    x, y = x.to(DEVICE), y.to(DEVICE)
    loss, logits = torch_models.training_loss(name, model, x, y)
    loss.backward()
    return (loss.detach().cpu(), logits.detach().cpu(),
            {k: p.grad.cpu() for k, p in model.named_parameters() if p.grad is not None},
            {k: b.cpu() for k, b in model.named_buffers()})


def error(found, reference):
    """The largest difference over the largest number."""
    reference = reference.double()
    scale = reference.abs().max().clamp(min=1e-30)
    return ((found.double() - reference).abs().max() / scale).item()


class Failure(Exception):
    pass


class Kink(Failure):
    """A gradient that is wrong, perhaps by bad luck."""


def require(what, found, limit, failure=Failure):
    if not found <= limit:
        raise failure(f"{what}: error {found:.3g}, allowed {limit:.3g}")
    return found


def gradient_errors(found, reference):
    """Of each parameter, relative to its norm, and of all together."""
    if found.keys() != reference.keys():
        raise Failure(f"gradients of other parameters: {sorted(found.keys() ^ reference.keys())}")
    total = sum(g.norm() ** 2 for g in reference.values()).sqrt()
    errors = {key: (found[key].double() - wanted).norm() for key, wanted in reference.items()}
    together = (sum(e ** 2 for e in errors.values()).sqrt() / total).item()
    return {key: (value / max(reference[key].norm(), 1e-4 * total)).item()
            for key, value in errors.items()}, together


def check_gradients(found, single, double):
    ours, our_total = gradient_errors(found, double)
    theirs, their_total = gradient_errors(single, double)
    if max(theirs.values()) > 1e-3:
        return require("all gradients", our_total, 3 * their_total, Kink), their_total
    worst = max(ours, key=ours.get)
    return require(f"gradient of {worst}", ours[worst], 1e-3, Kink), max(theirs.values())


def check_wide(name, out, infer, loss, logits, double):
    """What the plan in f64 made, against PyTorch in f64."""
    limit = TIGHT.get(name, 1e-9)
    worst = [require("f64 logits", error(out["infer"], infer), limit),
             require("f64 training logits", error(out["logits"], logits), limit),
             require("f64 loss", error(out["loss"], loss), limit)]
    errors, _ = gradient_errors(gradients_of(out), double)
    key = max(errors, key=errors.get)
    return max(*worst, require(f"f64 gradient of {key}", errors[key], limit))


def gradients_of(out):
    return {k[len("grad."):]: v for k, v in out.items() if k.startswith("grad.")}


def check_model(name, folder):
    for seed in SEEDS:
        try:
            return check_batch(name, folder, seed)
        except Kink as reason:
            if seed == SEEDS[-1]:
                raise
            print(f"{name}: once more with another batch: {reason}", flush=True)


def check_batch(name, folder, seed):
    torch.manual_seed(seed)
    (x, y), = data = batches(name, 1)
    model = settled(name, x)
    step = {"model": name, "steps": 1, "optimizer": "sgd", "lr": 0}
    out = dump(folder, model, data, **step)
    wide = copy.deepcopy(model).double()
    with torch.no_grad():
        infer = copy.deepcopy(wide).eval().to(DEVICE)(x.double().to(DEVICE)).cpu()
        single = copy.deepcopy(model).eval().to(DEVICE)(x.to(DEVICE)).cpu()
    worst = [require("logits", error(out["infer"], infer), max(1e-4, 2 * error(single, infer)))]
    criterion = (torch.nn.functional.nll_loss if name == "mnist_cnn"
                 else torch.nn.functional.cross_entropy)
    loss = criterion(infer, y, reduction="sum")
    theirs = error(criterion(single, y, reduction="sum"), loss)
    require("eval loss", error(out["eval.loss"], loss), max(1e-4, 2 * theirs))
    hits = (infer.argmax(1) == y).sum().item()
    require("eval correct", abs(out["eval.correct"].item() - hits), 0)
    loss, logits, double, buffers = first_step(name, wide, x.double(), y)
    theirs = first_step(name, model, x, y)
    worst.append(require("training logits", error(out["logits"], logits),
                         max(1e-4, 2 * error(theirs[1], logits))))
    require("loss", error(out["loss"], loss), max(1e-4, 2 * error(theirs[0], loss)))
    if seed == SEEDS[0]:
        wide = dump(folder, model, data, **step, f64=1)
        found = check_wide(name, wide, infer, loss, logits, double)
        print(f"{name} in f64: {found:.1e}", flush=True)
    worst.extend(check_gradients(gradients_of(out), theirs[2], double))
    for key, value in buffers.items():
        require(key, error(out[key], value), max(1e-4, 2 * error(theirs[3][key], value)))
    text = "logits {:.1e}, in training {:.1e}, gradients {:.1e} (PyTorch's f32 {:.1e})"
    return text.format(*worst)


def check_init(name, folder):
    """First values are drawn as torchvision draws them: constants equal, deviations alike."""
    target = os.path.join(folder, "out")
    subprocess.run([DUMP, "-", target, f"model={name}"], check=True, env=ENVIRONMENT)
    ours, theirs = load_file(target), torch_models.make(name).state_dict()
    worst = 0.0
    for key, value in theirs.items():
        found, value = ours[key].double(), value.double()
        if value.numel() == 1 or value.std() == 0:
            require(key, (found - value).abs().max().item(), 0)
            continue
        # A deviation from n numbers is known to 1/sqrt(2 n) at best (normal; uniform: less).
        limit = 7 / value.numel() ** 0.5
        ratio = (found.std() / value.std()).item()
        worst = max(worst, require(f"deviation of {key}", abs(ratio - 1), limit) / limit)
        require(f"mean of {key}", ((found.mean() - value.mean()) / value.std()).abs().item(), limit)
    return f"deviations within {worst:.2f} of what chance allows"


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=1e-3),
}


def check_steps(optimizer, folder):
    """Ten steps of mnist_cnn end in the same weights."""
    torch.manual_seed(3)
    data = batches("mnist_cnn", 10)
    model = settled("mnist_cnn", data[0][0])
    out = dump(folder, model, data, model="mnist_cnn", steps=10, optimizer=optimizer,
               lr=0.05 if optimizer == "sgd" else 1e-3, momentum=0.9, weight_decay=1e-3)
    model = model.double().train()
    steps = OPTIMIZERS[optimizer](model.parameters())
    for x, y in data:
        steps.zero_grad()
        torch_models.training_loss("mnist_cnn", model, x.double(), y)[0].backward()
        steps.step()
    worst = max(require(key, (out[key].double() - value).abs().max().item(), 1e-4)
                for key, value in model.state_dict().items())
    if out["step"].item() != 10:
        raise Failure(f"step counts {out['step'].item()}")
    return f"weights after ten steps {worst:.1e}"


def run(test):
    title, check, argument = test
    with tempfile.TemporaryDirectory() as folder:
        try:
            print(f"{title}: {check(argument, folder)}", flush=True)
            return True
        except (Failure, subprocess.CalledProcessError) as reason:
            print(f"FAILED  {title}: {reason}", flush=True)
            return False


def run_all(tests):
    """Each test has one thread, so as many run at a time as there are processors; but one where
    they share a device, and where models at full size in f64 would not fit into memory together."""
    jobs = 1 if DEVICE == "cuda" or FULL else min(4, len(os.sched_getaffinity(0)))
    if jobs == 1:
        return [run(test) for test in tests]
    with multiprocessing.get_context("fork").Pool(jobs, torch.set_num_threads, (1,)) as pool:
        return pool.map(run, tests, chunksize=1)


def main():
    chosen = os.environ.get("PLB_ZOO", "all" if FULL else "")
    names = DEFAULT + REST if chosen == "all" else chosen.split(",") if chosen else DEFAULT
    torch.set_num_threads(1)
    tests = [(name, check_model, name) for name in names]
    tests += [(f"first values of {name}", check_init, name) for name in names]
    if chosen in ("", "all"):
        tests += [(f"steps of {o}", check_steps, o) for o in OPTIMIZERS]
    passed = run_all(tests)
    print(f"{sum(passed)} passed, {len(tests) - sum(passed)} failed, 0 skipped")
    return not all(passed)


if __name__ == "__main__":
    sys.exit(main())
