// SPDX-License-Identifier: Apache-2.0
// Numbers of the losses whose target is a class.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_CLASS_LOSS_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_CLASS_LOSS_H

#include "engine/device/cuda/kernels/own.h"

enum { PLB_LOSS_THREADS = 256, PLB_LOSS_SUM_THREADS = 1024 };

// Scores x[samples, classes, inner], targets [samples, inner].
typedef struct plb_loss_params {
    double smoothing;
    int64_t positions, ignore_index;
    int32_t classes, inner;
    int32_t reduction; // plb_reduction
    int32_t op;        // plb_op_id
    int32_t target_at; // which input the targets are; the weights come after them
    int32_t zero;
} plb_loss_params;

#endif
