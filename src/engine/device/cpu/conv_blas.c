// SPDX-License-Identifier: Apache-2.0
// Convolutions of f64 as matrix products over unfolded windows (Chellapilla et al. 2006). With
// cols[C/groups * taps, positions], for each image and group:
//
//   y = w cols              dcols = w^T dy, added back to dx              dw += dy cols^T
//
// Positions are taken in blocks, so that cols stays in the second-level cache.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/blas.h"
#include "engine/ops/conv_shape.h"

enum { BIAS = 2, RESIDUAL = 3, BLOCK_ELEMENTS = 1 << 15, LEAST_POSITIONS = 32 };

typedef struct unfolded {
    plb_conv_shape s;
    plb_op_id op;
    plb_epilogue epilogue;
    int64_t c, k;                     // channels of a group
    int64_t taps, positions, x_plane; // elements of a kernel, of y's and x's planes
    int64_t block;                    // positions of one
    int64_t parts;                    // weight gradient: channels of a group are cut into so many
    int64_t items;                    // that threads share
} unfolded;

static int64_t volume(const int64_t extent[PLB_MAX_SPATIAL]) {
    return extent[0] * extent[1] * extent[2];
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static plb_status unfold(const plb_query *q, unfolded *u) {
    const plb_conv_attrs *attrs = q->attrs;
    *u = (unfolded){.op = q->op, .parts = 1};
    PLB_TRY(plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, attrs, &u->s));
    if (q->op == PLB_OP_conv) u->epilogue = attrs->epilogue;
    u->c = u->s.c / u->s.groups, u->k = u->s.k / u->s.groups;
    u->taps = volume(u->s.kernel), u->positions = volume(u->s.out), u->x_plane = volume(u->s.in);
    u->block = BLOCK_ELEMENTS / (u->c * u->taps);
    if (u->block < LEAST_POSITIONS) u->block = LEAST_POSITIONS;
    u->block = least(u->block, u->positions);
    if (q->op == PLB_OP_conv_weight_grad) {
        u->parts = least(u->c, (q->threads + u->s.groups - 1) / u->s.groups);
        u->items = u->s.groups * u->parts;
    } else {
        u->items = u->s.n * u->s.groups;
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- windows
// The positions of a block in runs along the last axis, for one tap.
typedef struct walk {
    const plb_conv_shape *s;
    int64_t tap[PLB_MAX_SPATIAL];
    int64_t at, end; // positions
    int64_t row;     // offset in x's plane of the row that the run meets, -1: padding
    int64_t column;  // where in that row its first position lies; later ones a stride further
} walk;

static walk walk_of(const plb_conv_shape *s, int64_t tap, int64_t begin, int64_t end) {
    walk w = {.s = s, .at = begin, .end = end};
    for (int i = PLB_MAX_SPATIAL - 1; i >= 0; i--) {
        w.tap[i] = tap % s->kernel[i];
        tap /= s->kernel[i];
    }
    return w;
}

// The length of the next run, 0 at the end.
static int64_t next_run(walk *w) {
    const plb_conv_shape *s = w->s;
    if (w->at == w->end) return 0;
    int64_t out[PLB_MAX_SPATIAL] = {w->at / s->out[2] / s->out[1], w->at / s->out[2] % s->out[1],
                                    w->at % s->out[2]};
    int64_t in[PLB_MAX_SPATIAL];
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        in[i] = out[i] * s->stride[i] - s->pad[i] + w->tap[i] * s->dilation[i];
    }
    bool inside = in[0] >= 0 && in[0] < s->in[0] && in[1] >= 0 && in[1] < s->in[1];
    w->row = inside ? (in[0] * s->in[1] + in[1]) * s->in[2] : -1;
    w->column = in[2];
    int64_t n = least(s->out[2] - out[2], w->end - w->at);
    w->at += n;
    return n;
}

// cols[channels * taps, end - begin] of the planes that begin at x.
static void gather(const unfolded *u, const double *x, int64_t channels, int64_t begin, int64_t end,
                   double *cols) {
    const plb_conv_shape *s = &u->s;
    for (int64_t row = 0; row < channels * u->taps; row++) {
        const double *plane = x + row / u->taps * u->x_plane;
        walk w = walk_of(s, row % u->taps, begin, end);
        for (int64_t n; (n = next_run(&w));) {
            for (int64_t j = 0, i = w.column; j < n; j++, i += s->stride[2]) {
                bool inside = w.row >= 0 && i >= 0 && i < s->in[2];
                *cols++ = inside ? plane[w.row + i] : 0;
            }
        }
    }
}

// The opposite: adds every column to where it came from.
static void scatter(const unfolded *u, const double *cols, int64_t begin, int64_t end, double *x) {
    const plb_conv_shape *s = &u->s;
    for (int64_t row = 0; row < u->c * u->taps; row++) {
        double *plane = x + row / u->taps * u->x_plane;
        walk w = walk_of(s, row % u->taps, begin, end);
        for (int64_t n; (n = next_run(&w));) {
            for (int64_t j = 0, i = w.column; j < n; j++, i += s->stride[2], cols++) {
                if (w.row >= 0 && i >= 0 && i < s->in[2]) plane[w.row + i] += *cols;
            }
        }
    }
}

// ---------------------------------------------------------------------------- the three ops
static const double *data_of(const plb_call *call, int k) {
    return k < call->n_in ? call->in[k].data : NULL;
}

static void finish(const unfolded *u, const plb_call *call, int64_t plane, int64_t begin,
                   int64_t end) {
    const double *bias = data_of(call, BIAS), *residual = data_of(call, RESIDUAL);
    for (int64_t k = 0; k < u->k; k++) {
        const int64_t at = (plane + k) * u->positions + begin, channel = (plane + k) % u->s.k;
        plb_blas_finish((double *)call->out[0].data + at, end - begin, bias ? bias + channel : NULL,
                        0, residual ? residual + at : NULL, &u->epilogue);
    }
}

// One image and group. Where the residual lies in y's memory the product is added to it.
static void run_forward(const unfolded *u, const plb_call *call, int64_t item, double *cols) {
    const int64_t group = item % u->s.groups, depth = u->c * u->taps;
    const double *x = (const double *)call->in[0].data + item * u->c * u->x_plane;
    const double *w = (const double *)call->in[1].data + group * u->k * depth;
    double *y = (double *)call->out[0].data + item * u->k * u->positions;
    const double *residual = data_of(call, RESIDUAL);
    const bool in_place = residual && residual == call->out[0].data;
    for (int64_t begin = 0, end; begin < u->positions; begin = end) {
        end = least(begin + u->block, u->positions);
        gather(u, x, u->c, begin, end, cols);
        plb_gemm_run(&(plb_gemm){.m = u->k,
                                 .n = end - begin,
                                 .k = depth,
                                 .a = w,
                                 .lda = depth,
                                 .b = cols,
                                 .ldb = end - begin,
                                 .c = y + begin,
                                 .ldc = u->positions,
                                 .beta = in_place});
        plb_call rest = *call;
        if (in_place && rest.n_in > RESIDUAL) rest.n_in = RESIDUAL; // added by beta
        finish(u, &rest, item * u->k, begin, end);
    }
}

static void run_input_grad(const unfolded *u, const plb_call *call, int64_t item, double *cols) {
    const int64_t group = item % u->s.groups, depth = u->c * u->taps;
    const double *dy = (const double *)call->in[0].data + item * u->k * u->positions;
    const double *w = (const double *)call->in[1].data + group * u->k * depth;
    double *dx = (double *)call->out[0].data + item * u->c * u->x_plane;
    memset(dx, 0, (size_t)(u->c * u->x_plane) * sizeof *dx);
    for (int64_t begin = 0, end; begin < u->positions; begin = end) {
        end = least(begin + u->block, u->positions);
        plb_gemm_run(&(plb_gemm){.trans_a = true,
                                 .m = depth,
                                 .n = end - begin,
                                 .k = u->k,
                                 .a = w,
                                 .lda = depth,
                                 .b = dy + begin,
                                 .ldb = u->positions,
                                 .c = cols,
                                 .ldc = end - begin});
        scatter(u, cols, begin, end, dx);
    }
}

// Some channels of x of one group, over all images.
static void run_weight_grad(const unfolded *u, const plb_call *call, int64_t item, double *cols) {
    const int64_t group = item / u->parts, part = item % u->parts, depth = u->c * u->taps;
    const int64_t first = u->c * part / u->parts, n = u->c * (part + 1) / u->parts - first;
    double *dw = (double *)call->out[0].data + group * u->k * depth + first * u->taps;
    bool begun = false;
    for (int64_t image = 0; image < u->s.n; image++) {
        const int64_t place = image * u->s.groups + group;
        const double *x = (const double *)call->in[0].data + (place * u->c + first) * u->x_plane;
        const double *dy = (const double *)call->in[1].data + place * u->k * u->positions;
        for (int64_t begin = 0, end; begin < u->positions; begin = end) {
            end = least(begin + u->block, u->positions);
            gather(u, x, n, begin, end, cols);
            plb_gemm_run(&(plb_gemm){.trans_b = true,
                                     .m = u->k,
                                     .n = n * u->taps,
                                     .k = end - begin,
                                     .a = dy + begin,
                                     .lda = u->positions,
                                     .b = cols,
                                     .ldb = end - begin,
                                     .c = dw,
                                     .ldc = depth,
                                     .beta = begun});
            begun = true;
        }
    }
}

static int64_t cols_elements(const unfolded *u) {
    return (u->c * u->taps * u->block + 7) / 8 * 8; // a cache line each
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const unfolded *u = state;
    const int threads = call->threads;
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int t = 0; t < threads; t++) {
        double *cols = (double *)call->workspace + t * cols_elements(u);
        const int64_t end = u->items * (t + 1) / threads;
        for (int64_t i = u->items * t / threads; i < end; i++) {
            switch (u->op) {
            case PLB_OP_conv: run_forward(u, call, i, cols); break;
            case PLB_OP_conv_input_grad: run_input_grad(u, call, i, cols); break;
            default: run_weight_grad(u, call, i, cols); break;
            }
        }
    }
    return PLB_OK;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "blas has one variant, found %s", choice);
    unfolded *u = plb_alloc(sizeof *u);
    if (!u) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    plb_status status = unfold(q, u);
    if (status) {
        plb_free(u);
        return status;
    }
    const size_t cols_bytes = (size_t)cols_elements(u) * sizeof(double);
    *out = (plb_launch){.state = u,
                        .release = plb_free,
                        .run = run,
                        .workspace_bytes = (size_t)q->threads * cols_bytes,
                        .flops = plb_conv_flops(&u->s)};
    return PLB_OK;
}

const plb_kernel plb_cpu_conv_blas = {
    .name = "blas", .op = PLB_OP_conv, .refuse = plb_blas_refuse, .prepare = prepare};
