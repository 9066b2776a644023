// SPDX-License-Identifier: Apache-2.0
// What generated pointwise kernels are written in: one function an op, as engine/ops/pointwise.c
// defines them. Reals are f32, or f64 where the program knows f64; integers and bools i64.
// Compiled at run time, so without any header.
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned short bits16;

// ---------------------------------------------------------------------------- elements
struct f16 { bits16 bits; };
struct bf16 { bits16 bits; };

__device__ inline float real_of(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
__device__ inline float real_of(bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
__device__ inline float real_of(float x) { return x; }
__device__ inline double real_of(double x) { return x; }

__device__ inline void put(f16 &to, float x) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
}
__device__ inline void put(f16 &to, double x) {
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(to.bits) : "d"(x));
}
__device__ inline void put(bf16 &to, float x) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
}
// Rounded to odd first, so that the second rounding is the only one that counts.
__device__ inline void put(bf16 &to, double x) {
    float y = __double2float_rz(x);
    if ((double)y != x && x == x) y = __uint_as_float(__float_as_uint(y) | 1u);
    put(to, y);
}
__device__ inline void put(float &to, float x) { to = x; }
__device__ inline void put(float &to, double x) { to = (float)x; }
__device__ inline void put(double &to, double x) { to = x; }
__device__ inline void put(double &to, float x) { to = x; }
template <class E> __device__ inline void put_i(E &to, i64 x) { to = (E)x; }

// ---------------------------------------------------------------------------- conversions
template <class R> __device__ inline i64 whole(R x, i64 low, i64 high) {
    if (x != x) return 0;
    double y = (double)x;
    if (y >= 9223372036854775808.0) return high;
    if (y < -9223372036854775808.0) return low;
    i64 i = (i64)y;
    return i < low ? low : i > high ? high : i;
}
template <class R> __device__ inline i64 whole_u64(R x) {
    double y = (double)x;
    if (!(y > 0)) return 0;
    return y >= 18446744073709551616.0 ? -1 : (i64)(u64)y;
}

// ---------------------------------------------------------------------------- reals
#define OP(name, expression)                                                              \
    template <class R> __device__ inline R f_##name(R a, R b, R alpha, R beta) {          \
        return expression;                                                                \
    }
template <class R> __device__ inline R sigmoid(R x) {
    R e = exp(-fabs(x));
    return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}
