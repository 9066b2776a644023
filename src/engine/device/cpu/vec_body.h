// SPDX-License-Identifier: Apache-2.0
// The loops of a plb_vec, included once an instruction set by a file that defines PLB_VEC_TABLE.
#ifndef PLB_ENGINE_DEVICE_CPU_VEC_BODY_H
#define PLB_ENGINE_DEVICE_CPU_VEC_BODY_H

#include "engine/device/cpu/vec.h"
#include "engine/device/cpu/vec_math.h"
#include "engine/ops/pointwise.h"

PLB_INLINE float clamp_f32(float x, float low, float high) { // NaN stays
    float y = x < low ? low : x;
    return y > high ? high : y;
}

PLB_INLINE float sign_f32(float x) {
    return (x > 0 ? 1.0f : 0.0f) - (x < 0 ? 1.0f : 0.0f);
}

PLB_INLINE float least(float a, float b) { // a NaN wins
    return a < b || a != a ? a : b;
}

PLB_INLINE float greatest(float a, float b) {
    return a > b || a != a ? a : b;
}

static float remainder_f32(float a, float b) { // the sign of b
    float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

#define PLB_TRUTH(condition) ((condition) ? 1.0f : 0.0f)

// Operands a, b, c and attributes alpha, beta; pointwise.c has the definitions.
#define PLB_VEC_OPS(X)                                                                 \
    X(neg, -a)                                                                         \
    X(abs, fabsf(a))                                                                   \
    X(sign, sign_f32(a))                                                               \
    X(exp, exp_f32(a))                                                                 \
    X(log, log_f32(a))                                                                 \
    X(log1p, log1p_f32(a))                                                             \
    X(expm1, expm1_f32(a))                                                             \
    X(sqrt, sqrtf(a))                                                                  \
    X(rsqrt, 1.0f / sqrtf(a))                                                          \
    X(reciprocal, 1.0f / a)                                                            \
    X(tanh, tanh_f32(a))                                                               \
    X(sigmoid, sigmoid_f32(a))                                                         \
    X(relu, a <= 0 ? 0.0f : a)                                                         \
    X(leaky_relu, a > 0 ? a : alpha * a)                                               \
    X(elu, a > 0 ? a : alpha * expm1_f32(a))                                           \
    X(selu, (float)PLB_SELU_SCALE *(a > 0 ? a : (float)PLB_SELU_ALPHA * expm1_f32(a))) \
    X(celu, a > 0 ? a : alpha * expm1_f32(a / alpha))                                  \
    X(gelu, gelu_f32(a))                                                               \
    X(gelu_tanh, gelu_tanh_f32(a))                                                     \
    X(silu, a *sigmoid_f32(a))                                                         \
    X(mish, mish_f32(a))                                                               \
    X(hardswish, a *clamp_f32(a + 3.0f, 0.0f, 6.0f) / 6.0f)                            \
    X(hardsigmoid, clamp_f32(a + 3.0f, 0.0f, 6.0f) / 6.0f)                             \
    X(clamp, clamp_f32(a, alpha, beta))                                                \
    X(softplus, a *alpha > beta ? a : softplus_f32(a * alpha) / alpha)                 \
    X(softsign, a / (1.0f + fabsf(a)))                                                 \
    X(erf, erf_f32(a))                                                                 \
    X(floor, floorf(a))                                                                \
    X(ceil, ceilf(a))                                                                  \
    X(round, rintf(a))                                                                 \
    X(trunc, truncf(a))                                                                \
    X(isnan, PLB_TRUTH(a != a))                                                        \
    X(not, PLB_TRUTH(a == 0))                                                          \
    X(affine, fma_f32(alpha, a, beta))                                                 \
    X(add, a + b)                                                                      \
    X(sub, a - b)                                                                      \
    X(mul, a *b)                                                                       \
    X(div, a / b)                                                                      \
    X(min, least(a, b))                                                                \
    X(max, greatest(a, b))                                                             \
    X(prelu, a > 0 ? a : b * a)                                                        \
    X(relu_grad, b > 0 ? a : 0.0f)                                                     \
    X(eq, PLB_TRUTH(a == b))                                                           \
    X(ne, PLB_TRUTH(a != b))                                                           \
    X(lt, PLB_TRUTH(a < b))                                                            \
    X(le, PLB_TRUTH(a <= b))                                                           \
    X(gt, PLB_TRUTH(a > b))                                                            \
    X(ge, PLB_TRUTH(a >= b))                                                           \
    X(and, PLB_TRUTH(a != 0 && b != 0))                                                \
    X(or, PLB_TRUTH(a != 0 || b != 0))                                                 \
    X(xor, PLB_TRUTH((a != 0) != (b != 0)))                                            \
    X(where, a != 0 ? b : c)

// Operands that an op lacks are read as another copy of a, which the compiler drops.
#define PLB_VEC_DEFINE(op, expression)                          \
    static void op_##op(const plb_vec_args *v) {                \
        const float *pa = v->a, *pb = v->b, *pc = v->c;         \
        const float alpha = v->alpha, beta = v->beta;           \
        float *py = v->y;                                       \
        const int64_t n = v->n;                                 \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {   \
            float a = pa[i], b = pb[i], c = pc[i];              \
            (void)a, (void)b, (void)c, (void)alpha, (void)beta; \
            py[i] = (expression);                               \
        }                                                       \
    }
