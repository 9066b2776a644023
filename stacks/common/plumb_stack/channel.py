# SPDX-License-Identifier: Apache-2.0
"""Messages: JSON lines on one stream socket, so that what libraries print disturbs nothing."""
import json
import os
import select
import socket

from .errors import Invalid

MAX_LINE_BYTES = 16 << 20
CHUNK_BYTES = 65536


class Channel:
    def __init__(self, descriptor):
        os.set_inheritable(descriptor, False)
        self.socket = socket.socket(fileno=descriptor)
        self.buffer = bytearray()
        self.lines = []
        self.too_long = False

    def _read(self):
        """Reads what there is into lines. False at the end of the stream."""
        chunk = self.socket.recv(CHUNK_BYTES)
        if not chunk:
            return False
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            self._add(part)
            self.lines.append(None if self.too_long else bytes(self.buffer))
            self.buffer.clear()
            self.too_long = False
        self._add(rest)
        return True

    def _add(self, part):
        # A line without end must not fill the memory: it is read over and then complained of.
        if len(self.buffer) + len(part) > MAX_LINE_BYTES:
            self.too_long = True
            self.buffer.clear()
        if not self.too_long:
            self.buffer += part

    def receive(self):
        """The next message, a dict; None at the end. Raises Invalid for what is no message."""
        while not self.lines:
            if not self._read():
                return None
        line = self.lines.pop(0)
        if line is None:
            raise Invalid(f"a message is longer than {MAX_LINE_BYTES} bytes")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Invalid(f"expected a JSON object on one line, found {line[:60]!r}: {error}"
                          ) from None
        if not isinstance(message, dict):
            raise Invalid(f"expected a JSON object, found {line[:60]!r}")
        return message

    def send(self, message):
        self.socket.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def cancelled(self):
        """Whether the caller has asked to end the request under way, or has gone."""
        while select.select([self.socket], [], [], 0)[0]:
            if not self._read():
                return True
        for i, line in enumerate(self.lines):
            try:
                cancel = line is not None and json.loads(line).get("type") == "cancel"
            except (ValueError, AttributeError, RecursionError):
                cancel = False
            if cancel:
                del self.lines[i]
                return True
        return False
