// SPDX-License-Identifier: Apache-2.0
// The search for the batch with the best throughput that fits, without the workers that try it:
//
//     plb_batch_search_begin(&search, 1, longest_ns);
//     while ((batch = plb_batch_search_next(&search))) {
//         ... try it ...
//         plb_batch_search_add(&search, &trial);
//     }
//     search.found, search.stop
//
// Batches are doubled until one does not fit, or takes too long, or two in a row gain less than
// 2 %. Where memory ended it while larger was still better, the batch half-way is tried too. What
// is found is the smallest batch within 2 % of the best throughput: more than that is noise here,
// and a larger batch costs memory and latency.
#ifndef PLB_BENCH_BEST_BATCH_H
#define PLB_BENCH_BEST_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "bench/outcome.h"

typedef struct plb_batch_trial {
    int64_t batch;
    plb_outcome outcome;
    double iteration_ns; // of the quickest stretch; only where the outcome is ok
    int64_t bytes;       // planned by our own stacks, resident of the others; -1: unknown
    char reason[200];    // why it is not ok
} plb_batch_trial;

typedef enum plb_batch_stop {
    PLB_BATCH_SEARCHING,
    PLB_BATCH_NO_GAIN, // larger ones are not faster
    PLB_BATCH_MEMORY,  // larger ones do not fit
    PLB_BATCH_TIME,    // an iteration takes too long
    PLB_BATCH_MOST,    // no larger batch is tried by anyone
    PLB_BATCH_FAILED,  // the last one tried failed in another way
} plb_batch_stop;

enum { PLB_BATCH_MAX_TRIALS = 24, PLB_BATCH_MOST_SAMPLES = 1 << 16 };

typedef struct plb_batch_search {
    double longest_ns; // an iteration that takes longer ends it
    plb_batch_trial trial[PLB_BATCH_MAX_TRIALS];
    int count;
    int64_t next, found; // found 0: not even the first one could be run
    double best;         // samples a nanosecond
    int stale;           // doublings in a row without gain
    plb_batch_stop stop;
} plb_batch_search;

PLB_API void plb_batch_search_begin(plb_batch_search *search, int64_t first, double longest_ns);
PLB_API int64_t plb_batch_search_next(const plb_batch_search *search); // 0: it is over
PLB_API void plb_batch_search_add(plb_batch_search *search, const plb_batch_trial *trial);

// "no-gain", "memory", "time", "most", "failed", "" for not yet; static
PLB_API const char *plb_batch_stop_name(plb_batch_stop stop);
// Of a trial that is ok: samples a second.
PLB_API double plb_batch_throughput(const plb_batch_trial *trial);

// {"stop", "trials": [{"batch", "outcome", "throughput", "bytes", "reason"}]}; yours to
// json_decref, NULL when out of memory.
PLB_API json_t *plb_batch_search_json(const plb_batch_search *search);

#endif
