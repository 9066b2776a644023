// SPDX-License-Identifier: Apache-2.0
// Where the device's time went in a run of which only blocks were recorded. The driver numbers its
// launches whether they are recorded or not, so that of the time between two blocks it is known how
// long it was and how many launches it had: as much as the launches of all blocks worked, those
// worked. A stretch without launches is idle for certain, however long.
#ifndef PLB_PROBE_ESTIMATE_H
#define PLB_PROBE_ESTIMATE_H

#include "probe/spool.h"

typedef struct plb_estimate {
    int64_t blocks, launches, recorded; // launches: from the first that was recorded to the last
    int64_t span_ns;
    double active, active_low, active_high; // shares of the span; the latter its 95 % interval
    double copying, idle;
} plb_estimate;

// Of device 0. False where it cannot be told: nothing alternated, fewer than 6 blocks had launches,
// or graphs ran, whose kernels have no numbers.
bool plb_estimate_of(const plb_spool *spool, plb_estimate *out);

#endif
