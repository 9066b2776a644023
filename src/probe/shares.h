// SPDX-License-Identifier: Apache-2.0
// Where a device's time went, from all of it or, where that was recorded in part, as estimated.
#ifndef PLB_PROBE_SHARES_H
#define PLB_PROBE_SHARES_H

#include "probe/breakdown.h"
#include "probe/estimate.h"

typedef struct plb_shares {
    int64_t span_ns; // from the first work that was seen to the last
    double recorded; // share of the span
    bool in_part;    // less than all: what follows is an estimate, of device 0 with an interval if
                     // `estimate` is known
    double active, copying, idle; // of the span; they add up to one, or are 0 where it is unknown
    plb_estimate estimate;        // of a part, for device 0; else zeros
} plb_shares;

// `found` is what plb_breakdown_of made of the device's sums.
void plb_shares_of(const plb_spool *spool, int device, const plb_breakdown *found, plb_shares *out);

#endif
