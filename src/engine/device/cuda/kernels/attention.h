// SPDX-License-Identifier: Apache-2.0
// Numbers of attention: y[b,l,h,:] = softmax over s of (scale q . k + mask) v.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_ATTENTION_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_ATTENTION_H

#include "engine/device/cuda/kernels/own.h"

// A block has so many queries of one head, a warp each, and takes as many keys at a time as a warp
// has lanes. A lane keeps every 32nd feature of the result.
enum { PLB_ATTENTION_QUERIES = 8, PLB_ATTENTION_KEYS = 32, PLB_ATTENTION_FEATURES = 256 };

typedef struct plb_attention_params {
    int32_t heads, queries, keys, depth, features; // H, L, S, D, E
    int32_t zero_masked;
    int32_t mask_dtype, zero;
    double scale;
    int64_t q[4], k[4], v[4], y[4]; // strides of [b,h,l or s,d or e], of y [b,l,h,e]
    int64_t mask[4];                // of [b,h,l,s]; 0 where it is the same for all
} plb_attention_params;

#endif
