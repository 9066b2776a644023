// SPDX-License-Identifier: Apache-2.0
// What one convolution with its epilogue computes, whoever computes it.
#ifndef PLB_ENGINE_DEVICE_CUDA_CONV_SPEC_H
#define PLB_ENGINE_DEVICE_CUDA_CONV_SPEC_H

#include "engine/device/cuda/convolve.h"

enum { PLB_CONV_KEY_BYTES = 512 };

typedef struct plb_conv_spec {
    plb_op_id op;
    plb_dtype dtype;
    plb_layout_kind layout;          // of x, w and y alike
    plb_conv_shape shape;            // as the library is told it: its padding is even, and its
    int64_t margin[PLB_MAX_SPATIAL]; // x begins with so many zeros before the node's,
    bool margins;                    // if it has any, in front or behind
    bool bias, residual;
    plb_epilogue epilogue;
    bool tf32, deterministic, no_winograd;
} plb_conv_spec;

PLB_MUST_USE plb_status plb_conv_spec_of(const plb_query *q, plb_conv_spec *out);
// Equal for what can share plans: with the device's and the library's versions in it.
PLB_MUST_USE plb_status plb_conv_key_of(const plb_device *device, const plb_conv_spec *s,
                                        char key[PLB_CONV_KEY_BYTES]);
// Products of f32: most guesses are made for TF32. Those that are left are few and far from each
// other in speed, and the fastest, by Winograd's or Fourier's transforms, are bare convolutions.
bool plb_conv_without_tensor_cores(const plb_conv_spec *s);

#endif
