// SPDX-License-Identifier: Apache-2.0
// sort and top_k of a plain operand. Elements become keys in the wanted order (order.h). Few of
// many: entries that cannot be among them any more are passed over.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/nest.h"
#include "engine/device/cpu/order.h"
#include "engine/tensor/convert.h"
#include "plumb/ops.h"

typedef struct sort {
    int64_t outer, extent, inner; // x[outer, extent, inner]
    int64_t kept;                 // of a line
    bool descending;
    int64_t room; // entries of a buffer; each thread has two
} sort;

enum { BLOCK = 64 }; // elements that are looked at together
enum { FEW = 8 };    // top_k of less than an eighth need not sort all
enum { FEWEST = 24 };

// ---------------------------------------------------------------------------- keys
static uint64_t key_of_i64(int64_t x) {
    return (uint64_t)x ^ UINT64_C(1) << 63;
}

// Of up to BLOCK elements, `stride` apart.
#define KEYS(type, expression)                           \
    for (int64_t i = 0; i < n; i++) {                    \
        const type a = ((const type *)from)[i * stride]; \
        to[i] = (expression) ^ turn;                     \
    }                                                    \
    break
static void take_keys(uint64_t *to, plb_dtype dtype, const void *from, int64_t stride, int64_t n,
                      bool descending) {
    const uint64_t turn = descending ? UINT64_MAX : 0;
    switch (dtype) {
    case PLB_F32: KEYS(float, plb_key_of_f32(a));
    case PLB_F64: KEYS(double, plb_key_of_f64(a));
    case PLB_F16: KEYS(uint16_t, plb_key_of_f32(plb_f32_of_f16(a)));
    case PLB_BF16: KEYS(uint16_t, plb_key_of_f32(plb_f32_of_bf16(a)));
    case PLB_I32: KEYS(int32_t, key_of_i64(a));
    case PLB_I64: KEYS(int64_t, key_of_i64(a));
    case PLB_U64: KEYS(uint64_t, a);
    default:
        for (int64_t i = 0; i < n; i++) {
            to[i] = key_of_i64(plb_load_i64(from, dtype, i * stride)) ^ turn;
        }
    }
}
#undef KEYS

// Keys of a block of the line that begins at x[base]; returns how many.
static int64_t take_block(const sort *s, const plb_tensor *x, int64_t base, int64_t first,
                          uint64_t keys[BLOCK]) {
    const int64_t left = s->extent - first, n = left < BLOCK ? left : BLOCK;
    const size_t size = plb_dtype_size(x->dtype);
    take_keys(keys, x->dtype, (const char *)x->data + (size_t)(base + first * s->inner) * size,
              s->inner, n, s->descending);
    return n;
}

// ---------------------------------------------------------------------------- lines
static bool any_below(const uint64_t *keys, int64_t n, uint64_t bound) {
    int below = 0;
    for (int64_t j = 0; j < n; j++) below |= keys[j] < bound;
    return below;
}

// The `kept` first of a line, sorted: of what comes later only keys below the last one kept count.
static plb_entry *first_of_line(const sort *s, const plb_tensor *x, int64_t base, plb_entry *e,
                                plb_entry *other) {
    const int64_t kept = s->kept, most = s->room - BLOCK;
    uint64_t bound = UINT64_MAX, keys[BLOCK];
    bool full = false;
    int64_t n = 0;
    for (int64_t i = 0; i < s->extent; i += BLOCK) {
        const int64_t taken = take_block(s, x, base, i, keys);
        if (!full || any_below(keys, taken, bound)) {
            for (int64_t j = 0; j < taken; j++) {
                if (!full || keys[j] < bound) e[n++] = (plb_entry){keys[j], i + j};
            }
        }
        if (n <= most && i + taken < s->extent) continue;
        plb_entry *sorted = plb_order_sort(e, other, n);
        if (sorted != e) other = e, e = sorted;
        if (n >= kept) n = kept, full = true, bound = e[kept - 1].key;
    }
    return e;
}

// The same where it pays to put each entry in its place at once.
static plb_entry *fewest_of_line(const sort *s, const plb_tensor *x, int64_t base, plb_entry *e) {
    uint64_t keys[BLOCK];
    int64_t n = 0;
    for (int64_t i = 0; i < s->extent; i += BLOCK) {
        const int64_t taken = take_block(s, x, base, i, keys);
        if (n == s->kept && !any_below(keys, taken, e[n - 1].key)) continue;
        for (int64_t j = 0; j < taken; j++) {
            if (n == s->kept && keys[j] >= e[n - 1].key) continue;
            int64_t to = n < s->kept ? n++ : n - 1; // the last one goes
            for (; to > 0 && e[to - 1].key > keys[j]; to--) e[to] = e[to - 1];
            e[to] = (plb_entry){keys[j], i + j};
        }
    }
    return e;
}

