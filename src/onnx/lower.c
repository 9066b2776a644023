// SPDX-License-Identifier: Apache-2.0
// The graph that a file can hold. Ops that ONNX has no word for become several that it has;
// numbers that ONNX keeps as f32 are rounded to it; what depends on constants alone is computed.
// The importer turns each of the ops that remain into itself again, so that a graph, written and
// read, is the same graph: plb_onnx_digest compares by this.
#include "onnx/lower.h"

#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "plumb/ops.h"

typedef struct lowering {
    plb_rewrite rw;
    plb_graph *to;
    const plb_node *node; // at hand
} lowering;

static plb_value in(const lowering *l, int k) {
    return k < l->node->n_in && l->node->in[k] >= 0 ? l->rw.map[l->node->in[k]] : PLB_NONE;
}

static plb_type in_type(const lowering *l, int k) {
    return plb_value_type(l->to, in(l, k));
}

static double to_f32(double x) {
    return (double)(float)x;
}

static plb_value number(const lowering *l, double x) { // of the type of input 0
    return plb_scalar(l->to, in_type(l, 0).dtype, x);
}

static const plb_pointwise_attrs *pointwise(const lowering *l) {
    return l->node->attrs;
}

// The node itself, with other attributes.
static plb_value with_attrs(const lowering *l, const void *attrs) {
    plb_value inputs[8];
    for (int k = 0; k < l->node->n_in && k < 8; k++) inputs[k] = in(l, k);
    return plb_emit(l->to, l->node->op, inputs, l->node->n_in, attrs);
}

// ---------------------------------------------------------------------------- pointwise
static plb_value round_attrs(lowering *l) {
    plb_pointwise_attrs a = *pointwise(l);
    a.alpha = to_f32(a.alpha), a.beta = to_f32(a.beta);
    return with_attrs(l, &a);
}

static plb_value lower_affine(lowering *l) {
    plb_value y = in(l, 0);
    if (pointwise(l)->alpha != 1) y = plb_mul(l->to, y, number(l, pointwise(l)->alpha));
    return pointwise(l)->beta != 0 ? plb_add(l->to, y, number(l, pointwise(l)->beta)) : y;
}

static plb_value lower_rsqrt(lowering *l) {
    return plb_reciprocal(l->to, plb_sqrt(l->to, in(l, 0)));
}

static plb_value lower_log1p(lowering *l) {
    return plb_log(l->to, plb_add(l->to, in(l, 0), number(l, 1)));
}

static plb_value lower_expm1(lowering *l) {
    return plb_sub(l->to, plb_exp(l->to, in(l, 0)), number(l, 1));
}

static plb_value lower_trunc(lowering *l) {
    plb_value x = in(l, 0);
    return plb_mul(l->to, plb_sign(l->to, x), plb_floor(l->to, plb_abs(l->to, x)));
}

static plb_value lower_silu(lowering *l) {
    return plb_mul(l->to, in(l, 0), plb_sigmoid(l->to, in(l, 0)));
}

static plb_value lower_softplus(lowering *l) { // log(1 + exp(beta x)) / beta
    double beta = pointwise(l)->alpha;
    if (beta == 1) return plb_softplus(l->to, in(l, 0), 1, 1000);
    plb_value x = plb_mul(l->to, in(l, 0), number(l, beta));
    return plb_div(l->to, plb_softplus(l->to, x, 1, 1000), number(l, beta));
}

static plb_value lower_selu(lowering *l) {
    plb_value y = plb_elu(l->to, in(l, 0), to_f32(1.6732632423543772848170429916717));
    return plb_mul(l->to, y, number(l, 1.0507009873554804934193349852946));
}

static plb_value lower_ne(lowering *l) {
    return plb_not(l->to, plb_eq(l->to, in(l, 0), in(l, 1)));
}

static plb_value lower_remainder(lowering *l) { // ONNX has the sign of b for integers only
    plb_value a = in(l, 0), b = in(l, 1);
    if (!plb_dtype_is_float(in_type(l, 0).dtype)) return with_attrs(l, NULL);
    return plb_sub(l->to, a, plb_mul(l->to, plb_floor(l->to, plb_div(l->to, a, b)), b));
}

static plb_value lower_prelu(lowering *l) { // slope[C] or [1]
    plb_value x = in(l, 0), slope = in(l, 1);
    plb_shape wide = {.rank = in_type(l, 0).shape.rank - 1}, s = in_type(l, 1).shape;
    if (wide.rank < 1) wide.rank = 1;
    for (int i = 0; i < wide.rank; i++) wide.dim[i] = i ? 1 : s.dim[0];
    if (!plb_shape_equal(&wide, &s)) slope = plb_reshape(l->to, slope, &wide);
    plb_value below = plb_lt(l->to, x, number(l, 0));
    return plb_where(l->to, below, plb_mul(l->to, x, slope), x);
}

