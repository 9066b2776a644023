#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checkers of tools/ must see what they are there for."""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))
sys.path.append(str(pathlib.Path(__file__).parents[1]))
import check_layers  # noqa: E402 (the path comes first)
import check_style  # noqa: E402
from runner import run  # noqa: E402

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


if __name__ == "__main__":
    sys.exit(run(globals()))
