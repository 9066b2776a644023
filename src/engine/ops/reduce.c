// SPDX-License-Identifier: Apache-2.0
// Reductions over any set of axes: one row of the list OPS each. A fold is a function from the
// cells of one output element to its value; floats are folded in f64, integers exactly, wrapping
// around in their own dtype. A NaN among the cells makes max and min NaN.
//
// Of no cells at all: sum 0, prod 1, any false, all true, norm 0, logsumexp -infinity, mean and
// var NaN; max and min are refused.
#include <math.h>

#include "base/core/status.h"
#include "engine/graph/graph.h"
#include "engine/ops/pointwise.h"

// The cells that one output element is folded from. A copy starts over.
typedef struct cells {
    const plb_tensor *in;
    int64_t axes; // bit set of the reduced axes, never 0 unless rank is 0
    int64_t index[PLB_MAX_RANK];
    int64_t count;
    double p;
} cells;

static int64_t all_axes(int rank) {
    return ((int64_t)1 << rank) - 1;
}

static double value_of(const cells *c) {
    return plb_load_f64(c->in->data, c->in->dtype, plb_tensor_offset(c->in, c->index));
}

static int64_t integer_of(const cells *c) {
    return plb_load_i64(c->in->data, c->in->dtype, plb_tensor_offset(c->in, c->index));
}

static void step(cells *c) {
    for (int i = c->in->shape.rank - 1; i >= 0; i--) {
        if (!(c->axes >> i & 1)) continue;
        if (++c->index[i] < c->in->shape.dim[i]) return;
        c->index[i] = 0;
    }
}

// ---------------------------------------------------------------------------- folds
static double fold_sum(cells c) {
    double sum = 0;
    for (int64_t k = 0; k < c.count; k++, step(&c)) sum += value_of(&c);
    return sum;
}

static double fold_mean(cells c) {
    return fold_sum(c) / (double)c.count;
}

static double fold_prod(cells c) {
    double product = 1;
    for (int64_t k = 0; k < c.count; k++, step(&c)) product *= value_of(&c);
    return product;
}

static double fold_max(cells c) {
    double best = -INFINITY;
    for (int64_t k = 0; k < c.count; k++, step(&c)) {
        double x = value_of(&c);
        if (x > best || isnan(x)) best = x;
        if (isnan(x)) break;
    }
    return best;
}

static double fold_min(cells c) {
    double best = INFINITY;
    for (int64_t k = 0; k < c.count; k++, step(&c)) {
        double x = value_of(&c);
        if (x < best || isnan(x)) best = x;
        if (isnan(x)) break;
    }
    return best;
}

static double fold_var(cells c) { // sum (x - mean)^2 / (n - correction)
    double mean = fold_mean(c), sum = 0, n = (double)c.count - c.p;
    for (int64_t k = 0; k < c.count; k++, step(&c)) {
        double d = value_of(&c) - mean;
        sum += d * d;
    }
    return sum / (n > 0 ? n : 0);
}

// (sum |x|^p)^(1/p); p = 0 counts what is not zero, infinite p gives the largest or the least.
static double fold_norm(cells c) {
    double sum = 0, least = INFINITY, greatest = 0;
    bool bad = false;
    for (int64_t k = 0; k < c.count; k++, step(&c)) {
        double x = fabs(value_of(&c));
        bad |= isnan(x);
        least = fmin(least, x), greatest = fmax(greatest, x);
        sum += c.p == 0 ? x != 0 : c.p == 2 ? x * x : pow(x, c.p);
    }
    if (bad) return NAN;
    if (isinf(c.p)) return c.p > 0 ? greatest : least;
    return c.p == 0 ? sum : c.p == 2 ? sqrt(sum) : pow(sum, 1 / c.p);
}

static double fold_logsumexp(cells c) {
    double shift = fold_max(c), sum = 0;
    if (isinf(shift)) shift = 0;
    for (int64_t k = 0; k < c.count; k++, step(&c)) sum += exp(value_of(&c) - shift);
    return log(sum) + shift;
}

