// SPDX-License-Identifier: Apache-2.0
// Reductions, softmax and its kin, scans, sorting.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "onnx/build.h"
#include "onnx/map.h"

typedef plb_value (*reduction)(plb_graph *graph, plb_value x, int64_t axes, bool keep);

static plb_value absolute(plb_graph *g, plb_value x, int64_t axes, bool keep) {
    return plb_sum(g, plb_abs(g, x), axes, keep);
}

static plb_value square(plb_graph *g, plb_value x, int64_t axes, bool keep) {
    return plb_sum(g, plb_mul(g, x, x), axes, keep);
}

// What a reduction to reals is of integers: cut, as casts do.
static plb_value by_reals(plb_graph *g, plb_value x, int64_t axes, bool keep, reduction build) {
    plb_dtype dtype = plb_value_type(g, x).dtype;
    if (plb_dtype_is_float(dtype)) return build(g, x, axes, keep);
    return plb_cast(g, build(g, plb_cast(g, x, PLB_F64), axes, keep), dtype);
}

static plb_value root_of_squares(plb_graph *g, plb_value x, int64_t axes, bool keep) {
    return plb_sqrt(g, square(g, x, axes, keep));
}

static plb_value euclid(plb_graph *g, plb_value x, int64_t axes, bool keep) {
    return by_reals(g, x, axes, keep, root_of_squares);
}

static plb_value log_of_sum(plb_graph *g, plb_value x, int64_t axes, bool keep) {
    return plb_log(g, plb_sum(g, x, axes, keep));
}

static plb_value log_sum(plb_graph *g, plb_value x, int64_t axes, bool keep) {
    return by_reals(g, x, axes, keep, log_of_sum);
}

static plb_value log_sum_exp(plb_graph *g, plb_value x, int64_t axes, bool keep) {
    return by_reals(g, x, axes, keep, plb_logsumexp);
}

// Of integers their sum, which only 64 bits are sure to hold, divided as integers are.
static plb_value mean(plb_graph *g, plb_value x, int64_t axes, bool keep) {
    plb_dtype dtype = plb_value_type(g, x).dtype;
    if (plb_dtype_is_float(dtype)) return plb_mean(g, x, axes, keep);
    plb_dtype wide = dtype == PLB_U64 ? PLB_U64 : PLB_I64;
    plb_value sum = plb_sum(g, plb_cast(g, x, wide), axes, keep);
    plb_shape from = plb_value_shape(g, x), to = plb_value_shape(g, sum);
    int64_t each = plb_shape_count(&from) / (plb_shape_count(&to) ? plb_shape_count(&to) : 1);
    return plb_cast(g, plb_div(g, sum, plb_scalar(g, wide, (double)each)), dtype);
}

// What the largest or smallest of no elements is: the least or greatest number of the type.
static plb_value of_nothing(plb_graph *g, plb_value x, int64_t axes, bool keep, double limit) {
    plb_shape shape = plb_value_shape(g, plb_sum(g, x, axes, keep));
    return plb_expand(g, plb_scalar(g, plb_value_type(g, x).dtype, limit), &shape);
}

static bool is_empty(const plb_graph *g, plb_value x) {
    plb_shape shape = plb_value_shape(g, x);
    return plb_shape_count(&shape) == 0;
}

static plb_value largest(plb_graph *g, plb_value x, int64_t axes, bool keep) {
    if (plb_value_type(g, x).dtype == PLB_BOOL) return plb_any(g, x, axes, keep);
    if (is_empty(g, x)) return of_nothing(g, x, axes, keep, -INFINITY);
    return plb_amax(g, x, axes, keep);
}

static plb_value smallest(plb_graph *g, plb_value x, int64_t axes, bool keep) {
    if (plb_value_type(g, x).dtype == PLB_BOOL) return plb_all(g, x, axes, keep);
    if (is_empty(g, x)) return of_nothing(g, x, axes, keep, INFINITY);
    return plb_amin(g, x, axes, keep);
}

static const struct {
    const char *name;
    reduction build;
} reductions[] = {
    {"ReduceL1", absolute},           {"ReduceL2", euclid},     {"ReduceLogSum", log_sum},
    {"ReduceLogSumExp", log_sum_exp}, {"ReduceMax", largest},   {"ReduceMean", mean},
    {"ReduceMin", smallest},          {"ReduceProd", plb_prod}, {"ReduceSum", plb_sum},
    {"ReduceSumSquare", square},
};

