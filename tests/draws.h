// SPDX-License-Identifier: Apache-2.0
// Seeded random numbers for tests and simulations: uniform and normal, from Philox.
#ifndef PLB_TESTS_DRAWS_H
#define PLB_TESTS_DRAWS_H

#include <math.h>
#include <stdint.h>

#include "base/core/philox.h"

typedef struct draws {
    uint64_t seed, counter;
    plb_philox_block block;
    int left;      // words of the block not used yet
    double spare;  // the second normal of a pair
    int has_spare; // whether there is one
} draws;

static inline draws draws_start(uint64_t seed) {
    return (draws){.seed = seed};
}

// In (0, 1].
static inline double draw_uniform(draws *d) {
    if (!d->left) {
        d->block = plb_philox(d->seed, d->counter++, 0);
        d->left = 4;
    }
    return plb_uniform_open(d->block.word[--d->left]);
}

// Mean 0, standard deviation 1 (Box and Muller).
static inline double draw_normal(draws *d) {
    if (d->has_spare) {
        d->has_spare = 0;
        return d->spare;
    }
    double radius = sqrt(-2 * log(draw_uniform(d))), angle = 2 * M_PI * draw_uniform(d);
    d->spare = radius * sin(angle), d->has_spare = 1;
    return radius * cos(angle);
}

#endif
