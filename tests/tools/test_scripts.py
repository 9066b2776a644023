#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_tests, fuzz, dist, coverage.py, check_exports, setup and the makers of golden files where
something is missing, wrong, or interrupted. What they call are scripts here, in the places of
ctest, cmake, tar and fuzz targets, and nm's words."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).parents[1]))
from runner import run  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parents[2]
TOOLS = TOP / "tools"


def script(folder, name, text, shell="sh"):
    file = pathlib.Path(folder) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/usr/bin/env {shell}\n{text}\n")
    file.chmod(0o755)
    return file


def called(folder, *command, **changes):
    """Status, standard output and standard error; programs of the folder come first."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=120, check=False, cwd=TOP,
                          env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", **changes})
    return done.returncode, done.stdout, done.stderr


# ------------------------------------------------------------------------------ run_tests
CTEST = """
import pathlib, re, sys
words = sys.argv[1:]
build = pathlib.Path(words[words.index("--test-dir") + 1])
names = ["test_a", "test_b"]
if "-R" in words:
    names = [n for n in names if re.search(words[words.index("-R") + 1], n)]
if not (build / "is-one").exists():
    sys.exit("no build here")
if "-N" in words:
    for i, name in enumerate(names, 1):
        print(f"  Test #{i}: {name}")
    sys.exit()
with open(build / "ran", "a") as ran:
    print(*names, file=ran)
cases = "".join(f'<testcase name="{n}" status="run" time="1"><system-out>1 passed, 0 failed, 0 '
                'skipped</system-out></testcase>' for n in names)
