// SPDX-License-Identifier: Apache-2.0
// Programs drawn from a seed, for what must hold of any program. Each step appends a few nodes to
// values drawn from those that are there; fewer steps of one seed give a prefix of the program.
// Values keep their size (a bound is carried along and pulled back when it grows), and ops that
// jump are applied only to values that every level has to the last bit (`exact`), so that rounding
// alone can never make levels differ by much.
#ifndef PLB_TESTS_ENGINE_RANDOM_GRAPH_H
#define PLB_TESTS_ENGINE_RANDOM_GRAPH_H

#include "base/core/philox.h"
#include "engine/graph/graph.h"
#include "plumb/ops.h"

typedef struct random_spec {
    uint64_t seed;
    int steps;
} random_spec;

enum { RANDOM_ITEMS = 512 };

typedef struct random_item {
    plb_value value;
    double bound;
    bool exact;
} random_item;

typedef struct random_maker {
    plb_graph *g;
    uint64_t seed, drawn;
    random_item items[RANDOM_ITEMS];
    int n_items, n_names, n_outputs;
    plb_value weights[RANDOM_ITEMS]; // first reads of variables
    int n_weights;
} random_maker;

static inline int random_draw(random_maker *m, int n) { // 0 to n - 1
    return (int)(plb_philox(m->seed, m->drawn++, 0).word[0] % (unsigned)n);
}

static inline plb_shape random_shape(const random_maker *m, plb_value v) {
    return plb_value_shape(m->g, v);
}

static inline void random_keep(random_maker *m, plb_value v, double bound, bool exact) {
    if (v == PLB_NONE || m->n_items == RANDOM_ITEMS) return;
    if (bound > 8) {
        v = plb_affine(m->g, v, 4 / bound, 0);
        bound = 4, exact = false;
    }
    m->items[m->n_items++] = (random_item){v, bound, exact};
}

// A float value of this rank (-1: any), or one of value PLB_NONE. Late ones are likelier.
static inline random_item random_pick(random_maker *m, int rank) {
    for (int attempt = 0; attempt < 24; attempt++) {
        int a = random_draw(m, m->n_items), b = random_draw(m, m->n_items);
        const random_item *item = &m->items[a > b ? a : b];
        plb_type type = plb_value_type(m->g, item->value);
        if (type.dtype == PLB_F32 && (rank < 0 || type.shape.rank == rank)) return *item;
    }
    return (random_item){.value = PLB_NONE};
}

static inline random_item random_pick_shape(random_maker *m, const plb_shape *shape) {
    int first = random_draw(m, m->n_items);
    for (int i = 0; i < m->n_items; i++) {
        const random_item *item = &m->items[(first + i) % m->n_items];
        plb_type type = plb_value_type(m->g, item->value);
        if (type.dtype == PLB_F32 && plb_shape_equal(&type.shape, shape)) return *item;
    }
    return (random_item){.value = PLB_NONE};
}

static inline plb_value random_variable(random_maker *m, const plb_shape *shape, double low,
                                        double high, plb_role role) {
    char name[32];
    snprintf(name, sizeof name, "v%d", m->n_names++);
    plb_init init = {.kind = PLB_INIT_UNIFORM, .a = low, .b = high};
    plb_value v = plb_param(m->g, name, PLB_F32, shape, role, init);
    if (role == PLB_ROLE_PARAMETER && m->n_weights < RANDOM_ITEMS) m->weights[m->n_weights++] = v;
    return v;
}

static inline plb_value random_vector(random_maker *m, int64_t n, double low, double high) {
    return random_variable(m, &plb_shape_of(n), low, high, PLB_ROLE_PARAMETER);
}

// ------------------------------------------------------------------------------------- spatial
static inline void random_conv(random_maker *m) {
    random_item x = random_pick(m, 4);
    if (x.value == PLB_NONE) return;
    plb_shape s = random_shape(m, x.value);
    int64_t c = s.dim[1], k = random_draw(m, 3) ? c : 8 + 8 * random_draw(m, 2);
    int64_t groups = random_draw(m, 4) ? 1 : random_draw(m, 2) && k == c ? c : 2;
    if (c % groups || k % groups) groups = 1;
    int64_t size = random_draw(m, 2) && s.dim[2] >= 3 && s.dim[3] >= 3 ? 3 : 1;
    int64_t stride = random_draw(m, 4) || s.dim[2] < 4 ? 1 : 2;
    double fan = (double)(c / groups * size * size), limit = 1.5 / sqrt(fan);
    plb_value w = random_variable(m, &plb_shape_of(k, c / groups, size, size), -limit, limit,
                                  PLB_ROLE_PARAMETER);
    plb_value bias = random_draw(m, 2) ? random_vector(m, k, -0.5, 0.5) : PLB_NONE;
    plb_conv_attrs attrs = plb_conv_uniform(2, stride, size / 2, 1, groups);
    random_keep(m, plb_conv(m->g, x.value, w, bias, &attrs), 1.5 * x.bound + 0.5, false);
}

