// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/pool_shape.h"

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/ops/window.h"

static plb_status axis_attrs(const plb_pool_attrs *attrs, const char *op, int i,
                             plb_pool_shape *s) {
    int axis = i - (PLB_MAX_SPATIAL - s->axes);
    s->kernel[i] = s->stride[i] = s->dilation[i] = 1;
    if (axis < 0) return PLB_OK;
    s->kernel[i] = attrs->kernel[axis];
    s->stride[i] = attrs->stride[axis] ? attrs->stride[axis] : s->kernel[i];
    s->dilation[i] = attrs->dilation[axis] ? attrs->dilation[axis] : 1;
    s->pad[i] = attrs->pad_begin[axis], s->pad_end[i] = attrs->pad_end[axis];
    PLB_TRY(plb_window_expect(op, axis, "a kernel", s->kernel[i], 1, PLB_WINDOW_MOST));
    PLB_TRY(plb_window_expect(op, axis, "a stride", s->stride[i], 1, PLB_WINDOW_MOST));
    PLB_TRY(plb_window_expect(op, axis, "a dilation", s->dilation[i], 1, PLB_WINDOW_MOST));
    PLB_TRY(plb_window_expect(op, axis, "padding", s->pad[i], 0, PLB_WINDOW_MOST));
    PLB_TRY(plb_window_expect(op, axis, "padding", s->pad_end[i], 0, PLB_WINDOW_MOST));
    int64_t reach = plb_window_reach(s->kernel[i], s->dilation[i]);
    if (s->pad[i] >= reach || s->pad_end[i] >= reach) {
        return plb_fail(PLB_EINVAL,
                        "%s: axis %d: expected padding below the window's reach of %lld, found "
                        "%lld and %lld",
                        op, axis, (long long)reach, (long long)s->pad[i], (long long)s->pad_end[i]);
    }
    return PLB_OK;
}

// With ceil_mode the last window may stick out, but must start inside x or the padding before it.
static plb_status out_extents(const plb_pool_shape *s, bool ceil_mode, const char *op,
                              int64_t *out) {
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        int64_t reach = plb_window_reach(s->kernel[i], s->dilation[i]);
        int64_t room = s->in[i] + s->pad[i] + s->pad_end[i] - reach;
        if (s->in[i] < 1 || (room < 0 && !(ceil_mode && room > -s->stride[i]))) {
            return plb_fail(PLB_EINVAL,
                            "%s: axis %d: a window of %lld does not fit into extent "
                            "%lld with padding %lld and %lld",
                            op, i - (PLB_MAX_SPATIAL - s->axes), (long long)reach,
                            (long long)s->in[i], (long long)s->pad[i], (long long)s->pad_end[i]);
        }
        out[i] = (room + (ceil_mode ? s->stride[i] - 1 : 0)) / s->stride[i] + 1;
        if (ceil_mode && (out[i] - 1) * s->stride[i] >= s->in[i] + s->pad[i]) out[i]--;
    }
    return PLB_OK;
}

static plb_status begin(const plb_shape *first, const plb_pool_attrs *attrs, const char *op,
                        plb_pool_shape *out) {
    PLB_TRY(plb_expect_spatial(&(plb_type){.shape = *first}, op));
    *out = (plb_pool_shape){.axes = first->rank - 2,
                            .n = first->dim[0],
                            .c = first->dim[1],
                            .count_include_pad = attrs->count_include_pad != 0};
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) PLB_TRY(axis_attrs(attrs, op, i, out));
    return PLB_OK;
}

plb_status plb_pool_shape_of(const plb_shape *x, const plb_pool_attrs *attrs, const char *op,
                             plb_pool_shape *out) {
    PLB_TRY(begin(x, attrs, op, out));
    plb_spatial_extents(x, out->in);
    return out_extents(out, attrs->ceil_mode != 0, op, out->out);
}

plb_status plb_pool_shape_of_grad(const plb_shape *dy, const plb_pool_attrs *attrs, const char *op,
                                  plb_pool_shape *out) {
    PLB_TRY(begin(dy, attrs, op, out));
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        int axis = i - (PLB_MAX_SPATIAL - out->axes);
        out->in[i] = axis < 0 ? 1 : attrs->extent[axis];
        PLB_TRY(plb_window_expect(op, axis, "an extent", out->in[i], 1, PLB_WINDOW_EXTENT_MOST));
    }
    int64_t found[PLB_MAX_SPATIAL];
    PLB_TRY(out_extents(out, attrs->ceil_mode != 0, op, out->out));
    plb_spatial_extents(dy, found);
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        if (found[i] == out->out[i]) continue;
        return plb_fail(PLB_EINVAL, "%s: axis %d of dy: expected extent %lld, found %lld", op,
                        i - (PLB_MAX_SPATIAL - out->axes), (long long)out->out[i],
                        (long long)found[i]);
    }
    return PLB_OK;
}

