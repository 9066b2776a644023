// SPDX-License-Identifier: Apache-2.0
// The gradient of max_pool, and its own. Both read the positions that max_pool gave:
//
//   max_pool_grad: index, dy -> dx, zero but for dx[index] += dy
//   max_pool_take: index, v[N,C,…] like x -> v[index], like y
//
// Each is linear in its second input and the gradient of the other.
#include "base/core/status.h"
#include "engine/ops/pool_shape.h"

static plb_status expect_index(const plb_signature *s, const char *op) {
    if (s->in[0].dtype != PLB_I32) {
        return plb_fail(PLB_EINVAL, "%s: index: expected i32, found %s", op,
                        plb_dtype_name(s->in[0].dtype));
    }
    return plb_expect_floats(s, op, 1, 1);
}

static plb_status grad_infer(plb_signature *s) {
    plb_pool_shape shape;
    PLB_TRY(expect_index(s, "max_pool_grad"));
    PLB_TRY(plb_expect_shape(&s->in[1], &s->in[0].shape, "max_pool_grad", "dy"));
    PLB_TRY(plb_pool_shape_of_grad(&s->in[0].shape, s->attrs, "max_pool_grad", &shape));
    s->out[0] = (plb_type){s->in[1].dtype, plb_pool_x_shape(&shape)};
    return PLB_OK;
}

static plb_status take_infer(plb_signature *s) {
    plb_pool_shape shape;
    PLB_TRY(expect_index(s, "max_pool_take"));
    PLB_TRY(plb_pool_shape_of(&s->in[1].shape, s->attrs, "max_pool_take", &shape));
    plb_shape y = plb_pool_y_shape(&shape);
    PLB_TRY(plb_expect_shape(&s->in[0], &y, "max_pool_take", "index"));
    s->out[0] = (plb_type){s->in[1].dtype, y};
    return PLB_OK;
}

static void grad_of_either(plb_graph *graph, int node, plb_op_id other, const plb_value *dout,
                           const bool *needed, plb_value *din) {
    if (!needed[1]) return;
    plb_pool_attrs attrs = *(const plb_pool_attrs *)plb_node_attrs(graph, node);
    plb_shape shape = plb_value_shape(graph, plb_node_in(graph, node, 1));
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        bool given = other == PLB_OP_max_pool_grad && i + 2 < shape.rank;
        attrs.extent[i] = given ? shape.dim[i + 2] : 0;
    }
    din[1] = plb_emit(graph, other, (plb_value[]){plb_node_in(graph, node, 0), dout[0]}, 2, &attrs);
}

static void grad_grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                      plb_value *din) {
    grad_of_either(graph, node, PLB_OP_max_pool_take, dout, needed, din);
}

static void take_grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                      plb_value *din) {
    grad_of_either(graph, node, PLB_OP_max_pool_grad, dout, needed, din);
}

static double grad_flops(const plb_signature *s) {
    return (double)plb_shape_count(&s->in[1].shape); // an addition for each element of dy
}

static double take_flops(const plb_signature *s) {
    (void)s;
    return 0;
}

// The position at (n, c, out); one outside of the plane, which no max_pool makes, as -1.
static int64_t index_at(const plb_tensor *index, int64_t n, int64_t c, const int64_t *out,
                        int64_t plane) {
    int64_t offset = plb_spatial_offset(index, n, c, out);
    int64_t position = plb_load_i64(index->data, index->dtype, offset);
    return position < 0 || position >= plane ? -1 : position;
}

static void add_plane(const void *context, int64_t n, int64_t c, double *plane) {
    const plb_call *call = context;
    int64_t in[PLB_MAX_SPATIAL], extent[PLB_MAX_SPATIAL], out[PLB_MAX_SPATIAL] = {0};
    plb_spatial_extents(&call->out[0].shape, in);
    plb_spatial_extents(&call->in[1].shape, extent);
    do {
        int64_t position = index_at(&call->in[0], n, c, out, in[0] * in[1] * in[2]);
        if (position >= 0) plane[position] += plb_spatial_load(&call->in[1], n, c, out);
    } while (plb_index_next(out, extent, PLB_MAX_SPATIAL));
}

static plb_status grad_ref(const plb_call *call) {
    return plb_pool_spread(&call->out[0], add_plane, call);
}

