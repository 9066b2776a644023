// SPDX-License-Identifier: Apache-2.0
// What the convolution and the product of 8-bit integers share. With x and w integers, acc the sum
// of (x - x_zero) w over a window or a row,
//
//   y = clamp(round((acc + bias) multiplier) + y_zero, low, high)
//
// in the integers of `dtype`; for dtype f32 neither rounded nor shifted. multiplier[K] is the scale
// of x times that of w's channel over that of y, bias[K] counts in steps of acc.
//
// round is to nearest even. Kernels may add y_zero before it, as oneDNN's does with the bias: of a
// number halfway between two integers an odd y_zero then gives the other one.
#ifndef PLB_ENGINE_OPS_INT8_H
#define PLB_ENGINE_OPS_INT8_H

#include <math.h>

#include "engine/ops/spatial.h"

enum { PLB_INT8_X, PLB_INT8_W, PLB_INT8_MULTIPLIER, PLB_INT8_BIAS };

static inline bool plb_is_byte(plb_dtype dtype) {
    return dtype == PLB_U8 || dtype == PLB_I8;
}

// The types of the operands, and attributes that contradict each other; `k` outputs.
plb_status plb_int8_check(const plb_signature *s, const char *op, int64_t k);
// What an accumulated sum of output channel k becomes.
double plb_int8_result(const plb_call *call, const plb_int8_attrs *attrs, int64_t k, double acc);
void plb_int8_describe(plb_strbuf *text, const plb_int8_attrs *attrs);

#endif
