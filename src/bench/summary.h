// SPDX-License-Identifier: Apache-2.0
// What the samples of a measurement come to, computed from the store and cached there by a hash of
// the samples, so that thousands of cases are compared without reading a sample.
#ifndef PLB_BENCH_SUMMARY_H
#define PLB_BENCH_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "plumb/status.h"
#include "store/store.h"

typedef struct plb_start_summary {
    int64_t number, group; // group −1: not interleaved
    int64_t samples, iterations;
    double median_ns; // of one iteration; a start without timed samples is not listed
    double log_median;
    double variance; // of log_median, from what is seen inside the start; NaN: too few samples
    double dof;      // of that variance
    int64_t sweep_count;
    const float *sweep; // log of the median of each sweep's blocks; NaN: the sweep has none
} plb_start_summary;

typedef struct plb_summary {
    int64_t samples, starts;
    double median_ns;       // exp of the mean of the starts' log medians; NaN without samples
    double low_ns, high_ns; // 95 % interval, starts' spread included; NaN below 2 starts
    double min_ns, p05_ns, p95_ns;
    bool drift;               // in any start
    plb_start_summary *start; // [starts]
} plb_summary;

// The summary of a measurement; computed and stored if it was not. Freed by plb_summary_free.
PLB_API PLB_MUST_USE plb_status plb_summary_load(plb_store *store, int64_t measurement_id,
                                                 plb_summary *out);
PLB_API void plb_summary_free(plb_summary *summary);

#endif