static plb_status take_ref(const plb_call *call) {
    int64_t in[PLB_MAX_SPATIAL], extent[PLB_MAX_SPATIAL], at[PLB_MAX_SPATIAL];
    plb_spatial_extents(&call->in[1].shape, in);
    plb_spatial_extents(&call->out[0].shape, extent);
    for (int64_t n = 0; n < call->out[0].shape.dim[0]; n++) {
        for (int64_t c = 0; c < call->out[0].shape.dim[1]; c++) {
            int64_t out[PLB_MAX_SPATIAL] = {0};
            do {
                int64_t position = index_at(&call->in[0], n, c, out, in[0] * in[1] * in[2]);
                plb_pool_unflatten(position < 0 ? 0 : position, in, at);
                double value = position < 0 ? 0 : plb_spatial_load(&call->in[1], n, c, at);
                plb_spatial_store(&call->out[0], n, c, out, value);
            } while (plb_index_next(out, extent, PLB_MAX_SPATIAL));
        }
    }
    return PLB_OK;
}

#define INDEX(...) PLB_TYPE_OF(PLB_I32, __VA_ARGS__)
#define ATTRS(...)            \
    &(const plb_pool_attrs) { \
        __VA_ARGS__           \
    }
// Any positions inside the plane do, those that no window of the attributes covers included.
static const plb_sample grad_samples[] = {
    {.name = "2x2",
     .in = {INDEX(2, 3, 3, 2), PLB_T(2, 3, 3, 2)},
     .n_in = 2,
     .high = {23, 1},
     .low = {0, -1},
     .attrs = ATTRS({2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 0, 0, {6, 4})},
    {.name = "2x2, channels for whole vectors",
     .in = {INDEX(2, 8, 2, 3), PLB_T(2, 8, 2, 3)},
     .n_in = 2,
     .high = {23, 1},
     .low = {0, -1},
     .attrs = ATTRS({2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 0, 0, {4, 6})},
    {.name = "3x3 stride 2, overlapping",
     .in = {INDEX(2, 2, 4, 3), PLB_T(2, 2, 4, 3)},
     .n_in = 2,
     .low = {0, -1},
     .high = {41, 1},
     .attrs = ATTRS({3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 0, 0, {7, 6})},
    {.name = "1-d",
     .in = {INDEX(2, 3, 4), PLB_T(2, 3, 4)},
     .n_in = 2,
     .low = {0, -1},
     .high = {8, 1},
     .attrs = ATTRS({4}, {3}, {1}, {3}, {1}, 0, 0, {9})},
    {.name = "3-d",
     .in = {INDEX(1, 2, 2, 3, 4), PLB_T(1, 2, 2, 3, 4)},
     .n_in = 2,
     .low = {0, -1},
     .high = {79, 1},
     .attrs = ATTRS({2, 3, 2}, {2, 2, 1}, {0, 1, 1}, {0, 1, 0}, {1, 1, 1}, 0, 0, {4, 5, 4})},
};

static const plb_sample take_samples[] = {
    {.name = "2x2",
     .in = {INDEX(2, 3, 3, 2), PLB_T(2, 3, 6, 4)},
     .n_in = 2,
     .low = {0, -1},
     .high = {23, 1},
     .attrs = ATTRS({2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 0, 0, {0})},
    {.name = "3x3 stride 2, overlapping",
     .in = {INDEX(2, 2, 4, 3), PLB_T(2, 2, 7, 6)},
     .n_in = 2,
     .low = {0, -1},
     .high = {41, 1},
     .attrs = ATTRS({3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 0, 0, {0})},
    {.name = "1-d",
     .in = {INDEX(2, 3, 4), PLB_T(2, 3, 9)},
     .n_in = 2,
     .low = {0, -1},
     .high = {8, 1},
     .attrs = ATTRS({4}, {3}, {1}, {3}, {1}, 0, 0, {0})},
};

const plb_op plb_op_max_pool_grad = {.name = "max_pool_grad",
                                     .flags = PLB_OP_SPATIAL,
                                     .attrs_bytes = sizeof(plb_pool_attrs),
                                     .min_in = 2,
                                     .max_in = 2,
                                     .spatial_in = 3,
                                     .spatial_out = 1,
                                     .infer = grad_infer,
                                     .grad = grad_grad,
                                     .flops = grad_flops,
                                     .ref = grad_ref,
                                     .describe = plb_pool_describe,
                                     PLB_SAMPLES(grad_samples)};

const plb_op plb_op_max_pool_take = {.name = "max_pool_take",
                                     .flags = PLB_OP_SPATIAL,
                                     .attrs_bytes = sizeof(plb_pool_attrs),
                                     .min_in = 2,
                                     .max_in = 2,
                                     .spatial_in = 3,
                                     .spatial_out = 1,
                                     .infer = take_infer,
                                     .grad = take_grad,
                                     .flops = take_flops,
                                     .ref = take_ref,
                                     .describe = plb_pool_describe,
                                     PLB_SAMPLES(take_samples)};
