// SPDX-License-Identifier: Apache-2.0
// All of the kernels' code, over the small set of vector operations that the including file
// defines for its instruction set. Included once by each of them.
#ifndef PLB_ENGINE_DEVICE_CPU_WINOGRAD_BODY_H
#define PLB_ENGINE_DEVICE_CPU_WINOGRAD_BODY_H

#define PLB_INLINE static inline __attribute__((always_inline))

enum {
    PAIRS = PLB_WINOGRAD_MAX_PAIRS,
    MAX_M = PLB_WINOGRAD_MAX_M,
    MAX_EDGE = PLB_WINOGRAD_MAX_EDGE
};

// One copy of a stage a variant: pairs and zero are constants for the inliner.
#define PLB_EACH_VARIANT(plan, stage, ...)         \
    switch ((plan)->config.m) {                    \
    case 2: stage(1, 1, plan, __VA_ARGS__); break; \
    case 4: stage(2, 1, plan, __VA_ARGS__); break; \
    case 5: stage(3, 0, plan, __VA_ARGS__); break; \
    }

#include "engine/device/cpu/winograd_multiply.h"
#include "engine/device/cpu/winograd_tiles.h"
#include "engine/device/cpu/winograd_weights.h"

#endif
