// SPDX-License-Identifier: Apache-2.0
// The pointwise ops of two operands: one row of the list OPS each. Their values are in
// pointwise.c. Gradients are composed of other ops, at the shape of the result, and then summed
// over the axes that broadcasting widened.
#include "base/core/status.h"
#include "engine/graph/graph.h"
#include "engine/ops/pointwise.h"

// What gradients are made from: y = op(a, b), dy.
typedef struct binary {
    plb_graph *graph;
    plb_value a, b, y, dy;
} binary;

// A pair of functions for da and db; either may give PLB_NONE. Short names for the formulas:
static plb_value mul(const binary *u, plb_value a, plb_value b) {
    return plb_mul(u->graph, a, b);
}

static plb_value number(const binary *u, double value) {
    return plb_scalar(u->graph, plb_value_type(u->graph, u->dy).dtype, value);
}

static plb_value zero_where(const binary *u, plb_value condition, plb_value other) {
    return plb_where(u->graph, condition, number(u, 0), other);
}

static plb_value pass(const binary *u) {
    return u->dy;
}

static plb_value negated(const binary *u) {
    return plb_neg(u->graph, u->dy);
}

static plb_value mul_da(const binary *u) {
    return mul(u, u->dy, u->b);
}

static plb_value mul_db(const binary *u) {
    return mul(u, u->dy, u->a);
}

static plb_value div_da(const binary *u) {
    return plb_div(u->graph, u->dy, u->b);
}

static plb_value div_db(const binary *u) {
    plb_value slope = plb_div(u->graph, u->y, u->b);
    return plb_neg(u->graph, mul(u, u->dy, slope));
}

// b a^(b-1), and 0 where b = 0 though a^-1 may be infinite.
static plb_value pow_da(const binary *u) {
    plb_graph *g = u->graph;
    plb_value flat = plb_eq(g, u->b, number(u, 0));
    plb_value exponent = plb_affine(g, plb_where(g, flat, number(u, 1), u->b), 1, -1);
    plb_value slope = mul(u, u->b, plb_pow(g, u->a, exponent));
    return zero_where(u, flat, mul(u, u->dy, slope));
}

// y log a, and 0 where a = 0 with b >= 0.
static plb_value pow_db(const binary *u) {
    plb_graph *g = u->graph;
    plb_value at_0 = plb_eq(g, u->a, number(u, 0));
    plb_value flat = plb_and(g, at_0, plb_ge(g, u->b, number(u, 0)));
    plb_value log = plb_log(g, plb_where(g, flat, number(u, 1), u->a));
    return zero_where(u, flat, mul(u, u->dy, mul(u, u->y, log)));
}

static plb_value remainder_db(const binary *u) { // y = a - b floor(a / b)
    plb_graph *g = u->graph;
    return plb_neg(g, mul(u, u->dy, plb_floor(g, plb_div(g, u->a, u->b))));
}

// All of dy where the operand won, half of it where both did.
static plb_value share(const binary *u, plb_value lost) {
    plb_graph *g = u->graph;
    plb_value half = plb_affine(g, u->dy, 0.5, 0);
    return zero_where(u, lost, plb_where(g, plb_eq(g, u->a, u->b), half, u->dy));
}

static plb_value min_da(const binary *u) {
    return share(u, plb_gt(u->graph, u->a, u->b));
}

static plb_value min_db(const binary *u) {
    return share(u, plb_lt(u->graph, u->a, u->b));
}

static plb_value prelu_da(const binary *u) {
    plb_value positive = plb_gt(u->graph, u->a, number(u, 0));
    return plb_where(u->graph, positive, u->dy, mul(u, u->dy, u->b));
}

static plb_value prelu_db(const binary *u) {
    plb_value positive = plb_gt(u->graph, u->a, number(u, 0));
    return zero_where(u, positive, mul(u, u->dy, u->a));
}

static plb_value relu_grad_da(const binary *u) {
    return plb_relu_grad(u->graph, u->dy, u->b);
}

// ---------------------------------------------------------------------------- the list
enum {
    INTS = 1, // takes integers
    FLAT = 2, // has no gradient
    COMMUTES = 4,
    LOGIC = 8,    // takes bool alone
    BITS = 64,    // takes integers alone
    STEPS = 16,   // the gradient of 16-bit floats is computed in f32
    POSITIVE = 32 // operand a of samples is positive
};

