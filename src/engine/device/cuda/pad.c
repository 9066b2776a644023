// SPDX-License-Identifier: Apache-2.0
// pad and its gradient, of the modes that repeat elements. (With a constant it is a move.)
#include "engine/device/cuda/kernels/pad.h"

#include <stdio.h>

#include "base/core/status.h"
#include "engine/device/cuda/own.h"
#include "plumb/ops.h"

enum { WAVES = 16 };

_Static_assert((int)PLB_PAD_RANK == (int)PLB_MAX_RANK, "the kernel takes any rank");

static const char *refuse(const plb_query *q) {
    const plb_pad_attrs *attrs = q->attrs;
    if (attrs->mode == PLB_PAD_CONSTANT) return "padding that repeats elements only";
    for (int i = 0; i < q->out[0].shape.rank; i++) {
        if (attrs->before[i] < 0 || attrs->after[i] < 0) return "no padding that cuts off";
    }
    return plb_own_refuse(q);
}

static plb_pad_params params_of(const plb_query *q) {
    const plb_pad_attrs *attrs = q->attrs;
    const plb_tensor *from = &q->in[0], *to = &q->out[0];
    const plb_shape *bare = q->op == PLB_OP_pad ? &from->shape : &to->shape;
    plb_pad_params p = {.count = plb_shape_count(&to->shape),
                        .rank = to->shape.rank,
                        .edge = attrs->mode == PLB_PAD_EDGE};
    for (int i = 0; i < p.rank; i++) {
        p.dim[i] = bare->dim[i];
        p.before[i] = attrs->before[i], p.after[i] = attrs->after[i];
        p.from[i] = from->stride[i], p.to[i] = to->stride[i];
    }
    return p;
}

static plb_status add_step(const plb_query *q, plb_own *own, int64_t count) {
    const plb_cuda_grid grid = {
        .blocks = {plb_cuda_blocks(q->device, count, PLB_PAD_THREADS, WAVES)},
        .threads = {PLB_PAD_THREADS}};
    char name[16];
    if (count == 0) return PLB_OK;
    if (q->op == PLB_OP_pad_grad) {
        return plb_own_add(own, &own->any, "pad_grad", q->in[0].dtype, grid);
    }
    snprintf(name, sizeof name, "pad_%d", (int)plb_dtype_size(q->in[0].dtype));
    return plb_own_add(own, &own->any, name, PLB_DTYPE_COUNT, grid);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    const plb_pad_params p = params_of(q);
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    if (q->op == PLB_OP_pad_grad) out->flops = (double)plb_shape_count(&q->in[0].shape);
    return plb_own_end(out, add_step(q, own, p.count));
}

const plb_kernel plb_cuda_kernel_pad = {
    .name = "repeats", .op = PLB_OP_pad_grad, .refuse = refuse, .prepare = prepare};
