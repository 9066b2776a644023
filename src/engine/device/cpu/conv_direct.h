// SPDX-License-Identifier: Apache-2.0
// Direct convolution in f32 for few channels and many images: a vector holds the same element of as
// many images as it has lanes, so that no lane idles however few the channels are, and a tap that
// falls into the padding is skipped where other schemes multiply zeros.
//
// L is the lanes of a vector. L images are transposed to xt[D,H,W,C][L]; a block of channels times
// a few pixels of a row of the result is summed in registers over taps and channels of the source;
// a finished row yt[W,K][L] is transposed back. "Source" and "result" are x and y of conv, dy and
// dx of its input gradient. Spatial axes are always three: depth, height, width.
#ifndef PLB_ENGINE_DEVICE_CPU_CONV_DIRECT_H
#define PLB_ENGINE_DEVICE_CPU_CONV_DIRECT_H

#include <stdint.h>

#include "engine/ops/conv_shape.h"

enum {
    PLB_DIRECT_CHANNELS = 12, // most channels of the result that are summed at a time
    PLB_DIRECT_PIXELS = 4,    // and pixels of a row
    PLB_DIRECT_TAPS = 64,     // most taps of depth times height
    PLB_DIRECT_ROWS = 16,     // most rows of y that a weight gradient sums at a time
};

// Taps of one axis that meet a position of the result: `count` of them from `tap`, at positions of
// the source from `from`, both counted upwards by one.
typedef struct plb_direct_run {
    int32_t from, tap, count;
} plb_direct_run;

typedef struct plb_direct_axis {
    const int32_t *first; // position i has the runs first[i] .. first[i + 1]
    const plb_direct_run *runs;
} plb_direct_axis;

typedef struct plb_direct_kernels plb_direct_kernels;

typedef struct plb_direct_plan {
    plb_conv_shape shape;
    bool input_grad;
    const plb_direct_kernels *kernels;
    int threads;
    int64_t from[3], to[3];  // extents of source and result
    int64_t from_c, to_c;    // channels of source and result
    int64_t channel_block;   // channels of the result in a block; the last has the rest
    plb_direct_axis axis[3]; // of conv and conv_input_grad
    const uint8_t *alike;    // pixels from this one on whose taps are the same
    int64_t step;            // of the source from such a pixel to the next
    int64_t padded_w;        // of a weight gradient: columns of a row of x,
    int64_t j_count;         // width taps times channels of x,
    int64_t grad_rows;       // rows of y at a time
    size_t source_floats, row_floats, total_floats; // of one thread's workspace
} plb_direct_plan;

// What ends a sum; residual may be NULL or y.
typedef struct plb_direct_end {
    const float *bias, *residual;
    float low, high;
} plb_direct_end;

struct plb_direct_kernels {
    int lanes, grad_channels; // channels of dy that a weight gradient takes at a time, at most
    // Rows row_begin .. row_end (depth and height counted as one) of the result of images
    // first .. first + images. `packed` as plb_direct_pack makes it.
    void (*rows)(const plb_direct_plan *plan, const float *source, const float *packed,
                 const plb_direct_end *end, int64_t first, int64_t images, int64_t row_begin,
                 int64_t row_end, float *result, float *workspace);
    // Adds the products of rows of dy and x of such images to the totals at the end of `workspace`,
    // [K][depth and height taps][width taps, C][L]; `fresh`: sets them.
    void (*weight_rows)(const plb_direct_plan *plan, const float *x, const float *dy, int64_t first,
                        int64_t images, int64_t row_begin, int64_t row_end, bool fresh,
                        float *workspace);
    // dw[K,C,taps] from the totals of `parts` threads, `stride` floats apart.
    void (*weight_sum)(const plb_direct_plan *plan, const float *totals, int parts, size_t stride,
                       float *dw);
};

extern const plb_direct_kernels plb_direct_avx2, plb_direct_avx512;

#endif