static inline void random_norm(random_maker *m) {
    random_item x = random_pick(m, 4);
    if (x.value == PLB_NONE) return;
    plb_shape s = random_shape(m, x.value);
    int64_t c = s.dim[1];
    plb_value gamma = random_draw(m, 4) ? random_vector(m, c, 0.5, 1.5) : PLB_NONE;
    plb_value beta = random_draw(m, 4) ? random_vector(m, c, -0.5, 0.5) : PLB_NONE;
    if (random_draw(m, 2)) {
        plb_value mean = random_variable(m, &plb_shape_of(c), -0.2, 0.2, PLB_ROLE_BUFFER);
        plb_value variance = random_variable(m, &plb_shape_of(c), 0.5, 2, PLB_ROLE_BUFFER);
        plb_value y = plb_batch_norm_infer(m->g, x.value, gamma, beta, mean, variance, 1e-2);
        random_keep(m, y, 2.1 * x.bound + 1, false);
        return;
    }
    plb_value y = plb_batch_norm(m->g, x.value, gamma, beta, 5e-2);
    random_keep(m, y, 5, false);
    if (y == PLB_NONE || random_draw(m, 2)) return;
    if (random_draw(m, 2)) random_keep(m, y + 1, x.bound, false);
    plb_value running = random_variable(m, &plb_shape_of(c), 0, 0, PLB_ROLE_BUFFER);
    int variable = plb_value_variable(m->g, running);
    plb_value blend =
        plb_add(m->g, plb_affine(m->g, running, 0.9, 0), plb_affine(m->g, y + 1, 0.1, 0));
    plb_assign(m->g, variable, blend);
}

static inline void random_pool(random_maker *m) {
    random_item x = random_pick(m, 4);
    if (x.value == PLB_NONE) return;
    plb_shape s = random_shape(m, x.value);
    if (s.dim[2] < 2 || s.dim[3] < 2) return;
    plb_pool_attrs attrs = plb_pool_uniform(2, 2, random_draw(m, 2) ? 2 : 1, 0);
    switch (random_draw(m, 4)) {
    case 0: random_keep(m, plb_max_pool(m->g, x.value, &attrs), x.bound, x.exact); break;
    case 1: random_keep(m, plb_avg_pool(m->g, x.value, &attrs), x.bound, false); break;
    case 2: random_keep(m, plb_global_avg_pool(m->g, x.value), x.bound, false); break;
    default: {
        plb_value y = plb_adaptive_avg_pool(m->g, x.value, (int64_t[PLB_MAX_SPATIAL]){2, 2});
        random_keep(m, y, x.bound, false);
    }
    }
}

static inline void random_other_norm(random_maker *m) {
    random_item x = random_pick(m, 4);
    if (x.value == PLB_NONE) return;
    plb_shape s = random_shape(m, x.value);
    plb_value y = random_draw(m, 2) && s.dim[1] % 2 == 0
                      ? plb_group_norm(m->g, x.value, PLB_NONE, PLB_NONE, 2, 5e-2)
                      : plb_layer_norm(m->g, x.value, PLB_NONE, PLB_NONE, 2, 5e-2);
    random_keep(m, y, 6, false);
}

static inline void random_shuffle(random_maker *m) {
    random_item x = random_pick(m, 4);
    if (x.value == PLB_NONE) return;
    plb_shape s = random_shape(m, x.value);
    if (s.dim[1] % 2) return;
    plb_shape split = {5, {s.dim[0], 2, s.dim[1] / 2, s.dim[2], s.dim[3]}};
    plb_value y = plb_transpose(m->g, plb_reshape(m->g, x.value, &split), 1, 2);
    random_keep(m, plb_reshape(m->g, y, &s), x.bound, x.exact);
}

