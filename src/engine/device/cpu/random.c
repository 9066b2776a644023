// SPDX-License-Identifier: Apache-2.0
// dropout and random numbers of f32: Philox by blocks of words, the same numbers as the reference.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "engine/device/cpu/copy.h"
#include "engine/device/cpu/vec.h"
#include "engine/ops/random.h"

enum { WORDS = 1024 }; // at a time; a multiple of a block's four

typedef struct generator {
    const plb_vec *vec;
    const plb_call *call;
    uint64_t key, step;
} generator;

// Words of the elements [begin, begin + n), begin a multiple of four.
static void draw(const generator *g, int64_t begin, int64_t n, uint32_t *words) {
    g->vec->philox(words, g->key, (uint64_t)begin / 4, g->step, (n + 3) / 4);
}

static generator generator_of(const plb_vec *vec, const plb_call *call, int state) {
    const uint64_t *words = call->in[state].data;
    const plb_random_attrs *a = call->attrs;
    return (generator){vec, call, plb_random_key(words, a->id), words[1]};
}

// Calls `work` for pieces of the logical row-major order, shared among the threads.
static void each_piece(const generator *g, int64_t count,
                       void (*work)(const generator *g, int64_t begin, int64_t n,
                                    const uint32_t *words)) {
    const int64_t pieces = (count + WORDS - 1) / WORDS;
    const int threads = plb_worth_threads(4 * count, g->call->threads);
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        const plb_span span = plb_span_of(pieces, i, threads);
        uint32_t words[WORDS];
        for (int64_t p = span.begin; p < span.end; p++) {
            const int64_t begin = p * WORDS, n = count - begin < WORDS ? count - begin : WORDS;
            draw(g, begin, n, words);
            work(g, begin, n, words);
        }
    }
}

// ---------------------------------------------------------------------------- dropout
// Kept where the uniform number, 24 bits of the word, is at least p.
static int32_t least_of(double p) {
    return (int32_t)ceil(p * 0x1p24);
}

static float scale_of(double p) {
    return p < 1 ? (float)(1 / (1 - p)) : 0;
}

static void dropout_dense(const generator *g, int64_t begin, int64_t n, const uint32_t *words) {
    const double p = ((const plb_random_attrs *)g->call->attrs)->p;
    g->vec->drop((float *)g->call->out[0].data + begin, (const float *)g->call->in[0].data + begin,
                 words, least_of(p), scale_of(p), n);
}

static bool plain(const plb_tensor *t) {
    return t->layout.kind == PLB_LAYOUT_PLAIN && plb_tensor_is_dense(t);
}

static void keep_words(const generator *g, int64_t begin, int64_t n, const uint32_t *words) {
    memcpy((uint32_t *)g->call->workspace + begin, words, (size_t)n * sizeof *words);
}

// Both operands in one other order than that of the numbers, whose words go there first.
static void dropout_reordered(const generator *g) {
    const plb_tensor *y = &g->call->out[0];
    const int64_t count = plb_shape_count(&y->shape);
    const double p = ((const plb_random_attrs *)g->call->attrs)->p;
    float *words = g->call->workspace;
    const plb_tensor from = plb_tensor_dense(words, PLB_F32, &y->shape, (plb_layout){0});
    const plb_tensor to = plb_tensor_dense(words + count, PLB_F32, &y->shape, y->layout);
    each_piece(g, count, keep_words);
    plb_copy_strided(&to, &from, g->call->threads); // bits, not numbers
    const int threads = plb_worth_threads(count, g->call->threads);
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        const plb_span span = plb_span_of(count, i, threads);
        g->vec->drop((float *)y->data + span.begin, (const float *)g->call->in[0].data + span.begin,
                     (const uint32_t *)to.data + span.begin, least_of(p), scale_of(p),
                     span.end - span.begin);
    }
}

// One word a channel: rows of one channel, or of all channels, share theirs.
static void channel_rows(const generator *g, plb_span samples, int64_t channels, int64_t pixels) {
    const double p = ((const plb_random_attrs *)g->call->attrs)->p;
    const int32_t least = least_of(p);
    const bool last = g->call->out[0].layout.kind == PLB_LAYOUT_NHWC;
    for (int64_t n = samples.begin; n < samples.end; n++) {
        const uint32_t *words = (const uint32_t *)g->call->workspace + n * channels;
        const float *x = (const float *)g->call->in[0].data + n * channels * pixels;
        float *y = (float *)g->call->out[0].data + n * channels * pixels;
        for (int64_t i = 0; i < pixels && last; i++, x += channels, y += channels) {
            g->vec->drop(y, x, words, least, scale_of(p), channels);
        }
        for (int64_t c = 0; c < channels && !last; c++, x += pixels, y += pixels) {
            const bool keep = (int32_t)(words[c] >> 8) >= least;
            if (keep) g->vec->scale(y, x, scale_of(p), 0, pixels);
            if (!keep) memset(y, 0, (size_t)pixels * sizeof *y);
        }
    }
}

