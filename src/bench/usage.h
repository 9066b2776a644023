// SPDX-License-Identifier: Apache-2.0
// What another process uses, as the kernel counts it (Linux, /proc): evidence that does not depend
// on what a worker says of itself.
#ifndef PLB_BENCH_USAGE_H
#define PLB_BENCH_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "plumb/status.h"

// Processor time so far of all threads of the process and of its descendants that live; -1 once it
// is gone.
PLB_API int64_t plb_usage_cpu_ns(pid_t pid);
// Resident bytes of the process and of all its descendants; pages that they share count once for
// each. 0 once it is gone.
PLB_API int64_t plb_usage_tree_rss(pid_t pid);

enum { PLB_USAGE_MAX_THREADS = 512 };
typedef struct plb_usage_threads {
    int count; // at most PLB_USAGE_MAX_THREADS are listed
    pid_t id[PLB_USAGE_MAX_THREADS];
    int64_t cpu_ns[PLB_USAGE_MAX_THREADS];
} plb_usage_threads;

// Of every thread alive, in the process and its descendants.
PLB_API void plb_usage_threads_read(pid_t pid, plb_usage_threads *out);
// How many threads ran between two readings for at least `share` of what the busiest one ran: on a
// crowded machine all of them run less.
PLB_API int plb_usage_busy_threads(const plb_usage_threads *before, const plb_usage_threads *after,
                                   double share);

// Calls `each` for every thread alive, in the process and its descendants; false from it ends that.
PLB_API void plb_usage_each_thread(pid_t pid, bool (*each)(void *context, pid_t pid, pid_t thread),
                                   void *context);

// Bytes of memory that new processes may use: what is available, and what the limits of the control
// groups leave.
PLB_API int64_t plb_usage_memory_available(void);

#endif
