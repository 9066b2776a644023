// SPDX-License-Identifier: Apache-2.0
// pad_grad, of the modes that repeat elements. (pad itself is a move.)
#include "engine/device/cuda/kernels/pad.h"

#include "base/core/status.h"
#include "engine/device/cuda/own.h"
#include "plumb/ops.h"

enum { WAVES = 16 };

_Static_assert((int)PLB_PAD_RANK == (int)PLB_MAX_RANK, "the kernel takes any rank");

static const char *refuse(const plb_query *q) {
    const plb_pad_attrs *attrs = q->attrs;
    if (!plb_dtype_is_float(q->in[0].dtype)) return "floats only";
    if (attrs->mode == PLB_PAD_CONSTANT) return "not of constant padding";
    for (int i = 0; i < q->out[0].shape.rank; i++) {
        if (attrs->before[i] < 0 || attrs->after[i] < 0) return "no padding that cuts off";
    }
    return plb_own_refuse(q);
}

static plb_pad_params params_of(const plb_query *q) {
    const plb_pad_attrs *attrs = q->attrs;
    const plb_tensor *dy = &q->in[0], *dx = &q->out[0];
    plb_pad_params p = {.count = plb_shape_count(&dx->shape),
                        .rank = dx->shape.rank,
                        .edge = attrs->mode == PLB_PAD_EDGE};
    for (int i = 0; i < p.rank; i++) {
        p.dim[i] = dx->shape.dim[i];
        p.before[i] = attrs->before[i], p.after[i] = attrs->after[i];
        p.from[i] = dy->stride[i], p.to[i] = dx->stride[i];
    }
    return p;
}

static plb_status add_step(const plb_query *q, plb_own *own, int64_t count) {
    const plb_cuda_grid grid = {
        .blocks = {plb_cuda_blocks(q->device, count, PLB_PAD_THREADS, WAVES)},
        .threads = {PLB_PAD_THREADS}};
    if (count == 0) return PLB_OK;
    return plb_own_add(own, &own->any, "pad_grad", q->in[0].dtype, grid);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    const plb_pad_params p = params_of(q);
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    out->flops = (double)plb_shape_count(&q->in[0].shape);
    return plb_own_end(out, add_step(q, own, p.count));
}

const plb_kernel plb_cuda_kernel_pad = {
    .name = "sums", .op = PLB_OP_pad_grad, .refuse = refuse, .prepare = prepare};
