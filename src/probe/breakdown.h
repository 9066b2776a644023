// SPDX-License-Identifier: Apache-2.0
// What the sums of a device say: where its time went, in shares that add up to one, and what the
// host did while it idled.
#ifndef PLB_PROBE_BREAKDOWN_H
#define PLB_PROBE_BREAKDOWN_H

#include "probe/spool.h"

typedef struct plb_breakdown {
    int64_t span_ns; // from the first work of the device to the last
    // These add up to span_ns. Active: something ran on the device, other than a copy to or from
    // the host alone. Copying: such a copy ran and nothing else.
    int64_t active_ns, copying_ns, idle_ns;
    // Parts of active: when nothing but these ran.
    int64_t memset_ns, copy_inside_ns, communication_ns;
    // At the same time as each other.
    int64_t kernels_overlap_ns; // two kernels or more
    int64_t kernel_copy_ns;     // a kernel and a copy to or from the host
    int64_t copies_overlap_ns;  // two copies to or from the host
    // Idle by what the host did; a call that waits comes before one that does not, so that these
    // add up to idle_ns.
    int64_t idle_by[PLB_BUSY_COUNT];
    int64_t idle_unknown_ns; // in none of the calls that were recorded: the program's own code
} plb_breakdown;

void plb_breakdown_of(const plb_busy_sums *sums, plb_breakdown *out);

// "synchronising", "copying": what a plb_busy of the host is called.
const char *plb_busy_name(plb_busy busy);

#endif
