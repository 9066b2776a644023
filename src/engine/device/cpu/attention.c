// SPDX-License-Identifier: Apache-2.0
// Attention of f32: a block of queries of one head at a time, so that its scores stay in a cache.
// q, k and v are read where they are as long as features are dense, which they are however heads
// and positions lie: views of what the projections made. The softmax divides the result, which is
// shorter than the scores.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/dnnl.h"
#include "engine/device/cpu/nest.h"
#include "engine/device/cpu/vec.h"
#include "plumb/ops.h"

enum { Q, K, V, MASK };
enum { ROWS = 64, LEAST_ROWS = 16 }; // queries of a block
enum { BLOCK_COST = 8 };             // of one, in queries

typedef struct attention {
    const plb_vec *vec;
    int64_t batches, heads, queries, keys, features, values;
    int64_t rows, blocks; // queries of a block; blocks of a head
    float scale;
    bool zero_masked;
    int threads;
} attention;

// Heads are factors of a library's products: rows of features that do not overlap, one after the
// other. The stride of a single element means nothing.
static const char *refuse_strides(const plb_tensor *t) {
    const int64_t *dim = t->shape.dim, *stride = t->stride;
    if (dim[3] > 1 && stride[3] != 1) return "features are not dense";
    for (int i = 0; i < 4; i++) {
        if (dim[i] > 1 && stride[i] < 0) return "a negative stride";
    }
    return dim[2] > 1 && stride[2] < dim[3] ? "rows overlap" : NULL;
}

static const char *refuse(const plb_query *q) {
    for (int k = 0; k < q->n_in; k++) {
        if (q->in[k].dtype == PLB_DTYPE_COUNT) continue;
        if (q->in[k].dtype != PLB_F32) return "f32 only";
        if (q->in[k].layout.kind == PLB_LAYOUT_BLOCKED) return "no blocked layouts";
        const char *strides = k <= V ? refuse_strides(&q->in[k]) : NULL;
        if (strides) return strides;
        if (plb_shape_count(&q->in[k].shape) == 0) return "an operand is empty";
    }
    return plb_tensor_is_dense(&q->out[0]) ? NULL : "the result has gaps";
}

// A matrix within an operand: where head h of batch b begins, and how far its rows are apart.
typedef struct matrix {
    const float *data;
    int64_t step;
} matrix;

static matrix head_of(const plb_tensor *t, int64_t b, int64_t h) {
    const int64_t step = t->shape.dim[2] > 1 ? t->stride[2] : t->shape.dim[3];
    return (matrix){(const float *)t->data + b * t->stride[0] + h * t->stride[1], step};
}

static void add_mask(const attention *a, const plb_tensor *mask, int64_t b, int64_t h, int64_t l,
                     float *row) {
    const int rank = mask->shape.rank;
    const int64_t index[4] = {b, h, l, 0};
    int64_t at = 0;
    for (int i = 0; i < rank - 1; i++) {
        if (mask->shape.dim[i] > 1) at += index[4 - rank + i] * mask->stride[i];
    }
    const float *data = (const float *)mask->data + at;
    const int64_t step = rank && mask->shape.dim[rank - 1] > 1 ? mask->stride[rank - 1] : 0;
    if (step == 1) {
        a->vec->add_scaled(row, data, 1, a->keys);
    } else {
        for (int64_t s = 0; s < a->keys; s++) row[s] += data[s * step];
    }
}

