# SPDX-License-Identifier: Apache-2.0
"""What stands between `plumb bench` and an honest worker of ours, and hands on what they say."""
import json
import math
import os
import socket
import struct
import subprocess

OWN = 1 << 28  # where our own outputs begin; the honest worker stays far below
SIZES = {"f64": 8, "f32": 4, "i64": 8}


class Cheat:
    """The honest stack; subclasses lie."""

    def __init__(self, plumb):
        self.caller = socket.socket(fileno=int(os.environ["PLUMB_FD"])).makefile("rwb")
        self.in_fd = int(os.environ["PLUMB_IN_FD"])
        self.out_fd = int(os.environ["PLUMB_OUT_FD"])
        self.used = OWN
        self.load_request = None
        ours, theirs = socket.socketpair()
        # The worker gets inputs of our making, so that they can differ from the caller's.
        self.copy_fd = os.memfd_create("copy")
        fds = (theirs.fileno(), self.copy_fd, self.out_fd)
        environment = dict(os.environ, PLUMB_FD=str(fds[0]), PLUMB_IN_FD=str(fds[1]),
                           PLUMB_OUT_FD=str(fds[2]))
        self.child = subprocess.Popen([plumb, "worker", "plumb-plan"], pass_fds=fds,
                                      env=environment, stdin=subprocess.DEVNULL)
        theirs.close()
        self.worker = ours.makefile("rwb")

    # ---- messages
    def ask(self, request, **more):
        self.worker.write(json.dumps(dict(request, **more)).encode() + b"\n")
        self.worker.flush()
        return json.loads(self.worker.readline())

    def answer(self, message):
        self.caller.write(json.dumps(message).encode() + b"\n")
        self.caller.flush()

    def serve(self):
        for line in self.caller:
            request = json.loads(line)
            self.used = OWN
            handler = getattr(self, request["type"], None)
            self.answer(handler(request) if handler else self.ask(request))
            self.after(request)
            if request["type"] == "bye":
                return

    def after(self, request):
        pass

    # ---- shared memory
    def read(self, tensor):
        return bytearray(os.pread(self.out_fd, self.bytes_of(tensor), tensor["offset"]))

    def bytes_of(self, tensor):
        return math.prod(tensor["shape"]) * SIZES[tensor["dtype"]]

    def put(self, data):
        """Lays bytes into the outputs, beyond the worker's."""
        offset = self.used
        self.used += (len(data) + 63) // 64 * 64
        if os.fstat(self.out_fd).st_size < self.used:
            os.ftruncate(self.out_fd, self.used)
        os.pwrite(self.out_fd, data, offset)
        return offset

    def replace(self, tensor, data):
        tensor["offset"] = self.put(bytes(data))

    def replace_samples(self, answer, samples):
        answer["offset"] = self.put(struct.pack(f"{len(samples)}q", *samples))

    def samples(self, answer):
        return list(struct.unpack(f"{answer['count']}q",
                                  os.pread(self.out_fd, 8 * answer["count"], answer["offset"])))

    # ---- inputs
    def change_input(self, request, name, data):
        return data

    def copy_inputs(self, request):
        size = os.fstat(self.in_fd).st_size
        os.ftruncate(self.copy_fd, size)
        for tensor in request["inputs"]:
            for offset in tensor["offsets"]:
                data = os.pread(self.in_fd, self.bytes_of(tensor), offset)
                os.pwrite(self.copy_fd, self.change_input(request, tensor["name"], data), offset)

    def load(self, request):
        self.load_request = request
        self.copy_inputs(request)
        return self.ask(request)

    def batches(self, request):
        self.copy_inputs(self.load_request)
        return self.ask(request)