static plb_value lower_relu_grad(lowering *l) {
    plb_value above = plb_gt(l->to, in(l, 1), number(l, 0));
    return plb_where(l->to, above, in(l, 0), number(l, 0));
}

// ---------------------------------------------------------------------------- products
static plb_value transposed(const lowering *l, plb_value x) {
    int rank = plb_value_shape(l->to, x).rank;
    return plb_transpose(l->to, x, rank - 2, rank - 1);
}

// Gemm has flags and a bias, MatMul, which takes more axes, has neither.
static plb_value lower_matmul(lowering *l) {
    const plb_matmul_attrs *a = l->node->attrs;
    plb_value x = in(l, 0), w = in(l, 1), bias = in(l, 2);
    bool plain = !a->trans_a && !a->trans_b && bias == PLB_NONE;
    if (plain || (in_type(l, 0).shape.rank == 2 && in_type(l, 1).shape.rank == 2)) {
        return with_attrs(l, a);
    }
    if (a->trans_a) x = transposed(l, x);
    if (a->trans_b) w = transposed(l, w);
    plb_value y = plb_matmul(l->to, x, w, NULL);
    return bias == PLB_NONE ? y : plb_add(l->to, y, bias);
}

// ---------------------------------------------------------------------------- normalisation
static plb_value filled(const lowering *l, const plb_shape *shape, double x) {
    return plb_expand(l->to, number(l, x), shape);
}

static plb_value lower_norm(lowering *l) {
    plb_norm_attrs a = *(const plb_norm_attrs *)l->node->attrs;
    plb_shape x = in_type(l, 0).shape, affine = plb_shape_of(x.rank > 1 ? x.dim[1] : 1);
    plb_value inputs[5];
    if (l->node->op == PLB_OP_layer_norm) {
        affine.rank = (int)a.axes;
        for (int i = 0; i < affine.rank; i++) affine.dim[i] = x.dim[x.rank - affine.rank + i];
    }
    a.eps = to_f32(a.eps);
    int n = l->node->n_in < 3 ? 3 : l->node->n_in;
    for (int k = 0; k < n && k < 5; k++) inputs[k] = in(l, k);
    if (inputs[1] == PLB_NONE) inputs[1] = filled(l, &affine, 1);
    if (inputs[2] == PLB_NONE) inputs[2] = filled(l, &affine, 0);
    return plb_emit(l->to, l->node->op, inputs, n, &a);
}

// ---------------------------------------------------------------------------- pooling
// Means of the windows along one axis as a matrix [in, out], or [out, in] where `rows`.
static plb_value window_matrix(const lowering *l, int64_t extent, int64_t out, bool rows) {
    plb_shape shape = rows ? plb_shape_of(out, extent) : plb_shape_of(extent, out);
    double *m = plb_arena_alloc(l->to->arena, (size_t)(extent * out) * sizeof *m + 1);
    if (!m) return plb_graph_fail(l->to, plb_fail(PLB_ENOMEM, "out of memory for a matrix"));
    for (int64_t i = 0; i < out; i++) {
        int64_t begin = i * extent / out, end = ((i + 1) * extent + out - 1) / out;
        for (int64_t k = begin; k < end; k++) {
            m[rows ? i * extent + k : k * out + i] = 1 / (double)(end - begin);
        }
    }
    return plb_cast(l->to, plb_constant(l->to, PLB_F64, &shape, m), in_type(l, 0).dtype);
}

// To one element it is GlobalAveragePool, from a multiple AveragePool, else products.
static plb_value lower_adaptive_avg_pool(lowering *l) {
    const plb_pool_attrs *a = l->node->attrs;
    plb_shape x = in_type(l, 0).shape;
    plb_pool_attrs pool = {0};
    bool global = true, whole = true, same = true;
    int axes = x.rank - 2;
    for (int i = 0; i < axes; i++) {
        int64_t extent = x.dim[2 + i];
        global &= a->extent[i] == 1, same &= a->extent[i] == extent;
        whole &= extent % a->extent[i] == 0;
        pool.kernel[i] = pool.stride[i] = extent / a->extent[i];
    }
    if (global) return with_attrs(l, a);
    if (same) return in(l, 0);
    if (whole) return plb_avg_pool(l->to, in(l, 0), &pool);
    if (axes > 2) return plb_graph_fail(l->to, plb_fail(PLB_EUNSUPPORTED, "unequal windows"));
    plb_value y = plb_matmul(l->to, in(l, 0),
                             window_matrix(l, x.dim[x.rank - 1], a->extent[axes - 1], false), NULL);
    if (axes == 1) return y;
    return plb_matmul(l->to, window_matrix(l, x.dim[2], a->extent[0], true), y, NULL);
}

