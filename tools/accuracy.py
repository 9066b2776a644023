# SPDX-License-Identifier: Apache-2.0
"""Trains mnist_cnn on MNIST in Plumb and in PyTorch by one recipe and compares accuracy and time.

    python tools/accuracy.py [--epochs N] [--seeds N] [--threads N] [--lr X] [--momentum X]

Stochastic gradient descent in batches of 64, the last one of an epoch smaller, with a cosine
schedule by epochs where there are several. Seeds take turns, one run of each stack after the
other. Prints the accuracy of every run on the test set, means and deviations, whether the means
differ by more than chance (twice the standard error of their difference), and seconds an epoch: of
processor time of all threads and on the clock, data loading included, evaluation not for PyTorch.
Needs a Python with torch, build/plumb, and MNIST as `plumb data get mnist` has it.
"""
import argparse
import gzip
import json
import os
import resource
import statistics
import subprocess
import time

PLUMB = os.environ.get("PLUMB", "build/plumb")


def read(folder, name, offset):
    import numpy
    for candidate in (name, name + ".gz"):
        path = os.path.join(folder, candidate)
        if os.path.exists(path):
            data = (gzip.open if path.endswith(".gz") else open)(path, "rb").read()
            return numpy.frombuffer(data, numpy.uint8, offset=offset).copy()
    raise SystemExit(f"{folder} has no {name}")


def mnist_folder():
    for root in (os.environ.get("PLUMB_DATA"), os.environ.get("PLUMB_TEST_DATA"),
                 os.path.join(os.environ.get("XDG_DATA_HOME", os.path.expanduser("~/.local/share")),
                              "plumb/data")):
        if root and os.path.isdir(os.path.join(root, "mnist")):
            return os.path.join(root, "mnist")
    raise SystemExit("MNIST is nowhere: plumb data get mnist")


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_plumb(arguments, seed):
    words = [PLUMB, "train", "mnist_cnn", "--data", "mnist", "--json", "--batch", "64"]
    for flag in ("epochs", "threads", "lr", "momentum"):
        words += [f"--{flag}", str(getattr(arguments, flag))]
    schedule = "cosine" if arguments.epochs > 1 else "constant"
    begin = children_seconds()
    done = subprocess.run(words + ["--schedule", schedule, "--seed", str(seed)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [""]
        raise SystemExit(f"accuracy.py: {PLUMB} ended with {done.returncode}: {said[0]}")
    epochs = json.loads(done.stdout)["epochs"]
    return {"accuracy": epochs[-1]["test_accuracy"],
            "wall_s": sum(e["seconds"] for e in epochs) / len(epochs),
            "cpu_s": (children_seconds() - begin) / len(epochs)}


def make_network():
    import torch.nn.functional as F
    from torch import nn

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5)
            self.drop = nn.Dropout2d()
            self.fc1, self.fc2 = nn.Linear(320, 50), nn.Linear(50, 10)

        def forward(self, x):
            x = F.relu(F.max_pool2d(self.conv1(x), 2))
            x = F.relu(F.max_pool2d(self.drop(self.conv2(x)), 2)).flatten(1)
            x = F.dropout(F.relu(self.fc1(x)), training=self.training)
            return F.log_softmax(self.fc2(x), 1)

    return Network()


def load_mnist():
    import torch
    folder, sets = mnist_folder(), []
    for name in ("train", "t10k"):
        x = torch.from_numpy(read(folder, f"{name}-images-idx3-ubyte", 16)).view(-1, 1, 28, 28)
        y = torch.from_numpy(read(folder, f"{name}-labels-idx1-ubyte", 8)).long()
        sets.append(((x.float() / 255 - 0.1307) / 0.3081, y))
    return sets


def run_torch(arguments, seed):
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(arguments.threads)
    (x, y), (test_x, test_y) = load_mnist()
    torch.manual_seed(seed)
    network = make_network()
    optimizer = torch.optim.SGD(network.parameters(), arguments.lr, momentum=arguments.momentum)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, arguments.epochs)
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(arguments.epochs):
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            F.nll_loss(network(x[batch]), y[batch]).backward()
            optimizer.step()
        if arguments.epochs > 1:
            schedule.step()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    network.eval()
    with torch.no_grad():
        hits = sum((network(part).argmax(1) == wanted).sum().item()
                   for part, wanted in zip(test_x.split(1000), test_y.split(1000)))
    return {"accuracy": hits / len(test_x), "cpu_s": cpu / arguments.epochs,
            "wall_s": wall / arguments.epochs}


def summary(runs):
    accuracies = [run["accuracy"] for run in runs]
    spread = statistics.stdev(accuracies) if len(runs) > 1 else 0.0
    return (statistics.mean(accuracies), spread, min(r["cpu_s"] for r in runs),
            min(r["wall_s"] for r in runs))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--momentum", type=float, default=0.9)
    arguments = parser.parse_args()
    if min(arguments.epochs, arguments.seeds, arguments.threads) < 1:
        parser.error("--epochs, --seeds and --threads: expected 1 or more")
    runs = {"plumb": [], "torch": []}
    for seed in range(1, arguments.seeds + 1):
        for stack, run in (("plumb", run_plumb), ("torch", run_torch)):
            runs[stack].append(run(arguments, seed))
            print(f"seed {seed}: {stack} {100 * runs[stack][-1]['accuracy']:.2f} %", flush=True)
    ours, theirs = summary(runs["plumb"]), summary(runs["torch"])
    for stack, (mean, spread, cpu, wall) in (("plumb", ours), ("torch", theirs)):
        print(f"{stack}: {100 * mean:.2f} % +- {100 * spread:.2f}; an epoch takes {cpu:.2f} s of "
              f"processor time, {wall:.2f} s on the clock, at least")
    ratios = f"processor time {ours[2] / theirs[2]:.2f}, clock {ours[3] / theirs[3]:.2f}"
    if arguments.seeds == 1:
        print(f"difference {100 * (ours[0] - theirs[0]):+.2f} %, of one seed, which tells no "
              f"noise; {ratios}")
        return
    chance = 2 * ((ours[1] ** 2 + theirs[1] ** 2) / max(1, arguments.seeds)) ** 0.5
    difference = ours[0] - theirs[0]
    print(f"difference {100 * difference:+.2f} %, chance {100 * chance:.2f} %: "
          f"{'within' if abs(difference) <= chance else 'beyond'} the noise of seeds; "
          f"{ratios}")


if __name__ == "__main__":
    main()
