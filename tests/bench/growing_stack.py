# SPDX-License-Identifier: Apache-2.0
"""An honest stack with a limit to its batch, as its second argument names; on the proxy of
cheat_stack.py.

    growing_stack.py PLUMB card      a card with room for 3 samples
    growing_stack.py PLUMB eater     64 MiB of memory a sample
    growing_stack.py PLUMB refuser   trains nothing
    growing_stack.py PLUMB breaker   an exception from 2 samples on
"""
import os
import sys

from proxy import Cheat


def error(request, code, reason, **more):
    return {"type": "error", "id": request["id"], "code": code, "reason": reason, **more}


class Growing(Cheat):
    way = None
    held = None

    def load(self, request):
        batch = request["batch"]
        if self.way == "card" and batch > 3:
            return error(request, "oom", "CUDA out of memory")
        if self.way == "refuser":
            return error(request, "refused", "trains nothing", kind="task")
        if self.way == "breaker" and batch > 1:
            return error(request, "internal", "KeyError: 'x'")
        if self.way == "eater":
            self.held = None  # before the next is made, or both would count
            self.held = bytearray(os.urandom(1 << 20)) * (64 * batch)
        return super().load(request)


if __name__ == "__main__":
    Growing.way = sys.argv[2]
    Growing(sys.argv[1]).serve()
