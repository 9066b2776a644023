// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM. The products with the input are one for all steps; the steps are the engine's
// op `recurrent`, or, with other activations, clipping, peepholes or sequences of several lengths,
// unrolled. Sequences shorter than the longest keep their state after their end.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/core/status.h"
#include "onnx/build.h"
#include "onnx/map.h"

enum { MAX_STEPS = 1024 };

typedef struct rnn {
    plb_onnx_node *n;
    int gates;                           // RNN 1, GRU 3, LSTM 4
    int64_t steps, batch, input, hidden; // x is [steps, batch, input] here
    int directions, direction;
    bool backwards, lstm, gru, reset_after; // reset_after: GRU's linear_before_reset
    double clip;
    plb_value w, r, wb, rb, peep[3], lengths; // of this direction
    plb_value x;                              // [steps * batch, gates * hidden]: x W^T + Wb
} rnn;

// ---------------------------------------------------------------------------- activations
static int activations_of(const rnn *r) { // of each direction
    return r->lstm ? 3 : r->gru ? 2 : 1;
}

static const Onnx__AttributeProto *names_of(const rnn *r) {
    return plb_onnx_typed(r->n, "activations", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS);
}

// Activations that take a number, and the other one.
static const struct {
    const char *name;
    bool alpha, beta;
} parametric[] = {
    {"leakyrelu", true, false},  {"thresholdedrelu", true, false}, {"elu", true, false},
    {"hardsigmoid", true, true}, {"affine", true, true},           {"scaledtanh", true, true},
};

static bool is_named(const ProtobufCBinaryData *name, const char *word) {
    return name->len == strlen(word) && strncasecmp((char *)name->data, word, name->len) == 0;
}

static bool takes(const ProtobufCBinaryData *name, bool beta) {
    for (size_t i = 0; i < sizeof parametric / sizeof *parametric; i++) {
        if (is_named(name, parametric[i].name))
            return beta ? parametric[i].beta : parametric[i].alpha;
    }
    return false;
}

// The numbers stand in the order of the activations that take one: others have no place among them.
static double parameter(const rnn *r, size_t which, bool beta, double missing) {
    const Onnx__AttributeProto *names = names_of(r);
    const Onnx__AttributeProto *list =
        plb_onnx_typed(r->n, beta ? "activation_beta" : "activation_alpha",
                       ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS);
    size_t place = 0;
    for (size_t i = 0; i < which; i++) place += takes(&names->strings[i], beta);
    return list && place < list->n_floats ? (double)list->floats[place] : missing;
}

static plb_value parametric_activation(const rnn *r, size_t which, const char *name, plb_value x) {
    plb_graph *g = r->n->graph;
    if (strcasecmp(name, "leakyrelu") == 0)
        return plb_leaky_relu(g, x, parameter(r, which, false, 0.01));
    if (strcasecmp(name, "elu") == 0) return plb_elu(g, x, parameter(r, which, false, 1));
    if (strcasecmp(name, "affine") == 0) {
        return plb_affine(g, x, parameter(r, which, false, 1), parameter(r, which, true, 0));
    }
    if (strcasecmp(name, "hardsigmoid") == 0) {
        plb_value line =
            plb_affine(g, x, parameter(r, which, false, 0.2), parameter(r, which, true, 0.5));
        return plb_clamp(g, line, 0, 1);
    }
    return plb_graph_fail(g, plb_onnx_refuse("the activation %s", name));
}

static plb_value activate(const rnn *r, int which, const char *missing, plb_value x) {
    plb_graph *g = r->n->graph;
    const Onnx__AttributeProto *names = names_of(r);
    size_t i = (size_t)(r->direction * activations_of(r) + which);
    char name[32];
    snprintf(name, sizeof name, "%s", missing);
    if (names && i < names->n_strings && names->strings[i].len < sizeof name) {
        snprintf(name, sizeof name, "%.*s", (int)names->strings[i].len, names->strings[i].data);
    }
    if (strcasecmp(name, "tanh") == 0) return plb_tanh(g, x);
    if (strcasecmp(name, "sigmoid") == 0) return plb_sigmoid(g, x);
    if (strcasecmp(name, "relu") == 0) return plb_relu(g, x);
    if (strcasecmp(name, "softsign") == 0) return plb_softsign(g, x);
    return parametric_activation(r, i, name, x);
}