static int64_t fold_integers(plb_op_id op, cells c) {
    plb_op_id pair = op == PLB_OP_reduce_sum    ? PLB_OP_add
                     : op == PLB_OP_reduce_prod ? PLB_OP_mul
                     : op == PLB_OP_reduce_max  ? PLB_OP_max
                     : op == PLB_OP_reduce_min  ? PLB_OP_min
                     : op == PLB_OP_reduce_any  ? PLB_OP_or
                                                : PLB_OP_and;
    int64_t first = op == PLB_OP_reduce_prod || op == PLB_OP_reduce_all;
    bool from_cell = op == PLB_OP_reduce_max || op == PLB_OP_reduce_min;
    if (from_cell) first = integer_of(&c);
    for (int64_t k = 0; k < c.count; k++, step(&c)) {
        int64_t in[3] = {first, integer_of(&c)};
        first = plb_pointwise_i64(pair, in, 0, 0, c.in->dtype);
    }
    return first;
}

// ---------------------------------------------------------------------------- types
static int64_t axes_of(const plb_reduce_attrs *attrs, int rank) {
    return attrs->axes ? attrs->axes : all_axes(rank);
}

static int64_t cells_of(const plb_shape *shape, int64_t axes) {
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++) count *= axes >> i & 1 ? shape->dim[i] : 1;
    return count;
}

static plb_shape reduced_shape(const plb_shape *shape, int64_t axes, bool keep) {
    plb_shape out = {0};
    for (int i = 0; i < shape->rank; i++) {
        if (!(axes >> i & 1)) {
            out.dim[out.rank++] = shape->dim[i];
        } else if (keep) {
            out.dim[out.rank++] = 1;
        }
    }
    return out;
}

enum { FLOAT = 1, INTEGER = 2, LOGIC = 4 };

static plb_status infer(plb_op_id op, int takes, plb_signature *s) {
    const plb_reduce_attrs *attrs = s->attrs;
    const plb_type *x = &s->in[0];
    const char *name = plb_op_of(op)->name;
    int class = plb_dtype_is_float(x->dtype) ? FLOAT : x->dtype == PLB_BOOL ? LOGIC : INTEGER;
    if (!(class & takes)) {
        return plb_fail(PLB_EINVAL, "%s: expected %s, found %s", name,
                        takes == LOGIC   ? "bool"
                        : takes == FLOAT ? "floats"
                                         : "numbers",
                        plb_dtype_name(x->dtype));
    }
    int64_t axes = axes_of(attrs, x->shape.rank);
    if (axes & ~all_axes(x->shape.rank)) {
        return plb_fail(PLB_EINVAL, "%s: expected axes of a value of rank %d, found the set 0x%llx",
                        name, x->shape.rank, (unsigned long long)axes);
    }
    s->out[0] = (plb_type){x->dtype, reduced_shape(&x->shape, axes, attrs->keep)};
    s->n_out = 1;
    bool ordered = op == PLB_OP_reduce_max || op == PLB_OP_reduce_min;
    if (ordered && !cells_of(&x->shape, axes) && plb_shape_count(&s->out[0].shape)) {
        return plb_fail(PLB_EINVAL, "%s: no elements to choose from", name);
    }
    return PLB_OK;
}

static double flops(const plb_signature *s) {
    return (double)plb_shape_count(&s->in[0].shape);
}

static plb_status ref(plb_op_id op, double (*fold)(cells), const plb_call *call) {
    const plb_reduce_attrs *attrs = call->attrs;
    const plb_tensor *x = &call->in[0], *y = &call->out[0];
    cells c = {.in = x, .axes = axes_of(attrs, x->shape.rank), .p = attrs->p};
    c.count = cells_of(&x->shape, c.axes);
    int64_t count = plb_shape_count(&y->shape), index[PLB_MAX_RANK];
    for (int64_t i = 0; i < count; i++) {
        plb_index_of(&y->shape, i, index);
        for (int axis = 0, k = 0; axis < x->shape.rank; axis++) {
            bool reduced = c.axes >> axis & 1;
            c.index[axis] = reduced ? 0 : index[k];
            k += !reduced || attrs->keep;
        }
        int64_t at = plb_tensor_offset(y, index);
        plb_number value;
        if (plb_dtype_is_float(x->dtype)) {
            value.f = fold(c);
        } else {
            value.i = fold_integers(op, c);
        }
        plb_number_store(y->data, y->dtype, at, value);
    }
    return PLB_OK;
}

static void describe(const void *attrs_, plb_strbuf *text) {
    const plb_reduce_attrs *attrs = attrs_;
    plb_describe_i64(text, "axes", attrs->axes);
    plb_describe_i64(text, "keep", attrs->keep);
    plb_describe_f64(text, "p", attrs->p);
}

