// SPDX-License-Identifier: Apache-2.0
// nonzero of a plain operand. Each thread counts in its part of the elements first; then it knows
// where its rows begin and writes them. Whether an element is zero is asked of its bits.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/nest.h"

enum { MOST_THREADS = 256 };

typedef struct nonzero {
    int64_t count;
    plb_shape shape;
    size_t size;
    uint64_t mask; // of an element's bits: without the sign of a float
} nonzero;

static uint64_t bits_of(const nonzero *s, const void *x, int64_t i) {
    switch (s->size) {
    case 1: return ((const uint8_t *)x)[i];
    case 2: return ((const uint16_t *)x)[i];
    case 4: return ((const uint32_t *)x)[i];
    default: return ((const uint64_t *)x)[i];
    }
}

// The loop once a size, so that the compiler makes vector code of it.
#define COUNT(type)                                       \
    for (int64_t i = span.begin; i < span.end; i++) {     \
        n += (((const type *)x)[i] & (type)s->mask) != 0; \
    }
static int64_t count_in(const nonzero *s, const void *x, plb_span span) {
    int64_t n = 0;
    switch (s->size) {
    case 1: COUNT(uint8_t); break;
    case 2: COUNT(uint16_t); break;
    case 4: COUNT(uint32_t); break;
    default: COUNT(uint64_t); break;
    }
    return n;
}
#undef COUNT

// Writes the rows of the elements in the span; whole rows of x at a time, as only the last index
// moves within one.
static void write_in(const nonzero *s, const void *x, plb_span span, int64_t *to) {
    const int rank = s->shape.rank;
    const int64_t width = rank ? s->shape.dim[rank - 1] : 1;
    int64_t position[PLB_MAX_RANK] = {0};
    for (int64_t i = span.begin; i < span.end;) {
        int64_t rest = i / width, last = i % width;
        for (int k = rank - 2; k >= 0; k--) {
            position[k] = rest % s->shape.dim[k];
            rest /= s->shape.dim[k];
        }
        for (; last < width && i < span.end; last++, i++) {
            if (!(bits_of(s, x, i) & s->mask)) continue;
            for (int k = 0; k < rank - 1; k++) *to++ = position[k];
            if (rank) *to++ = last;
        }
    }
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const nonzero *s = state;
    const void *x = call->in[0].data;
    int64_t *rows = call->out[0].data, found[MOST_THREADS], first[MOST_THREADS + 1] = {0};
    const int rank = s->shape.rank;
    int threads = s->count ? plb_worth_threads(s->count, call->threads) : 1;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        found[i] = count_in(s, x, plb_span_of(s->count, i, threads));
    }
    for (int i = 0; i < threads; i++) first[i + 1] = first[i] + found[i];
    const int64_t n = first[threads];
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        write_in(s, x, plb_span_of(s->count, i, threads), rows + first[i] * rank);
        plb_span rest = plb_span_of((s->count - n) * rank, i, threads);
        if (rest.end == rest.begin) continue;
        memset(rows + n * rank + rest.begin, 0, (size_t)(rest.end - rest.begin) * sizeof *rows);
    }
    *(int64_t *)call->out[1].data = n;
    return PLB_OK;
}

static const char *refuse(const plb_query *q) {
    const plb_tensor *x = &q->in[0];
    return x->layout.kind != PLB_LAYOUT_PLAIN || !plb_tensor_is_dense(x) ? "plain only" : NULL;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "nonzero has one variant, found %s", choice);
    const plb_tensor *x = &q->in[0];
    nonzero *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    *s = (nonzero){
        .count = plb_shape_count(&x->shape), .shape = x->shape, .size = plb_dtype_size(x->dtype)};
    s->mask = UINT64_MAX >> (64 - 8 * s->size);
    if (plb_dtype_is_float(x->dtype)) s->mask >>= 1;
    *out = (plb_launch){.state = s,
                        .release = plb_free,
                        .run = run,
                        .bytes = (double)s->count * (2 * (double)s->size + 8.0 * s->shape.rank)};
    return PLB_OK;
}

const plb_kernel plb_cpu_nonzero = {
    .name = "count", .op = PLB_OP_nonzero, .refuse = refuse, .prepare = prepare};
