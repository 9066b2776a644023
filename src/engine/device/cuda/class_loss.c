// SPDX-License-Identifier: Apache-2.0
// cross_entropy, nll and their gradients on plain values. A target that is no class is left out and
// fails the run when somebody waits for the device.
#include "engine/ops/class_loss.h"

#include "base/core/status.h"
#include "engine/device/cuda/kernels/class_loss.h"
#include "engine/device/cuda/own.h"

_Static_assert(PLB_REDUCE_MEAN == 0 && PLB_REDUCE_NONE == 2, "kernels know these numbers");

enum { WAVES = 16 };

static bool is_gradient(plb_op_id op) {
    return op == PLB_OP_cross_entropy_grad || op == PLB_OP_nll_grad;
}

static bool is_cross_entropy(plb_op_id op) {
    return op == PLB_OP_cross_entropy || op == PLB_OP_cross_entropy_grad;
}

static const char *refuse(const plb_query *q) {
    for (int k = 0; k < q->n_in; k++) {
        if (!plb_own_is_plain(&q->in[k])) return "plain only";
    }
    if (!plb_own_is_plain(&q->out[0])) return "plain only";
    return plb_own_refuse(q);
}

static plb_loss_params params_of(const plb_query *q) {
    const plb_loss_attrs *attrs = q->attrs;
    const int target = q->op == PLB_OP_cross_entropy_grad ? 2 : 1;
    const plb_shape *x = q->op == PLB_OP_nll_grad             ? &q->out[0].shape
                         : q->op == PLB_OP_cross_entropy_grad ? &q->in[1].shape
                                                              : &q->in[0].shape;
    plb_loss_params p = {.smoothing = attrs->smoothing,
                         .positions = plb_shape_count(&q->in[target].shape),
                         .ignore_index = attrs->ignore_index,
                         .classes = (int32_t)x->dim[1],
                         .inner = 1,
                         .reduction = (int32_t)attrs->reduction,
                         .op = (int32_t)q->op,
                         .target_at = target};
    for (int i = 2; i < x->rank; i++) p.inner *= (int32_t)x->dim[i];
    return p;
}

static const char *name_of(const plb_query *q, bool warps) {
    switch (q->op) {
    case PLB_OP_cross_entropy: return warps ? "cross_entropy_warps" : "cross_entropy_threads";
    case PLB_OP_cross_entropy_grad:
        return warps ? "cross_entropy_grad_warps" : "cross_entropy_grad_threads";
    case PLB_OP_nll: return "nll";
    default: return "nll_grad";
    }
}

static plb_status add_steps(const plb_query *q, plb_own *own, const plb_loss_params *p) {
    const plb_dtype dtype = q->out[0].dtype;
    const bool grad = is_gradient(q->op), reduced = p->reduction != PLB_REDUCE_NONE;
    const plb_cuda_grid one = {.blocks = {1}, .threads = {PLB_LOSS_SUM_THREADS}};
    if (grad && p->reduction == PLB_REDUCE_MEAN) {
        PLB_TRY(plb_own_add(own, &own->any, "loss_weight", dtype, one));
    }
    const bool warps = p->inner == 1 && is_cross_entropy(q->op);
    const int64_t threads =
        q->op == PLB_OP_nll_grad ? p->positions * p->classes : p->positions * (warps ? 32 : 1);
    const plb_cuda_grid grid = {
        .blocks = {plb_cuda_blocks(q->device, threads, PLB_LOSS_THREADS, WAVES)},
        .threads = {PLB_LOSS_THREADS}};
    if (threads) PLB_TRY(plb_own_add(own, &own->any, name_of(q, warps), dtype, grid));
    return grad || !reduced ? PLB_OK : plb_own_add(own, &own->any, "loss_sum", dtype, one);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    const plb_loss_params p = params_of(q);
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    const bool per_position = !is_gradient(q->op) && p.reduction != PLB_REDUCE_NONE;
    out->workspace_bytes = sizeof(double) * (per_position ? 2 * (size_t)p.positions : 1);
    out->flops = (is_cross_entropy(q->op) ? 4.0 * p.classes : 2) * (double)p.positions;
    return plb_own_end(out, add_steps(q, own, &p));
}

const plb_kernel plb_cuda_kernel_class_loss = {
    .name = "positions", .op = PLB_OP_cross_entropy, .refuse = refuse, .prepare = prepare};
