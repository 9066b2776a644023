# SPDX-License-Identifier: Apache-2.0
"""What the kernel knows about this process: its memory, and the threads that really work."""
import os


def status_bytes(key):
    """A size of /proc/self/status; None where there is none."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith(key + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def resident_bytes():
    return status_bytes("VmRSS")


def peak_resident_bytes():
    return status_bytes("VmHWM")


def thread_ticks():
    """{thread: processor time it has used, in ticks}."""
    ticks = {}
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return ticks
    for thread in threads:
        try:
            with open(f"/proc/self/task/{thread}/stat", encoding="ascii", errors="replace") as stat:
                # The name may hold blanks and brackets; fields count from behind it.
                fields = stat.read().rpartition(")")[2].split()
            ticks[thread] = int(fields[11]) + int(fields[12])
        except (OSError, IndexError, ValueError):
            pass  # It has ended meanwhile.
    return ticks


class ThreadCount:
    """Counts the threads that worked in blocks long enough to see: those that had at least a
    tenth of the busiest one's processor time. None until there was such a block."""

    MIN_TICKS = 20

    def __init__(self):
        self.most = None
        self.before = {}

    def begin(self):
        self.before = thread_ticks()

    def end(self):
        used = [t - self.before.get(thread, 0) for thread, t in thread_ticks().items()]
        busiest = max(used, default=0)
        if busiest >= self.MIN_TICKS:
            self.most = max(self.most or 0, sum(t * 10 >= busiest for t in used))
