// SPDX-License-Identifier: Apache-2.0
// Which measurements of the store belong together, whether they may be compared, and what comes of
// it. Cases that differ in anything that was not to be compared are refused, with what differs.
#ifndef PLB_BENCH_COMPARE_H
#define PLB_BENCH_COMPARE_H

#include "bench/case.h"
#include "bench/verdict.h"
#include "store/read.h"

typedef struct plb_compare_request {
    const char *a, *b; // selectors; with `by` b is NULL, and a may be: the newest run
    const char *by; // stack, batch, size, device, threads, dtype, region; NULL: see plb_compare_run
    // With `by`: of each set of cases, the first of these stacks that it has is what the others are
    // compared with; NULL at the end. NULL: the first case of the set.
    const char *const *baseline;
    bool anyway; // compare what would be refused, and mark it
    plb_verdict_options options;
} plb_compare_request;

typedef struct plb_pair {
    const plb_measurement_row *a, *b;
    plb_summary summary_a, summary_b;
    bool refused;
    bool anyway; // would have been refused
    // What differs and should not: keys of the case, "machine.cpu_model", "outcome".
    plb_case_difference *differences;
    int difference_count;
    bool per_sample;           // the batches differ: times of a sample are compared
    plb_comparison comparison; // where not refused
} plb_pair;

typedef struct plb_compare_result {
    plb_pair *pairs;
    size_t count, refused;
    const plb_measurement_row **only_a, **only_b; // without a partner
    size_t only_a_count, only_b_count;
} plb_compare_result;

// Two runs, labels or revisions: equal cases are paired. Two stacks: cases that are equal but for
// stack, settings and layout, of the newest run that has both. Two cases: these. With `by`: all
// cases of `a` that are equal but for that key, each with the first of them. What has no partner
// that way is paired with the most alike of the same model and task, and refused. All that `out`
// points to lives in the arena. PLB_EINVAL: no such thing, or both are the same measurements.
PLB_API PLB_MUST_USE plb_status plb_compare_run(plb_store *store,
                                                const plb_compare_request *request,
                                                plb_arena *arena, plb_compare_result *out);

#endif
