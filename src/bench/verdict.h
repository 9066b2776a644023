// SPDX-License-Identifier: Apache-2.0
// Which of two measurements is slower, and how sure that is. The effect is the log of the ratio
// time of b / time of a; its variance has the parts start, block and sample. docs/measuring.md
// derives the formulas and says why a verdict can be believed.
//
//     plb_comparison c[n];
//     for each pair: plb_compare(&a, &b, &options, &c[i]);
//     plb_decide(c, n, &options);    // verdicts, corrected for their number
#ifndef PLB_BENCH_VERDICT_H
#define PLB_BENCH_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/spread.h"
#include "bench/summary.h"

typedef enum plb_verdict {
    PLB_VERDICT_UNSURE,
    PLB_VERDICT_SAME,
    PLB_VERDICT_SLOWER, // b than a
    PLB_VERDICT_FASTER
} plb_verdict;

PLB_API const char *plb_verdict_name(plb_verdict verdict); // "SLOWER"

enum {
    PLB_LEAST_STARTS = 3, // of each side, for any verdict
    PLB_LEAST_DOF = 6     // that the spread of starts must stand on
};

typedef struct plb_verdict_options {
    double margin;     // 0: 0.01. SAME means within it, SLOWER and FASTER beyond it
    double false_rate; // 0: 0.005. Of what is called SLOWER or FASTER, the share that is equal
} plb_verdict_options;

typedef struct plb_side {
    const plb_summary *summary;
    plb_spread history; // of this case and machine, without this measurement; {0}: none
    int64_t run;        // sides of one run may have been interleaved
    int64_t case_id;    // equal: both sides have one and the same spread
    double divisor;     // of its times, where time per sample is compared; 0: 1
} plb_side;

typedef enum plb_design {
    PLB_DESIGN_PAIRED,    // blocks took turns: drift is common to both and cancels
    PLB_DESIGN_ALTERNATE, // starts took turns: drift is in the spread of starts
    PLB_DESIGN_APART      // one after the other: what may have changed meanwhile is added
} plb_design;

PLB_API const char *plb_design_name(plb_design design); // "interleaved", "alternate", "apart"

// Why no verdict could be reached.
typedef enum plb_lack {
    PLB_LACK_NOTHING,
    PLB_LACK_SAMPLES, // a side has none, or too few for an interval
    PLB_LACK_STARTS,  // fewer than PLB_LEAST_STARTS
    PLB_LACK_SPREAD,  // nobody knows yet how much starts differ
    PLB_LACK_TRUST,   // the starts differ far more than they used to
    PLB_LACK_WIDTH,   // the interval is too wide
    PLB_LACK_DRIFT    // one side never got steady
} plb_lack;

typedef struct plb_comparison {
    plb_design design;
    int64_t starts_a, starts_b; // that were used
    double effect;              // log(b / a); NaN: no samples
    double variance, dof;       // of the effect; NaN, 0: unknown
    double start_variance;      // the part of it that starts make, times starts: per start
    double start_dof;           // of that, as Satterthwaite has it
    double start_counted;       // the degrees of freedom behind it, added up
    double rest_variance;       // the part that more starts do not lessen
    double ratio, low, high;    // b / a with its 95 % interval; NaN: unknown
    double p_differ;            // of seeing such an effect if there were none, two-sided
    double p_same;              // of seeing it if the true one were at or beyond the margin
    plb_lack lack;
    // Set by plb_decide:
    plb_verdict verdict;
    double p_differ_adjusted, p_same_adjusted;
    int64_t starts_more; // of each side, until there is likely to be a verdict; −1: cannot be told
    double detectable;   // the smallest ratio − 1 that these starts would call in 95 of 100 cases
} plb_comparison;

PLB_API PLB_MUST_USE plb_status plb_compare(const plb_side *a, const plb_side *b,
                                            const plb_verdict_options *options,
                                            plb_comparison *out);

// Verdicts of comparisons that are looked at together (Benjamini and Hochberg).
PLB_API PLB_MUST_USE plb_status plb_decide(plb_comparison *comparisons, size_t count,
                                           const plb_verdict_options *options);

// One line: what is needed for a verdict, or "". Into text[size].
PLB_API void plb_comparison_need(const plb_comparison *c, char *text, size_t size);

#endif
