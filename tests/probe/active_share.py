#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a trace in Chrome's format says of a device, worked out apart from the probe.

    active_share.py TRACE.json [--device N]

Reads what torch.profiler exports (or `plumb profile --trace`), and prints as JSON: the span from
the first work to the last, the shares in which something ran (active: kernels, memsets, copies
inside a device), only copies from or to the host ran (move), or nothing (idle), and per name the
count, the sum of times and the bytes.
"""
import argparse
import json


def kind_of(event):
    """kernel, set, inside, move, or None for what is not the device's work."""
    category, name = event.get("cat", ""), event.get("name", "")
    if category == "kernel":
        return "kernel"
    if category == "gpu_memset":
        return "set"
    if category == "gpu_memcpy":
        return "move" if "HtoD" in name or "DtoH" in name or name in ("copy in", "copy out") \
            else "inside"
    return None


def union_ns(intervals):
    total, end = 0, None
    for begin, stop in sorted(intervals):
        if end is None or begin > end:
            total += stop - begin
            end = stop
        elif stop > end:
            total += stop - end
            end = stop
    return total


def shares(trace, device=None):
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    work = []
    for event in events:
        kind = kind_of(event) if event.get("ph") == "X" else None
        if kind is None or device not in (None, event["args"].get("device")):
            continue
        begin = round(event["ts"] * 1000)
        work.append((kind, begin, begin + round(event["dur"] * 1000), event))
    if not work:
        return {"span_ms": 0, "active": 0, "move": 0, "idle": 0, "names": {}}
    span = max(w[2] for w in work) - min(w[1] for w in work)
    active = union_ns([w[1:3] for w in work if w[0] != "move"])
    busy = union_ns([w[1:3] for w in work])
    names = {}
    for kind, begin, end, event in work:
        name = event["name"] if kind == "kernel" else kind
        row = names.setdefault(name, {"calls": 0, "total_ms": 0, "bytes": 0})
        row["calls"] += 1
        row["total_ms"] += (end - begin) / 1e6
        row["bytes"] += int(event["args"].get("bytes", 0))
    return {"span_ms": span / 1e6, "active": active / span, "move": (busy - active) / span,
            "idle": 1 - busy / span, "names": names}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("--device", type=int)
    options = parser.parse_args()
    with open(options.trace, encoding="utf-8") as file:
        print(json.dumps(shares(json.load(file), options.device), indent=1))


if __name__ == "__main__":
    main()
