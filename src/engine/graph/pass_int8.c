// SPDX-License-Identifier: Apache-2.0
// Quantised networks as exporters write them: x and w are integers that are dequantised, convolved
// or multiplied in floats, and quantised again.
//
//   quantise(relu(conv(dequantise(x), dequantise(w), bias)))  ->  int8_conv(x, w, …)
//
// with multiplier = scale of x times scale of w over scale of y, bias = bias over the first two,
// both computed in the prologue. Without a quantisation behind it the result is f32.
//
//   quantise(relu(add(dequantise(a), dequantise(b))))        ->  int8_add(a, b)
//   quantise(max_pool(dequantise(x))), the same scale         ->  max_pool of x's integers
//
// QLinearConv and QLinearMatMul, which are taken in f64 by their definition, become the same:
//
//   quantise(conv(x - zero of x, w, bias) * (scale of x * scale of w))  ->  int8_conv(x, w, …)
//
// Zero points are known numbers, scales come from constants and variables alone; w is i8 with zero
// point 0, as the kernels want it.
#include <math.h>

#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "engine/graph/pattern.h"
#include "engine/ops/int8.h"

// (q - zero) scale, in f32.
typedef struct dequantised {
    plb_value q, scale; // scale: PLB_NONE where `number` is it
    double zero, number;
} dequantised;

// round(x / scale) + zero, between low and high, as a byte; or x itself as f32.
typedef struct quantised {
    plb_value x, scale;
    double zero, low, high;
    plb_dtype dtype;
} quantised;

static plb_type type_of(const plb_graph *g, plb_value value) {
    return g->values[value].type;
}

typedef struct search {
    plb_rewrite rw;
    bool *fixed; // of each node: made of constants and variables, which no run changes
} search;

static void find_fixed(search *s) {
    for (int i = 0; i < s->rw.from->n_nodes; i++) {
        const plb_node *node = &s->rw.from->nodes[i];
        const unsigned flags = plb_op_of(node->op)->flags;
        bool source = node->op == PLB_OP_constant || node->op == PLB_OP_read;
        bool fixed = !(flags & (PLB_OP_FRAME | PLB_OP_RANDOM)) && !node->region[0] && node->n_in;
        for (int k = 0; k < node->n_in && fixed; k++) {
            fixed = node->in[k] < 0 || s->fixed[s->rw.from->values[node->in[k]].node];
        }
        s->fixed[i] = source || fixed;
    }
}

static bool is_fixed(const search *s, plb_value value) {
    return s->fixed[s->rw.from->values[value].node];
}

// Kernels take zero points as bytes: another number, as in pictures less 127.5, is none.
static bool is_zero_point(double zero) {
    return zero == rint(zero) && zero >= INT8_MIN && zero <= UINT8_MAX;
}

static bool match_dequantise(const search *s, plb_value value, dequantised *d) {
    const plb_graph *g = s->rw.from;
    *d = (dequantised){.scale = PLB_NONE};
    if (value < 0 || type_of(g, value).dtype != PLB_F32) return false;
    const plb_node *node = plb_maker(g, value);
    if (node->op != PLB_OP_mul || !is_fixed(s, node->in[1])) return false;
    d->scale = node->in[1];
    plb_value x = node->in[0];
    plb_value centred = x;
    if (plb_pattern_shifted(g, centred, &x, &d->zero)) {
        d->zero = -d->zero;
    } else {
        x = centred;
    }
    if (!is_zero_point(d->zero) || !plb_made_by(g, x, PLB_OP_cast)) return false;
    d->q = plb_maker(g, x)->in[0];
    return true;
}

