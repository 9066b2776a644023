// SPDX-License-Identifier: Apache-2.0
// reduce_any and reduce_all. Whether a row of bytes holds one that decides is what memchr tells,
// with the C library's vectors; where the innermost axis is kept, rows are joined column by column.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/nest.h"
#include "plumb/ops.h"

typedef struct truth {
    plb_nest nest;          // x and, with stride 0 along reduced axes, y
    int64_t width;          // of the innermost axis
    bool any, columns;      // columns: the innermost axis is kept
    int64_t count, results; // rows of x, elements of y
} truth;

static plb_nest nest_of(const plb_query *q) {
    const plb_reduce_attrs *attrs = q->attrs;
    const plb_tensor *x = &q->in[0];
    const int64_t axes = attrs->axes ? attrs->axes : ((int64_t)1 << x->shape.rank) - 1;
    plb_tensor y = q->out[0];
    y.shape = x->shape;
    for (int i = 0, k = 0; i < x->shape.rank; i++) {
        const bool reduced = axes >> i & 1;
        y.stride[i] = reduced ? 0 : q->out[0].stride[k];
        k += !reduced || attrs->keep;
    }
    plb_nest nest = plb_nest_of(&x->shape);
    plb_nest_add(&nest, x);
    plb_nest_add(&nest, &y);
    plb_nest_simplify(&nest, 1);
    return nest;
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const truth *t = state;
    const uint8_t *x = call->in[0].data;
    uint8_t *y = call->out[0].data;
    const int outer = t->nest.rank - 1;
    memset(y, !t->any, (size_t)t->results);
    for (int64_t r = 0; r < t->count; r++) {
        const uint8_t *row = x + plb_nest_offset(&t->nest, 0, outer, r);
        uint8_t *to = y + plb_nest_offset(&t->nest, 1, outer, r);
        if (!t->columns) {
            if (*to != t->any && memchr(row, t->any, (size_t)t->width)) *to = t->any;
        } else if (t->any) {
            for (int64_t j = 0; j < t->width; j++) to[j] |= row[j];
        } else {
            for (int64_t j = 0; j < t->width; j++) to[j] &= row[j];
        }
    }
    return PLB_OK;
}

static const char *refuse(const plb_query *q) {
    const plb_tensor *x = &q->in[0];
    if (x->dtype != PLB_BOOL) return "bools only";
    if (x->layout.kind == PLB_LAYOUT_BLOCKED) return "no blocked layouts";
    if (plb_shape_count(&x->shape) == 0) return "nothing to reduce";
    if (!plb_tensor_is_dense(&q->out[0])) return "the result has gaps";
    const plb_nest nest = nest_of(q);
    const int inner = nest.rank - 1;
    const bool kept = nest.dim[inner] > 1 && nest.stride[1][inner] != 0;
    if (kept && nest.stride[1][inner] != 1) return "columns of the result have gaps";
    return nest.dim[inner] > 1 && nest.stride[0][inner] != 1 ? "columns have gaps" : NULL;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "truth has one variant, found %s", choice);
    truth *t = plb_alloc(sizeof *t);
    if (!t) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    t->nest = nest_of(q);
    t->any = q->op == PLB_OP_reduce_any;
    t->width = t->nest.dim[t->nest.rank - 1];
    t->columns = t->nest.stride[1][t->nest.rank - 1] != 0;
    t->count = plb_nest_count(&t->nest) / t->width;
    t->results = plb_shape_count(&q->out[0].shape);
    const double bytes = (double)plb_shape_count(&q->in[0].shape);
    *out =
        (plb_launch){.state = t, .release = plb_free, .run = run, .flops = bytes, .bytes = bytes};
    return PLB_OK;
}

const plb_kernel plb_cpu_truth = {
    .name = "bytes", .op = PLB_OP_reduce_any, .refuse = refuse, .prepare = prepare};