static plb_shape shape_with(const plb_pool_shape *s, const int64_t *extents) {
    plb_shape shape = {.rank = 2 + s->axes, .dim = {s->n, s->c}};
    for (int i = 0; i < s->axes; i++) shape.dim[2 + i] = extents[PLB_MAX_SPATIAL - s->axes + i];
    return shape;
}

plb_shape plb_pool_x_shape(const plb_pool_shape *s) {
    return shape_with(s, s->in);
}

plb_shape plb_pool_y_shape(const plb_pool_shape *s) {
    return shape_with(s, s->out);
}

int64_t plb_pool_divisor(const plb_pool_shape *s, const int64_t *out) {
    int64_t divisor = 1;
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        int64_t first = out[i] * s->stride[i] - s->pad[i], end = first + s->kernel[i];
        int64_t limit = s->in[i] + (s->count_include_pad ? s->pad_end[i] : 0);
        if (end > limit) end = limit;
        if (first < 0 && !s->count_include_pad) first = 0;
        divisor *= end - first;
    }
    return divisor;
}

plb_status plb_pool_spread(const plb_tensor *dx,
                           void (*add)(const void *context, int64_t n, int64_t c, double *plane),
                           const void *context) {
    int64_t extent[PLB_MAX_SPATIAL], count = 1;
    plb_spatial_extents(&dx->shape, extent);
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) count *= extent[i];
    double *plane = plb_alloc_array((size_t)count, sizeof *plane);
    if (!plane) return plb_fail(PLB_ENOMEM, "out of memory for a plane of %lld", (long long)count);
    for (int64_t n = 0; n < dx->shape.dim[0]; n++) {
        for (int64_t c = 0; c < dx->shape.dim[1]; c++) {
            for (int64_t i = 0; i < count; i++) plane[i] = 0;
            add(context, n, c, plane);
            int64_t at[PLB_MAX_SPATIAL] = {0};
            for (int64_t i = 0; i < count; i++) {
                plb_spatial_store(dx, n, c, at, plane[i]);
                plb_index_next(at, extent, PLB_MAX_SPATIAL);
            }
        }
    }
    plb_free(plane);
    return PLB_OK;
}

plb_pool_attrs plb_pool_attrs_final(const plb_pool_attrs *attrs, int axes) {
    plb_pool_attrs a = {.ceil_mode = attrs->ceil_mode != 0,
                        .count_include_pad = attrs->count_include_pad != 0};
    for (int i = 0; i < axes && i < PLB_MAX_SPATIAL; i++) {
        a.kernel[i] = attrs->kernel[i];
        a.stride[i] = attrs->stride[i] ? attrs->stride[i] : attrs->kernel[i];
        a.dilation[i] = attrs->dilation[i] ? attrs->dilation[i] : 1;
        a.pad_begin[i] = attrs->pad_begin[i], a.pad_end[i] = attrs->pad_end[i];
        a.extent[i] = attrs->extent[i];
    }
    return a;
}

// How many leading numbers are set.
static int axes_of(const int64_t *values) {
    int axes = 0;
    while (axes < PLB_MAX_SPATIAL && values[axes]) axes++;
    return axes;
}

void plb_pool_describe(const void *attrs, plb_strbuf *text) {
    const plb_pool_attrs *a = attrs;
    int axes = axes_of(a->kernel);
    plb_describe_axes(text, "kernel", a->kernel, axes);
    plb_describe_axes(text, "stride", a->stride, axes);
    plb_describe_axes(text, "pad_begin", a->pad_begin, axes);
    plb_describe_axes(text, "pad_end", a->pad_end, axes);
    plb_describe_axes(text, "dilation", a->dilation, axes);
    if (axes) plb_describe_number(text, "ceil_mode", a->ceil_mode != 0);
    if (axes) plb_describe_number(text, "count_include_pad", a->count_include_pad != 0);
    plb_describe_axes(text, "extent", a->extent, axes_of(a->extent));
}
