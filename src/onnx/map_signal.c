// SPDX-License-Identifier: Apache-2.0
// Signals: window functions and mel weights, which are constants; Fourier transforms, as products
// with matrices of cosines and sines.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "onnx/build.h"
#include "onnx/dtype.h"
#include "onnx/map.h"

#define TWO_PI 6.283185307179586

enum { MAX_LENGTH = 1 << 14 }; // of a transform, a window

static double *numbers(const plb_onnx_node *n, int64_t count) {
    return plb_arena_alloc(n->scope->b->arena, (size_t)(count + 1) * sizeof(double));
}

static plb_status known_length(const plb_onnx_node *n, int i, int64_t *out) {
    double value = 0;
    *out = 1;
    PLB_TRY(plb_onnx_known_number(n, i, &value));
    if (value >= 1 && value <= MAX_LENGTH) {
        *out = (int64_t)value;
        return PLB_OK;
    }
    return plb_onnx_refuse("a length of %g: 1 to %d are served", value, MAX_LENGTH);
}

plb_status plb_onnx_map_window(plb_onnx_node *n) {
    int64_t size;
    plb_dtype dtype;
    PLB_TRY(known_length(n, 0, &size));
    PLB_TRY(plb_onnx_dtype(plb_onnx_int(n, "output_datatype", 1), &dtype));
    double a = 0.5, b = 0.5, c = 0, *w = numbers(n, size);
    if (strcmp(n->op, "HammingWindow") == 0) a = 25.0 / 46, b = 21.0 / 46;
    if (strcmp(n->op, "BlackmanWindow") == 0) a = 0.42, b = 0.5, c = 0.08;
    if (!w) return plb_fail(PLB_ENOMEM, "out of memory for a window");
    double span = (double)(plb_onnx_int(n, "periodic", 1) ? size : size - 1);
    for (int64_t i = 0; i < size; i++) {
        double angle = span > 0 ? TWO_PI * (double)i / span : 0;
        w[i] = a - b * cos(angle) + c * cos(2 * angle);
    }
    n->out[0] = plb_onnx_f64(n->graph, dtype, &plb_shape_of(size), w);
    return PLB_OK;
}

