# SPDX-License-Identifier: Apache-2.0
"""What may go wrong in a request, as the protocol names it."""


class RequestError(Exception):
    """Becomes an `error` answer; the worker goes on."""

    code = "internal"


class Refused(RequestError):
    """The stack cannot do this case. `kind`: one of the protocol's list."""

    code = "refused"

    def __init__(self, kind, reason):
        super().__init__(reason)
        self.kind = kind


class Invalid(RequestError):
    """The request is malformed, or comes where it makes no sense."""

    code = "invalid"


class Unsupported(RequestError):
    code = "unsupported"


class Cancelled(RequestError):
    code = "cancelled"


class OutOfMemory(RequestError):
    code = "oom"


class DiskFull(RequestError):
    code = "full"


def one_line(error, limit=600):
    """The text of an exception on one line: the first lines that say something."""
    text = " ".join(str(error).split()) or type(error).__name__
    if not isinstance(error, RequestError):
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= limit else text[:limit - 1] + "…"
