// SPDX-License-Identifier: Apache-2.0
// Pieces that the kernels of convolutions and products share: what they have to compute, read off
// a query once, and the epilogue where a library computes the bare op.
#ifndef PLB_ENGINE_DEVICE_CUDA_CONVOLVE_H
#define PLB_ENGINE_DEVICE_CUDA_CONVOLVE_H

#include "engine/device/cuda/cuda.h"
#include "engine/device/cuda/kernels/convolve.h"
#include "engine/ops/conv_shape.h"
#include "plumb/ops.h"

enum { PLB_IN_BIAS = 2, PLB_IN_RESIDUAL = 3 }; // inputs of conv and matmul

// Whether input k is given.
bool plb_operand_given(const plb_query *q, int k);
// "f32", "bf16", …: the ending of kernels' names; NULL: no kernel takes the dtype.
const char *plb_operand_suffix(plb_dtype dtype);
// Why the operands are nothing for dense kernels of one float type, or NULL.
const char *plb_operands_refuse(const plb_query *q);
// Whether each pixel is a product with the filters: 1x1, stride 1, no padding, one group.
bool plb_conv_is_product(const plb_conv_shape *s);
// Whether values and filters lie pixel by pixel, all channels of each side by side.
bool plb_operands_channels_last(const plb_query *q);
// Of the definition.
double plb_operands_flops(const plb_query *q);
// Each operand moved once.
double plb_operands_bytes(const plb_query *q);

// Bounds of an activation; {-inf, inf} for none.
void plb_epilogue_bounds(const plb_epilogue *epilogue, double bounds[2]);
// As kernels read it; pointers are set when it runs.
plb_epilogue_params plb_epilogue_params_of(const plb_epilogue *epilogue);

// to = act(from + bias + residual), values of one dtype, shape and dense order with channels as
// axis `axis`; `to` may be `from` or the residual.
typedef struct plb_finish {
    CUfunction function;
    plb_cuda_grid grid;
    plb_finish_params params; // pointers are set by run
} plb_finish;
PLB_MUST_USE plb_status plb_finish_prepare(plb_device *device, const plb_tensor *y, int axis,
                                           const plb_epilogue *epilogue, plb_finish *out);
PLB_MUST_USE plb_status plb_finish_run(plb_stream *stream, const plb_finish *finish,
                                       const void *from, const void *bias, const void *residual,
                                       void *to);

// Bytes up to the next multiple of 256.
static inline size_t plb_padded(size_t size_bytes) {
    return (size_bytes + 255) & ~(size_t)255;
}

#endif
