// SPDX-License-Identifier: Apache-2.0
// Progress of long work, told to whoever started it. Libraries never print: the program hands in a
// callback (the CLI draws a bar on stderr), which may also ask the work to stop.
#ifndef PLB_BASE_PROGRESS_H
#define PLB_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "plumb/status.h"

typedef struct plb_progress_event {
    const char *what;    // "train-images-idx3-ubyte.gz"; borrowed for the call
    const char *unit;    // "bytes", "samples"
    int64_t done, total; // total is -1 while unknown
    bool last;           // no further event of this `what` follows
} plb_progress_event;

// Returning false asks the work to end with PLB_ECANCELLED.
typedef bool (*plb_progress_callback)(void *context, const plb_progress_event *event);

// Zero-initialised it is silent. One thread at a time.
typedef struct plb_progress {
    plb_progress_callback callback;
    void *context;
    int64_t interval_ns; // least time between two events that are not the last; 0: all are told
    int64_t told_ns;     // when the last event was told; the library's
} plb_progress;

// Tells the callback unless it was told a moment ago; `progress` may be NULL.
// PLB_ECANCELLED when the callback says so.
PLB_API PLB_MUST_USE plb_status plb_progress_tell(plb_progress *progress,
                                                  const plb_progress_event *event);

#endif
