// SPDX-License-Identifier: Apache-2.0
// How many threads of another process are at work at the same time, seen by looking at their states
// some thousand times a second. Threads that take turns are one at a time, however many there are;
// threads that work at once are also seen where a crowded machine lets only one of them run. (The
// kernel's own count of time spent waiting for a processor does not serve: since Linux 6.12 a
// thread that has gone to sleep may be counted as waiting.)
//
// While it watches, threads that somebody wakes wait for a free processor: otherwise they may take
// the place of the very thread that woke them and is about to sleep, and both are runnable. Where
// this process may (SCHED_FIFO), other programs wait as well; what is seen is exact then. Else
// (SCHED_BATCH) a moment of handing over still looks longer than it is on a crowded machine.
#ifndef PLB_BENCH_WATCH_H
#define PLB_BENCH_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "plumb/status.h"

typedef struct plb_watch plb_watch;

typedef struct plb_watched {
    int64_t looks;  // at which at least one thread was at work
    double at_once; // threads at work in these, on average; 0: none was seen
    bool exact;     // other programs had to wait
} plb_watched;

// `expected_ns`: about how long it will be watched. Other programs wait only if that is short.
PLB_API PLB_MUST_USE plb_status plb_watch_begin(pid_t pid, double expected_ns, plb_watch **out);
// Ends it; `*out` may be NULL. NULL watches are legal.
PLB_API void plb_watch_end(plb_watch *watch, plb_watched *out);

#endif