// op, kind, range of b in samples (of integers: b_low_int up to 9), da, db.
#define OPS(X)                                                      \
    X(add, INTS | COMMUTES, -1, 1, -9, pass, pass)                  \
    X(sub, INTS, -1, 1, -9, pass, negated)                          \
    X(mul, INTS | COMMUTES, -1, 1, -9, mul_da, mul_db)              \
    X(div, INTS | STEPS, 0.5, 2, 1, div_da, div_db)                 \
    X(pow, INTS | STEPS | POSITIVE, -2, 2, 0, pow_da, pow_db)       \
    X(remainder, INTS | STEPS, 0.25, 0.5, 1, pass, remainder_db)    \
    X(min, INTS | COMMUTES, -1, 1, -9, min_da, min_db)              \
    X(max, INTS | COMMUTES, -1, 1, -9, min_db, min_da)              \
    X(prelu, 0, -1, 1, 0, prelu_da, prelu_db)                       \
    X(relu_grad, 0, -1, 1, 0, relu_grad_da, NULL)                   \
    X(eq, INTS | FLAT | COMMUTES, -1, 1, -9, NULL, NULL)            \
    X(ne, INTS | FLAT | COMMUTES, -1, 1, -9, NULL, NULL)            \
    X(lt, INTS | FLAT, -1, 1, -9, NULL, NULL)                       \
    X(le, INTS | FLAT, -1, 1, -9, NULL, NULL)                       \
    X(gt, INTS | FLAT, -1, 1, -9, NULL, NULL)                       \
    X(ge, INTS | FLAT, -1, 1, -9, NULL, NULL)                       \
    X(bit_and, BITS | INTS | FLAT | COMMUTES, 0, 99, 0, NULL, NULL) \
    X(bit_or, BITS | INTS | FLAT | COMMUTES, 0, 99, 0, NULL, NULL)  \
    X(bit_xor, BITS | INTS | FLAT | COMMUTES, 0, 99, 0, NULL, NULL) \
    X(shift_left, BITS | FLAT, 0, 5, 0, NULL, NULL)                 \
    X(shift_right, BITS | FLAT, 0, 5, 0, NULL, NULL)                \
    X(and, LOGIC | FLAT | COMMUTES, 0, 1, 0, NULL, NULL)            \
    X(or, LOGIC | FLAT | COMMUTES, 0, 1, 0, NULL, NULL)             \
    X(xor, LOGIC | FLAT | COMMUTES, 0, 1, 0, NULL, NULL)

typedef struct rule {
    int kind;
    plb_value (*da)(const binary *u);
    plb_value (*db)(const binary *u);
} rule;

static const rule rules[PLB_OP_COUNT] = {
#define ROW(op, kind, low, high, low_int, da, db) [PLB_OP_##op] = {kind, da, db},
    OPS(ROW)
#undef ROW
};

static void grad_binary(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                        plb_value *din) {
    const rule *r = &rules[graph->nodes[node].op];
    binary u = {.graph = graph,
                .a = plb_node_in(graph, node, 0),
                .b = plb_node_in(graph, node, 1),
                .y = plb_node_out(graph, node, 0),
                .dy = dout[0]};
    plb_type types[2] = {plb_value_type(graph, u.a), plb_value_type(graph, u.b)};
    plb_dtype dtype = types[0].dtype;
    if ((r->kind & STEPS) && plb_dtype_size(dtype) == 2) {
        u.a = plb_cast(graph, u.a, PLB_F32), u.b = plb_cast(graph, u.b, PLB_F32);
        u.y = plb_cast(graph, u.y, PLB_F32), u.dy = plb_cast(graph, u.dy, PLB_F32);
    }
    for (int k = 0; k < 2; k++) {
        plb_value (*gradient)(const binary *) = k ? r->db : r->da;
        if (!needed[k] || !gradient) continue;
        plb_value whole = plb_sum_to(graph, gradient(&u), &types[k].shape);
        din[k] = plb_cast(graph, whole, dtype);
    }
}

// Samples are the same for all: floats where the op takes them, then integers.
#define PAIR(label, alow, ahigh, blow, bhigh, ...)                                    \
    {                                                                                 \
        .name = label, .in = {__VA_ARGS__}, .n_in = 2, .low = {alow, blow}, .high = { \
            ahigh,                                                                    \
            bhigh                                                                     \
        }                                                                             \
    }
#define A_LOW(kind)  ((kind)&POSITIVE ? 0.25 : (kind) & (LOGIC | BITS) ? 0 : -1)
#define A_HIGH(kind) ((kind)&POSITIVE ? 2 : (kind)&BITS ? 99 : 1)
#define REAL(kind)   ((kind)&LOGIC ? PLB_BOOL : (kind)&BITS ? PLB_I32 : PLB_F32)
#define PAIR_OF(label, kind, low, high, ...) \
    PAIR(label, A_LOW(kind), A_HIGH(kind), low, high, __VA_ARGS__)

