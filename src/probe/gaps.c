// SPDX-License-Identifier: Apache-2.0
#include "probe/gaps.h"

#include <stdlib.h>

// A moment of CLOCK_MONOTONIC on CUPTI's clock; what a damaged file says may be any number.
static int64_t on_cupti_clock(const plb_spool *s, int64_t at_ns) {
    return (int64_t)((uint64_t)at_ns - (uint64_t)s->begin_ns + (uint64_t)s->begin_cupti_ns);
}

static bool is_in_gap(const plb_busy_sums *sums, int64_t at_ns) {
    for (int i = 0; i < PLB_GAP_LONGEST; i++)
        if (sums->longest[i].start_ns <= at_ns && at_ns < sums->longest[i].end_ns) return true;
    return false;
}

static int by_samples(const void *left, const void *right) {
    const plb_gap_function *a = left, *b = right;
    if (a->samples != b->samples) return a->samples < b->samples ? 1 : -1;
    return (a->function > b->function) - (a->function < b->function);
}

static void count_gaps(const plb_busy_sums *sums, plb_gap_work *out) {
    for (int i = 0; i < PLB_GAP_LONGEST; i++) {
        const plb_gap *g = &sums->longest[i];
        if (g->start_ns < 0 || g->end_ns <= g->start_ns) continue;
        out->gaps++;
        out->total_ns += (g->end_ns - g->start_ns) & INT64_C(0x3ffffffffffffff); // 32 of them fit
    }
}

bool plb_gap_work_of(const plb_spool *s, int device, const plb_sampled *t, plb_gap_work *out) {
    const plb_busy_sums *sums = &s->device[device].sums;
    plb_gap_function rows[PLB_SAMPLED_FUNCTIONS];
    *out = (plb_gap_work){0};
    if (!t || !t->moments) return false;
    count_gaps(sums, out);
    for (int i = 0; i < PLB_SAMPLED_FUNCTIONS; i++) rows[i] = (plb_gap_function){i, 0};
    for (int64_t i = 0; i < t->moments; i++) {
        const plb_sampled_moment *m = &t->moment[i];
        if (m->pid != (uint32_t)s->pid || !is_in_gap(sums, on_cupti_clock(s, m->at_ns))) continue;
        out->samples++;
        if (m->function >= 0) rows[m->function].samples++;
    }
    qsort(rows, PLB_SAMPLED_FUNCTIONS, sizeof *rows, by_samples);
    while (out->functions < PLB_GAP_FUNCTIONS && rows[out->functions].samples)
        out->function[out->functions] = rows[out->functions], out->functions++;
    return out->samples > 0;
}
