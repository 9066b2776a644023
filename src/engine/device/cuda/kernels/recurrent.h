// SPDX-License-Identifier: Apache-2.0
// Numbers of recurrent layers; ops/recurrent.c says what is computed.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_RECURRENT_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_RECURRENT_H

#include "engine/device/cuda/kernels/own.h"

// A block takes so many sequences, or one, through all steps.
enum { PLB_RECURRENT_THREADS = 512, PLB_RECURRENT_TOGETHER = 4 };

typedef struct plb_recurrent_params {
    int32_t steps, batch, hidden, gates;
    int32_t kind, reverse; // plb_recurrent_kind
} plb_recurrent_params;

#endif