// Queries [first, first + rows) of one head.
static plb_status attend(const attention *a, const plb_call *call, int64_t b, int64_t h,
                         int64_t first, int64_t rows, float *scores) {
    const matrix q = head_of(&call->in[Q], b, h), k = head_of(&call->in[K], b, h);
    const matrix v = head_of(&call->in[V], b, h);
    const int64_t keys = a->keys, values = a->values, y_step = a->heads * values;
    float *y = (float *)call->out[0].data + (b * a->queries + first) * y_step + h * values;
    const plb_tensor *mask = call->n_in > MASK && call->in[MASK].data ? &call->in[MASK] : NULL;
    float inverse[ROWS];
    PLB_TRY(plb_dnnl_product(&(plb_dnnl_gemm){.trans_b = true,
                                              .m = rows,
                                              .n = keys,
                                              .k = a->features,
                                              .alpha = a->scale,
                                              .a = q.data + first * q.step,
                                              .lda = q.step,
                                              .b = k.data,
                                              .ldb = k.step,
                                              .c = scores,
                                              .ldc = keys,
                                              .alone = true}));
    for (int64_t r = 0; r < rows; r++) {
        float *row = scores + r * keys;
        if (mask) add_mask(a, mask, b, h, first + r, row);
        inverse[r] = 1 / a->vec->exp_shifted(row, row, a->vec->max(row, keys), keys);
        if (!a->zero_masked || inverse[r] == inverse[r]) continue;
        memset(row, 0, (size_t)keys * sizeof *row); // a NaN here is one of every element
        inverse[r] = 0;
    }
    PLB_TRY(plb_dnnl_product(&(plb_dnnl_gemm){.m = rows,
                                              .n = values,
                                              .k = keys,
                                              .alpha = 1,
                                              .a = scores,
                                              .lda = keys,
                                              .b = v.data,
                                              .ldb = v.step,
                                              .c = y,
                                              .ldc = y_step,
                                              .alone = true}));
    for (int64_t r = 0; r < rows; r++) {
        a->vec->scale(y + r * y_step, y + r * y_step, inverse[r], 0, values);
    }
    return PLB_OK;
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const attention *a = state;
    const int64_t items = a->batches * a->heads * a->blocks;
    plb_status failed = PLB_OK;
#pragma omp parallel for schedule(static, 1) if (a->threads > 1)
    for (int t = 0; t < a->threads; t++) {
        const plb_span span = plb_span_of(items, t, a->threads);
        float *scores = (float *)call->workspace + t * a->rows * a->keys;
        for (int64_t i = span.begin; i < span.end; i++) {
            const int64_t head = i / a->blocks, first = i % a->blocks * a->rows;
            const int64_t left = a->queries - first, rows = left < a->rows ? left : a->rows;
            plb_status status =
                attend(a, call, head / a->heads, head % a->heads, first, rows, scores);
            if (!status) continue;
#pragma omp atomic write
            failed = status;
        }
    }
    return failed ? plb_fail(failed, "attention: a product failed") : PLB_OK;
}

// Long blocks read keys and values less often, short ones share the work more evenly.
static void choose_rows(attention *a) {
    int64_t least = INT64_MAX;
    for (int64_t rows = ROWS; rows >= LEAST_ROWS; rows /= 2) {
        const int64_t blocks = (a->queries + rows - 1) / rows;
        const int64_t each = a->queries < rows ? a->queries : rows;
        const int64_t turns = (a->batches * a->heads * blocks + a->threads - 1) / a->threads;
        const int64_t cost = turns * (each + BLOCK_COST);
        if (cost >= least) continue;
        least = cost, a->rows = rows, a->blocks = blocks;
    }
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "attention has one variant, found %s", choice);
    attention *a = plb_alloc(sizeof *a);
    if (!a) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    const int64_t *query = q->in[Q].shape.dim, *value = q->in[V].shape.dim;
    const plb_attention_attrs *attrs = q->attrs;
    *a = (attention){.vec = plb_vec_of(plb_cpu_isa()),
                     .batches = query[0],
                     .heads = query[1],
                     .queries = query[2],
                     .features = query[3],
                     .keys = value[2],
                     .values = value[3],
                     .scale = (float)attrs->scale,
                     .zero_masked = attrs->zero_masked != 0};
    const int64_t scores = a->batches * a->heads * a->queries * a->keys;
    const double products = (double)scores * (double)(a->features + a->values);
    a->threads = plb_worth_threads(scores * (a->features + a->values) / 8, q->threads);
    choose_rows(a);
    const int64_t items = a->batches * a->heads * a->blocks;
    if (a->threads > items) a->threads = (int)items;
    *out = (plb_launch){.state = a,
                        .release = plb_free,
                        .run = run,
                        .workspace_bytes = (size_t)(a->threads * a->rows * a->keys) * sizeof(float),
                        .flops = 2 * products + 5 * (double)scores};
    return PLB_OK;
}

const plb_kernel plb_cpu_attention = {
    .name = "blocks", .op = PLB_OP_attention, .refuse = refuse, .prepare = prepare};