// ------------------------------------------------------------------------------------- matrices
static inline void random_matmul(random_maker *m) {
    random_item x = random_pick(m, 2);
    if (x.value == PLB_NONE) return;
    int64_t k = random_shape(m, x.value).dim[1], n = 6 + 4 * random_draw(m, 3);
    double limit = 1.5 / sqrt((double)k);
    plb_value y;
    if (random_draw(m, 2)) {
        plb_value w = random_variable(m, &plb_shape_of(k, n), -limit, limit, PLB_ROLE_PARAMETER);
        y = plb_matmul(m->g, x.value, w, NULL);
    } else {
        plb_value w = random_variable(m, &plb_shape_of(n, k), -limit, limit, PLB_ROLE_PARAMETER);
        y = plb_linear(m->g, x.value, w, random_draw(m, 2) ? random_vector(m, n, -1, 1) : PLB_NONE);
    }
    random_keep(m, y, 1.5 * x.bound + 1, false);
}

static inline void random_rows(random_maker *m) {
    random_item x = random_pick(m, 2);
    if (x.value == PLB_NONE) return;
    switch (random_draw(m, 5)) {
    case 0: random_keep(m, plb_softmax(m->g, x.value, -1), 1, false); break;
    case 1: random_keep(m, plb_log_softmax(m->g, x.value, -1), 2 * x.bound + 5, false); break;
    case 2: random_keep(m, plb_transpose(m->g, x.value, 0, 1), x.bound, x.exact); break;
    case 3: random_keep(m, plb_cumsum(m->g, x.value, 1, false, false), 16 * x.bound, false); break;
    default: {
        plb_value gram = plb_matmul(m->g, x.value, x.value, &(plb_matmul_attrs){.trans_b = 1});
        random_keep(m, gram, 8 * x.bound * x.bound, false);
    }
    }
}

// ------------------------------------------------------------------------------------- pointwise
static inline void random_unary(random_maker *m) {
    random_item x = random_pick(m, -1);
    if (x.value == PLB_NONE) return;
    plb_graph *g = m->g;
    double b = x.bound;
    plb_value v = x.value;
    switch (random_draw(m, 18)) {
    case 0:
    case 1:
    case 2: random_keep(m, plb_relu(g, v), b, x.exact); break;
    case 3: random_keep(m, plb_neg(g, v), b, x.exact); break;
    case 4: random_keep(m, plb_abs(g, v), b, x.exact); break;
    case 5: random_keep(m, plb_tanh(g, v), 1, false); break;
    case 6: random_keep(m, plb_sigmoid(g, v), 1, false); break;
    case 7: random_keep(m, plb_relu6(g, v), b, x.exact); break;
    case 8: random_keep(m, plb_clamp(g, v, -0.5, 0.75), 0.75, x.exact); break;
    case 9: random_keep(m, plb_affine(g, v, -1.25, 0.5), 1.25 * b + 0.5, false); break;
    case 10: random_keep(m, plb_gelu(g, v), b, false); break;
    case 11: random_keep(m, plb_hardswish(g, v), b, false); break;
    case 12: random_keep(m, plb_silu(g, v), b, false); break;
    case 13: random_keep(m, plb_exp(g, plb_clamp(g, v, -2, 1)), 3, false); break;
    case 14: random_keep(m, plb_leaky_relu(g, v, 0.1), b, false); break;
    case 15: random_keep(m, plb_sin(g, v), 1, false); break;
    case 16: random_keep(m, plb_rsqrt(g, plb_affine(g, plb_abs(g, v), 1, 1)), 1, false); break;
    default: random_keep(m, plb_dropout(g, v, 0.3), 1.5 * b, false); break;
    }
}

// A second operand for x: of its shape, or one that broadcasts to it.
static inline random_item random_partner(random_maker *m, plb_value x) {
    plb_shape s = random_shape(m, x);
    switch (random_draw(m, 6)) {
    case 0: { // a value for each channel
        if (s.rank < 2) break;
        plb_shape column = {.rank = s.rank - 1, .dim = {s.dim[1]}};
        for (int i = 1; i < column.rank; i++) column.dim[i] = 1;
        return (random_item){random_variable(m, &column, -1, 1, PLB_ROLE_PARAMETER), 1, true};
    }
    case 1: return (random_item){plb_scalar(m->g, PLB_F32, 0.5), 0.5, true};
    case 2: { // a row
        if (s.rank < 1) break;
        return (random_item){random_vector(m, s.dim[s.rank - 1], -1, 1), 1, true};
    }
    case 3: // the mean along an axis, still in place
        if (s.rank < 1) break;
        return (random_item){plb_mean(m->g, x, INT64_C(1) << random_draw(m, s.rank), true), 8,
                             false};
    default: break;
    }
    return random_pick_shape(m, &s);
}

