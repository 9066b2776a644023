// SPDX-License-Identifier: Apache-2.0
// How much starts of one case differ on one machine, learnt from the runs that measured it: within
// a run its starts are equal but for the luck of a process (addresses, pages, threads' places), so
// that their spread is what a comparison has to live with. Between runs of the same software there
// is also what changed on the machine meanwhile.
#ifndef PLB_BENCH_SPREAD_H
#define PLB_BENCH_SPREAD_H

#include <stdint.h>

#include "bench/summary.h"

// All variances are of logs of times.
typedef struct plb_spread {
    double variance;     // of a start's center, what is seen inside starts included
    double dof;          // of that; 0: unknown
    double within;       // mean variance that the inside of those starts explains
    double within_dof;   // of that
    double run_variance; // of what runs of equal software have in common; starts' spread left out
    double run_dof;      // 0: unknown
    int runs;            // that had two starts or more
} plb_spread;

// Adds up runs one at a time.
typedef struct plb_spread_sums {
    double between, between_dof;
    double within, within_squares;
    int runs;
} plb_spread_sums;

// `summary` of one measurement of the case; below two starts it says nothing and is left out.
PLB_API void plb_spread_add(plb_spread_sums *sums, const plb_summary *summary);

// The centers of runs that measured the same software, each with its variance from its own starts.
typedef struct plb_spread_run {
    uint64_t software; // equal: nothing that we know of was changed between them
    double center;     // mean of the starts' log medians
    int starts;
} plb_spread_run;

// `runs[count]` may be in any order; it is sorted.
PLB_API plb_spread plb_spread_of(const plb_spread_sums *sums, plb_spread_run *runs, size_t count);

#endif
