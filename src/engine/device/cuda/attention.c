// SPDX-License-Identifier: Apache-2.0
// Attention of operands with any strides, in one kernel. Networks whose attention is written as
// products and a softmax keep cuBLASLt's products on a device (graph/pass_recognise.c).
#include "engine/device/cuda/kernels/attention.h"

#include <string.h>

#include "base/core/status.h"
#include "engine/device/cuda/own.h"
#include "plumb/ops.h"

enum { Q, K, V, MASK, SHARED_MOST = 96 << 10 };

static size_t shared_bytes(const plb_query *q) {
    const int64_t d = q->in[Q].shape.dim[3], e = q->in[V].shape.dim[3];
    const int64_t numbers =
        PLB_ATTENTION_KEYS * (d + 1) + PLB_ATTENTION_KEYS * e + PLB_ATTENTION_QUERIES * d;
    return (size_t)numbers * (q->in[Q].dtype == PLB_F64 ? sizeof(double) : sizeof(float));
}

static const char *refuse(const plb_query *q) {
    if (q->in[Q].shape.dim[3] > PLB_ATTENTION_FEATURES ||
        q->in[V].shape.dim[3] > PLB_ATTENTION_FEATURES) {
        return "heads of over 256 features";
    }
    if (shared_bytes(q) > SHARED_MOST) return "heads too wide for shared memory in f64";
    return plb_own_refuse(q);
}

static plb_attention_params params_of(const plb_query *q) {
    const plb_attention_attrs *attrs = q->attrs;
    const plb_shape *of_q = &q->in[Q].shape, *of_v = &q->in[V].shape;
    plb_attention_params p = {.heads = (int32_t)of_q->dim[1],
                              .queries = (int32_t)of_q->dim[2],
                              .keys = (int32_t)of_v->dim[2],
                              .depth = (int32_t)of_q->dim[3],
                              .features = (int32_t)of_v->dim[3],
                              .zero_masked = attrs->zero_masked != 0,
                              .scale = attrs->scale};
    memcpy(p.q, q->in[Q].stride, sizeof p.q);
    memcpy(p.k, q->in[K].stride, sizeof p.k);
    memcpy(p.v, q->in[V].stride, sizeof p.v);
    memcpy(p.y, q->out[0].stride, sizeof p.y);
    if (q->n_in <= MASK || plb_own_absent(&q->in[MASK])) return p;
    const plb_tensor *mask = &q->in[MASK];
    p.mask_dtype = (int32_t)mask->dtype;
    for (int i = 0; i < mask->shape.rank; i++) {
        const int axis = 4 - mask->shape.rank + i;
        p.mask[axis] = mask->shape.dim[i] == 1 ? 0 : mask->stride[i];
    }
    return p;
}

static plb_status add_step(const plb_query *q, plb_own *own, const plb_attention_params *p) {
    const int64_t tiles = (p->queries + PLB_ATTENTION_QUERIES - 1) / PLB_ATTENTION_QUERIES;
    const int64_t blocks = q->in[Q].shape.dim[0] * p->heads * tiles;
    const plb_cuda_grid grid = {.blocks = {(unsigned)blocks},
                                .threads = {32 * PLB_ATTENTION_QUERIES},
                                .shared_bytes = (unsigned)shared_bytes(q)};
    if (blocks == 0 || p->features == 0) return PLB_OK;
    return plb_own_add(own, &own->any, "attention", q->in[Q].dtype, grid);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    const plb_attention_params p = params_of(q);
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    const double scores = (double)q->in[Q].shape.dim[0] * p.heads * p.queries * (double)p.keys;
    out->flops = scores * (2.0 * (p.depth + p.features) + 5);
    return plb_own_end(out, add_step(q, own, &p));
}

const plb_kernel plb_cuda_kernel_attention = {
    .name = "one pass", .op = PLB_OP_attention, .refuse = refuse, .prepare = prepare};