static plb_value clipped(const rnn *r, plb_value x) {
    return r->clip > 0 ? plb_clamp(r->n->graph, x, -r->clip, r->clip) : x;
}

// Columns of gate i of a value [batch, gates * hidden].
static plb_value gate(const rnn *r, plb_value all, int i) {
    return plb_slice_axis(r->n->graph, all, 1, i * r->hidden, (i + 1) * r->hidden);
}

static plb_value product(const rnn *r, plb_value h, plb_value weights) {
    return plb_matmul(r->n->graph, h, weights, &(plb_matmul_attrs){.trans_b = 1});
}

// ---------------------------------------------------------------------------- one step
static plb_value peephole(const rnn *r, plb_value sum, int i, plb_value c) {
    plb_graph *g = r->n->graph;
    return r->peep[i] == PLB_NONE ? sum : plb_add(g, sum, plb_mul(g, r->peep[i], c));
}

// Gates stand in the order i, o, f, c; peepholes i, o, f.
static plb_value lstm_step(const rnn *r, plb_value x, plb_value h, plb_value *c) {
    plb_graph *g = r->n->graph;
    plb_value all = plb_add(g, x, product(r, h, r->r));
    if (r->rb != PLB_NONE) all = plb_add(g, all, r->rb);
    plb_value i = activate(r, 0, "Sigmoid", clipped(r, peephole(r, gate(r, all, 0), 0, *c)));
    plb_value f = activate(r, 0, "Sigmoid", clipped(r, peephole(r, gate(r, all, 2), 2, *c)));
    if (plb_onnx_int(r->n, "input_forget", 0)) f = plb_affine(g, i, -1, 1);
    plb_value fresh = activate(r, 1, "Tanh", clipped(r, gate(r, all, 3)));
    *c = plb_add(g, plb_mul(g, f, *c), plb_mul(g, i, fresh));
    plb_value o = activate(r, 0, "Sigmoid", clipped(r, peephole(r, gate(r, all, 1), 1, *c)));
    return plb_mul(g, o, activate(r, 2, "Tanh", *c));
}

static plb_value rows_of_gate(const rnn *r, plb_value weights, int first, int last) {
    return plb_slice_axis(r->n->graph, weights, 0, first * r->hidden, last * r->hidden);
}

// Gates z, r, h.
static plb_value gru_step(const rnn *r, plb_value x, plb_value h) {
    plb_graph *g = r->n->graph;
    plb_value zr = product(r, h, rows_of_gate(r, r->r, 0, 2));
    plb_value rb = r->rb, rb_h = PLB_NONE;
    if (rb != PLB_NONE) {
        zr = plb_add(g, zr, plb_slice_axis(g, rb, 1, 0, 2 * r->hidden));
        rb_h = plb_slice_axis(g, rb, 1, 2 * r->hidden, 3 * r->hidden);
    }
    plb_value z = activate(r, 0, "Sigmoid", clipped(r, plb_add(g, gate(r, x, 0), gate(r, zr, 0))));
    plb_value reset =
        activate(r, 0, "Sigmoid", clipped(r, plb_add(g, gate(r, x, 1), gate(r, zr, 1))));
    plb_value inner = r->reset_after ? h : plb_mul(g, reset, h);
    inner = product(r, inner, rows_of_gate(r, r->r, 2, 3));
    if (rb_h != PLB_NONE) inner = plb_add(g, inner, rb_h);
    if (r->reset_after) inner = plb_mul(g, reset, inner);
    plb_value fresh = activate(r, 1, "Tanh", clipped(r, plb_add(g, gate(r, x, 2), inner)));
    return plb_add(g, plb_mul(g, plb_affine(g, z, -1, 1), fresh), plb_mul(g, z, h));
}

