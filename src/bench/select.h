// SPDX-License-Identifier: Apache-2.0
// Measurements by name, as a user writes it: the number of a run, a label, a git revision, a stack,
// or the hash of a case. `run:`, `label:`, `git:`, `stack:` or `case:` before it says which is
// meant; without, whatever the store has under that name, if it is only one thing.
#ifndef PLB_BENCH_SELECT_H
#define PLB_BENCH_SELECT_H

#include "store/read.h"

typedef enum plb_select_kind {
    PLB_SELECT_RUN,
    PLB_SELECT_LABEL,
    PLB_SELECT_GIT,
    PLB_SELECT_STACK,
    PLB_SELECT_CASE
} plb_select_kind;

typedef struct plb_selector {
    plb_select_kind kind;
    const char *word; // without the prefix; borrowed from the text
    int64_t run;      // of a run: its number
} plb_selector;

// PLB_EINVAL if nothing or more than one thing is meant; the text says what there is.
PLB_API PLB_MUST_USE plb_status plb_select_parse(plb_store *store, const char *text,
                                                 plb_selector *out);

// The newest measurement of each case that the selector covers, brief, with summaries. Of a stack:
// within `run` if that is not 0. In the order in which they were made.
PLB_API PLB_MUST_USE plb_status plb_select_rows(plb_store *store, const plb_selector *selector,
                                                int64_t run, plb_arena *arena,
                                                plb_measurement_row **out, size_t *count);

#endif
