// SPDX-License-Identifier: Apache-2.0
// The scalar definitions of all pointwise ops, as two lists of expressions in the operands a, b
// and the attributes alpha, beta.
#include "engine/ops/pointwise.h"

#include <math.h>

#include "base/core/status.h"
#include "engine/tensor/odd.h"

// ---------------------------------------------------------------------------- floats
static double sigmoid(double x) {
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static double softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double clamp(double x, double low, double high) { // NaN stays
    double y = x < low ? low : x;
    return y > high ? high : y;
}

static double remainder_of(double a, double b) { // the sign of b
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static double least(double a, double b) { // a NaN wins
    return isnan(a) || a < b ? a : b;
}

static double greatest(double a, double b) {
    return isnan(a) || a > b ? a : b;
}

#define SQRT_HALF      0.70710678118654752440
#define SQRT_2_OVER_PI 0.79788456080286535588

#define FLOATS(X)                                                                   \
    X(neg, -a)                                                                      \
    X(abs, fabs(a))                                                                 \
    X(sign, (double)((a > 0) - (a < 0)))                                            \
    X(exp, exp(a))                                                                  \
    X(log, log(a))                                                                  \
    X(log1p, log1p(a))                                                              \
    X(expm1, expm1(a))                                                              \
    X(sqrt, sqrt(a))                                                                \
    X(rsqrt, 1 / sqrt(a))                                                           \
    X(reciprocal, 1 / a)                                                            \
    X(sin, sin(a))                                                                  \
    X(cos, cos(a))                                                                  \
    X(tanh, tanh(a))                                                                \
    X(tan, tan(a))                                                                  \
    X(sinh, sinh(a))                                                                \
    X(cosh, cosh(a))                                                                \
    X(asin, asin(a))                                                                \
    X(acos, acos(a))                                                                \
    X(atan, atan(a))                                                                \
    X(asinh, asinh(a))                                                              \
    X(acosh, acosh(a))                                                              \
    X(atanh, atanh(a))                                                              \
    X(sigmoid, sigmoid(a))                                                          \
    X(relu, a <= 0 ? 0 : a)                                                         \
    X(leaky_relu, a > 0 ? a : alpha * a)                                            \
    X(elu, a > 0 ? a : alpha * expm1(a))                                            \
    X(selu, PLB_SELU_SCALE *(a > 0 ? a : PLB_SELU_ALPHA * expm1(a)))                \
    X(celu, a > 0 ? a : alpha * expm1(a / alpha))                                   \
    X(gelu, 0.5 * a * (1 + erf(a * SQRT_HALF)))                                     \
    X(gelu_tanh, 0.5 * a * (1 + tanh(SQRT_2_OVER_PI * (a + 0.044715 * a * a * a)))) \
    X(silu, a *sigmoid(a))                                                          \
    X(mish, a *tanh(softplus(a)))                                                   \
    X(hardswish, a *clamp(a + 3, 0, 6) / 6)                                         \
    X(hardsigmoid, clamp(a + 3, 0, 6) / 6)                                          \
    X(clamp, clamp(a, alpha, beta))                                                 \
    X(softplus, a *alpha > beta ? a : softplus(a * alpha) / alpha)                  \
    X(softsign, a / (1 + fabs(a)))                                                  \
    X(erf, erf(a))                                                                  \
    X(floor, floor(a))                                                              \
    X(ceil, ceil(a))                                                                \
    X(round, nearbyint(a))                                                          \
    X(trunc, trunc(a))                                                              \
    X(isnan, isnan(a) ? 1 : 0)                                                      \
    X(affine, alpha *a + beta)                                                      \
    X(add, a + b)                                                                   \
    X(sub, a - b)                                                                   \
    X(mul, a *b)                                                                    \
    X(div, a / b)                                                                   \
    X(pow, pow(a, b))                                                               \
    X(remainder, remainder_of(a, b))                                                \
    X(min, least(a, b))                                                             \
    X(max, greatest(a, b))                                                          \
    X(prelu, a > 0 ? a : b * a)                                                     \
    X(relu_grad, b > 0 ? a : 0)                                                     \
    X(eq, a == b)                                                                   \
    X(ne, a != b)                                                                   \
    X(lt, a < b)                                                                    \
    X(le, a <= b)                                                                   \
    X(gt, a > b)                                                                    \
    X(ge, a >= b)

#define DEFINE(op, expression)                                              \
    static double f64_##op(double a, double b, double alpha, double beta) { \
        (void)a, (void)b, (void)alpha, (void)beta;                          \
        return expression;                                                  \
    }
FLOATS(DEFINE)
#undef DEFINE

typedef double (*f64_function)(double a, double b, double alpha, double beta);
static const f64_function f64_functions[PLB_OP_COUNT] = {
#define ROW(op, expression) [PLB_OP_##op] = f64_##op,
    FLOATS(ROW)
#undef ROW
};

double plb_pointwise_f64(plb_op_id op, const double in[3], double alpha, double beta) {
    return f64_functions[op](in[0], in[1], alpha, beta);
}

// ---------------------------------------------------------------------------- integers
// Sums and products are those of unsigned numbers: the same bits, and no overflow in C's sense.
typedef uint64_t u64;

static bool less(int64_t a, int64_t b, bool wide) { // wide: u64
    return wide ? (u64)a < (u64)b : a < b;
}

static int64_t quotient(int64_t a, int64_t b, bool wide) {
    if (b == 0) return 0;
    if (wide) return (int64_t)((u64)a / (u64)b);
    return b == -1 ? (int64_t)(0 - (u64)a) : a / b;
}

static int64_t modulo(int64_t a, int64_t b, bool wide) {
    if (b == 0) return 0;
    if (wide) return (int64_t)((u64)a % (u64)b);
    int64_t r = b == -1 ? 0 : a % b;
    return r && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t power(int64_t a, int64_t b, bool wide) {
    if (b < 0 && !wide) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    u64 result = 1, base = (u64)a;
    for (u64 rest = (u64)b; rest; rest >>= 1, base *= base) {
        if (rest & 1) result *= base;
    }
    return (int64_t)result;
}

static int64_t whole(double value, bool wide) { // saturates
    if (!wide) return plb_load_i64(&value, PLB_F64, 0);
    u64 bits;
    plb_store_f64(&bits, PLB_U64, 0, value);
    return (int64_t)bits;
}

static int64_t clamp_i64(int64_t a, int64_t low, int64_t high, bool wide) {
    int64_t y = less(a, low, wide) ? low : a;
    return less(high, y, wide) ? high : y;
}

static int64_t shift_left(int64_t a, int64_t b) {
    return (u64)b > 63 ? 0 : (int64_t)((u64)a << b);
}

static int64_t shift_right(int64_t a, int64_t b, bool wide) {
    if (wide) return (u64)b > 63 ? 0 : (int64_t)((u64)a >> b);
    return a >> ((u64)b > 63 ? 63 : b);
}

#define INTEGERS(X)                                                                   \
    X(neg, (int64_t)(0 - (u64)a))                                                     \
    X(abs, less(a, 0, wide) ? (int64_t)(0 - (u64)a) : a)                              \
    X(sign, less(0, a, wide) - less(a, 0, wide))                                      \
    X(relu, less(a, 0, wide) ? 0 : a)                                                 \
    X(clamp, clamp_i64(a, whole(alpha, wide), whole(beta, wide), wide))               \
    X(floor, a)                                                                       \
    X(ceil, a)                                                                        \
    X(round, a)                                                                       \
    X(trunc, a)                                                                       \
    X(not, !a)                                                                        \
    X(affine, (int64_t)((u64)whole(alpha, false) * (u64)a + (u64)whole(beta, false))) \
    X(add, (int64_t)((u64)a + (u64)b))                                                \
    X(sub, (int64_t)((u64)a - (u64)b))                                                \
    X(mul, (int64_t)((u64)a * (u64)b))                                                \
    X(div, quotient(a, b, wide))                                                      \
    X(pow, power(a, b, wide))                                                         \
    X(remainder, modulo(a, b, wide))                                                  \
    X(min, less(b, a, wide) ? b : a)                                                  \
    X(max, less(a, b, wide) ? b : a)                                                  \
    X(eq, a == b)                                                                     \
    X(ne, a != b)                                                                     \
    X(lt, less(a, b, wide))                                                           \
    X(le, !less(b, a, wide))                                                          \
    X(gt, less(b, a, wide))                                                           \
    X(ge, !less(a, b, wide))                                                          \
    X(bit_and, (int64_t)((u64)a & (u64)b))                                            \
    X(bit_or, (int64_t)((u64)a | (u64)b))                                             \
    X(bit_xor, (int64_t)((u64)a ^ (u64)b))                                            \
    X(shift_left, shift_left(a, b))                                                   \
    X(shift_right, shift_right(a, b, wide))                                           \
    X(and, a &&b)                                                                     \
    X(or, a || b)                                                                     \
    X(xor, !a != !b)

#define DEFINE(op, expression)                                                            \
    static int64_t i64_##op(int64_t a, int64_t b, double alpha, double beta, bool wide) { \
        (void)a, (void)b, (void)alpha, (void)beta, (void)wide;                            \
        return expression;                                                                \
    }
INTEGERS(DEFINE)
#undef DEFINE

typedef int64_t (*i64_function)(int64_t a, int64_t b, double alpha, double beta, bool wide);
static const i64_function i64_functions[PLB_OP_COUNT] = {
#define ROW(op, expression) [PLB_OP_##op] = i64_##op,
    INTEGERS(ROW)
#undef ROW
};

int64_t plb_pointwise_i64(plb_op_id op, const int64_t in[3], double alpha, double beta,
                          plb_dtype dtype) {
    return plb_wrap_i64(i64_functions[op](in[0], in[1], alpha, beta, dtype == PLB_U64), dtype);
}

int64_t plb_wrap_i64(int64_t value, plb_dtype dtype) {
    switch (dtype) {
    case PLB_I8: return (int8_t)value;
    case PLB_I16: return (int16_t)value;
    case PLB_I32: return (int32_t)value;
    case PLB_U8: return (uint8_t)value;
    case PLB_U16: return (uint16_t)value;
    case PLB_U32: return (uint32_t)value;
    case PLB_BOOL: return value != 0;
    default: return value;
    }
}

// ---------------------------------------------------------------------------- dtypes
enum { FLOAT = 1, INTEGER = 2, LOGIC = 4, ALL = 7 };

static int class_of(plb_dtype dtype) {
    return plb_dtype_is_float(dtype) ? FLOAT : dtype == PLB_BOOL ? LOGIC : INTEGER;
}

static bool is_comparison(plb_op_id op) {
    return op >= PLB_OP_eq && op <= PLB_OP_ge;
}

static bool is_logic(plb_op_id op) {
    return op == PLB_OP_not || (op >= PLB_OP_and && op <= PLB_OP_xor);
}

int plb_pointwise_arity(plb_op_id op) {
    if (op == PLB_OP_where) return 3;
    if (op >= PLB_OP_neg && op <= PLB_OP_cast) return 1;
    return op >= PLB_OP_add && op <= PLB_OP_xor ? 2 : 0;
}

static int accepted(plb_op_id op) {
    if (op == PLB_OP_cast || op == PLB_OP_where || is_comparison(op)) return ALL;
    if (is_logic(op)) return LOGIC;
    return (f64_functions[op] ? FLOAT : 0) | (i64_functions[op] ? INTEGER : 0);
}

static plb_status check_operands(plb_op_id op, const plb_dtype *in) {
    const char *name = plb_op_of(op)->name;
    int first = 0, n = plb_pointwise_arity(op);
    if (op == PLB_OP_where) {
        if (in[0] != PLB_BOOL) {
            return plb_fail(PLB_EINVAL, "where: expected a bool condition, found %s",
                            plb_dtype_name(in[0]));
        }
        first = 1;
    }
    if (n - first == 2 && in[first] != in[first + 1]) {
        return plb_fail(PLB_EINVAL, "%s: expected operands of one dtype, found %s and %s", name,
                        plb_dtype_name(in[first]), plb_dtype_name(in[first + 1]));
    }
    if (class_of(in[first]) & accepted(op)) return PLB_OK;
    static const char *const words[] = {[FLOAT] = "floats",
                                        [INTEGER] = "integers",
                                        [FLOAT | INTEGER] = "numbers",
                                        [LOGIC] = "bool"};
    return plb_fail(PLB_EINVAL, "%s: expected %s, found %s", name, words[accepted(op)],
                    plb_dtype_name(in[first]));
}

plb_status plb_pointwise_dtype(plb_op_id op, const plb_dtype *in, double alpha, double beta,
                               plb_dtype target, plb_dtype *out) {
    PLB_TRY(check_operands(op, in));
    if (op == PLB_OP_affine && class_of(in[0]) == INTEGER &&
        (alpha != trunc(alpha) || beta != trunc(beta))) {
        return plb_fail(PLB_EINVAL, "affine: expected whole numbers for %s, found %g and %g",
                        plb_dtype_name(in[0]), alpha, beta);
    }
    *out = in[0];
    if (op == PLB_OP_where) *out = in[1];
    if (op == PLB_OP_cast) *out = target;
    if (op == PLB_OP_isnan || is_comparison(op)) *out = PLB_BOOL;
    if (plb_dtype_size(*out)) return PLB_OK;
    return plb_fail(PLB_EUNSUPPORTED, "%s: dtype %s is reserved", plb_op_of(op)->name,
                    plb_dtype_name(*out));
}

// ---------------------------------------------------------------------------- elements
plb_number plb_number_load(const void *data, plb_dtype dtype, int64_t offset) {
    plb_number value;
    if (plb_dtype_is_float(dtype)) {
        value.f = plb_load_f64(data, dtype, offset);
    } else {
        value.i = plb_load_i64(data, dtype, offset);
    }
    return value;
}

void plb_number_store(void *data, plb_dtype dtype, int64_t offset, plb_number value) {
    if (plb_dtype_is_float(dtype)) {
        plb_store_f64(data, dtype, offset, value.f);
    } else { // as i64, u64 keeps its bits
        plb_store_i64(data, dtype == PLB_U64 ? PLB_I64 : dtype, offset, value.i);
    }
}

plb_number plb_number_cast(plb_number value, plb_dtype from, plb_dtype to) {
    bool was_float = plb_dtype_is_float(from), is_float = plb_dtype_is_float(to);
    if (was_float == is_float && !was_float) return (plb_number){.i = plb_wrap_i64(value.i, to)};
    if (was_float == is_float) return value;
    if (is_float && to == PLB_F64) {
        return (plb_number){.f = from == PLB_U64 ? (double)(u64)value.i : (double)value.i};
    }
    if (is_float) { // the narrower one's rounding, when it is stored, is to be the only one
        return (plb_number){.f = from == PLB_U64 ? plb_odd_f64_of_u64((u64)value.i)
                                                 : plb_odd_f64_of_i64(value.i)};
    }
    uint64_t place = 0;
    plb_store_f64(&place, to, 0, value.f);
    return plb_number_load(&place, to, 0);
}

plb_number plb_pointwise_number(plb_op_id op, const plb_number *in, const plb_dtype *in_dtype,
                                double alpha, double beta, plb_dtype out_dtype) {
    if (op == PLB_OP_cast) return plb_number_cast(in[0], in_dtype[0], out_dtype);
    if (op == PLB_OP_where) return in[0].i ? in[1] : in[2];
    bool two = plb_pointwise_arity(op) == 2;
    if (!plb_dtype_is_float(in_dtype[0])) {
        int64_t i[3] = {in[0].i, two ? in[1].i : 0};
        plb_dtype dtype = in_dtype[0];
        return (plb_number){.i = plb_pointwise_i64(op, i, alpha, beta, dtype)};
    }
    double f[3] = {in[0].f, two ? in[1].f : 0};
    double result = plb_pointwise_f64(op, f, alpha, beta);
    if (out_dtype == PLB_BOOL) return (plb_number){.i = result != 0};
    return (plb_number){.f = result};
}

void plb_index_of(const plb_shape *shape, int64_t i, int64_t *index) {
    for (int axis = shape->rank - 1; axis >= 0; axis--) {
        index[axis] = i % shape->dim[axis];
        i /= shape->dim[axis];
    }
}

int64_t plb_offset_broadcast(const plb_tensor *t, const plb_shape *shape, const int64_t *index) {
    int64_t own[PLB_MAX_RANK] = {0};
    int lead = shape->rank - t->shape.rank;
    for (int i = 0; i < t->shape.rank; i++) {
        own[i] = t->shape.dim[i] == 1 ? 0 : index[lead + i];
    }
    return plb_tensor_offset(t, own);
}

// ---------------------------------------------------------------------------- tables' parts
static plb_pointwise_attrs attrs_of(plb_op_id op, const void *attrs, plb_dtype *target) {
    *target = PLB_DTYPE_COUNT;
    if (op == PLB_OP_cast) *target = (plb_dtype)((const plb_cast_attrs *)attrs)->dtype;
    if (op == PLB_OP_cast || !plb_op_of(op)->attrs_bytes) return (plb_pointwise_attrs){0};
    return *(const plb_pointwise_attrs *)attrs;
}

plb_status plb_pointwise_infer(plb_op_id op, plb_signature *s) {
    plb_dtype target, in[PLB_POINTWISE_MAX_IN] = {0};
    plb_pointwise_attrs attrs = attrs_of(op, s->attrs, &target);
    plb_shape shape = s->in[0].shape;
    for (int k = 0; k < s->n_in; k++) {
        in[k] = s->in[k].dtype;
        plb_status status = plb_shape_broadcast(&shape, &s->in[k].shape, &shape);
        if (status) return plb_fail_context(status, "%s", plb_op_of(op)->name);
    }
    s->out[0].shape = shape;
    s->n_out = 1;
    return plb_pointwise_dtype(op, in, attrs.alpha, attrs.beta, target, &s->out[0].dtype);
}

plb_status plb_pointwise_ref(plb_op_id op, const plb_call *call) {
    plb_dtype target, dtype[PLB_POINTWISE_MAX_IN] = {0};
    plb_pointwise_attrs attrs = attrs_of(op, call->attrs, &target);
    plb_tensor *out = &call->out[0];
    for (int k = 0; k < call->n_in; k++) dtype[k] = call->in[k].dtype;
    int64_t count = plb_shape_count(&out->shape), index[PLB_MAX_RANK];
    for (int64_t i = 0; i < count; i++) {
        plb_number in[PLB_POINTWISE_MAX_IN] = {0};
        plb_index_of(&out->shape, i, index);
        for (int k = 0; k < call->n_in; k++) {
            int64_t at = plb_offset_broadcast(&call->in[k], &out->shape, index);
            in[k] = plb_number_load(call->in[k].data, dtype[k], at);
        }
        plb_number y = plb_pointwise_number(op, in, dtype, attrs.alpha, attrs.beta, out->dtype);
        plb_number_store(out->data, out->dtype, plb_tensor_offset(out, index), y);
    }
    return PLB_OK;
}

static const char *comma(const plb_strbuf *text) {
    return text->length && text->text[text->length - 1] != '{' ? "," : "";
}

void plb_describe_f64(plb_strbuf *text, const char *name, double value) {
    plb_strbuf_printf(text, "%s\"%s\":", comma(text), name);
    if (isfinite(value)) {
        plb_strbuf_printf(text, "%.17g", value);
    } else {
        plb_strbuf_printf(text, isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity");
    }
}

void plb_describe_i64(plb_strbuf *text, const char *name, int64_t value) {
    plb_strbuf_printf(text, "%s\"%s\":%lld", comma(text), name, (long long)value);
}

void plb_pointwise_describe(const void *attrs, plb_strbuf *text) {
    const plb_pointwise_attrs *a = attrs;
    plb_describe_f64(text, "alpha", a->alpha);
    plb_describe_f64(text, "beta", a->beta);
}