// ---------------------------------------------------------------------------- reductions
static plb_value lower_var(lowering *l) {
    const plb_reduce_attrs *a = l->node->attrs;
    plb_value x = in(l, 0), mean = plb_mean(l->to, x, a->axes, true);
    plb_shape all = in_type(l, 0).shape, left = plb_value_shape(l->to, mean);
    double n = (double)plb_shape_count(&all) / (double)plb_shape_count(&left);
    plb_value d = plb_sub(l->to, x, mean);
    plb_value y = plb_mean(l->to, plb_mul(l->to, d, d), a->axes, a->keep != 0);
    return a->p == 0 ? y : plb_mul(l->to, y, number(l, n / (n - a->p)));
}

static plb_value lower_norm_of(lowering *l) {
    const plb_reduce_attrs *a = l->node->attrs;
    plb_value x = in(l, 0);
    if (a->p == 1) return plb_sum(l->to, plb_abs(l->to, x), a->axes, a->keep != 0);
    if (a->p == 2) {
        plb_value squares = plb_mul(l->to, x, x);
        return plb_sqrt(l->to, plb_sum(l->to, squares, a->axes, a->keep != 0));
    }
    return plb_graph_fail(l->to, plb_fail(PLB_EUNSUPPORTED, "a norm of exponent %g", a->p));
}

static plb_value lower_sort(lowering *l) {
    const plb_axis_attrs *a = l->node->attrs;
    int64_t extent = in_type(l, 0).shape.dim[a->axis];
    return plb_top_k(l->to, in(l, 0), (int)a->axis, extent, a->descending != 0);
}

// ---------------------------------------------------------------------------- shapes
static plb_value lower_slice(lowering *l) {
    plb_slice_attrs a = *(const plb_slice_attrs *)l->node->attrs;
    bool whole = true;
    for (int i = 0; i < a.shape.rank; i++) {
        if (a.shape.dim[i] < 2) a.step[i] = 1;
        if (a.shape.dim[i] < 1) a.begin[i] = 0;
        whole &= a.begin[i] == 0 && a.step[i] == 1;
    }
    plb_shape x = in_type(l, 0).shape;
    if (whole && plb_shape_equal(&x, &a.shape)) return in(l, 0);
    return plb_slice(l->to, in(l, 0), &a);
}

static plb_value lower_flip(lowering *l) {
    const plb_flip_attrs *a = l->node->attrs;
    plb_slice_attrs s = {.shape = in_type(l, 0).shape};
    for (int i = 0; i < s.shape.rank; i++) {
        bool turned = a->axes >> i & 1 && s.shape.dim[i] > 1;
        s.begin[i] = turned ? s.shape.dim[i] - 1 : 0;
        s.step[i] = turned ? -1 : 1;
    }
    return plb_slice(l->to, in(l, 0), &s);
}

// ---------------------------------------------------------------------------- indices
static const plb_node *maker(const plb_graph *g, plb_value value) {
    return value < 0 ? NULL : &g->nodes[g->values[value].node];
}

// ONNX's indices may be negative, so that what the importer put before an index for that, where(i <
// 0, i + extent, i), is left out again.
static plb_value plain_index(const lowering *l, plb_value index) {
    const plb_graph *g = l->to;
    const plb_node *where = maker(g, index);
    if (!where || where->op != PLB_OP_where) return index;
    const plb_node *test = maker(g, where->in[0]), *sum = maker(g, where->in[1]);
    bool wraps = test->op == PLB_OP_lt && sum->op == PLB_OP_add && test->in[0] == where->in[2] &&
                 sum->in[0] == where->in[2] && maker(g, sum->in[1])->op == PLB_OP_constant &&
                 maker(g, test->in[1])->op == PLB_OP_constant;
    return wraps ? where->in[2] : index;
}

static plb_value lower_indexed(lowering *l) {
    plb_value inputs[3];
    for (int k = 0; k < l->node->n_in; k++)
        inputs[k] = k == 1 ? plain_index(l, in(l, 1)) : in(l, k);
    return plb_emit(l->to, l->node->op, inputs, l->node->n_in, l->node->attrs);
}