PLB_VEC_OPS(PLB_VEC_DEFINE)
#undef PLB_VEC_DEFINE

// Whether all are angles that quarter_turns takes.
static bool moderate(const float *a, int64_t n) {
    int far = 0;
#pragma omp simd reduction(| : far)
    for (int64_t i = 0; i < n; i++) far |= !(fabsf(a[i]) < 65536.0f);
    return !far;
}

static void op_sin(const plb_vec_args *v) {
    const bool near = moderate(v->a, v->n);
    if (!near) {
        for (int64_t i = 0; i < v->n; i++) v->y[i] = sinf(v->a[i]);
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < v->n; i++) {
        uint32_t n;
        float r = quarter_turns(v->a[i], &n);
        v->y[i] = sine_at(r, n);
    }
}

static void op_cos(const plb_vec_args *v) {
    const bool near = moderate(v->a, v->n);
    if (!near) {
        for (int64_t i = 0; i < v->n; i++) v->y[i] = cosf(v->a[i]);
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < v->n; i++) {
        uint32_t n;
        float r = quarter_turns(v->a[i], &n);
        v->y[i] = sine_at(r, n + 1);
    }
}

static void op_pow(const plb_vec_args *v) {
    for (int64_t i = 0; i < v->n; i++) {
        v->y[i] = v->b[i] == 2.0f ? v->a[i] * v->a[i] : powf(v->a[i], v->b[i]);
    }
}

static void op_remainder(const plb_vec_args *v) {
    for (int64_t i = 0; i < v->n; i++) v->y[i] = remainder_f32(v->a[i], v->b[i]);
}

// Ops that are too rare to deserve vector code of their own.
#define PLB_VEC_LIBM(X) \
    X(tan, tanf)        \
    X(sinh, sinhf)      \
    X(cosh, coshf)      \
    X(asin, asinf)      \
    X(acos, acosf)      \
    X(atan, atanf)      \
    X(asinh, asinhf)    \
    X(acosh, acoshf)    \
    X(atanh, atanhf)

#define PLB_VEC_DEFINE(op, function)                                    \
    static void op_##op(const plb_vec_args *v) {                        \
        for (int64_t i = 0; i < v->n; i++) v->y[i] = function(v->a[i]); \
    }
PLB_VEC_LIBM(PLB_VEC_DEFINE)
#undef PLB_VEC_DEFINE

// ---------------------------------------------------------------------------- conversions
static void from_f16(float *y, const uint16_t *a, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = plb_f32_of_f16(a[i]);
}

static void from_bf16(float *y, const uint16_t *a, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = plb_f32_of_bf16(a[i]);
}

static void from_bool(float *y, const uint8_t *a, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = PLB_TRUTH(a[i] != 0);
}

static void to_f16(uint16_t *y, const float *a, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = plb_f16_of_f32(a[i]);
}

static void to_bf16(uint16_t *y, const float *a, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = plb_bf16_of_f32(a[i]);
}

static void to_bool(uint8_t *y, const float *a, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = a[i] != 0 ? 1 : 0;
}

static void from_u8(float *y, const uint8_t *a, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = (float)a[i];
}

static void from_i8(float *y, const int8_t *a, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = (float)a[i];
}

