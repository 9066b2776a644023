// SPDX-License-Identifier: Apache-2.0
// Strided copies and fills on the device, the pieces that `move` and others are made of.
#ifndef PLB_ENGINE_DEVICE_CUDA_COPY_H
#define PLB_ENGINE_DEVICE_CUDA_COPY_H

#include "engine/device/cuda/cuda.h"

// Copies elements of one dtype between equal shapes; no blocked layouts. Nothing to do is PLB_OK.
PLB_MUST_USE plb_status plb_cuda_copy_strided(plb_stream *stream, const plb_tensor *to,
                                              const plb_tensor *from);
// Every element becomes the one whose bytes `element` begins with.
PLB_MUST_USE plb_status plb_cuda_fill_strided(plb_stream *stream, const plb_tensor *to,
                                              const void *element);

#endif
