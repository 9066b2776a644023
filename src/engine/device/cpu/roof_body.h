// SPDX-License-Identifier: Apache-2.0
// The multiply-adds of roof.h. The includer defines VECTOR, LANES, SET(x), MULTIPLY_ADD(a, b, c),
// SUM(v) and ROOF, the name of the result. Two units with a latency of four cycles need eight
// chains; twelve leave some slack and fit in sixteen registers. Values run towards 1.
#ifndef PLB_ENGINE_DEVICE_CPU_ROOF_BODY_H
#define PLB_ENGINE_DEVICE_CPU_ROOF_BODY_H

#include "engine/device/cpu/roof.h"

static float run_chains(int64_t steps) {
    const VECTOR m = SET(0.75f), n = SET(0.25f);
    VECTOR a = SET(0.0f), b = SET(0.1f), c = SET(0.2f), d = SET(0.3f);
    VECTOR e = SET(0.4f), f = SET(0.5f), g = SET(0.6f), h = SET(0.7f);
    VECTOR i = SET(0.8f), j = SET(0.9f), k = SET(1.1f), l = SET(1.2f);
    for (int64_t step = 0; step < steps; step++) {
        a = MULTIPLY_ADD(a, m, n);
        b = MULTIPLY_ADD(b, m, n);
        c = MULTIPLY_ADD(c, m, n);
        d = MULTIPLY_ADD(d, m, n);
        e = MULTIPLY_ADD(e, m, n);
        f = MULTIPLY_ADD(f, m, n);
        g = MULTIPLY_ADD(g, m, n);
        h = MULTIPLY_ADD(h, m, n);
        i = MULTIPLY_ADD(i, m, n);
        j = MULTIPLY_ADD(j, m, n);
        k = MULTIPLY_ADD(k, m, n);
        l = MULTIPLY_ADD(l, m, n);
    }
    return SUM(a) + SUM(b) + SUM(c) + SUM(d) + SUM(e) + SUM(f) + SUM(g) + SUM(h) + SUM(i) + SUM(j) +
           SUM(k) + SUM(l);
}

const plb_roof_loop ROOF = {run_chains, 12 * 2 * LANES};

#endif
