// SPDX-License-Identifier: Apache-2.0
// Studies in the store: what was asked, and one row an item, written when the item has ended. An
// item that was left out may be written again by a run that goes on.
#ifndef PLB_STORE_STUDY_H
#define PLB_STORE_STUDY_H

#include "base/core/arena.h"
#include "store/store.h"

// Makes a run a study. `spec`: its YAML; `options`: JSON.
PLB_API PLB_MUST_USE plb_status plb_store_begin_study(plb_store *store, int64_t run_id,
                                                      const char *name, const char *spec,
                                                      const char *options);

typedef struct plb_study_row {
    int64_t run;
    const char *name, *spec, *options;
} plb_study_row;

// The study that a run is, or with run_id 0 the newest one called `name` (NULL: any). PLB_EMISSING:
// there is none.
PLB_API PLB_MUST_USE plb_status plb_store_find_study(plb_store *store, int64_t run_id,
                                                     const char *name, plb_arena *arena,
                                                     plb_study_row *out);

typedef struct plb_study_item_row {
    const char *part, *keys; // JSON
    // ok, refused, oom, timeout, crash, protocol, invalid, left-out, running
    const char *outcome;
    const char *reason;  // NULL: none; of one that is running, the process (store/process.h)
    const char *results; // JSON; NULL: none
} plb_study_item_row;

// Replaces what the run has of this part and these keys.
PLB_API PLB_MUST_USE plb_status plb_store_put_item(plb_store *store, int64_t run_id,
                                                   const plb_study_item_row *item);
// Takes an item for this process, so that of several that run one run only one does it. *taken is
// false where it has ended, or where another process has it that still lives. Until the item is
// put, its outcome is "running" and its reason the process.
PLB_API PLB_MUST_USE plb_status plb_store_take_item(plb_store *store, int64_t run_id,
                                                    const char *part, const char *keys,
                                                    bool *taken);
// How many items of a run other processes have that still live.
PLB_API PLB_MUST_USE plb_status plb_store_count_held(plb_store *store, int64_t run_id, int *out);
// All items of a run, in the order in which they were first written.
PLB_API PLB_MUST_USE plb_status plb_store_items(plb_store *store, int64_t run_id, plb_arena *arena,
                                                plb_study_item_row **out, size_t *out_count);

#endif
