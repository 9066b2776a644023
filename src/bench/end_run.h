// SPDX-License-Identifier: Apache-2.0
// The end of a run in the store.
#ifndef PLB_BENCH_END_RUN_H
#define PLB_BENCH_END_RUN_H

#include "store/store.h"

// Done, interrupted or failed, as `status` says, and the state of the machine then. Returns
// `status` with its message, or what went wrong with the store.
PLB_API PLB_MUST_USE plb_status plb_end_run(plb_store *store, int64_t run_id, plb_status status);

#endif