static void to_u8(uint8_t *y, const float *a, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = (uint8_t)(int32_t)a[i];
}

static void to_i8(int8_t *y, const float *a, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = (int8_t)(int32_t)a[i];
}

static void add_bytes(const plb_byte_sum *s, int64_t n) {
    const plb_byte_sum c = *s;
    const uint8_t *pa = c.a, *pb = c.b;
    uint8_t *py = c.y;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float a = (float)(pa[i] ^ c.turn_a), b = (float)(pb[i] ^ c.turn_b);
        const float sum = fma_f32(a, c.scale_a, fma_f32(b, c.scale_b, c.shift));
        const float y = clamp_f32(rintf(sum) + c.zero, c.low, c.high);
        py[i] = (uint8_t)((uint8_t)(int32_t)y ^ c.turn_y);
    }
}

static void to_whole(float *y, const float *a, float low, float high, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = a[i] != a[i] ? 0.0f : truncf(clamp_f32(a[i], low, high));
}

// ---------------------------------------------------------------------------- rows
static float exp_shifted(float *y, const float *a, float shift, int64_t n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float e = exp_f32(a[i] - shift);
        y[i] = e;
        sum += e;
    }
    return sum;
}

static void scale(float *y, const float *a, float alpha, float beta, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = fma_f32(alpha, a[i], beta);
}

static void add_scaled(float *y, const float *a, float alpha, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = fma_f32(alpha, a[i], y[i]);
}

static void scale_shifted(float *y, const float *a, const float *b, float shift, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = b[i] * (a[i] - shift);
}

enum { CHAIN = 512 }; // elements that are summed in f32 before the sum goes to f64

#define PLB_VEC_CHAINED(name, parameters, term)                                            \
    static double name parameters {                                                        \
        double total = 0;                                                                  \
        for (int64_t begin = 0; begin < n; begin += CHAIN) {                               \
            const int64_t end = begin + CHAIN < n ? begin + CHAIN : n;                     \
            float sum = 0;                                                                 \
            _Pragma("omp simd reduction(+ : sum)") for (int64_t i = begin; i < end; i++) { \
                sum += (term);                                                             \
            }                                                                              \
            total += (double)sum;                                                          \
        }                                                                                  \
        return total;                                                                      \
    }
PLB_VEC_CHAINED(sum_of, (const float *a, int64_t n), a[i])
PLB_VEC_CHAINED(sum_abs, (const float *a, int64_t n), fabsf(a[i]))
PLB_VEC_CHAINED(dot, (const float *a, const float *b, int64_t n), a[i] * b[i])
#undef PLB_VEC_CHAINED

static double sum_squares(const float *a, double shift, int64_t n) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        double d = (double)a[i] - shift;
        sum += d * d;
    }
    return sum;
}

static double product(const float *a, int64_t n) {
    double y = 1;
#pragma omp simd reduction(* : y)
    for (int64_t i = 0; i < n; i++) y *= (double)a[i];
    return y;
}

// In lanes of its own: OpenMP's reductions begin at the least finite number with some compilers,
// which is above -infinity.
#define PLB_VEC_EXTREME(name, start, beats)                                \
    static float name(const float *a, int64_t n) {                         \
        enum { LANES = 64 };                                               \
        float lane[LANES], y = start;                                      \
        int64_t i = 0;                                                     \
        for (int k = 0; k < LANES; k++) lane[k] = start;                   \
        for (; i + LANES <= n; i += LANES) {                               \
            _Pragma("omp simd") for (int k = 0; k < LANES; k++) lane[k] =  \
                a[i + k] beats lane[k] ? a[i + k] : lane[k];               \
        }                                                                  \
        for (; i < n; i++) y = a[i] beats y ? a[i] : y;                    \
        for (int k = 0; k < LANES; k++) y = lane[k] beats y ? lane[k] : y; \
        return y;                                                          \
    }
PLB_VEC_EXTREME(max_of, -INFINITY, >)
PLB_VEC_EXTREME(min_of, INFINITY, <)
#undef PLB_VEC_EXTREME

static bool has_nan(const float *a, int64_t n) {
    int found = 0;
#pragma omp simd reduction(| : found)
    for (int64_t i = 0; i < n; i++) found |= a[i] != a[i];
    return found;
}

// ---------------------------------------------------------------------------- steps
enum { PHILOX_GROUP = 32 };

