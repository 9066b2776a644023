// SPDX-License-Identifier: Apache-2.0
// What the host's processors did for a program while its device idled the longest.
#ifndef PLB_PROBE_GAPS_H
#define PLB_PROBE_GAPS_H

#include "probe/sampler.h"
#include "probe/spool.h"

enum { PLB_GAP_FUNCTIONS = 8 };

typedef struct plb_gap_function {
    int function; // row of the samples' functions
    int64_t samples;
} plb_gap_function;

typedef struct plb_gap_work {
    int64_t gaps, total_ns; // the longest, of which the moments are known
    int64_t samples;        // of the process in them; each stands for a period on a processor
    int functions;
    plb_gap_function function[PLB_GAP_FUNCTIONS]; // the most samples first
} plb_gap_work;

// False where no sample is in any of them.
bool plb_gap_work_of(const plb_spool *spool, int device, const plb_sampled *sampled,
                     plb_gap_work *out);

#endif