static void dropout_channels(const generator *g) {
    const plb_shape *shape = &g->call->out[0].shape;
    const int64_t samples = shape->dim[0], channels = shape->dim[1];
    const int64_t count = plb_shape_count(shape);
    if (count == 0) return;
    each_piece(g, samples * channels, keep_words);
    const int threads = plb_worth_threads(count, g->call->threads);
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        channel_rows(g, plb_span_of(samples, i, threads), channels, count / (samples * channels));
    }
}

static plb_status run_dropout(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const generator g = generator_of(state, call, 1);
    if (((const plb_random_attrs *)call->attrs)->channels) {
        dropout_channels(&g);
    } else if (plain(&call->out[0])) {
        each_piece(&g, plb_shape_count(&call->in[0].shape), dropout_dense);
    } else {
        dropout_reordered(&g);
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- numbers
static void uniform(const generator *g, int64_t begin, int64_t n, const uint32_t *words) {
    const plb_random_attrs *a = g->call->attrs;
    float *y = (float *)g->call->out[0].data + begin;
    const double low = a->low, range = a->high - a->low;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        y[i] = (float)(low + range * ((double)(int32_t)(words[i] >> 8) * 0x1p-24));
    }
}

// Where rounding would reach the upper bound.
static void uniform_below(const generator *g, int64_t begin, int64_t n, const uint32_t *words) {
    const plb_random_attrs *a = g->call->attrs;
    float *y = (float *)g->call->out[0].data + begin;
    const float most = (float)plb_uniform_most(PLB_F32, a->low, a->high);
    uniform(g, begin, n, words);
    for (int64_t i = 0; i < n; i++) y[i] = y[i] > most ? most : y[i];
}

// Pairs of words give pairs of numbers; the last may want one of them only.
static void normal(const generator *g, int64_t begin, int64_t n, const uint32_t *words) {
    const plb_random_attrs *a = g->call->attrs;
    float *y = (float *)g->call->out[0].data + begin;
    for (int64_t i = 0; i < n; i += 2) {
        const double radius = sqrt(-2 * log(plb_uniform_open(words[i])));
        const double angle = 6.283185307179586 * plb_uniform_open(words[i + 1]);
        y[i] = (float)(a->low + a->high * (radius * cos(angle)));
        if (i + 1 < n) y[i + 1] = (float)(a->low + a->high * (radius * sin(angle)));
    }
}

static plb_status run_uniform(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const generator g = generator_of(state, call, 0);
    const plb_random_attrs *a = call->attrs;
    const bool reaches = plb_uniform_reaches(PLB_F32, a->low, a->high);
    each_piece(&g, plb_shape_count(&call->out[0].shape), reaches ? uniform_below : uniform);
    return PLB_OK;
}

static plb_status run_normal(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const generator g = generator_of(state, call, 0);
    each_piece(&g, plb_shape_count(&call->out[0].shape), normal);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- the kernel
static const char *refuse(const plb_query *q) {
    const plb_tensor *x = &q->in[0], *y = &q->out[0];
    if (y->dtype != PLB_F32) return "f32 only";
    if (q->op != PLB_OP_dropout) return plain(y) ? NULL : "plain only";
    if (y->layout.kind == PLB_LAYOUT_BLOCKED) return "no blocked layouts";
    bool alike = plb_layout_equal(x->layout, y->layout) && plb_tensor_is_dense(x);
    return alike && plb_tensor_is_dense(y) ? NULL : "the operands lie in different orders";
}

static size_t workspace_for(const plb_query *q) {
    const size_t count = (size_t)plb_shape_count(&q->out[0].shape);
    if (q->op != PLB_OP_dropout) return 0;
    if (((const plb_random_attrs *)q->attrs)->channels) {
        return (size_t)(q->out[0].shape.dim[0] * q->out[0].shape.dim[1]) * sizeof(uint32_t);
    }
    return plain(&q->out[0]) ? 0 : 2 * count * sizeof(uint32_t);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "philox has one variant, found %s", choice);
    const double count = (double)plb_shape_count(&q->out[0].shape);
    *out = (plb_launch){.state = (void *)plb_vec_of(plb_cpu_isa()),
                        .run = q->op == PLB_OP_dropout          ? run_dropout
                               : q->op == PLB_OP_random_uniform ? run_uniform
                                                                : run_normal,
                        .workspace_bytes = workspace_for(q),
                        .flops = count,
                        .bytes = (q->op == PLB_OP_dropout ? 2 : 1) * count * sizeof(float)};
    return PLB_OK;
}

const plb_kernel plb_cpu_random = {
    .name = "philox", .op = PLB_OP_dropout, .refuse = refuse, .prepare = prepare};
