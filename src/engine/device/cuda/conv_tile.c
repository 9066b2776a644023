// SPDX-License-Identifier: Apache-2.0
// Convolutions of few pixels, on tensor cores and split over clusters of blocks
// (kernels/tile.cu): in 16 bits, and in TF32 where that is allowed. The tile of a block and the
// blocks of a cluster are a choice for the tuner: 64x32.4 is tiles of 64 pixels by 32 filters, of
// whose sums each of four blocks has a part.
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/convolve.h"
#include "engine/device/cuda/kernels/tile.h"
#include "engine/device/cuda/own.h"

typedef struct variant {
    int pixels, filters, shared_bytes, chunk_time, splits;
} variant;

typedef struct tiled {
    plb_own_step step;
    plb_tile_params params;
    bool bias, residual;
    bool constant; // the filters are, from run to run
} tiled;

enum { WAVES = 4, OFFERED = 8 }; // of blocks on a device, at most; choices for the tuner

static const variant tiles[] = {
#define PLB_TILE_ROW(pixels, filters, stages, time) \
    {pixels, filters, PLB_TILE_SHARED_BYTES(pixels, filters, stages), time, 1},
    PLB_TILES(PLB_TILE_ROW)
#undef PLB_TILE_ROW
};
enum { N_TILES = sizeof tiles / sizeof *tiles };

// ---------------------------------------------------------------------------- the shape
static int parts(int64_t extent, int64_t each) {
    return (int)((extent + each - 1) / each);
}

static int chunks_of(const plb_tile_params *p, plb_dtype dtype) {
    return parts((int64_t)p->depth * (int64_t)plb_dtype_size(dtype), PLB_TILE_CHUNK_BYTES);
}

static int64_t blocks_of(const plb_tile_params *p, const variant *v) {
    return (int64_t)parts(p->pixels, v->pixels) * parts(p->filters, v->filters) * v->splits;
}

static plb_tile_params params_of(const plb_query *q, const plb_conv_shape *s) {
    const plb_epilogue *e = &((const plb_conv_attrs *)q->attrs)->epilogue;
    double bounds[2];
    plb_epilogue_bounds(e, bounds);
    plb_tile_params p = {.low = (float)bounds[0],
                         .high = (float)bounds[1],
                         .silu = e->activation == PLB_ACT_SILU,
                         .pixels = (int32_t)(s->n * s->out[1] * s->out[2]),
                         .filters = (int32_t)s->k,
                         .c = (int32_t)s->c,
                         .depth = (int32_t)(s->c * s->kernel[1] * s->kernel[2])};
    for (int i = 0; i < 2; i++) {
        p.in[i] = (int32_t)s->in[1 + i], p.out[i] = (int32_t)s->out[1 + i];
        p.kernel[i] = (int32_t)s->kernel[1 + i], p.stride[i] = (int32_t)s->stride[1 + i];
        p.dilation[i] = (int32_t)s->dilation[1 + i], p.pad[i] = (int32_t)s->pad[1 + i];
    }
    return p;
}

static const char *refuse_shape(const plb_query *q, const plb_conv_shape *s) {
    const int64_t vector = 16 / (int64_t)plb_dtype_size(q->out[0].dtype);
    if (s->groups != 1) return "in groups";
    if (s->c % vector) return "channels that fill no vectors";
    if (s->k % 4) return "filters not in fours";
    if (s->kernel[1] * s->kernel[2] > PLB_TILE_TAPS) return "over 32 taps";
    // Kernels number elements in 32 bits, those in the padding too.
    const int64_t rows = s->pad[1] + s->kernel[1] * s->dilation[1];
    const int64_t columns = s->pad[2] + s->kernel[2] * s->dilation[2];
    if ((rows * s->in[2] + columns) * s->c > INT32_MAX) return "taps too far apart";
    const plb_tile_params p = params_of(q, s);
    return blocks_of(&p, &tiles[N_TILES - 1]) > (int64_t)WAVES * q->device->sm_count ? "many pixels"
                                                                                     : NULL;
}

static const char *refuse(const plb_query *q) {
    const char *reason = plb_operands_refuse(q);
    plb_conv_shape s;
    if (!reason) reason = plb_own_refuse(q);
    if (reason) return reason;
    if (q->unaligned) return "operands that begin between 16 bytes";
    if (q->in[0].shape.rank != 4) return "two spatial axes only";
    if (q->out[0].dtype == PLB_F64) return "f64 has no tensor cores";
    if (q->out[0].dtype == PLB_F32 && q->math != PLB_MATH_TF32) return "TF32 is not allowed";
    if (q->device->major < 8) return "tensor cores of before compute capability 8.0";
    if (plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s)) return "shapes";
    return plb_operands_channels_last(q) ? refuse_shape(q, &s) : "channels last only";
}

// ---------------------------------------------------------------------------- variants
// How long one takes, in the unit of chunk_time: blocks that share a multiprocessor take turns, and
// each has an end of its own, longer where a cluster adds up.
static int64_t guess(const plb_query *q, const plb_tile_params *p, const variant *v) {
    enum { END = 80, END_OF_CLUSTER = 180 };
    const int64_t waves = parts(blocks_of(p, v), q->device->sm_count);
    const int64_t chunks = parts(chunks_of(p, q->out[0].dtype), v->splits);
    return waves * (chunks * v->chunk_time + (v->splits > 1 ? END_OF_CLUSTER : END));
}

