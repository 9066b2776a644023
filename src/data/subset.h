// SPDX-License-Identifier: Apache-2.0
// A part of a set, drawn by chance: sets are often stored class by class, and their first thousand
// samples are then of one class.
#ifndef PLB_DATA_SUBSET_H
#define PLB_DATA_SUBSET_H

#include "data/dataset.h"

// Replaces *set by `count` of its samples, the same ones for the same seed; nothing happens if it
// has no more than that. On failure *set is as it was.
PLB_API PLB_MUST_USE plb_status plb_dataset_subset(plb_dataset **set, int64_t count, uint64_t seed);

#endif
