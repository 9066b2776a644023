// SPDX-License-Identifier: Apache-2.0
#include "bench/end_run.h"

#include <stdio.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "bench/fingerprint.h"

enum { WATCH_MS = 200 }; // who else is busy; nobody who has interrupted a run waits for it

plb_status plb_end_run(plb_store *store, int64_t run_id, plb_status status) {
    const char *name = status == PLB_OK           ? "done"
                       : status == PLB_ECANCELLED ? "interrupted"
                                                  : "failed";
    char text[512], *state = NULL;
    snprintf(text, sizeof text, "%s", plb_error_text());
    // Without it the run is as good.
    (void)!plb_fingerprint_state("", status ? 0 : WATCH_MS, &state);
    plb_status ended = plb_store_end_run(store, run_id, name, state);
    plb_free(state);
    return status ? plb_fail(status, "%s", text) : ended;
}
