// SPDX-License-Identifier: Apache-2.0
// A case that an interrupted run had finished already, as the store knows it.
#ifndef PLB_BENCH_RESTORE_H
#define PLB_BENCH_RESTORE_H

#include "bench/bench.h"
#include "store/read.h"

// Fills what c->measurement has in the store: outcome, proof, results, the first start's figures,
// times.
PLB_MUST_USE plb_status plb_bench_restore(plb_store *store, plb_bench_case *c);

#endif
