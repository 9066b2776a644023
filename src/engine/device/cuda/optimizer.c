// SPDX-License-Identifier: Apache-2.0
// sgd and adam on plain values.
#include "engine/device/cuda/kernels/optimizer.h"
#include "base/core/status.h"
#include "engine/device/cuda/own.h"
#include "plumb/ops.h"

enum { WAVES = 16, SGD_LR = 3, ADAM_LR = 4, ADAM_STEP = 5 };

// The learning rate lies at its data, so a scalar of any strides will do.
static const char *refuse(const plb_query *q) {
    const int like_w = q->op == PLB_OP_sgd ? SGD_LR : ADAM_LR;
    for (int k = 0; k < like_w; k++) {
        if (!plb_own_is_plain(&q->in[k])) return "plain only";
    }
    for (int k = 0; k < q->n_out; k++) {
        if (!plb_own_is_plain(&q->out[k])) return "plain only";
    }
    for (int k = like_w; k < q->n_in; k++) {
        if (!plb_dtype_is_float(q->in[k].dtype)) return "a float learning rate and step only";
    }
    return plb_own_refuse(q);
}

static plb_optimizer_params params_of(const plb_query *q) {
    plb_optimizer_params p = {.count = plb_shape_count(&q->in[0].shape)};
    if (q->op == PLB_OP_sgd) {
        const plb_sgd_attrs *a = q->attrs;
        p.momentum = a->momentum, p.share = 1 - a->dampening, p.weight_decay = a->weight_decay;
        p.nesterov = a->nesterov != 0;
        p.lr_type = (int32_t)q->in[SGD_LR].dtype;
    } else {
        const plb_adam_attrs *a = q->attrs;
        p.beta1 = a->beta1, p.beta2 = a->beta2, p.eps = a->eps, p.weight_decay = a->weight_decay;
        p.decoupled = a->decoupled != 0;
        p.lr_type = (int32_t)q->in[ADAM_LR].dtype;
        p.step_type = (int32_t)q->in[ADAM_STEP].dtype;
    }
    return p;
}

static plb_cuda_grid grid_of(const plb_query *q, int64_t threads) {
    return (plb_cuda_grid){
        .blocks = {plb_cuda_blocks(q->device, threads, PLB_OPTIMIZER_THREADS, WAVES)},
        .threads = {PLB_OPTIMIZER_THREADS}};
}

static plb_status add_steps(const plb_query *q, plb_own *own, int64_t count) {
    const plb_dtype dtype = q->in[0].dtype;
    const bool sgd = q->op == PLB_OP_sgd;
    const int width = 16 / (int)plb_dtype_size(dtype);
    if (count == 0) return PLB_OK;
    PLB_TRY(plb_own_add(own, &own->any, sgd ? "sgd" : "adam", dtype, grid_of(q, count)));
    if (count % width) return PLB_OK;
    return plb_own_add(own, &own->aligned, sgd ? "sgd_wide" : "adam_wide", dtype,
                       grid_of(q, count / width));
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    const plb_optimizer_params p = params_of(q);
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    out->flops = (q->op == PLB_OP_sgd ? 6 : 14) * (double)p.count;
    return plb_own_end(out, add_steps(q, own, p.count));
}

const plb_kernel plb_cuda_kernel_optimizer = {
    .name = "step", .op = PLB_OP_sgd, .refuse = refuse, .prepare = prepare};