static plb_value rnn_step(const rnn *r, plb_value x, plb_value h) {
    plb_graph *g = r->n->graph;
    plb_value all = plb_add(g, x, product(r, h, r->r));
    if (r->rb != PLB_NONE) all = plb_add(g, all, r->rb);
    return activate(r, 0, "Tanh", clipped(r, all));
}

// ---------------------------------------------------------------------------- a direction
// Part i of a value [directions, …] as [first…]; PLB_NONE where it is not given.
static plb_value direction_of(const rnn *r, int input, int i, const plb_shape *shape) {
    plb_graph *g = r->n->graph;
    if (!plb_onnx_given_in(r->n, input)) return PLB_NONE;
    return plb_reshape(g, plb_slice_axis(g, r->n->in[input], 0, i, i + 1), shape);
}

static void read_direction(rnn *r, int d) {
    plb_graph *g = r->n->graph;
    const int64_t rows = r->gates * r->hidden;
    r->direction = d;
    r->backwards = d == 1 || plb_onnx_is(r->n, "direction", "forward", "reverse");
    r->w = direction_of(r, 1, d, &plb_shape_of(rows, r->input));
    r->r = direction_of(r, 2, d, &plb_shape_of(rows, r->hidden));
    plb_value bias = direction_of(r, 3, d, &plb_shape_of(1, 2 * rows));
    r->wb = bias == PLB_NONE ? PLB_NONE : plb_slice_axis(g, bias, 1, 0, rows);
    r->rb = bias == PLB_NONE ? PLB_NONE : plb_slice_axis(g, bias, 1, rows, 2 * rows);
    plb_value peep = r->lstm ? direction_of(r, 7, d, &plb_shape_of(1, 3 * r->hidden)) : PLB_NONE;
    for (int i = 0; i < 3; i++) {
        bool given = peep != PLB_NONE;
        r->peep[i] =
            given ? plb_slice_axis(g, peep, 1, i * r->hidden, (i + 1) * r->hidden) : PLB_NONE;
    }
}

static plb_value initial(const rnn *r, int input) {
    plb_shape shape = plb_shape_of(r->batch, r->hidden);
    plb_value state = direction_of(r, input, r->direction, &shape);
    if (state != PLB_NONE) return state;
    plb_dtype dtype = plb_onnx_type(r->n, 0).dtype;
    return plb_expand(r->n->graph, plb_scalar(r->n->graph, dtype, 0), &shape);
}

// bool [batch, 1]: sequences that are not over at step t.
static plb_value alive(const rnn *r, int64_t t) {
    plb_graph *g = r->n->graph;
    plb_value lengths = plb_reshape(g, r->lengths, &plb_shape_of(r->batch, 1));
    return plb_gt(g, lengths, plb_scalar(g, plb_value_type(g, lengths).dtype, (double)t));
}

// Whether activation `which` of this direction is the usual one.
static bool is_usual(const rnn *r, int which, const char *usual) {
    const Onnx__AttributeProto *names = names_of(r);
    size_t i = (size_t)(r->direction * activations_of(r) + which);
    if (!names || i >= names->n_strings) return strcmp(usual, "relu") != 0;
    return is_named(&names->strings[i], usual);
}

// The engine's kind of layer, or -1.
static int kind_of(const rnn *r) {
    bool special = r->clip > 0 || r->lengths != PLB_NONE || plb_onnx_int(r->n, "input_forget", 0);
    for (int i = 0; i < 3; i++) special |= r->peep[i] != PLB_NONE;
    if (special) return -1;
    if (r->lstm || r->gru) {
        bool usual = is_usual(r, 0, "sigmoid") && is_usual(r, 1, "tanh");
        if (!usual || (r->lstm && !is_usual(r, 2, "tanh"))) return -1;
        return r->lstm ? PLB_LSTM : r->reset_after ? PLB_GRU_RESET_AFTER : PLB_GRU;
    }
    return is_usual(r, 0, "tanh") ? PLB_RNN_TANH : is_usual(r, 0, "relu") ? PLB_RNN_RELU : -1;
}

