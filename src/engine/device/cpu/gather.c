// SPDX-License-Identifier: Apache-2.0
// gather, scatter, scatter_add and scatter_reduce of elements of four or eight bytes, plain: row by
// row of the index, where a row's place in the other operand is worked out once. What may meet at
// one place is put in row-major order by one thread; gathering is shared out.
#include <string.h>

#include "base/core/status.h"
#include "engine/device/cpu/nest.h"
#include "engine/ops/index.h"

typedef struct walk {
    int rank, axis;
    int64_t dim[PLB_MAX_RANK], stride[PLB_MAX_RANK]; // of the index; of the other operand
    int64_t rows, width;                             // of the index
    int64_t step, along; // in the other operand: of an index of 1, of the next element of a row
} walk;

static walk walk_of(const plb_tensor *index, const plb_tensor *other, int64_t axis) {
    walk w = {.rank = index->shape.rank, .axis = (int)axis, .rows = 1};
    for (int i = 0; i < w.rank; i++) {
        w.dim[i] = index->shape.dim[i];
        w.stride[i] = other->stride[i];
        if (i < w.rank - 1) w.rows *= w.dim[i];
    }
    w.width = w.dim[w.rank - 1];
    w.step = w.stride[axis];
    w.along = axis == w.rank - 1 ? 0 : w.stride[w.rank - 1];
    return w;
}

// Where row `row` of the index begins in the other operand, the axis left out.
static int64_t base_of(const walk *w, int64_t row) {
    int64_t base = 0;
    for (int i = w->rank - 2; i >= 0; i--) {
        if (i != w->axis) base += row % w->dim[i] * w->stride[i];
        row /= w->dim[i];
    }
    return base;
}

static void gather_row(const walk *w, size_t size, const void *x, const int64_t *index, void *y) {
    if (size == 4) {
        const uint32_t *from = x;
        uint32_t *to = y;
        for (int64_t j = 0; j < w->width; j++) to[j] = from[index[j] * w->step + j * w->along];
    } else {
        const uint64_t *from = x;
        uint64_t *to = y;
        for (int64_t j = 0; j < w->width; j++) to[j] = from[index[j] * w->step + j * w->along];
    }
}

static void scatter_row(const walk *w, size_t size, const void *x, const int64_t *index, void *y) {
    if (size == 4) {
        const uint32_t *from = x;
        uint32_t *to = y;
        for (int64_t j = 0; j < w->width; j++) to[index[j] * w->step + j * w->along] = from[j];
    } else {
        const uint64_t *from = x;
        uint64_t *to = y;
        for (int64_t j = 0; j < w->width; j++) to[index[j] * w->step + j * w->along] = from[j];
    }
}

// As the pointwise ops have it: a NaN wins over any number.
static float larger(float a, float b) {
    return a > b || a != a ? a : b;
}

static float smaller(float a, float b) {
    return a < b || a != a ? a : b;
}

#define FOLD(expression)                                    \
    for (int64_t j = 0; j < w->width; j++) {                \
        float *at = &to[index[j] * w->step + j * w->along]; \
        *at = (expression);                                 \
    }
static void fold_row(const walk *w, int64_t how, const float *from, const int64_t *index,
                     float *to) {
    if (how == PLB_SCATTER_ADD) {
        FOLD(*at + from[j])
    } else if (how == PLB_SCATTER_MUL) {
        FOLD(*at * from[j])
    } else if (how == PLB_SCATTER_MAX) {
        FOLD(larger(*at, from[j]))
    } else {
        FOLD(smaller(*at, from[j]))
    }
}
#undef FOLD

