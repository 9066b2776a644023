// SPDX-License-Identifier: Apache-2.0
// nms: of each batch and class the boxes of the highest scores that overlap no better one of the
// class by more than a limit. boxes[B,N,4], scores[B,C,N] -> i64 rows {batch, class, box}, by
// batch, then class, then falling score, and how many there are. Rows past the count are zero.
#include <math.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/graph.h"
#include "engine/ops/spatial.h"
#include "engine/ops/walk.h"
#include "plumb/ops.h"

static int64_t most_of(const plb_nms_attrs *a, int64_t boxes) {
    return a->most < 0 ? 0 : a->most < boxes ? a->most : boxes;
}

static plb_status infer(plb_signature *s) {
    const plb_shape *b = &s->in[0].shape, *p = &s->in[1].shape;
    if (!plb_dtype_is_float(s->in[0].dtype) || s->in[0].dtype != s->in[1].dtype || b->rank != 3 ||
        p->rank != 3 || b->dim[2] != 4 || b->dim[0] != p->dim[0] || b->dim[1] != p->dim[2]) {
        return plb_fail(PLB_EINVAL, "nms: expected boxes [B, N, 4] and scores [B, C, N], floats");
    }
    int64_t rows = p->dim[0] * p->dim[1] * most_of(s->attrs, b->dim[1]);
    s->n_out = 2;
    s->out[0] = (plb_type){PLB_I64, plb_shape_of(rows, 3)};
    s->out[1] = (plb_type){PLB_I64, plb_scalar_shape};
    return PLB_OK;
}

typedef struct box {
    double low[2], high[2];
} box;

static double load(const plb_tensor *t, int64_t i, int64_t j, int64_t k) {
    return plb_load_f64(t->data, t->dtype, plb_tensor_offset(t, (int64_t[]){i, j, k}));
}

// Corners in any order, or centre and size with x first.
static box box_of(const plb_call *call, int64_t batch, int64_t i) {
    const plb_nms_attrs *a = call->attrs;
    double v[4];
    box b;
    for (int k = 0; k < 4; k++) v[k] = load(&call->in[0], batch, i, k);
    for (int k = 0; k < 2; k++) {
        double x = v[k], y = v[2 + k];
        b.low[k] = a->centred ? x - y / 2 : fmin(x, y);
        b.high[k] = a->centred ? x + y / 2 : fmax(x, y);
    }
    return b;
}

static double area(const box *b) {
    return fmax(b->high[0] - b->low[0], 0) * fmax(b->high[1] - b->low[1], 0);
}

// Intersection over union; 0 where the union is empty.
static double overlap(const box *a, const box *b) {
    box both;
    for (int k = 0; k < 2; k++) {
        both.low[k] = fmax(a->low[k], b->low[k]);
        both.high[k] = fmin(a->high[k], b->high[k]);
    }
    double shared = area(&both), all = area(a) + area(b) - shared;
    return all > 0 ? shared / all : 0;
}

// The best box that is left, or -1; the first of equals.
static int64_t best_left(const plb_call *call, int64_t batch, int64_t class, const bool *gone) {
    const plb_nms_attrs *a = call->attrs;
    int64_t best = -1;
    double most = a->least_score;
    for (int64_t i = 0; i < call->in[0].shape.dim[1]; i++) {
        double score = load(&call->in[1], batch, class, i);
        if (!gone[i] && score > most) best = i, most = score;
    }
    return best;
}

static void pick(const plb_call *call, int64_t batch, int64_t class, bool *gone, int64_t *found) {
    const plb_nms_attrs *a = call->attrs;
    const plb_tensor *rows = &call->out[0];
    int64_t n = call->in[0].shape.dim[1];
    for (int64_t i = 0; i < n; i++) gone[i] = false;
    for (int64_t k = 0; k < most_of(a, n); k++) {
        int64_t best = best_left(call, batch, class, gone), row[3] = {batch, class, best};
        if (best < 0) return;
        for (int64_t i = 0; i < 3; i++) {
            plb_store_i64(rows->data, rows->dtype, plb_tensor_offset(rows, (int64_t[]){*found, i}),
                          row[i]);
        }
        ++*found;
        const box chosen = box_of(call, batch, best);
        for (int64_t i = 0; i < n; i++) {
            if (gone[i]) continue;
            const box other = box_of(call, batch, i);
            gone[i] = i == best || overlap(&chosen, &other) > a->most_overlap;
        }
    }
}

static plb_status ref(const plb_call *call) {
    const plb_shape *p = &call->in[1].shape;
    int64_t found = 0;
    bool *gone = plb_alloc_array((size_t)p->dim[2] + 1, sizeof *gone);
    if (!gone) return plb_fail(PLB_ENOMEM, "out of memory for boxes");
    plb_walk_fill(&call->out[0], 0);
    for (int64_t batch = 0; batch < p->dim[0]; batch++) {
        for (int64_t class = 0; class < p->dim[1]; class ++) pick(call, batch, class, gone, &found);
    }
    plb_store_i64(call->out[1].data, call->out[1].dtype, 0, found);
    plb_free(gone);
    return PLB_OK;
}

static void describe(const void *attrs, plb_strbuf *text) {
    const plb_nms_attrs *a = attrs;
    plb_describe_number(text, "centred", a->centred != 0);
    plb_describe_number(text, "most", (double)a->most);
    plb_describe_number(text, "most_overlap", a->most_overlap);
    plb_describe_number(text, "least_score", a->least_score);
}

#define ATTRS(...)           \
    &(const plb_nms_attrs) { \
        __VA_ARGS__          \
    }
static const plb_sample samples[] = {
    {.name = "corners",
     .in = {PLB_T(2, 12, 4), PLB_T(2, 3, 12)},
     .n_in = 2,
     .attrs = ATTRS(0, 5, 0.3, 0),
     .distinct = 2,
     .no_gradient = true,
     .f32_only = true},
    {.name = "centres, all of them",
     .in = {PLB_T(1, 9, 4), PLB_T(1, 2, 9)},
     .n_in = 2,
     .attrs = ATTRS(1, 100, 0.2, -10),
     .low = {0.1},
     .high = {1},
     .distinct = 2,
     .no_gradient = true,
     .f32_only = true},
    {.name = "none is good enough",
     .in = {PLB_T(1, 4, 4), PLB_T(1, 1, 4)},
     .n_in = 2,
     .attrs = ATTRS(0, 3, 0.5, 2),
     .no_gradient = true,
     .f32_only = true},
};

const plb_op plb_op_nms = {
    .name = "nms",
    .flags = PLB_OP_NO_GRAD | PLB_OP_STRIDED,
    .attrs_bytes = sizeof(plb_nms_attrs),
    .min_in = 2,
    .max_in = 2,
    .infer = infer,
    .flops = plb_no_flops,
    .ref = ref,
    .describe = describe,
    PLB_SAMPLES(samples),
};

plb_value plb_nms(plb_graph *graph, plb_value boxes, plb_value scores, const plb_nms_attrs *attrs) {
    plb_value rows = plb_emit(graph, PLB_OP_nms, (plb_value[]){boxes, scores}, 2, attrs);
    if (rows != PLB_NONE) graph->values[rows].count = rows + 1;
    return rows;
}
