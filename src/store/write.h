// SPDX-License-Identifier: Apache-2.0
// Writing beyond what a measuring run needs: runs that come from a file, many rows in one
// transaction, removal.
#ifndef PLB_STORE_WRITE_H
#define PLB_STORE_WRITE_H

#include "store/store.h"

// All writes up to batch_end are one transaction: a large import is there whole or not at all.
// batch_end commits if `status` is PLB_OK, else undoes, and returns the first failure.
PLB_API PLB_MUST_USE plb_status plb_store_batch_begin(plb_store *store);
PLB_API PLB_MUST_USE plb_status plb_store_batch_end(plb_store *store, plb_status status);

// What the store otherwise makes up for a new run.
typedef struct plb_store_past_run {
    const char *uuid, *state;
    int64_t began_ms, ended_ms;  // Unix time; −1: unknown
    const char *fingerprint_end; // NULL: unknown
} plb_store_past_run;

// Adds a run that was measured elsewhere. PLB_EINVAL if the store has it already.
PLB_API PLB_MUST_USE plb_status plb_store_add_past_run(plb_store *store,
                                                       const plb_store_new_run *run,
                                                       const plb_store_past_run *past,
                                                       int64_t *run_id);

// Removes a run with all that it measured.
PLB_API PLB_MUST_USE plb_status plb_store_remove_run(plb_store *store, int64_t run_id);

#endif
