// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: Elman's, GRU (Cho et al. 2014) and LSTM (Hochreiter, Schmidhuber 1997; Gers et
// al. 2000). The products with the input are made outside, for all steps at once:
//
//   x[T,B,G H] = input W^T + bias;  at each step  a = x[t] + h R^T + rb  in G gates of H
//   RNN, 1 gate        h = tanh(a), or max(a, 0)
//   GRU, gates z r n   z = s(a_z), r = s(a_r), n = tanh(x_n + (r h) R_n^T + rb_n), or with
//                      reset_after n = tanh(x_n + r (h R_n^T + rb_n));  h = (1 - z) n + z h
//   LSTM, gates i o f g  c = s(a_f) c + s(a_i) tanh(a_g),  h = s(a_o) tanh(c)
//
// with s the logistic function. Inputs x, r[G H,H], h0[B,H], c0[B,H] (LSTM), rb[G H] or none.
// Outputs y[T,B,H], the last h, and the last c of an LSTM. The gradient is that of the steps, built
// of small ops (back-propagation through time; Werbos 1990).
#include <math.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/graph.h"
#include "engine/ops/spatial.h"

enum { X, R, H0, C0, RB, INPUTS };

int plb_recurrent_gates(int64_t kind) {
    return kind == PLB_LSTM ? 4 : kind == PLB_GRU || kind == PLB_GRU_RESET_AFTER ? 3 : 1;
}

static bool has(const plb_signature *s, int i) {
    return i < s->n_in && !plb_type_absent(&s->in[i]);
}

