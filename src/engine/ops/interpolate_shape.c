// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/interpolate_shape.h"

#include <math.h>

#include "base/core/status.h"

// Coordinates are computed in the type that PyTorch computes them in.
static double rounded(plb_dtype dtype, double value) {
    return dtype == PLB_F64 ? value : (double)(float)value;
}

// Elements of x for one of y.
static double step_of(const plb_interpolate_attrs *attrs, plb_dtype dtype, int axis,
                      int64_t in_extent, int64_t out_extent) {
    bool corners = attrs->align_corners && attrs->mode != PLB_NEAREST;
    if (corners) {
        if (out_extent <= 1) return 0;
        return rounded(dtype, (double)(in_extent - 1) / (double)(out_extent - 1));
    }
    if (attrs->scale[axis] > 0) return rounded(dtype, 1 / attrs->scale[axis]);
    return rounded(dtype, (double)in_extent / (double)out_extent);
}

static int64_t clamped(int64_t index, int64_t extent) {
    return index < 0 ? 0 : index >= extent ? extent - 1 : index;
}

// Keys: "Cubic convolution interpolation for digital image processing", 1981, with a = -0.75.
static void cubic_weights(plb_dtype dtype, double t, double *weight) {
    const double a = -0.75;
    for (int i = 0; i < PLB_MAX_TAPS; i++) {
        double x = fabs(t + 1 - i); // distance to tap i
        double near = ((a + 2) * x - (a + 3)) * x * x + 1;
        double far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
        weight[i] = rounded(dtype, x <= 1 ? near : far);
    }
}

void plb_interpolate_taps(const plb_interpolate_attrs *attrs, plb_dtype dtype, int axis,
                          int64_t in_extent, int64_t out_extent, int64_t out, plb_taps *taps) {
    double step = step_of(attrs, dtype, axis, in_extent, out_extent);
    if (attrs->mode == PLB_NEAREST) {
        int64_t at = (int64_t)floorf((float)rounded(dtype, (double)out * step));
        *taps = (plb_taps){.count = 1, .index = {clamped(at, in_extent)}, .weight = {1}};
        return;
    }
    bool cubic = attrs->mode == PLB_CUBIC;
    if (in_extent == out_extent && !cubic) {
        *taps = (plb_taps){.count = 2, .index = {out, out}, .weight = {1, 0}};
        return;
    }
    double at = rounded(dtype, step * (double)out);
    if (!attrs->align_corners) {
        at = rounded(dtype, rounded(dtype, step * ((double)out + 0.5)) - 0.5);
        if (at < 0 && !cubic) at = 0;
    }
    int64_t first = (int64_t)floor(at);
    if (first > in_extent - 1) first = in_extent - 1;
    double t = rounded(dtype, at - (double)first);
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    if (cubic) {
        taps->count = 4;
        for (int i = 0; i < 4; i++) taps->index[i] = clamped(first - 1 + i, in_extent);
        cubic_weights(dtype, t, taps->weight);
    } else {
        *taps = (plb_taps){.count = 2,
                           .index = {first, clamped(first + 1, in_extent)},
                           .weight = {rounded(dtype, 1 - t), t}};
    }
}

void plb_interpolate_all_taps(const plb_interpolate_attrs *attrs, const plb_type *type,
                              const int64_t *in, const int64_t *extent, const int64_t *out,
                              plb_taps taps[PLB_MAX_SPATIAL]) {
    const int first = PLB_MAX_SPATIAL - (type->shape.rank - 2);
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        taps[i] = (plb_taps){.count = 1, .weight = {1}};
        if (i < first) continue;
        plb_interpolate_taps(attrs, type->dtype, i - first, in[i], extent[i], out[i], &taps[i]);
    }
}

plb_value plb_interpolate_back(plb_graph *graph, int node, plb_op_id op, plb_value dout) {
    plb_interpolate_attrs attrs = *(const plb_interpolate_attrs *)plb_node_attrs(graph, node);
    const plb_shape shape = plb_value_shape(graph, plb_node_in(graph, node, 0));
    for (int i = 2; i < shape.rank; i++) attrs.extent[i - 2] = shape.dim[i];
    return plb_emit(graph, op, &dout, 1, &attrs);
}

plb_status plb_interpolate_infer(plb_signature *s, const char *op) {
    const plb_interpolate_attrs *attrs = s->attrs;
    const plb_shape *in = &s->in[0].shape;
    PLB_TRY(plb_expect_floats(s, op, 0, 0));
    PLB_TRY(plb_expect_spatial(&s->in[0], op));
    if (attrs->mode < PLB_NEAREST || attrs->mode > PLB_CUBIC) {
        return plb_fail(PLB_EINVAL, "%s: there is no mode %lld", op, (long long)attrs->mode);
    }
    if (attrs->mode == PLB_CUBIC && in->rank != 4) {
        return plb_fail(PLB_EUNSUPPORTED, "%s: cubic: expected 2 spatial axes, found %d", op,
                        in->rank - 2);
    }
    s->out[0] = s->in[0];
    for (int i = 2; i < in->rank; i++) {
        s->out[0].shape.dim[i] = attrs->extent[i - 2];
        if (attrs->extent[i - 2] >= 1 && in->dim[i] >= 1) continue;
        return plb_fail(PLB_EINVAL, "%s: axis %d: from extent %lld to %lld", op, i - 2,
                        (long long)in->dim[i], (long long)attrs->extent[i - 2]);
    }
    return PLB_OK;
}

double plb_interpolate_flops(const plb_interpolate_attrs *attrs, const plb_shape *y) {
    if (attrs->mode == PLB_NEAREST) return 0;
    double flops = 2.0 * (double)plb_shape_count(y);
    for (int i = 2; i < y->rank; i++) flops *= attrs->mode == PLB_CUBIC ? 4 : 2;
    return flops;
}

void plb_interpolate_describe(const void *attrs, plb_strbuf *text) {
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    const plb_interpolate_attrs *a = attrs;
    bool known = a->mode >= PLB_NEAREST && a->mode <= PLB_CUBIC;
    int axes = 0;
    while (axes < PLB_MAX_SPATIAL && a->extent[axes]) axes++;
    plb_describe_comma(text);
    plb_strbuf_printf(text, "\"mode\":\"%s\"", known ? modes[a->mode] : "unknown");
    plb_describe_number(text, "align_corners", a->align_corners != 0);
    plb_describe_axes(text, "extent", a->extent, axes);
    plb_strbuf_printf(text, ",\"scale\":[");
    for (int i = 0; i < axes; i++) plb_strbuf_printf(text, "%s%.17g", i ? "," : "", a->scale[i]);
    plb_strbuf_printf(text, "]");
}