static plb_status run_gather(void *state, const plb_call *call, plb_stream *stream) {
    (void)state, (void)stream;
    const plb_tensor *x = &call->in[0], *index = &call->in[1];
    const int64_t axis = ((const plb_index_attrs *)call->attrs)->axis;
    PLB_TRY(plb_index_check("gather", index, x->shape.dim[axis]));
    const walk w = walk_of(index, x, axis);
    const size_t size = plb_dtype_size(x->dtype);
    const int threads = plb_worth_threads(w.rows * w.width, call->threads);
#pragma omp parallel for schedule(static) if (threads > 1)
    for (int64_t r = 0; r < w.rows; r++) {
        gather_row(&w, size, (const char *)x->data + (size_t)base_of(&w, r) * size,
                   (const int64_t *)index->data + r * w.width,
                   (char *)call->out[0].data + (size_t)(r * w.width) * size);
    }
    return PLB_OK;
}

static plb_status scatter(const plb_call *call, const char *op, int64_t how) {
    const plb_tensor *index = &call->in[1], *y = &call->out[0];
    const int64_t axis = ((const plb_index_attrs *)call->attrs)->axis; // first in all attributes
    PLB_TRY(plb_index_check(op, index, y->shape.dim[axis]));
    const walk w = walk_of(index, y, axis);
    const size_t size = plb_dtype_size(y->dtype);
    if (y->data != call->in[0].data) {
        memcpy(y->data, call->in[0].data, (size_t)plb_shape_count(&y->shape) * size);
    }
    for (int64_t r = 0; r < w.rows; r++) {
        char *to = (char *)y->data + (size_t)base_of(&w, r) * size;
        const char *from = (const char *)call->in[2].data + (size_t)(r * w.width) * size;
        const int64_t *at = (const int64_t *)index->data + r * w.width;
        if (how == PLB_SCATTER_PUT) {
            scatter_row(&w, size, from, at, to);
        } else {
            fold_row(&w, how, (const float *)from, at, (float *)to);
        }
    }
    return PLB_OK;
}

static plb_status run_scatter(void *state, const plb_call *call, plb_stream *stream) {
    (void)state, (void)stream;
    return scatter(call, "scatter", PLB_SCATTER_PUT);
}

static plb_status run_scatter_add(void *state, const plb_call *call, plb_stream *stream) {
    (void)state, (void)stream;
    return scatter(call, "scatter_add", PLB_SCATTER_ADD);
}

static plb_status run_scatter_reduce(void *state, const plb_call *call, plb_stream *stream) {
    (void)state, (void)stream;
    return scatter(call, "scatter_reduce", ((const plb_scatter_attrs *)call->attrs)->how);
}

static const char *refuse(const plb_query *q) {
    const size_t size = plb_dtype_size(q->in[0].dtype);
    bool folds = q->op == PLB_OP_scatter_add || q->op == PLB_OP_scatter_reduce;
    if (folds && q->in[0].dtype != PLB_F32) return "f32 only";
    if (size != 4 && size != 8) return "elements of four or eight bytes only";
    if (q->in[1].shape.rank == 0) return "no axes";
    for (int k = 0; k < q->n_in + 1; k++) {
        const plb_tensor *t = k < q->n_in ? &q->in[k] : &q->out[0];
        if (t->layout.kind != PLB_LAYOUT_PLAIN || !plb_tensor_is_dense(t)) return "plain only";
    }
    return NULL;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "gather has one variant, found %s", choice);
    const double moved = (double)plb_shape_count(&q->in[1].shape);
    const double size = (double)plb_dtype_size(q->in[0].dtype);
    *out = (plb_launch){.run = run_gather, .bytes = moved * (2 * size + sizeof(int64_t))};
    if (q->op == PLB_OP_scatter) out->run = run_scatter;
    if (q->op == PLB_OP_scatter_add) out->run = run_scatter_add, out->flops = moved;
    if (q->op == PLB_OP_scatter_reduce) out->run = run_scatter_reduce, out->flops = moved;
    if (q->op != PLB_OP_gather) out->bytes += 2 * (double)plb_shape_count(&q->out[0].shape) * size;
    return PLB_OK;
}

const plb_kernel plb_cpu_gather = {
    .name = "rows", .op = PLB_OP_gather, .refuse = refuse, .prepare = prepare};