// Over no axes each element is alone: a reduction of x seen as [..., 1] along the new axis.
static plb_value alone(plb_graph *g, plb_value x, reduction build) {
    plb_shape shape = plb_value_shape(g, x), wide = shape;
    if (wide.rank == PLB_MAX_RANK) {
        return plb_graph_fail(g, plb_onnx_refuse("rank %d", wide.rank));
    }
    wide.dim[wide.rank++] = 1;
    return build(g, plb_reshape(g, x, &wide), INT64_C(1) << shape.rank, false);
}

plb_status plb_onnx_map_reduce(plb_onnx_node *n) {
    int64_t axes[PLB_MAX_RANK], set = 0;
    int count, rank = plb_onnx_type(n, 0).shape.rank;
    bool keep = plb_onnx_int(n, "keepdims", 1) != 0;
    PLB_TRY(plb_onnx_ints_or_input(n, "axes", 1, axes, PLB_MAX_RANK, &count));
    PLB_TRY(plb_onnx_axis_set(axes, count, rank, &set));
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++) {
        if (strcmp(reductions[i].name, n->op) != 0) continue;
        bool none = count <= 0 && plb_onnx_int(n, "noop_with_empty_axes", 0);
        n->out[0] = none || rank == 0 ? alone(n->graph, n->in[0], reductions[i].build)
                                      : reductions[i].build(n->graph, n->in[0], set, keep);
        return PLB_OK;
    }
    return plb_fail(PLB_EBROKEN, "%s is no reduction", n->op);
}

plb_status plb_onnx_map_arg(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_shape shape = plb_onnx_type(n, 0).shape;
    bool max = strcmp(n->op, "ArgMax") == 0, keep = plb_onnx_int(n, "keepdims", 1) != 0;
    bool last = plb_onnx_int(n, "select_last_index", 0) != 0;
    int axis;
    PLB_TRY(plb_onnx_axis(plb_onnx_int(n, "axis", 0), shape.rank, &axis));
    plb_value x = last ? plb_flip(g, n->in[0], INT64_C(1) << axis) : n->in[0];
    plb_value at = max ? plb_arg_max(g, x, axis, keep) : plb_arg_min(g, x, axis, keep);
    n->out[0] = last ? plb_affine(g, at, -1, (double)(shape.dim[axis] - 1)) : at;
    return PLB_OK;
}

// Before version 13 softmax worked on x as a matrix: all axes from `axis` on at once.
plb_status plb_onnx_map_softmax(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_shape shape = plb_onnx_type(n, 0).shape, flat = {.rank = 2, .dim = {1, 1}};
    int axis;
    PLB_TRY(plb_onnx_axis(plb_onnx_int(n, "axis", n->opset < 13 ? 1 : -1), shape.rank, &axis));
    plb_value x = n->in[0];
    bool matrix = n->opset < 13 && axis != shape.rank - 1;
    for (int i = 0; i < shape.rank; i++) flat.dim[i >= axis] *= shape.dim[i];
    if (matrix) x = plb_reshape(g, x, &flat);
    int along = matrix ? 1 : axis;
    if (strcmp(n->op, "Softmax") == 0)
        x = plb_softmax(g, x, along);
    else if (strcmp(n->op, "LogSoftmax") == 0)
        x = plb_log_softmax(g, x, along);
    else
        x = plb_onnx_one_hot(g, plb_arg_max(g, x, along, true), along,
                             matrix ? flat.dim[1] : shape.dim[axis], plb_onnx_type(n, 0).dtype);
    n->out[0] = matrix ? plb_reshape(g, x, &shape) : x;
    return PLB_OK;
}

plb_status plb_onnx_map_cumsum(plb_onnx_node *n) {
    int64_t rank = plb_onnx_type(n, 0).shape.rank, axis;
    PLB_TRY(plb_onnx_known_int(n, 1, -rank, rank - 1, &axis));
    n->out[0] = plb_cumsum(n->graph, n->in[0], (int)axis, plb_onnx_int(n, "reverse", 0) != 0,
                           plb_onnx_int(n, "exclusive", 0) != 0);
    return PLB_OK;
}

plb_status plb_onnx_map_top_k(plb_onnx_node *n) {
    int64_t k = plb_onnx_int(n, "k", 0);
    int axis, rank = plb_onnx_type(n, 0).shape.rank;
    if (n->opset >= 10) PLB_TRY(plb_onnx_known_int(n, 1, 0, PLB_ONNX_MAX_EXTENT, &k));
    PLB_TRY(plb_onnx_axis(plb_onnx_int(n, "axis", -1), rank, &axis));
    n->out[0] = plb_top_k(n->graph, n->in[0], axis, k, plb_onnx_int(n, "largest", 1) != 0);
    if (n->out[0] != PLB_NONE) n->out[1] = n->out[0] + 1;
    return PLB_OK;
}

