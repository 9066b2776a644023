// SPDX-License-Identifier: Apache-2.0
// Matrix products by their definition (kernels/convolve.cu): the last in the list.
#include <stdio.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/convolve.h"

typedef struct plain {
    CUfunction function;
    plb_cuda_grid grid;
    plb_product_params params;
} plain;

// An empty sum is zero, so that empty factors are fine.
static const char *refuse(const plb_query *q) {
    const char *suffix = plb_operand_suffix(q->out[0].dtype);
    if (!suffix) return "float types only";
    for (int k = 0; k < q->n_in; k++) {
        if (!plb_operand_given(q, k)) continue;
        if (q->in[k].dtype != q->out[0].dtype) return "operands of one type only";
        if (q->in[k].layout.kind != PLB_LAYOUT_PLAIN) return "plain layouts only";
        if (k >= PLB_IN_BIAS && !plb_tensor_is_dense(&q->in[k])) return "an operand has gaps";
    }
    if (!plb_tensor_is_dense(&q->out[0])) return "the result has gaps";
    return plb_shape_count(&q->out[0].shape) == 0 ? "the result is empty" : NULL;
}

// Strides of a factor along the axes of the result; `row` and `inner` are its own two.
static void batch_strides(const plb_tensor *t, int rank, int64_t *out) {
    for (int i = 0; i < rank - 2; i++) {
        int axis = i - (rank - t->shape.rank);
        out[i] = axis < 0 || t->shape.dim[axis] == 1 ? 0 : t->stride[axis];
    }
}

static void fill(const plb_query *q, plb_product_params *p) {
    const plb_matmul_attrs *attrs = q->attrs;
    const plb_tensor *a = &q->in[0], *b = &q->in[1], *y = &q->out[0];
    const int rank = y->shape.rank;
    const int64_t *sa = a->stride + a->shape.rank - 2, *sb = b->stride + b->shape.rank - 2;
    *p = (plb_product_params){.count = plb_shape_count(&y->shape),
                              .inner = a->shape.dim[a->shape.rank - (attrs->trans_a ? 2 : 1)],
                              .rank = rank,
                              .epilogue = plb_epilogue_params_of(&attrs->epilogue)};
    for (int i = 0; i < rank; i++) p->dim[i] = y->shape.dim[i];
    batch_strides(a, rank, p->a_stride);
    batch_strides(b, rank, p->b_stride);
    p->a_stride[rank - 2] = attrs->trans_a ? sa[1] : sa[0];
    p->a_inner = attrs->trans_a ? sa[0] : sa[1];
    p->b_stride[rank - 1] = attrs->trans_b ? sb[0] : sb[1];
    p->b_inner = attrs->trans_b ? sb[1] : sb[0];
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    const plain *d = state;
    plb_product_params p = d->params;
    p.a = call->in[0].data;
    p.b = call->in[1].data;
    p.to = call->out[0].data;
    if (call->n_in > PLB_IN_BIAS) p.epilogue.bias = call->in[PLB_IN_BIAS].data;
    if (call->n_in > PLB_IN_RESIDUAL) p.epilogue.residual = call->in[PLB_IN_RESIDUAL].data;
    return plb_cuda_launch(stream, d->function, &d->grid, (void *[]){&p});
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    char name[64];
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "plain has one variant, found %s", choice);
    plain *d = plb_alloc(sizeof *d);
    if (!d) return plb_fail(PLB_ENOMEM, "out of memory for a product");
    fill(q, &d->params);
    d->grid.threads[0] = 128;
    d->grid.blocks[0] = plb_cuda_blocks(q->device, d->params.count, 128, 64);
    snprintf(name, sizeof name, "plb_product_%s", plb_operand_suffix(q->out[0].dtype));
    plb_status status = plb_cuda_function(q->device, name, &d->function);
    if (status) {
        plb_free(d);
        return status;
    }
    *out = (plb_launch){.state = d,
                        .release = plb_free,
                        .run = run,
                        .flops = plb_operands_flops(q),
                        .bytes = plb_operands_bytes(q)};
    return PLB_OK;
}

const plb_kernel plb_cuda_kernel_matmul_plain = {
    .name = "plain", .op = PLB_OP_COUNT, .refuse = refuse, .prepare = prepare};
