#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what the compilers do not: licence line, width, length of functions, names, format.

    tools/check_style.py [FILE...]      without files: all that git knows or would add

Prints file:line: complaint, and how many files were clean. Exit: 0 all were, 1 some were not,
2 a FILE is not there, there is nothing to check, or clang-format broke.
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LICENCE = "SPDX-License-Identifier: Apache-2.0"
MAX_COLUMNS = 100
MAX_FUNCTION_LINES = 70
C_FILES = {".c", ".h", ".def", ".cu", ".cuh"}
CHECKED = C_FILES | {".py", ".cmake", ".cpp", ".hpp", ".sh"}
# With clang-format's layout a function's body opens at the end of a line that began in column 0 (or
# continues one that did), but for a comment, and closes with a brace in column 0.
BODY_OPENS = re.compile(r"^[A-Za-z_ ].*\) \{( *//.*)?$")
BODY_CLOSES = re.compile(r"^\}")
TYPE_NAME = re.compile(r"^(?:typedef )?(?:struct|enum|union) (\w+) \{|^\} (\w+);")
MACRO_NAME = re.compile(r"^#\s*define\s+(\w+)")


def listed_files():
    git = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, check=False,
                         stdout=subprocess.PIPE, text=True)
    if git.returncode == 0:
        return [ROOT / name for name in git.stdout.split("\0") if name]
    return [file for file in ROOT.rglob("*") if ".venv" not in file.parts]


def named_files(names):
    files = [pathlib.Path(name).resolve() for name in names]
    for name, file in zip(names, files):
        if not file.is_file():
            refuse(f"{name}: no such file")
        if ROOT not in file.parents:
            refuse(f"{name}: not below {ROOT}")
    return files


def refuse(why):
    print(f"check_style: {why}", file=sys.stderr)
    sys.exit(2)


def wants_check(file):
    if not file.is_file():
        return False
    if file.suffix in CHECKED or file.name in ("CMakeLists.txt", "Makefile"):
        return True
    return file.suffix == "" and file.read_bytes()[:2] == b"#!"


def check_width_and_licence(lines):
    first = 1 if lines and lines[0].startswith("#!") else 0
    if len(lines) <= first or LICENCE not in lines[first]:
        yield first + 1, f"expected the line '{LICENCE}'"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            yield number, f"{len(line)} columns, at most {MAX_COLUMNS}"
        if line != line.rstrip():
            yield number, "ends in a blank"


def check_functions(lines):
    start = None
    for number, line in enumerate(lines, 1):
        if start is None and BODY_OPENS.match(line):
            start = number
        elif start is not None and BODY_CLOSES.match(line):
            length = number - start + 1
            if length > MAX_FUNCTION_LINES:
                yield start, f"a function of {length} lines, at most {MAX_FUNCTION_LINES}"
            start = None


def check_header(path, lines):
    """Names that a header gives to others: guard, macros and types carry the prefix."""
    inside = path.partition("/")[2] if path.startswith(("src/", "include/")) else path
    guard = re.sub(r"\W", "_", inside).upper()
    guard = guard if path.startswith("include/") else "PLB_" + guard
    guard = guard.replace("PLUMB_PLUMB_", "PLUMB_")
    if f"#ifndef {guard}" not in lines:
        yield 1, f"expected the guard {guard}"
    for number, line in enumerate(lines, 1):
        macro, kind = MACRO_NAME.match(line), TYPE_NAME.match(line)
        if macro and not macro[1].startswith(("PLB_", "PLUMB_", "plb_")):
            yield number, f"macro {macro[1]}: expected the prefix PLB_ or plb_"
        name = kind and (kind[1] or kind[2])
        if name and not name.startswith("plb_"):
            yield number, f"type {name}: expected the prefix plb_"


def check_format(files):
    """{file: line of the first complaint} of clang-format; None where it is not installed."""
    c_files = [str(file) for file in files if file.suffix in (".c", ".h")]
    if not shutil.which("clang-format"):
        return None
    if not c_files:
        return {}
    run = subprocess.run(["clang-format", "--dry-run"] + c_files, cwd=ROOT, check=False,
                         stderr=subprocess.PIPE, text=True)
    if run.returncode:
        refuse(f"clang-format ended with {run.returncode}: {run.stderr.strip()[-300:]}")
    found = {}
    for file, line in re.findall(r"^(.+?):(\d+):\d+: warning: code should be", run.stderr, re.M):
        found.setdefault(str(pathlib.Path(file).resolve()), int(line))
    return found


def check_file(file):
    path = file.relative_to(ROOT).as_posix()
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return [(1, "not UTF-8")]
    found = list(check_width_and_licence(lines))
    if file.suffix in C_FILES:
        found += check_functions(lines)
    if file.suffix == ".h" and not path.startswith("tests/"):
        found += check_header(path, lines)
    return found


def main():
    named = named_files(sys.argv[1:])
    files = [file for file in named or listed_files() if wants_check(file)]
    if not files and not named:
        refuse(f"no file to check below {ROOT}")
    formats = check_format(files)
    failed = 0
    for file in sorted(files):
        found = check_file(file)
        if formats and str(file) in formats:
            found.append((formats[str(file)], "not as clang-format writes it (make format)"))
        for line, complaint in sorted(found):
            print(f"{file.relative_to(ROOT)}:{line}: {complaint}")
        failed += bool(found)
    if formats is None:
        print("skipped formatting: clang-format is not installed")
    print(f"{len(files) - failed} passed, {failed} failed, {int(formats is None)} skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
