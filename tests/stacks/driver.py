# SPDX-License-Identifier: Apache-2.0
"""Speaks stacks/protocol.md to one worker, as `plumb bench` does: for tests."""
import json
import os
import signal
import socket
import subprocess
import tempfile

import numpy as np

DTYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64}
NAMES = {np.dtype(v): k for k, v in DTYPES.items()}
TIMEOUT_S = 240


class WorkerError(Exception):
    """An answer of type error."""

    def __init__(self, answer):
        super().__init__(f"{answer.get('code')}: {answer.get('reason')}")
        self.answer = answer


class Worker:
    def __init__(self, command, folder=None, threads=1, environment=None):
        ours, theirs = socket.socketpair()
        self.socket = ours
        self.socket.settimeout(TIMEOUT_S)
        self.lines = self.socket.makefile("rb")
        self.input = os.memfd_create("inputs")
        self.output = os.memfd_create("outputs")
        self.log = tempfile.TemporaryFile()
        self.number = 0
        env = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads),
               "OPENBLAS_NUM_THREADS": str(threads), "PLUMB_THREADS": str(threads),
               "OMP_WAIT_POLICY": "passive", "PLUMB_FD": "3", "PLUMB_IN_FD": "4",
               "PLUMB_OUT_FD": "5", **(environment or {})}
        self.process = start(command, folder, env, [theirs.fileno(), self.input, self.output],
                             self.log)
        theirs.close()

    def send(self, line):
        self.socket.sendall(line + b"\n")

    def receive(self):
        line = self.lines.readline()
        if not line:
            raise EOFError(f"the worker has gone:\n{self.tail()}")
        return json.loads(line)

    def ask(self, kind, **fields):
        """The answer; WorkerError where it is an error."""
        self.number += 1
        self.send(json.dumps({"type": kind, "id": self.number, **fields}).encode())
        answer = self.receive()
        assert answer.get("id") == self.number, answer
        if answer["type"] == "error":
            raise WorkerError(answer)
        return answer

    def tail(self, limit=3000):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-limit:]

    def write_inputs(self, named):
        """`named`: {name: [array a batch]}. The member "inputs" of a load."""
        offset, inputs, pieces = 0, [], []
        for name, batches in named.items():
            offsets = []
            for array in batches:
                offset = -(-offset // 64) * 64
                offsets.append(offset)
                pieces.append((offset, np.ascontiguousarray(array)))
                offset += array.nbytes
            inputs.append({"name": name, "dtype": NAMES[batches[0].dtype],
                           "shape": list(batches[0].shape), "offsets": offsets})
        os.ftruncate(self.input, max(offset, os.fstat(self.input).st_size))
        for place, array in pieces:
            os.pwrite(self.input, array.tobytes(), place)
        return inputs

    def tensor(self, place):
        """The values of a tensor that an answer describes."""
        dtype, shape = np.dtype(DTYPES[place["dtype"]]), place["shape"]
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        data = os.pread(self.output, size, place["offset"])
        assert len(data) == size and place["offset"] % 64 == 0, place
        return np.frombuffer(data, dtype).reshape(shape)

    def tensors(self, answer):
        """{(name, batch): values}"""
        return {(t["name"], t["batch"]): self.tensor(t) for t in answer["tensors"]}

    def sample(self, n, region="latency", check=-1, batches=(0, 1), **fields):
        """The times in nanoseconds, and the answer."""
        answer = self.ask("sample", n=n, region=region, batches=list(batches), check=check,
                          **fields)
        times = np.frombuffer(os.pread(self.output, 8 * answer["count"], answer["offset"]),
                              np.int64)
        return times, answer

    def close(self):
        try:
            self.ask("bye")
            return self.process.wait(30)
        finally:
            self.kill()

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.socket.close()
        self.lines.close()
        for descriptor in (self.input, self.output):
            if descriptor is not None:
                os.close(descriptor)
        self.input = self.output = None


def start(command, folder, env, descriptors, log):
    """Runs a command with `descriptors` as 3, 4, 5 in a process group of its own."""
    def arrange():
        high = [os.dup2(fd, 100 + i, inheritable=False) for i, fd in enumerate(descriptors)]
        for i, fd in enumerate(high):
            os.dup2(fd, 3 + i, inheritable=True)
    return subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log,
                            stderr=log, preexec_fn=arrange, close_fds=False,
                            start_new_session=True)


