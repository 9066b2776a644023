// SPDX-License-Identifier: Apache-2.0
// Ops that pick and put by index. ONNX's indices may be negative and i32; the engine's are not.
#include <string.h>

#include "base/core/status.h"
#include "onnx/build.h"
#include "onnx/map.h"

plb_value plb_onnx_wrap_index(plb_graph *graph, plb_value index, int64_t extent) {
    plb_value i = plb_cast(graph, index, PLB_I64);
    plb_value negative = plb_lt(graph, i, plb_scalar(graph, PLB_I64, 0));
    return plb_where(graph, negative, plb_affine(graph, i, 1, (double)extent), i);
}

plb_value plb_onnx_one_hot(plb_graph *graph, plb_value index, int axis, int64_t extent,
                           plb_dtype dtype) {
    plb_shape line = {.rank = plb_value_shape(graph, index).rank};
    for (int i = 0; i < line.rank; i++) line.dim[i] = i == axis ? extent : 1;
    plb_value position = plb_iota(graph, PLB_I64, &line, axis);
    return plb_cast(graph, plb_eq(graph, index, position), dtype);
}

static plb_status axis_of(const plb_onnx_node *n, int64_t missing, int *axis) {
    return plb_onnx_axis(plb_onnx_int(n, "axis", missing), plb_onnx_type(n, 0).shape.rank, axis);
}

plb_status plb_onnx_map_gather(plb_onnx_node *n) {
    int axis;
    PLB_TRY(axis_of(n, 0, &axis));
    plb_value i = plb_onnx_wrap_index(n->graph, n->in[1], plb_onnx_type(n, 0).shape.dim[axis]);
    n->out[0] = plb_take(n->graph, n->in[0], i, axis);
    return PLB_OK;
}

