# SPDX-License-Identifier: Apache-2.0
"""The timed loops. One function a region, each as short as its region allows.

`calls[i]` is iteration i's whole work and takes no argument; `finish` waits for the device (None
where a call returns only when all is done). The name `out` is overwritten in the timed part, as in
anybody's own loop, so that freeing what an iteration made is paid for by every iteration.
"""
import gc
import time

from .errors import Cancelled

# Longer iterations leave time to look for a `cancel` between them.
LONG_NS = 100_000_000


class Block:
    """What a loop needs. `keep(i, out)` is called once, after the time of iteration `check`."""

    def __init__(self, calls, times, check, keep, finish, cancelled):
        self.calls = calls
        self.times = times
        self.check = check
        self.keep = keep
        self.finish = finish
        self.cancelled = cancelled

    def look(self):
        if self.cancelled():
            raise Cancelled("as asked")


def latency(block, n):
    """One time an iteration, from an idle device to the completion of the iteration's work."""
    calls, times, check, finish = block.calls, block.times, block.check, block.finish
    clock, count = time.perf_counter_ns, len(block.calls)
    if finish is None:
        for i in range(n):
            call = calls[i % count]
            begin = clock()
            out = call()
            end = clock()
            times[i] = end - begin
            if i == check:
                block.keep(i, out)
            if end - begin > LONG_NS:
                block.look()
        return n
    finish()
    for i in range(n):
        call = calls[i % count]
        begin = clock()
        out = call()
        finish()
        end = clock()
        times[i] = end - begin
        if i == check:
            block.keep(i, out)
        if end - begin > LONG_NS:
            block.look()
    return n


def until_return(block, n):
    """One time an iteration, until the call returns; completion is waited for outside of it."""
    calls, times, check, finish = block.calls, block.times, block.check, block.finish
    clock, count = time.perf_counter_ns, len(block.calls)
    if finish is None:
        return latency(block, n)
    finish()
    for i in range(n):
        call = calls[i % count]
        begin = clock()
        out = call()
        end = clock()
        times[i] = end - begin
        finish()
        if i == check:
            block.keep(i, out)
        if end - begin > LONG_NS:
            block.look()
    return n


def queued(block, n):
    """One time for all: n iterations launched, one wait."""
    calls, finish = block.calls, block.finish
    clock, count = time.perf_counter_ns, len(block.calls)
    out = None
    if finish is not None:
        finish()
    begin = last = clock()
    for i in range(n):
        out = calls[i % count]()
        # Only long iterations are looked between: a reading of the clock is 0.05 us.
        now = clock()
        if now - last > LONG_NS:
            block.look()
        last = now
    if finish is not None:
        finish()
    block.times[0] = clock() - begin
    if block.check >= 0:
        block.keep(n - 1, out)
    return 1


REGIONS = {"latency": latency, "host": latency, "return": until_return, "queued": queued}


def run(block, region, n):
    """Fills block.times; the number of times. No garbage collector runs meanwhile."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return REGIONS[region](block, n)
    finally:
        if was_enabled:
            gc.enable()
