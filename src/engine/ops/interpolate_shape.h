// SPDX-License-Identifier: Apache-2.0
// Which elements of x an element of the resampled y mixes along one axis, and how much of each:
// PyTorch's arithmetic step by step (aten/src/ATen/native/UpSample.h), in f32 but for f64 values,
// so that rounding picks the same neighbours.
#ifndef PLB_ENGINE_OPS_INTERPOLATE_SHAPE_H
#define PLB_ENGINE_OPS_INTERPOLATE_SHAPE_H

#include "engine/ops/spatial.h"

enum { PLB_MAX_TAPS = 4 };

typedef struct plb_taps {
    int count; // 1 nearest, 2 linear, 4 cubic
    int64_t index[PLB_MAX_TAPS];
    double weight[PLB_MAX_TAPS];
} plb_taps;

// Of element `out` along spatial axis `axis` of the attributes (0 is the first that x has), where
// x has `in_extent` elements and y `out_extent`; `dtype` is that of the values.
void plb_interpolate_taps(const plb_interpolate_attrs *attrs, plb_dtype dtype, int axis,
                          int64_t in_extent, int64_t out_extent, int64_t out, plb_taps *taps);

// The same along depth, height and width; axes that a value of this rank lacks have one tap of 1.
// `in` and `extent` as plb_spatial_extents gives them.
void plb_interpolate_all_taps(const plb_interpolate_attrs *attrs, const plb_type *type,
                              const int64_t *in, const int64_t *extent, const int64_t *out,
                              plb_taps taps[PLB_MAX_SPATIAL]);

// The gradient of either op is the other: of node's input in[0], resized back to its extents.
plb_value plb_interpolate_back(plb_graph *graph, int node, plb_op_id op, plb_value dout);

// Type of what comes out, the same for interpolate and its gradient: [N,C] of the input, the
// extents of the attributes.
PLB_MUST_USE plb_status plb_interpolate_infer(plb_signature *s, const char *op);
// Multiply-adds of all taps of all elements of y.
double plb_interpolate_flops(const plb_interpolate_attrs *attrs, const plb_shape *y);
void plb_interpolate_describe(const void *attrs, plb_strbuf *text);

#endif
