// SPDX-License-Identifier: Apache-2.0
// Numbers of the optimizer steps.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_OPTIMIZER_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_OPTIMIZER_H

#include "engine/device/cuda/kernels/own.h"

enum { PLB_OPTIMIZER_THREADS = 256 };

typedef struct plb_optimizer_params {
    int64_t count;
    double momentum, share, weight_decay; // sgd; share: 1 - dampening
    double beta1, beta2, eps;             // adam
    int32_t nesterov, decoupled;
    int32_t lr_type, step_type, scale_type, zero; // dtypes of these scalars
} plb_optimizer_params;

// Part of one of many variables that a launch updates; a block takes one piece.
enum { PLB_OPTIMIZER_CHUNK = 4096 };
typedef struct plb_optimizer_piece {
    plb_operands at;        // operands from this piece on
    plb_optimizer_params p; // `count`: of the piece
    int32_t aligned, zero;  // all on 16 bytes
} plb_optimizer_piece;

#endif
