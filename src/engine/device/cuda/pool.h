// SPDX-License-Identifier: Apache-2.0
// What pools and resampling share on the host.
#ifndef PLB_ENGINE_DEVICE_CUDA_POOL_H
#define PLB_ENGINE_DEVICE_CUDA_POOL_H

#include "engine/device/cuda/kernels/pool.h"
#include "engine/device/cuda/own.h"

// Fills in n, c, the extents of x and y, strides and channel_inner; in gradients x is what comes
// out.
void plb_cuda_pool_extents(const plb_query *q, plb_pool_params *p);
// Whether 16 bytes of channels can be taken at once from every operand that begins on 16 bytes.
bool plb_cuda_pool_wide(const plb_query *q, const plb_pool_params *p);
// Enough blocks for `count` threads.
plb_cuda_grid plb_cuda_pool_grid(const plb_query *q, int64_t count);

#endif
