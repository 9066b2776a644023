// SPDX-License-Identifier: Apache-2.0
// Included once for each instruction set, with PLB_NORM_ROWS naming the table. Plain loops over
// the channels that compilers vectorise; the pragma vouches that pointers do not overlap, but for
// those of one element that is read before it is written.
#ifndef PLB_ENGINE_DEVICE_CPU_NORM_ROWS_BODY_H
#define PLB_ENGINE_DEVICE_CPU_NORM_ROWS_BODY_H

#include "engine/device/cpu/norm_rows.h"

static void sums(const float *x, int64_t rows, int64_t c, const float *shift, float *sum,
                 float *square) {
    for (int64_t r = 0; r < rows; r++, x += c) {
#pragma omp simd
        for (int64_t i = 0; i < c; i++) {
            float d = x[i] - shift[i];
            sum[i] += d;
            square[i] += d * d;
        }
    }
}

static void apply(const float *x, int64_t rows, int64_t c, const float *scale, const float *offset,
                  const float *residual, int relu, float *y) {
    float low = relu ? 0.0f : -__builtin_inff();
    for (int64_t r = 0; r < rows; r++, x += c, y += c) {
        if (residual) {
#pragma omp simd
            for (int64_t i = 0; i < c; i++) {
                float v = x[i] * scale[i] + offset[i] + residual[i];
                y[i] = v < low ? low : v; // NaN stays
            }
            residual += c;
        } else {
#pragma omp simd
            for (int64_t i = 0; i < c; i++) {
                float v = x[i] * scale[i] + offset[i];
                y[i] = v < low ? low : v;
            }
        }
    }
}

static void grad_sums(const float *x, const float *dy, const float *y, int64_t rows, int64_t c,
                      const float *mean, float *sum, float *product, float *masked) {
    for (int64_t r = 0; r < rows; r++, x += c, dy += c) {
        if (!y) {
#pragma omp simd
            for (int64_t i = 0; i < c; i++) {
                sum[i] += dy[i];
                product[i] += dy[i] * (x[i] - mean[i]);
            }
            continue;
        }
        if (masked) {
#pragma omp simd
            for (int64_t i = 0; i < c; i++) {
                float d = y[i] > 0 ? dy[i] : 0.0f;
                sum[i] += d;
                product[i] += d * (x[i] - mean[i]);
                masked[i] = d;
            }
            masked += c;
        } else {
#pragma omp simd
            for (int64_t i = 0; i < c; i++) {
                float d = y[i] > 0 ? dy[i] : 0.0f;
                sum[i] += d;
                product[i] += d * (x[i] - mean[i]);
            }
        }
        y += c;
    }
}

static void grad_apply(const float *x, const float *dy, const float *y, int64_t rows, int64_t c,
                       const float *const coefficients[4], float *dx) {
    const float *a = coefficients[0], *b = coefficients[1], *mean = coefficients[2];
    const float *e = coefficients[3];
    for (int64_t r = 0; r < rows; r++, x += c, dy += c, dx += c) {
        if (y) {
#pragma omp simd
            for (int64_t i = 0; i < c; i++) {
                float d = y[i] > 0 ? dy[i] : 0.0f;
                dx[i] = a[i] * d + b[i] * (x[i] - mean[i]) + e[i];
            }
            y += c;
        } else {
#pragma omp simd
            for (int64_t i = 0; i < c; i++) {
                dx[i] = a[i] * dy[i] + b[i] * (x[i] - mean[i]) + e[i];
            }
        }
    }
}

static void grad_sums_signed(const float *x, const float *dy, int64_t rows, int64_t c,
                             const float *const coefficients[3], float *sum, float *product) {
    const float *a = coefficients[0], *mean = coefficients[1], *beta = coefficients[2];
    for (int64_t r = 0; r < rows; r++, x += c, dy += c) {
#pragma omp simd
        for (int64_t i = 0; i < c; i++) {
            float centred = x[i] - mean[i];
            float d = a[i] * centred + beta[i] > 0 ? dy[i] : 0.0f;
            sum[i] += d;
            product[i] += d * centred;
        }
    }
}

static void grad_apply_signed(const float *x, const float *dy, int64_t rows, int64_t c,
                              const float *const coefficients[5], float *dx) {
    const float *a = coefficients[0], *b = coefficients[1], *mean = coefficients[2];
    const float *e = coefficients[3], *beta = coefficients[4];
    for (int64_t r = 0; r < rows; r++, x += c, dy += c, dx += c) {
#pragma omp simd
        for (int64_t i = 0; i < c; i++) {
            float centred = x[i] - mean[i];
            float d = a[i] * centred + beta[i] > 0 ? dy[i] : 0.0f;
            dx[i] = a[i] * d + b[i] * centred + e[i];
        }
    }
}

static void centre(const float *x, int64_t rows, int64_t c, const float *mean, const float *scale,
                   const float *offset, float *y) {
    for (int64_t r = 0; r < rows; r++, x += c, y += c) {
#pragma omp simd
        for (int64_t i = 0; i < c; i++) y[i] = (x[i] - mean[i]) * scale[i] + offset[i];
    }
}

static void centre_line(const float *x, int64_t n, float mean, float scale, float offset,
                        float *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale + offset;
}

static double product_line(const float *x, const float *dy, int64_t n, float mean) {
    enum { CHAIN = 512 };
    double total = 0;
    for (int64_t first = 0; first < n; first += CHAIN) {
        const int64_t last = n - first < CHAIN ? n : first + CHAIN;
        float part = 0;
#pragma omp simd reduction(+ : part)
        for (int64_t i = first; i < last; i++) part += dy[i] * (x[i] - mean);
        total += (double)part;
    }
    return total;
}

static void grad_line(const float *x, const float *dy, int64_t n, float a, float b, float mean,
                      float e, float *dx) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) dx[i] = a * dy[i] + b * (x[i] - mean) + e;
}

static void standardise(const float *x, int64_t n, float mean, float scale, const float *gamma,
                        const float *beta, float *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
}

const plb_norm_rows PLB_NORM_ROWS = {
    sums,   apply,       grad_sums,    grad_apply, grad_sums_signed, grad_apply_signed,
    centre, centre_line, product_line, grad_line,  standardise};

#endif