static void run_recurrent(const rnn *r, int kind, plb_value flat, plb_value *y, plb_value *h,
                          plb_value *c) {
    plb_graph *g = r->n->graph;
    const int64_t rows = r->gates * r->hidden;
    plb_value x = plb_reshape(g, flat, &plb_shape_of(r->steps, r->batch, rows));
    plb_value rb = r->rb == PLB_NONE ? PLB_NONE : plb_reshape(g, r->rb, &plb_shape_of(rows));
    plb_value made =
        plb_recurrent(g, x, r->r, *h, *c, rb, &(plb_recurrent_attrs){kind, r->backwards});
    *y = plb_reshape(g, made, &plb_shape_of(r->steps, 1, r->batch, r->hidden));
    if (made == PLB_NONE) return;
    *h = made + 1;
    if (r->lstm) *c = made + 2;
}

static plb_status run_unrolled(rnn *r, plb_value flat, plb_value *rows, plb_value *h,
                               plb_value *c) {
    plb_graph *g = r->n->graph;
    plb_dtype dtype = plb_onnx_type(r->n, 0).dtype;
    if (r->steps > MAX_STEPS) {
        return plb_onnx_refuse("%lld steps: at most %d are unrolled", (long long)r->steps,
                               MAX_STEPS);
    }
    for (int64_t i = 0; i < r->steps; i++) {
        int64_t t = r->backwards ? r->steps - 1 - i : i;
        plb_value step = plb_slice_axis(g, flat, 0, t * r->batch, (t + 1) * r->batch);
        plb_value c_new = *c, h_new = r->lstm  ? lstm_step(r, step, *h, &c_new)
                                      : r->gru ? gru_step(r, step, *h)
                                               : rnn_step(r, step, *h);
        plb_value shown = h_new;
        if (r->lengths != PLB_NONE) {
            plb_value on = alive(r, t);
            shown = plb_where(g, on, h_new, plb_scalar(g, dtype, 0));
            h_new = plb_where(g, on, h_new, *h);
            if (r->lstm) c_new = plb_where(g, on, c_new, *c);
        }
        rows[t] = plb_reshape(g, shown, &plb_shape_of(1, 1, r->batch, r->hidden));
        *h = h_new, *c = c_new;
        PLB_TRY(plb_graph_status(g));
    }
    return PLB_OK;
}

