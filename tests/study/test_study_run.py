# SPDX-License-Identifier: Apache-2.0
"""A small study from its file to its report, through real workers of ours."""
import json
import os
import pathlib
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).parents[1]))
sys.path.append(str(pathlib.Path(__file__).parents[1] / "cli"))
from commands import write_png  # noqa: E402
from runner import run  # noqa: E402

PLUMB = os.environ["PLUMB"]
STUDY = """
name: small
parts:
  - name: train
    kind: train
    models: mnist_cnn
    data: digits
    stacks: [plumb-plan, plumb-interp, nothing-like-it]
    devices: cpu
    threads: 1
    seeds: [1, 2]
    batch: 32
    epochs: 2
    train_samples: 640
    test_samples: 100
    lr: 0.05
    momentum: 0.9
  - name: sizes
    kind: sweep
    models: mnist_cnn
    stacks: plumb-plan
    devices: cpu
    threads: 1
    batch: [1, 4]
    size: [20, 28]
    time: 0.02
"""


def study(folder, *words, status=0, environment=None):
    path = pathlib.Path(folder, "small.yaml")
    path.write_text(STUDY, encoding="utf-8")
    environment = {**(environment or os.environ), "XDG_CACHE_HOME": f"{folder}/cache",
                   "PLUMB_STACKS": "", "XDG_DATA_HOME": f"{folder}/data"}
    done = subprocess.run([PLUMB, "study", str(path), "--no-lock", "--db", f"{folder}/s.db", "-o",
                           f"{folder}/s.html", *words], env=environment, cwd=folder, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == status, (done.returncode, done.stderr)
    return done


def items(done):
    return json.loads(done.stdout)["items"]


def outcomes(found):
    return [item["outcome"] for item in found]


def results(folder, part):
    with sqlite3.connect(f"{folder}/s.db") as store:
        return {(json.loads(keys)["stack"], json.loads(keys)["seed"]): json.loads(found)
                for keys, found in store.execute(
                    "SELECT keys, results FROM study_item WHERE part = ? AND outcome = 'ok'",
                    (part,))}


def test_plan_comes_first():
    with tempfile.TemporaryDirectory() as folder:
        found = items(study(folder, "--dry-run", "--json"))
        assert len(found) == 10 and outcomes(found) == [None] * 10
        assert all(item["estimate_s"] > 0 for item in found)
        done = study(folder, "-o", f"{folder}/none/s.html", status=2)
        assert "--out: " in done.stderr, done.stderr  # told before hours of work, not after
        assert not pathlib.Path(folder, "s.db").exists()
        done = study(folder, "--dry-run", "--set", "parts.train.sedes=1", status=2)
        assert "no key sedes; did you mean seeds?" in done.stderr, done.stderr
        done = study(folder, "--dry-run", "--set", "parts.train.data=digit", status=2)
        assert "no dataset digit; did you mean digits?" in done.stderr, done.stderr


def test_models_are_those_of_the_zoo():
    with tempfile.TemporaryDirectory() as folder:
        done = study(folder, "--dry-run", "--set", "parts.sizes.models=[mnist_cnn, resnet81]",
                     status=2)
        assert ("--set parts.sizes.models: models: expected names of `plumb models`: no model "
                "resnet81; did you mean ") in done.stderr, done.stderr
        done = own_study(folder, OWN.replace("own.onnx", "[own.onnx,\n      nope]"), status=2)
        assert "own.yaml, line 7: models: expected names of" in done.stderr, done.stderr


def write_set(folder, *names):
    for name in names:
        path = pathlib.Path(folder, f"{name}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_png(path, [[len(name)] * 32] * 32)


def test_classes_to_test_are_those_to_train():
    with tempfile.TemporaryDirectory() as folder:
        write_set(f"{folder}/set", "train/Cat/1", "train/bird/2", "test/bird/3", "test/cat/4")
        done = study(folder, "--only", "train", "--set", f"parts.train.data={folder}/set", status=2)
        assert "/set/test: class 0 of the part to test: expected Cat" in done.stderr, done.stderr


def test_one_part_taken_for_two_is_warned_of():
    with tempfile.TemporaryDirectory() as folder:
        write_set(f"{folder}/set", "a/1", "bb/2")
        done = study(folder, "--only", "train", "--set",
                     f"parts.train.data={folder}/set;parts.train.models=resnet18;"
                     "parts.train.stacks=plumb-plan;parts.train.seeds=1;parts.train.batch=2")
        assert f"warning: {folder}/set: has no parts train and test" in done.stderr, done.stderr
        page = pathlib.Path(folder, "s.html").read_text(encoding="utf-8")
        assert "set (no parts train and test: samples to test are among those to train)" in page


def check_origin(folder, document):
    """A document of numbers tells where and how they were measured, as the store does."""
    with sqlite3.connect(f"{folder}/s.db") as store:
        began, command, fingerprint = store.execute(
            "SELECT began_ms, command, fingerprint FROM run WHERE id = ?",
            (document["run"],)).fetchone()
    assert document["began_ms"] == began and document["command"] == command, document
    assert command.endswith("s.html --json") and "small.yaml" in command, command
    assert document["fingerprint"] == json.loads(fingerprint), document["fingerprint"]
    assert document["fingerprint"]["machine"]["cpu_model"], document["fingerprint"]


def test_every_stack_trains_alike():
    with tempfile.TemporaryDirectory() as folder:
        done = study(folder, "--json")
        check_origin(folder, json.loads(done.stdout))
        found = items(done)
        assert outcomes(found).count("ok") == 8 and outcomes(found).count("refused") == 2, found
        assert "not installed" in next(i["reason"] for i in found if i["outcome"] == "refused")
        for cell in (i["results"] for i in found if i["keys"]["kind"] == "sweep"):
            # One thread is told to the worker: it can be no busier, but for the clock's grain.
            assert 0 < cell["utilisation"] < 1.1, cell
        trained = results(folder, "train")
        for seed in (1, 2):
            plan, interp = trained["plumb-plan", seed], trained["plumb-interp", seed]
            assert len(plan["epochs"]) == 3 and len(plan["steps"]) == 20, plan
            for a, b in zip(plan["steps"], interp["steps"]):
                assert abs(a - b) < 1e-3 * abs(a), (seed, a, b)
            first, last = plan["epochs"][0], plan["epochs"][-1]
            other = interp["epochs"][0]
            assert abs(first["test_loss"] - other["test_loss"]) < 1e-4, (first, other)
            # 100 test samples are three whole batches and one of 4 rows: all of them are counted.
            hits = last["test_accuracy"] * 100
            assert abs(hits - round(hits)) < 1e-6, hits
            assert last["test_loss"] < 0.9 * first["test_loss"], (first, last)
            assert last["train_s"] > 0 and last["handover_s"] > 0, last
        steps = [trained["plumb-plan", seed]["steps"] for seed in (1, 2)]
        assert steps[0] != steps[1], steps  # another seed: other weights and another order
        page = pathlib.Path(folder, "s.html").read_text(encoding="utf-8")
        for words in ("<svg", "plumb-interp", "not installed", "Utilisation over"):
            assert words in page, words


def test_a_training_that_diverges_has_no_loss():
    with tempfile.TemporaryDirectory() as folder:
        found = items(study(folder, "--only", "train", "--json", "--set",
                            "parts.train.stacks=plumb-plan;parts.train.seeds=1;"
                            "parts.train.lr=1e38"))
        assert outcomes(found) == ["ok"], found
        trained = results(folder, "train")["plumb-plan", 1]
        before, *after = trained["epochs"]
        assert before["test_loss"] > 2, before
        assert all(epoch["test_loss"] is None for epoch in after), after
        assert None in trained["steps"] and 0 not in trained["steps"], trained["steps"]


def test_what_does_not_fit_is_left_out_and_resumed():
    with tempfile.TemporaryDirectory() as folder:
        words = ["--json", "--set", "parts.train.stacks=plumb-plan;parts.train.seeds=1"]
        found = items(study(folder, *words, "--time", "1"))
        assert found[0]["outcome"] == "left-out", found  # the training; cells may have room
        assert "of the budget of 1 s are left" in found[0]["reason"]
        done = study(folder, "--resume", status=2)  # other items would come into the run
        assert "goes on with the options it began with: {" in done.stderr, done.stderr
        found = items(study(folder, *words, "--resume"))
        assert outcomes(found) == ["ok"] * 5, found


def test_a_study_in_pieces():
    """Parts that come later join the run: its report is that of the whole."""
    with tempfile.TemporaryDirectory() as folder:
        first = items(study(folder, "--json", "--only", "sizes"))
        assert [i["part"] for i in first] == ["sizes"] * 4 and outcomes(first) == ["ok"] * 4, first
        page = pathlib.Path(folder, "s.html").read_text(encoding="utf-8")
        assert "Nothing of this part was measured" in page, "silent on what has not run"
        assert "no item of this part was begun" in page and "train: 2 epochs" not in page
        done = study(folder, "--json", "--only", "train", "--resume", "--jobs", "2")
        found = items(done)
        assert len(found) == 10 and outcomes(found).count("ok") == 8, found
        assert [i for i in found if i["part"] == "sizes"] == first
        page = pathlib.Path(folder, "s.html").read_text(encoding="utf-8")
        assert "--only sizes" in page and "--only train --resume --jobs 2" in page
        assert "no item of this part was begun" not in page and "train: 2 epochs" in page
        assert items(study(folder, "--json", "--resume")) == found
        elsewhere = {**os.environ, "DNNL_VERBOSE": "0"}
        done = study(folder, "--resume", status=2, environment=elsewhere)
        assert "run 1 was measured elsewhere: DNNL_VERBOSE was not set" in done.stderr, done.stderr
        done = study(folder, "--only", "trian", status=2)
        assert "--only: small has no part trian; did you mean train?" in done.stderr, done.stderr


def test_trainings_side_by_side():
    with tempfile.TemporaryDirectory() as folder:
        # One by one first: what is chosen by times, both have from its cache.
        alone = items(study(folder, "--json"))
        page = pathlib.Path(folder, "s.html").read_text(encoding="utf-8")
        assert "Time of one epoch" in page and "side by side" not in page
        found = items(study(folder, "--json", "--jobs", "3"))
        assert len(found) == 10 and outcomes(found).count("ok") == 8, found
        for item in found:
            marked = (item["results"] or {}).get("beside")
            trained = item["keys"]["kind"] == "train" and item["outcome"] == "ok"
            assert marked == (3 if trained else None), item
        for item in alone:
            if item["outcome"] == "ok" and item["keys"]["kind"] == "train":
                other = next(i for i in found if i["keys"] == item["keys"])
                assert item["results"]["steps"] == other["results"]["steps"], item["keys"]
        done = study(folder, "--join", "1", "--resume", status=2)
        assert "--join goes with neither" in done.stderr, done.stderr
        done = study(folder, "--join", "7", status=3)
        assert "run 7 is no study" in done.stderr, done.stderr


def wait_for(folder, what, query, *values):
    """The first row of a query of the store, once there is one."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        try:
            with sqlite3.connect(f"file:{folder}/s.db?mode=ro", uri=True) as store:
                row = store.execute(query, values).fetchone()
            if row:
                return row
        except sqlite3.OperationalError:  # not there yet, or locked
            pass
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {what}")


def join_by_hand(folder, dies):
    """What seeds a process trained and told, and one that joined it; and the run's items."""
    pathlib.Path(folder, "small.yaml").write_text(STUDY, encoding="utf-8")
    environment = {**os.environ, "XDG_CACHE_HOME": f"{folder}/cache", "PLUMB_STACKS": "",
                   "XDG_DATA_HOME": f"{folder}/data"}
    words = [PLUMB, "study", "small.yaml", "--no-lock", "--db", f"{folder}/s.db", "--set",
             "parts.train.stacks=plumb-plan;parts.train.seeds=[1,2,3,4];parts.train.epochs=60"]
    how = {"env": environment, "cwd": folder, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
           "text": True}
    with subprocess.Popen([*words, "--json"], **how) as main:
        wait_for(folder, "a run", "SELECT run FROM study")
        with subprocess.Popen([*words, "--join", "1"], **how) as joined:
            if dies:
                wait_for(folder, "its training", "SELECT 1 FROM study_item WHERE reason LIKE ?",
                         f"% {joined.pid} %")
                joined.kill()
            told = joined.communicate(timeout=300)[1]
        found, also_told = main.communicate(timeout=300)
    assert main.returncode == 0, also_told
    return ([re.findall(r"seed (\d+): \d", text) for text in (also_told, told)],
            json.loads(found)["items"])


def test_a_process_joins_by_hand():
    with tempfile.TemporaryDirectory() as folder:
        (own, joined), found = join_by_hand(folder, dies=False)
        assert sorted(own + joined) == ["1", "2", "3", "4"], (own, joined)  # each is done once
        assert own and joined, (own, joined)
        assert outcomes(found) == ["ok"] * 8, found
        marked = [i["keys"].get("seed") for i in found if i["results"].get("beside") == 2]
        assert set(map(int, joined)) <= set(marked), (joined, marked)  # its times say nothing
        assert None not in marked, "a cell was timed beside a training"


def test_what_a_joined_process_had_when_it_died_is_done():
    with tempfile.TemporaryDirectory() as folder:
        (own, joined), found = join_by_hand(folder, dies=True)
        assert sorted(own + joined) == ["1", "2", "3", "4"], (own, joined)
        assert outcomes(found) == ["ok"] * 8, found


def test_of_queued_an_iteration_is_told():
    with tempfile.TemporaryDirectory() as folder:
        found = items(study(folder, "--only", "sizes", "--json", "--set",
                            "parts.sizes.regions=[latency,queued];parts.sizes.batch=4;"
                            "parts.sizes.size=28;parts.sizes.time=0.2"))
        assert [i["keys"]["region"] for i in found] == ["latency", "queued"], found
        latency, queued = (i["results"] for i in found)
        assert queued["samples"] == 10 and latency["samples"] > 10, found
        # A block of 1000 was told as one; neighbours may take some of the processor.
        assert queued["median_ns"] < 100 * latency["median_ns"], (queued, latency)
        for cell in (latency, queued):
            assert cell["low_ns"] <= cell["median_ns"] <= cell["high_ns"], cell


def test_few_samples_have_no_interval():
    with tempfile.TemporaryDirectory() as folder:
        # Of so large a batch the least time there is has room for none beyond the first three.
        found = items(study(folder, "--only", "sizes", "--json", "--set",
                            "parts.sizes.time=0.01;parts.sizes.batch=2048;parts.sizes.size=28"))
        for cell in (i["results"] for i in found):
            assert cell["samples"] == 3 and cell["median_ns"] > 0, cell
            assert cell["low_ns"] is None and cell["high_ns"] is None, cell


SHY = """
import sys
sys.path.append(sys.argv[1])
from proxy import Cheat
class Shy(Cheat):
    def hello(self, request):
        answer = self.ask(request)
        answer["capabilities"]["regions"].remove("queued")
        return answer
Shy(sys.argv[2]).serve()
"""


def test_a_region_that_a_stack_does_not_offer_is_not_asked_for():
    tests = pathlib.Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "shy.py").write_text(SHY, encoding="utf-8")
        place = pathlib.Path(folder, "data/plumb/stacks/shy")
        place.mkdir(parents=True)
        place.joinpath("stack.json").write_text(json.dumps({
            "protocol": 1, "name": "shy",
            "command": [sys.executable, "-B", f"{folder}/shy.py", str(tests / "bench"), PLUMB]}),
            encoding="utf-8")
        found = items(study(folder, "--only", "sizes", "--json", "--set",
                            "parts.sizes.regions=[latency,queued];parts.sizes.batch=4;"
                            "parts.sizes.size=28;parts.sizes.stacks=shy"))
        assert outcomes(found) == ["ok", "refused"], found
        assert found[1]["reason"] == "shy does not offer region queued", found


def test_the_studies_that_come_along_are_named():
    names = [path.stem for path in (pathlib.Path(__file__).resolve().parents[2] /
                                    "studies").glob("*.yaml")]
    told = subprocess.run([PLUMB, "study", "--help"], check=True, capture_output=True, text=True)
    shell = subprocess.run([PLUMB, "completion", "bash"], check=True, capture_output=True,
                           text=True)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([PLUMB, "study", "none", "--db", f"{folder}/s.db"], check=False,
                              capture_output=True, text=True)
    assert done.returncode == 2, done
    assert f"expected {', '.join(sorted(names))}, or a file FILE.yaml" in done.stderr, done.stderr
    for name in names:
        assert name in told.stdout and name in shell.stdout, name


def interrupt_in_epoch(folder, number, *words):
    """Runs the study on a terminal, and interrupts it when that epoch begins."""
    environment = {**os.environ, "XDG_CACHE_HOME": f"{folder}/cache", "PLUMB_STACKS": "",
                   "XDG_DATA_HOME": f"{folder}/data"}
    ours, theirs = pty.openpty()
    with subprocess.Popen([PLUMB, "study", f"{folder}/small.yaml", "--no-lock", "--db",
                           f"{folder}/s.db", "-o", f"{folder}/s.html", *words], env=environment,
                          cwd=folder, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        seen = b""
        try:
            # What is shown leaves out epochs that are over sooner than a line is drawn.
            while not any(int(n) >= number for n in re.findall(rb"epoch (\d+) of", seen)):
                seen += os.read(ours, 4096)
            process.send_signal(signal.SIGINT)
            while os.read(ours, 4096):
                pass
        except OSError:  # the terminal's other end was closed
            pass
        os.close(ours)
    return process.returncode


def test_what_is_cut_off_keeps_its_epochs():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "small.yaml")
        path.write_text(STUDY, encoding="utf-8")
        for jobs in ("1", "2"):
            words = ["--set", "parts.train.stacks=plumb-plan;parts.train.epochs=100000",
                     "--jobs", jobs]
            assert interrupt_in_epoch(folder, 3, *words) == 130
            with sqlite3.connect(f"{folder}/s.db") as store:
                rows = store.execute("SELECT outcome, reason, results FROM study_item WHERE run = "
                                     "(SELECT max(run) FROM study)").fetchall()
                states = store.execute("SELECT state FROM run").fetchall()
            assert states[-1] == ("interrupted",), states
            # The other one of two may not have come to its first epoch's end.
            kept = [(reason, json.loads(found)) for _, reason, found in rows if found]
            assert kept and all(row[0] == "left-out" for row in rows), rows
            for reason, found in kept:
                number = int(reason.split()[2])
                assert reason == f"interrupted after {number} of 100000 epochs", reason
                assert len(found["epochs"]) == number + 1 and len(found["steps"]) == 20, found
            # Too little time to try again takes nothing from what there is.
            found = items(study(folder, *words, "--time", "1", "--resume", "--json"))
            again = [i["results"] for i in found if i["part"] == "train" and i["results"]]
            assert again == [results for _, results in kept], again


OWN = """
name: own
parts:
  - name: files
    kind: sweep
    models: own.onnx
    stacks: [plumb-plan, plumb-interp, nothing-like-it]
    devices: cpu
    threads: 1
    dims: ["", "N=1"]
    time: 0.02
"""


def own_study(folder, text, *words, status=0):
    path = pathlib.Path(folder, "own.yaml")
    path.write_text(text, encoding="utf-8")
    environment = {**os.environ, "XDG_CACHE_HOME": f"{folder}/cache", "PLUMB_STACKS": "",
                   "XDG_DATA_HOME": f"{folder}/data"}
    done = subprocess.run([PLUMB, "study", str(path), "--no-lock", "--db", f"{folder}/s.db", "-o",
                           f"{folder}/s.html", *words], env=environment, cwd=folder, check=False,
                          capture_output=True, text=True)
    assert done.returncode == status, (done.returncode, done.stderr)
    return done


def test_a_file_of_ones_own():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([PLUMB, "export-onnx", "mnist_cnn", "--batch", "3", "-o",
                        f"{folder}/own.onnx"], check=True, capture_output=True)
        text = OWN.replace('["", "N=1"]', '""')
        found = items(own_study(folder, text, "--json"))
        assert outcomes(found) == ["ok", "ok", "refused"], found
        for item in found[:2]:
            assert item["results"]["median_ns"] > 0 and item["keys"]["batch"] == 1, item
            assert item["results"]["input_bytes"] >= 3 * 28 * 28 * 4, item
        products = 2 * (10 * 24 * 24 * 25 + 20 * 8 * 8 * 250 + 320 * 50 + 50 * 10)  # of a sample
        assert 3 * products < found[0]["results"]["flops"] < 3.1 * products, found
        page = pathlib.Path(folder, "s.html").read_text(encoding="utf-8")
        assert "own.onnx" in page and "What differs" not in page
        done = own_study(folder, OWN, status=2)  # before hours of work, not after
        assert "own, line 4: files: dims" in done.stderr and "N" in done.stderr, done.stderr
        done = own_study(folder, OWN.replace("kind: sweep", "kind: train\n    data: digits"),
                         status=2)
        assert "own.yaml, line 7: models: expected names of models to train" in done.stderr
        done = own_study(folder, OWN + "    tasks: train\n", status=2)
        assert "tasks: expected infer alone" in done.stderr, done.stderr


SCRIPT = """
name: scripts
parts:
  - name: files
    kind: sweep
    models: own.pt
    stacks: [plumb-plan, torch-script]
    devices: cpu
    threads: 1
    batch: [2, 3]
    size: 8
    input: [batch, 1, size, 5]
    time: 0.02
"""
MAKE = """
import sys, torch, warnings
warnings.simplefilter("ignore")
class Own(torch.nn.Module):
    def forward(self, x):
        assert x.shape[1] == 1 and x.shape[2] == 8 and x.shape[3] == 5
        return x.sum(3)
torch.jit.save(torch.jit.script(Own()), sys.argv[1])
"""


def test_a_torchscript_file():
    python = os.environ.get("PLB_PYTHON")
    root = pathlib.Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as folder:
        done = own_study(folder, SCRIPT, "--dry-run", status=2)  # before hours of work, not after
        assert "own.pt: No such file" in done.stderr, done.stderr
        pathlib.Path(folder, "own.pt").write_bytes(b"none")
        if python:
            make = pathlib.Path(folder, "make.py")  # TorchScript reads its source
            make.write_text(MAKE, encoding="utf-8")
            subprocess.run([python, make, f"{folder}/own.pt"], check=True)
            place = pathlib.Path(folder, "data/plumb/stacks/torch-script")
            place.mkdir(parents=True)
            place.joinpath("stack.json").write_text(json.dumps({
                "protocol": 1, "name": "torch-script",
                "command": [python, "-u", str(root / "stacks/torch/worker.py"), "torch-script"]}),
                encoding="utf-8")
        # Where nothing but refusals is left, nothing was measured: 5.
        found = items(own_study(folder, SCRIPT, "--json", status=0 if python else 5))
        assert outcomes(found) == ["refused"] * 2 + (["ok"] if python else ["refused"]) * 2, found
        assert found[0]["reason"] == "plumb-plan runs no TorchScript files", found
        assert found[0]["keys"]["input"] == ["batch", "1", "size", "5"], found
        for item in found[2:] if python else []:
            assert item["results"]["input_bytes"] == item["keys"]["batch"] * 40 * 4, item
            assert item["results"]["median_ns"] > 0 and item["results"]["flops"] is None, item
        page = pathlib.Path(folder, "s.html").read_text(encoding="utf-8")
        assert "own.pt" in page and "runs no TorchScript files" in page


if __name__ == "__main__":
    sys.exit(run(globals()))
