// SPDX-License-Identifier: Apache-2.0
// Two IDX files, plain or gzip, and the dataset that they make together.
#include <stdlib.h>

#include "base/core/alloc.h"
#include "data/idx.h"
#include "fuzz.h"

// An empty set may state images of any size, since no byte stands behind one: nothing to get there.
static void get_last(plb_dataset *set) {
    if (set->info.count == 0) return;
    plb_scratch scratch = {0};
    void *sample = plb_alloc(plb_dataset_sample_bytes(set));
    int64_t label;
    if (sample && plb_dataset_get(set, set->info.count - 1, &scratch, sample, &label)) abort();
    plb_free(sample);
    plb_scratch_free(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes) {
    static const plb_dataset_info info = {.name = "fuzz", .classes = 10};
    // Two files in one input: the first two bytes say where the second begins.
    if (size_bytes < 2) return 0;
    size_t first = (size_t)bytes[0] << 8 | bytes[1], rest = size_bytes - 2;
    if (first > rest) first = rest;
    plb_idx images = {0}, labels = {0};
    plb_dataset *set = NULL;
    if (!plb_idx_decode(bytes + 2, first, "images", &images) &&
        !plb_idx_decode(bytes + 2 + first, rest - first, "labels", &labels) &&
        !plb_idx_dataset_new(&info, &images, "images", &labels, "labels", &set))
        get_last(set);
    plb_dataset_free(set);
    plb_free(images.data);
    plb_free(labels.data);
    return 0;
}
