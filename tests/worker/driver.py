# SPDX-License-Identifier: Apache-2.0
"""Starts a worker and speaks stacks/protocol.md with it: for tests, without the supervisor."""
import json
import mmap
import os
import socket
import struct
import subprocess
import time

SIZES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "u8": 1, "bool": 1}
CODES = {"f64": "d", "f32": "f", "i64": "q", "i32": "i"}


class Worker:
    """One process. Inputs are bytes that place() lays into shared memory."""

    def __init__(self, command, threads=1, log=subprocess.DEVNULL):
        ours, theirs = socket.socketpair()
        self.input = os.memfd_create("plumb-in")
        self.output = os.memfd_create("plumb-out")
        self.used = 0
        self.number = 0
        fds = (theirs.fileno(), self.input, self.output)
        environment = dict(os.environ, PLUMB_FD=str(fds[0]), PLUMB_IN_FD=str(fds[1]),
                           PLUMB_OUT_FD=str(fds[2]), OMP_NUM_THREADS=str(threads),
                           PLUMB_THREADS=str(threads))
        self.process = subprocess.Popen(command, pass_fds=fds, env=environment, stdout=log,
                                        stderr=log, stdin=subprocess.DEVNULL)
        theirs.close()
        self.file = ours.makefile("rwb")
        self.socket = ours

    def place(self, data):
        offset = self.used
        self.used += (len(data) + 63) // 64 * 64
        os.ftruncate(self.input, self.used)
        os.pwrite(self.input, data, offset)
        return offset

    def ask(self, **request):
        self.number += 1
        request["id"] = self.number
        self.file.write(json.dumps(request).encode() + b"\n")
        self.file.flush()
        line = self.file.readline()
        answer = json.loads(line)
        assert answer["id"] == self.number, answer
        return answer

    def read(self, tensor):
        count = 1
        for extent in tensor["shape"]:
            count *= extent
        size = count * SIZES[tensor["dtype"]]
        data = os.pread(self.output, size, tensor["offset"])
        return struct.unpack(f"{count}{CODES[tensor['dtype']]}", data)

    def samples(self, answer):
        return struct.unpack(f"{answer['count']}q",
                             os.pread(self.output, 8 * answer["count"], answer["offset"]))

    def close(self):
        self.file.close()
        self.socket.close()
        try:
            return self.process.wait(10)
        finally:
            self.process.kill()
            os.close(self.input)
            os.close(self.output)
