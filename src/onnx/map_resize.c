// SPDX-License-Identifier: Apache-2.0
// Resize and Upsample in all modes. What the engine's own interpolation does goes there. The rest
// is separable: along each axis, element i of y is a weighted sum of a few elements of x, whose
// positions and weights are constants; so an axis becomes some takes, products and sums.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "onnx/build.h"
#include "onnx/map.h"

typedef enum resize_mode { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC } resize_mode;

typedef struct resize {
    plb_onnx_node *n;
    resize_mode mode;
    bool antialias, exclude_outside, crops;
    double cubic, extrapolation;
    double scale[PLB_MAX_RANK], begin[PLB_MAX_RANK], end[PLB_MAX_RANK]; // begin, end: the crop
    int64_t extent[PLB_MAX_RANK];
} resize;

enum { MAX_TAPS = 512, MAX_WEIGHTS = 1 << 24 }; // of an element; of all along an axis

// ---------------------------------------------------------------------------- coordinates
// Where element i of y lies in x.
static double coordinate(const resize *r, int axis, int64_t in, int64_t i) {
    const plb_onnx_node *n = r->n;
    const char *name = "coordinate_transformation_mode", *missing = "half_pixel";
    double scale = r->scale[axis], out = (double)r->extent[axis], x = (double)i;
    double whole = scale * (double)in;
    if (n->opset < 11 || strcmp(n->op, "Upsample") == 0) return x / scale;
    if (plb_onnx_is(n, name, missing, "asymmetric")) return x / scale;
    if (plb_onnx_is(n, name, missing, "align_corners")) {
        return out == 1 ? 0 : x * (double)(in - 1) / (whole - 1);
    }
    if (plb_onnx_is(n, name, missing, "pytorch_half_pixel") && out == 1) return 0;
    if (plb_onnx_is(n, name, missing, "tf_half_pixel_for_nn")) return (x + 0.5) / scale;
    if (plb_onnx_is(n, name, missing, "half_pixel_symmetric")) {
        double adjust = out / whole, centre = (double)in / 2;
        return centre * (1 - adjust) + (x + 0.5) / scale - 0.5;
    }
    if (r->crops) {
        double span = r->end[axis] - r->begin[axis], last = (double)(in - 1);
        if (out == 1) return 0.5 * (r->begin[axis] + r->end[axis]) * last;
        return r->begin[axis] * last + x * span * last / (out - 1);
    }
    return (x + 0.5) / scale - 0.5;
}

// A position as an integer, cut to what an extent may be; of no number, 0.
static int64_t whole(double x) {
    const double most = PLB_ONNX_MAX_EXTENT;
    return (int64_t)(x >= -most ? fmin(x, most) : x < -most ? -most : 0);
}

// Before opset 11 Resize rounded up where it made smaller.
static int64_t nearest(const resize *r, double x, double scale) {
    const char *name = "nearest_mode", *missing = "round_prefer_floor";
    const bool up = strcmp(r->n->op, "Upsample") == 0;
    if (r->n->opset < 11 || up) return whole(!up && scale < 1 ? ceil(x) : floor(x));
    if (plb_onnx_is(r->n, name, missing, "floor")) return whole(floor(x));
    if (plb_onnx_is(r->n, name, missing, "ceil")) return whole(ceil(x));
    if (plb_onnx_is(r->n, name, missing, "round_prefer_ceil")) return whole(floor(x + 0.5));
    return whole(ceil(x - 0.5));
}

