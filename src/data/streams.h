// SPDX-License-Identifier: Apache-2.0
// Who draws which random numbers of a seed. Every use has a stream of its own, so that adding one
// never shifts another.
#ifndef PLB_DATA_STREAMS_H
#define PLB_DATA_STREAMS_H

#include <stdint.h>

typedef enum plb_stream_use {
    PLB_STREAM_ORDER = 0x70,   // counter: epoch, draw
    PLB_STREAM_AUGMENT = 0x71, // counter: epoch, sample
    PLB_STREAM_SAMPLE = 0x72,  // a drawn sample's shape and place; counter: draw
    PLB_STREAM_NOISE = 0x73,   // a drawn sample's noise; counter: pixel
} plb_stream_use;

// High half of Philox' counter: the use in the top byte, `number` (below 2^56) beneath.
static inline uint64_t plb_stream(plb_stream_use use, int64_t number) {
    return (uint64_t)use << 56 | ((uint64_t)number & UINT64_C(0xffffffffffffff));
}

#endif
