// SPDX-License-Identifier: Apache-2.0
// softmax, log_softmax and their gradients, along one axis. The gradients are ops of their own,
// since each is one pass over a line where a composition takes four.
#include <math.h>

#include "base/core/status.h"
#include "engine/ops/line.h"

static plb_status infer(plb_op_id op, plb_signature *s) {
    const char *name = plb_op_of(op)->name;
    int64_t axis = ((const plb_axis_attrs *)s->attrs)->axis;
    PLB_TRY(plb_line_axis(name, s->in[0].shape.rank, &axis));
    for (int k = 0; k < s->n_in; k++) {
        if (!plb_dtype_is_float(s->in[k].dtype) || s->in[k].dtype != s->in[0].dtype) {
            return plb_fail(PLB_EINVAL, "%s: expected floats of one dtype, found %s and %s", name,
                            plb_dtype_name(s->in[0].dtype), plb_dtype_name(s->in[k].dtype));
        }
        if (!plb_shape_equal(&s->in[k].shape, &s->in[0].shape)) {
            char t[160], u[160];
            return plb_fail(PLB_EINVAL, "%s: expected equal shapes, found %s and %s", name,
                            plb_shape_format(&s->in[0].shape, t, sizeof t),
                            plb_shape_format(&s->in[k].shape, u, sizeof u));
        }
    }
    s->out[0] = s->in[0];
    s->n_out = 1;
    return PLB_OK;
}

// One line: element k of the inputs is read by get, of the output written by put.
typedef struct line {
    const plb_call *call;
    plb_lines lines;
    int64_t index[PLB_MAX_RANK];
} line;

static double get(line *l, int input, int64_t k) {
    const plb_tensor *t = &l->call->in[input];
    return plb_load_f64(t->data, t->dtype, plb_line_offset(t, &l->lines, l->index, k));
}

static void put(line *l, int64_t k, double value) {
    const plb_tensor *t = &l->call->out[0];
    plb_store_f64(t->data, t->dtype, plb_line_offset(t, &l->lines, l->index, k), value);
}

static plb_status each_line(const plb_call *call, void (*compute)(line *l)) {
    line l = {.call = call};
    l.lines = plb_lines_of(&call->in[0].shape, ((const plb_axis_attrs *)call->attrs)->axis);
    for (int64_t i = 0; i < l.lines.count; i++) {
        plb_line_index(&call->in[0].shape, &l.lines, i, l.index);
        compute(&l);
    }
    return PLB_OK;
}

static double greatest(line *l) {
    double max = -INFINITY;
    for (int64_t k = 0; k < l->lines.extent; k++) max = fmax(max, get(l, 0, k));
    return max;
}

static double sum_of_exp(line *l, double shift) {
    double sum = 0;
    for (int64_t k = 0; k < l->lines.extent; k++) sum += exp(get(l, 0, k) - shift);
    return sum;
}

static void softmax_line(line *l) { // e^(x - max) / sum
    double max = greatest(l), sum = sum_of_exp(l, max);
    for (int64_t k = 0; k < l->lines.extent; k++) put(l, k, exp(get(l, 0, k) - max) / sum);
}

static void log_softmax_line(line *l) { // x - max - log sum
    double max = greatest(l), log_sum = log(sum_of_exp(l, max));
    for (int64_t k = 0; k < l->lines.extent; k++) put(l, k, get(l, 0, k) - max - log_sum);
}

static void softmax_grad_line(line *l) { // y (dy - sum dy y)
    double sum = 0;
    for (int64_t k = 0; k < l->lines.extent; k++) sum += get(l, 0, k) * get(l, 1, k);
    for (int64_t k = 0; k < l->lines.extent; k++) put(l, k, get(l, 1, k) * (get(l, 0, k) - sum));
}

static void log_softmax_grad_line(line *l) { // dy - e^y sum dy
    double sum = 0;
    for (int64_t k = 0; k < l->lines.extent; k++) sum += get(l, 0, k);
    for (int64_t k = 0; k < l->lines.extent; k++) put(l, k, get(l, 0, k) - exp(get(l, 1, k)) * sum);
}

// ---------------------------------------------------------------------------- gradients
static plb_value grad_op(plb_graph *graph, plb_op_id op, int node, plb_value dy, plb_value y) {
    return plb_emit(graph, op, (plb_value[]){dy, y}, 2, plb_node_attrs(graph, node));
}

static void grad_softmax(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                         plb_value *din) {
    plb_value y = plb_node_out(graph, node, 0);
    if (needed[0]) din[0] = grad_op(graph, PLB_OP_softmax_grad, node, dout[0], y);
}

static void grad_log_softmax(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                             plb_value *din) {
    plb_value y = plb_node_out(graph, node, 0);
    if (needed[0]) din[0] = grad_op(graph, PLB_OP_log_softmax_grad, node, dout[0], y);
}

static plb_value sum_line(plb_graph *graph, int node, plb_value x) {
    if (!plb_value_shape(graph, x).rank) return x;
    int64_t axis = ((const plb_axis_attrs *)plb_node_attrs(graph, node))->axis;
    return plb_sum(graph, x, (int64_t)1 << axis, true);
}