// Outputs of all steps, [steps, 1, batch, hidden], and the last states; `rows` is scratch.
static plb_status run_direction(rnn *r, plb_value x, plb_value *rows, plb_value *y, plb_value *h,
                                plb_value *c) {
    plb_graph *g = r->n->graph;
    plb_value flat = plb_reshape(g, x, &plb_shape_of(r->steps * r->batch, r->input));
    const int kind = kind_of(r);
    flat = product(r, flat, r->w);
    if (r->wb != PLB_NONE) flat = plb_add(g, flat, r->wb);
    *h = initial(r, 5);
    *c = r->lstm ? initial(r, 6) : PLB_NONE;
    if (kind >= 0) {
        run_recurrent(r, kind, flat, y, h, c);
        return PLB_OK;
    }
    PLB_TRY(run_unrolled(r, flat, rows, h, c));
    *y = r->steps == 1 ? rows[0] : plb_concat(g, rows, (int)r->steps, 0);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- the op
// Steps of a sequence beyond those of x are seen where the numbers are known; else all count.
static plb_status check_lengths(plb_onnx_node *n, int64_t steps) {
    bool known;
    plb_tensor t;
    PLB_TRY(plb_onnx_try_known(n, 4, &known, &t));
    for (int64_t i = 0; known && i < plb_shape_count(&t.shape); i++) {
        const int64_t length = plb_load_i64(t.data, t.dtype, i);
        if (length >= 0 && length <= steps) continue;
        return plb_fail(PLB_EINVAL, "sequence_lens: expected 0 to %lld steps, found %lld",
                        (long long)steps, (long long)length);
    }
    return PLB_OK;
}

static plb_status read_rnn(plb_onnx_node *n, rnn *r) {
    plb_shape x = plb_onnx_type(n, 0).shape, w = plb_onnx_type(n, 1).shape;
    bool batch_first = plb_onnx_int(n, "layout", 0) != 0;
    *r = (rnn){.n = n,
               .lstm = strcmp(n->op, "LSTM") == 0,
               .gru = strcmp(n->op, "GRU") == 0,
               .reset_after = plb_onnx_int(n, "linear_before_reset", 0) != 0,
               .clip = plb_onnx_float(n, "clip", 0),
               .directions = plb_onnx_is(n, "direction", "forward", "bidirectional") ? 2 : 1,
               .lengths = plb_onnx_in(n, 4)};
    r->gates = r->lstm ? 4 : r->gru ? 3 : 1;
    if (x.rank != 3 || w.rank != 3 || w.dim[0] != r->directions) {
        return plb_fail(PLB_EINVAL, "expected x and W of rank 3, W of %d directions",
                        r->directions);
    }
    r->steps = x.dim[batch_first], r->batch = x.dim[!batch_first], r->input = x.dim[2];
    r->hidden = w.dim[1] / r->gates;
    if (r->steps < 1) return plb_onnx_refuse("no steps");
    return check_lengths(n, r->steps);
}

// States [directions, batch, hidden] come with the batch first where layout says so.
static plb_value swapped(const rnn *r, plb_value x) {
    return plb_onnx_int(r->n, "layout", 0) ? plb_transpose(r->n->graph, x, 0, 1) : x;
}

plb_status plb_onnx_map_rnn(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    rnn r;
    PLB_TRY(read_rnn(n, &r));
    bool batch_first = plb_onnx_int(n, "layout", 0) != 0;
    plb_value fixed[PLB_ONNX_SPARE_IN];
    plb_onnx_node seen = *n; // with states in the usual order
    for (int i = 0; i < PLB_ONNX_SPARE_IN; i++) fixed[i] = plb_onnx_in(n, i);
    for (int i = 5; i < 7; i++) {
        if (fixed[i] != PLB_NONE) fixed[i] = swapped(&r, fixed[i]);
    }
    seen.in = fixed;
    r.n = &seen;
    plb_value x = batch_first ? plb_transpose(g, n->in[0], 0, 1) : n->in[0];
    const size_t most = r.steps < MAX_STEPS ? (size_t)r.steps : MAX_STEPS;
    plb_value *rows = plb_arena_alloc(n->scope->b->arena, most * sizeof *rows);
    plb_value y[2], h[2], c[2];
    if (!rows) return plb_fail(PLB_ENOMEM, "out of memory for steps");
    for (int d = 0; d < r.directions; d++) {
        plb_shape state = plb_shape_of(1, r.batch, r.hidden);
        read_direction(&r, d);
        PLB_TRY(run_direction(&r, x, rows, &y[d], &h[d], &c[d]));
        h[d] = plb_reshape(g, h[d], &state);
        if (r.lstm) c[d] = plb_reshape(g, c[d], &state);
    }
    bool two = r.directions == 2;
    n->out[0] = two ? plb_concat(g, y, 2, 1) : y[0]; // [steps, directions, batch, hidden]
    n->out[1] = swapped(&r, two ? plb_concat(g, h, 2, 0) : h[0]);
    if (r.lstm) n->out[2] = swapped(&r, two ? plb_concat(g, c, 2, 0) : c[0]);
    if (batch_first) n->out[0] = plb_permute(g, n->out[0], (int[]){2, 0, 1, 3}, 4);
    return PLB_OK;
}
