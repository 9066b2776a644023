// SPDX-License-Identifier: Apache-2.0
// Recurrent layers of f32. The recurrence is one chain, so that a step is as long as the product
// with R takes to read it. R lies transposed: the library copies and turns what it is to read
// across, at every step (16 sequences, a state of 512, two threads: 1057 us, and 208 of this). Few
// sequences: each element of the state adds its scaled row to all gates; many: one product a step,
// which shares R among them.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/dnnl.h"
#include "engine/device/cpu/vec.h"
#include "plumb/ops.h"

enum { X, R, H0, C0, RB };
enum { FEW = 4, TILE = 16 };

typedef struct recurrent {
    const plb_vec *vec;
    plb_recurrent_attrs attrs;
    int64_t steps, batch, hidden, rows; // rows: of all gates
} recurrent;

static const char *refuse(const plb_query *q) {
    for (int k = 0; k < q->n_in; k++) {
        if (q->in[k].dtype == PLB_DTYPE_COUNT) continue;
        if (q->in[k].dtype != PLB_F32) return "f32 only";
        if (!plb_tensor_is_dense(&q->in[k])) return "an operand has gaps";
        if (q->in[k].layout.kind != PLB_LAYOUT_PLAIN) return "plain only";
        if (plb_shape_count(&q->in[k].shape) == 0) return "an operand is empty";
    }
    return NULL;
}

// R transposed: [H][rows].
static plb_status pack(void *state, const plb_call *call, void *packed, plb_stream *stream) {
    (void)stream;
    const recurrent *s = state;
    const float *r = call->in[R].data;
    float *to = packed;
    for (int64_t first = 0; first < s->rows; first += TILE) {
        const int64_t end = first + TILE < s->rows ? first + TILE : s->rows;
        for (int64_t k = 0; k < s->hidden; k++) {
            for (int64_t row = first; row < end; row++) {
                to[k * s->rows + row] = r[row * s->hidden + k];
            }
        }
    }
    return PLB_OK;
}

// a[B,rows] += h[B,H] R^T, of rows [first, rows) alone.
static plb_status add_product(const recurrent *s, const plb_call *call, const float *h, float *a,
                              int64_t first) {
    const int64_t n = s->rows - first, hidden = s->hidden;
    const float *packed = call->packed;
    if (s->batch > FEW) {
        return plb_dnnl_product(&(plb_dnnl_gemm){.m = s->batch,
                                                 .n = n,
                                                 .k = hidden,
                                                 .alpha = 1,
                                                 .beta = 1,
                                                 .a = h,
                                                 .lda = hidden,
                                                 .b = packed + first,
                                                 .ldb = s->rows,
                                                 .c = a + first,
                                                 .ldc = s->rows});
    }
    for (int64_t b = 0; b < s->batch; b++) {
        float *to = a + b * s->rows + first;
        for (int64_t k = 0; k < hidden; k++) {
            s->vec->add_scaled(to, packed + k * s->rows + first, h[b * hidden + k], n);
        }
    }
    return PLB_OK;
}

static void apply(const recurrent *s, plb_op_id op, float *y, int64_t n) {
    s->vec->op[op](&(plb_vec_args){.a = y, .b = y, .c = y, .y = y, .n = n});
}

// Gates i o f g of one sequence. `fresh` holds H.
static void end_lstm(const recurrent *s, float *a, float *c, float *h, float *fresh) {
    const int64_t n = s->hidden;
    const float *i = a, *o = a + n, *f = a + 2 * n, *g = a + 3 * n;
    apply(s, PLB_OP_sigmoid, a, 3 * n);
    apply(s, PLB_OP_tanh, a + 3 * n, n);
    for (int64_t j = 0; j < n; j++) c[j] = f[j] * c[j] + i[j] * g[j];
    memcpy(fresh, c, (size_t)n * sizeof *c);
    apply(s, PLB_OP_tanh, fresh, n);
    for (int64_t j = 0; j < n; j++) h[j] = o[j] * fresh[j];
}

// h = n + z (before - n); gates z and n are ready in `a`.
static void end_gru(const recurrent *s, const float *a, const float *before, float *h) {
    const int64_t n = s->hidden;
    const float *z = a, *fresh = a + 2 * n;
    for (int64_t j = 0; j < n; j++) h[j] = fresh[j] + z[j] * (before[j] - fresh[j]);
}

