# SPDX-License-Identifier: Apache-2.0
"""Files that are whole or not there, whatever comes between: an interrupt, a full disk, another
run."""
import os
import pathlib


def replace(path, make):
    """make(part) writes a file beside `path`, which then takes the place of what was there."""
    path = pathlib.Path(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        make(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def replace_text(path, text):
    replace(path, lambda part: part.write_text(text, encoding="utf-8"))
