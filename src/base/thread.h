// SPDX-License-Identifier: Apache-2.0
// Threads of Plumb's own (loaders, supervisors). Signals are blocked in them, so that an interrupt
// reaches the main thread; each has a name that tools show. Locks are plain pthread ones.
#ifndef PLB_BASE_THREAD_H
#define PLB_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "plumb/status.h"

typedef struct plb_thread {
    pthread_t handle;
} plb_thread;

// Runs body(context) on a new thread. `name` is cut to 15 characters. PLB_EIO when the system has
// no thread to give.
PLB_API PLB_MUST_USE plb_status plb_thread_start(plb_thread *out, const char *name,
                                                 void *(*body)(void *), void *context);

// Waits until the thread has ended. Once per started thread.
PLB_API void plb_thread_join(plb_thread *thread);

// Calls body(context, i) for every i in [0, count) on up to `threads` threads, the caller's among
// them, in no stated order; returns when all are done. After a failure no further i is begun; the
// failure with the lowest i that was met is returned, its text on the caller's thread.
typedef plb_status (*plb_thread_task)(void *context, int64_t i, int thread);
PLB_API PLB_MUST_USE plb_status plb_thread_for(int64_t count, int threads, plb_thread_task body,
                                               void *context);

#endif
