// SPDX-License-Identifier: Apache-2.0
// Shared by the files that draw synthetic sets; private to them.
#ifndef PLB_DATA_SYNTHETIC_SET_H
#define PLB_DATA_SYNTHETIC_SET_H

#include "data/synthetic.h"

typedef struct plb_synthetic_set {
    plb_dataset base;
    uint64_t key; // of all random numbers of this seed and split
    plb_data_split split;
} plb_synthetic_set;

int64_t plb_synthetic_label(const plb_dataset *set, int64_t i);

// A set with these defaults, changed as the options ask.
plb_status plb_synthetic_new(const plb_dataset_info *defaults, const plb_dataset_ops *ops,
                             const plb_synthetic_options *options, plb_dataset **out);

#endif
