// SPDX-License-Identifier: Apache-2.0
// Convolutions with 1x1 filters of a few pixels (kernels/vector.cu): a product of a matrix and a
// few vectors, for which a library's kernel is no faster and knows few activations.
#include "base/core/status.h"
#include "engine/device/cuda/convolve.h"
#include "engine/device/cuda/kernels/vector.h"
#include "engine/device/cuda/own.h"

static int64_t pixels_of(const plb_conv_shape *s) {
    return s->n * s->in[0] * s->in[1] * s->in[2];
}

static const char *refuse(const plb_query *q) {
    plb_conv_shape s;
    const char *reason = plb_operands_refuse(q);
    if (!reason) reason = plb_own_refuse(q);
    if (reason) return reason;
    if (plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s)) return "shapes";
    if (!plb_conv_is_product(&s)) return "1x1 with stride 1 only";
    if (pixels_of(&s) > PLB_VECTOR_PIXELS) return "over 8 pixels";
    return plb_operands_channels_last(q) ? NULL : "channels last only";
}

// As many as have something to add, in vectors of `width` elements.
static int32_t lanes_of(int64_t c, int64_t width) {
    int32_t lanes = 1;
    while (lanes < 32 && lanes * width < c) lanes *= 2;
    return lanes;
}

static plb_cuda_grid grid_of(const plb_vector_params *p) {
    const int64_t rows = PLB_VECTOR_THREADS / p->lanes;
    return (plb_cuda_grid){.blocks = {(unsigned)((p->k + rows - 1) / rows)},
                           .threads = {PLB_VECTOR_THREADS}};
}

static plb_status add_steps(const plb_query *q, const plb_vector_params *p, int64_t width,
                            plb_own *own) {
    const plb_dtype dtype = q->out[0].dtype;
    if (p->c % width == 0) {
        PLB_TRY(plb_own_add(own, &own->aligned, "vector_wide", dtype, grid_of(p)));
    }
    return plb_own_add(own, &own->any, "vector_one", dtype, grid_of(p));
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    const plb_epilogue *e = &((const plb_conv_attrs *)q->attrs)->epilogue;
    const int64_t width = 16 / (int64_t)plb_dtype_size(q->out[0].dtype);
    plb_conv_shape s;
    plb_own *own;
    PLB_TRY(plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s));
    const plb_vector_params p = {.pixels = (int32_t)pixels_of(&s),
                                 .c = (int32_t)s.c,
                                 .k = (int32_t)s.k,
                                 .lanes = lanes_of(s.c, s.c % width ? 1 : width),
                                 .act = plb_own_act((int)e->activation, e->alpha, e->beta)};
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    out->flops = plb_operands_flops(q);
    return plb_own_end(out, add_steps(q, &p, width, own));
}

const plb_kernel plb_cuda_kernel_conv_vector = {
    .name = "vector", .op = PLB_OP_conv, .refuse = refuse, .prepare = prepare, .tuned = true};
