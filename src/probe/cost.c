// SPDX-License-Identifier: Apache-2.0
#include "probe/cost.h"

#include "base/rank_interval.h"

enum { FEWEST_LAUNCHES = 20 };

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
    if (n < PLB_RANKS_FEWEST) return false;
    const plb_rank_interval found = plb_rank_interval_of(shares, (size_t)n);
    out->share = found.median, out->low = found.low, out->high = found.high;
    return true;
}
