# SPDX-License-Identifier: Apache-2.0
"""A stack that breaks in the way that its second argument names, mostly in a block of more than one
iteration; else it is the honest one.

    broken_stack.py PLUMB WAY
"""
import os
import signal
import subprocess
import sys
import time

from proxy import Cheat

EXPORT_S = 1.0


class Broken(Cheat):
    way = None
    quiet = looked = False

    def hello(self, request):
        if self.way == "slow-hello":
            time.sleep(1000)
        if self.way == "old-protocol":
            return {"type": "error", "id": request["id"], "code": "unsupported",
                    "reason": "protocol 7 only"}
        if self.way == "exit-at-once":
            print("no module named torch", file=sys.stderr)
            os._exit(3)
        return self.ask(request)

    def load(self, request):
        if self.way == "refuses":
            return {"type": "error", "id": request["id"], "code": "refused", "kind": "export",
                    "reason": "operator frobnicate is not supported"}
        if self.way == "steers":
            return {"type": "error", "id": request["id"], "code": "refused",
                    "reason": "a\x7fb\x9b2Jc\x1b[2Jd"}
        if self.way == "reports-oom":
            return {"type": "error", "id": request["id"], "code": "oom",
                    "reason": "CUDA: no memory"}
        if self.way == "exception":
            return {"type": "error", "id": request["id"], "code": "internal",
                    "reason": "KeyError: 'x'"}
        if self.way == "exports": # as a stack does whose models are files
            time.sleep(EXPORT_S)
            return dict(super().load(request), export_ns=int(EXPORT_S * 1e9))
        return super().load(request)

    def sample(self, request):
        if request["n"] > 1:
            getattr(self, self.way.replace("-", "_"), lambda: None)()
        answer = self.ask(request)
        if request["n"] > 1:
            answer = getattr(self, "bad_" + self.way.replace("-", "_"), lambda a: a)(answer)
        return answer

    def ran(self, request):
        self.looked = True
        return self.ask(request)

    def memory(self, request): # that is larger once it was looked what ran
        answer = self.ask(request)
        if self.way == "looks-back" and self.looked:
            answer["peak_rss_bytes"] = 1 << 50
        return answer

    # ---- before the answer
    def crash(self):
        print("about to fail\nassertion `x > 0' failed", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)

    def hang(self):
        # With a grandchild in a session of its own, as compilers have.
        subprocess.Popen(["sleep", "987654"], start_new_session=True)
        time.sleep(1000)

    def exits(self):
        os._exit(7)

    def eats_memory(self):
        held = []
        while True:
            held.append(bytearray(os.urandom(1 << 20) * 16))

    def garbage(self):
        self.caller.write(bytes(range(256)) * 40 + b"\n")
        self.caller.flush()

    def no_newline(self):
        self.caller.write(b"x" * (17 << 20))
        self.caller.flush()

    def wrong_id(self):
        self.answer({"type": "samples", "id": 0})

    def deep(self):
        self.caller.write(b"[" * 100000 + b"\n")
        self.caller.flush()

    def closes(self):
        os.close(int(os.environ["PLUMB_FD"]))
        time.sleep(1000)

    def noise(self): # once, or its time would be work that is done outside of the samples
        if self.quiet:
            return
        self.quiet = True
        for _ in range(3000):
            os.write(1, b"{\"type\": \"samples\"}\n" * 100)

    # ---- in the answer
    def bad_outside(self, answer):
        return dict(answer, offset=1 << 40)

    def bad_negative(self, answer):
        return dict(answer, offset=-8)

    def bad_time(self, answer):
        os.pwrite(self.out_fd, (-1).to_bytes(8, "little", signed=True), answer["offset"] + 8)
        return answer

    def bad_other_batch(self, answer):
        return dict(answer, tensors=[dict(t, batch=1 - t["batch"]) for t in answer["tensors"]])

    def bad_fewer(self, answer):
        return dict(answer, count=answer["count"] - 1)

    def bad_huge(self, answer):
        os.ftruncate(int(os.environ.get("PLUMB_OUT_FD", "5")), 1 << 62)
        return answer

    def bad_shape(self, answer):
        return dict(answer, tensors=[dict(t, shape=[1 << 31, 1 << 31, 7]) for t in
                                     answer["tensors"]] or [{"name": "output", "shape": "x"}])

    def bad_types(self, answer):
        return {"type": "samples", "id": answer["id"], "n": "many", "offset": {}, "count": None}


if __name__ == "__main__":
    Broken.way = sys.argv[2]
    Broken(sys.argv[1]).serve()
