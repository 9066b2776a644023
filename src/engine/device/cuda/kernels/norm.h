// SPDX-License-Identifier: Apache-2.0
// Numbers of the normalisation kernels.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_NORM_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_NORM_H

#include "engine/device/cuda/kernels/own.h"

enum { PLB_NORM_THREADS = 256, PLB_NORM_PLANE_THREADS = 512, PLB_NORM_FINISH = 32 };

// x[N,C,…] as n samples of c channels of s pixels, each operand with strides of its own.
enum { PLB_NORM_OPERANDS = 6 };
typedef struct plb_norm_params {
    double eps;
    plb_act act;
    int64_t rows;                         // n s
    int32_t n, c, s;                      // s: pixels
    int32_t splits;                       // of the rows, whose sums lie in the workspace
    int32_t gamma_type, beta_type;        // dtypes; of dgamma and dbeta too
    int32_t mean_type, variance_type;     // of statistics that are given
    int32_t groups;                       // group_norm
    int32_t channel_inner;                // group_norm: channels are the innermost axis
    int64_t stride[PLB_NORM_OPERANDS][3]; // x, y or dy, residual or mask, dx, masked dy, second dy
} plb_norm_params;

// Rows of `width` elements; gamma and beta of `width`.
typedef struct plb_norm_rows_params {
    double eps;
    int64_t rows;
    int32_t width;
    int32_t gamma_type, beta_type;
    int32_t zero;
} plb_norm_rows_params;

#endif