static bool match_quantise(const search *s, const plb_node *cast, quantised *q) {
    const plb_graph *g = s->rw.from;
    *q = (quantised){.dtype = type_of(g, cast->out).dtype};
    if (cast->op != PLB_OP_cast || !plb_is_byte(q->dtype)) return false;
    if (!plb_made_by(g, cast->in[0], PLB_OP_clamp)) return false;
    const plb_node *clamp = plb_maker(g, cast->in[0]);
    q->low = ((const plb_pointwise_attrs *)clamp->attrs)->alpha;
    q->high = ((const plb_pointwise_attrs *)clamp->attrs)->beta;
    plb_value whole = clamp->in[0];
    if (!plb_pattern_shifted(g, clamp->in[0], &whole, &q->zero)) whole = clamp->in[0];
    if (!is_zero_point(q->zero) || !plb_made_by(g, whole, PLB_OP_round)) return false;
    plb_value divided = plb_maker(g, whole)->in[0];
    if (!plb_made_by(g, divided, PLB_OP_div)) return false;
    q->x = plb_maker(g, divided)->in[0], q->scale = plb_maker(g, divided)->in[1];
    plb_shape scale = type_of(g, q->scale).shape;
    bool one = plb_shape_count(&scale) == 1 && is_fixed(s, q->scale);
    plb_dtype x = type_of(g, q->x).dtype;
    return one && (x == PLB_F32 || x == PLB_F64);
}

// What ReLU or a clamp between the product and its quantisation bounds the result by.
static plb_value skip_activation(const plb_rewrite *rw, plb_value x, double *low, double *high) {
    const plb_node *node = plb_maker(rw->from, x);
    const plb_pointwise_attrs *a = node->attrs;
    *low = -INFINITY, *high = INFINITY;
    if (rw->uses[x] != 1) return x;
    if (node->op == PLB_OP_relu) *low = 0;
    if (node->op == PLB_OP_clamp) *low = a->alpha, *high = a->beta;
    return *low > -INFINITY ? node->in[0] : x;
}

typedef struct product {
    const plb_node *node; // conv or matmul
    plb_value steps;      // scale of x times that of w, where it stands behind; else PLB_NONE
    plb_value bias;       // or PLB_NONE
    plb_value result;     // of the product, bias included
    dequantised x, w;
} product;

// A bias that was added behind the product: one number a column.
static plb_value bias_behind(const plb_rewrite *rw, plb_value *value) {
    const plb_graph *g = rw->from;
    if (!plb_made_by(g, *value, PLB_OP_add) || rw->uses[*value] != 1) return PLB_NONE;
    const plb_node *add = plb_maker(g, *value);
    plb_value made, b = plb_pattern_beside(g, add, PLB_OP_matmul, &made);
    if (b == PLB_NONE || rw->uses[made] != 1) return PLB_NONE;
    plb_shape shape = type_of(g, b).shape, y = type_of(g, made).shape;
    int64_t k = y.dim[y.rank - 1];
    if (plb_shape_count(&shape) != k || shape.dim[shape.rank - 1] != k) return PLB_NONE;
    *value = made;
    return b;
}

static bool bare(const plb_node *node) {
    if (node->op == PLB_OP_conv) {
        return node->n_in <= 3 && !((const plb_conv_attrs *)node->attrs)->epilogue.activation;
    }
    const plb_matmul_attrs *a = node->attrs;
    return node->op == PLB_OP_matmul && node->n_in <= 3 && !a->epilogue.activation && !a->trans_a;
}

// Channels of the result lie on this axis of w.
static int channel_axis(const plb_node *node) {
    if (node->op == PLB_OP_conv) return 0;
    return ((const plb_matmul_attrs *)node->attrs)->trans_b ? 0 : 1;
}

// One scale, or one for each channel of the result, along its axis.
static bool scale_fits(const plb_graph *g, const product *p, int64_t channels) {
    plb_shape scale = type_of(g, p->w.scale).shape, w = type_of(g, p->w.q).shape;
    if (plb_shape_count(&scale) == 1) return true;
    int axis = channel_axis(p->node) - (w.rank - scale.rank);
    return plb_shape_count(&scale) == channels && axis >= 0 && scale.dim[axis] == channels;
}