// ---------------------------------------------------------------------------- gradients
// y and dy have the reduced axes with extent 1, so that they broadcast against x.
typedef struct reduction {
    plb_graph *graph;
    plb_value x, y, dy;
    int64_t axes, count;
    double p;
} reduction;

static plb_value number(const reduction *r, double value) {
    return plb_scalar(r->graph, plb_value_type(r->graph, r->x).dtype, value);
}

static plb_value grad_sum(const reduction *r) {
    plb_shape shape = plb_value_shape(r->graph, r->x);
    return plb_expand(r->graph, r->dy, &shape);
}

static plb_value grad_mean(const reduction *r) {
    double scale = 1 / (double)(r->count ? r->count : 1);
    plb_shape shape = plb_value_shape(r->graph, r->x);
    return plb_expand(r->graph, plb_affine(r->graph, r->dy, scale, 0), &shape);
}

// The product of the other cells: y / x without a zero among them; with one, only its own cell
// gets something; with more, none does. (Second derivatives are exact where no cell is zero.)
static plb_value grad_prod(const reduction *r) {
    plb_graph *g = r->graph;
    plb_value zero = number(r, 0), is_0 = plb_eq(g, r->x, zero);
    plb_value safe = plb_where(g, is_0, number(r, 1), r->x);
    plb_value product = plb_mul(g, r->dy, plb_prod(g, safe, r->axes, true));
    plb_value zeros = plb_sum(g, plb_cast(g, is_0, PLB_I32), r->axes, true);
    plb_value none = plb_eq(g, zeros, plb_scalar(g, PLB_I32, 0));
    plb_value one = plb_eq(g, zeros, plb_scalar(g, PLB_I32, 1));
    plb_value alone = plb_where(g, plb_and(g, is_0, one), product, zero);
    return plb_where(g, none, plb_div(g, product, safe), alone);
}

// Shared evenly among equals.
static plb_value shared(const reduction *r, plb_value mask, plb_value dy) {
    plb_graph *g = r->graph;
    plb_dtype dtype = plb_value_type(g, r->x).dtype;
    plb_value count = plb_sum(g, plb_cast(g, mask, dtype), r->axes, true);
    return plb_where(g, mask, plb_div(g, dy, count), number(r, 0));
}

static plb_value grad_extreme(const reduction *r) {
    return shared(r, plb_eq(r->graph, r->x, r->y), r->dy);
}

static plb_value grad_var(const reduction *r) {
    plb_graph *g = r->graph;
    double n = (double)r->count - r->p;
    plb_value centred = plb_sub(g, r->x, plb_mean(g, r->x, r->axes, true));
    return plb_mul(g, centred, plb_affine(g, r->dy, n > 0 ? 2 / n : INFINITY, 0));
}

static plb_value grad_norm_2(const reduction *r) { // x / y, and 0 where y = 0
    plb_graph *g = r->graph;
    plb_value flat = plb_eq(g, r->y, number(r, 0));
    plb_value slope = plb_div(g, r->dy, plb_where(g, flat, number(r, 1), r->y));
    return plb_mul(g, r->x, plb_where(g, flat, number(r, 0), slope));
}

// sign(x) (|x| / y)^(p-1), and 0 where x = 0.
static plb_value grad_norm(const reduction *r) {
    plb_graph *g = r->graph;
    if (r->p == 0) return PLB_NONE;
    if (r->p == 2) return grad_norm_2(r);
    plb_value sign = plb_sign(g, r->x), size = plb_abs(g, r->x);
    if (r->p == 1) return plb_mul(g, r->dy, sign);
    if (isinf(r->p)) return plb_mul(g, sign, shared(r, plb_eq(g, size, r->y), r->dy));
    plb_value one = number(r, 1), at_0 = plb_eq(g, r->x, number(r, 0));
    plb_value whole = plb_where(g, plb_eq(g, r->y, number(r, 0)), one, r->y);
    plb_value part = plb_div(g, plb_where(g, at_0, one, size), whole);
    plb_value slope = plb_pow(g, part, number(r, r->p - 1));
    return plb_mul(g, r->dy, plb_mul(g, sign, slope));
}

static plb_value grad_logsumexp(const reduction *r) {
    plb_graph *g = r->graph;
    return plb_mul(g, r->dy, plb_exp(g, plb_sub(g, r->x, r->y)));
}

