// SPDX-License-Identifier: Apache-2.0
// take_grad: dy[… I… …] index[I…] -> dx[…,D,…]: every row of dy is added to the one that it was
// taken from, in row-major order.
#include "base/core/status.h"
#include "engine/ops/take.h"
#include "engine/ops/walk.h"

static plb_status infer(plb_signature *s) {
    const plb_index_attrs *attrs = s->attrs;
    const plb_shape *dy = &s->in[0].shape, *index = &s->in[1].shape;
    const int rank = dy->rank - index->rank + 1, axis = (int)attrs->axis;
    PLB_TRY(plb_axis_check("take_grad", attrs->axis, rank));
    bool fits = s->in[1].dtype == PLB_I64 && rank <= PLB_MAX_RANK;
    for (int i = 0; fits && i < index->rank; i++) fits = dy->dim[axis + i] == index->dim[i];
    if (!fits) {
        char a[160], b[160];
        return plb_fail(PLB_EINVAL, "take_grad along axis %d: dy %s does not fit index %s %s", axis,
                        plb_shape_format(dy, a, sizeof a), plb_dtype_name(s->in[1].dtype),
                        plb_shape_format(index, b, sizeof b));
    }
    plb_type dx = {s->in[0].dtype, {.rank = rank}};
    for (int i = 0; i < axis; i++) dx.shape.dim[i] = dy->dim[i];
    dx.shape.dim[axis] = attrs->extent;
    for (int i = axis + 1; i < rank; i++) dx.shape.dim[i] = dy->dim[i - 1 + index->rank];
    s->out[0] = dx;
    return PLB_OK;
}

static bool map(const plb_call *call, const int64_t *y, int64_t *x) {
    const plb_index_attrs *attrs = call->attrs;
    plb_take_source((int)attrs->axis, &call->in[1], y, call->in[0].shape.rank, x);
    return true;
}

static plb_status ref(const plb_call *call) {
    PLB_TRY(
        plb_index_check("take_grad", &call->in[1], ((const plb_index_attrs *)call->attrs)->extent));
    return plb_walk_scatter(call, map);
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    (void)needed;
    const plb_index_attrs *attrs = plb_node_attrs(graph, node);
    din[0] = plb_take(graph, dout[0], plb_node_in(graph, node, 1), (int)attrs->axis);
}

// An addition for each element of dy.
static double flops(const plb_signature *s) {
    return (double)plb_shape_count(&s->in[0].shape);
}

static const plb_index_attrs axis0 = {0, 5}, axis1 = {1, 5}, axis2 = {2, 5};
#define INDICES .low = {-2, 0}, .high = {2, 4}
static const plb_sample samples[] = {
    {"embedding", .in = {PLB_T(2, 4, 3), PLB_TI(2, 4)}, .n_in = 2, .attrs = &axis0, INDICES},
    {"middle", .in = {PLB_T(2, 4, 3), PLB_TI(4)}, .n_in = 2, .attrs = &axis1, INDICES},
    {"last, a matrix", .in = {PLB_T(2, 1, 2, 3), PLB_TI(2, 3)}, .n_in = 2, .attrs = &axis2,
     INDICES},
    {"one index", .in = {PLB_T(3), {PLB_I64, {0}}}, .n_in = 2, .attrs = &axis0, INDICES},
    {"no index", .in = {PLB_T(0, 3), PLB_TI(0)}, .n_in = 2, .attrs = &axis0, INDICES},
};

const plb_op plb_op_take_grad = {
    .name = "take_grad",
    .attrs_bytes = sizeof(plb_index_attrs),
    .min_in = 2,
    .max_in = 2,
    .infer = infer,
    .grad = grad,
    .flops = flops,
    .ref = ref,
    .describe = plb_index_describe,
    PLB_SAMPLES(samples),
};
