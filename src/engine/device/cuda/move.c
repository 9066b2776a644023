// SPDX-License-Identifier: Apache-2.0
// One kernel for the ops that only move elements: each is a view of its input or of its output,
// and one or several strided copies and fills.
#include <string.h>

#include "base/core/status.h"
#include "engine/device/cuda/copy.h"
#include "engine/device/move_views.h"
#include "engine/ops/slice.h"
#include "engine/ops/walk.h"
#include "plumb/ops.h"

plb_status plb_cuda_move(plb_stream *stream, const plb_tensor *to, const plb_tensor *from) {
    bool blocked = to->layout.kind == PLB_LAYOUT_BLOCKED || from->layout.kind == PLB_LAYOUT_BLOCKED;
    if (to->dtype != from->dtype || blocked) {
        return plb_fail(PLB_EUNSUPPORTED, "cuda: no copy from %s %s to %s %s",
                        plb_dtype_name(from->dtype), plb_layout_name(from->layout),
                        plb_dtype_name(to->dtype), plb_layout_name(to->layout));
    }
    return plb_cuda_copy_strided(stream, to, from);
}

static plb_status run_concat(const plb_call *call, plb_stream *stream) {
    const int64_t axis = ((const plb_axis_attrs *)call->attrs)->axis;
    int64_t begin = 0;
    for (int part = 0; part < call->n_in; part++) {
        const plb_tensor *x = &call->in[part];
        plb_tensor y = plb_shifted(&call->out[0], begin * call->out[0].stride[axis]);
        y.shape = x->shape;
        PLB_TRY(plb_cuda_copy_strided(stream, &y, x));
        begin += x->shape.dim[axis];
    }
    return PLB_OK;
}

static plb_status run_slice_grad(const plb_call *call, plb_stream *stream) {
    const plb_tensor *dx = &call->out[0], *dy = &call->in[0];
    PLB_TRY(plb_cuda_fill_strided(stream, dx, &(int64_t){0}));
    if (plb_shape_count(&dy->shape) == 0) return PLB_OK;
    plb_tensor place = plb_sliced(call->attrs, dx, &dy->shape);
    return plb_cuda_copy_strided(stream, &place, dy);
}

static plb_status run_pad(const plb_call *call, plb_stream *stream) {
    const plb_pad_attrs *a = call->attrs;
    plb_tensor from = call->in[0], to = call->out[0];
    int64_t value = 0, begin[PLB_MAX_RANK] = {0};
    plb_store_f64(&value, to.dtype, 0, a->value);
    PLB_TRY(plb_cuda_fill_strided(stream, &to, &value));
    plb_pad_box(a, &from, &to, begin);
    return plb_cuda_copy_strided(stream, &to, &from);
}

// y is plain and dense, so that x's extents describe it as well.
static plb_status run_reshape(const plb_call *call, plb_stream *stream) {
    const plb_tensor *x = &call->in[0];
    plb_tensor y = plb_tensor_dense(call->out[0].data, x->dtype, &x->shape, (plb_layout){0});
    return plb_cuda_copy_strided(stream, &y, x);
}

// slice, permute, expand and flip say themselves which view of the input they are.
static plb_status run_view(const plb_call *call, plb_op_id op, plb_stream *stream) {
    plb_tensor view;
    if (!plb_op_of(op)->view(call->attrs, &call->in[0], &view)) {
        return plb_fail(PLB_EUNSUPPORTED, "%s: no view of its input", plb_op_of(op)->name);
    }
    return plb_cuda_copy_strided(stream, &call->out[0], &view);
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    const plb_op_id op = (plb_op_id)(uintptr_t)state;
    switch (op) {
    case PLB_OP_reorder: return plb_cuda_copy_strided(stream, &call->out[0], &call->in[0]);
    case PLB_OP_concat: return run_concat(call, stream);
    case PLB_OP_slice_grad: return run_slice_grad(call, stream);
    case PLB_OP_pad: return run_pad(call, stream);
    case PLB_OP_reshape: return run_reshape(call, stream);
    default: return run_view(call, op, stream);
    }
}

static const char *refuse(const plb_query *q) {
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

const plb_kernel plb_cuda_kernel_move = {
    .name = "copy", .op = PLB_OP_reorder, .refuse = refuse, .prepare = prepare};
