// SPDX-License-Identifier: Apache-2.0
// The first convolution of a ResNet or DenseNet, 64 filters of 7x7 over three channels with stride
// 2, on tensor cores (kernels/image.cu): in 16 bits, and in TF32 where that is allowed. The image
// is read in whatever layout it has.
#include <stdio.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/convolve.h"
#include "engine/device/cuda/kernels/image.h"
#include "engine/device/cuda/own.h"

enum { BLOCKS_EACH = 4 }; // on a multiprocessor, as the kernel's registers and memory allow

typedef struct image {
    plb_own_step convolve, pack;
    plb_image_params params;
    bool bias;
} image;

static const char *refuse_shape(const plb_query *q, const plb_conv_shape *s) {
    if (s->groups != 1 || s->c != PLB_IMAGE_CHANNELS) return "not three channels";
    if (s->k != PLB_IMAGE_FILTERS) return "not 64 filters";
    if (s->kernel[1] != PLB_IMAGE_TAPS || s->kernel[2] != PLB_IMAGE_TAPS) return "7x7 only";
    if (s->stride[1] != 2 || s->stride[2] != 2) return "stride 2 only";
    if (s->dilation[1] != 1 || s->dilation[2] != 1) return "dilated";
    return plb_own_channels_last(&q->out[0]) ? NULL : "channels last only";
}

static const char *refuse(const plb_query *q) {
    const char *reason = plb_operands_refuse(q);
    plb_conv_shape s;
    if (!reason) reason = plb_own_refuse(q);
    if (reason) return reason;
    if (q->in[0].shape.rank != 4) return "two spatial axes only";
    if (q->out[0].dtype == PLB_F64) return "f64 has no tensor cores";
    if (q->out[0].dtype == PLB_F32 && q->math != PLB_MATH_TF32) return "TF32 is not allowed";
    if (plb_operand_given(q, PLB_IN_RESIDUAL)) return "no residual";
    if (plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s)) return "shapes";
    return refuse_shape(q, &s);
}

static int32_t parts(int64_t extent, int64_t each) {
    return (int32_t)((extent + each - 1) / each);
}

static plb_image_params params_of(const plb_query *q, const plb_conv_shape *s) {
    const plb_epilogue *e = &((const plb_conv_attrs *)q->attrs)->epilogue;
    plb_image_params p = {.act = plb_own_act((int)e->activation, e->alpha, e->beta),
                          .n = (int32_t)s->n,
                          .down = parts(s->out[1], PLB_IMAGE_TILE_ROWS),
                          .across = parts(s->out[2], PLB_IMAGE_TILE_COLUMNS)};
    for (int i = 0; i < 4; i++) p.x[i] = q->in[0].stride[i], p.w[i] = q->in[1].stride[i];
    for (int i = 0; i < 2; i++) {
        p.in[i] = (int32_t)s->in[1 + i], p.out[i] = (int32_t)s->out[1 + i];
        p.pad[i] = (int32_t)s->pad[1 + i];
    }
    p.tiles = p.n * p.down * p.across;
    return p;
}

// Of the packed filters.
static size_t filter_bytes(plb_dtype dtype) {
    return (size_t)PLB_IMAGE_TAPS * PLB_IMAGE_K * PLB_IMAGE_FILTERS * plb_dtype_size(dtype);
}

static plb_status pack(void *state, const plb_call *call, void *packed, plb_stream *stream) {
    image *m = state;
    plb_operands at = {.in = {call->in[1].data}, .out = {packed}};
    return plb_own_launch(&m->pack, stream, (void *[]){&at, &m->params});
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    image *m = state;
    plb_operands at = {.in = {call->in[0].data, call->packed}, .out = {call->out[0].data}};
    if (m->bias) at.in[2] = call->in[PLB_IN_BIAS].data;
    return plb_own_launch(&m->convolve, stream, (void *[]){&at, &m->params});
}

static plb_status find_steps(const plb_query *q, image *m) {
    const plb_dtype dtype = q->out[0].dtype;
    const size_t size = plb_dtype_size(dtype);
    char name[32];
    CUfunction function;
    const int64_t most = (int64_t)BLOCKS_EACH * q->device->sm_count;
    plb_cuda_grid grid = {.threads = {PLB_IMAGE_THREADS}};
    grid.blocks[0] = (unsigned)(m->params.tiles < most ? m->params.tiles : most);
    grid.shared_bytes =
        (unsigned)(filter_bytes(dtype) +
                   (size_t)PLB_IMAGE_ROWS * PLB_IMAGE_COLUMNS * PLB_IMAGE_CHANNELS * size);
    snprintf(name, sizeof name, "plb_image_conv_%s", plb_dtype_name(dtype));
    PLB_TRY(plb_cuda_function(q->device, name, &function));
    PLB_TRY(plb_own_step_of(q->device, function, grid, &m->convolve));
    const int64_t words = (int64_t)filter_bytes(dtype) / 4;
    grid = (plb_cuda_grid){.blocks = {(unsigned)((words + 255) / 256)}, .threads = {256}};
    snprintf(name, sizeof name, "plb_image_pack_%s", plb_dtype_name(dtype));
    PLB_TRY(plb_cuda_function(q->device, name, &function));
    return plb_own_step_of(q->device, function, grid, &m->pack);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    plb_conv_shape s;
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "image: one variant only, found %s", choice);
    PLB_TRY(plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s));
    image *m = plb_alloc(sizeof *m);
    if (!m) return plb_fail(PLB_ENOMEM, "out of memory for a convolution");
    m->params = params_of(q, &s);
    m->bias = plb_operand_given(q, PLB_IN_BIAS);
    plb_status status = find_steps(q, m);
    if (status) {
        plb_free(m);
        return status;
    }
    *out = (plb_launch){.state = m,
                        .release = plb_free,
                        .run = run,
                        .pack = pack,
                        .packed_inputs = 1u << 1,
                        .packed_bytes = filter_bytes(q->out[0].dtype),
                        .flops = plb_operands_flops(q),
                        .bytes = plb_operands_bytes(q)};
    return PLB_OK;
}

const plb_kernel plb_cuda_kernel_conv_image = {
    .name = "image", .op = PLB_OP_conv, .refuse = refuse, .prepare = prepare, .tuned = true};
