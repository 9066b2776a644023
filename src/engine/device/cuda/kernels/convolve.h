// SPDX-License-Identifier: Apache-2.0
// What host and device share of the plain convolutions and products: strides in elements.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_CONVOLVE_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_CONVOLVE_H

#include <stdint.h>

enum { PLB_PRODUCT_RANK = 8 };
enum { PLB_ACTIVATE_NONE, PLB_ACTIVATE_CLAMP, PLB_ACTIVATE_SILU };

// y = act(… + bias + residual), where a clamp keeps values between the bounds; NULL: none of it.
typedef struct plb_epilogue_params {
    const void *bias, *residual;
    int32_t activation, zero;
    double low, high;
} plb_epilogue_params;

// Axes of a value: N, C (of w: K, C/groups), depth, height, width.
typedef struct plb_convolve_params {
    const void *first, *second; // x w of conv, dy w of input_grad, x dy of weight_grad
    void *to;
    int64_t count;   // of elements of `to`
    int32_t n, c, k; // c and k of one group
    int32_t groups;
    int32_t in[3], kernel[3], out[3], stride[3], dilation[3], pad[3];
    int64_t x[5], w[5], y[5], z[5]; // strides; z: of the residual
    plb_epilogue_params epilogue;   // of conv
} plb_convolve_params;

// to[…, row, column] = sum over i of a[…, row, i] b[…, i, column]; the last two axes are rows and
// columns, those before them the batch.
typedef struct plb_product_params {
    const void *a, *b;
    void *to;
    int64_t count, inner;
    int32_t rank, zero;
    int64_t dim[PLB_PRODUCT_RANK]; // of `to`, which is dense
    int64_t a_stride[PLB_PRODUCT_RANK], b_stride[PLB_PRODUCT_RANK];
    int64_t a_inner, b_inner;
    plb_epilogue_params epilogue; // bias along columns, the residual dense
} plb_product_params;

// to[i] = act(from[i] + bias[i / inner % channels] + residual[i]): all of one dense order.
typedef struct plb_finish_params {
    const void *from;
    void *to;
    int64_t count, inner, channels;
    plb_epilogue_params epilogue;
} plb_finish_params;

// f32 from a 16-bit float.
typedef struct plb_widen_params {
    const void *from;
    float *to;
    int64_t count;
} plb_widen_params;

#endif