static plb_status infer(plb_signature *s) {
    const plb_recurrent_attrs *attrs = s->attrs;
    const plb_shape *x = &s->in[X].shape, *r = &s->in[R].shape;
    const bool lstm = attrs->kind == PLB_LSTM;
    PLB_TRY(plb_expect_floats(s, "recurrent", 0, INPUTS - 1));
    if (attrs->kind < 0 || attrs->kind > PLB_LSTM || x->rank != 3 || x->dim[0] < 1) {
        return plb_fail(PLB_EINVAL, "recurrent: kind %lld, x of rank %d", (long long)attrs->kind,
                        x->rank);
    }
    const int64_t rows = x->dim[2], hidden = r->rank == 2 ? r->dim[1] : 0;
    if (hidden < 1 || rows != plb_recurrent_gates(attrs->kind) * hidden) {
        return plb_fail(PLB_EINVAL, "recurrent: %lld gates' rows for a state of %lld",
                        (long long)rows, (long long)hidden);
    }
    plb_shape state = plb_shape_of(x->dim[1], hidden);
    PLB_TRY(plb_expect_shape(&s->in[R], &plb_shape_of(rows, hidden), "recurrent", "r"));
    PLB_TRY(plb_expect_shape(&s->in[H0], &state, "recurrent", "h0"));
    if (lstm != has(s, C0)) return plb_fail(PLB_EINVAL, "recurrent: c0 is of an LSTM alone");
    if (lstm) PLB_TRY(plb_expect_shape(&s->in[C0], &state, "recurrent", "c0"));
    if (has(s, RB)) PLB_TRY(plb_expect_shape(&s->in[RB], &plb_shape_of(rows), "recurrent", "rb"));
    s->out[0] = (plb_type){s->in[X].dtype, plb_shape_of(x->dim[0], x->dim[1], hidden)};
    for (int i = 1; i < 3; i++) s->out[i] = (plb_type){s->in[X].dtype, state};
    s->n_out = lstm ? 3 : 2;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- gradient
typedef struct cell {
    plb_graph *graph;
    int64_t kind, hidden;
    plb_value r, rb; // rb: PLB_NONE or [G H]
} cell;

static plb_value gates(const cell *l, plb_value all, int64_t first, int64_t last) {
    return plb_slice_axis(l->graph, all, 1, first * l->hidden, last * l->hidden);
}

// h times the rows of some gates, and their bias.
static plb_value product(const cell *l, plb_value h, int64_t first, int64_t last) {
    plb_graph *g = l->graph;
    plb_value r = plb_slice_axis(g, l->r, 0, first * l->hidden, last * l->hidden);
    plb_value y = plb_matmul(g, h, r, &(plb_matmul_attrs){.trans_b = 1});
    if (l->rb == PLB_NONE) return y;
    return plb_add(g, y, plb_slice_axis(g, l->rb, 0, first * l->hidden, last * l->hidden));
}

static plb_value step_gru(const cell *l, plb_value x, plb_value h) {
    plb_graph *g = l->graph;
    plb_value zr = plb_sigmoid(g, plb_add(g, gates(l, x, 0, 2), product(l, h, 0, 2)));
    plb_value z = gates(l, zr, 0, 1), r = gates(l, zr, 1, 2);
    plb_value inner = l->kind == PLB_GRU ? product(l, plb_mul(g, r, h), 2, 3)
                                         : plb_mul(g, r, product(l, h, 2, 3));
    plb_value n = plb_tanh(g, plb_add(g, gates(l, x, 2, 3), inner));
    return plb_add(g, n, plb_mul(g, z, plb_sub(g, h, n)));
}

static plb_value step_lstm(const cell *l, plb_value x, plb_value h, plb_value *c) {
    plb_graph *g = l->graph;
    plb_value all = plb_add(g, x, product(l, h, 0, 4));
    plb_value iof = plb_sigmoid(g, gates(l, all, 0, 3)), fresh = plb_tanh(g, gates(l, all, 3, 4));
    *c = plb_add(g, plb_mul(g, gates(l, iof, 2, 3), *c), plb_mul(g, gates(l, iof, 0, 1), fresh));
    return plb_mul(g, gates(l, iof, 1, 2), plb_tanh(g, *c));
}

static plb_value step(const cell *l, plb_value x, plb_value h, plb_value *c) {
    if (l->kind == PLB_LSTM) return step_lstm(l, x, h, c);
    if (l->kind == PLB_GRU || l->kind == PLB_GRU_RESET_AFTER) return step_gru(l, x, h);
    plb_value all = plb_add(l->graph, x, product(l, h, 0, 1));
    return l->kind == PLB_RNN_RELU ? plb_relu(l->graph, all) : plb_tanh(l->graph, all);
}

// The sum of products of outputs with their gradients, of which the gradient is asked.
static void add_loss(plb_graph *graph, plb_value y, plb_value dy, plb_value *loss) {
    if (dy == PLB_NONE) return;
    plb_value sum = plb_sum(graph, plb_mul(graph, y, dy), 0, false);
    *loss = *loss == PLB_NONE ? sum : plb_add(graph, *loss, sum);
}

// The outputs of all steps, [B,H] each, and the last states. NULL after an error.
static plb_value *unroll(plb_graph *graph, const plb_recurrent_attrs *attrs, const plb_value *in,
                         plb_value *h, plb_value *c) {
    const plb_shape x = plb_value_shape(graph, in[X]);
    const int64_t steps = x.dim[0];
    const plb_shape row = plb_shape_of(x.dim[1], x.dim[2]);
    const cell l = {graph, attrs->kind, plb_value_shape(graph, in[R]).dim[1], in[R], in[RB]};
    plb_value *rows = plb_arena_alloc(graph->arena, (size_t)steps * sizeof *rows);
    *h = in[H0], *c = in[C0];
    if (!rows) plb_graph_fail(graph, plb_fail(PLB_ENOMEM, "out of memory for steps"));
    for (int64_t i = 0; i < steps && rows; i++) {
        const int64_t t = attrs->reverse ? steps - 1 - i : i;
        plb_value now = plb_slice_axis(graph, in[X], 0, t, t + 1);
        rows[t] = *h = step(&l, plb_reshape(graph, now, &row), *h, c);
    }
    return rows;
}

static plb_value unrolled_loss(plb_graph *graph, const plb_recurrent_attrs *attrs,
                               const plb_value *in, const plb_value *dout) {
    plb_value h, c, loss = PLB_NONE;
    const plb_value *rows = unroll(graph, attrs, in, &h, &c);
    if (!rows) return PLB_NONE;
    const plb_shape shown = plb_value_shape(graph, h);
    const int64_t steps = plb_value_shape(graph, in[X]).dim[0];
    for (int64_t t = 0; t < steps && dout[0] != PLB_NONE; t++) {
        plb_value dy = plb_slice_axis(graph, dout[0], 0, t, t + 1);
        add_loss(graph, rows[t], plb_reshape(graph, dy, &shown), &loss);
    }
    add_loss(graph, h, dout[1], &loss);
    if (attrs->kind == PLB_LSTM) add_loss(graph, c, dout[2], &loss);
    return loss;
}

void plb_recurrent_unrolled(plb_graph *graph, const plb_recurrent_attrs *attrs,
                            const plb_value in[5], plb_value out[3]) {
    plb_value *rows = unroll(graph, attrs, in, &out[1], &out[2]);
    out[0] = PLB_NONE;
    if (!rows || plb_graph_status(graph)) return;
    const plb_shape state = plb_value_shape(graph, out[1]);
    const plb_shape row = plb_shape_of(1, state.dim[0], state.dim[1]);
    const int64_t steps = plb_value_shape(graph, in[X]).dim[0];
    for (int64_t t = 0; t < steps; t++) rows[t] = plb_reshape(graph, rows[t], &row);
    out[0] = steps == 1 ? rows[0] : plb_concat(graph, rows, (int)steps, 0);
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    const plb_recurrent_attrs attrs = *(const plb_recurrent_attrs *)plb_node_attrs(graph, node);
    plb_value in[INPUTS], wrt[INPUTS], found[INPUTS];
    int n = 0;
    for (int i = 0; i < INPUTS; i++) { // leaves of their own, as one input may depend on another
        in[i] = plb_node_in(graph, node, i);
        if (in[i] == PLB_NONE) continue;
        plb_shape shape = plb_value_shape(graph, in[i]);
        in[i] = plb_reshape(graph, in[i], &shape);
        if (needed[i]) wrt[n++] = in[i];
    }
    plb_value loss = unrolled_loss(graph, &attrs, in, dout);
    const bool outer = graph->differentiating; // plb_gradients leaves it false
    if (loss != PLB_NONE) plb_gradients(graph, loss, wrt, n, found);
    graph->differentiating = outer;
    for (int i = 0, k = 0; i < INPUTS && loss != PLB_NONE; i++) {
        if (in[i] != PLB_NONE && needed[i]) din[i] = found[k++];
    }
}

// ---------------------------------------------------------------------------- definition
static double flops(const plb_signature *s) {
    const plb_shape *x = &s->in[X].shape;
    const int64_t hidden = s->in[R].shape.dim[1];
    return (double)plb_shape_count(x) * (2.0 * (double)hidden + 8);
}

static double logistic(double x) {
    return 1 / (1 + exp(-x));
}

typedef struct at {
    const plb_call *call;
    int64_t hidden, t, b;
    const double *h; // [H] of this sequence
} at;

static double x_of(const at *a, int64_t gate, int64_t j) {
    return plb_tensor_load(&a->call->in[X], (int64_t[]){a->t, a->b, gate * a->hidden + j});
}

// sum of factor h R^T of row j of a gate, and its bias; factor NULL: 1.
static double row_of(const at *a, int64_t gate, int64_t j, const double *factor) {
    const int64_t row = gate * a->hidden + j;
    bool biased = a->call->n_in > RB && a->call->in[RB].data;
    double sum = biased ? plb_tensor_load(&a->call->in[RB], &row) : 0;
    for (int64_t k = 0; k < a->hidden; k++) {
        double h = factor ? factor[k] * a->h[k] : a->h[k];
        sum += h * plb_tensor_load(&a->call->in[R], (int64_t[]){row, k});
    }
    return sum;
}

static void gru_step(const at *a, bool reset_after, double *reset, double *next) {
    for (int64_t j = 0; j < a->hidden; j++) {
        reset[j] = logistic(x_of(a, 1, j) + row_of(a, 1, j, NULL));
    }
    for (int64_t j = 0; j < a->hidden; j++) {
        double z = logistic(x_of(a, 0, j) + row_of(a, 0, j, NULL));
        double inner = reset_after ? reset[j] * row_of(a, 2, j, NULL) : row_of(a, 2, j, reset);
        double n = tanh(x_of(a, 2, j) + inner);
        next[j] = (1 - z) * n + z * a->h[j];
    }
}

static void lstm_step(const at *a, double *c, double *next) {
    for (int64_t j = 0; j < a->hidden; j++) {
        double g[4];
        for (int k = 0; k < 4; k++) g[k] = x_of(a, k, j) + row_of(a, k, j, NULL);
        c[j] = logistic(g[2]) * c[j] + logistic(g[0]) * tanh(g[3]);
        next[j] = logistic(g[1]) * tanh(c[j]);
    }
}

static void plain_step(const at *a, bool relu, double *next) {
    for (int64_t j = 0; j < a->hidden; j++) {
        double y = x_of(a, 0, j) + row_of(a, 0, j, NULL);
        next[j] = relu ? (y < 0 ? 0 : y) : tanh(y);
    }
}

// One sequence; `state` holds h, c, the next h and GRU's resets.
static void run_sequence(const plb_call *call, int64_t b, double *state) {
    const plb_recurrent_attrs *attrs = call->attrs;
    const int64_t steps = call->in[X].shape.dim[0], hidden = call->in[R].shape.dim[1];
    double *h = state, *c = h + hidden, *next = c + hidden, *reset = next + hidden;
    const bool lstm = attrs->kind == PLB_LSTM;
    for (int64_t j = 0; j < hidden; j++) {
        h[j] = plb_tensor_load(&call->in[H0], (int64_t[]){b, j});
        if (lstm) c[j] = plb_tensor_load(&call->in[C0], (int64_t[]){b, j});
    }
    for (int64_t i = 0; i < steps; i++) {
        at a = {call, hidden, attrs->reverse ? steps - 1 - i : i, b, h};
        if (lstm) {
            lstm_step(&a, c, next);
        } else if (plb_recurrent_gates(attrs->kind) == 3) {
            gru_step(&a, attrs->kind == PLB_GRU_RESET_AFTER, reset, next);
        } else {
            plain_step(&a, attrs->kind == PLB_RNN_RELU, next);
        }
        for (int64_t j = 0; j < hidden; j++) {
            h[j] = next[j];
            plb_tensor_store(&call->out[0], (int64_t[]){a.t, b, j}, h[j]);
        }
    }
    for (int64_t j = 0; j < hidden; j++) {
        plb_tensor_store(&call->out[1], (int64_t[]){b, j}, h[j]);
        if (lstm) plb_tensor_store(&call->out[2], (int64_t[]){b, j}, c[j]);
    }
}

static plb_status ref(const plb_call *call) {
    const size_t hidden = (size_t)call->in[R].shape.dim[1];
    double *state = plb_alloc_array(4 * hidden, sizeof *state);
    if (!state) return plb_fail(PLB_ENOMEM, "out of memory for a state");
    for (int64_t b = 0; b < call->in[X].shape.dim[1]; b++) run_sequence(call, b, state);
    plb_free(state);
    return PLB_OK;
}

static void describe(const void *attrs, plb_strbuf *text) {
    static const char *const kinds[] = {"rnn_tanh", "rnn_relu", "gru", "gru_reset_after", "lstm"};
    const plb_recurrent_attrs *a = attrs;
    plb_describe_comma(text);
    plb_strbuf_printf(text, "\"kind\":\"%s\"", kinds[a->kind]);
    plb_describe_number(text, "reverse", a->reverse != 0);
}

plb_value plb_recurrent(plb_graph *graph, plb_value x, plb_value r, plb_value h0, plb_value c0,
                        plb_value rb, const plb_recurrent_attrs *attrs) {
    return plb_emit(graph, PLB_OP_recurrent, (plb_value[]){x, r, h0, c0, rb}, INPUTS, attrs);
}

static const plb_recurrent_attrs tanh_ = {PLB_RNN_TANH, 0}, relu = {PLB_RNN_RELU, 1},
                                 gru = {PLB_GRU, 0}, after = {PLB_GRU_RESET_AFTER, 1},
                                 lstm = {PLB_LSTM, 0}, back = {PLB_LSTM, 1};
// Weights under which states settle: otherwise rounding grows from step to step.
#define CALM .low = {-1, -0.2, -1, -1, -1}, .high = {1, 0.2, 1, 1, 1}
static const plb_sample samples[] = {
    {.name = "tanh",
     .in = {PLB_T(3, 2, 4), PLB_T(4, 4), PLB_T(2, 4), PLB_T(2, 4), PLB_T(4)},
     .n_in = 5,
     .absent = 1 << C0,
     CALM,
     .attrs = &tanh_},
    {.name = "relu, backwards",
     .in = {PLB_T(3, 1, 3), PLB_T(3, 3), PLB_T(1, 3)},
     .n_in = 3,
     .attrs = &relu,
     .low = {0.2, 0.1, 0.1}, // away from the kink
     .high = {1, 0.5, 1}},
    {.name = "gru",
     .in = {PLB_T(3, 2, 9), PLB_T(9, 3), PLB_T(2, 3), PLB_T(2, 3), PLB_T(9)},
     .n_in = 5,
     .absent = 1 << C0,
     CALM,
     .attrs = &gru},
    {.name = "gru, reset after, backwards",
     .in = {PLB_T(3, 2, 9), PLB_T(9, 3), PLB_T(2, 3), PLB_T(2, 3), PLB_T(9)},
     .n_in = 5,
     .absent = 1 << C0,
     CALM,
     .attrs = &after},
    {.name = "lstm",
     .in = {PLB_T(3, 2, 12), PLB_T(12, 3), PLB_T(2, 3), PLB_T(2, 3), PLB_T(12)},
     .n_in = 5,
     CALM,
     .attrs = &lstm},
    {.name = "lstm, backwards, no bias",
     .in = {PLB_T(2, 6, 8), PLB_T(8, 2), PLB_T(6, 2), PLB_T(6, 2)},
     .n_in = 4,
     CALM,
     .attrs = &back},
};

const plb_op plb_op_recurrent = {.name = "recurrent",
                                 .attrs_bytes = sizeof(plb_recurrent_attrs),
                                 .min_in = 3,
                                 .max_in = INPUTS,
                                 .infer = infer,
                                 .grad = grad,
                                 .flops = flops,
                                 .ref = ref,
                                 .describe = describe,
                                 PLB_SAMPLES(samples)};
