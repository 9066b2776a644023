// SPDX-License-Identifier: Apache-2.0
// How a case can end. Everything but `ok` is a result too: it is stored with its reason and shown
// where the time would stand.
#ifndef PLB_BENCH_OUTCOME_H
#define PLB_BENCH_OUTCOME_H

#include "plumb/status.h"

typedef enum plb_outcome {
    PLB_OUTCOME_OK,
    PLB_OUTCOME_INVALID,  // it ran, but not the work that was asked for
    PLB_OUTCOME_REFUSED,  // the stack says that it cannot
    PLB_OUTCOME_OOM,      // memory of host or device ran out, or the limit was passed
    PLB_OUTCOME_TIMEOUT,  // no answer in time
    PLB_OUTCOME_CRASH,    // the process ended, or reported an exception
    PLB_OUTCOME_PROTOCOL, // what it said made no sense
    PLB_OUTCOME_COUNT,
} plb_outcome;

PLB_API const char *plb_outcome_name(plb_outcome outcome); // "ok"; static
// PLB_OUTCOME_COUNT for what is no name of one.
PLB_API plb_outcome plb_outcome_from_name(const char *name);

// Why a case is not ok.
typedef struct plb_failure {
    plb_outcome outcome;
    char kind[24];     // of a refusal: "task"
    char reason[1024]; // one line
} plb_failure;

// Keeps the first failure only. Returns PLB_EBROKEN, so that PLB_TRY leaves with it.
PLB_API plb_status plb_failure_set(plb_failure *failure, plb_outcome outcome, const char *format,
                                   ...) PLB_PRINTF(3);

#endif
