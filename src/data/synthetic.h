// SPDX-License-Identifier: Apache-2.0
// Pictures that can be learned, drawn on demand: for a machine without data, for tests, and for
// measuring with inputs of any size. Sample i is a function of (seed, split, i) alone, whatever
// order or thread asks for it; no two splits share a stream. Labels of
// digits and shapes go round: i % 10.
#ifndef PLB_DATA_SYNTHETIC_H
#define PLB_DATA_SYNTHETIC_H

#include "data/dataset.h"

typedef struct plb_synthetic_options {
    plb_data_split split;
    uint64_t seed;
    int64_t count; // 0: 60,000 digits or 10,000 shapes to train, 10,000 or 2,000 to test
    int64_t size;  // height and width in pixels, 8 to 4096; 0: 28 for digits, 64 for shapes
} plb_synthetic_options;

// [1,size,size]: the digits 0 to 9, written with a pen of random width, shifted, scaled, slanted,
// turned a little, with noise.
PLB_API PLB_MUST_USE plb_status plb_synthetic_digits_new(const plb_synthetic_options *options,
                                                         plb_dataset **out);

// [3,size,size]: one of ten shapes in a random colour, place, size and turn (up to 30 degrees)
// before a background that runs from one colour to another, with noise.
PLB_API PLB_MUST_USE plb_status plb_synthetic_shapes_new(const plb_synthetic_options *options,
                                                         plb_dataset **out);

// [3,size,size]: the same shapes, plain and striped: twenty classes, with as many samples each as
// PASCAL VOC 2012 has objects that are not difficult (13,609 to train, 13,841 to test); 96 pixels.
PLB_API PLB_MUST_USE plb_status plb_synthetic_voc_new(const plb_synthetic_options *options,
                                                      plb_dataset **out);

#endif
