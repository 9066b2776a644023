# SPDX-License-Identifier: Apache-2.0
"""Times whole models in PyTorch on a GPU, one JSON line a case.

    python tools/peers_gpu.py [--seconds S] [--timing T] [--jobs N]
                              MODEL:TASK:DTYPE:BATCH:MODE[:nchw] ...
    python tools/peers_gpu.py --epoch

TASK is infer or train (SGD, momentum 0.9, fused), DTYPE f32, tf32, bf16 or f16: 16-bit inference
runs with cast weights, training under autocast. MODE is eager, graph (one CUDA graph), inductor,
inductor-ro (reduce-overhead) or inductor-graph (what Inductor made as one CUDA graph; told as
inductor too, before it is recorded). Memory is channels last unless :nchw says otherwise, cuDNN's
benchmark mode is on. latency_ms is the median between two events around one iteration with the
device idle before, queued_ms many iterations divided by their number: 100 of each, or as many as T
seconds (4) hold, at least 20. peak_bytes is the most that PyTorch's allocator held meanwhile. No
case starts after S seconds, and what still runs a minute later is ended.

N processes (1) have a case each: they load and compile side by side, settle one after the other,
and while one is timed the others are stopped. What finds no memory beside them is tried again when
they are done. SIGTERM ends all of them. --epoch times an epoch of the MNIST network, 937 steps of
64 and one of 32, with the data on the device.
"""
import argparse
import json
import os
import pathlib
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time

WORKER = [sys.executable, str(pathlib.Path(__file__).with_name("peers_gpu_torch.py"))]
CASE = re.compile(r"[^:]+:(infer|train):(f32|tf32|bf16|f16):[1-9]\d*:"
                  r"(eager|graph|inductor|inductor-ro|inductor-graph)(:nchw)?")
LATE_S = 60  # after which no case goes on, from when none begins
CALM_S = 0.3  # after the others were stopped: what they had launched ends meanwhile


class Worker:
    """A process that has a case, or none: state is what it said last."""

    def __init__(self, command, selector):
        # A group of its own, so that what it starts is stopped with it. Inductor compiles in
        # processes, as many as there are processors: too many where several do.
        self.complaints = tempfile.TemporaryFile()
        environment = {"TORCHINDUCTOR_COMPILE_THREADS": "3", **os.environ}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.complaints, env=environment,
                                        start_new_session=True)
        self.state, self.case, self.alone, self.rest = "idle", None, False, b""
        selector.register(self.process.stdout, selectors.EVENT_READ, self)

    def tell(self, line, state):
        self.state = state
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, which is read where it speaks

    def signal(self, number):
        os.killpg(self.process.pid, number)

    def last_words(self):
        """How it ended, and the last line that it wrote to standard error."""
        status = self.process.wait()
        self.complaints.seek(0)
        said = self.complaints.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in said if line.strip()]
        return f"its process ended with {status}" + (f": {said[-1][:160]}" if said else "")

    def lines(self):
        """What it said since, or None at its end."""
        read = os.read(self.process.stdout.fileno(), 1 << 16)
        if not read:
            return None
        *whole, self.rest = (self.rest + read).split(b"\n")
        return [line.decode() for line in whole if line.startswith(b"{")]


class Turns:
    """Hands cases to workers, so that one settles, or is timed alone, at a time."""

    def __init__(self, command, cases, jobs, seconds, tell):
        self.command, self.tell, self.end = command, tell, time.monotonic() + seconds
        self.waiting, self.again, self.known = list(cases), [], False
        self.selector = selectors.DefaultSelector()
        self.workers = [Worker(command, self.selector) for _ in range(min(jobs, len(cases)))]

    def busy(self, *states):
        return [w for w in self.workers if w.case and (not states or w.state in states)]

    def hand_out(self):
        """A case to each that has none; what found no memory has the device to itself."""
        for worker in self.workers:
            if worker.case or time.monotonic() > self.end:
                continue
            if not self.waiting and self.again and not self.busy():
                worker.case = self.again.pop()
                worker.alone = True
            elif self.waiting:
                worker.case = self.waiting.pop(0)
                worker.alone = False
            else:
                continue
            worker.tell(worker.case, "preparing")

    def advance(self):
        if self.busy("timing"):
            return
        for worker in self.busy("settled")[:1]:
            for other in self.workers:
                if other is not worker:
                    other.signal(signal.SIGSTOP)
            time.sleep(CALM_S)
            worker.tell("time", "timing")
            return
        if not self.busy("settling"):
            for worker in self.busy("ready")[:1]:
                worker.tell("settle", "settling")

    def hear(self, worker, found):
        if "torch" in found:
            if not self.known:
                self.tell(found)
            self.known = True
        elif found.get("state") == "idle":
            worker.case, worker.state = None, "idle"
            self.go_on()
        elif "state" in found:
            worker.state = found["state"]
        elif "out of memory" in found.get("error", "") and not worker.alone:
            self.again.append(worker.case)
        else:
            self.tell(found)

    def go_on(self):
        for worker in self.workers:
            worker.signal(signal.SIGCONT)

    def lost(self, worker):
        """Its end, and another in its place, unless none has come as far as to know PyTorch."""
        self.selector.unregister(worker.process.stdout)
        ended = [worker.case] if worker.case else []
        if not self.known:
            ended += self.waiting
            self.waiting = []
        for case in ended:
            self.tell({"case": case, "error": worker.last_words()})
        self.workers.remove(worker)
        timing = self.busy("timing")  # of another, which stays alone
        if not timing:
            self.go_on()
        if worker.case and self.waiting + self.again:
            self.workers.append(Worker(self.command, self.selector))
            if timing:
                self.workers[-1].signal(signal.SIGSTOP)

    def run(self):
        try:
            while True:
                self.hand_out()
                self.advance()
                left = self.end + LATE_S - time.monotonic()
                if not self.busy():
                    break
                if left < 0:
                    for worker in self.busy():
                        self.tell({"case": worker.case, "error": "it was ended, after the time"})
                    break
                for key, _ in self.selector.select(min(left, LATE_S)):  # has a limit
                    lines = key.data.lines()
                    if lines is None:
                        self.lost(key.data)
                    for line in lines or []:
                        self.hear(key.data, json.loads(line))
        finally:
            for worker in self.workers:
                worker.signal(signal.SIGKILL)
                worker.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1e9, help="no case starts after")
    parser.add_argument("--timing", type=float, default=4.0, help="seconds of timing, twice")
    parser.add_argument("--jobs", type=int, default=1, help="cases prepared side by side")
    parser.add_argument("--epoch", action="store_true", help="of the MNIST network")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    wrong = [case for case in options.cases if not CASE.fullmatch(case)]
    if wrong:
        parser.error(f"{', '.join(wrong)}: expected MODEL:TASK:DTYPE:BATCH:MODE[:nchw]")
    if not options.epoch and not options.cases:
        parser.error("expected cases, or --epoch")
    if options.jobs < 1:
        parser.error(f"--jobs {options.jobs}: expected 1 or more")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if options.epoch:
        return subprocess.run([*WORKER, "--epoch"], check=False).returncode
    Turns([*WORKER, "--timing", str(options.timing)], options.cases, options.jobs, options.seconds,
          lambda found: print(json.dumps(found), flush=True)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