// ---------------------------------------------------------------------------- the list
static double fold_logic(cells c) { // never called: any and all take bool alone
    return value_of(&c);
}

#define OPS(X)                                                       \
    X(reduce_sum, FLOAT | INTEGER, 0, -1, 1, fold_sum, grad_sum)     \
    X(reduce_mean, FLOAT, 0, -1, 1, fold_mean, grad_mean)            \
    X(reduce_prod, FLOAT | INTEGER, 0, 0.5, 2, fold_prod, grad_prod) \
    X(reduce_max, FLOAT | INTEGER, 0, -1, 1, fold_max, grad_extreme) \
    X(reduce_min, FLOAT | INTEGER, 0, -1, 1, fold_min, grad_extreme) \
    X(reduce_any, LOGIC, 0, 0, 1, fold_logic, NULL)                  \
    X(reduce_all, LOGIC, 0, 0, 1, fold_logic, NULL)                  \
    X(reduce_var, FLOAT, 1, -1, 1, fold_var, grad_var)               \
    X(reduce_norm, FLOAT, 2, -1, 1, fold_norm, grad_norm)            \
    X(reduce_logsumexp, FLOAT, 0, -3, 3, fold_logsumexp, grad_logsumexp)

typedef plb_value (*gradient)(const reduction *r);
static const gradient gradients[PLB_OP_COUNT] = {
#define ROW(op, takes, p, low, high, fold, grad) [PLB_OP_##op] = grad,
    OPS(ROW)
#undef ROW
};

static void grad_reduce(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                        plb_value *din) {
    if (!needed[0]) return;
    const plb_reduce_attrs *attrs = plb_node_attrs(graph, node);
    reduction r = {.graph = graph, .x = plb_node_in(graph, node, 0), .p = attrs->p};
    plb_type type = plb_value_type(graph, r.x);
    r.axes = axes_of(attrs, type.shape.rank);
    r.count = cells_of(&type.shape, r.axes);
    plb_shape kept = reduced_shape(&type.shape, r.axes, true);
    r.y = plb_reshape(graph, plb_node_out(graph, node, 0), &kept);
    r.dy = plb_reshape(graph, dout[0], &kept);
    plb_op_id op = graph->nodes[node].op;
    bool steps = op != PLB_OP_reduce_sum && op != PLB_OP_reduce_mean;
    if (steps && plb_dtype_size(type.dtype) == 2) { // in f32, one rounding at the end
        r.x = plb_cast(graph, r.x, PLB_F32);
        r.y = plb_cast(graph, r.y, PLB_F32);
        r.dy = plb_cast(graph, r.dy, PLB_F32);
    }
    plb_value dx = gradients[op](&r);
    if (dx != PLB_NONE) din[0] = plb_cast(graph, dx, type.dtype);
}

#define SAMPLE(label, dtype, low_, high_, p_, axes_, keep_, ...)                          \
    {                                                                                     \
        .name = label, .in = {PLB_TYPE_OF(dtype, __VA_ARGS__)}, .n_in = 1, .low = {low_}, \
        .high = {high_}, .attrs = &(const plb_reduce_attrs) {                             \
            axes_, keep_, p_                                                              \
        }                                                                                 \
    }
#define REAL(takes) ((takes) == LOGIC ? PLB_BOOL : PLB_F32)

