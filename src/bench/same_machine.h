// SPDX-License-Identifier: Apache-2.0
// A run holds the numbers of one machine: one that went on elsewhere would mix those of two, under
// the fingerprint of the first.
#ifndef PLB_BENCH_SAME_MACHINE_H
#define PLB_BENCH_SAME_MACHINE_H

#include "store/store.h"

// `machine`: plb_fingerprint_take's. PLB_EINVAL: the run is of another one, and the first fact that
// differs is named; or there is no such run.
PLB_MUST_USE plb_status plb_check_same_machine(plb_store *store, int64_t run_id,
                                               const char *machine);

#endif
