// SPDX-License-Identifier: Apache-2.0
// Convolutions of small images with few channels, and their gradients (kernels/small.cu): 3x3 and
// 5x5, stride 1, in f32, images channels first.
#include <stdio.h>

#include "base/core/status.h"
#include "engine/device/cuda/convolve.h"
#include "engine/device/cuda/kernels/small.h"
#include "engine/device/cuda/own.h"

enum { MOST_CHANNELS = 32, MOST_PIXELS = 1024, MOST_SHARED_BYTES = 48 << 10 };

// What the two images of a convolution are to its three ops.
typedef struct sides {
    int64_t in, out; // channels
    const int64_t *from, *to;
} sides;

static sides sides_of(plb_op_id op, const plb_conv_shape *s) {
    if (op == PLB_OP_conv_input_grad) return (sides){s->k, s->c, s->out, s->in};
    return (sides){s->c, s->k, s->in, s->out};
}

static int64_t shared_bytes(plb_op_id op, const plb_conv_shape *s) {
    const sides d = sides_of(op, s);
    const int64_t taps = s->kernel[1] * s->kernel[2];
    const int64_t floats = d.in * (taps * PLB_SMALL_OUT + d.from[1] * d.from[2]);
    const int64_t parts = (int64_t)PLB_SMALL_THREADS * PLB_SMALL_OUT;
    return (floats > parts ? floats : parts) * (int64_t)sizeof(float);
}

static const char *refuse_shape(const plb_query *q, const plb_conv_shape *s) {
    if (s->groups != 1) return "groups";
    if (s->kernel[1] != s->kernel[2] || (s->kernel[1] != 3 && s->kernel[1] != 5)) {
        return "filters other than 3x3 and 5x5";
    }
    if (s->stride[1] != 1 || s->stride[2] != 1) return "a stride over 1";
    if (s->dilation[1] != 1 || s->dilation[2] != 1) return "dilated";
    if (s->c > MOST_CHANNELS || s->k > MOST_CHANNELS) return "over 32 channels";
    if (s->in[1] * s->in[2] > MOST_PIXELS || s->out[1] * s->out[2] > MOST_PIXELS) {
        return "images over 1024 pixels";
    }
    if (shared_bytes(q->op, s) > MOST_SHARED_BYTES) return "images too large";
    return s->n > 65535 ? "over 65535 images" : NULL;
}

static const char *refuse(const plb_query *q) {
    const char *reason = plb_operands_refuse(q);
    plb_conv_shape s;
    if (!reason) reason = plb_own_refuse(q);
    if (reason) return reason;
    if (q->out[0].dtype != PLB_F32) return "f32 only";
    if (q->in[0].shape.rank != 4) return "two spatial axes only";
    if (plb_operand_given(q, PLB_IN_RESIDUAL)) return "no residual";
    for (int k = 0; k < q->n_in; k++) {
        if (plb_operand_given(q, k) && !plb_own_is_plain(&q->in[k])) return "channels first only";
    }
    if (!plb_own_is_plain(&q->out[0])) return "channels first only";
    if (plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s)) return "shapes";
    const int64_t a = ((const plb_conv_attrs *)q->attrs)->epilogue.activation;
    if (q->op == PLB_OP_conv && a != PLB_ACT_NONE && a != PLB_ACT_RELU && a != PLB_ACT_CLAMP) {
        return "activations that are no bounds";
    }
    return refuse_shape(q, &s);
}