// Best guess first. Clusters come with compute capability 9.0.
static int variants_of(const plb_query *q, const plb_tile_params *p, variant out[OFFERED]) {
    const int most = q->device->major >= 9 ? PLB_TILE_SPLITS : 1;
    int64_t took[OFFERED + 1];
    variant best[OFFERED + 1];
    int n = 0;
    for (int i = 0; i < N_TILES; i++) {
        variant v = tiles[i];
        if (v.shared_bytes > q->device->shared_bytes) continue;
        for (; v.splits <= most && v.splits <= chunks_of(p, q->out[0].dtype); v.splits *= 2) {
            const int64_t time = guess(q, p, &v);
            int at = n;
            for (; at > 0 && took[at - 1] > time; at--) {
                took[at] = took[at - 1], best[at] = best[at - 1];
            }
            took[at] = time, best[at] = v;
            if (n < OFFERED) n++;
        }
    }
    memcpy(out, best, (size_t)n * sizeof *out);
    return n;
}

static void describe(const variant *v, char out[PLB_CHOICE_BYTES]) {
    snprintf(out, PLB_CHOICE_BYTES, "%dx%d.%d", v->pixels, v->filters, v->splits);
}

static int choices(const plb_query *q, char out[][PLB_CHOICE_BYTES], int max) {
    plb_conv_shape s;
    variant v[OFFERED];
    if (plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s)) return 0;
    const plb_tile_params p = params_of(q, &s);
    int n = variants_of(q, &p, v);
    if (n > max) n = max;
    for (int i = 0; i < n; i++) describe(&v[i], out[i]);
    return n;
}

// The best guess where nothing is said; a choice that is none of those offered is of a version
// with other tiles.
static plb_status variant_of(const plb_query *q, const plb_tile_params *p, const char *choice,
                             variant *out) {
    char text[PLB_CHOICE_BYTES];
    variant v[OFFERED];
    const int n = variants_of(q, p, v);
    for (int i = 0; i < n; i++) {
        describe(&v[i], text);
        *out = v[i];
        if (!*choice || !strcmp(text, choice)) return PLB_OK;
    }
    return plb_fail(PLB_EUNSUPPORTED, "cuda: conv has no tiles %s here", choice);
}

// ---------------------------------------------------------------------------- launches
// Filters are read early only in a capture: there, whatever made them is over by the time that the
// graph begins.
static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    const tiled *t = state;
    plb_tile_params params = t->params;
    plb_operands at = {.in = {call->in[0].data, call->in[1].data}, .out = {call->out[0].data}};
    uintptr_t bits = (uintptr_t)at.in[0] | (uintptr_t)at.in[1] | (uintptr_t)at.out[0];
    if (t->bias) at.in[2] = call->in[PLB_IN_BIAS].data;
    if (t->residual) at.in[3] = call->in[PLB_IN_RESIDUAL].data, bits |= (uintptr_t)at.in[3];
    if (bits % 16) {
        return plb_fail(PLB_EUNSUPPORTED, "cuda: conv: operands that begin between 16 bytes");
    }
    params.early = stream->capturing && t->constant;
    return plb_own_launch(&t->step, stream, (void *[]){&at, &params});
}

static plb_status find_step(const plb_query *q, const variant *v, tiled *t) {
    char name[48];
    CUfunction function;
    const plb_cuda_grid grid = {.blocks = {(unsigned)parts(t->params.pixels, v->pixels),
                                           (unsigned)parts(t->params.filters, v->filters),
                                           (unsigned)v->splits},
                                .threads = {PLB_TILE_THREADS},
                                .shared_bytes = (unsigned)v->shared_bytes,
                                .cluster = (unsigned)v->splits};
    snprintf(name, sizeof name, "plb_tile_%dx%d_%s", v->pixels, v->filters,
             plb_dtype_name(q->out[0].dtype));
    PLB_TRY(plb_cuda_function(q->device, name, &function));
    return plb_own_step_of(q->device, function, grid, &t->step);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    plb_conv_shape s;
    variant v = {0};
    PLB_TRY(plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s));
    tiled *t = plb_alloc(sizeof *t);
    if (!t) return plb_fail(PLB_ENOMEM, "out of memory for a convolution");
    *t = (tiled){.params = params_of(q, &s),
                 .bias = plb_operand_given(q, PLB_IN_BIAS),
                 .residual = plb_operand_given(q, PLB_IN_RESIDUAL),
                 .constant = q->constant >> 1 & 1u};
    plb_status status = variant_of(q, &t->params, choice, &v);
    if (!status) status = find_step(q, &v, t);
    if (status) {
        plb_free(t);
        return status;
    }
    *out = (plb_launch){.state = t,
                        .release = plb_free,
                        .run = run,
                        .flops = plb_operands_flops(q),
                        .bytes = plb_operands_bytes(q)};
    return PLB_OK;
}

const plb_kernel plb_cuda_kernel_conv_tile = {.name = "tile",
                                              .op = PLB_OP_conv,
                                              .refuse = refuse,
                                              .choices = choices,
                                              .prepare = prepare,
                                              .tuned = true,
                                              .only_timed = true};
