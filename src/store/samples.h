// SPDX-License-Identifier: Apache-2.0
// How a block's samples lie in the store: the smallest one, then each one's distance from it, all
// as unsigned LEB128 (7 bits a byte, low ones first, the high bit says "more"). Times of one block
// resemble each other: noise of 1 % of a millisecond takes two bytes a sample, and a spike takes
// more for itself alone.
#ifndef PLB_STORE_SAMPLES_H
#define PLB_STORE_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"

enum { PLB_SAMPLE_MAX_BYTES = 10 };

// At most (count + 1) * PLB_SAMPLE_MAX_BYTES bytes into `out`; returns how many. Samples are >= 0.
PLB_API size_t plb_samples_encode(const int64_t *samples, size_t count, uint8_t *out);

// Reads `count` samples. PLB_EINVAL, with the offset, unless the bytes hold exactly that many.
PLB_API PLB_MUST_USE plb_status plb_samples_decode(const uint8_t *bytes, size_t size_bytes,
                                                   size_t count, int64_t *out);

#endif