plb_status plb_onnx_map_gather_elements(plb_onnx_node *n) {
    int axis;
    PLB_TRY(axis_of(n, 0, &axis));
    plb_value i = plb_onnx_wrap_index(n->graph, n->in[1], plb_onnx_type(n, 0).shape.dim[axis]);
    n->out[0] = plb_gather(n->graph, n->in[0], i, axis);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- scatter
// The reduction of the attribute, or NULL for plain assignment. Unknown ones are refused.
static plb_status reduction_of(const plb_onnx_node *n, plb_scatter_how *out) {
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    for (int i = 0; i < 5; i++) {
        *out = (plb_scatter_how)i;
        if (plb_onnx_is(n, "reduction", "none", names[i])) return PLB_OK;
    }
    return plb_onnx_refuse("an unknown reduction");
}

static plb_value put(plb_graph *g, plb_value x, plb_value index, plb_value source, int axis,
                     plb_scatter_how how) {
    if (how == PLB_SCATTER_PUT) return plb_scatter(g, x, index, source, axis);
    if (how == PLB_SCATTER_ADD) return plb_scatter_add(g, x, index, source, axis);
    return plb_scatter_reduce(g, x, index, source, axis, how);
}

plb_status plb_onnx_map_scatter_elements(plb_onnx_node *n) {
    int axis;
    plb_scatter_how how;
    PLB_TRY(axis_of(n, 0, &axis));
    PLB_TRY(reduction_of(n, &how));
    plb_value i = plb_onnx_wrap_index(n->graph, n->in[1], plb_onnx_type(n, 0).shape.dim[axis]);
    n->out[0] = put(n->graph, n->in[0], i, n->in[2], axis, how);
    return PLB_OK;
}

// Index tuples [..., k] into axes first … first + k - 1 of x, as positions in these axes made one.
static plb_value flat_index(plb_graph *g, plb_value index, const plb_shape *x, int first) {
    plb_shape s = plb_value_shape(g, index), head = s;
    head.rank--;
    int64_t k = s.dim[s.rank - 1];
    plb_value flat = PLB_NONE;
    for (int64_t i = 0; i < k; i++) {
        int64_t extent = x->dim[first + i];
        plb_value part = plb_slice_axis(g, index, s.rank - 1, i, i + 1);
        part = plb_onnx_wrap_index(g, plb_reshape(g, part, &head), extent);
        flat = flat == PLB_NONE ? part : plb_add(g, plb_affine(g, flat, (double)extent, 0), part);
    }
    return flat != PLB_NONE ? flat : plb_expand(g, plb_scalar(g, PLB_I64, 0), &head);
}

// x with axes first … first + k - 1 made one.
static plb_shape join_axes(const plb_shape *x, int first, int64_t k) {
    plb_shape joined = {.rank = 0};
    for (int i = 0; i < first; i++) joined.dim[joined.rank++] = x->dim[i];
    joined.dim[joined.rank++] = 1;
    for (int i = first; i < first + k; i++) joined.dim[first] *= x->dim[i];
    for (int i = first + (int)k; i < x->rank; i++) joined.dim[joined.rank++] = x->dim[i];
    return joined;
}

static plb_status check_tuples(const plb_onnx_node *n, int batch, int64_t *k) {
    plb_shape x = plb_onnx_type(n, 0).shape, index = plb_onnx_type(n, 1).shape;
    *k = index.rank ? index.dim[index.rank - 1] : 0;
    if (batch >= 0 && batch < index.rank && *k >= 0 && batch + *k <= x.rank) return PLB_OK;
    return plb_fail(PLB_EINVAL, "indices of %lld axes into a value of rank %d", (long long)*k,
                    x.rank);
}

// Batch axes, which both have, become one in front; a batch's place is added to the index.
plb_status plb_onnx_map_gather_nd(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_shape x = plb_onnx_type(n, 0).shape, index = plb_onnx_type(n, 1).shape;
    int64_t given = plb_onnx_int(n, "batch_dims", 0), k, batches = 1;
    const int batch = given < 0 || given > PLB_MAX_RANK ? -1 : (int)given;
    PLB_TRY(check_tuples(n, batch, &k));
    for (int i = 0; i < batch; i++) batches *= x.dim[i];
    plb_value flat = flat_index(g, n->in[1], &x, batch);
    plb_shape joined = join_axes(&x, 0, batch + k);
    if (batch) {
        int64_t span = batches ? joined.dim[0] / batches : 0;
        plb_shape lead = {.rank = index.rank - 1};
        for (int i = 0; i < lead.rank; i++) lead.dim[i] = i < batch ? index.dim[i] : 1;
        plb_value place = plb_reshape(g, plb_iota(g, PLB_I64, &plb_shape_of(batches), 0), &lead);
        flat = plb_add(g, flat, plb_affine(g, place, (double)span, 0));
    }
    n->out[0] = plb_take(g, plb_reshape(g, n->in[0], &joined), flat, 0);
    return PLB_OK;
}

plb_status plb_onnx_map_scatter_nd(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_shape x = plb_onnx_type(n, 0).shape;
    plb_scatter_how how;
    int64_t k;
    PLB_TRY(check_tuples(n, 0, &k));
    PLB_TRY(reduction_of(n, &how));
    plb_shape joined = join_axes(&x, 0, k), flat = plb_shape_of(joined.dim[0], 1);
    for (int i = 1; i < joined.rank; i++) flat.dim[1] *= joined.dim[i];
    plb_value index = flat_index(g, n->in[1], &x, 0);
    plb_shape tuples = plb_value_shape(g, index);
    int64_t count = plb_shape_count(&tuples);
    plb_value rows = plb_reshape(g, index, &plb_shape_of(count, 1));
    plb_shape rectangle = plb_shape_of(count, flat.dim[1]);
    rows = plb_expand(g, rows, &rectangle);
    plb_value source = plb_reshape(g, n->in[2], &rectangle);
    plb_value y = put(g, plb_reshape(g, n->in[0], &flat), rows, source, 0, how);
    n->out[0] = plb_reshape(g, y, &x);
    return PLB_OK;
}

// A cache, of which rows from write_indices[b] on, along `axis`, become the update.
plb_status plb_onnx_map_tensor_scatter(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_shape x = plb_onnx_type(n, 0).shape, update = plb_onnx_type(n, 1).shape;
    int axis;
    PLB_TRY(axis_of(n, -2, &axis));
    plb_shape batch = {.rank = x.rank};
    for (int i = 0; i < x.rank; i++) batch.dim[i] = i == 0 ? x.dim[0] : 1;
    plb_value i = plb_iota(g, PLB_I64, &update, axis);
    if (plb_onnx_given_in(n, 2)) i = plb_add(g, i, plb_reshape(g, n->in[2], &batch));
    if (plb_onnx_is(n, "mode", "linear", "circular")) {
        i = plb_remainder(g, i, plb_scalar(g, PLB_I64, (double)x.dim[axis]));
    }
    n->out[0] = plb_scatter(g, n->in[0], i, n->in[1], axis);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- counted values
plb_status plb_onnx_map_one_hot(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    int64_t depth;
    int axis, rank = plb_onnx_type(n, 0).shape.rank;
    PLB_TRY(plb_onnx_known_int(n, 1, 0, PLB_ONNX_MAX_EXTENT, &depth));
    if (rank == PLB_MAX_RANK) return plb_onnx_refuse("rank %d", rank);
    PLB_TRY(plb_onnx_axis(plb_onnx_int(n, "axis", -1), rank + 1, &axis));
    plb_shape s = plb_onnx_type(n, 0).shape, wide = {.rank = rank + 1};
    for (int i = 0; i <= rank; i++) wide.dim[i] = i == axis ? 1 : s.dim[i < axis ? i : i - 1];
    plb_value index = plb_reshape(g, n->in[0], &wide);
    index = plb_onnx_wrap_index(g, index, depth);
    plb_value hot = plb_onnx_one_hot(g, index, axis, depth, PLB_BOOL);
    plb_value off = plb_slice_axis(g, n->in[2], 0, 0, 1), on = plb_slice_axis(g, n->in[2], 0, 1, 2);
    n->out[0] = plb_where(g, hot, plb_reshape(g, on, &plb_scalar_shape),
                          plb_reshape(g, off, &plb_scalar_shape));
    return PLB_OK;
}

// Positions are columns in ONNX. Only the count of axis 0 travels with a value, so that it must be
// known.
plb_status plb_onnx_map_nonzero(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    bool known;
    plb_tensor t;
    plb_value rows = plb_nonzero(g, n->in[0]);
    PLB_TRY(plb_graph_status(g));
    PLB_TRY(plb_evaluate(n->scope->evaluator, plb_value_count(g, rows), &known, &t));
    if (!known) return plb_onnx_refuse("how many elements are not zero depends on data");
    rows = plb_slice_axis(g, rows, 0, 0, plb_load_i64(t.data, t.dtype, 0));
    n->out[0] = plb_transpose(g, rows, 0, 1);
    return PLB_OK;
}

plb_status plb_onnx_map_compress(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_shape x = plb_onnx_type(n, 0).shape;
    plb_value data = n->in[0];
    int axis = 0;
    plb_tensor t;
    if (!plb_onnx_has(n, "axis"))
        data = plb_reshape(g, data, &plb_shape_of(plb_shape_count(&x)));
    else
        PLB_TRY(axis_of(n, 0, &axis));
    PLB_TRY(plb_onnx_known(n, 1, &t));
    int64_t count = 0, all = plb_shape_count(&t.shape);
    int64_t *kept = plb_arena_alloc(n->scope->b->arena, (size_t)(all + 1) * sizeof *kept);
    if (!kept) return plb_fail(PLB_ENOMEM, "out of memory for indices");
    for (int64_t i = 0; i < all; i++) {
        if (plb_load_i64(t.data, t.dtype, i)) kept[count++] = i;
    }
    n->out[0] = plb_take(g, data, plb_onnx_i64(g, kept, count), axis);
    return PLB_OK;
}

// Each sequence turned around up to its own length: position i becomes length - 1 - i.
plb_status plb_onnx_map_reverse_sequence(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_shape x = plb_onnx_type(n, 0).shape;
    int time, batch;
    PLB_TRY(plb_onnx_axis(plb_onnx_int(n, "time_axis", 0), x.rank, &time));
    PLB_TRY(plb_onnx_axis(plb_onnx_int(n, "batch_axis", 1), x.rank, &batch));
    plb_shape lengths = {.rank = x.rank};
    for (int i = 0; i < x.rank; i++) lengths.dim[i] = i == batch ? x.dim[i] : 1;
    plb_value length = plb_reshape(g, n->in[1], &lengths);
    plb_value i = plb_iota(g, PLB_I64, &x, time);
    plb_value turned = plb_affine(g, plb_sub(g, length, i), 1, -1);
    plb_value inside = plb_lt(g, i, plb_expand(g, length, &x));
    n->out[0] = plb_gather(g, n->in[0], plb_where(g, inside, turned, i), time);
    return PLB_OK;
}
