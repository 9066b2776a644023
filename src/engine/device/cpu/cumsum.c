// SPDX-License-Identifier: Apache-2.0
// cumsum of a plain operand: sums go along rows of `inner` elements that lie side by side, many
// columns at a time, so that the loop over them is vector code. Where the axis is the last one,
// four lines go at once: the sums of one line wait for each other.
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/nest.h"
#include "plumb/ops.h"

enum { COLUMNS = 256, LINES = 4 };

typedef struct cumsum {
    int64_t outer, extent, inner; // x[outer, extent, inner]
    int64_t step, begin;          // along the axis, in elements; of the first element
    bool exclusive;
    void (*columns)(const struct cumsum *s, const void *x, void *y, int64_t n);
    void (*lines)(const struct cumsum *s, const void *x, void *y, int64_t n);
    size_t size;
} cumsum;

// columns: n of them, beside each other; lines: n of them, one behind the other. Integers wrap, so
// they are summed without a sign.
#define DEFINE(name, type, sum_type)                                                      \
    static void columns_##name(const cumsum *s, const void *x, void *y, int64_t n) {      \
        sum_type sum[COLUMNS];                                                            \
        for (int64_t j = 0; j < n; j++) sum[j] = 0;                                       \
        for (int64_t i = 0; i < s->extent; i++) {                                         \
            const type *from = (const type *)x + s->begin + i * s->step;                  \
            type *to = (type *)y + s->begin + i * s->step;                                \
            if (s->exclusive) {                                                           \
                _Pragma("omp simd") for (int64_t j = 0; j < n; j++) {                     \
                    sum_type before = sum[j];                                             \
                    sum[j] = before + (sum_type)from[j];                                  \
                    to[j] = (type)before;                                                 \
                }                                                                         \
            } else {                                                                      \
                _Pragma("omp simd") for (int64_t j = 0; j < n; j++) {                     \
                    sum[j] += (sum_type)from[j];                                          \
                    to[j] = (type)sum[j];                                                 \
                }                                                                         \
            }                                                                             \
        }                                                                                 \
    }                                                                                     \
    static void lines_##name(const cumsum *s, const void *x, void *y, int64_t n) {        \
        sum_type sum[LINES] = {0};                                                        \
        for (int64_t i = 0; i < s->extent; i++) {                                         \
            const int64_t at = s->begin + i * s->step;                                    \
            for (int64_t j = 0; j < n; j++) {                                             \
                sum_type before = sum[j];                                                 \
                sum[j] = before + (sum_type)((const type *)x)[at + j * s->extent];        \
                ((type *)y)[at + j * s->extent] = (type)(s->exclusive ? before : sum[j]); \
            }                                                                             \
        }                                                                                 \
    }
DEFINE(f32, float, double)
DEFINE(f64, double, double)
DEFINE(i32, uint32_t, uint32_t)
DEFINE(i64, uint64_t, uint64_t)
#undef DEFINE

// A piece: up to COLUMNS columns of one outer index, or up to LINES lines.
static int64_t pieces_of(const cumsum *s) {
    if (s->inner == 1) return (s->outer + LINES - 1) / LINES;
    return s->outer * ((s->inner + COLUMNS - 1) / COLUMNS);
}

static void run_piece(const cumsum *s, const char *x, char *y, int64_t piece) {
    if (s->inner == 1) {
        const int64_t first = piece * LINES, left = s->outer - first;
        const size_t at = (size_t)(first * s->extent) * s->size;
        s->lines(s, x + at, y + at, left < LINES ? left : LINES);
        return;
    }
    const int64_t parts = (s->inner + COLUMNS - 1) / COLUMNS;
    const int64_t column = piece % parts * COLUMNS, left = s->inner - column;
    const size_t at = (size_t)(piece / parts * s->extent * s->inner + column) * s->size;
    s->columns(s, x + at, y + at, left < COLUMNS ? left : COLUMNS);
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const cumsum *s = state;
    if (s->outer * s->extent * s->inner == 0) return PLB_OK;
    const int64_t pieces = pieces_of(s);
    int threads = plb_worth_threads(s->outer * s->extent * s->inner, call->threads);
    if (threads > pieces) threads = (int)pieces;
#pragma omp parallel for schedule(static) if (threads > 1)
    for (int64_t i = 0; i < pieces; i++) {
        run_piece(s, call->in[0].data, call->out[0].data, i);
    }
    return PLB_OK;
}

static const char *refuse(const plb_query *q) {
    const plb_dtype dtype = q->in[0].dtype;
    if (dtype != PLB_F32 && dtype != PLB_F64 && dtype != PLB_I32 && dtype != PLB_I64) {
        return "f32, f64, i32 and i64 only";
    }
    const plb_tensor *operands[] = {&q->in[0], &q->out[0]};
    for (int k = 0; k < 2; k++) {
        if (operands[k]->layout.kind != PLB_LAYOUT_PLAIN || !plb_tensor_is_dense(operands[k])) {
            return "plain only";
        }
    }
    return NULL;
}

static void choose_loops(cumsum *s, plb_dtype dtype) {
    s->size = plb_dtype_size(dtype);
    switch (dtype) {
    case PLB_F32: s->columns = columns_f32, s->lines = lines_f32; break;
    case PLB_F64: s->columns = columns_f64, s->lines = lines_f64; break;
    case PLB_I32: s->columns = columns_i32, s->lines = lines_i32; break;
    default: s->columns = columns_i64, s->lines = lines_i64; break;
    }
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "cumsum has one variant, found %s", choice);
    const plb_axis_attrs *attrs = q->attrs;
    const plb_shape *shape = &q->in[0].shape;
    cumsum *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    *s = (cumsum){.outer = 1, .extent = 1, .inner = 1, .exclusive = attrs->exclusive != 0};
    for (int i = 0; i < shape->rank; i++) {
        *(i < attrs->axis ? &s->outer : i > attrs->axis ? &s->inner : &s->extent) *= shape->dim[i];
    }
    s->step = attrs->reverse ? -s->inner : s->inner;
    s->begin = attrs->reverse ? (s->extent - 1) * s->inner : 0;
    choose_loops(s, q->in[0].dtype);
    const double count = (double)plb_shape_count(shape);
    *out = (plb_launch){.state = s,
                        .release = plb_free,
                        .run = run,
                        .flops = count,
                        .bytes = 2 * count * (double)s->size};
    return PLB_OK;
}

const plb_kernel plb_cpu_cumsum = {
    .name = "scan", .op = PLB_OP_cumsum, .refuse = refuse, .prepare = prepare};
