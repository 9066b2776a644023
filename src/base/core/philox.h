// SPDX-License-Identifier: Apache-2.0
// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). Counter-based: a block of four words is a pure function of (key, counter), so any
// thread or device can compute any part of a sequence and all get the same numbers.
#ifndef PLB_BASE_CORE_PHILOX_H
#define PLB_BASE_CORE_PHILOX_H

#include <stdint.h>

typedef struct plb_philox_block {
    uint32_t word[4];
} plb_philox_block;

static inline plb_philox_block plb_philox(uint64_t key, uint64_t counter_low,
                                          uint64_t counter_high) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)counter_low, c1 = (uint32_t)(counter_low >> 32);
    uint32_t c2 = (uint32_t)counter_high, c3 = (uint32_t)(counter_high >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)c0 * UINT32_C(0xD2511F53);
        uint64_t p1 = (uint64_t)c2 * UINT32_C(0xCD9E8D57);
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1, c3 = (uint32_t)p0, c0 = n0, c2 = n2;
        k0 += UINT32_C(0x9E3779B9), k1 += UINT32_C(0xBB67AE85);
    }
    return (plb_philox_block){{c0, c1, c2, c3}};
}

// Uniform in [0, 1) with 24 bits, exact in f32.
static inline float plb_uniform_f32(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}

// Uniform in (0, 1] with 32 bits: safe under a logarithm.
static inline double plb_uniform_open(uint32_t word) {
    return ((double)word + 1.0) * 0x1p-32;
}

#endif