static bool match_product(const search *s, plb_value value, product *p) {
    const plb_rewrite *rw = &s->rw;
    const plb_graph *g = rw->from;
    *p = (product){.result = value, .steps = PLB_NONE};
    plb_value made = value, bias = bias_behind(rw, &made);
    p->node = plb_maker(g, made);
    if (!bare(p->node) || rw->uses[made] != 1) return false;
    p->bias = p->node->n_in > 2 ? p->node->in[2] : PLB_NONE;
    if (bias != PLB_NONE && p->bias != PLB_NONE) return false;
    if (bias != PLB_NONE) p->bias = bias;
    if (!match_dequantise(s, p->node->in[0], &p->x)) return false;
    if (!match_dequantise(s, p->node->in[1], &p->w)) return false;
    plb_type x = type_of(g, p->x.q), w = type_of(g, p->w.q);
    plb_shape x_scale = type_of(g, p->x.scale).shape;
    if (!plb_is_byte(x.dtype) || w.dtype != PLB_I8 || p->w.zero != 0) return false;
    if (plb_shape_count(&x_scale) != 1 || !is_fixed(s, p->w.q)) return false;
    bool ranks = p->node->op == PLB_OP_conv || (x.shape.rank == 2 && w.shape.rank == 2);
    return ranks && scale_fits(g, p, w.shape.dim[channel_axis(p->node)]);
}

// An integer less its zero point, in f64.
static bool match_centred(const search *s, plb_value value, dequantised *d) {
    const plb_graph *g = s->rw.from;
    plb_value x = value;
    *d = (dequantised){.scale = PLB_NONE};
    if (plb_pattern_shifted(g, value, &x, &d->zero))
        d->zero = -d->zero;
    else
        x = value;
    if (!is_zero_point(d->zero) || !plb_made_by(g, x, PLB_OP_cast)) return false;
    d->q = plb_maker(g, x)->in[0];
    return plb_is_byte(type_of(g, d->q).dtype);
}

// The product of integers in f64 whose scales stand behind it.
static bool match_scaled(const search *s, plb_value value, product *p) {
    const plb_rewrite *rw = &s->rw;
    const plb_graph *g = rw->from;
    const plb_node *mul = plb_maker(g, value);
    *p = (product){.result = value};
    if (mul->op != PLB_OP_mul || rw->uses[value] != 1 || !is_fixed(s, mul->in[1])) return false;
    p->steps = mul->in[1];
    p->node = plb_maker(g, mul->in[0]);
    if (!bare(p->node) || rw->uses[mul->in[0]] != 1) return false;
    p->bias = p->node->n_in > 2 ? p->node->in[2] : PLB_NONE;
    if (!match_centred(s, p->node->in[0], &p->x)) return false;
    if (!match_centred(s, p->node->in[1], &p->w)) return false;
    plb_type x = type_of(g, p->x.q), w = type_of(g, p->w.q);
    if (w.dtype != PLB_I8 || p->w.zero != 0 || !is_fixed(s, p->w.q)) return false;
    if (p->node->op == PLB_OP_matmul && (x.shape.rank != 2 || w.shape.rank != 2)) return false;
    plb_shape steps = type_of(g, p->steps).shape, y = type_of(g, p->node->out).shape;
    int axis = 1 - (y.rank - steps.rank); // of channels, in both kinds
    return plb_shape_count(&steps) == 1 ||
           (axis >= 0 && plb_shape_count(&steps) == y.dim[1] && steps.dim[axis] == y.dim[1]);
}

static plb_value vector(plb_graph *to, plb_value value, int64_t n) {
    plb_shape shape = plb_value_shape(to, value);
    if (plb_value_type(to, value).dtype != PLB_F32) value = plb_cast(to, value, PLB_F32);
    if (plb_shape_count(&shape) == 1) {
        return plb_expand(to, plb_reshape(to, value, &plb_scalar_shape), &plb_shape_of(n));
    }
    return plb_reshape(to, value, &plb_shape_of(n));
}