static plb_small_params params_of(const plb_query *q, const plb_conv_shape *s) {
    const sides d = sides_of(q->op, s);
    const bool turned = q->op == PLB_OP_conv_input_grad;
    plb_small_params p = {.n = (int32_t)s->n,
                          .in = (int32_t)d.in,
                          .out = (int32_t)d.out,
                          .height = (int32_t)d.from[1],
                          .width = (int32_t)d.from[2],
                          .rows = (int32_t)d.to[1],
                          .columns = (int32_t)d.to[2],
                          .top = (int32_t)(turned ? s->kernel[1] - 1 - s->pad[1] : s->pad[1]),
                          .left = (int32_t)(turned ? s->kernel[2] - 1 - s->pad[2] : s->pad[2]),
                          .turned = turned,
                          .slices = 1,
                          .chunks = 1};
    const int plane = p.rows * p.columns;
    if (plane <= PLB_SMALL_THREADS) p.slices = PLB_SMALL_THREADS / plane;
    if (p.slices > p.in) p.slices = p.in;
    if (q->op != PLB_OP_conv) return p;
    const plb_epilogue *e = &((const plb_conv_attrs *)q->attrs)->epilogue;
    double bounds[2];
    plb_epilogue_bounds(e, bounds);
    p.clamps = e->activation != PLB_ACT_NONE;
    p.low = (float)bounds[0], p.high = (float)bounds[1];
    return p;
}

static plb_status add_image(const plb_query *q, const plb_conv_shape *s, plb_own *own) {
    const plb_small_params *p = (const plb_small_params *)(const void *)own->params.bytes;
    char name[32];
    snprintf(name, sizeof name, "small_conv_k%d", (int)s->kernel[1]);
    const unsigned groups = (unsigned)(p->out + PLB_SMALL_OUT - 1) / PLB_SMALL_OUT;
    const plb_cuda_grid grid = {.blocks = {(unsigned)p->n, groups},
                                .threads = {PLB_SMALL_THREADS},
                                .shared_bytes = (unsigned)shared_bytes(q->op, s)};
    return plb_own_add(own, &own->any, name, PLB_DTYPE_COUNT, grid);
}

// As many chunks as give every multiprocessor two blocks.
static int32_t chunks_of(const plb_query *q, const plb_small_params *p, unsigned *out_pairs) {
    const unsigned groups = (unsigned)(p->out + PLB_SMALL_GRAD_OUT - 1) / PLB_SMALL_GRAD_OUT;
    *out_pairs = groups * (unsigned)p->in;
    int64_t chunks = 2 * (int64_t)q->device->sm_count / *out_pairs;
    if (chunks > p->n) chunks = p->n;
    if (chunks < 1) return 1;
    const int64_t each = (p->n + chunks - 1) / chunks;
    return (int32_t)((p->n + each - 1) / each); // none of them empty
}

static plb_status add_weight_grad(const plb_conv_shape *s, unsigned pairs, plb_own *own,
                                  plb_launch *out) {
    const plb_small_params *p = (const plb_small_params *)(const void *)own->params.bytes;
    const int64_t count = s->k * s->c * s->kernel[1] * s->kernel[2];
    char name[32];
    snprintf(name, sizeof name, "small_weight_grad_k%d", (int)s->kernel[1]);
    const plb_cuda_grid grid = {.blocks = {pairs, (unsigned)p->chunks},
                                .threads = {PLB_SMALL_GRAD_THREADS}};
    PLB_TRY(plb_own_add(own, &own->any, name, PLB_DTYPE_COUNT, grid));
    if (p->chunks == 1) return PLB_OK;
    out->workspace_bytes = (size_t)p->chunks * (size_t)count * sizeof(float);
    snprintf(name, sizeof name, "small_fold_k%d", (int)s->kernel[1]);
    const unsigned blocks =
        (unsigned)((count + PLB_SMALL_FOLD_THREADS - 1) / PLB_SMALL_FOLD_THREADS);
    return plb_own_add(own, &own->any, name, PLB_DTYPE_COUNT,
                       (plb_cuda_grid){.blocks = {blocks}, .threads = {PLB_SMALL_FOLD_THREADS}});
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    plb_conv_shape s;
    plb_own *own;
    unsigned pairs = 0;
    PLB_TRY(plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s));
    plb_small_params p = params_of(q, &s);
    if (q->op == PLB_OP_conv_weight_grad) p.chunks = chunks_of(q, &p, &pairs);
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    out->flops = plb_operands_flops(q);
    return plb_own_end(out, pairs ? add_weight_grad(&s, pairs, own, out) : add_image(q, &s, own));
}

const plb_kernel plb_cuda_kernel_conv_small = {
    .name = "small", .op = PLB_OP_conv, .refuse = refuse, .prepare = prepare, .tuned = true};
