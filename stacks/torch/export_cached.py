# SPDX-License-Identifier: Apache-2.0
"""plumb_stack.exports for workers that are not Python: prints the path of the exported file as its
last line; a failure is the last line and status 1.   export_cached.py '{"format":"script",…}'"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

from plumb_stack import exports  # noqa: E402
from plumb_stack.errors import RequestError, one_line  # noqa: E402

if __name__ == "__main__":
    try:
        print(exports.cached(json.loads(sys.argv[1])))
    except (RequestError, OSError, ValueError) as error:
        print(one_line(error))
        sys.exit(1)