// Bounds of y in its own integers, or in f32.
static void bound(const quantised *q, double scale, double low, double high, plb_int8_attrs *a) {
    if (q->scale == PLB_NONE) {
        a->low = low, a->high = high;
        return;
    }
    a->low = fmax(q->low, rint(low / scale) + q->zero);
    a->high = fmin(q->high, rint(high / scale) + q->zero);
}

static void emit(plb_rewrite *rw, int index, const product *p, const quantised *q,
                 plb_int8_attrs attrs) {
    plb_graph *to = rw->to;
    bool conv = p->node->op == PLB_OP_conv;
    const int64_t n = type_of(rw->from, p->w.q).shape.dim[channel_axis(p->node)];
    plb_value steps;
    if (p->steps != PLB_NONE)
        steps = vector(to, rw->map[p->steps], n);
    else
        steps = plb_mul(to, vector(to, rw->map[p->w.scale], n), vector(to, rw->map[p->x.scale], n));
    plb_value multiplier = steps;
    if (q->scale != PLB_NONE) {
        multiplier = plb_div(to, steps, vector(to, rw->map[q->scale], n));
    }
    plb_value bias = plb_scalar(to, PLB_F32, 0);
    if (p->bias != PLB_NONE) bias = vector(to, rw->map[p->bias], n);
    if (p->bias != PLB_NONE && p->steps == PLB_NONE) bias = plb_div(to, bias, steps);
    bias = vector(to, bias, n);
    attrs.x_zero = (int64_t)p->x.zero;
    attrs.y_zero = (int64_t)q->zero;
    attrs.dtype = q->dtype;
    if (conv) attrs.conv = *(const plb_conv_attrs *)p->node->attrs;
    if (!conv) attrs.trans_b = ((const plb_matmul_attrs *)p->node->attrs)->trans_b;
    plb_value x = rw->map[p->x.q], w = rw->map[p->w.q];
    rw->map[rw->from->nodes[index].out] = conv
                                              ? plb_int8_conv(to, x, w, multiplier, bias, &attrs)
                                              : plb_int8_matmul(to, x, w, multiplier, bias, &attrs);
}

// ---------------------------------------------------------------------------- sums and maxima
static bool known(const plb_graph *g, const dequantised *d, double *scale) {
    return plb_is_byte(type_of(g, d->q).dtype) && plb_pattern_number(g, d->scale, scale);
}

static bool replace_sum(search *s, int index, const quantised *q, double low, double high) {
    plb_rewrite *rw = &s->rw;
    const plb_graph *g = rw->from;
    dequantised a, b;
    double scale_a, scale_b, scale;
    if (!plb_made_by(g, q->x, PLB_OP_add) || rw->uses[q->x] != 1) return false;
    const plb_node *add = plb_maker(g, q->x);
    if (!match_dequantise(s, add->in[0], &a) || !match_dequantise(s, add->in[1], &b)) return false;
    if (!known(g, &a, &scale_a) || !known(g, &b, &scale_b)) return false;
    plb_shape first = type_of(g, a.q).shape, second = type_of(g, b.q).shape;
    if (!plb_pattern_number(g, q->scale, &scale) || !plb_shape_equal(&first, &second)) return false;
    plb_int8_attrs bounds = {0};
    bound(q, scale, low, high, &bounds);
    plb_int8_add_attrs attrs = {.scale_a = scale_a / scale,
                                .scale_b = scale_b / scale,
                                .shift = -(a.zero * scale_a + b.zero * scale_b) / scale,
                                .y_zero = (int64_t)q->zero,
                                .low = bounds.low,
                                .high = bounds.high,
                                .dtype = q->dtype};
    if (attrs.low > attrs.high) return false;
    rw->map[g->nodes[index].out] = plb_int8_add(rw->to, rw->map[a.q], rw->map[b.q], &attrs);
    return true;
}

