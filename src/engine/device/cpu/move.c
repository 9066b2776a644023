// SPDX-License-Identifier: Apache-2.0
// One kernel for the ops that only move elements: each is a view of its input or of its output,
// and one or several strided copies.
#include <string.h>

#include "base/core/status.h"
#include "engine/device/cpu/copy.h"
#include "engine/device/cpu/cpu.h"
#include "engine/device/move_views.h"
#include "engine/ops/slice.h"
#include "engine/ops/walk.h"
#include "plumb/ops.h"

// ---------------------------------------------------------------------------- views
// [N, C, spatial…] of a blocked tensor as [N, blocks, spatial…, channels of a block]; `tail`: the
// block that is not full.
static plb_tensor block_view(const plb_tensor *t, bool tail) {
    const int64_t block = t->layout.block, full = t->shape.dim[1] / block;
    plb_tensor view = plb_shifted(t, tail ? full * t->stride[1] : 0);
    view.layout = (plb_layout){0};
    view.shape.dim[1] = tail ? 1 : full;
    view.shape.dim[view.shape.rank] = tail ? t->shape.dim[1] % block : block;
    view.stride[view.shape.rank++] = 1;
    return view;
}

// The same channels of a tensor that is not blocked.
static plb_tensor channel_view(const plb_tensor *t, int64_t block, bool tail) {
    const int64_t full = t->shape.dim[1] / block;
    plb_tensor view = plb_shifted(t, tail ? full * block * t->stride[1] : 0);
    view.shape.dim[1] = tail ? 1 : full;
    view.stride[1] = t->stride[1] * block;
    view.shape.dim[view.shape.rank] = tail ? t->shape.dim[1] % block : block;
    view.stride[view.shape.rank++] = t->stride[1];
    return view;
}

// ---------------------------------------------------------------------------- ops
static plb_status run_reorder(const plb_call *call) {
    const plb_tensor *y = &call->out[0], *x = &call->in[0];
    const bool to = y->layout.kind == PLB_LAYOUT_BLOCKED,
               from = x->layout.kind == PLB_LAYOUT_BLOCKED;
    if (!to && !from) {
        plb_copy_strided(y, x, call->threads);
        return PLB_OK;
    }
    const int64_t block = to ? y->layout.block : x->layout.block;
    for (int tail = 0; tail < 2; tail++) {
        plb_tensor a = to ? block_view(y, tail) : channel_view(y, block, tail);
        plb_tensor b = from ? block_view(x, tail) : channel_view(x, block, tail);
        plb_copy_strided(&a, &b, call->threads);
    }
    const int64_t rest = y->shape.dim[1] % block;
    if (to && rest) { // the padding is zero
        plb_tensor a = block_view(y, true);
        a = plb_shifted(&a, rest);
        a.shape.dim[a.shape.rank - 1] = block - rest;
        plb_fill_strided(&a, &(int64_t){0}, call->threads);
    }
    return PLB_OK;
}

static plb_status run_concat(const plb_call *call) {
    const int64_t axis = ((const plb_axis_attrs *)call->attrs)->axis;
    int64_t begin = 0;
    for (int part = 0; part < call->n_in; part++) {
        const plb_tensor *x = &call->in[part];
        plb_tensor y = plb_shifted(&call->out[0], begin * call->out[0].stride[axis]);
        y.shape = x->shape;
        plb_copy_strided(&y, x, call->threads);
        begin += x->shape.dim[axis];
    }
    return PLB_OK;
}

static plb_status run_slice_grad(const plb_call *call) {
    const plb_tensor *dx = &call->out[0], *dy = &call->in[0];
    plb_fill_strided(dx, &(int64_t){0}, call->threads);
    if (plb_shape_count(&dy->shape) == 0) return PLB_OK;
    plb_tensor place = plb_sliced(call->attrs, dx, &dy->shape);
    plb_copy_strided(&place, dy, call->threads);
    return PLB_OK;
}