plb_status plb_onnx_map_mel(plb_onnx_node *n) {
    double v[5];
    plb_dtype dtype;
    for (int i = 0; i < 5; i++) PLB_TRY(plb_onnx_known_number(n, i, &v[i]));
    PLB_TRY(plb_onnx_dtype(plb_onnx_int(n, "output_datatype", 1), &dtype));
    bool sane = v[0] >= 1 && v[0] <= 4096 && v[1] >= 1 && v[1] <= MAX_LENGTH && v[2] >= 1;
    if (!sane) return plb_onnx_refuse("%g bins of %g points at a rate of %g", v[0], v[1], v[2]);
    int64_t bins = (int64_t)v[0], length = (int64_t)v[1], rows = length / 2 + 1;
    double *w = numbers(n, rows * bins), *edge = numbers(n, bins + 2);
    if (!w || !edge) return plb_fail(PLB_ENOMEM, "out of memory for weights");
    double low = 2595 * log10(1 + v[3] / 700), high = 2595 * log10(1 + v[4] / 700);
    for (int64_t i = 0; i < bins + 2; i++) {
        double mel = low + (double)i * (high - low) / (double)(bins + 2);
        edge[i] = floor((double)(length + 1) * 700 * (pow(10, mel / 2595) - 1) / v[2]);
    }
    for (int64_t i = 0; i < bins; i++) { // a triangle over edges i, i + 1, i + 2
        double left = edge[i], top = edge[i + 1], right = edge[i + 2];
        for (int64_t k = 0; k < rows; k++) {
            double x = (double)k, y = 0;
            if (left == top)
                y = x == top ? 1 : 0;
            else if (x >= left && x <= top)
                y = (x - left) / (top - left);
            if (right > top && x >= top && x < right) y = (right - x) / (right - top);
            w[k * bins + i] = y;
        }
    }
    n->out[0] = plb_onnx_f64(n->graph, dtype, &plb_shape_of(rows, bins), w);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- Fourier
typedef struct transform {
    int64_t in, out; // lengths
    double sign;     // of the angle
    double scale;
} transform;

// cos or sin of sign 2 pi j k / n: [in, out].
static plb_value waves(const plb_onnx_node *n, const transform *t, int64_t length, bool sine,
                       plb_dtype dtype) {
    double *w = numbers(n, t->in * t->out);
    if (!w) return plb_graph_fail(n->graph, plb_fail(PLB_ENOMEM, "out of memory for waves"));
    for (int64_t j = 0; j < t->in; j++) {
        for (int64_t k = 0; k < t->out; k++) {
            double angle = t->sign * TWO_PI * (double)(j * k % length) / (double)length;
            w[j * t->out + k] = t->scale * (sine ? sin(angle) : cos(angle));
        }
    }
    return plb_onnx_f64(n->graph, dtype, &plb_shape_of(t->in, t->out), w);
}

// The transform of x[…, in, 1 or 2] along its last axis but one: [..., out, 2].
static plb_value fourier(const plb_onnx_node *n, plb_value x, const transform *t, int64_t length) {
    plb_graph *g = n->graph;
    if (plb_graph_status(g)) return PLB_NONE; // then x has no shape
    plb_type type = plb_value_type(g, x);
    plb_shape flat = type.shape, wide;
    int rank = type.shape.rank;
    bool complex = type.shape.dim[rank - 1] == 2;
    flat.rank--;
    plb_value cosines = waves(n, t, length, false, type.dtype);
    plb_value sines = waves(n, t, length, true, type.dtype);
    plb_value re = plb_reshape(g, plb_slice_axis(g, x, rank - 1, 0, 1), &flat);
    plb_value y_re = plb_onnx_matmul(g, re, cosines), y_im = plb_onnx_matmul(g, re, sines);
    if (complex) {
        plb_value im = plb_reshape(g, plb_slice_axis(g, x, rank - 1, 1, 2), &flat);
        y_re = plb_sub(g, y_re, plb_onnx_matmul(g, im, sines));
        y_im = plb_add(g, y_im, plb_onnx_matmul(g, im, cosines));
    }
    wide = plb_value_shape(g, y_re);
    wide.dim[wide.rank++] = 1;
    plb_value parts[2] = {plb_reshape(g, y_re, &wide), plb_reshape(g, y_im, &wide)};
    return plb_concat(g, parts, 2, wide.rank - 1);
}

// Cut, or filled with zeros, to `length` along an axis.
static plb_value fit(plb_graph *g, plb_value x, int axis, int64_t length) {
    int64_t extent = plb_value_shape(g, x).dim[axis];
    if (extent >= length) return plb_slice_axis(g, x, axis, 0, length);
    plb_pad_attrs pad = {.mode = PLB_PAD_CONSTANT};
    pad.after[axis] = length - extent;
    return plb_pad(g, x, &pad);
}

static plb_status dft_axis(const plb_onnx_node *n, int rank, int *out) {
    int64_t axis = n->opset < 20 ? plb_onnx_int(n, "axis", 1) : -2;
    if (n->opset >= 20 && plb_onnx_given_in(n, 2)) {
        PLB_TRY(plb_onnx_known_int(n, 2, -rank, rank - 1, &axis));
    }
    PLB_TRY(plb_onnx_axis(axis, rank, out));
    return *out < rank - 1 ? PLB_OK : plb_fail(PLB_EINVAL, "the axis of real and imaginary parts");
}

// The last axis holds real, or real and imaginary parts.
static plb_status check_parts(int64_t extent) {
    if (extent == 1 || extent == 2) return PLB_OK;
    return plb_fail(PLB_EINVAL, "expected 1 or 2 numbers in the last axis, found %lld",
                    (long long)extent);
}

plb_status plb_onnx_map_dft(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_shape x = plb_onnx_type(n, 0).shape;
    bool inverse = plb_onnx_int(n, "inverse", 0) != 0, half = plb_onnx_int(n, "onesided", 0) != 0;
    int axis;
    if (x.rank < 2 || x.rank >= PLB_MAX_RANK) return plb_onnx_refuse("rank %d", x.rank);
    PLB_TRY(check_parts(x.dim[x.rank - 1]));
    PLB_TRY(dft_axis(n, x.rank, &axis));
    int64_t length = half && inverse ? 2 * (x.dim[axis] - 1) : x.dim[axis];
    if (plb_onnx_given_in(n, 1)) PLB_TRY(known_length(n, 1, &length));
    if (length < 1 || length > MAX_LENGTH)
        return plb_onnx_refuse("a length of %lld", (long long)length);
    plb_value y = n->in[0];
    if (half && inverse) { // what is missing mirrors what is there, conjugated
        int64_t have = length / 2 + 1;
        y = fit(g, y, axis, have);
        plb_value rest =
            plb_flip(g, plb_slice_axis(g, y, axis, 1, length - have + 1), INT64_C(1) << axis);
        plb_shape line = {.rank = x.rank};
        for (int i = 0; i < x.rank; i++) line.dim[i] = i == x.rank - 1 ? x.dim[i] : 1;
        plb_value conjugate = plb_onnx_f64(g, plb_onnx_type(n, 0).dtype, &line, (double[]){1, -1});
        y = plb_concat(g, (plb_value[]){y, plb_mul(g, rest, conjugate)}, 2, axis);
    } else {
        y = fit(g, y, axis, length);
    }
    transform t = {.in = length,
                   .out = half && !inverse ? length / 2 + 1 : length,
                   .sign = inverse ? 1 : -1,
                   .scale = inverse ? 1 / (double)length : 1};
    y = plb_transpose(g, y, axis, x.rank - 2);
    y = fourier(n, y, &t, length);
    if (half && inverse) y = plb_slice_axis(g, y, x.rank - 1, 0, 1);
    n->out[0] = plb_transpose(g, y, axis, x.rank - 2);
    return PLB_OK;
}

// Frames of the signal, times a window, each transformed: [batch, frames, bins, 2].
plb_status plb_onnx_map_stft(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_type x = plb_onnx_type(n, 0);
    int64_t step, length;
    PLB_TRY(known_length(n, 1, &step));
    if (plb_onnx_given_in(n, 3))
        PLB_TRY(known_length(n, 3, &length));
    else
        length = plb_onnx_given_in(n, 2) ? plb_onnx_type(n, 2).shape.dim[0] : 0;
    plb_value y = n->in[0];
    if (x.shape.rank == 2) y = plb_reshape(g, y, &plb_shape_of(x.shape.dim[0], x.shape.dim[1], 1));
    if (x.shape.rank < 2 || x.shape.rank > 3 || length < 1 || length > x.shape.dim[1] ||
        length > MAX_LENGTH) {
        return plb_fail(PLB_EINVAL, "frames of %lld", (long long)length);
    }
    if (x.shape.rank == 3) PLB_TRY(check_parts(x.shape.dim[2]));
    plb_shape frames = plb_shape_of((x.shape.dim[1] - length) / step + 1, length);
    plb_value at = plb_affine(g, plb_iota(g, PLB_I64, &frames, 0), (double)step, 0);
    y = plb_take(g, y, plb_add(g, at, plb_iota(g, PLB_I64, &frames, 1)), 1);
    if (plb_onnx_given_in(n, 2)) {
        y = plb_mul(g, y, plb_reshape(g, n->in[2], &plb_shape_of(length, 1)));
    }
    bool half = plb_onnx_int(n, "onesided", 1) != 0;
    transform t = {.in = length, .out = half ? length / 2 + 1 : length, .sign = -1, .scale = 1};
    n->out[0] = fourier(n, y, &t, length);
    return PLB_OK;
}
