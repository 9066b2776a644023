#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""models, init, predict, and what all commands share, as a user meets them: what they answer, and
bad input.

What predict says of real photographs is compared with torchvision where PLB_PYTHON names a Python
that has it and PLUMB_TEST_DATA holds the photographs.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from commands import (  # noqa: E402
    Folder, PLUMB, PYTHON, Skip, document, expect_refusal, minds_interrupt, plumb,
    read_weights, run_tests, write_png, write_weights)

HERE = pathlib.Path(__file__).resolve().parent
NEW = ("models", "init", "predict", "explain")


# ---------------------------------------------------------------------------- models
def test_models_knows_what_they_cost():
    models = {m["name"]: m for m in document("models")["models"]}
    # Published by torchvision: parameters, and multiply-adds in 1e9 of convolutions and products.
    for name, parameters, multiply_adds in (("resnet50", 25557032, 4.089),
                                            ("vgg16", 138357544, 15.470),
                                            ("mobilenet_v2", 3504872, 0.301),
                                            ("efficientnet_b0", 5288548, 0.386)):
        assert models[name]["parameters"] == parameters, models[name]
        assert abs(models[name]["multiply_adds_per_sample"] / 1e9 - multiply_adds) < 0.006
        forward, training = (models[name][k + "_flops_per_sample"]
                             for k in ("forward", "training"))
        assert 2.5 * forward < training < 3.5 * forward, models[name]
    text = plumb("models").stdout
    assert all(name in text for name in models) and "25557032" in text


def test_models_lists_layers():
    found = document("models", "resnet18", "--batch", 3, "--size", 64, "--classes", 7)
    first, last = found["layers"][0], found["layers"][-1]
    assert (first["scope"], first["op"], first["shape"]) == ("conv1", "conv", [3, 64, 32, 32])
    assert first["parameters"] == 64 * 3 * 49
    assert first["flops"] == 2 * 64 * 3 * 49 * 3 * 32 * 32
    assert first["bytes"] == 4 * (3 * 3 * 64 * 64 + 64 * 3 * 49 + 3 * 64 * 32 * 32)
    assert (last["scope"], last["shape"], last["parameters"]) == ("fc", [3, 7], 513 * 7)
    assert sum(layer["parameters"] for layer in found["layers"]) == found["parameters"]
    assert found["input"] == [3, 64, 64]
    text = plumb("models", "resnet18").stdout
    assert "layer4.1.conv2" in text and "11689512" in text


# ---------------------------------------------------------------------------- init
def test_init_follows_its_seed():
    with Folder() as f:
        again, other = f.path / "again", f.path / "other"
        plumb("init", "mnist_cnn", "--save", again)
        found = document("init", "mnist_cnn", "--save", other, "--seed", 2, "--classes", 4)
        assert f.weights.read_bytes() == again.read_bytes()
        assert read_weights(other)[0]["fc2.weight"]["shape"] == [4, 50]
        assert found["parameters"] == 21840 - 6 * 51 and found["seed"] == 2
        header, values = read_weights(f.weights)
        begin, end = header["conv1.weight"]["data_offsets"]
        numbers = struct.unpack(f"<{(end - begin) // 4}f", values[begin:end])
        assert max(map(abs, numbers)) <= 0.2 and min(numbers) < -0.15 < 0.15 < max(numbers)


def test_init_leaves_nothing_half_written():
    with Folder() as f:
        missing = f.path / "no/such/folder/w"
        expect_refusal(plumb("init", "mnist_cnn", "--save", missing), "No such file or directory")
        for words in (("init", "vgg19", "--save"), ("explain", "vgg19", "--out"),
                      ("export-onnx", "vgg19", "--output")):  # said before the work
            run = plumb(*words, f.path)
            if run.returncode != 3:  # a build without ONNX
                expect_refusal(run, f"{words[-1]}: {f.path}: expected a file")
        expect_refusal(plumb("init", "mnist_cnn"), "expected --save")
        expect_refusal(plumb("init", "mnist_cnn", "--save", f.path / "i.onnx"),
                       "--save: writes safetensors")
        run = plumb("export-onnx", "mnist_cnn", "-o", f.path / "q.safetensors")
        expect_refusal(run, "--output: writes ONNX")
        assert sorted(p.name for p in f.path.iterdir()) == ["p.png", "w.safetensors"]