#define DEFINE(op, kind, low_, high_, low_int, da, db)                                       \
    static plb_status infer_##op(plb_signature *s) {                                         \
        return plb_pointwise_infer(PLB_OP_##op, s);                                          \
    }                                                                                        \
    static plb_status ref_##op(const plb_call *call) {                                       \
        return plb_pointwise_ref(PLB_OP_##op, call);                                         \
    }                                                                                        \
    static const plb_sample samples_##op[] = {                                               \
        PAIR_OF("equal shapes", kind, low_, high_, PLB_TYPE_OF(REAL(kind), 3, 7),            \
                PLB_TYPE_OF(REAL(kind), 3, 7)),                                              \
        PAIR_OF("channels", kind, low_, high_, PLB_TYPE_OF(REAL(kind), 2, 3, 3, 3),          \
                PLB_TYPE_OF(REAL(kind), 3, 1, 1)),                                           \
        PAIR_OF("both widen", kind, low_, high_, PLB_TYPE_OF(REAL(kind), 5, 1, 3),           \
                PLB_TYPE_OF(REAL(kind), 4, 1)),                                              \
        PAIR_OF("scalar right", kind, low_, high_, PLB_TYPE_OF(REAL(kind), 11),              \
                {.dtype = REAL(kind)}),                                                      \
        PAIR_OF("scalar left", kind, low_, high_, {.dtype = REAL(kind)},                     \
                PLB_TYPE_OF(REAL(kind), 5)),                                                 \
        PAIR_OF("scalars", kind, low_, high_, {.dtype = REAL(kind)}, {.dtype = REAL(kind)}), \
        PAIR_OF("empty", kind, low_, high_, PLB_TYPE_OF(REAL(kind), 2, 0),                   \
                PLB_TYPE_OF(REAL(kind), 2, 1)),                                              \
        PAIR("i32", -9, 9, low_int, 9, PLB_TYPE_OF(PLB_I32, 3, 5), PLB_TYPE_OF(PLB_I32, 5)), \
        PAIR("i8", -128, 127, low_int, 9, PLB_TYPE_OF(PLB_I8, 17), PLB_TYPE_OF(PLB_I8, 17)), \
        PAIR("u8", 0, 255, (low_int) < 0 ? 0 : (low_int), 255, PLB_TYPE_OF(PLB_U8, 17),      \
             PLB_TYPE_OF(PLB_U8, 17)),                                                       \
    };                                                                                       \
    const plb_op plb_op_##op = {                                                             \
        .name = #op,                                                                         \
        .flags = PLB_OP_POINTWISE | ((kind)&FLAT ? PLB_OP_NO_GRAD : 0) |                     \
                 ((kind)&COMMUTES ? PLB_OP_COMMUTES : 0),                                    \
        .min_in = 2,                                                                         \
        .max_in = 2,                                                                         \
        .infer = infer_##op,                                                                 \
        .grad = (kind)&FLAT ? NULL : grad_binary,                                            \
        .ref = ref_##op,                                                                     \
        .samples = samples_##op,                                                             \
        .n_samples = (kind)&INTS ? 10 : 7,                                                   \
    };
OPS(DEFINE)

#define BUILDER(op, function)                                              \
    plb_value function(plb_graph *graph, plb_value a, plb_value b) {       \
        return plb_emit(graph, PLB_OP_##op, (plb_value[]){a, b}, 2, NULL); \
    }
BUILDER(add, plb_add)
BUILDER(sub, plb_sub)
BUILDER(mul, plb_mul)
BUILDER(div, plb_div)
BUILDER(pow, plb_pow)
BUILDER(remainder, plb_remainder)
BUILDER(min, plb_min)
BUILDER(max, plb_max)
BUILDER(relu_grad, plb_relu_grad)
BUILDER(bit_and, plb_bit_and)
BUILDER(bit_or, plb_bit_or)
BUILDER(bit_xor, plb_bit_xor)
BUILDER(shift_left, plb_shift_left)
BUILDER(shift_right, plb_shift_right)
BUILDER(eq, plb_eq)
BUILDER(ne, plb_ne)
BUILDER(lt, plb_lt)
BUILDER(le, plb_le)
BUILDER(gt, plb_gt)
BUILDER(ge, plb_ge)
BUILDER(and, plb_and)
BUILDER(or, plb_or)
BUILDER(xor, plb_xor)

// slope[C] stands along axis 1 of x: as [C, 1, …] the op broadcasts it.
plb_value plb_prelu(plb_graph *graph, plb_value x, plb_value slope) {
    plb_shape shape = plb_value_shape(graph, x), wide = plb_value_shape(graph, slope);
    if (wide.rank == 1 && wide.dim[0] != 1 && shape.rank > 2) {
        wide.rank = shape.rank - 1;
        for (int i = 1; i < wide.rank; i++) wide.dim[i] = 1;
        slope = plb_reshape(graph, slope, &wide);
    }
    return plb_emit(graph, PLB_OP_prelu, (plb_value[]){x, slope}, 2, NULL);
}
