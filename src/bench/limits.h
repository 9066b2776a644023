// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most, as plumb-ref measures it, and the time below which no honest
// iteration can be: a stack whose samples say less reports something else than its work.
#ifndef PLB_BENCH_LIMITS_H
#define PLB_BENCH_LIMITS_H

#include "bench/case.h"
#include "bench/facts.h"

typedef struct plb_limits {
    int threads; // that were measured; 0: not measured yet
    double flops_per_s;
    double cache_bytes_per_s, memory_bytes_per_s;
    double cache_bytes; // of the largest cache, of which each thread may have one
} plb_limits;

// Whether there are limits for such a case: a model of the zoo on the CPU in f32. Of other
// precisions and devices the peak is not known well enough.
PLB_API bool plb_limits_apply(const plb_case *c, const plb_facts *facts);
// Measures with so many threads (some tenths of a second); of several measurements of the same
// limits the larger figures stay, as a busy machine can only lower them.
PLB_API PLB_MUST_USE plb_status plb_limits_measure(plb_client *reference, int threads,
                                                   plb_limits *limits);
// The shortest time of an iteration that can be true, ns: its fewest operations at the peak, or its
// weights, inputs and outputs moved once, at twice the rate of a copy, whichever is longer.
PLB_API double plb_limits_least_ns(const plb_limits *limits, const plb_facts *facts);

#endif