static void sgd(const plb_sgd_step *s, int64_t begin, int64_t end) {
    const float *pw = s->w, *pg = s->g, *pm = s->m;
    float *out_w = s->out_w, *out_m = s->out_m;
    const float lr = s->lr, decay = s->weight_decay, momentum = s->momentum, share = s->share;
    if (!pm) {
#pragma omp simd
        for (int64_t i = begin; i < end; i++) {
            const float w = pw[i];
            out_w[i] = fma_f32(-lr, fma_f32(decay, w, pg[i]), w);
        }
        return;
    }
    const bool nesterov = s->nesterov;
#pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        const float w = pw[i], g = fma_f32(decay, w, pg[i]);
        const float m = fma_f32(share, g, pm[i] * momentum);
        const float step = nesterov ? fma_f32(momentum, m, g) : m;
        out_m[i] = m;
        out_w[i] = fma_f32(-lr, step, w);
    }
}

static void adam(const plb_adam_step *s, int64_t begin, int64_t end) {
    const plb_adam_step a = *s;
#pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        const float w = a.w[i] * a.decay, g = fma_f32(a.weight_decay, w, a.g[i]);
        const float old = a.m[i], toward = g - old;
        const float m =
            a.rest1 < 0.5f ? fma_f32(a.rest1, toward, old) : fma_f32(-a.beta1, toward, g);
        const float v = a.v[i] * a.beta2 + a.rest2 * g * g;
        const float root = sqrtf(v) / a.root_scale + a.eps;
        a.out_m[i] = m;
        a.out_v[i] = v;
        a.out_w[i] = w - a.step_size * m / root;
    }
}

// A group of blocks side by side; each round is a loop over the group.
static void philox_group(uint32_t words[4][PHILOX_GROUP], uint64_t key, uint64_t low,
                         uint64_t high) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t *c0 = words[0], *c1 = words[1], *c2 = words[2], *c3 = words[3];
    for (int i = 0; i < PHILOX_GROUP; i++) {
        const uint64_t counter = low + (uint64_t)i;
        c0[i] = (uint32_t)counter, c1[i] = (uint32_t)(counter >> 32);
        c2[i] = (uint32_t)high, c3[i] = (uint32_t)(high >> 32);
    }
    for (int round = 0; round < 10; round++) {
#pragma omp simd
        for (int i = 0; i < PHILOX_GROUP; i++) {
            const uint64_t p0 = (uint64_t)c0[i] * UINT32_C(0xD2511F53);
            const uint64_t p1 = (uint64_t)c2[i] * UINT32_C(0xCD9E8D57);
            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c1[i] = (uint32_t)p1;
            c3[i] = (uint32_t)p0;
        }
        k0 += UINT32_C(0x9E3779B9), k1 += UINT32_C(0xBB67AE85);
    }
}

static void philox(uint32_t *words, uint64_t key, uint64_t low, uint64_t high, int64_t blocks) {
    uint32_t group[4][PHILOX_GROUP];
    for (int64_t begin = 0; begin < blocks; begin += PHILOX_GROUP) {
        const int64_t n = blocks - begin < PHILOX_GROUP ? blocks - begin : PHILOX_GROUP;
        philox_group(group, key, low + (uint64_t)begin, high);
        for (int64_t i = 0; i < n; i++) {
            for (int k = 0; k < 4; k++) words[4 * (begin + i) + k] = group[k][i];
        }
    }
}

static void drop(float *y, const float *a, const uint32_t *words, int32_t least_word, float factor,
                 int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float kept = a[i] * factor; // before the choice: a load under a condition is slow
        y[i] = (int32_t)(words[i] >> 8) >= least_word ? kept : 0.0f;
    }
}

// ---------------------------------------------------------------------------- columns
enum { COLUMNS = 512, ROWS = 32 }; // of a tile that is summed in f32

PLB_INLINE float same(float a) {
    return a;
}