// x's part of gate n waits in `later` [B,H] while the products with the state are made.
static plb_status step_gru(const recurrent *s, const plb_call *call, const float *before, float *a,
                           float *later, float *h) {
    const int64_t n = s->hidden, rows = s->rows;
    const bool after = s->attrs.kind == PLB_GRU_RESET_AFTER;
    const float *rb = call->n_in > RB ? call->in[RB].data : NULL;
    for (int64_t b = 0; b < s->batch; b++) {
        float *gate = a + b * rows + 2 * n;
        memcpy(later + b * n, gate, (size_t)n * sizeof *gate);
        for (int64_t j = 0; j < n; j++) gate[j] = rb ? rb[2 * n + j] : 0;
    }
    PLB_TRY(add_product(s, call, before, a, 0));
    for (int64_t b = 0; b < s->batch; b++) {
        float *gate = a + b * rows;
        apply(s, PLB_OP_sigmoid, gate, 2 * n);
        for (int64_t j = 0; j < n && after; j++) gate[2 * n + j] *= gate[n + j];
        for (int64_t j = 0; j < n && !after; j++) { // the product is made again, of r h
            h[b * n + j] = gate[n + j] * before[b * n + j];
            gate[2 * n + j] = rb ? rb[2 * n + j] : 0;
        }
    }
    if (!after) PLB_TRY(add_product(s, call, h, a, 2 * n));
    for (int64_t b = 0; b < s->batch; b++) {
        float *gate = a + b * rows;
        for (int64_t j = 0; j < n; j++) gate[2 * n + j] += later[b * n + j];
        apply(s, PLB_OP_tanh, gate + 2 * n, n);
        end_gru(s, gate, before + b * n, h + b * n);
    }
    return PLB_OK;
}

// x[t] with the biases of all gates but GRU's n, which stands with the state's product.
static void begin(const recurrent *s, const plb_call *call, int64_t t, float *a) {
    const int64_t rows = s->rows;
    const float *rb = call->n_in > RB ? call->in[RB].data : NULL;
    const bool gru = s->attrs.kind == PLB_GRU || s->attrs.kind == PLB_GRU_RESET_AFTER;
    const int64_t biased = gru ? 2 * s->hidden : rows;
    memcpy(a, (const float *)call->in[X].data + t * s->batch * rows,
           (size_t)(s->batch * rows) * sizeof *a);
    for (int64_t b = 0; b < s->batch && rb; b++) {
        for (int64_t j = 0; j < biased; j++) a[b * rows + j] += rb[j];
    }
}

static plb_status run_step(const recurrent *s, const plb_call *call, const float *before, float *a,
                           float *later, float *h) {
    const int64_t n = s->hidden;
    if (s->attrs.kind == PLB_GRU || s->attrs.kind == PLB_GRU_RESET_AFTER) {
        return step_gru(s, call, before, a, later, h);
    }
    PLB_TRY(add_product(s, call, before, a, 0));
    for (int64_t b = 0; b < s->batch; b++) {
        float *gate = a + b * s->rows;
        if (s->attrs.kind == PLB_LSTM) {
            end_lstm(s, gate, (float *)call->out[2].data + b * n, h + b * n, later);
            continue;
        }
        apply(s, s->attrs.kind == PLB_RNN_RELU ? PLB_OP_relu : PLB_OP_tanh, gate, n);
        memcpy(h + b * n, gate, (size_t)n * sizeof *h);
    }
    return PLB_OK;
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const recurrent *s = state;
    const int64_t size = s->batch * s->hidden;
    float *a = call->workspace, *later = a + s->batch * s->rows, *y = call->out[0].data;
    const float *before = call->in[H0].data;
    const bool lstm = s->attrs.kind == PLB_LSTM;
    if (lstm) memcpy(call->out[2].data, call->in[C0].data, (size_t)size * sizeof *a);
    for (int64_t i = 0; i < s->steps; i++) {
        const int64_t t = s->attrs.reverse ? s->steps - 1 - i : i;
        begin(s, call, t, a);
        PLB_TRY(run_step(s, call, before, a, later, y + t * size));
        before = y + t * size;
    }
    memcpy(call->out[1].data, before, (size_t)size * sizeof *a);
    return PLB_OK;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "steps has one variant, found %s", choice);
    recurrent *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    const int64_t *x = q->in[X].shape.dim;
    *s = (recurrent){.vec = plb_vec_of(plb_cpu_isa()),
                     .attrs = *(const plb_recurrent_attrs *)q->attrs,
                     .steps = x[0],
                     .batch = x[1],
                     .rows = x[2],
                     .hidden = q->in[R].shape.dim[1]};
    const double elements = (double)(s->steps * s->batch * s->rows);
    *out =
        (plb_launch){.state = s,
                     .release = plb_free,
                     .run = run,
                     .workspace_bytes = (size_t)(s->batch * (s->rows + s->hidden)) * sizeof(float),
                     .flops = elements * (2 * (double)s->hidden + 8),
                     .pack = pack,
                     .packed_bytes = (size_t)(s->rows * s->hidden) * sizeof(float),
                     .packed_inputs = 1u << R};
    return PLB_OK;
}

const plb_kernel plb_cpu_recurrent = {
    .name = "steps", .op = PLB_OP_recurrent, .refuse = refuse, .prepare = prepare};
