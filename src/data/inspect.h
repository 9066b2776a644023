// SPDX-License-Identifier: Apache-2.0
// Questions about whole sets: how many samples each class has, whether two splits number the same
// classes alike, and whether they share samples.
#ifndef PLB_DATA_INSPECT_H
#define PLB_DATA_INSPECT_H

#include "data/dataset.h"

// counts[classes] of the samples.
PLB_API void plb_dataset_class_counts(const plb_dataset *set, int64_t *counts);

// PLB_EINVAL where the classes of two splits differ, by name where both have names, else by number:
// a label would mean one thing to train and another to test. The text names the first that differs.
PLB_API PLB_MUST_USE plb_status plb_dataset_same_classes(const plb_dataset *train,
                                                         const plb_dataset *test);

typedef struct plb_shared_sample {
    int64_t a, b; // indices in the two splits
} plb_shared_sample;

// Samples of `b` whose content (pixels, not labels) is also in `a`: their number to *out_count, the
// first `limit` of them into `first`, by index in b. By hash, then byte by byte: 0 is a proof that
// the splits are disjoint. PLB_EINVAL for sets of other extents.
PLB_API PLB_MUST_USE plb_status plb_dataset_shared(const plb_dataset *a, const plb_dataset *b,
                                                   int threads, plb_progress *progress,
                                                   plb_shared_sample *first, int64_t limit,
                                                   int64_t *out_count);

#endif