// Four rows at a time, so that a partial sum is loaded and stored once for four additions.
#define PLB_VEC_COLUMNS_SUM(name, term)                                                      \
    static void name##_tile(double *acc, const float *a, int64_t rows, int64_t stride,       \
                            int64_t n) {                                                     \
        float part[COLUMNS] = {0};                                                           \
        int64_t r = 0;                                                                       \
        for (; r + 4 <= rows; r += 4) {                                                      \
            const float *a0 = a + r * stride, *a1 = a0 + stride, *a2 = a1 + stride;          \
            const float *a3 = a2 + stride;                                                   \
            _Pragma("omp simd") for (int64_t j = 0; j < n; j++) {                            \
                part[j] += (term(a0[j]) + term(a1[j])) + (term(a2[j]) + term(a3[j]));        \
            }                                                                                \
        }                                                                                    \
        for (; r < rows; r++) {                                                              \
            const float *a0 = a + r * stride;                                                \
            _Pragma("omp simd") for (int64_t j = 0; j < n; j++) part[j] += term(a0[j]);      \
        }                                                                                    \
        _Pragma("omp simd") for (int64_t j = 0; j < n; j++) acc[j] += (double)part[j];       \
    }                                                                                        \
    static void name(double *acc, const float *a, int64_t rows, int64_t stride, int64_t n) { \
        for (int64_t r = 0; r < rows; r += ROWS) {                                           \
            for (int64_t j = 0; j < n; j += COLUMNS) {                                       \
                name##_tile(acc + j, a + r * stride + j, rows - r < ROWS ? rows - r : ROWS,  \
                            stride, n - j < COLUMNS ? n - j : COLUMNS);                      \
            }                                                                                \
        }                                                                                    \
    }
PLB_VEC_COLUMNS_SUM(columns_sum, same)
PLB_VEC_COLUMNS_SUM(columns_abs, fabsf)
#undef PLB_VEC_COLUMNS_SUM

static void columns_squares(double *acc, const double *shift, const float *a, int64_t rows,
                            int64_t stride, int64_t n) {
    for (int64_t r = 0; r < rows; r++, a += stride) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            double d = (double)a[j] - shift[j];
            acc[j] += d * d;
        }
    }
}

#define PLB_VEC_COLUMNS_FOLD(name, expression)                                               \
    static void name(double *acc, const float *a, int64_t rows, int64_t stride, int64_t n) { \
        for (int64_t r = 0; r < rows; r++, a += stride) {                                    \
            _Pragma("omp simd") for (int64_t j = 0; j < n; j++) {                            \
                double x = (double)a[j], y = acc[j];                                         \
                acc[j] = (expression);                                                       \
            }                                                                                \
        }                                                                                    \
    }
PLB_VEC_COLUMNS_FOLD(columns_product, x *y)
PLB_VEC_COLUMNS_FOLD(columns_max, y != y || y >= x ? y : x)
PLB_VEC_COLUMNS_FOLD(columns_min, y != y || y <= x ? y : x)
#undef PLB_VEC_COLUMNS_FOLD

const plb_vec PLB_VEC_TABLE = {
    .op =
        {
#define PLB_VEC_ROW(op, expression) [PLB_OP_##op] = op_##op,
            PLB_VEC_OPS(PLB_VEC_ROW) PLB_VEC_LIBM(PLB_VEC_ROW)
#undef PLB_VEC_ROW
                [PLB_OP_sin] = op_sin,
            [PLB_OP_cos] = op_cos,
            [PLB_OP_pow] = op_pow,
            [PLB_OP_remainder] = op_remainder,
        },
    .from_f16 = from_f16,
    .from_bf16 = from_bf16,
    .from_bool = from_bool,
    .to_f16 = to_f16,
    .to_bf16 = to_bf16,
    .to_bool = to_bool,
    .add_bytes = add_bytes,
    .from_u8 = from_u8,
    .from_i8 = from_i8,
    .to_u8 = to_u8,
    .to_i8 = to_i8,
    .to_whole = to_whole,
    .exp_shifted = exp_shifted,
    .scale = scale,
    .add_scaled = add_scaled,
    .scale_shifted = scale_shifted,
    .sgd = sgd,
    .adam = adam,
    .philox = philox,
    .drop = drop,
    .sum = sum_of,
    .sum_abs = sum_abs,
    .sum_squares = sum_squares,
    .dot = dot,
    .product = product,
    .max = max_of,
    .min = min_of,
    .has_nan = has_nan,
    .columns_sum = columns_sum,
    .columns_abs = columns_abs,
    .columns_squares = columns_squares,
    .columns_product = columns_product,
    .columns_max = columns_max,
    .columns_min = columns_min,
};

#endif
