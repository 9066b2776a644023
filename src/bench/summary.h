// SPDX-License-Identifier: Apache-2.0
// What the samples of a measurement come to, computed from the store and cached there by a hash of
// the samples, so that thousands of cases are compared without reading a sample.
#ifndef PLB_BENCH_SUMMARY_H
#define PLB_BENCH_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/core/arena.h"
#include "plumb/status.h"
#include "store/read.h"

enum { PLB_MOST_SWEEPS = 1 << 20 }; // of a start

typedef struct plb_start_summary {
    int64_t number, group; // group −1: not interleaved
    int64_t began_ns;      // CLOCK_MONOTONIC, of the first timed block
    bool steady, drift;    // the warm-up ended steady; the timed samples move all the same
    int64_t samples, iterations;
    double median_ns;  // of one iteration; a start without timed samples is not listed
    double log_median; // trimmed mean of the logs of batch medians; median_ns is its exp
    double variance;   // of log_median, from what is seen inside the start; NaN: too few samples
    double dof;        // of that variance
    int64_t sweep_count;
    const float *sweep; // log of the median of each sweep's blocks; NaN: the sweep has none
} plb_start_summary;

typedef struct plb_summary {
    int64_t samples, starts;
    double median_ns;       // exp of the mean of the starts' log medians; NaN without samples
    double low_ns, high_ns; // 95 % interval from the starts' own spread; NaN below 2 starts
    double min_ns, p05_ns, p95_ns;
    bool drift;               // in any start
    plb_start_summary *start; // [starts]
} plb_summary;

// The summary of a measurement, from the cache or computed and cached. `arena` owns what it points
// to.
PLB_API PLB_MUST_USE plb_status plb_summary_load(plb_store *store, int64_t measurement_id,
                                                 plb_arena *arena, plb_summary *out);
// The same for a row that was read with .algorithm = PLB_SUMMARY_ALGORITHM.
PLB_API PLB_MUST_USE plb_status plb_summary_of_row(plb_store *store, const plb_measurement_row *row,
                                                   plb_arena *arena, plb_summary *out);
// The same for tables of times: what is wrong, broke or is under way took no time, so unless the
// row's outcome is "ok" the median, its interval and the quantiles are NaN. The rest stays.
PLB_API PLB_MUST_USE plb_status plb_summary_to_show(plb_store *store,
                                                    const plb_measurement_row *row,
                                                    plb_arena *arena, plb_summary *out);

enum { PLB_SUMMARY_ALGORITHM = 1 }; // a new number makes cached summaries stale

// One start from its blocks; `number`, `group` and `steady` are the caller's to set. The pooled
// times of one iteration go to times[*time_count], in the arena.
PLB_API PLB_MUST_USE plb_status plb_start_summarize(const plb_store_block *blocks, size_t count,
                                                    plb_arena *arena, plb_start_summary *out,
                                                    double **times, size_t *time_count);

// Fills in what follows from out->start[out->starts].
PLB_API void plb_summary_combine(plb_summary *out);

#endif