static inline void random_binary(random_maker *m) {
    random_item x = random_pick(m, -1);
    if (x.value == PLB_NONE) return;
    random_item y = random_partner(m, x.value);
    if (y.value == PLB_NONE) return;
    if (random_draw(m, 2)) {
        random_item swap = x;
        x = y, y = swap;
    }
    plb_graph *g = m->g;
    bool exact = x.exact && y.exact;
    double larger = fmax(x.bound, y.bound);
    switch (random_draw(m, 8)) {
    case 0:
    case 1:
    case 2: random_keep(m, plb_add(g, x.value, y.value), x.bound + y.bound, false); break;
    case 3: random_keep(m, plb_sub(g, x.value, y.value), x.bound + y.bound, false); break;
    case 4: random_keep(m, plb_mul(g, x.value, y.value), x.bound * y.bound, false); break;
    case 5: random_keep(m, plb_max(g, x.value, y.value), larger, exact); break;
    case 6: random_keep(m, plb_min(g, x.value, y.value), larger, exact); break;
    default: {
        plb_value below = plb_affine(g, plb_abs(g, y.value), 1, 1);
        random_keep(m, plb_div(g, x.value, below), x.bound, false);
    }
    }
}

// add and ReLU, as residual blocks have them.
static inline void random_residual(random_maker *m) {
    random_item x = m->items[m->n_items - 1];
    plb_type type = plb_value_type(m->g, x.value);
    if (type.dtype != PLB_F32) return;
    random_item y = random_pick_shape(m, &type.shape);
    plb_value sum = plb_add(m->g, x.value, y.value);
    random_keep(m, random_draw(m, 3) ? plb_relu(m->g, sum) : sum, x.bound + y.bound, false);
}

// ------------------------------------------------------------------------- integers and booleans
static inline void random_integers(random_maker *m) {
    random_item x = random_pick(m, -1);
    if (x.value == PLB_NONE || !x.exact) return;
    plb_graph *g = m->g;
    plb_value i = plb_cast(g, plb_round(g, plb_affine(g, x.value, 8, 0)), PLB_I64);
    i = plb_add(g, plb_mul(g, i, i), plb_affine(g, i, 3, -7));
    if (random_draw(m, 2)) {
        i = plb_remainder(g, i, plb_scalar(g, PLB_I64, 5));
        random_keep(m, plb_cast(g, i, PLB_F32), 5, true);
        return;
    }
    plb_value big = plb_gt(g, i, plb_scalar(g, PLB_I64, 4));
    plb_value y = plb_where(g, big, x.value, plb_neg(g, x.value));
    random_keep(m, y, x.bound, true);
}

static inline void random_compare(random_maker *m) {
    random_item x = random_pick(m, -1);
    if (x.value == PLB_NONE || !x.exact) return;
    plb_shape s = random_shape(m, x.value);
    random_item y = random_pick_shape(m, &s);
    plb_value positive = plb_gt(m->g, x.value, plb_scalar(m->g, PLB_F32, 0.125));
    if (random_draw(m, 2)) positive = plb_not(m->g, positive);
    random_keep(m, plb_where(m->g, positive, x.value, y.value), fmax(x.bound, y.bound), false);
}

static inline void random_index(random_maker *m) {
    random_item x = random_pick(m, 2);
    if (x.value == PLB_NONE || !x.exact) return;
    plb_value index = plb_arg_max(m->g, x.value, 1, false);
    plb_value row = plb_reshape(m->g, index, &plb_shape_of(random_shape(m, x.value).dim[0], 1));
    random_keep(m, plb_gather(m->g, x.value, row, 1), x.bound, true);
}