def test_init_on_a_full_disk():
    with tempfile.TemporaryDirectory() as folder:
        script = ('mount -t tmpfs -o size=256k none "$2" || exit 99; '
                  '"$1" init lenet5 --save "$2/a" >/dev/null || exit 98; '
                  '"$1" init lenet5 --save "$2/b"; echo "$? $(ls -A "$2")"')
        for how in (["unshare", "-m"], ["unshare", "-rm"]):
            run = subprocess.run([*how, "sh", "-c", script, "sh", PLUMB, folder], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            if run.returncode == 0:
                break
        else:
            raise Skip("no permission to mount a small disk")
        assert run.stdout == "3 a\n", (run.stdout, run.stderr)
        assert "No space left on device" in run.stderr and run.stderr.count("\n") == 1, run.stderr


# ---------------------------------------------------------------------------- predict
def test_predict_answers_for_every_picture():
    with Folder() as f:
        labels = f.path / "labels"
        labels.write_text("".join(f"digit {i}\r\n" for i in range(10)), encoding="utf-8")
        pictures = []
        for k in range(5):
            pictures.append(f.path / f"{k}.png")
            write_png(pictures[-1], [[(k * x + y * y) % 256 for x in range(40)] for y in range(31)])
        def ask(*words):
            return document("predict", "mnist_cnn", "--weights", f.weights, *pictures, *words)
        found = ask("--labels", labels, "--batch", 2)["images"]
        assert [image["file"] for image in found] == [str(p) for p in pictures]
        for image in found:
            top = image["top"]
            assert len(top) == 5 and all(t["label"] == f"digit {t['index']}" for t in top)
            assert [t["probability"] for t in top] == sorted((t["probability"] for t in top),
                                                             reverse=True)
        # Batches, levels, threads and Winograd do not matter.
        for words in (["--batch", 5], ["--level", "interp"], ["--threads", 1, "--no-winograd"]):
            for a, b in zip(found, ask(*words)["images"]):
                for one, two in zip(a["top"], b["top"]):
                    assert one["index"] == two["index"] and two["label"] is None
                    assert abs(one["probability"] - two["probability"]) < 1e-5
        whole = ask("--top", 1000)["images"][0]["top"]
        assert len(whole) == 10 and abs(sum(t["probability"] for t in whole) - 1) < 1e-9
        assert "digit" in f.predict(None, None, "--labels", labels).stdout
        labels.write_text("only one\n", encoding="utf-8")
        expect_refusal(f.predict(None, None, "--labels", labels), "expected 10 lines")


def test_predict_finds_the_labels_of_imagenet():
    with Folder() as f:
        weights = f.path / "r18"
        assert plumb("init", "resnet18", "--save", weights).returncode == 0
        (f.path / "imagenet_classes.txt").write_text("".join(f"thing {i}\n" for i in range(1000)),
                                                     encoding="utf-8")
        found = document("predict", "resnet18", "--weights", weights, f.picture, "--size", 32,
                         env={"PLUMB_DATA": str(f.path)})
        top = found["images"][0]["top"]
        assert all(t["label"] == f"thing {t['index']}" for t in top), top


def test_predict_refuses_weights_that_do_not_fit():
    with Folder() as f:
        header, values = read_weights(f.weights)
        changed = f.path / "changed"

        def refused(change, words):
            copy = json.loads(json.dumps(header))
            change(copy)
            write_weights(changed, copy, values)
            expect_refusal(f.predict(changed), words)

        def rename(old, new):
            return lambda h: h.update({new: h.pop(old)})
        refused(rename("conv1.bias", "conv1.bais"), "expected conv1.bias f32 [10], found no tensor "
                                                    "of that name; and 1 more is wrong")
        refused(lambda h: h["fc1.weight"].update(shape=[320, 50]),
                "fc1.weight: expected f32 [50, 320], found f32 [320, 50]\n")
        refused(lambda h: h["conv2.bias"].update(dtype="I32"),
                "conv2.bias: expected f32 [20], found i32 [20]\n")
        expect_refusal(plumb("predict", "lenet5", "--weights", f.weights, f.picture),
                       "conv1.weight: expected f32 [6, 1, 5, 5], found f32 [10, 1, 5, 5]; and")
        expect_refusal(f.predict(f.path / "none"), "none: cannot open: No such file")
        expect_refusal(f.predict(f.path), "expected a file, found a directory")
        changed.write_bytes(f.weights.read_bytes()[:-5])
        expect_refusal(f.predict(changed), "changed: ")
        changed.write_bytes(b"")
        expect_refusal(f.predict(changed), "changed: ")


def test_predict_refuses_weights_that_are_no_numbers():
    with Folder() as f:
        header, values = read_weights(f.weights)
        begin, _ = header["fc2.bias"]["data_offsets"]
        for bad in (float("nan"), float("inf")):
            spoilt = values[:begin] + struct.pack("<f", bad) + values[begin + 4:]
            write_weights(f.weights, header, spoilt)
            expect_refusal(f.predict(), "fc2.bias: expected finite numbers, found NaN or infinity")


def test_predict_refuses_pictures():
    with Folder() as f:
        expect_refusal(f.predict(None, f.path / "none.jpg"), "none.jpg: cannot open")
        expect_refusal(f.predict(None, f.path), "expected a file, found a directory")
        expect_refusal(f.predict(None, f.weights), "w.safetensors")
        short = f.path / "short.png"
        short.write_bytes(f.picture.read_bytes()[:-20])
        expect_refusal(f.predict(None, short), "short.png")
        expect_refusal(plumb("predict", "mnist_cnn", f.picture), "expected --weights")
        expect_refusal(plumb("predict", "mnist_cnn"),
                       "expected MODEL IMAGE... | F.onnx X.npy..., found fewer")


def test_predict_says_what_torchvision_says():
    photographs = pathlib.Path(os.environ.get("PLUMB_TEST_DATA") or HERE / "../../../shared/data",
                               "images/imagenet-samples.tar")
    if not PYTHON or not photographs.exists():
        raise Skip("needs PLB_PYTHON with torchvision, and imagenet-samples.tar")
    with tempfile.TemporaryDirectory() as folder:
        peer = subprocess.run([PYTHON, HERE / "torch_predict.py", photographs, folder], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if peer.returncode == 77:
            raise Skip(peer.stderr.strip())
        assert peer.returncode == 0, peer.stderr
        for case in json.loads(peer.stdout):
            found = document("predict", case["model"], "--weights", case["weights"],
                             *case["files"])["images"]
            worst = 0
            for image, top in zip(found, case["top"]):
                assert [t["index"] for t in image["top"]] == [t[0] for t in top], (image, top)
                worst = max([worst] + [abs(t["probability"] - p)
                                       for t, (_, p) in zip(image["top"], top)])
            print(f"{case['model']}, {case['dtype']}: probabilities within {worst:.1e}")
            assert worst < 1e-4 and len(found) == 3, (case["model"], worst)


# ---------------------------------------------------------------------------- all
def test_one_interrupt_ends_what_takes_long():
    """Wherever it comes: at once in the beginning, and in the middle of the work."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "TMPDIR": folder, "XDG_CACHE_HOME": folder + "/c"}
        for words, waits in ((["profile", "--host-only", "--", "sleep", "60"], (0, 0.3)),
                             (["selftest", "--no-lock"], (0, 0.8)),
                             (["init", "vgg19", "--save", folder + "/w"], (0, 0.3)),
                             (["export-onnx", "vgg19", "--output", folder + "/w.onnx"], (0,))):
            for wait in waits:
                run = subprocess.Popen([PLUMB, *words], env=env, text=True, cwd=folder,
                                       start_new_session=True, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
                while not minds_interrupt(run.pid):
                    time.sleep(0.002)
                time.sleep(wait)
                os.killpg(run.pid, signal.SIGINT) # as a terminal does
                _, err = run.communicate(timeout=60)
                if words[0] == "export-onnx" and run.returncode == 3:
                    continue # a build without ONNX
                assert run.returncode == 130, (words, wait, run.returncode, err)
                assert [f for f in os.listdir(folder) if f != "c"] == [], os.listdir(folder)


def pelted(words, signal_number, pause_s=0.001):
    """The run of plumb to which a signal that it takes comes all the time."""
    run = subprocess.Popen([PLUMB, *map(str, words)], text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
    while not minds_interrupt(run.pid):
        time.sleep(0.002)
    while run.poll() is None:
        run.send_signal(signal_number)
        time.sleep(pause_s)
    return run.returncode, *run.communicate()


def test_a_signal_in_a_kernel_made_at_run_time_spoils_nothing():
    """oneDNN's convolutions of level interp use the stack pointer for something else."""
    with Folder() as f:
        weights = f.path / "r18"
        assert plumb("init", "resnet18", "--save", weights).returncode == 0
        pictures = [f.path / f"{k}.png" for k in range(8)]
        for k, picture in enumerate(pictures):
            write_png(picture, [[(k * x + y * y) % 256 for x in range(256)] for y in range(256)])
        words = ["predict", "resnet18", *pictures, "--weights", weights, "--threads", 1, "--level",
                 "interp"]
        expected = plumb(*words)
        assert expected.returncode == 0, expected.stderr
        code, out, err = pelted(words, signal.SIGPIPE)  # its handler does nothing
        assert (code, out, err) == (0, expected.stdout, ""), (code, err)


def test_an_interrupt_ends_the_wait_for_a_pipe():
    with Folder() as f:
        pipe = f.path / "pipe"
        os.mkfifo(pipe)
        for words in (["predict", "mnist_cnn", "--weights", pipe, f.picture],
                      ["predict", "mnist_cnn", "--weights", f.weights, pipe],
                      ["train", "mnist_cnn", "--resume", pipe]):
            run = subprocess.Popen([PLUMB, *map(str, words)], text=True, stderr=subprocess.PIPE)
            idle = 0 # a signal before it waits would be noticed after
            while idle < 30 and run.poll() is None:
                state = pathlib.Path(f"/proc/{run.pid}/stat").read_text(encoding="utf-8")
                waits = minds_interrupt(run.pid) and state.rsplit(")", 1)[1].split()[0] == "S"
                idle = idle + 1 if waits else 0
                time.sleep(0.01)
            run.send_signal(signal.SIGINT)
            _, err = run.communicate(timeout=60)
            assert run.returncode == 130 and str(pipe) in err, (words, run.returncode, err)


def test_a_pipe_is_no_cache_of_kernels():
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "plumb").mkdir()
        os.mkfifo(pathlib.Path(folder) / "plumb/kernels")
        run = plumb("explain", "mnist_cnn", "--runs", 1, env={"XDG_CACHE_HOME": folder})
        assert run.returncode == 0, run.stderr


def test_profile_of_the_host_alone():
    run = plumb("profile", "--host-only", "--", "true")
    assert run.returncode == 0 and run.stderr == "", run.stderr
    assert "No work on a CUDA device was seen" in run.stdout.splitlines(), run.stdout


def test_help_names_every_flag():
    for name in NEW:
        run = plumb(name, "--help")
        assert run.returncode == 0 and run.stdout.startswith(f"Usage: plumb {name}"), run.stderr
        assert "--json" in run.stdout
        assert f"  {name} " in plumb("--help").stdout


def test_unknown_models_get_the_nearest_name():
    with Folder() as f:
        for words in (["models"], ["init", "--save", f.path / "x"], ["explain"],
                      ["predict", "--weights", f.weights, "resnet81", f.picture]):
            if words[0] != "predict":
                words = [*words, "resnet81"]
            expect_refusal(plumb(*words), "no model resnet81; did you mean resnet18?")
        expect_refusal(plumb("models", ""), "no model")
        assert not (f.path / "x").exists()


def test_bad_numbers_are_refused():
    with Folder() as f:
        commands = {"models": ["resnet18"], "init": ["resnet18", "--save", f.path / "x"],
                    "explain": ["resnet18"],
                    "predict": ["mnist_cnn", "--weights", f.weights, f.picture]}
        flags = {"models": ("size", "classes", "batch"), "init": ("seed", "classes"),
                 "explain": ("batch", "size", "classes", "threads", "runs"),
                 "predict": ("top", "classes", "size", "batch", "threads")}
        for command, names in flags.items():
            for name in names:
                for bad in ("-1", "99999999999999999999", "many", "1.5", ""):
                    run = plumb(command, *commands[command], f"--{name}", bad)
                    expect_refusal(run, f"plumb {command}: --{name}: expected")
        assert not (f.path / "x").exists()


def test_flags_that_would_do_nothing_are_refused():
    with Folder() as f:
        file, array = f.path / "m.onnx", f.path / "x.npy"
        made = plumb("export-onnx", "mnist_cnn", "-o", file)
        if made.returncode == 3:
            raise Skip("this build has no ONNX")
        for words in (["--size", 28], ["--classes", 10], ["--labels", file], ["--top", 5],
                      ["--batch", 8], ["--normalize", "half"]):
            expect_refusal(plumb("predict", file, array, *words), "is for models of the zoo")
        expect_refusal(plumb("predict", file, array, "--device", "gpu"), "device gpu: expected cpu")
        expect_refusal(f.predict(None, None, "--save", f.path), "--save is for ONNX files")
        expect_refusal(f.predict(None, None, "--time-limit", 5), "--time-limit is for ONNX files")
        expect_refusal(f.predict(None, None, "--normalize", "half"), "for pictures in colour")
        words = ["--math", "tf32"]  # which a document would say was done
        for run in (f.predict(None, None, *words), plumb("explain", "mnist_cnn", *words),
                    plumb("train", "mnist_cnn", "--data", "digits", "--limit", 64, *words)):
            expect_refusal(run, "the CPU multiplies in f32")
        expect_refusal(plumb("predict", file, array, "--save", f.picture), "--save: ")
        expect_refusal(f.predict(None, None, "--dim", "n=1"), "--dim is for ONNX files")
        expect_refusal(plumb("models", file, "--dim", "btach=2"), "no input has an extent")


def test_flags_of_data_are_those_of_show():
    for verb in ([], ["list"], ["get", "mnist"], ["check", "digits"]):
        for words in (["--out", "x.png"], ["--split", "train"], ["--count", 10], ["--size", 8],
                      ["--seed", 1]):
            run = plumb("data", *verb, *words)
            name = verb[0] if verb else "list"
            expect_refusal(run, f"{words[0]} is for show, not for {name}")
            assert not run.stdout
    with Folder() as f:
        for words, name in (([], "digits-train.png"), (["--split", "test"], "digits-test.png")):
            found = document("data", "show", "digits", *words, cwd=f.path)
            assert found["sheet"] == name and (f.path / name).exists(), found
        (f.path / "set/a").mkdir(parents=True)
        shutil.copy(f.picture, f.path / "set/a")
        for name in ("./set", "./set/", f"{f.path}/set//", "set/a/../."):  # as completion ends one
            found = document("data", "show", name, cwd=f.path)
            assert found["sheet"] == "set-train.png", found
            (f.path / "set-train.png").unlink()
            assert os.listdir(f.path / "set") == ["a"]


def test_verify_where_the_weights_depend_on_the_size():
    run = plumb("verify", "mnist_cnn", "--task", "infer,train", "--size", "28,32", "--batch", 2,
                "--stack", "plumb-plan", "--no-lock", "--json")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert [c["proof"]["equal"] for c in found["cases"]] == [True] * 4, found["cases"]


def test_verify_says_what_it_checked():
    """In the words of the proof in the document."""
    words = ("verify", "shufflenet_v2_x1_0", "--task", "train", "--size", 32, "--batch", 8,
             "--stack", "plumb-plan", "--no-lock")
    run = plumb(*words)
    assert run.returncode == 0, run.stderr
    named = set(re.findall(r" \d+ ([a-z]+(?: [a-z]+)*)", run.stdout.split("EQUAL")[1])) - {"rows"}
    proof = json.loads(plumb(*words, "--json").stdout)["cases"][0]["proof"]
    assert "running statistics" in named and named <= set(proof["checked"]), (named, proof)


def test_a_reference_that_breaks_is_an_outcome():
    words = ("verify", "mnist_cnn", "--task", "train", "--size", "28,32", "--batch", 2, "--stack",
             "plumb-plan", "--no-lock", "--json")
    with tempfile.TemporaryDirectory() as cache:
        first = plumb(*words, env={"XDG_CACHE_HOME": cache})
        assert first.returncode == 0, first.stderr
        # One of the two files of weights holds those of another size.
        one, other = sorted(pathlib.Path(cache, "plumb", "weights").iterdir())
        shutil.copy(one, other)
        run = plumb(*words, env={"XDG_CACHE_HOME": cache})
        cases = json.loads(run.stdout)["cases"]
        reasons = [c["reason"] or "" for c in cases if c["outcome"] != "ok"]
        assert len(cases) == 2 and len(reasons) == 1, run
        assert reasons[0].startswith("the reference: ") and "fc1.weight" in reasons[0], reasons


def test_names_of_files_in_the_bench():
    with Folder() as f:
        made = plumb("export-onnx", "mnist_cnn", "-o", f.path / "m.onnx")
        if made.returncode == 3:
            raise Skip("this build has no ONNX")
        for name, shown in (("ä.onnx", "ä.onnx#"), ('a"\\\n.onnx', "a___.onnx#"),
                            ("名" * 30 + ".onnx", "名" * 13 + "#")):
            shutil.copy(f.path / "m.onnx", f.path / name)
            run = plumb("verify", f.path / name, "--stack", "plumb-plan", "--no-lock")
            assert run.returncode == 0 and shown in run.stdout + run.stderr, run
        odd = os.fsencode(f.path) + b"/\xff.onnx"
        shutil.copy(f.path / "m.onnx", odd)
        expect_refusal(plumb("bench", os.fsdecode(odd), "--stack", "plumb-plan"), "paths in UTF-8")


def write_npy(path, shape, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode()
                     + struct.pack(f"<{len(values)}f", *values))


def test_predict_tells_of_values_that_are_no_numbers():
    with Folder() as f:
        file, array = f.path / "m.onnx", f.path / "x.npy"
        if plumb("export-onnx", "mnist_cnn", "--batch", 1, "-o", file).returncode == 3:
            raise Skip("this build has no ONNX")
        write_npy(array, (1, 1, 28, 28), [float("nan")] * 784)
        found = document("predict", file, array, "--level", "interp")["outputs"][0]
        assert found["min"] is None and found["mean"] is None and found["max"] is None, found
        text = plumb("predict", file, array, "--level", "interp").stdout
        assert "min nan, mean nan, max nan" in text, text


def test_values_of_an_older_file_are_told_of():
    with Folder() as f:
        file = f.path / "m.onnx"
        words = ["export-onnx", "mnist_cnn", "-o", file]
        if plumb(*words, "--external").returncode == 3:
            raise Skip("this build has no ONNX")
        assert plumb(*words, "--external").stderr == ""
        values, = f.path.glob("m.onnx*.data")
        run = plumb(*words)
        assert run.returncode == 0 and values.exists(), run.stderr
        assert run.stderr.count("\n") == 1 and f"{values} is of an older file" in run.stderr, run


def test_predict_makes_the_folder_of_its_outputs():
    with Folder() as f:
        file, array, out = f.path / "m.onnx", f.path / "x.npy", f.path / "new/out"
        if plumb("export-onnx", "mnist_cnn", "--batch", 1, "-o", file).returncode == 3:
            raise Skip("this build has no ONNX")
        write_npy(array, (1, 1, 28, 28), [0.5] * 784)
        run = plumb("predict", file, array, "--save", f"{out}/")
        assert run.returncode == 0 and os.listdir(out) == ["0.npy"], run.stderr
        expect_refusal(plumb("predict", file, array, "--save", array),
                       f"--save: {array}: cannot make this folder")
        write_npy(array, (0, 1, 1, 28, 28), [])
        expect_refusal(plumb("predict", file, array), f"{array}: expected at least one run")


def test_sizes_that_do_not_fit_are_refused():
    expect_refusal(plumb("models", "vgg16", "--size", 1), "vgg16")
    expect_refusal(plumb("models", "--size", 64), "expected the NAME of a model")
    # More memory than any machine has.
    run = plumb("explain", "resnet18", "--batch", 1 << 20)
    assert run.returncode in (2, 3) and run.stderr.count("\n") == 1, run.stderr
    with Folder() as f:
        expect_refusal(f.predict(None, None, "--size", 64), "fc1.weight: expected f32 [50, ")


def test_full_output_is_exit_3():
    with Folder() as f, open("/dev/full", "w", encoding="utf-8") as full:
        for words in (["models"], ["models", "lenet5", "--json"],
                      ["init", "lenet5", "--save", f.path / "x"],
                      ["explain", "lenet5", "--batch", 2, "--runs", 1],
                      ["predict", "mnist_cnn", "--weights", f.weights, f.picture]):
            expect_refusal(plumb(*words, stdout=full), "No space left on device", 3)


def waits_of(env):
    """How plumb's threads wait, by its environment and by that of what it starts."""
    with tempfile.NamedTemporaryFile() as report:
        run = subprocess.run([PLUMB, "profile", "--output", report.name, "--", "sh", "-c",
                              "tr '\\0' '\\n' </proc/$PPID/environ; echo -; env"], env=env,
                             text=True, stdout=subprocess.PIPE, timeout=60, check=True)
    own, child = (set(text.split()) for text in run.stdout.split("-\n", 1))
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "PLUMB_SPIN")
    return tuple({line for line in found if line.startswith(names)} for found in (own, child))


def test_waiting_threads_spin_briefly_unless_told():
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_WAIT", "GOMP"))}
    own, child = waits_of(plain)
    assert "GOMP_SPINCOUNT=3000" in own and not child, (own, child)
    for told in ({"OMP_WAIT_POLICY": "passive"}, {"GOMP_SPINCOUNT": "7"}):
        words = {f"{k}={v}" for k, v in told.items()}
        assert waits_of({**plain, **told}) == (words, words)


if __name__ == "__main__":
    run_tests(dict(globals()))
