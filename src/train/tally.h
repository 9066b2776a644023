// SPDX-License-Identifier: Apache-2.0
// Sums over several plans of one model: planned bytes, and the time of ops.
#ifndef PLB_TRAIN_TALLY_H
#define PLB_TRAIN_TALLY_H

#include "train/loop.h"

// `plans` may hold NULL.
void plb_tally_bytes(const plb_model *model, const plb_plan *const *plans, int n,
                     plb_plan_bytes *out);
// Ops that ran, longest time first; array and names live in `arena`.
PLB_MUST_USE plb_status plb_tally_ops(const plb_plan *const *plans, int n, plb_arena *arena,
                                      const plb_train_op **out, int *out_count);

#endif