// What lies outside the copied box, axis by axis: before and after it, as wide as the box along
// the axes that are done and as the whole along those to come.
static void fill_around(const plb_tensor *y, const int64_t *begin, const plb_shape *box,
                        const void *element, int threads) {
    plb_tensor rest = *y;
    for (int i = 0; i < y->shape.rank; i++) {
        plb_tensor side = rest;
        const int64_t end = begin[i] + box->dim[i];
        side.shape.dim[i] = begin[i];
        plb_fill_strided(&side, element, threads);
        side = plb_shifted(&rest, end * y->stride[i]);
        side.shape.dim[i] = y->shape.dim[i] - end;
        plb_fill_strided(&side, element, threads);
        rest = plb_shifted(&rest, begin[i] * y->stride[i]);
        rest.shape.dim[i] = box->dim[i];
    }
}

static plb_status run_pad(const plb_call *call) {
    const plb_pad_attrs *a = call->attrs;
    plb_tensor from = call->in[0], to = call->out[0];
    const plb_tensor whole = to;
    int64_t value = 0, begin[PLB_MAX_RANK] = {0};
    plb_store_f64(&value, to.dtype, 0, a->value);
    if (plb_shape_count(&to.shape) == 0) return PLB_OK;
    plb_pad_box(a, &from, &to, begin);
    plb_copy_strided(&to, &from, call->threads);
    fill_around(&whole, begin, &to.shape, &value, call->threads);
    return PLB_OK;
}

// y is plain and dense, so that x's extents describe it as well.
static plb_status run_reshape(const plb_call *call) {
    const plb_tensor *x = &call->in[0];
    plb_tensor y = plb_tensor_dense(call->out[0].data, x->dtype, &x->shape, (plb_layout){0});
    plb_copy_strided(&y, x, call->threads);
    return PLB_OK;
}

// slice, permute, expand and flip say themselves which view of the input they are.
static plb_status run_view(const plb_call *call, plb_op_id op) {
    plb_tensor view;
    if (!plb_op_of(op)->view(call->attrs, &call->in[0], &view)) {
        return plb_fail(PLB_EUNSUPPORTED, "%s: no view of its input", plb_op_of(op)->name);
    }
    plb_copy_strided(&call->out[0], &view, call->threads);
    return PLB_OK;
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const plb_op_id op = (plb_op_id)(uintptr_t)state;
    switch (op) {
    case PLB_OP_reorder: return run_reorder(call);
    case PLB_OP_concat: return run_concat(call);
    case PLB_OP_slice_grad: return run_slice_grad(call);
    case PLB_OP_pad: return run_pad(call);
    case PLB_OP_reshape: return run_reshape(call);
    default: return run_view(call, op);
    }
}

// ---------------------------------------------------------------------------- the kernel
static const char *refuse_reorder(const plb_query *q) {
    const plb_layout x = q->in[0].layout, y = q->out[0].layout;
    if (x.kind != PLB_LAYOUT_BLOCKED && y.kind != PLB_LAYOUT_BLOCKED) return NULL;
    if (q->out[0].shape.rank >= PLB_MAX_RANK) return "too many axes for a blocked layout";
    if (x.kind == y.kind && x.block != y.block) return "from one block size to another";
    return NULL;
}

static const char *refuse(const plb_query *q) {
    if (q->op == PLB_OP_reorder) return refuse_reorder(q);
    if (q->out[0].layout.kind == PLB_LAYOUT_BLOCKED) return "no blocked layouts";
    for (int k = 0; k < q->n_in; k++) {
        if (q->in[k].layout.kind == PLB_LAYOUT_BLOCKED) return "no blocked layouts";
    }
    if (q->op == PLB_OP_pad && ((const plb_pad_attrs *)q->attrs)->mode != PLB_PAD_CONSTANT) {
        return "constant padding only";
    }
    bool dense = q->op != PLB_OP_reshape ||
                 (q->out[0].layout.kind == PLB_LAYOUT_PLAIN && plb_tensor_is_dense(&q->out[0]));
    return dense ? NULL : "a plain result only";
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "copy has one variant, found %s", choice);
    *out = (plb_launch){.state = (void *)(uintptr_t)q->op, .run = run};
    out->bytes =
        2 * (double)plb_shape_count(&q->out[0].shape) * (double)plb_dtype_size(q->out[0].dtype);
    return PLB_OK;
}

const plb_kernel plb_cpu_move = {
    .name = "copy", .op = PLB_OP_reorder, .refuse = refuse, .prepare = prepare};
