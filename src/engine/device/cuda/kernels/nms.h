// SPDX-License-Identifier: Apache-2.0
// Numbers of nms; ops/nms.c says what is computed.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_NMS_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_NMS_H

#include "engine/device/cuda/kernels/own.h"

enum { PLB_NMS_THREADS = 256 };

// The workspace: counts[B C], picks[B C most] (i32), then a byte for each box of each class.
typedef struct plb_nms_params {
    int32_t batches, classes, boxes, most;
    int32_t centred, dtype;
    double most_overlap, least_score;
    int64_t box[3], score[3]; // strides of boxes[B,N,4] and scores[B,C,N]
} plb_nms_params;

#endif
