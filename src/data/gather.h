// SPDX-License-Identifier: Apache-2.0
// How a stored sample becomes a network's input: as a fraction, normalised, perhaps shifted and
// mirrored. u8 pixels go through a table of 256 results per channel, whose arithmetic is that of
// torchvision's ToTensor and Normalize in f32: (v / 255 - mean) / std, bit for bit.
#ifndef PLB_DATA_GATHER_H
#define PLB_DATA_GATHER_H

#include "data/dataset.h"

typedef struct plb_gather {
    int64_t channels, height, width;
    plb_dtype dtype;
    bool flip;            // mirrors left to right with probability 1/2
    int64_t crop_padding; // pads with black by so many pixels, then crops at a random place
    uint64_t seed;
    float mean[PLB_MAX_CHANNELS], std[PLB_MAX_CHANNELS];
    float table[PLB_MAX_CHANNELS][256]; // u8 alone
} plb_gather;

// Fills sizes, dtype, normalisation and table; mean and std are [channels], or NULL for the set's
// own. The caller sets flip, crop_padding and seed. PLB_EINVAL when a std is not positive.
PLB_API PLB_MUST_USE plb_status plb_gather_init(plb_gather *gather, const plb_dataset_info *info,
                                                const float *mean, const float *std);

// sample[C,H,W] of gather->dtype to x[C,H,W]. Augmentation depends on (seed, epoch, index) alone.
PLB_API void plb_gather_sample(const plb_gather *gather, const void *sample, int64_t epoch,
                               int64_t index, float *x);
// The same without the arithmetic, of u8 alone: pixels as stored, shifted and mirrored alike. What
// lies outside of the picture is 0.
PLB_API void plb_gather_pixels(const plb_gather *gather, const void *sample, int64_t epoch,
                               int64_t index, uint8_t *x);

#endif
