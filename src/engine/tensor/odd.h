// SPDX-License-Identifier: Apache-2.0
// Rounding to odd: what is cut off sets the last bit that stays. Where a number passes through a
// format that is at least two bits wider than the last, this makes the second rounding that of the
// number itself (Boldo, Melquiond: "Emulation of FMA and correctly rounded sums", 2008).
#ifndef PLB_ENGINE_TENSOR_ODD_H
#define PLB_ENGINE_TENSOR_ODD_H

#include <math.h>
#include <stdbool.h>

#include "engine/tensor/convert.h"

static inline float plb_odd_f32_of_f64(double value) {
    float nearest = (float)value;
    if ((double)nearest == value || isnan(value) || isinf(nearest)) return nearest;
    uint32_t bits = plb_bits_of_f32(nearest);
    if (bits & 1u) return nearest;
    bool too_far = fabs((double)nearest) > fabs(value);
    return plb_f32_of_bits(too_far ? bits - 1u : bits + 1u);
}

// Up to 2^53 exact; past it 42 bits or more stay, which is enough for f32 and what is narrower.
static inline double plb_odd_f64_of_u64(uint64_t value) {
    const uint64_t cut = value & 0x7ff;
    return (double)(value >> 53 && cut ? (value - cut) | 0x800 : value);
}

static inline double plb_odd_f64_of_i64(int64_t value) {
    if (value >= 0) return plb_odd_f64_of_u64((uint64_t)value);
    return -plb_odd_f64_of_u64(-(uint64_t)value);
}

#endif