static plb_entry *sort_line(const sort *s, const plb_tensor *x, int64_t base, plb_entry *e) {
    if (s->kept <= FEWEST && s->room < s->extent) return fewest_of_line(s, x, base, e);
    if (s->room < s->extent) return first_of_line(s, x, base, e, e + s->room);
    for (int64_t i = 0; i < s->extent; i += BLOCK) {
        uint64_t keys[BLOCK];
        const int64_t n = take_block(s, x, base, i, keys);
        for (int64_t j = 0; j < n; j++) e[i + j] = (plb_entry){keys[j], i + j};
    }
    return plb_order_sort(e, e + s->room, s->extent);
}

// ---------------------------------------------------------------------------- the kernel
static void put_line(const sort *s, const plb_call *call, int64_t from, int64_t to,
                     const plb_entry *e) {
    const plb_tensor *x = &call->in[0], *values = &call->out[0];
    const size_t size = plb_dtype_size(x->dtype);
    int64_t *indices = call->out[1].data;
    for (int64_t i = 0; i < s->kept; i++) {
        indices[to + i * s->inner] = e[i].at;
        memcpy((char *)values->data + (size_t)(to + i * s->inner) * size,
               (const char *)x->data + (size_t)(from + e[i].at * s->inner) * size, size);
    }
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const sort *s = state;
    const int64_t lines = s->outer * s->inner;
    if (lines * s->kept == 0) return PLB_OK;
    int threads = plb_worth_threads(8 * lines * s->extent, call->threads);
    if (threads > lines) threads = (int)lines;
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int t = 0; t < threads; t++) {
        const plb_span span = plb_span_of(lines, t, threads);
        plb_entry *mine = (plb_entry *)call->workspace + (int64_t)t * 2 * s->room;
        for (int64_t i = span.begin; i < span.end; i++) {
            const int64_t outer = i / s->inner, inner = i % s->inner;
            const int64_t from = outer * s->extent * s->inner + inner;
            const plb_entry *e = sort_line(s, &call->in[0], from, mine);
            put_line(s, call, from, outer * s->kept * s->inner + inner, e);
        }
    }
    return PLB_OK;
}

static const char *refuse(const plb_query *q) {
    const plb_tensor *operands[] = {&q->in[0], &q->out[0], &q->out[1]};
    for (int k = 0; k < 3; k++) {
        if (operands[k]->layout.kind != PLB_LAYOUT_PLAIN || !plb_tensor_is_dense(operands[k])) {
            return "plain only";
        }
    }
    return NULL;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "sort has one variant, found %s", choice);
    const plb_axis_attrs *attrs = q->attrs;
    const plb_shape *shape = &q->in[0].shape;
    sort *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    *s = (sort){.outer = 1, .extent = 1, .inner = 1, .descending = attrs->descending != 0};
    for (int i = 0; i < shape->rank; i++) {
        *(i < attrs->axis ? &s->outer : i > attrs->axis ? &s->inner : &s->extent) *= shape->dim[i];
    }
    s->kept = q->op == PLB_OP_top_k ? attrs->k : s->extent;
    s->room = s->extent;
    // Twice what is kept, so that it is sorted seldom.
    if (s->kept < s->extent / FEW) s->room = 2 * s->kept + 2 * BLOCK;
    if (s->room > s->extent) s->room = s->extent;
    int64_t threads = s->outer * s->inner < q->threads ? s->outer * s->inner : q->threads;
    if (threads < 1) threads = 1;
    const double count = (double)plb_shape_count(shape);
    const double size = (double)plb_dtype_size(q->in[0].dtype);
    const double made = (double)(s->outer * s->kept * s->inner);
    *out = (plb_launch){.state = s,
                        .release = plb_free,
                        .run = run,
                        .workspace_bytes = (size_t)(threads * 2 * s->room) * sizeof(plb_entry),
                        .flops = count,
                        .bytes = count * size + made * (size + sizeof(int64_t))};
    return PLB_OK;
}

const plb_kernel plb_cpu_sort = {
    .name = "keys", .op = PLB_OP_sort, .refuse = refuse, .prepare = prepare};
