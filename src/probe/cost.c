// SPDX-License-Identifier: Apache-2.0
#include "probe/cost.h"

#include <math.h>
#include <stdlib.h>

enum { FEWEST = 6, FEWEST_LAUNCHES = 20 };

static int by_size(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

// Time a launch, or 0 where there are too few.
static double pace(int64_t first_ns, int64_t last_ns, int64_t first_number, int64_t last_number) {
    const double launches = (double)last_number - (double)first_number;
    const double ns = (double)last_ns - (double)first_ns;
    return launches >= FEWEST_LAUNCHES && ns > 0 ? ns / launches : 0;
}

static double pace_of(const plb_spool_block *b) {
    return pace(b->first_ns, b->last_ns, b->first_number, b->last_number);
}

bool plb_cost_of(const plb_spool *s, plb_cost *out) {
    double shares[PLB_SPOOL_BLOCKS];
    int n = 0;
    for (int64_t i = 1; i < s->blocks; i++) {
        const plb_spool_block *a = &s->block[i - 1], *b = &s->block[i];
        const double before = pace_of(a), after = pace_of(b);
        const double without = pace(a->last_ns, b->first_ns, a->last_number, b->first_number);
        if (before > 0 && after > 0 && without > 0)
            shares[n++] = (before + after) / 2 / without - 1;
    }
    *out = (plb_cost){.blocks = n};
    if (n < FEWEST) return false;
    qsort(shares, (size_t)n, sizeof *shares, by_size);
    // The ranks between which the median lies with 95 %: n/2 -+ 1.96 sqrt(n)/2.
    const double half = 0.98 * sqrt(n);
    int low = (int)floor(n / 2.0 - half), high = (int)ceil(n / 2.0 + half);
    if (low < 0) low = 0;
    if (high > n - 1) high = n - 1;
    out->share = n % 2 ? shares[n / 2] : (shares[n / 2 - 1] + shares[n / 2]) / 2;
    out->low = shares[low], out->high = shares[high];
    return true;
}
