// SPDX-License-Identifier: Apache-2.0
// The numbers of a convolution, for the three ops that share them and for their kernels. Whoever
// computes reads them from here, never from the attributes, where zeros stand for defaults.
//
//   y[n,k,o] = sum over c, t of x[n, c, o stride - pad + t dilation] w[k,c,t]
#ifndef PLB_ENGINE_OPS_CONV_SHAPE_H
#define PLB_ENGINE_OPS_CONV_SHAPE_H

#include "engine/ops/spatial.h"

// Spatial numbers stand as depth, height, width; axes that the values lack come first, with
// extents, stride and dilation 1 and no padding.
typedef struct plb_conv_shape {
    int axes;                // that the values have
    int64_t n, c, k, groups; // c channels of x and k of y, over all groups
    int64_t in[PLB_MAX_SPATIAL], kernel[PLB_MAX_SPATIAL], out[PLB_MAX_SPATIAL];
    int64_t stride[PLB_MAX_SPATIAL], dilation[PLB_MAX_SPATIAL];
    int64_t pad[PLB_MAX_SPATIAL], pad_end[PLB_MAX_SPATIAL]; // before, behind
} plb_conv_shape;

// Of a node of conv (x, w), conv_input_grad (dy, w) or conv_weight_grad (x, dy), from the shapes
// of its first two inputs; PLB_EINVAL where they do not fit each other.
PLB_MUST_USE plb_status plb_conv_shape_of(plb_op_id op, const plb_shape *first,
                                          const plb_shape *second, const plb_conv_attrs *attrs,
                                          plb_conv_shape *out);

// PLB_EINVAL for a stride, a dilation or padding along `axis` that no convolution has.
PLB_MUST_USE plb_status plb_conv_check_axis(const plb_conv_attrs *attrs, const char *op, int axis);

plb_shape plb_conv_x_shape(const plb_conv_shape *s); // [N,C,…]
plb_shape plb_conv_w_shape(const plb_conv_shape *s); // [K,C/groups,…]
plb_shape plb_conv_y_shape(const plb_conv_shape *s); // [N,K,…]

// Two for each multiply-add, those with padding included; all three ops do the same number.
double plb_conv_flops(const plb_conv_shape *s);

// Defaults spelled out, numbers of axes past `axes` zero.
plb_conv_attrs plb_conv_attrs_final(const plb_conv_attrs *attrs, int axes);
void plb_conv_describe(const void *attrs, plb_strbuf *text);

// Where output `out` meets tap `tap`: sets `in`, false in the padding.
static inline bool plb_conv_in_at(const plb_conv_shape *s, const int64_t *out, const int64_t *tap,
                                  int64_t *in) {
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        in[i] = out[i] * s->stride[i] - s->pad[i] + tap[i] * s->dilation[i];
        if (in[i] < 0 || in[i] >= s->in[i]) return false;
    }
    return true;
}

// The output that meets input `in` with tap `tap`: sets `out`, false when there is none.
static inline bool plb_conv_out_at(const plb_conv_shape *s, const int64_t *in, const int64_t *tap,
                                   int64_t *out) {
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        int64_t start = in[i] + s->pad[i] - tap[i] * s->dilation[i];
        if (start < 0 || start % s->stride[i]) return false;
        out[i] = start / s->stride[i];
        if (out[i] >= s->out[i]) return false;
    }
    return true;
}

#endif
