// SPDX-License-Identifier: Apache-2.0
// The numbers of a pooling window, for the pooling ops and their kernels, which read them from
// here and never from the attributes, where zeros stand for defaults.
#ifndef PLB_ENGINE_OPS_POOL_SHAPE_H
#define PLB_ENGINE_OPS_POOL_SHAPE_H

#include "engine/ops/spatial.h"

// Spatial numbers stand as depth, height, width; axes that the values lack come first, with a
// window of 1.
typedef struct plb_pool_shape {
    int axes;
    int64_t n, c;
    int64_t in[PLB_MAX_SPATIAL], out[PLB_MAX_SPATIAL];
    int64_t kernel[PLB_MAX_SPATIAL], stride[PLB_MAX_SPATIAL], dilation[PLB_MAX_SPATIAL];
    int64_t pad[PLB_MAX_SPATIAL], pad_end[PLB_MAX_SPATIAL];
    bool count_include_pad;
} plb_pool_shape;

// Of max_pool and avg_pool, from x.
PLB_MUST_USE plb_status plb_pool_shape_of(const plb_shape *x, const plb_pool_attrs *attrs,
                                          const char *op, plb_pool_shape *out);
// Of their gradients, from dy; attrs->extent are the extents of x.
PLB_MUST_USE plb_status plb_pool_shape_of_grad(const plb_shape *dy, const plb_pool_attrs *attrs,
                                               const char *op, plb_pool_shape *out);

plb_shape plb_pool_x_shape(const plb_pool_shape *s);
plb_shape plb_pool_y_shape(const plb_pool_shape *s);

// Flattened position in the spatial plane of x of tap `tap` of window `out`; -1 in the padding.
static inline int64_t plb_pool_position(const plb_pool_shape *s, const int64_t *out,
                                        const int64_t *tap) {
    int64_t position = 0;
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        int64_t in = out[i] * s->stride[i] - s->pad[i] + tap[i] * s->dilation[i];
        if (in < 0 || in >= s->in[i]) return -1;
        position = position * s->in[i] + in;
    }
    return position;
}

// The three indices of a flattened position in a plane of these extents.
static inline void plb_pool_unflatten(int64_t position, const int64_t *extent, int64_t *at) {
    for (int i = PLB_MAX_SPATIAL - 1; i >= 0; i--) {
        at[i] = position % extent[i];
        position /= extent[i];
    }
}

// What avg_pool divides the sum of window `out` by: its elements of x, or with count_include_pad
// those of the padding too, but none past it (ceil_mode lets windows stick out).
int64_t plb_pool_divisor(const plb_pool_shape *s, const int64_t *out);

// Window `out` along one axis of an adaptive pooling: [begin, end).
static inline void plb_pool_adaptive_window(int64_t out, int64_t in_extent, int64_t out_extent,
                                            int64_t *begin, int64_t *end) {
    *begin = out * in_extent / out_extent;
    *end = ((out + 1) * in_extent + out_extent - 1) / out_extent;
}

// Calls `add` for each plane (n, c) of dy, so that it spreads dy over a plane of f64 sums with the
// extents of dx, and stores the plane into dx.
PLB_MUST_USE plb_status plb_pool_spread(const plb_tensor *dx,
                                        void (*add)(const void *context, int64_t n, int64_t c,
                                                    double *plane),
                                        const void *context);

// Defaults spelled out, numbers past `axes` zero.
plb_pool_attrs plb_pool_attrs_final(const plb_pool_attrs *attrs, int axes);
void plb_pool_describe(const void *attrs, plb_strbuf *text);

#endif