// x over its p-norm along an axis; 0 where that is 0.
plb_status plb_onnx_map_lp_normalization(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_type type = plb_onnx_type(n, 0);
    int axis;
    int64_t p = plb_onnx_int(n, "p", 2);
    PLB_TRY(plb_onnx_axis(plb_onnx_int(n, "axis", -1), type.shape.rank, &axis));
    if (p != 1 && p != 2)
        return plb_fail(PLB_EINVAL, "p: expected 1 or 2, found %lld", (long long)p);
    plb_value norm = p == 1 ? absolute(g, n->in[0], INT64_C(1) << axis, true)
                            : euclid(g, n->in[0], INT64_C(1) << axis, true);
    plb_value zero = plb_scalar(g, type.dtype, 0);
    plb_value safe = plb_where(g, plb_eq(g, norm, zero), plb_scalar(g, type.dtype, 1), norm);
    n->out[0] = plb_div(g, n->in[0], safe);
    return PLB_OK;
}

enum { MAX_STEPS = 1024 }; // of what is unrolled

plb_status plb_onnx_map_cumprod(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_type type = plb_onnx_type(n, 0);
    int64_t which, rank = type.shape.rank;
    int axis;
    PLB_TRY(plb_onnx_known_int(n, 1, -rank, rank - 1, &which));
    PLB_TRY(plb_onnx_axis(which, type.shape.rank, &axis));
    bool reverse = plb_onnx_int(n, "reverse", 0) != 0;
    bool exclusive = plb_onnx_int(n, "exclusive", 0) != 0;
    int64_t steps = type.shape.dim[axis];
    plb_value rows[MAX_STEPS], product = PLB_NONE;
    if (steps < 1 || steps > MAX_STEPS) return plb_onnx_refuse("%lld steps", (long long)steps);
    plb_shape row = type.shape;
    row.dim[axis] = 1;
    if (exclusive) product = plb_expand(g, plb_scalar(g, type.dtype, 1), &row);
    for (int64_t i = 0; i < steps; i++) {
        int64_t at = reverse ? steps - 1 - i : i;
        plb_value x = plb_slice_axis(g, n->in[0], axis, at, at + 1);
        if (exclusive) rows[at] = product;
        product = product == PLB_NONE ? x : plb_mul(g, product, x);
        if (!exclusive) rows[at] = product;
    }
    n->out[0] = plb_concat(g, rows, (int)steps, axis);
    return PLB_OK;
}

// By minors of the first row.
static plb_value determinant(plb_graph *g, plb_value x, int64_t size) {
    int rank = plb_value_shape(g, x).rank;
    if (size == 1) return x;
    plb_value sum = PLB_NONE, below = plb_slice_axis(g, x, rank - 2, 1, size);
    for (int64_t i = 0; i < size; i++) {
        plb_value top = plb_slice_axis(g, plb_slice_axis(g, x, rank - 2, 0, 1), rank - 1, i, i + 1);
        plb_value parts[2] = {plb_slice_axis(g, below, rank - 1, 0, i),
                              plb_slice_axis(g, below, rank - 1, i + 1, size)};
        plb_value minor = determinant(g, plb_concat(g, parts, 2, rank - 1), size - 1);
        plb_value term = plb_affine(g, plb_mul(g, top, minor), i % 2 ? -1 : 1, 0);
        sum = sum == PLB_NONE ? term : plb_add(g, sum, term);
    }
    return sum;
}

plb_status plb_onnx_map_det(plb_onnx_node *n) {
    plb_shape s = plb_onnx_type(n, 0).shape, lead = s;
    if (s.rank < 2 || s.dim[s.rank - 1] != s.dim[s.rank - 2]) {
        return plb_fail(PLB_EINVAL, "expected square matrices");
    }
    if (s.dim[s.rank - 1] < 1 || s.dim[s.rank - 1] > 4) {
        return plb_onnx_refuse("a determinant of extent %lld", (long long)s.dim[s.rank - 1]);
    }
    lead.rank -= 2;
    plb_value y = determinant(n->graph, n->in[0], s.dim[s.rank - 1]);
    n->out[0] = plb_reshape(n->graph, y, &lead);
    return PLB_OK;
}