// Dequantising keeps the order of integers, and the same scale brings back what was there.
static bool replace_maximum(search *s, int index, const quantised *q) {
    plb_rewrite *rw = &s->rw;
    const plb_graph *g = rw->from;
    dequantised x;
    double from, to;
    if (!plb_made_by(g, q->x, PLB_OP_max_pool) || rw->uses[q->x] != 1) return false;
    const plb_node *pool = plb_maker(g, q->x);
    if (q->x != pool->out || !match_dequantise(s, pool->in[0], &x) || !known(g, &x, &from)) {
        return false;
    }
    if (!plb_pattern_number(g, q->scale, &to) || from != to || x.zero != q->zero || from <= 0) {
        return false;
    }
    if (type_of(g, x.q).dtype != q->dtype) return false;
    plb_value y = plb_max_pool(rw->to, plb_cast(rw->to, rw->map[x.q], PLB_F32), pool->attrs);
    rw->map[g->nodes[index].out] = plb_cast(rw->to, y, q->dtype);
    return true;
}

// ---------------------------------------------------------------------------- the pass
// A quantisation, or a product that nothing quantises: `index` is its last node.
static bool replace(search *s, int index) {
    plb_rewrite *rw = &s->rw;
    const plb_graph *g = rw->from;
    const plb_node *node = &g->nodes[index];
    quantised q;
    product p;
    double low = -INFINITY, high = INFINITY, scale = 1;
    plb_int8_attrs attrs = {0};
    if (node->n_out != 1 || g->values[node->out].count >= 0) return false;
    if (match_quantise(s, node, &q)) {
        if (replace_maximum(s, index, &q)) return true;
        q.x = skip_activation(rw, q.x, &low, &high);
        if (replace_sum(s, index, &q, low, high)) return true;
        bool bounded = low > -INFINITY || high < INFINITY;
        if (bounded && !plb_pattern_number(g, q.scale, &scale)) return false;
    } else if (node->op != PLB_OP_conv && node->op != PLB_OP_matmul) {
        return false;
    } else {
        q = (quantised){.x = node->out, .scale = PLB_NONE, .dtype = PLB_F32};
    }
    bool wide = type_of(g, q.x).dtype == PLB_F64;
    if (wide && q.scale == PLB_NONE) return false;
    if (!(wide ? match_scaled(s, q.x, &p) : match_product(s, q.x, &p))) return false;
    if (p.bias != PLB_NONE && !is_fixed(s, p.bias)) return false;
    bound(&q, scale, low, high, &attrs);
    if (attrs.low > attrs.high) return false;
    emit(rw, index, &p, &q, attrs);
    return true;
}

plb_status plb_pass_int8(plb_graph **graph, const plb_pass_context *context) {
    search s = {0};
    int found = 0;
    if (!context->backend->has_int8 || !context->backend->has_int8()) return PLB_OK;
    PLB_TRY(plb_rewrite_begin(*graph, &s.rw));
    s.fixed = plb_arena_alloc(s.rw.to->arena, (size_t)(*graph)->n_nodes + 1);
    if (!s.fixed) {
        plb_rewrite_abort(&s.rw);
        return plb_fail(PLB_ENOMEM, "out of memory for a pass");
    }
    find_fixed(&s);
    for (int i = 0; i < (*graph)->n_nodes && !s.rw.to->status; i++) {
        plb_scope_enter(s.rw.to, (*graph)->nodes[i].scope);
        bool done = replace(&s, i) && plb_rewrite_keeps_shape(&s.rw, (*graph)->nodes[i].out);
        plb_scope_pop(s.rw.to);
        if (!done) plb_rewrite_copy(&s.rw, i);
        found += done;
    }
    PLB_TRY(plb_pass_commit(&s.rw, graph));
    if (found) {
        plb_strbuf_printf(context->report,
                          "int8: %d quantised convolutions, products, sums and poolings\n", found);
        return plb_pass_clean(graph, context);
    }
    return PLB_OK;
}
