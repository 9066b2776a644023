// SPDX-License-Identifier: Apache-2.0
// How long cases will take, learnt from what cases took: earlier runs in the store, and this run as
// it goes on. Where nothing is known of a stack the guess is rough, and gets better with its first
// case.
#ifndef PLB_BENCH_ESTIMATE_H
#define PLB_BENCH_ESTIMATE_H

#include "bench/case.h"
#include "store/read.h"

// What became of one case.
typedef struct plb_observation {
    plb_case c;
    double flops;       // of an iteration; 0: unknown
    double iteration_s; // NaN: unknown
    double first_s;     // wall time of its first start, proof and audit included; NaN: none
    double later_s;     // of another start; NaN: there was none
    bool proof_only;    // nothing was timed
    bool refused;
} plb_observation;

typedef struct plb_estimator {
    plb_observation *list;
    int count, capacity;
    double time_s;   // of samples of one start
    bool proof_only; // nothing is timed
} plb_estimator;

PLB_API void plb_estimator_free(plb_estimator *estimator);
PLB_API PLB_MUST_USE plb_status plb_estimator_add(plb_estimator *estimator,
                                                  const plb_observation *observation);
// Adds what the store knows of a stack's newest cases.
PLB_API PLB_MUST_USE plb_status plb_estimator_learn(plb_estimator *estimator, plb_store *store,
                                                    const char *stack);

typedef struct plb_estimate {
    double first_s, later_s; // of the first start, of each other one
    bool known;              // this very case ran before
} plb_estimate;

// `flops`: of an iteration of the case. `own`: whether the stack is one of ours, which come up at
// once. The digest of inputs does not matter.
PLB_API plb_estimate plb_estimate_case(const plb_estimator *estimator, const plb_case *c,
                                       double flops, bool own);

// What is told to be left of a run. It goes down with the clock and follows the newest estimate
// slowly, within about a tenth of what is left, as one case that was slow or quick says little of
// the others.
typedef struct plb_countdown {
    double left_s;
    int64_t at_ns; // 0: nothing was told yet
} plb_countdown;

// Returns the seconds to tell.
PLB_API double plb_countdown_tell(plb_countdown *countdown, int64_t now_ns, double estimate_s);

#endif