pathlib.Path(words[words.index("--output-junit") + 1]).write_text(f"<s>{cases}</s>")
(build / "tests.xml").write_text("<s></s>")  # as a run beside this one does
"""


def ctest_build(folder):
    script(folder, "ctest", CTEST, "python3")
    build = pathlib.Path(folder) / "build"
    build.mkdir()
    (build / "is-one").touch()
    return build


def test_run_tests_beside_another(folder):
    status, told, _ = called(folder, TOOLS / "run_tests", ctest_build(folder))
    assert status == 0 and told.endswith("2 passed, 0 failed, 0 skipped\n"), told


def test_run_tests_of_no_name(folder):
    build = ctest_build(folder)
    status, told, wrong = called(folder, TOOLS / "run_tests", build, "-R", "test_typo")
    assert status == 1 and "no tests" in wrong, (told, wrong)
    status, told, _ = called(folder, TOOLS / "run_tests", build, "-R", "test_b")
    assert status == 0 and told.endswith("1 passed, 0 failed, 0 skipped\n"), told


def test_run_tests_resumes(folder):
    build = ctest_build(folder)
    state = build / "tests-passed.json"
    state.write_text('{"test_a": [1, 0, 0]}')
    assert called(folder, TOOLS / "run_tests", build, "--resume")[0] == 0
    assert (build / "ran").read_text() == "test_b\n"
    state.write_text('{"test_a": [1, 0')  # cut off
    status, told, wrong = called(folder, TOOLS / "run_tests", build, "--resume")
    assert status == 0 and told.endswith("2 passed, 0 failed, 0 skipped\n"), (told, wrong)
    (build / "is-one").unlink()
    status, _, wrong = called(folder, TOOLS / "run_tests", build, "--resume")
    assert status == 1 and "ctest listed no tests" in wrong and "Traceback" not in wrong, wrong


def test_run_tests_knows_what_checks_read(folder):
    loader = importlib.machinery.SourceFileLoader("run_tests", str(TOOLS / "run_tests"))
    tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
    loader.exec_module(tool)
    tool.ROOT = pathlib.Path(folder)
    for i, name in enumerate(("tests/a.c", "LAYERS", "src/base/a.h", "include/plumb/a.h",
                              "docs/coverage.md", "fuzz/a.c", "cmake/a.cmake"), 1):
        file = pathlib.Path(folder) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, (i, i))
        assert tool.newest_change(pathlib.Path(folder) / "build") == i, name


# ------------------------------------------------------------------------------ fuzz
TARGET = """trap 'exit 72' INT
echo "$@" >> "$0.calls"
echo 'stat::number_of_executed_units: 5'
[ ! -e "$0.waits" ] || { sleep 30 & wait; }"""


def test_fuzz_has_an_end(folder):
    for i in range(3):
        script(folder, f"fuzz/fuzz_{i}", TARGET, "bash")
    status, told, _ = called(folder, TOOLS / "fuzz", folder, "2")
    calls = (pathlib.Path(folder) / "fuzz/fuzz_0.calls").read_text()
    assert status == 0 and "-max_total_time=1 " in calls, (told, calls)
    for wrong in ("0", "-3", "2s", "1.5"):
        status, _, told = called(folder, TOOLS / "fuzz", folder, wrong)
        assert status == 2 and f"'{wrong}' seconds: expected" in told, told


def test_fuzz_ends_at_an_interrupt(folder):
    for i in range(2):
        script(folder, f"fuzz/fuzz_{i}", TARGET, "bash")
    folder = pathlib.Path(folder)
    (folder / "fuzz/fuzz_0.waits").touch()
    (folder / "tmp").mkdir()
    with subprocess.Popen([TOOLS / "fuzz", folder, "9"], stdout=subprocess.PIPE, text=True,
                          start_new_session=True, cwd=TOP,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                          env={**os.environ, "TMPDIR": str(folder / "tmp")}) as process:
        until = time.monotonic() + 30
        while not (folder / "fuzz/fuzz_0.calls").exists() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        told, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and not told, (process.returncode, told)
    assert not (folder / "fuzz/fuzz_1.calls").exists()
    assert not list((folder / "tmp").iterdir())


# ------------------------------------------------------------------------------ dist
def test_dist_of_no_build(folder):
    kept = script(folder, "out/plumb/bin/plumb", "exit 0")
    status, _, told = called(folder, TOOLS / "dist", f"{folder}/nothing", f"{folder}/out")
    assert status == 2 and "is no build folder" in told and kept.exists(), told


def test_dist_that_is_cut_off_leaves_no_archive(folder):
    script(folder, "cmake", 'mkdir -p "$4/bin" "$4/lib"; echo exit >"$4/lib/libplumb.so"\n'
           'printf "#!/bin/sh\\necho plumb 1.0\\n" >"$4/bin/plumb"; chmod +x "$4/bin/plumb"')
    script(folder, "ldd", "exit 0")
    script(folder, "tar", 'while [ "$1" != -cJf ]; do shift; done; echo half >"$2"; exit 1')
    script(folder, "build/cmake_install.cmake", "")
    status, _, told = called(folder, TOOLS / "dist", f"{folder}/build", f"{folder}/out")
    left = [p.name for p in (pathlib.Path(folder) / "out").iterdir()]
    assert status == 1 and left == ["plumb"], (told, left)


# ------------------------------------------------------------------------------ coverage.py
def test_coverage_of_results_that_are_none(folder):
    empty = '{"onnx": [], "ops": []}'
    plumb = script(folder, "plumb", f"echo '{empty}'")
    results = pathlib.Path(folder) / "results"
    assert json.loads(empty)
    for text, words in ((None, "No such file"), ("", "no test in it"), ("passed\n", ":1: expected"),
                        ("passed\ta\t\nwrong a b\n", ":2: expected")):
        if text is not None:
            results.write_text(text)
        status, _, told = called(folder, sys.executable, TOOLS / "coverage.py", results, "--check",
                                 PLUMB=str(plumb))
        assert status == 2 and words in told and len(told.splitlines()) == 1, (text, told)
    results.write_text("passed\ttest_a\t\n")
    status, _, told = called(folder, sys.executable, TOOLS / "coverage.py", results, "--check",
                             PLUMB=f"{folder}/nothing")
    assert status == 2 and "nothing" in told and len(told.splitlines()) == 1, told


# ------------------------------------------------------------------------------ check_exports
NM = """case $* in
*--print-file-name*) for word; do case $word in *.o)
    [ ! -s "$word" ] || { echo "nm: $word: file format not recognized" >&2; exit 1; }
    echo "$word: plb_b T 0 1" ;; esac; done ;;
