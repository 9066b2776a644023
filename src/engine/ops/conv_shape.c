// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/conv_shape.h"

#include "base/core/status.h"
#include "engine/ops/window.h"

static int64_t or_one(int64_t value) {
    return value ? value : 1;
}

plb_status plb_conv_check_axis(const plb_conv_attrs *attrs, const char *op, int axis) {
    const int64_t stride = or_one(attrs->stride[axis]), dilation = or_one(attrs->dilation[axis]);
    const int64_t most = PLB_WINDOW_MOST;
    PLB_TRY(plb_window_expect(op, axis, "a stride", stride, 1, most));
    PLB_TRY(plb_window_expect(op, axis, "a dilation", dilation, 1, most));
    PLB_TRY(plb_window_expect(op, axis, "padding", attrs->pad_begin[axis], 0, most));
    return plb_window_expect(op, axis, "padding", attrs->pad_end[axis], 0, most);
}

static plb_status spatial_attrs(const plb_conv_attrs *attrs, const char *op, plb_conv_shape *s) {
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        int axis = i - (PLB_MAX_SPATIAL - s->axes);
        bool given = axis >= 0;
        s->stride[i] = given ? or_one(attrs->stride[axis]) : 1;
        s->dilation[i] = given ? or_one(attrs->dilation[axis]) : 1;
        s->pad[i] = given ? attrs->pad_begin[axis] : 0;
        s->pad_end[i] = given ? attrs->pad_end[axis] : 0;
        if (given) PLB_TRY(plb_conv_check_axis(attrs, op, axis));
    }
    s->groups = or_one(attrs->groups);
    if (s->groups < 1) {
        return plb_fail(PLB_EINVAL, "%s: expected 1 group or more, found %lld", op,
                        (long long)s->groups);
    }
    return PLB_OK;
}

// Extents of y that these extents of x and w give.
static plb_status out_extents(const plb_conv_shape *s, const char *op, int64_t *out) {
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        int64_t padded = s->in[i] + s->pad[i] + s->pad_end[i];
        int64_t reach = plb_window_reach(s->kernel[i], s->dilation[i]);
        if (s->in[i] < 1 || s->kernel[i] < 1 || padded < reach) {
            return plb_fail(PLB_EINVAL,
                            "%s: axis %d: a kernel that reaches over %lld does not fit into the "
                            "padded extent %lld",
                            op, i - (PLB_MAX_SPATIAL - s->axes), (long long)reach,
                            (long long)padded);
        }
        out[i] = (padded - reach) / s->stride[i] + 1;
    }
    return PLB_OK;
}

static plb_status check_channels(const plb_conv_shape *s, const char *op, int64_t c_of_w) {
    const bool divides = s->c > 0 && s->k > 0 && s->k % s->groups == 0; // so groups are few
    if (divides && s->c == c_of_w * s->groups) return PLB_OK;
    return plb_fail(PLB_EINVAL,
                    "%s: x with %lld channels, w with %lld times %lld and %lld groups do not fit",
                    op, (long long)s->c, (long long)s->k, (long long)c_of_w, (long long)s->groups);
}

static plb_status given_extents(const plb_conv_attrs *attrs, int axes, const char *op,
                                int64_t *out) {
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        int axis = i - (PLB_MAX_SPATIAL - axes);
        out[i] = axis < 0 ? 1 : attrs->extent[axis];
        PLB_TRY(plb_window_expect(op, axis, "an extent", out[i], 1, PLB_WINDOW_EXTENT_MOST));
    }
    return PLB_OK;
}

// For the gradients: y must be what the forward convolution would have made.
static plb_status check_out(const plb_conv_shape *s, const char *op) {
    int64_t expected[PLB_MAX_SPATIAL];
    PLB_TRY(out_extents(s, op, expected));
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        if (s->out[i] == expected[i]) continue;
        return plb_fail(PLB_EINVAL, "%s: axis %d of dy: expected extent %lld, found %lld", op,
                        i - (PLB_MAX_SPATIAL - s->axes), (long long)expected[i],
                        (long long)s->out[i]);
    }
    return PLB_OK;
}

static plb_status shape_of_conv(const plb_shape *x, const plb_shape *w, const plb_conv_attrs *attrs,
                                plb_conv_shape *s) {
    (void)attrs;
    s->n = x->dim[0], s->c = x->dim[1], s->k = w->dim[0];
    plb_spatial_extents(x, s->in);
    plb_spatial_extents(w, s->kernel);
    PLB_TRY(check_channels(s, "conv", w->dim[1]));
    return out_extents(s, "conv", s->out);
}

