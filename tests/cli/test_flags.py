#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every flag that `--help` names, of every command, with values that make no sense: exit 2, and one
line that names the flag and says what was found; nothing is printed, written or begun.

What a flag takes is read from its line of the help, so that a new flag is tested without a word
here: its limits, the words of a choice, a list, a file. Nothing may take long: a flag that is
looked at only after something was computed has been looked at too late.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

PLUMB = os.environ["PLUMB"]
# What a command needs beside its flags to get as far as looking at them.
OPERANDS = {"models": ["mnist_cnn"], "data": ["show", "mnist"], "stacks": ["add", "onnxruntime"],
            "train": ["mnist_cnn"], "init": ["mnist_cnn", "--save", "/dev/null"],
            "predict": ["mnist_cnn", "p.png", "--weights", "w"], "explain": ["mnist_cnn"],
            "bench": ["mnist_cnn"], "verify": ["mnist_cnn"], "study": ["levels"], "trace": ["p"],
            "show": ["1"], "export": ["1"], "import": ["f.json"],
            "export-onnx": ["mnist_cnn", "--output", "/dev/null"], "compare": ["1", "2"],
            "profile": ["--", "true"]}
NOT_NUMBERS = ["", "nan", "1e999", "1 "]
# Of what is no number, by the word that stands for it.
OTHERS = {"LIST": ["", ",", "x,,y", "-1", "99999999999999999999", "cpu\n", "a=b"],
          "D": ["", "gpu", "cpu:0", "cuda:-1", "cuda:", "cuda:99999999999", "cpu,cpu"],
          "SIZE": ["", "-1", "0", "4X", "1e999G", "99999999999999G", "G", "nan"],
          "NAME=N,...": ["", "x", "=1", "x=", "x=-1", "x=0", "x=99999999999999999999", "x=1"],
          "KEY=VALUE;...": ["", "x", "=1", "x=[", "no.such.key=1"],
          "ADDRESS": ["", "x", "999.1.1.1", "::g"],
          "RUN": ["", "x", "0", "-1"]}
TIMEOUT_S = 20


def plumb(*words, env=None):
    return subprocess.run([PLUMB, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=TIMEOUT_S, check=False, env=env)


def commands():
    listed = plumb("--help").stdout.split("Commands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in listed.splitlines()] + ["completion", "manual"]


def flags(command):
    """(name, value, help) of each of its flags."""
    text = plumb(command, "--help").stdout
    text = re.sub(r"\n {10,}", "  ", text)  # a flag that is wider than its column
    return re.findall(r"^  --([a-z0-9-]+)(?: (\S+))?  +(.*)$", text, re.MULTILINE)


def bad_values(value, words):
    """Values that a flag cannot take, from its line of the help."""
    if not value:
        return [""]
    if "|" in value:
        return ["", value, value.split("|")[0] + " "]
    limits = re.search(r"\((?:at least )?([-0-9.e+]+)(?: to ([-0-9.e+]+))?[,)]", words)
    if limits:
        low, high = limits.groups()
        bad = [f"{int(float(low)) - 1}", *NOT_NUMBERS]
        return bad + ([f"{int(float(high) * 2)}", "1e300"] if high else [])
    if value in ("N", "X"):
        return NOT_NUMBERS
    return OTHERS.get(value, [""])


def fault(command, name, value, env):
    """What is wrong with how `--name=value` is refused; None if nothing is."""
    try:
        operands = OPERANDS.get(command, [])
        if name == "dim":  # of a file; predict wants an array too
            more = {"predict": ["x.npy"], "export-onnx": ["--output", "/dev/null"]}
            operands = ["m.onnx", *more.get(command, [])]
        run = plumb(command, f"--{name}={value}", *operands, env=env)
    except subprocess.TimeoutExpired:
        return "began to work"
    line = run.stderr
    if run.returncode != 2:
        return f"exit {run.returncode}: {line.strip()[-200:]}"
    if run.stdout or line.count("\n") != 1 or not line.startswith(f"plumb {command}: "):
        return f"said {run.stdout[:80]!r} {line[:200]!r}"
    word = value.split(",")[0].strip()
    if f"--{name}" not in line and f"{name} {word}" not in line:
        return f"does not name the flag: {line.strip()}"
    return None


def main():
    faults, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "HOME": folder, "XDG_DATA_HOME": folder, "XDG_CACHE_HOME": folder}
        os.chdir(folder)
        has_onnx = plumb("export-onnx", "mnist_cnn", "-o", "m.onnx").returncode == 0
        cases = [(command, name, value, env) for command in commands()
                 for name, takes, words in flags(command) if has_onnx or name != "dim"
                 for value in bad_values(takes, words)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for (command, name, value, _), found in zip(cases, pool.map(lambda c: fault(*c),
                                                                        cases)):
                count += 1
                if found:
                    faults.append(f"{command} --{name}={value!r}: {found}")
        left = [os.path.join(where, f) for where, _, files in os.walk(folder) for f in files
                if f != "m.onnx"]
        if left:
            faults.append(f"files were written: {left}")
    for line in faults:
        print(f"FAILED  {line}")
    print(f"{count - len(faults)} passed, {len(faults)} failed")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