#define DEFINE(op, takes, p, low_, high_, fold, grad_)                             \
    static plb_status infer_##op(plb_signature *s) {                               \
        return infer(PLB_OP_##op, takes, s);                                       \
    }                                                                              \
    static plb_status ref_##op(const plb_call *call) {                             \
        return ref(PLB_OP_##op, fold, call);                                       \
    }                                                                              \
    static const plb_sample samples_##op[] = {                                     \
        SAMPLE("all", REAL(takes), low_, high_, p, 0, 0, 3, 5),                    \
        SAMPLE("last axis", REAL(takes), low_, high_, p, 2, 0, 4, 7),              \
        SAMPLE("first axis, kept", REAL(takes), low_, high_, p, 1, 1, 4, 7),       \
        SAMPLE("batch and space", REAL(takes), low_, high_, p, 13, 0, 2, 3, 3, 5), \
        SAMPLE("space, kept", REAL(takes), low_, high_, p, 12, 1, 2, 3, 2, 5),     \
        SAMPLE("vector", REAL(takes), low_, high_, p, 1, 0, 13),                   \
        SAMPLE("nothing left", REAL(takes), low_, high_, p, 2, 0, 0, 3),           \
        {.name = "scalar",                                                         \
         .in = {{.dtype = REAL(takes)}},                                           \
         .n_in = 1,                                                                \
         .low = {low_},                                                            \
         .high = {high_},                                                          \
         .attrs = &(const plb_reduce_attrs){0, 0, (p) == 1 ? 0 : (p)}},            \
        SAMPLE("i32", PLB_I32, -9, 9, p, 2, 0, 3, 4),                              \
        SAMPLE("i8", PLB_I8, -128, 127, p, 1, 0, 3, 5),                            \
    };                                                                             \
    const plb_op plb_op_##op = {                                                   \
        .name = #op,                                                               \
        .flags = PLB_OP_STRIDED | ((takes) == LOGIC ? PLB_OP_NO_GRAD : 0),         \
        .attrs_bytes = sizeof(plb_reduce_attrs),                                   \
        .min_in = 1,                                                               \
        .max_in = 1,                                                               \
        .infer = infer_##op,                                                       \
        .grad = (takes) == LOGIC ? NULL : grad_reduce,                             \
        .flops = flops,                                                            \
        .ref = ref_##op,                                                           \
        .describe = describe,                                                      \
        .samples = samples_##op,                                                   \
        .n_samples = (takes)&INTEGER ? 10 : 8,                                     \
    };
OPS(DEFINE)

// ---------------------------------------------------------------------------- builders
int64_t plb_axes(int rank, int n, const int *axes) {
    int64_t set = 0;
    for (int i = 0; i < n; i++) {
        int axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        bool inside = axis >= 0 && axis < rank;
        set |= (int64_t)1 << (inside ? axis : 62); // refused when the op is built
    }
    return set;
}

static plb_value emit(plb_graph *graph, plb_op_id op, plb_value x, const plb_reduce_attrs *attrs) {
    return plb_emit(graph, op, &x, 1, attrs);
}

#define BUILDER(op, function)                                                    \
    plb_value function(plb_graph *graph, plb_value x, int64_t axes, bool keep) { \
        return emit(graph, PLB_OP_##op, x, &(plb_reduce_attrs){axes, keep, 0});  \
    }
BUILDER(reduce_sum, plb_sum)
BUILDER(reduce_mean, plb_mean)
BUILDER(reduce_prod, plb_prod)
BUILDER(reduce_max, plb_amax)
BUILDER(reduce_min, plb_amin)
BUILDER(reduce_any, plb_any)
BUILDER(reduce_all, plb_all)
BUILDER(reduce_logsumexp, plb_logsumexp)

plb_value plb_var(plb_graph *graph, plb_value x, int64_t axes, bool keep, double correction) {
    return emit(graph, PLB_OP_reduce_var, x, &(plb_reduce_attrs){axes, keep, correction});
}

plb_value plb_norm(plb_graph *graph, plb_value x, int64_t axes, bool keep, double p) {
    return emit(graph, PLB_OP_reduce_norm, x, &(plb_reduce_attrs){axes, keep, p});
}

plb_value plb_sum_to(plb_graph *graph, plb_value x, const plb_shape *shape) {
    plb_shape from = plb_value_shape(graph, x);
    if (x == PLB_NONE || plb_shape_equal(&from, shape)) return x;
    plb_shape back;
    plb_status status = plb_shape_broadcast(&from, shape, &back);
    if (!status && !plb_shape_equal(&back, &from)) {
        char s[160], t[160];
        status =
            plb_fail(PLB_EINVAL, "sum_to: %s is no broadcast of %s",
                     plb_shape_format(&from, s, sizeof s), plb_shape_format(shape, t, sizeof t));
    }
    if (status) return plb_graph_fail(graph, status);
    int lead = from.rank - shape->rank;
    int64_t axes = 0;
    for (int i = 0; i < from.rank; i++) {
        bool widened = i < lead || (shape->dim[i - lead] == 1 && from.dim[i] != 1);
        if (widened) axes |= (int64_t)1 << i;
    }
    plb_value sum = plb_sum(graph, x, axes, true); // never 0 axes: the shapes differ
    return lead ? plb_reshape(graph, sum, shape) : sum;
}
