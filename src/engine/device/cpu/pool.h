// SPDX-License-Identifier: Apache-2.0
// Pooling of f32, channels innermost: x[planes, D, H, W, channels]. A plain value is one with a
// channel in each plane. What windows cover is worked out once, into tables along each axis, so
// that fixed and adaptive windows, padding and ceil_mode are alike to the loops
// (pool_rows_body.h, compiled for each instruction set), which make one row of the result a call.
#ifndef PLB_ENGINE_DEVICE_CPU_POOL_H
#define PLB_ENGINE_DEVICE_CPU_POOL_H

#include <stdbool.h>
#include <stdint.h>

enum { PLB_POOL_AXES = 3 };

// Of one element of y along one axis.
typedef struct plb_pool_window {
    int64_t first, count; // positions in x: first, first + dilation, …, none of them padding
    float divisor;        // of a mean; the three axes' multiply
} plb_pool_window;

// Elements [first, end) of y along one axis: those whose windows hold one position of x.
typedef struct plb_pool_cover {
    int64_t first, end;
} plb_pool_cover;

typedef struct plb_pool_geometry {
    int64_t planes, channels;
    int64_t in[PLB_POOL_AXES], out[PLB_POOL_AXES], dilation[PLB_POOL_AXES];
    bool disjoint;                                // no position of x is in two windows
    const plb_pool_window *window[PLB_POOL_AXES]; // [out]
    const plb_pool_cover *cover[PLB_POOL_AXES];   // [in]; of no use with dilation
} plb_pool_geometry;

typedef struct plb_pool_row {
    const plb_pool_geometry *g;
    int64_t d, h;         // of the row that is made
    int64_t begin, end;   // its channels: all, or at least 16
    const float *from;    // plane of x, or of dy in gradients
    const int32_t *index; // plane of the maxima's positions, in max_grad
    float *to;            // row of y, or of dx in gradients
    int32_t *at;          // row of positions or NULL, in max
    float *line;          // scratch of in[2] elements each
    int32_t *line_at;
} plb_pool_row;

typedef struct plb_pool_rows {
    void (*max)(const plb_pool_row *r);
    void (*mean)(const plb_pool_row *r);
    void (*mean_grad)(const plb_pool_row *r);
    // Returns how many positions of the maxima it has met: all of them, over all rows, if every
    // maximum lies in its own window. Not for dilation.
    int64_t (*max_grad)(const plb_pool_row *r);
} plb_pool_rows;

extern const plb_pool_rows plb_pool_rows_portable, plb_pool_rows_avx2, plb_pool_rows_avx512;

#endif