static plb_status shape_of_input_grad(const plb_shape *dy, const plb_shape *w,
                                      const plb_conv_attrs *attrs, plb_conv_shape *s) {
    s->n = dy->dim[0], s->k = w->dim[0];
    s->c = s->groups <= s->k ? w->dim[1] * s->groups : 0; // more do not divide k
    PLB_TRY(given_extents(attrs, s->axes, "conv_input_grad", s->in));
    plb_spatial_extents(w, s->kernel);
    plb_spatial_extents(dy, s->out);
    PLB_TRY(check_channels(s, "conv_input_grad", w->dim[1]));
    if (dy->dim[1] != s->k) {
        return plb_fail(PLB_EINVAL, "conv_input_grad: dy has %lld channels, w %lld outputs",
                        (long long)dy->dim[1], (long long)s->k);
    }
    return check_out(s, "conv_input_grad");
}

static plb_status shape_of_weight_grad(const plb_shape *x, const plb_shape *dy,
                                       const plb_conv_attrs *attrs, plb_conv_shape *s) {
    s->n = x->dim[0], s->c = x->dim[1], s->k = dy->dim[1];
    plb_spatial_extents(x, s->in);
    PLB_TRY(given_extents(attrs, s->axes, "conv_weight_grad", s->kernel));
    plb_spatial_extents(dy, s->out);
    PLB_TRY(check_channels(s, "conv_weight_grad", s->c / s->groups));
    if (dy->dim[0] != s->n) {
        return plb_fail(PLB_EINVAL, "conv_weight_grad: dy has batch %lld, x %lld",
                        (long long)dy->dim[0], (long long)s->n);
    }
    return check_out(s, "conv_weight_grad");
}

plb_status plb_conv_shape_of(plb_op_id op, const plb_shape *first, const plb_shape *second,
                             const plb_conv_attrs *attrs, plb_conv_shape *out) {
    const char *name = plb_op_of(op)->name;
    int axes = first->rank - 2;
    if (axes < 1 || axes > PLB_MAX_SPATIAL || second->rank != first->rank) {
        char a[160], b[160];
        return plb_fail(PLB_EINVAL,
                        "%s: expected two values of one rank with 1 to %d spatial axes, found "
                        "%s and %s",
                        name, PLB_MAX_SPATIAL, plb_shape_format(first, a, sizeof a),
                        plb_shape_format(second, b, sizeof b));
    }
    *out = (plb_conv_shape){.axes = axes};
    PLB_TRY(spatial_attrs(attrs, name, out));
    switch (op) {
    case PLB_OP_conv: return shape_of_conv(first, second, attrs, out);
    case PLB_OP_conv_input_grad: return shape_of_input_grad(first, second, attrs, out);
    case PLB_OP_conv_weight_grad: return shape_of_weight_grad(first, second, attrs, out);
    default: return plb_fail(PLB_EBROKEN, "%s is no convolution", name);
    }
}

static plb_shape shape_with(int axes, int64_t a, int64_t b, const int64_t *extents) {
    plb_shape shape = {.rank = 2 + axes, .dim = {a, b}};
    for (int i = 0; i < axes; i++) shape.dim[2 + i] = extents[PLB_MAX_SPATIAL - axes + i];
    return shape;
}

plb_shape plb_conv_x_shape(const plb_conv_shape *s) {
    return shape_with(s->axes, s->n, s->c, s->in);
}

plb_shape plb_conv_w_shape(const plb_conv_shape *s) {
    return shape_with(s->axes, s->k, s->c / s->groups, s->kernel);
}

plb_shape plb_conv_y_shape(const plb_conv_shape *s) {
    return shape_with(s->axes, s->n, s->k, s->out);
}

double plb_conv_flops(const plb_conv_shape *s) {
    double flops = 2.0 * (double)s->n * (double)s->k * (double)(s->c / s->groups);
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) flops *= (double)s->out[i] * (double)s->kernel[i];
    return flops;
}

plb_conv_attrs plb_conv_attrs_final(const plb_conv_attrs *attrs, int axes) {
    plb_conv_attrs a = {.groups = or_one(attrs->groups), .epilogue = attrs->epilogue};
    for (int i = 0; i < axes && i < PLB_MAX_SPATIAL; i++) {
        a.stride[i] = or_one(attrs->stride[i]);
        a.dilation[i] = or_one(attrs->dilation[i]);
        a.pad_begin[i] = attrs->pad_begin[i];
        a.pad_end[i] = attrs->pad_end[i];
        a.extent[i] = attrs->extent[i];
    }
    return a;
}

void plb_conv_describe(const void *attrs, plb_strbuf *text) {
    const plb_conv_attrs *a = attrs;
    int axes = 0;
    while (axes < PLB_MAX_SPATIAL && a->stride[axes]) axes++;
    plb_describe_axes(text, "stride", a->stride, axes);
    plb_describe_axes(text, "pad_begin", a->pad_begin, axes);
    plb_describe_axes(text, "pad_end", a->pad_end, axes);
    plb_describe_axes(text, "dilation", a->dilation, axes);
    plb_describe_number(text, "groups", (double)or_one(a->groups));
    if (a->extent[0]) plb_describe_axes(text, "extent", a->extent, axes);
    plb_describe_epilogue(text, &a->epilogue);
}
