#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program as a user meets it: exit codes, what is said where, full disks and closed pipes."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from commands import PLUMB, Skip, plumb, run_tests  # noqa: E402

SANITIZED = bool(os.environ.get("PLUMB_SANITIZE"))


def expect(run, code, out="", err=""):
    """The exit code, words of standard output, and standard error as one line with these words."""
    assert run.returncode == code, (run.args, run.returncode, run.stderr)
    assert out in (run.stdout or ""), (run.args, run.stdout)
    if err:
        assert err in run.stderr and run.stderr.count("\n") == 1, (run.args, run.stderr)
        assert run.stderr.startswith("plumb"), (run.args, run.stderr)
    elif code == 0:
        assert run.stderr == "", (run.args, run.stderr)


def commands():
    listed = plumb("--help").stdout.split("Commands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in listed.splitlines()]


def flags_of(name):
    """What the command's own help lists."""
    return set(re.findall(r"^  (--[a-z0-9-]+)", plumb(name, "--help").stdout, re.MULTILINE))


def test_help_and_version():
    expect(plumb("--help"), 0, "Usage: plumb COMMAND")
    expect(plumb("help"), 0, "Usage: plumb COMMAND")
    expect(plumb("-h"), 0, "doctor")
    assert re.fullmatch(r"plumb \d+\.\d+\.\d+\n", plumb("--version").stdout)
    for name in commands():
        run = plumb(name, "--help")
        expect(run, 0, f"Usage: plumb {name}")
        assert run.stdout == plumb("help", name).stdout
        assert "--json" in run.stdout
        assert all(len(line) <= 100 for line in run.stdout.splitlines()), name


def test_what_explains_the_program_knows_json():
    def document(*words):
        run = plumb(*words, "--json")
        expect(run, 0)
        return json.loads(run.stdout)

    found = document("help")
    assert document("--help") == document("-h") == found
    assert found["document"] == "help" and [c["name"] for c in found["commands"]] == commands()
    for command in found["commands"][:3] + found["commands"][-1:]:
        one = document(command["name"], "--help")
        assert one["commands"] == [command] == document("help", command["name"])["commands"]
        named = {"--" + f["name"] for f in command["flags"] + one["flags"]}
        assert named == flags_of(command["name"]), command["name"]
    for words in (("completion", "bash"), ("completion", "zsh"), ("manual",)):
        assert document(*words)["text"] == plumb(*words).stdout, words


def test_bad_usage_is_one_line_and_exit_2():
    assert plumb().returncode == 2
    expect(plumb("docter"), 2, err='unknown command "docter"; did you mean doctor?')
    expect(plumb("xylophone"), 2, err="`plumb --help` lists them")
    expect(plumb("help", "docter"), 2, err="did you mean doctor?")
    expect(plumb("--verbose"), 2, err="expected a command")
    expect(plumb("doctor", "--jsn"), 2, err="plumb doctor: unknown flag --jsn; did you mean")
    expect(plumb("doctor", "extra"), 2, err='unexpected "extra"')
    expect(plumb("doctor", "--json=yes"), 2, err="--json takes no value")
    expect(plumb("completion"), 2, err="expected bash|zsh, found nothing")
    expect(plumb("completion", "fish"), 2, err="expected bash or zsh")
    expect(plumb(""), 2, err="unknown command")
    for name in commands():
        expect(plumb(name, "--no-such-flag"), 2, err=f"plumb {name}: unknown flag --no-such-flag")


def test_an_error_is_one_line_whatever_names_hold():
    run = plumb("models", "two\nlines\x1b[31m.onnx")
    expect(run, 2, err="two lines\ufffd[31m.onnx: ")
    expect(plumb("x\ny"), 2, err='unknown command "x y"')


def test_doctor_says_the_same_in_words_and_json():
    expect(plumb("doctor"), 0, "Processor")
    run = plumb("doctor", "--json")
    expect(run, 0)
    document = json.loads(run.stdout)
    assert list(document)[:3] == ["plumb", "document", "document_version"]
    assert document["document"] == "doctor" and document["document_version"] == 1
    assert document["cpu"]["affinity_cpus"] == len(os.sched_getaffinity(0))
    assert 1 <= document["cpu"]["default_threads"] <= document["cpu"]["affinity_cpus"]
    text = plumb("doctor").stdout
    for name, version in document["libraries"].items():
        assert version is None or f"{version}" in text, name
    for row in document["missing"]:
        assert row["what"] in text and row["command"] in text and row["enables"]


def test_doctor_finds_data_sets():
    with tempfile.TemporaryDirectory() as folder:
        empty = {"HOME": folder, "XDG_DATA_HOME": "", "PLUMB_DATA": "", "PLUMB_TEST_DATA": ""}
        found = json.loads(plumb("doctor", "--json", env=empty).stdout)["data_sets"]
        assert found == {"mnist": None, "fashion-mnist": None}
        mnist = pathlib.Path(folder, ".local/share/plumb/data/mnist")
        mnist.mkdir(parents=True)
        (mnist / "train-images-idx3-ubyte.gz").touch()
        found = json.loads(plumb("doctor", "--json", env=empty).stdout)["data_sets"]
        assert found["mnist"] == str(mnist)
        other = pathlib.Path(folder, "other/mnist")
        other.mkdir(parents=True)
        (other / "train-images-idx3-ubyte").touch()
        env = {**empty, "PLUMB_DATA": str(other.parent)}
        found = json.loads(plumb("doctor", "--json", env=env).stdout)["data_sets"]
        assert found["mnist"] == str(other)


def test_doctor_lists_stacks():
    with tempfile.TemporaryDirectory() as folder:
        env = {"XDG_DATA_HOME": folder, "PLUMB_STACKS": ""}
        document = json.loads(plumb("doctor", "--json", env=env).stdout)
        assert document["stacks"]["torch-eager"]["state"] == "missing", document["stacks"]
        commands = [row["command"] for row in document["missing"]]
        assert commands.count("plumb stacks add torch") == 1, commands
        mine = pathlib.Path(folder, "plumb/stacks/torch-eager")
        mine.mkdir(parents=True)
        (mine / "stack.json").write_text('{"command": ["/no/such/python"]}')
        run = plumb("doctor", env=env)
        expect(run, 0, "/no/such/python is gone")
        (mine / "stack.json").write_text(json.dumps({"name": "torch-eager", "protocol": 1,
                                                     "command": ["/bin/true"],
                                                     "python": "/bin/false"}))
        expect(plumb("doctor", env=env), 0, "/bin/false cannot be run")


def test_no_home_is_no_error():
    env = {k: v for k, v in os.environ.items() if k not in ("HOME", "PLUMB_STACKS")
           and not k.startswith("XDG_")}
    for words in (["doctor"], ["stacks", "list"], ["data", "list"], ["models"]):
        run = subprocess.run([PLUMB, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, timeout=60, check=False, env=env)
        expect(run, 0)
    run = subprocess.run([PLUMB, "runs"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, timeout=60, check=False, env=env)
    expect(run, 3, err="neither XDG_DATA_HOME nor HOME is set")


def test_relative_xdg_folders_are_ignored():
    """As the specification of these variables has it; no command takes them for the other."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        env = {"HOME": home, "XDG_DATA_HOME": "rel", "XDG_CACHE_HOME": "rel"}
        expect(plumb("runs", env=env, cwd=folder), 3, err=home)
        run = plumb("verify", "lenet5", "--batch", "1", "--stack", "plumb-plan", env=env,
                    cwd=folder)
        assert run.returncode == 0, run.stderr
        stack = pathlib.Path(home, ".local/share/plumb/stacks/mine/stack.json")
        stack.parent.mkdir(parents=True)
        stack.write_text('{"protocol": 1, "name": "mine", "command": ["true"]}')
        expect(plumb("stacks", env=env, cwd=folder), 0, out="mine")
        expect(plumb("bench", "mnist_cnn", "--stack", "myne", env=env, cwd=folder), 2, err="mine?")
        assert os.listdir(folder) == []


def test_absurdly_many_threads_are_no_crash():
    expect(plumb("init", "mnist_cnn", "--save", os.devnull, env={"OMP_NUM_THREADS": "99999"}), 0)


def test_full_disk_is_exit_3():
    with open("/dev/full", "w", encoding="utf-8") as full:
        expect(plumb("doctor", "--json", stdout=full), 3, err="No space left on device")
        expect(plumb("--version", stdout=full), 3, err="No space left on device")
        expect(plumb("manual", stdout=full), 3, err="No space left on device")


def test_closed_pipe_ends_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    run = plumb("manual", stdout=writer)
    os.close(writer)
    assert run.returncode == 2 and run.stderr == "", (run.returncode, run.stderr)


def test_closed_output_is_noticed():
    run = subprocess.run(["sh", "-c", '"$0" --version >&-', PLUMB], stderr=subprocess.PIPE,
                         text=True, check=False)
    assert run.returncode == 2 and "Bad file descriptor" in run.stderr, run


def test_bash_completion_knows_the_tables():
    if not shutil.which("bash"):
        raise Skip("bash is not installed")
    script = plumb("completion", "bash").stdout
    ask = script + '\nCOMP_WORDS=(plumb "$@"); COMP_CWORD=$#; _plumb; echo "${COMPREPLY[*]}"'

    def complete(*words):
        return subprocess.run(["bash", "-c", ask, "bash", *words], stdout=subprocess.PIPE,
                              text=True, check=True).stdout.split()

    assert complete("doc") == ["doctor"]
    assert set(commands()) <= set(complete(""))
    assert complete("doctor", "--j") == ["--json"]
    assert "doctor" in complete("help", "")
    for name in commands():
        assert set(complete(name, "--")) == flags_of(name), name


def test_zsh_completion_is_a_script():
    script = plumb("completion", "zsh").stdout
    assert script.startswith("#compdef plumb\n")
    for name in commands():
        assert f"'{name}:" in script
        part = re.search(rf"^    {name}\)\n(.*?)^        ;;", script, re.MULTILINE | re.DOTALL)[1]
        assert set(re.findall(r"^ +'(--[a-z0-9-]+)", part, re.MULTILINE)) == flags_of(name), name
    if shutil.which("zsh"):
        subprocess.run(["zsh", "-n", "-c", script], check=True)


def test_manual_page_holds_every_command():
    page = plumb("manual").stdout
    general = {"--help", "--json", "--verbose"}  # said once, for every command
    for name in commands():
        part = re.search(rf"^\.SS plumb {name}\b(?!-)(.*?)(?=^\.S[SH]|\Z)", page,
                         re.MULTILINE | re.DOTALL)[1].replace("\\-", "-")
        found = set(re.findall(r"^\.TP\n\\fB(--[a-z0-9-]+)", part, re.MULTILINE))
        assert found == flags_of(name) - general, (name, found ^ flags_of(name))
    if not shutil.which("groff"):
        raise Skip("groff is not installed")
    run = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=page, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, check=True)
    assert run.stderr == "", run.stderr
    assert "EXIT STATUS" in re.sub(r"\x1b\[[0-9;]*m|.\x08", "", run.stdout)


def test_installed_library_serves_a_program():
    if SANITIZED:
        raise Skip("done in the plain build")
    if not shutil.which("pkg-config"):
        raise Skip("pkg-config is not installed")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cmake", "--build", os.environ["PLUMB_BUILD"], "--target", "plumb_manual",
                        "plumb_library"], stdout=subprocess.DEVNULL, check=True)
        subprocess.run(["cmake", "--install", os.environ["PLUMB_BUILD"], "--prefix", folder],
                       stdout=subprocess.DEVNULL, check=True)
        for name in ("bin/plumb", "lib/libplumb.so", "include/plumb/tensor.h",
                     "share/man/man1/plumb.1", "share/zsh/site-functions/_plumb",
                     "share/bash-completion/completions/plumb", "share/doc/plumb/LICENSE"):
            assert pathlib.Path(folder, name).exists(), name
        program = pathlib.Path(folder, "main.c")
        program.write_text("#include <plumb/tensor.h>\n#include <plumb/version.h>\n#include "
                           "<stdio.h>\nint main(void) { return puts(plb_version()) < 0 || "
                           "plb_dtype_size(PLB_F32) != 4; }\n", encoding="utf-8")
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "plumb"], text=True, check=True,
                               env={**os.environ, "PKG_CONFIG_PATH": f"{folder}/lib/pkgconfig"},
                               stdout=subprocess.PIPE).stdout.split()
        binary = f"{folder}/main"
        subprocess.run(["cc", "-std=c17", "-Wall", "-Werror", str(program), "-o", binary, *flags],
                       check=True)
        env = {**os.environ, "LD_LIBRARY_PATH": f"{folder}/lib"}
        ran = subprocess.run([binary], env=env, stdout=subprocess.PIPE, text=True, check=True)
        assert f"plumb {ran.stdout}" == plumb("--version").stdout
        subprocess.run([f"{folder}/bin/plumb", "doctor"], stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    run_tests(dict(globals()))
