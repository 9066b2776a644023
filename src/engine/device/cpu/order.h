// SPDX-License-Identifier: Apache-2.0
// Sorting by keys: unsigned numbers in the order of what they stand for. Short lists are merged,
// long ones sorted by the keys' bytes from the lowest on, where a byte that is the same in all keys
// costs nothing. Both keep equal keys in the order in which they were.
#ifndef PLB_ENGINE_DEVICE_CPU_ORDER_H
#define PLB_ENGINE_DEVICE_CPU_ORDER_H

#include <string.h>

#include "engine/tensor/convert.h"

typedef struct plb_entry {
    uint64_t key;
    int64_t at; // of whatever has the key
} plb_entry;

// A NaN is greater than all numbers and equal to any other NaN; the zeros are equal.
static inline uint64_t plb_key_of_f32(float x) {
    if (x != x) return UINT32_MAX;
    const uint32_t bits = plb_bits_of_f32(x == 0 ? 0.0f : x);
    return bits >> 31 ? (uint32_t)~bits : bits | 0x80000000u;
}

static inline uint64_t plb_key_of_f64(double x) {
    uint64_t bits;
    if (x != x) return UINT64_MAX;
    if (x == 0) x = 0; // of -0, too
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

// Sorts n entries; `other` has room for as many. Returns the one of both that holds them sorted.
plb_entry *plb_order_sort(plb_entry *entries, plb_entry *other, int64_t n);

#endif
