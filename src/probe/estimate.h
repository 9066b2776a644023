// SPDX-License-Identifier: Apache-2.0
// Where the device's time went in a run of which only blocks were recorded, and what the whole had
// of each kernel. The driver numbers its launches whether they are recorded or not, so that of the
// time between two blocks it is known how long it was and how many launches it had: as much as the
// launches of all blocks worked, those worked. A stretch without launches is idle for certain,
// however long. Where numbers do not tell (graphs, whose kernels have none, or several devices),
// the blocks stand for the rest by their length.
#ifndef PLB_PROBE_ESTIMATE_H
#define PLB_PROBE_ESTIMATE_H

#include "probe/spool.h"

typedef struct plb_estimate {
    int64_t blocks;      // that stand for the rest
    bool known;          // there are enough of them for an interval; else only what follows holds
    int64_t span_ns;     // of device 0: from the first work that was recorded to the last
    int64_t recorded_ns; // of it: in blocks
    double recorded;     // kernels that were recorded
    bool by_launches;    // the launches between are counted, not estimated
    double kernels, kernels_half; // in the span, of the whole; and half of their 95 % interval
    double active, active_low, active_high; // shares of the span; the latter its 95 % interval
    double copying, idle;
    // For plb_estimate_kernel: kernels in the blocks that stand for the rest and between them, the
    // variance of the latter, and Student's factor.
    double sampled, between, between_variance, factor;
} plb_estimate;

// Calls and time that the whole run had of a kernel, with halves of their 95 % intervals.
typedef struct plb_estimated {
    double calls, calls_half, ns, ns_half;
} plb_estimated;

// False where all was recorded, or where nothing can be told of the rest, not even its length.
bool plb_estimate_of(const plb_spool *spool, plb_estimate *out);

// Of a row of spool->kernel; halves are not a number where `estimate` is not known.
plb_estimated plb_estimate_kernel(const plb_spool *spool, const plb_estimate *estimate, int row);

#endif
