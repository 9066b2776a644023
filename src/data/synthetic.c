// SPDX-License-Identifier: Apache-2.0
// What drawn sets have in common: options, keys, labels.
#include "data/synthetic.h"

#include <inttypes.h>

#include "base/core/status.h"
#include "data/draw.h"
#include "data/synthetic_set.h"

int64_t plb_synthetic_label(const plb_dataset *set, int64_t i) {
    return i % set->info.classes;
}

// Keys of two splits or seeds are independent: they are outputs of Philox themselves.
static uint64_t sample_key(uint64_t seed, plb_data_split split) {
    plb_philox_block block = plb_philox(seed, split, plb_stream(PLB_STREAM_SAMPLE, 0));
    return (uint64_t)block.word[1] << 32 | block.word[0];
}

plb_status plb_synthetic_new(const plb_dataset_info *defaults, const plb_dataset_ops *ops,
                             const plb_synthetic_options *options, plb_dataset **out) {
    enum { LEAST_SIZE = 8, MOST_SIZE = 4096 };
    plb_dataset_info info = *defaults;
    if (options->count < 0)
        return plb_fail(PLB_EINVAL, "%s: samples: expected 0 or more, found %" PRId64, info.name,
                        options->count);
    if (options->size && (options->size < LEAST_SIZE || options->size > MOST_SIZE))
        return plb_fail(PLB_EINVAL, "%s: size: expected %d to %d pixels, found %" PRId64, info.name,
                        LEAST_SIZE, MOST_SIZE, options->size);
    if (options->count) info.count = options->count;
    if (options->size) info.height = info.width = options->size;
    plb_synthetic_set *set;
    PLB_TRY(plb_dataset_new(&info, ops, sizeof *set, &set));
    set->split = options->split;
    set->key = sample_key(options->seed, options->split);
    *out = &set->base;
    return PLB_OK;
}