// z = y (dy - sum dy y), given dz. The map from dy to z is its own transpose;
// to y goes dz (dy - sum dy y) - dy sum dz y.
static void grad_softmax_grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                              plb_value *din) {
    plb_value dz = dout[0], dy = plb_node_in(graph, node, 0), y = plb_node_in(graph, node, 1);
    if (needed[0]) din[0] = grad_op(graph, PLB_OP_softmax_grad, node, dz, y);
    if (!needed[1]) return;
    plb_value mean = sum_line(graph, node, plb_mul(graph, dy, y));
    plb_value other = sum_line(graph, node, plb_mul(graph, dz, y));
    din[1] =
        plb_sub(graph, plb_mul(graph, dz, plb_sub(graph, dy, mean)), plb_mul(graph, dy, other));
}

// z = dy - e^y sum dy, given dz: to dy goes dz - sum dz e^y, to y goes -dz e^y sum dy.
static void grad_log_softmax_grad(plb_graph *graph, int node, const plb_value *dout,
                                  const bool *needed, plb_value *din) {
    plb_value dy = plb_node_in(graph, node, 0), y = plb_node_in(graph, node, 1);
    plb_value weighted = plb_mul(graph, dout[0], plb_exp(graph, y));
    if (needed[0]) din[0] = plb_sub(graph, dout[0], sum_line(graph, node, weighted));
    if (needed[1]) din[1] = plb_neg(graph, plb_mul(graph, weighted, sum_line(graph, node, dy)));
}

// ---------------------------------------------------------------------------- tables
static double flops(const plb_signature *s) { // maximum, difference, exponential, sum, quotient
    return 5 * (double)plb_shape_count(&s->out[0].shape);
}

static void describe(const void *attrs, plb_strbuf *text) {
    plb_describe_i64(text, "axis", ((const plb_axis_attrs *)attrs)->axis);
}

static const plb_axis_attrs first = {.axis = 0}, second = {.axis = 1};

#define TABLE(op, inputs, low_, high_)                                                            \
    static plb_status infer_##op(plb_signature *s) {                                              \
        return infer(PLB_OP_##op, s);                                                             \
    }                                                                                             \
    static plb_status ref_##op(const plb_call *call) {                                            \
        return each_line(call, op##_line);                                                        \
    }                                                                                             \
    static const plb_sample samples_##op[] = {                                                    \
        {.name = "rows",                                                                          \
         .n_in = inputs,                                                                          \
         .attrs = &second,                                                                        \
         .in = {PLB_T(3, 7), PLB_T(3, 7)},                                                        \
         .low = {-3, low_},                                                                       \
         .high = {3, high_}},                                                                     \
        {.name = "channels",                                                                      \
         .n_in = inputs,                                                                          \
         .attrs = &second,                                                                        \
         .in = {PLB_T(2, 5, 3, 2), PLB_T(2, 5, 3, 2)},                                            \
         .low = {-3, low_},                                                                       \
         .high = {3, high_}},                                                                     \
        {.name = "vector",                                                                        \
         .n_in = inputs,                                                                          \
         .attrs = &first,                                                                         \
         .in = {PLB_T(11), PLB_T(11)},                                                            \
         .low = {-3, low_},                                                                       \
         .high = {3, high_}},                                                                     \
        {.name = "scalar",                                                                        \
         .n_in = inputs,                                                                          \
         .attrs = &first,                                                                         \
         .in = {{.dtype = PLB_F32}, {.dtype = PLB_F32}},                                          \
         .low = {-3, low_},                                                                       \
         .high = {3, high_}},                                                                     \
        {.name = "no lines", .n_in = inputs, .attrs = &second, .in = {PLB_T(0, 3), PLB_T(0, 3)}}, \
        {.name = "empty lines",                                                                   \
         .n_in = inputs,                                                                          \
         .attrs = &second,                                                                        \
         .in = {PLB_T(3, 0), PLB_T(3, 0)}},                                                       \
    };                                                                                            \
    const plb_op plb_op_##op = {                                                                  \
        .name = #op,                                                                              \
        .overwrites = {{0, 0}},                                                                   \
        .n_overwrites = 1,                                                                        \
        .attrs_bytes = sizeof(plb_axis_attrs),                                                    \
        .min_in = inputs,                                                                         \
        .max_in = inputs,                                                                         \
        .infer = infer_##op,                                                                      \
        .grad = grad_##op,                                                                        \
        .flops = flops,                                                                           \
        .ref = ref_##op,                                                                          \
        .describe = describe,                                                                     \
        PLB_SAMPLES(samples_##op),                                                                \
    };
TABLE(softmax, 1, 0, 0)
TABLE(softmax_grad, 2, 0.0625, 0.5)
TABLE(log_softmax, 1, 0, 0)
TABLE(log_softmax_grad, 2, -3, -0.25)

plb_value plb_softmax(plb_graph *graph, plb_value x, int axis) {
    return plb_line_emit(graph, PLB_OP_softmax, &x, 1, (plb_axis_attrs){.axis = axis});
}

plb_value plb_log_softmax(plb_graph *graph, plb_value x, int axis) {
    return plb_line_emit(graph, PLB_OP_log_softmax, &x, 1, (plb_axis_attrs){.axis = axis});
}
