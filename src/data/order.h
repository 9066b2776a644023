// SPDX-License-Identifier: Apache-2.0
// In which order an epoch visits its samples: a function of seed and epoch alone, so that a resumed
// run, or one with other threads, sees the same.
#ifndef PLB_DATA_ORDER_H
#define PLB_DATA_ORDER_H

#include <stdint.h>

#include "plumb/status.h"

// Writes order[count], a permutation of 0…count-1 (Fisher-Yates over Philox numbers).
PLB_API void plb_order_shuffle(uint32_t *order, uint32_t count, uint64_t seed, int64_t epoch);

#endif
