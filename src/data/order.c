// SPDX-License-Identifier: Apache-2.0
#include "data/order.h"

#include "base/core/philox.h"
#include "data/streams.h"

// A number in [0, bound): the top of a 64-bit draw times bound; its bias is below bound / 2^64.
static uint32_t bounded(uint32_t low, uint32_t high, uint32_t bound) {
    uint64_t draw = (uint64_t)high << 32 | low;
    uint64_t below = (draw & UINT32_MAX) * bound >> 32;
    return (uint32_t)(((draw >> 32) * bound + below) >> 32);
}

void plb_order_shuffle(uint32_t *order, uint32_t count, uint64_t seed, int64_t epoch) {
    plb_philox_block block = {{0}};
    for (uint32_t i = 0; i < count; i++) {
        if (i % 2 == 0) block = plb_philox(seed, i / 2, plb_stream(PLB_STREAM_ORDER, epoch));
        const uint32_t *word = &block.word[i % 2 * 2];
        uint32_t j = bounded(word[0], word[1], i + 1); // the inside-out form: fills as it goes
        order[i] = order[j];
        order[j] = i;
    }
}
