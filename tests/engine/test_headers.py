#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The public headers as others' compilers see them, in C and in C++: each stands alone, plumb.h has
all of them, and every function that they declare is in the library under its C name."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from runner import Skip, run  # noqa: E402

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
HEADERS = sorted(path.relative_to(INCLUDE) for path in INCLUDE.glob("plumb/*.h"))
LANGUAGES = {"C": ("cc", "main.c", "-std=c17"), "C++": ("c++", "main.cpp", "-std=c++17")}


def functions():
    """Names that the headers declare as public."""
    text = "\n".join((INCLUDE / header).read_text() for header in HEADERS)
    text = re.sub(r"//.*|^#.*", "", text, flags=re.MULTILINE)
    return sorted(set(re.findall(r"PLB_API\b[^;(]*?\b(plb_\w+)\(", text)))


def compiled(folder, language, text, *flags):
    compiler, name, standard = LANGUAGES[language]
    if not shutil.which(compiler):
        raise Skip(f"no {compiler} here")
    source = pathlib.Path(folder, name)
    source.write_text(text, encoding="utf-8")
    done = subprocess.run([compiler, standard, "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}",
                           source, *flags], text=True, capture_output=True, check=False,
                          timeout=120)
    assert done.returncode == 0, f"{language}: {done.stderr[:2000]}"


def stand_alone(language):
    with tempfile.TemporaryDirectory() as folder:
        for header in HEADERS:
            text = f"#include <{header}>\n#include <{header}>\n"
            compiled(folder, language, text, "-fsyntax-only")


def link(language):
    """A program that takes the address of every function, by plumb.h alone, and calls two."""
    if os.environ.get("PLUMB_SANITIZE"):
        raise Skip("done in the plain build")
    names = functions()
    assert len(names) > 150 and "plb_free" in names, names
    list_of = "".join(f"    (const void *)&{name},\n" for name in names)
    text = ("#include <plumb/plumb.h>\n#include <stdio.h>\n"
            f"const void *const all[] = {{\n{list_of}}};\n"
            "int main(void) {\n    plb_free(NULL);\n"
            "    return all[0] && puts(plb_version()) > 0 ? 0 : 1;\n}\n")
    build = os.environ["PLUMB_BUILD"]
    with tempfile.TemporaryDirectory() as folder:
        compiled(folder, language, text, "-o", f"{folder}/main", f"-L{build}", "-lplumb",
                 f"-Wl,-rpath,{build}")
        told = subprocess.run([f"{folder}/main"], text=True, capture_output=True, check=True,
                              timeout=60).stdout
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", told), told


def test_headers_stand_alone_in_c():
    stand_alone("C")


def test_headers_stand_alone_in_cpp():
    stand_alone("C++")


def test_a_program_in_c_finds_every_function():
    link("C")


def test_a_program_in_cpp_finds_every_function():
    link("C++")


def test_one_header_includes_all():
    text = (INCLUDE / "plumb/plumb.h").read_text()
    missing = [str(h) for h in HEADERS if h.name != "plumb.h" and f'"{h}"' not in text]
    assert not missing, missing


if __name__ == "__main__":
    sys.exit(run(globals()))
