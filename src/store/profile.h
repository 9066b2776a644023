// SPDX-License-Identifier: Apache-2.0
// Profiles of commands in the store: one a run.
#ifndef PLB_STORE_PROFILE_H
#define PLB_STORE_PROFILE_H

#include "base/core/arena.h"
#include "store/store.h"

// Makes a run a profile. `document`: JSON; `kept`: the profile as it is kept in a file.
PLB_API PLB_MUST_USE plb_status plb_store_put_profile(plb_store *store, int64_t run_id,
                                                      const char *document, const void *kept,
                                                      size_t kept_bytes);

typedef struct plb_store_profile {
    const char *document;
    const void *kept;
    size_t kept_bytes;
} plb_store_profile;

// Of a run, in `arena`. PLB_EMISSING: the run has none.
PLB_API PLB_MUST_USE plb_status plb_store_get_profile(plb_store *store, int64_t run_id,
                                                      plb_arena *arena, plb_store_profile *out);

#endif
