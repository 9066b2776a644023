# SPDX-License-Identifier: Apache-2.0
"""plumb_stack.exports for workers that are not Python: prints the path of the exported file as its
last line; a failure is the last line and status 1, or 3 where a disk is full.

    export_cached.py '{"format":"script",…}'
"""
import errno
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

from plumb_stack import exports  # noqa: E402
from plumb_stack.errors import DiskFull, RequestError, one_line  # noqa: E402

if __name__ == "__main__":
    try:
        print(exports.cached(json.loads(sys.argv[1])))
    except (RequestError, OSError, ValueError) as error:
        print(one_line(error))
        full = isinstance(error, DiskFull) or getattr(error, "errno", None) in (errno.ENOSPC,
                                                                                errno.EDQUOT)
        sys.exit(3 if full else 1)
