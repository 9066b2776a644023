// SPDX-License-Identifier: Apache-2.0
// Quantised ops, by their definition: integers become floats, and products of integers are taken
// in f64, which holds them exactly.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "onnx/build.h"
#include "onnx/dtype.h"
#include "onnx/map.h"

// A scale or zero point as it stands beside x: one number, one for each position of an axis, or one
// for each block along it. PLB_NONE stays.
static plb_status beside(const plb_onnx_node *n, const plb_shape *x, int i, plb_value *out) {
    plb_graph *g = n->graph;
    plb_shape s = plb_onnx_type(n, i).shape;
    int64_t block = plb_onnx_int(n, "block_size", 0), axis = plb_onnx_int(n, "axis", 1);
    *out = plb_onnx_in(n, i);
    if (*out == PLB_NONE || plb_shape_count(&s) == 1) {
        if (*out != PLB_NONE) *out = plb_reshape(g, *out, &plb_scalar_shape);
        return PLB_OK;
    }
    int along;
    PLB_TRY(plb_onnx_axis(axis, x->rank, &along));
    if (!block) {
        *out = plb_onnx_widen(g, *out, x->rank, along);
        return PLB_OK;
    }
    if (s.rank != x->rank || x->rank == PLB_MAX_RANK)
        return plb_fail(PLB_EINVAL, "blocks of rank %d", s.rank);
    plb_shape split = {.rank = s.rank + 1}, joined = s;
    if (block < 1 || __builtin_mul_overflow(joined.dim[along], block, &joined.dim[along])) {
        return plb_fail(PLB_EINVAL, "blocks of %lld", (long long)block);
    }
    for (int k = 0; k < split.rank; k++) split.dim[k] = s.dim[k <= along ? k : k - 1];
    split.dim[along + 1] = 1;
    plb_value wide = plb_reshape(g, *out, &split);
    split.dim[along + 1] = block;
    wide = plb_reshape(g, plb_expand(g, wide, &split), &joined);
    *out = plb_slice_axis(g, wide, along, 0, x->dim[along]);
    return PLB_OK;
}

// The limits of an integer type of 8 or 16 bits.
static plb_status limits_of(plb_dtype dtype, double *low, double *high) {
    int bits = (int)plb_dtype_size(dtype) * 8;
    if (plb_dtype_is_float(dtype) || dtype == PLB_BOOL || bits > 16) {
        return plb_onnx_refuse("quantising to %s", plb_dtype_name(dtype));
    }
    bool is_signed = plb_dtype_is_signed(dtype);
    *low = is_signed ? -ldexp(1, bits - 1) : 0;
    *high = ldexp(1, is_signed ? bits - 1 : bits) - 1;
    return PLB_OK;
}

// x / scale, rounded, plus the zero point, within the type.
static plb_status quantise(plb_graph *g, plb_value x, plb_value scale, plb_value zero,
                           plb_dtype dtype, plb_value *out) {
    double low = 0, high = 0;
    PLB_TRY(limits_of(dtype, &low, &high));
    plb_dtype real = plb_value_type(g, x).dtype;
    plb_value y = plb_round(g, plb_div(g, x, plb_cast(g, scale, real)));
    if (plb_dtype_size(real) == 2) y = plb_cast(g, y, PLB_F32), real = PLB_F32;
    if (zero != PLB_NONE) y = plb_add(g, y, plb_cast(g, zero, real));
    *out = plb_cast(g, plb_clamp(g, y, low, high), dtype);
    return plb_graph_status(g);
}

plb_status plb_onnx_map_quantize(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_shape x = plb_onnx_type(n, 0).shape;
    plb_value scale, zero, data = n->in[0];
    plb_dtype to = PLB_U8;
    PLB_TRY(beside(n, &x, 1, &scale));
    PLB_TRY(beside(n, &x, 2, &zero));
    if (zero != PLB_NONE)
        to = plb_onnx_type(n, 2).dtype;
    else if (plb_onnx_int(n, "output_dtype", 0)) {
        PLB_TRY(plb_onnx_dtype(plb_onnx_int(n, "output_dtype", 0), &to));
    }
    int64_t precision = plb_onnx_int(n, "precision", 0);
    plb_dtype real = plb_onnx_type(n, 0).dtype;
    if (precision) PLB_TRY(plb_onnx_dtype(precision, &real));
    if (!plb_dtype_is_float(real)) real = PLB_F32;
    data = plb_cast(g, data, real);
    return quantise(g, data, scale, zero, to, &n->out[0]);
}

plb_status plb_onnx_map_dequantize(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_shape x = plb_onnx_type(n, 0).shape;
    plb_value scale, zero;
    plb_dtype to = plb_onnx_type(n, 1).dtype;
    PLB_TRY(beside(n, &x, 1, &scale));
    PLB_TRY(beside(n, &x, 2, &zero));
    if (plb_onnx_int(n, "output_dtype", 0)) {
        PLB_TRY(plb_onnx_dtype(plb_onnx_int(n, "output_dtype", 0), &to));
    }
    plb_dtype exact = plb_dtype_size(plb_onnx_type(n, 0).dtype) > 2 ? PLB_F64 : PLB_F32;
    plb_value y = plb_cast(g, n->in[0], exact);
    if (zero != PLB_NONE) y = plb_sub(g, y, plb_cast(g, zero, exact));
    y = plb_mul(g, y, plb_cast(g, scale, exact));
    n->out[0] = plb_cast(g, y, to);
    return PLB_OK;
}