// ------------------------------------------------------------------------------------- shapes
static inline void random_reduce(random_maker *m) {
    random_item x = random_pick(m, -1);
    if (x.value == PLB_NONE) return;
    plb_shape s = random_shape(m, x.value);
    if (s.rank == 0) return;
    int64_t axes = 1 + random_draw(m, (1 << s.rank) - 1);
    bool keep = random_draw(m, 2);
    plb_graph *g = m->g;
    switch (random_draw(m, 5)) {
    case 0: random_keep(m, plb_sum(g, x.value, axes, keep), 64 * x.bound, false); break;
    case 1: random_keep(m, plb_mean(g, x.value, axes, keep), x.bound, false); break;
    case 2: random_keep(m, plb_amax(g, x.value, axes, keep), x.bound, x.exact); break;
    case 3: random_keep(m, plb_amin(g, x.value, axes, keep), x.bound, x.exact); break;
    default: {
        plb_value y = plb_var(g, x.value, axes, keep, 0);
        random_keep(m, y, x.bound * x.bound, false);
    }
    }
}

static inline void random_slice(random_maker *m) {
    random_item x = random_pick(m, -1);
    if (x.value == PLB_NONE) return;
    plb_shape s = random_shape(m, x.value);
    if (s.rank == 0) return;
    int axis = random_draw(m, s.rank);
    if (s.dim[axis] < 2) return;
    int64_t half = s.dim[axis] / 2;
    plb_value a = plb_slice_axis(m->g, x.value, axis, 0, half);
    plb_value b = plb_slice_axis(m->g, x.value, axis, half, 2 * half);
    random_keep(m, a, x.bound, x.exact);
    random_keep(m, b, x.bound, x.exact);
    if (random_draw(m, 2)) {
        plb_value parts[] = {b, a};
        random_keep(m, plb_concat(m->g, parts, 2, axis), x.bound, x.exact);
    }
}

static inline void random_concat(random_maker *m) {
    random_item x = random_pick(m, -1);
    if (x.value == PLB_NONE) return;
    plb_shape s = random_shape(m, x.value);
    if (s.rank == 0 || plb_shape_count(&s) > 2000) return;
    int axis = s.rank == 4 ? 1 : random_draw(m, s.rank);
    random_item y = random_pick_shape(m, &s);
    plb_value parts[] = {x.value, y.value};
    random_keep(m, plb_concat(m->g, parts, 2, axis), fmax(x.bound, y.bound), x.exact && y.exact);
}

static inline void random_reshape(random_maker *m) {
    random_item x = random_pick(m, 4);
    if (x.value == PLB_NONE) return;
    plb_shape s = random_shape(m, x.value);
    switch (random_draw(m, 4)) {
    case 0: random_keep(m, plb_flatten(m->g, x.value, 1), x.bound, x.exact); break;
    case 1: {
        plb_value y = plb_permute(m->g, x.value, (int[]){0, 2, 3, 1}, 4);
        random_keep(m, plb_reshape(m->g, y, &plb_shape_of(-1, s.dim[1])), x.bound, x.exact);
        break;
    }
    case 2: {
        plb_value y = plb_permute(m->g, x.value, (int[]){0, 1, 3, 2}, 4);
        random_keep(m, y, x.bound, x.exact);
        break;
    }
    default: random_keep(m, plb_flip(m->g, x.value, 2 + 4 * random_draw(m, 2)), x.bound, x.exact);
    }
}

static inline void random_pad(random_maker *m) {
    random_item x = random_pick(m, 4);
    if (x.value == PLB_NONE || plb_value_shape(m->g, x.value).dim[2] > 8) return;
    plb_pad_attrs attrs = {.mode = PLB_PAD_EDGE, .before = {0, 0, 1}, .after = {0, 0, 0, 1}};
    random_keep(m, plb_pad(m->g, x.value, &attrs), x.bound, x.exact);
}

// ------------------------------------------------------------------------------------- variables
static inline void random_reread(random_maker *m) {
    if (!m->n_weights) return;
    plb_value w = m->weights[random_draw(m, m->n_weights)];
    random_keep(m, plb_read(m->g, plb_value_variable(m->g, w)), 4, false);
}

