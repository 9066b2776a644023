// SPDX-License-Identifier: Apache-2.0
#include "engine/device/cuda/convolve.h"

#include <math.h>
#include <stdio.h>

#include "base/core/status.h"
#include "engine/device/cuda/own.h"

bool plb_operand_given(const plb_query *q, int k) {
    return k < q->n_in && q->in[k].dtype != PLB_DTYPE_COUNT;
}

const char *plb_operand_suffix(plb_dtype dtype) {
    switch (dtype) {
    case PLB_F32:
    case PLB_F64:
    case PLB_F16:
    case PLB_BF16: return plb_dtype_name(dtype);
    default: return NULL;
    }
}

const char *plb_operands_refuse(const plb_query *q) {
    if (!plb_operand_suffix(q->out[0].dtype)) return "float types only";
    for (int k = 0; k < q->n_in; k++) {
        if (!plb_operand_given(q, k)) continue;
        if (q->in[k].dtype != q->out[0].dtype) return "operands of one type only";
        if (!plb_tensor_is_dense(&q->in[k])) return "an operand has gaps";
        if (q->in[k].layout.kind == PLB_LAYOUT_BLOCKED) return "no blocked layouts";
        if (plb_shape_count(&q->in[k].shape) == 0) return "an operand is empty";
    }
    if (q->out[0].layout.kind == PLB_LAYOUT_BLOCKED) return "no blocked layouts";
    if (!plb_tensor_is_dense(&q->out[0])) return "the result has gaps";
    return plb_shape_count(&q->out[0].shape) == 0 ? "the result is empty" : NULL;
}

bool plb_conv_is_product(const plb_conv_shape *s) {
    bool fits = s->groups == 1;
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        fits = fits && s->kernel[i] == 1 && s->stride[i] == 1 && !s->pad[i] && !s->pad_end[i];
    }
    return fits;
}

bool plb_operands_channels_last(const plb_query *q) {
    bool fits = plb_own_channels_last(&q->out[0]);
    for (int k = 0; k < q->n_in; k++) {
        fits = fits && (k == PLB_IN_BIAS || plb_own_channels_last(&q->in[k]));
    }
    return fits;
}

double plb_operands_flops(const plb_query *q) {
    plb_type in[4], out = {q->out[0].dtype, q->out[0].shape};
    for (int k = 0; k < q->n_in && k < 4; k++) in[k] = (plb_type){q->in[k].dtype, q->in[k].shape};
    plb_signature s = {.attrs = q->attrs, .n_in = q->n_in, .n_out = 1, .in = in, .out = &out};
    return plb_op_of(q->op)->flops(&s);
}

static double bytes_of(const plb_tensor *t) {
    return (double)plb_shape_count(&t->shape) * (double)plb_dtype_size(t->dtype);
}

double plb_operands_bytes(const plb_query *q) {
    double bytes = bytes_of(&q->out[0]);
    for (int k = 0; k < q->n_in; k++) {
        if (plb_operand_given(q, k)) bytes += bytes_of(&q->in[k]);
    }
    return bytes;
}

void plb_epilogue_bounds(const plb_epilogue *e, double bounds[2]) {
    bool clamp = e->activation == PLB_ACT_CLAMP;
    bounds[0] = clamp ? e->alpha : e->activation == PLB_ACT_RELU ? 0 : -INFINITY;
    bounds[1] = clamp ? e->beta : INFINITY;
}

plb_epilogue_params plb_epilogue_params_of(const plb_epilogue *e) {
    static const int32_t kinds[] = {[PLB_ACT_NONE] = PLB_ACTIVATE_NONE,
                                    [PLB_ACT_RELU] = PLB_ACTIVATE_CLAMP,
                                    [PLB_ACT_CLAMP] = PLB_ACTIVATE_CLAMP,
                                    [PLB_ACT_SILU] = PLB_ACTIVATE_SILU};
    double bounds[2];
    plb_epilogue_bounds(e, bounds);
    return (plb_epilogue_params){
        .activation = kinds[e->activation], .low = bounds[0], .high = bounds[1]};
}

plb_status plb_finish_prepare(plb_device *device, const plb_tensor *y, int axis,
                              const plb_epilogue *epilogue, plb_finish *out) {
    char name[32];
    const int64_t count = plb_shape_count(&y->shape);
    *out = (plb_finish){.grid = {.threads = {256}}};
    out->params = (plb_finish_params){.count = count,
                                      .inner = y->stride[axis],
                                      .channels = y->shape.dim[axis],
                                      .epilogue = plb_epilogue_params_of(epilogue)};
    out->grid.blocks[0] = plb_cuda_blocks(device, count, 256, 16);
    snprintf(name, sizeof name, "plb_finish_%s", plb_operand_suffix(y->dtype));
    return plb_cuda_function(device, name, &out->function);
}

plb_status plb_finish_run(plb_stream *stream, const plb_finish *finish, const void *from,
                          const void *bias, const void *residual, void *to) {
    plb_finish_params params = finish->params;
    params.from = from;
    params.to = to;
    params.epilogue.bias = bias;
    params.epilogue.residual = residual;
    return plb_cuda_launch(stream, finish->function, &finish->grid, (void *[]){&params});
}
