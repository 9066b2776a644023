// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/walk.h"

#include <string.h>

#include "base/core/status.h"

void plb_walk_next(const plb_shape *shape, int64_t *index) {
    for (int i = shape->rank - 1; i >= 0; i--) {
        if (++index[i] < shape->dim[i]) return;
        index[i] = 0;
    }
}

void plb_walk_move(const plb_tensor *to, int64_t i, const plb_tensor *from, int64_t j) {
    const int64_t size = (int64_t)plb_dtype_size(to->dtype);
    memcpy((char *)to->data + i * size, (const char *)from->data + j * size, (size_t)size);
}

void plb_walk_add(const plb_tensor *to, int64_t i, const plb_tensor *from, int64_t j) {
    if (plb_dtype_is_float(to->dtype)) {
        double sum =
            plb_load_f64(to->data, to->dtype, i) + plb_load_f64(from->data, from->dtype, j);
        plb_store_f64(to->data, to->dtype, i, sum);
    } else {
        int64_t sum =
            plb_load_i64(to->data, to->dtype, i) + plb_load_i64(from->data, from->dtype, j);
        plb_store_i64(to->data, to->dtype, i, sum);
    }
}

void plb_walk_fill(const plb_tensor *to, double value) {
    if (to->layout.kind == PLB_LAYOUT_BLOCKED) {
        memset(to->data, 0, plb_layout_bytes(&to->shape, to->dtype, to->layout));
    }
    int64_t index[PLB_MAX_RANK] = {0}, count = plb_shape_count(&to->shape);
    for (int64_t n = 0; n < count; n++, plb_walk_next(&to->shape, index)) {
        plb_store_f64(to->data, to->dtype, plb_tensor_offset(to, index), value);
    }
}

plb_status plb_walk_gather(const plb_call *call, plb_walk_map map, double fill) {
    const plb_tensor *x = &call->in[0], *y = &call->out[0];
    plb_walk_fill(y, fill);
    int64_t to[PLB_MAX_RANK] = {0}, from[PLB_MAX_RANK] = {0}, count = plb_shape_count(&y->shape);
    for (int64_t n = 0; n < count; n++, plb_walk_next(&y->shape, to)) {
        if (!map(call, to, from)) continue;
        plb_walk_move(y, plb_tensor_offset(y, to), x, plb_tensor_offset(x, from));
    }
    return PLB_OK;
}

plb_status plb_walk_scatter(const plb_call *call, plb_walk_map map) {
    const plb_tensor *dy = &call->in[0], *dx = &call->out[0];
    plb_walk_fill(dx, 0);
    int64_t from[PLB_MAX_RANK] = {0}, to[PLB_MAX_RANK] = {0}, count = plb_shape_count(&dy->shape);
    for (int64_t n = 0; n < count; n++, plb_walk_next(&dy->shape, from)) {
        if (!map(call, from, to)) continue;
        plb_walk_add(dx, plb_tensor_offset(dx, to), dy, plb_tensor_offset(dy, from));
    }
    return PLB_OK;
}

// A blocked tensor has plain strides when its spatial extents are all 1, so that one block follows
// the other without anything between: [N,C,1,1] behind a global pool.
bool plb_view_strided(const plb_tensor *in, plb_tensor *out) {
    plb_tensor view = *in;
    view.layout = (plb_layout){PLB_LAYOUT_PLAIN, 0};
    if (in->layout.kind == PLB_LAYOUT_BLOCKED) {
        int64_t channels = in->shape.dim[1];
        if (channels > in->layout.block && in->stride[1] != in->layout.block) return false;
        view.stride[1] = 1;
    }
    *out = view;
    return true;
}

void plb_view_shift(plb_tensor *tensor, int64_t elements) {
    if (!tensor->data) return;
    tensor->data = (char *)tensor->data + elements * (int64_t)plb_dtype_size(tensor->dtype);
}

plb_status plb_axis_check(const char *op, int64_t axis, int rank) {
    if (axis >= 0 && axis < rank) return PLB_OK;
    return plb_fail(PLB_EINVAL, "%s: axis %lld of a value of rank %d", op, (long long)axis, rank);
}

int plb_axis_of(plb_graph *graph, const char *op, int64_t axis, int rank) {
    int64_t resolved = axis < 0 ? axis + rank : axis;
    if (resolved >= 0 && resolved < rank) return (int)resolved;
    plb_graph_fail(graph, plb_axis_check(op, axis < 0 ? axis : resolved, rank));
    return -1;
}

void plb_describe_list(plb_strbuf *text, const char *name, const int64_t *values, int n) {
    plb_strbuf_printf(text, "\"%s\":[", name);
    for (int i = 0; i < n; i++) {
        plb_strbuf_printf(text, "%s%lld", i ? "," : "", (long long)values[i]);
    }
    plb_strbuf_printf(text, "]");
}

double plb_no_flops(const plb_signature *s) {
    (void)s;
    return 0;
}