*) echo 'plb_a T 0 1' ;;
esac"""


def test_exports_of_objects_that_are_none(folder):
    script(folder, "nm", NM)
    objects = pathlib.Path(folder) / "CMakeFiles/plumb_objects.dir"
    objects.mkdir(parents=True)
    status, told, _ = called(folder, TOOLS / "check_exports", folder)
    assert status == 1 and "no objects in" in told and "1 failed" in told, told
    (objects / "a.o").touch()
    status, told, _ = called(folder, TOOLS / "check_exports", folder)
    assert status == 0 and told == "2 passed, 0 failed, 0 skipped\n", told
    (objects / "b.o").write_text("a letter")
    status, told, _ = called(folder, TOOLS / "check_exports", folder)
    assert status == 1 and "nm could not read all" in told and "1 failed" in told, told


# ------------------------------------------------------------------------------ setup
def test_setup_without_python(folder):
    every = "for p in $PACKAGES; do echo installed $p; done"
    script(folder, "dpkg-query", every)
    script(folder, "apt-get", "exit 1")
    words = (TOOLS / "setup").read_text().replace("\n", " ")
    packages = " ".join(re.findall(r"_packages=\(([^)]*)\)", words))
    top = script(folder, "tools/setup", (TOOLS / "setup").read_text().split("\n", 1)[1], "bash")
    (top.parent / "requirements.txt").write_text("torch==1\n")  # and no .venv
    status, told, wrong = called(folder, top, "all", "--check", PACKAGES=packages, PLB_PYTHON="")
    assert status == 0 and told == "Nothing is missing.\n", (told, wrong)
    unset = ("env", "-u", "PLB_PYTHON", top, "all", "--check")
    status, told, wrong = called(folder, *unset, PACKAGES=packages)
    assert status == 1 and "into .venv" in told, (told, wrong)
    status, _, wrong = called(folder, top, "all", "--check", PACKAGES=packages, PLB_PYTHON="false")
    assert status == 2 and "PLB_PYTHON=false lacks a package" in wrong, wrong


# ------------------------------------------------------------------------------ golden files
GOLDEN = """
import importlib, pathlib, resource, sys
from unittest import mock
sys.path.insert(0, sys.argv.pop(1))
for name in ("numpy", "PIL", "torchvision", "torch", "torch.utils", "torch.utils.flop_counter",
             "torch_models"):
    sys.modules[name] = mock.MagicMock()
sys.modules["PIL"].Image.__version__ = "1"
tool = importlib.import_module(sys.argv.pop(1))
tool.ROOT = pathlib.Path(".")
tool.photos = lambda folder: [("photo", b"")]
tool.line = lambda *_: "x" * 1000
tool.describe = lambda *_: "x" * 1000
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
tool.main()
"""


def test_golden_files_are_whole_or_as_they_were(folder):
    folder = pathlib.Path(folder)
    golden = folder / "tests/golden"
    golden.mkdir(parents=True)
    (folder / "src/zoo").mkdir(parents=True)
    (folder / "src/zoo/zoo.def").write_text('ZOO(a, b, 1, "c", "d", 1, 2, 3, 4, 5)\n')
    for tool, name in (("golden_images", "images.txt"), ("golden_zoo", "zoo_names.json")):
        (golden / name).write_text("as it was")
        done = subprocess.run([sys.executable, "-B", "-c", GOLDEN, TOOLS, tool], text=True,
                              cwd=folder, capture_output=True, timeout=60, check=False)
        assert done.returncode and "File too large" in done.stderr, done.stderr
        assert (golden / name).read_text() == "as it was", tool
        assert [p.name for p in golden.iterdir() if p.name.endswith(".part")] == [], tool


if __name__ == "__main__":
    sys.exit(run(globals(), each=tempfile.TemporaryDirectory))
