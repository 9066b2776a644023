// SPDX-License-Identifier: Apache-2.0
// What recording costs, of blocks whose paces are known.
#include "probe/cost.h"

#include <math.h>

#include "base/core/alloc.h"
#include "check.h"

enum { LAUNCHES = 100, PACE_NS = 1000 };

// Blocks of one pace; between the i-th and the next a launch takes less by 1 / (1 + (i + 1) / 100),
// so that recording costs i + 1 per cent there.
static plb_spool *with_stretches(int count) {
    plb_spool *s = plb_alloc(sizeof *s);
    int64_t at_ns = 1, number = 0;
    for (int i = 0; i <= count; i++) {
        plb_spool_block *b = &s->block[s->blocks++];
        b->first_ns = at_ns, b->first_number = number;
        b->last_ns = at_ns += LAUNCHES * PACE_NS, b->last_number = number += LAUNCHES;
        at_ns += llround(LAUNCHES * PACE_NS / (1 + (i + 1) / 100.0)), number += LAUNCHES;
    }
    return s;
}

static void the_interval_is_of_ranks_that_hold_95_percent(void) {
    plb_spool *s = with_stretches(10);
    plb_cost cost;
    CHECK(plb_cost_of(s, &cost) && cost.blocks == 10);
    CHECK_NEAR(cost.share, 0.055, 1e-4);
    CHECK_NEAR(cost.low, 0.02, 1e-4); // the second and the ninth of ten: 97.9 %
    CHECK_NEAR(cost.high, 0.09, 1e-4);
    plb_free(s);
}

static void few_blocks_have_none(void) {
    plb_cost cost;
    for (int count = 5; count <= 6; count++) {
        plb_spool *s = with_stretches(count);
        CHECK(plb_cost_of(s, &cost) == (count == 6) && cost.blocks == count);
        plb_free(s);
    }
}

static const check_test tests[] = {
    {"the_interval_is_of_ranks_that_hold_95_percent",
     the_interval_is_of_ranks_that_hold_95_percent},
    {"few_blocks_have_none", few_blocks_have_none},
};
CHECK_MAIN(tests)
