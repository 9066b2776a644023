// SPDX-License-Identifier: Apache-2.0
// A run as one JSON document, raw samples included, and back: to keep it, to send it, to read it
// with other tools. What is exported and imported again is the same run (its uuid says so).
#ifndef PLB_BENCH_TRANSFER_H
#define PLB_BENCH_TRANSFER_H

#include "base/json.h"
#include "store/read.h"

// Writes the keys "run" and "cases", and of a study "study" with its items, into the open object of
// `json`; `samples` false leaves the blocks out, and such a document cannot be imported.
PLB_API PLB_MUST_USE plb_status plb_transfer_write(plb_store *store, const plb_run_row *run,
                                                   bool samples, plb_json *json);

// Adds the run of a document, whole or not at all. PLB_EINVAL: not such a document, with the place
// in it; or a run that the store has.
PLB_API PLB_MUST_USE plb_status plb_transfer_read(plb_store *store, const char *path,
                                                  int64_t *run_id);

#endif
