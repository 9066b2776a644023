// SPDX-License-Identifier: Apache-2.0
// The inner loops of normalisations over rows x[rows,C], channels innermost, where a row is one
// pixel of one sample, and over lines of one channel. One source (norm_rows_body.h) is compiled for
// each instruction set.
#ifndef PLB_ENGINE_DEVICE_CPU_NORM_ROWS_H
#define PLB_ENGINE_DEVICE_CPU_NORM_ROWS_H

#include <stdint.h>

#include "engine/device/cpu/cpu.h"

typedef struct plb_norm_rows {
    // sum[c] += x - shift[c], square[c] += (x - shift[c])^2.
    void (*sums)(const float *x, int64_t rows, int64_t c, const float *shift, float *sum,
                 float *square);
    // y = x scale[c] + offset[c] (+ residual), then ReLU if asked for; residual may be NULL or y.
    void (*apply)(const float *x, int64_t rows, int64_t c, const float *scale, const float *offset,
                  const float *residual, int relu, float *y);
    // With d = dy, or dy where y > 0: sum[c] += d, product[c] += d (x - mean[c]); d is written to
    // `masked` unless that is NULL. y may be NULL.
    void (*grad_sums)(const float *x, const float *dy, const float *y, int64_t rows, int64_t c,
                      const float *mean, float *sum, float *product, float *masked);
    // dx = a[c] d + b[c] (x - mean[c]) + e[c].
    void (*grad_apply)(const float *x, const float *dy, const float *y, int64_t rows, int64_t c,
                       const float *const coefficients[4], float *dx); // a, b, mean, e
    // The same two where y > 0 is a[c] (x - mean[c]) + beta[c] > 0.
    void (*grad_sums_signed)(const float *x, const float *dy, int64_t rows, int64_t c,
                             const float *const coefficients[3], float *sum,
                             float *product); // a, mean, beta
    void (*grad_apply_signed)(const float *x, const float *dy, int64_t rows, int64_t c,
                              const float *const coefficients[5],
                              float *dx); // a, b, mean, e, beta
    // y = (x - mean[c]) scale[c] + offset[c]; y may be x, here and below.
    void (*centre)(const float *x, int64_t rows, int64_t c, const float *mean, const float *scale,
                   const float *offset, float *y);
    // The same of n elements with one mean, scale and offset.
    void (*centre_line)(const float *x, int64_t n, float mean, float scale, float offset, float *y);
    // Of n elements of one channel: the sum of dy (x - mean), of short f32 chains added up in f64.
    double (*product_line)(const float *x, const float *dy, int64_t n, float mean);
    // The same of grad_apply: dx = a dy + b (x - mean) + e.
    void (*grad_line)(const float *x, const float *dy, int64_t n, float a, float b, float mean,
                      float e, float *dx);
    // y = (x - mean) scale gamma[n] + beta[n]
    void (*standardise)(const float *x, int64_t n, float mean, float scale, const float *gamma,
                        const float *beta, float *y);
} plb_norm_rows;

extern const plb_norm_rows plb_norm_rows_portable, plb_norm_rows_avx2, plb_norm_rows_avx512;

const plb_norm_rows *plb_norm_rows_of(plb_isa isa);

#endif
