#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checkers of tools/ must see what they are there for."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))
sys.path.append(str(pathlib.Path(__file__).parents[1]))
import check_layers  # noqa: E402 (the path comes first)
import check_style  # noqa: E402
from runner import Skip, run  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parents[2]
LAYERS = check_layers.read_layers("base/core:\nbase: base/core\nengine: base base/core # words\n")


def layers(path, text):
    return list(check_layers.complaints(path, text, LAYERS))


def test_layers():
    assert not layers("src/engine/ops/a.c", '#include "base/json.h"\n#include "engine/b.h"\n'
                                            '#include "plumb/c.h"\n#include <stdio.h>\n')
    assert "base/core may not include base" in layers("src/base/core/a.c",
                                                      '#include "base/json.h"')[0]
    assert "base may not include engine" in layers("src/base/a.c", '# include "engine/b.h"')[0]
    assert layers("src/base/a.c", '#include "json.h"')
    assert layers("src/elsewhere/a.c", "")
    assert layers("include/plumb/a.h", '#include "base/json.h"')


def test_long_functions():
    body = ["    x();"] * 68
    assert not list(check_style.check_functions(["void f(void) {", *body, "}"]))
    assert list(check_style.check_functions(["void f(void) {", *body, *body, "}"]))
    assert list(check_style.check_functions(["void f(void) { // g(1)", *body, *body, "}"]))
    two_lines = ["void f(int a,", "       int b) {"]
    assert list(check_style.check_functions([*two_lines, *body, *body, "}"]))


def test_names_of_headers():
    good = ["#ifndef PLB_BASE_A_H", "#define PLB_BASE_A_H", "typedef struct plb_a {", "} plb_a;"]
    assert not list(check_style.check_header("src/base/a.h", good))
    assert list(check_style.check_header("src/base/b.h", good))
    assert list(check_style.check_header("src/base/a.h", good + ["#define SIZE 3"]))
    assert list(check_style.check_header("src/base/a.h", good + ["typedef struct thing {"]))


def test_width_and_licence():
    first = "// SPDX-License-Identifier: Apache-2.0"
    assert not list(check_style.check_width_and_licence([first, "x" * 100]))
    assert list(check_style.check_width_and_licence([first, "x" * 101]))
    assert list(check_style.check_width_and_licence([first, "x "]))
    assert list(check_style.check_width_and_licence(["// something else"]))
    assert not list(check_style.check_width_and_licence(["#!/bin/sh", first.replace("//", "#")]))


def run_in(folder, tool, *arguments, **changes):
    """Status, standard output and standard error of a copy of the tool in a tree of its own, in
    whose name is a blank."""
    tree = pathlib.Path(folder) / "a tree"
    (tree / "tools").mkdir(parents=True, exist_ok=True)
    shutil.copy(TOP / "tools" / tool, tree / "tools")
    done = subprocess.run([sys.executable, tree / "tools" / tool, *arguments], cwd=tree,
                          check=False, capture_output=True, text=True,
                          env={**os.environ, **changes})
    return done.returncode, done.stdout, done.stderr


def put(folder, name, text):
    file = pathlib.Path(folder) / "a tree" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_layers_of_every_kind_of_file():
    with tempfile.TemporaryDirectory() as folder:
        put(folder, "LAYERS", "base:\nengine: base\n")
        assert "no file to check" in run_in(folder, "check_layers.py")[2]
        for suffix in ("c", "h", "def", "inc", "cu", "cuh"):
            put(folder, f"src/base/a.{suffix}", '#include "engine/b.h"\n')
        status, told, _ = run_in(folder, "check_layers.py")
    assert status == 1 and told.count("base may not include engine") == 6, told


def test_layers_in_angle_brackets():
    assert "is our own" in layers("src/base/a.c", "#include <engine/b.h>")[0]
    assert not layers("src/base/a.c", "#include <sys/types.h>\n#include <stdio.h>\n")


def test_style_of_what_is_not_there():
    with tempfile.TemporaryDirectory() as folder:
        assert "nothing.c: no such file" in run_in(folder, "check_style.py", "nothing.c")[2]
        status, _, told = run_in(folder, "check_style.py", "nothing.c", "more.c")
        assert status == 2 and len(told.splitlines()) == 1, told
        outside = pathlib.Path(folder) / "outside.c"
        outside.write_text("")
        status, _, told = run_in(folder, "check_style.py", outside)
        assert status == 2 and "not below" in told and len(told.splitlines()) == 1, told


def test_format():
    if not shutil.which("clang-format"):
        raise Skip("clang-format is not installed")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(TOP / ".clang-format", put(folder, ".clang-format", ""))
        put(folder, "a.c", "// SPDX-License-Identifier: Apache-2.0\nint   x ;\n")
        status, told, _ = run_in(folder, "check_style.py", "a.c")
        assert status == 1 and "a.c:2: not as clang-format writes it" in told, told
        broken = pathlib.Path(folder) / "clang-format"
        broken.write_text("#!/bin/sh\necho broken >&2; exit 3\n")
        broken.chmod(0o755)
        status, _, told = run_in(folder, "check_style.py", "a.c",
                                 PATH=f"{folder}:{os.environ['PATH']}")
        assert status == 2 and "clang-format ended with 3: broken" in told, told


if __name__ == "__main__":
    sys.exit(run(globals()))
