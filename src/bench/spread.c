// SPDX-License-Identifier: Apache-2.0
#include "bench/spread.h"

#include <math.h>
#include <stdlib.h>

void plb_spread_add(plb_spread_sums *sums, const plb_summary *summary) {
    const int64_t n = summary->starts;
    if (n < 2) return;
    double mean = 0, squares = 0, within = 0, within_squares = 0;
    for (int64_t i = 0; i < n; i++) mean += summary->start[i].log_median / (double)n;
    for (int64_t i = 0; i < n; i++) {
        const plb_start_summary *s = &summary->start[i];
        squares += (s->log_median - mean) * (s->log_median - mean);
        if (isnan(s->variance) || !(s->dof > 0)) continue; // taken as 0: none of M is explained
        within += s->variance / (double)n;
        within_squares += s->variance * s->variance / s->dof / (double)(n * n);
    }
    double dof = (double)(n - 1);
    sums->between += squares, sums->between_dof += dof;
    sums->within += dof * within, sums->within_squares += dof * dof * within_squares;
    sums->runs++;
}

static int by_software(const void *a, const void *b) {
    uint64_t x = ((const plb_spread_run *)a)->software, y = ((const plb_spread_run *)b)->software;
    return (x > y) - (x < y);
}

// Adds one group of runs of equal software: squares of their centers about the mean, and what of
// these the starts' own spread explains.
static void add_group(const plb_spread_run *runs, size_t count, double start_variance,
                      double *squares, double *explained, double *dof) {
    if (count < 2) return;
    double mean = 0, each = 0;
    for (size_t i = 0; i < count; i++) {
        mean += runs[i].center / (double)count;
        each += start_variance / runs[i].starts / (double)count;
    }
    for (size_t i = 0; i < count; i++)
        *squares += (runs[i].center - mean) * (runs[i].center - mean);
    *explained += each * (double)(count - 1);
    *dof += (double)(count - 1);
}

plb_spread plb_spread_of(const plb_spread_sums *sums, plb_spread_run *runs, size_t count) {
    plb_spread spread = {.runs = sums->runs, .dof = sums->between_dof};
    if (spread.dof > 0) {
        spread.variance = sums->between / spread.dof;
        spread.within = sums->within / spread.dof;
        if (sums->within_squares > 0)
            spread.within_dof = sums->within * sums->within / sums->within_squares;
    }
    double squares = 0, explained = 0;
    if (count) qsort(runs, count, sizeof *runs, by_software);
    for (size_t from = 0, to = 0; from < count; from = to) {
        while (to < count && runs[to].software == runs[from].software) to++;
        add_group(runs + from, to - from, spread.variance, &squares, &explained, &spread.run_dof);
    }
    if (spread.run_dof > 0) spread.run_variance = fmax(0, (squares - explained) / spread.run_dof);
    return spread;
}