plb_status plb_onnx_map_dynamic_quantize(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_value zero = plb_scalar(g, PLB_F32, 0), x = n->in[0];
    plb_value low = plb_min(g, plb_amin(g, x, 0, false), zero);
    plb_value high = plb_max(g, plb_amax(g, x, 0, false), zero);
    plb_value scale = plb_affine(g, plb_sub(g, high, low), 1.0 / 255, 0);
    plb_value point = plb_round(g, plb_clamp(g, plb_neg(g, plb_div(g, low, scale)), 0, 255));
    n->out[1] = scale;
    n->out[2] = plb_cast(g, point, PLB_U8);
    return quantise(g, x, scale, n->out[2], PLB_U8, &n->out[0]);
}

// ---------------------------------------------------------------------------- products
// Input i less its zero point, in f64. Points of a matrix's rows or columns, or of a kernel's
// outputs, stand along `axis`.
static plb_value centred(const plb_onnx_node *n, int i, int point, int axis) {
    plb_graph *g = n->graph;
    plb_value x = plb_cast(g, plb_onnx_in(n, i), PLB_F64), zero = plb_onnx_in(n, point);
    if (zero == PLB_NONE) return x;
    plb_shape s = plb_onnx_type(n, i).shape, t = plb_onnx_type(n, point).shape;
    if (plb_shape_count(&t) == 1)
        zero = plb_reshape(g, zero, &plb_scalar_shape);
    else if (t.rank == 1)
        zero = plb_onnx_widen(g, zero, s.rank, axis < 0 ? axis + s.rank : axis);
    return plb_sub(g, x, plb_cast(g, zero, PLB_F64));
}

plb_status plb_onnx_map_matmul_integer(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_value y = plb_onnx_matmul(g, centred(n, 0, 2, -2), centred(n, 1, 3, -1));
    n->out[0] = plb_cast(g, y, PLB_I32);
    return PLB_OK;
}

plb_status plb_onnx_map_conv_integer(plb_onnx_node *n) {
    plb_conv_attrs attrs;
    PLB_TRY(plb_onnx_conv_attrs(n, 0, 1, &attrs));
    plb_value y = plb_conv(n->graph, centred(n, 0, 2, 1), centred(n, 1, 3, 0), PLB_NONE, &attrs);
    n->out[0] = plb_cast(n->graph, y, PLB_I32);
    return PLB_OK;
}

// A scale of rank 1 of the left or right operand, beside a product.
static plb_value scale_of(const plb_onnx_node *n, int i, int rank, int axis) {
    plb_graph *g = n->graph;
    plb_shape s = plb_onnx_type(n, i).shape;
    plb_value scale = plb_cast(g, plb_onnx_in(n, i), PLB_F64);
    if (plb_shape_count(&s) == 1) return plb_reshape(g, scale, &plb_scalar_shape);
    return s.rank == 1 ? plb_onnx_widen(g, scale, rank, axis) : scale;
}

// The product of integers y times both scales over that of the result.
static plb_status requantise(plb_onnx_node *n, plb_value y, plb_value a, plb_value b, int scale,
                             int zero) {
    plb_graph *g = n->graph;
    y = plb_mul(g, y, plb_mul(g, a, b));
    plb_value point = plb_reshape(g, plb_onnx_in(n, zero), &plb_scalar_shape);
    plb_value unit = plb_reshape(g, plb_cast(g, plb_onnx_in(n, scale), PLB_F64), &plb_scalar_shape);
    PLB_TRY(plb_graph_status(g));
    return quantise(g, y, unit, point, plb_onnx_type(n, zero).dtype, &n->out[0]);
}

plb_status plb_onnx_map_qlinear_matmul(plb_onnx_node *n) {
    plb_value y = plb_onnx_matmul(n->graph, centred(n, 0, 2, -2), centred(n, 3, 5, -1));
    int rank = plb_value_shape(n->graph, y).rank;
    PLB_TRY(plb_graph_status(n->graph));
    if (rank < 2) return plb_onnx_refuse("vectors");
    return requantise(n, y, scale_of(n, 1, rank, rank - 2), scale_of(n, 4, rank, rank - 1), 6, 7);
}

plb_status plb_onnx_map_qlinear_conv(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_conv_attrs attrs;
    PLB_TRY(plb_onnx_conv_attrs(n, 0, 3, &attrs));
    int rank = plb_onnx_type(n, 0).shape.rank;
    plb_value bias = plb_onnx_in(n, 8);
    if (bias != PLB_NONE) bias = plb_cast(g, bias, PLB_F64);
    plb_value y = plb_conv(g, centred(n, 0, 2, 1), centred(n, 3, 5, 0), bias, &attrs);
    return requantise(n, y, scale_of(n, 1, rank, 1), scale_of(n, 4, rank, 1), 6, 7);
}