// Assigns something to a variable: another variable, a value as it is, or a blend.
static inline void random_assign(random_maker *m) {
    if (!m->n_weights) return;
    plb_graph *g = m->g;
    plb_value w = m->weights[random_draw(m, m->n_weights)];
    int variable = plb_value_variable(g, w);
    plb_shape s = random_shape(m, w);
    random_item x = random_pick_shape(m, &s);
    plb_value now = plb_read(g, variable), next;
    switch (random_draw(m, 4)) {
    case 0: next = x.value != PLB_NONE ? x.value : plb_affine(g, now, -0.5, 0.01); break;
    case 1: next = plb_affine(g, plb_tanh(g, now), 0.75, 0.0625); break;
    case 2: {
        plb_value other = m->weights[random_draw(m, m->n_weights)];
        plb_shape t = random_shape(m, other);
        next = plb_shape_equal(&s, &t) ? plb_read(g, plb_value_variable(g, other)) : now;
        break;
    }
    default:
        next = plb_affine(g, now, 0.5, 0);
        if (x.value != PLB_NONE) next = plb_add(g, next, plb_affine(g, x.value, 0.125, 0));
    }
    plb_assign(g, variable, next);
}

// Two variables change places.
static inline void random_swap(random_maker *m) {
    if (!m->n_weights) return;
    plb_value a = m->weights[random_draw(m, m->n_weights)];
    plb_shape s = random_shape(m, a);
    plb_value b = random_variable(m, &s, -0.2, 0.2, PLB_ROLE_PARAMETER);
    int first = plb_value_variable(m->g, a), second = plb_value_variable(m->g, b);
    plb_value x = plb_read(m->g, first), y = plb_read(m->g, second);
    plb_assign(m->g, first, y);
    plb_assign(m->g, second, x);
}

// ------------------------------------------------------------------------------------- the whole
typedef void (*random_step)(random_maker *m);
static const random_step random_steps[] = {
    random_conv,     random_conv,    random_conv,       random_norm,     random_norm,
    random_norm,     random_pool,    random_unary,      random_unary,    random_unary,
    random_unary,    random_unary,   random_unary,      random_binary,   random_binary,
    random_binary,   random_binary,  random_residual,   random_residual, random_residual,
    random_matmul,   random_matmul,  random_rows,       random_rows,     random_reduce,
    random_slice,    random_concat,  random_reshape,    random_pad,      random_shuffle,
    random_integers, random_compare, random_index,      random_reread,   random_assign,
    random_assign,   random_swap,    random_other_norm,
};

static inline void random_output(random_maker *m, plb_value value) {
    char name[32];
    snprintf(name, sizeof name, "o%d", m->n_outputs++);
    plb_output(m->g, name, value);
}

// A step of gradient descent on the sum of a few values.
static inline void random_train(random_maker *m) {
    plb_graph *g = m->g;
    plb_value loss = PLB_NONE, grads[RANDOM_ITEMS];
    for (int k = 0; k < 4; k++) {
        random_item x = k ? random_pick(m, -1) : m->items[m->n_items - 1];
        if (x.value == PLB_NONE) continue;
        plb_value term = plb_mean(g, plb_mul(g, x.value, x.value), 0, false);
        loss = loss == PLB_NONE ? term : plb_add(g, loss, term);
    }
    plb_gradients(g, loss, m->weights, m->n_weights, grads);
    random_output(m, loss);
    plb_value lr = plb_scalar(g, PLB_F32, 0.01);
    for (int i = 0; i < m->n_weights; i++) {
        if (grads[i] == PLB_NONE) continue;
        int variable = plb_value_variable(g, m->weights[i]);
        plb_value w = plb_read(g, variable);
        plb_assign(g, variable, plb_sgd(g, w, grads[i], PLB_NONE, lr, &(plb_sgd_attrs){0}));
    }
}

static inline void random_build(plb_graph *g, const void *context) {
    const random_spec *spec = context;
    random_maker m = {.g = g, .seed = spec->seed};
    plb_graph_set_training(g, random_draw(&m, 2));
    bool train = random_draw(&m, 3) == 0;
    plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(2, 8, 8, 8));
    random_keep(&m, x, 1, true);
    random_keep(&m, plb_input(g, "z", PLB_F32, &plb_shape_of(6, 10)), 1, true);
    for (int i = 0; i < spec->steps && !g->status; i++) {
        int before = m.n_items;
        random_steps[random_draw(&m, (int)(sizeof random_steps / sizeof *random_steps))](&m);
        if (random_draw(&m, 8) == 0 && m.n_items > before) {
            random_output(&m, m.items[m.n_items - 1].value);
        }
    }
    random_output(&m, m.items[m.n_items - 1].value);
    if (train && m.n_weights) random_train(&m);
}

#endif
