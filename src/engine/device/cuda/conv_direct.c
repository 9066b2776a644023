// SPDX-License-Identifier: Apache-2.0
// Convolutions by their definition (kernels/convolve.cu): any shape, layout and float type. Slow,
// and therefore the last in the list.
#include <stdio.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/convolve.h"

typedef struct direct {
    CUfunction function;
    plb_cuda_grid grid;
    plb_convolve_params params;
} direct;

static const char *refuse(const plb_query *q) {
    const char *reason = plb_operands_refuse(q);
    if (reason) return reason;
    for (int k = 0; k < q->n_in; k++) {
        for (int i = 0; plb_operand_given(q, k) && i < q->in[k].shape.rank; i++) {
            if (q->in[k].shape.dim[i] > INT32_MAX) return "an extent over 2^31";
        }
    }
    return NULL;
}

// Strides as N, C, depth, height, width: axes that the value lacks are passed by.
static void strides_of(const plb_tensor *t, int64_t out[5]) {
    int axes = t->shape.rank - 2;
    out[0] = t->stride[0], out[1] = t->stride[1];
    for (int i = 0; i < 3; i++) {
        int axis = i - (3 - axes);
        out[2 + i] = axis < 0 ? 0 : t->stride[2 + axis];
    }
}

static void extents_of(const int64_t *from, int32_t *to) {
    for (int i = 0; i < 3; i++) to[i] = (int32_t)from[i];
}

static plb_status fill(const plb_query *q, plb_convolve_params *p) {
    plb_conv_shape s;
    const plb_tensor *x = q->op == PLB_OP_conv_input_grad ? &q->out[0] : &q->in[0];
    const plb_tensor *w = q->op == PLB_OP_conv_weight_grad ? &q->out[0] : &q->in[1];
    const plb_tensor *y = q->op == PLB_OP_conv              ? &q->out[0]
                          : q->op == PLB_OP_conv_input_grad ? &q->in[0]
                                                            : &q->in[1];
    PLB_TRY(plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s));
    *p = (plb_convolve_params){.count = plb_shape_count(&q->out[0].shape),
                               .n = (int32_t)s.n,
                               .c = (int32_t)(s.c / s.groups),
                               .k = (int32_t)(s.k / s.groups),
                               .groups = (int32_t)s.groups};
    extents_of(s.in, p->in), extents_of(s.kernel, p->kernel), extents_of(s.out, p->out);
    extents_of(s.stride, p->stride), extents_of(s.dilation, p->dilation);
    extents_of(s.pad, p->pad);
    strides_of(x, p->x), strides_of(w, p->w), strides_of(y, p->y);
    if (plb_operand_given(q, PLB_IN_RESIDUAL)) strides_of(&q->in[PLB_IN_RESIDUAL], p->z);
    p->epilogue = plb_epilogue_params_of(&((const plb_conv_attrs *)q->attrs)->epilogue);
    return PLB_OK;
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    const direct *d = state;
    plb_convolve_params p = d->params;
    p.first = call->in[0].data;
    p.second = call->in[1].data;
    p.to = call->out[0].data;
    if (call->n_in > PLB_IN_BIAS) p.epilogue.bias = call->in[PLB_IN_BIAS].data;
    if (call->n_in > PLB_IN_RESIDUAL) p.epilogue.residual = call->in[PLB_IN_RESIDUAL].data;
    return plb_cuda_launch(stream, d->function, &d->grid, (void *[]){&p});
}

static const char *name_of(plb_op_id op) {
    if (op == PLB_OP_conv) return "plb_convolve";
    return op == PLB_OP_conv_input_grad ? "plb_convolve_input_grad" : "plb_convolve_weight_grad";
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    char name[64];
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "direct has one variant, found %s", choice);
    direct *d = plb_alloc(sizeof *d);
    if (!d) return plb_fail(PLB_ENOMEM, "out of memory for a convolution");
    d->grid.threads[0] = 128;
    snprintf(name, sizeof name, "%s_%s", name_of(q->op), plb_operand_suffix(q->out[0].dtype));
    plb_status status = fill(q, &d->params);
    if (!status) status = plb_cuda_function(q->device, name, &d->function);
    if (status) {
        plb_free(d);
        return status;
    }
    d->grid.blocks[0] = plb_cuda_blocks(q->device, d->params.count, 128, 64);
    *out = (plb_launch){.state = d,
                        .release = plb_free,
                        .run = run,
                        .flops = plb_operands_flops(q),
                        .bytes = plb_operands_bytes(q)};
    return PLB_OK;
}

const plb_kernel plb_cuda_kernel_conv_direct = {
    .name = "direct", .op = PLB_OP_COUNT, .refuse = refuse, .prepare = prepare};