// ---------------------------------------------------------------------------- the table
static const struct {
    plb_op_id op;
    plb_value (*lower)(lowering *l);
} rules[] = {
    {PLB_OP_affine, lower_affine},
    {PLB_OP_rsqrt, lower_rsqrt},
    {PLB_OP_log1p, lower_log1p},
    {PLB_OP_expm1, lower_expm1},
    {PLB_OP_trunc, lower_trunc},
    {PLB_OP_silu, lower_silu},
    {PLB_OP_softplus, lower_softplus},
    {PLB_OP_selu, lower_selu},
    {PLB_OP_leaky_relu, round_attrs},
    {PLB_OP_elu, round_attrs},
    {PLB_OP_celu, round_attrs},
    {PLB_OP_clamp, round_attrs},
    {PLB_OP_ne, lower_ne},
    {PLB_OP_remainder, lower_remainder},
    {PLB_OP_prelu, lower_prelu},
    {PLB_OP_relu_grad, lower_relu_grad},
    {PLB_OP_matmul, lower_matmul},
    {PLB_OP_batch_norm_infer, lower_norm},
    {PLB_OP_layer_norm, lower_norm},
    {PLB_OP_group_norm, lower_norm},
    {PLB_OP_adaptive_avg_pool, lower_adaptive_avg_pool},
    {PLB_OP_reduce_var, lower_var},
    {PLB_OP_reduce_norm, lower_norm_of},
    {PLB_OP_sort, lower_sort},
    {PLB_OP_slice, lower_slice},
    {PLB_OP_flip, lower_flip},
    {PLB_OP_take, lower_indexed},
    {PLB_OP_gather, lower_indexed},
    {PLB_OP_scatter, lower_indexed},
    {PLB_OP_scatter_add, lower_indexed},
    {PLB_OP_scatter_reduce, lower_indexed},
};

// ONNX's layers make the products with the input themselves; here they are made already.
static bool lower_recurrent(const lowering *l) {
    plb_value inputs[5], out[3];
    for (int k = 0; k < 5; k++) inputs[k] = in(l, k);
    plb_scope_enter(l->to, l->node->scope);
    plb_recurrent_unrolled(l->to, l->node->attrs, inputs, out);
    plb_scope_pop(l->to);
    for (int k = 0; k < l->node->n_out; k++) l->rw.map[l->node->out + k] = out[k];
    return true;
}

static bool lower_node(lowering *l) {
    if (l->node->op == PLB_OP_recurrent) return lower_recurrent(l);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].op != l->node->op) continue;
        plb_scope_enter(l->to, l->node->scope);
        plb_value made = rules[i].lower(l);
        plb_scope_pop(l->to);
        for (int k = 0; k < l->node->n_out; k++) {
            l->rw.map[l->node->out + k] = made == PLB_NONE ? PLB_NONE : made + k;
        }
        return true;
    }
    return false;
}

static plb_status copy_all(const plb_graph *from, plb_graph **out) {
    plb_rewrite rw;
    PLB_TRY(plb_rewrite_begin(from, &rw));
    for (int i = 0; i < from->n_nodes && !rw.to->status; i++) plb_rewrite_copy(&rw, i);
    return plb_rewrite_end(&rw, out);
}

static plb_status lower_all(plb_graph **graph) {
    const plb_graph *from = *graph;
    lowering l = {0};
    PLB_TRY(plb_rewrite_begin(from, &l.rw));
    l.to = l.rw.to;
    for (int i = 0; i < from->n_nodes && !l.to->status; i++) {
        l.node = &from->nodes[i];
        if (!lower_node(&l)) plb_rewrite_copy(&l.rw, i);
    }
    return plb_pass_commit(&l.rw, graph);
}

enum { MOST_CONSTANT = 1 << 22 }; // elements: what is larger stays computed

plb_status plb_onnx_lower(const plb_graph *graph, plb_graph **out) {
    plb_strbuf report = {0};
    const plb_pass_context context = {.report = &report};
    plb_graph *made = NULL;
    plb_status status;
    int folded;
    *out = NULL;
    PLB_TRY(plb_graph_status(graph));
    // Known indices before what makes them positive is left out, then what lowering put there.
    PLB_TRY_OUT(copy_all(graph, &made));
    PLB_TRY_OUT(plb_fold_constants(&made, MOST_CONSTANT, &folded));
    PLB_TRY_OUT(lower_all(&made));
    PLB_TRY_OUT(plb_fold_constants(&made, MOST_CONSTANT, &folded));
    PLB_TRY_OUT(plb_pass_clean(&made, &context));
    *out = made, made = NULL;
out:
    plb_graph_free(made);
    plb_strbuf_free(&report);
    return status;
}