template <class R> __device__ inline R softplus(R x) {
    R y = log1p(exp(-fabs(x)));
    return x > 0 ? x + y : y;
}
template <class R> __device__ inline R between(R x, R low, R high) {
    R y = x < low ? low : x;
    return y > high ? high : y;
}
template <class R> __device__ inline R remainder_of(R a, R b) {
    R r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
OP(neg, -a)
OP(abs, fabs(a))
OP(sign, (R)((a > 0) - (a < 0)))
OP(exp, exp(a))
OP(log, log(a))
OP(log1p, log1p(a))
OP(expm1, expm1(a))
OP(sqrt, sqrt(a))
OP(rsqrt, 1 / sqrt(a))
OP(reciprocal, 1 / a)
OP(sin, sin(a))
OP(cos, cos(a))
OP(tanh, tanh(a))
OP(tan, tan(a))
OP(sinh, sinh(a))
OP(cosh, cosh(a))
OP(asin, asin(a))
OP(acos, acos(a))
OP(atan, atan(a))
OP(asinh, asinh(a))
OP(acosh, acosh(a))
OP(atanh, atanh(a))
OP(sigmoid, sigmoid(a))
OP(relu, a <= 0 ? (R)0 : a)
OP(leaky_relu, a > 0 ? a : alpha * a)
OP(elu, a > 0 ? a : alpha * expm1(a))
OP(selu, (R)1.0507009873554804934193349852946 *
             (a > 0 ? a : (R)1.6732632423543772848170429916717 * expm1(a)))
OP(celu, a > 0 ? a : alpha * expm1(a / alpha))
OP(gelu, (R)0.5 * a * (1 + erf(a * (R)0.70710678118654752440)))
OP(gelu_tanh, (R)0.5 * a *
                  (1 + tanh((R)0.79788456080286535588 * (a + (R)0.044715 * a * a * a))))
OP(silu, a * sigmoid(a))
OP(mish, a * tanh(softplus(a)))
OP(hardswish, a * between(a + 3, (R)0, (R)6) / 6)
OP(hardsigmoid, between(a + 3, (R)0, (R)6) / 6)
OP(clamp, between(a, alpha, beta))
OP(softplus, a * alpha > beta ? a : softplus(a * alpha) / alpha)
OP(softsign, a / (1 + fabs(a)))
OP(erf, erf(a))
OP(floor, floor(a))
OP(ceil, ceil(a))
OP(round, rint(a))
OP(trunc, trunc(a))
OP(isnan, (R)(a != a))
OP(affine, alpha * a + beta)
OP(add, a + b)
OP(sub, a - b)
OP(mul, a * b)
OP(div, a / b)
OP(pow, pow(a, b))
OP(remainder, remainder_of(a, b))
OP(min, a != a || a < b ? a : b)
OP(max, a != a || a > b ? a : b)
OP(prelu, a > 0 ? a : b * a)
OP(relu_grad, b > 0 ? a : (R)0)
OP(eq, (R)(a == b))
OP(ne, (R)(a != b))
OP(lt, (R)(a < b))
OP(le, (R)(a <= b))
OP(gt, (R)(a > b))
OP(ge, (R)(a >= b))
#undef OP

// ---------------------------------------------------------------------------- integers
// `wide`: of u64, whose bits an i64 holds.
__device__ inline bool less(i64 a, i64 b, bool wide) { return wide ? (u64)a < (u64)b : a < b; }
__device__ inline i64 quotient(i64 a, i64 b, bool wide) {
    if (b == 0) return 0;
    if (wide) return (i64)((u64)a / (u64)b);
    return b == -1 ? (i64)(0 - (u64)a) : a / b;
}
__device__ inline i64 modulo(i64 a, i64 b, bool wide) {
    if (b == 0) return 0;
    if (wide) return (i64)((u64)a % (u64)b);
    i64 r = b == -1 ? 0 : a % b;
    return r && (r < 0) != (b < 0) ? r + b : r;
}
__device__ inline i64 power(i64 a, i64 b, bool wide) {
    if (b < 0 && !wide) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    u64 result = 1, base = (u64)a;
    for (u64 rest = (u64)b; rest; rest >>= 1, base *= base) {
        if (rest & 1) result *= base;
    }
    return (i64)result;
}
__device__ inline i64 shift_left(i64 a, i64 b) { return (u64)b > 63 ? 0 : (i64)((u64)a << b); }
__device__ inline i64 shift_right(i64 a, i64 b, bool wide) {
    if (wide) return (u64)b > 63 ? 0 : (i64)((u64)a >> b);
    return a >> ((u64)b > 63 ? 63 : b);
}
__device__ inline i64 attribute(double x, bool wide) {
    return wide ? whole_u64(x) : whole(x, (i64)0x8000000000000000ull, 0x7fffffffffffffffll);
}
__device__ inline i64 between_i(i64 a, i64 low, i64 high, bool wide) {
    i64 y = less(a, low, wide) ? low : a;
    return less(high, y, wide) ? high : y;
}
#define OP(name, expression)                                                              \
    __device__ inline i64 i_##name(i64 a, i64 b, double alpha, double beta, bool wide) {  \
        return expression;                                                                \
    }
OP(neg, (i64)(0 - (u64)a))
OP(abs, less(a, 0, wide) ? (i64)(0 - (u64)a) : a)
OP(sign, (i64)less(0, a, wide) - (i64)less(a, 0, wide))
OP(relu, less(a, 0, wide) ? 0 : a)
OP(clamp, between_i(a, attribute(alpha, wide), attribute(beta, wide), wide))
OP(floor, a)
OP(ceil, a)
OP(round, a)
OP(trunc, a)
OP(not_, !a)
OP(affine, (i64)((u64)attribute(alpha, false) * (u64)a + (u64)attribute(beta, false)))
OP(add, (i64)((u64)a + (u64)b))
OP(sub, (i64)((u64)a - (u64)b))
OP(mul, (i64)((u64)a * (u64)b))
OP(div, quotient(a, b, wide))
OP(pow, power(a, b, wide))
OP(remainder, modulo(a, b, wide))
OP(min, less(b, a, wide) ? b : a)
OP(max, less(a, b, wide) ? b : a)
OP(eq, a == b)
OP(ne, a != b)
OP(lt, less(a, b, wide))
OP(le, !less(b, a, wide))
OP(gt, less(b, a, wide))
OP(ge, !less(a, b, wide))
OP(and_, a && b)
OP(or_, a || b)
OP(xor_, !a != !b)
OP(bit_and, a & b)
OP(bit_or, a | b)
OP(bit_xor, a ^ b)
OP(shift_left, shift_left(a, b))
OP(shift_right, shift_right(a, b, wide))
#undef OP

// ---------------------------------------------------------------------------- operands
template <class E, int N> struct alignas(sizeof(E) * N) pack {
    E e[N];
};