static double kernel(const resize *r, double x) {
    double d = fabs(x), a = r->cubic;
    if (r->mode == RESIZE_LINEAR) return d < 1 ? 1 - d : 0;
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static int64_t clamp_index(int64_t i, int64_t extent) {
    return i < 0 ? 0 : i >= extent ? extent - 1 : i;
}

// ---------------------------------------------------------------------------- one axis
typedef struct taps {
    int n; // for each element of y
    int64_t *index;
    double *weight;
} taps;

static int tap_count(const resize *r, int axis) {
    if (r->mode == RESIZE_NEAREST) return 1;
    double reach = r->mode == RESIZE_LINEAR ? 1 : 2, scale = r->scale[axis];
    bool wide = r->antialias && scale < 1;
    double n = wide ? 2 * ceil(reach / scale) + 2 : 2 * reach;
    return n > MAX_TAPS ? -1 : (int)n;
}

static void fill_taps(const resize *r, int axis, int64_t in, int64_t i, taps *t) {
    double x = coordinate(r, axis, in, i), sum = 0;
    int64_t *index = t->index + i * t->n;
    double *weight = t->weight + i * t->n;
    if (r->mode == RESIZE_NEAREST) {
        index[0] = clamp_index(nearest(r, x, r->scale[axis]), in);
        weight[0] = 1;
        return;
    }
    double shrink = r->antialias && r->scale[axis] < 1 ? r->scale[axis] : 1;
    int64_t first = whole(floor(x)) - t->n / 2 + 1;
    for (int k = 0; k < t->n; k++) {
        int64_t at = first + k;
        bool outside = at < 0 || at >= in;
        weight[k] = outside && r->exclude_outside ? 0 : kernel(r, ((double)at - x) * shrink);
        index[k] = clamp_index(at, in);
        sum += weight[k];
    }
    for (int k = 0; k < t->n && sum != 0; k++) weight[k] /= sum;
}

static plb_status make_taps(const resize *r, int axis, int64_t in, taps *t) {
    t->n = tap_count(r, axis);
    int64_t out = r->extent[axis];
    if (t->n < 0) return plb_onnx_refuse("it shrinks by more than %d", MAX_TAPS / 4);
    if (in < 1 && out > 0) return plb_fail(PLB_EINVAL, "%lld elements of none", (long long)out);
    if (out > MAX_WEIGHTS / t->n) {
        return plb_onnx_refuse("%lld elements along an axis: too many", (long long)out);
    }
    plb_arena *arena = r->n->scope->b->arena;
    t->index = plb_arena_alloc(arena, (size_t)(out * t->n + 1) * sizeof *t->index);
    t->weight = plb_arena_alloc(arena, (size_t)(out * t->n + 1) * sizeof *t->weight);
    if (!t->index || !t->weight) return plb_fail(PLB_ENOMEM, "out of memory for weights");
    for (int64_t i = 0; i < out; i++) fill_taps(r, axis, in, i, t);
    return PLB_OK;
}

// The k-th of every t->n elements.
static const void *column(const resize *r, const taps *t, int64_t out, int k, bool weights) {
    void *to = plb_arena_alloc(r->n->scope->b->arena, (size_t)(out + 1) * 8);
    for (int64_t i = 0; i < out && to; i++) {
        if (weights)
            ((double *)to)[i] = t->weight[i * t->n + k];
        else
            ((int64_t *)to)[i] = t->index[i * t->n + k];
    }
    return to;
}

static plb_status resize_axis(const resize *r, plb_value *x, int axis) {
    plb_graph *g = r->n->graph;
    plb_type type = plb_value_type(g, *x);
    int64_t out = r->extent[axis];
    taps t = {0};
    PLB_TRY(make_taps(r, axis, type.shape.dim[axis], &t));
    plb_value sum = PLB_NONE;
    plb_shape line = {.rank = type.shape.rank};
    for (int i = 0; i < line.rank; i++) line.dim[i] = i == axis ? out : 1;
    for (int k = 0; k < t.n; k++) {
        const int64_t *index = column(r, &t, out, k, false);
        const double *weight = column(r, &t, out, k, true);
        if (!index || !weight) return plb_fail(PLB_ENOMEM, "out of memory for weights");
        plb_value part = plb_take(g, *x, plb_onnx_i64(g, index, out), axis);
        if (r->mode != RESIZE_NEAREST) {
            part = plb_mul(g, part, plb_onnx_f64(g, type.dtype, &line, weight));
        }
        sum = sum == PLB_NONE ? part : plb_add(g, sum, part);
    }
    *x = sum;
    return plb_graph_status(g);
}

// What lies outside of x when cropping takes one value.
static plb_value extrapolate(const resize *r, plb_value y, int axis, int64_t in) {
    plb_graph *g = r->n->graph;
    plb_type type = plb_value_type(g, y);
    int64_t out = r->extent[axis];
    uint8_t *outside = plb_arena_alloc(r->n->scope->b->arena, (size_t)out + 1);
    if (!outside) return plb_graph_fail(g, plb_fail(PLB_ENOMEM, "out of memory"));
    for (int64_t i = 0; i < out; i++) {
        double x = coordinate(r, axis, in, i);
        outside[i] = x < 0 || x > (double)(in - 1);
    }
    plb_shape line = {.rank = type.shape.rank};
    for (int i = 0; i < line.rank; i++) line.dim[i] = i == axis ? out : 1;
    plb_value mask = plb_constant(g, PLB_BOOL, &line, outside);
    return plb_where(g, mask, plb_scalar(g, type.dtype, r->extrapolation), y);
}

// ---------------------------------------------------------------------------- arguments
static plb_status numbers(const plb_onnx_node *n, int i, double *out, int *count) {
    plb_tensor t;
    *count = 0;
    if (!plb_onnx_given_in(n, i)) return PLB_OK;
    PLB_TRY(plb_onnx_known(n, i, &t));
    int64_t found = plb_shape_count(&t.shape);
    if (found > 2 * PLB_MAX_RANK) return plb_fail(PLB_EINVAL, "input %d: too many numbers", i);
    for (int64_t k = 0; k < found; k++) out[k] = plb_load_f64(t.data, t.dtype, k);
    *count = (int)found;
    return PLB_OK;
}

static plb_status read_extents(resize *r, const plb_shape *x, const int *axes, int n_axes) {
    plb_onnx_node *n = r->n;
    double scales[2 * PLB_MAX_RANK], sizes[2 * PLB_MAX_RANK];
    int n_scales = 0, n_sizes = 0;
    const Onnx__AttributeProto *a =
        plb_onnx_typed(n, "scales", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS);
    if (a) { // Upsample 7
        for (size_t i = 0; i < a->n_floats && i < PLB_MAX_RANK; i++)
            scales[i] = (double)a->floats[i];
        n_scales = (int)a->n_floats;
    } else {
        PLB_TRY(
            numbers(n, n->opset < 11 || strcmp(n->op, "Upsample") == 0 ? 1 : 2, scales, &n_scales));
        if (n->opset >= 11) PLB_TRY(numbers(n, 3, sizes, &n_sizes));
    }
    bool by_size = n_sizes > 0;
    if ((by_size ? n_sizes : n_scales) != n_axes) {
        return plb_fail(PLB_EINVAL, "%d scales and %d sizes of %d axes", n_scales, n_sizes, n_axes);
    }
    bool larger = plb_onnx_is(n, "keep_aspect_ratio_policy", "stretch", "not_larger");
    bool smaller = plb_onnx_is(n, "keep_aspect_ratio_policy", "stretch", "not_smaller");
    double common = larger ? INFINITY : 0;
    for (int i = 0; i < n_axes && by_size; i++) {
        double s = sizes[i] / (double)x->dim[axes[i]];
        common = larger ? fmin(common, s) : fmax(common, s);
    }
    for (int i = 0; i < n_axes; i++) {
        int axis = axes[i];
        double in = (double)x->dim[axis];
        r->scale[axis] = !by_size ? scales[i] : larger || smaller ? common : sizes[i] / in;
        double span = r->crops && !by_size ? r->end[axis] - r->begin[axis] : 1;
        double out = by_size && !larger && !smaller ? sizes[i]
                     : by_size                      ? floor(common * in + 0.5)
                                                    : floor(in * span * scales[i]);
        if (!by_size && !(scales[i] > 0)) return plb_fail(PLB_EINVAL, "a scale of %g", scales[i]);
        if (!(out >= 0 && out < 1e9)) return plb_fail(PLB_EINVAL, "an extent of %g", out);
        r->extent[axis] = (int64_t)out;
    }
    return PLB_OK;
}

static plb_status read_crop(resize *r, const int *axes, int n_axes) {
    double roi[2 * PLB_MAX_RANK];
    int count;
    r->crops =
        plb_onnx_is(r->n, "coordinate_transformation_mode", "half_pixel", "tf_crop_and_resize");
    if (!r->crops) return PLB_OK;
    PLB_TRY(numbers(r->n, 1, roi, &count));
    if (count != 2 * n_axes) return plb_fail(PLB_EINVAL, "a region of %d numbers", count);
    for (int i = 0; i < n_axes; i++) {
        r->begin[axes[i]] = roi[i];
        r->end[axes[i]] = roi[n_axes + i];
    }
    return PLB_OK;
}

plb_status plb_onnx_map_resize(plb_onnx_node *n) {
    plb_shape x = plb_onnx_type(n, 0).shape;
    resize r = {.n = n,
                .antialias = plb_onnx_int(n, "antialias", 0) != 0,
                .exclude_outside = plb_onnx_int(n, "exclude_outside", 0) != 0,
                .cubic = plb_onnx_float(n, "cubic_coeff_a", -0.75),
                .extrapolation = plb_onnx_float(n, "extrapolation_value", 0)};
    if (plb_onnx_is(n, "mode", "nearest", "linear") ||
        plb_onnx_is(n, "mode", "nearest", "bilinear"))
        r.mode = RESIZE_LINEAR;
    if (plb_onnx_is(n, "mode", "nearest", "cubic")) r.mode = RESIZE_CUBIC;
    int64_t list[PLB_MAX_RANK];
    int axes[PLB_MAX_RANK], n_axes;
    PLB_TRY(plb_onnx_ints(n, "axes", list, PLB_MAX_RANK, &n_axes));
    for (int i = 0; i < n_axes; i++) PLB_TRY(plb_onnx_axis(list[i], x.rank, &axes[i]));
    if (!n_axes) {
        n_axes = x.rank;
        for (int i = 0; i < n_axes; i++) axes[i] = i;
    }
    for (int i = 0; i < x.rank; i++) r.extent[i] = x.dim[i], r.scale[i] = 1, r.end[i] = 1;
    PLB_TRY(read_crop(&r, axes, n_axes));
    PLB_TRY(read_extents(&r, &x, axes, n_axes));
    plb_value y = n->in[0];
    for (int i = 0; i < n_axes; i++) {
        int axis = axes[i];
        bool same = r.extent[axis] == x.dim[axis] && r.scale[axis] == 1 && !r.crops;
        if (!same) PLB_TRY(resize_axis(&r, &y, axis));
    }
    for (int i = 0; i < n_axes && r.crops; i++) y = extrapolate(&r, y, axes[i], x.dim[axes[i]]);
    n->out[0] = y;
    return PLB_OK;
}
