// SPDX-License-Identifier: Apache-2.0
// Runs that are made up, of which all is known, recorded in blocks: the estimate from the blocks
// against the whole, and how often its interval holds it.
#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "check.h"
#include "probe/blocks.h"
#include "probe/estimate.h"

enum {
    US = 1000,
    RUNS = 200,
    HOLD_OF_95 = 180
}; // 190 are expected, less than 180 once in 1000 runs

typedef struct run {
    uint32_t random;
    int64_t now_ns, number, active_ns, copying_ns, begin_ns, end_ns;
    int64_t block_us, rest_us;
    plb_blocks *blocks;
    bool on;
} run;

static int64_t draw(run *r, int64_t most) {
    r->random = r->random * 1664525u + 1013904223u;
    return (int64_t)(r->random >> 8) % most;
}

// Recording alternates by the time of the launch.
static void turn(run *r) {
    const int64_t at = r->now_ns % ((r->block_us + r->rest_us) * US);
    const bool on = at < r->block_us * US;
    if (on && !r->on) plb_blocks_close(r->blocks);
    r->on = on;
}

static void work(run *r, plb_record_kind kind, int64_t length_ns, int64_t pause_ns) {
    const plb_record record = {.kind = kind,
                               .start_ns = r->now_ns,
                               .end_ns = r->now_ns + length_ns,
                               .copy = PLB_COPY_IN,
                               .grid_number = r->number};
    turn(r);
    if (r->on) {
        plb_blocks_note(r->blocks, &record);
        if (!r->begin_ns) r->begin_ns = r->now_ns, r->active_ns = r->copying_ns = 0;
    }
    if (kind == PLB_RECORD_KERNEL)
        r->active_ns += length_ns, r->number++;
    else
        r->copying_ns += length_ns;
    r->now_ns += length_ns;
    r->end_ns = r->on ? r->now_ns : r->end_ns;
    r->now_ns += pause_ns;
}

// Launches of 5 to 25 us with pauses as long, a copy of 40 us after every twentieth, and twice a
// long stretch without any.
static plb_spool *recorded(uint32_t seed, int64_t block_us, int64_t rest_us, run *r) {
    plb_spool *s = plb_alloc(sizeof *s);
    *r = (run){.random = seed, .now_ns = US, .block_us = block_us, .rest_us = rest_us};
    r->blocks = plb_blocks_new(s);
    for (int i = 0; i < 20000; i++) {
        work(r, PLB_RECORD_KERNEL, 5 * US + draw(r, 20 * US), 5 * US + draw(r, 20 * US));
        if (i % 20 == 0) work(r, PLB_RECORD_COPY, 40 * US, 0);
        if (i == 7000 || i == 13000) r->now_ns += 150000 * US;
    }
    plb_blocks_close(r->blocks);
    plb_free(r->blocks);
    return s;
}

static void the_whole_from_a_fifth(void) {
    run r;
    plb_spool *s = recorded(5, 4000, 16000, &r);
    plb_estimate e;
    CHECK(plb_estimate_of(s, &e));
    const double span = (double)(r.end_ns - r.begin_ns);
    CHECK(e.blocks > 20 && (double)e.recorded < .25 * (double)e.launches);
    // But for what came before the first block and after the last.
    CHECK(llabs(e.launches - r.number) < 2000);
    CHECK_NEAR((double)e.span_ns, span, .03 * span);
    CHECK_SAY(fabs(e.active - (double)r.active_ns / span) < .02, "active %g, in truth %g", e.active,
              (double)r.active_ns / span);
    CHECK_SAY(fabs(e.copying - (double)r.copying_ns / span) < .01, "copying %g, in truth %g",
              e.copying, (double)r.copying_ns / span);
    CHECK(e.active_low < e.active && e.active < e.active_high && e.active_high < e.active + .05);
    CHECK_NEAR(e.active + e.copying + e.idle, 1, 1e-12);
    plb_free(s);
}

// The truth of the stretch that the estimate is about.
static bool holds(uint32_t seed) {
    run r;
    plb_spool *s = recorded(seed, 4000, 16000, &r);
    plb_estimate e;
    const bool told = plb_estimate_of(s, &e);
    const double active_us = 14.9995; // of a launch, in the mean of its draws
    CHECK(told);
    const double truth = (double)e.launches * active_us * US / (double)e.span_ns;
    plb_free(s);
    return e.active_low <= truth && truth <= e.active_high;
}

static void the_interval_holds_as_often_as_it_says(void) {
    int held = 0;
    for (uint32_t i = 0; i < RUNS; i++) held += holds(i * 7919 + 1);
    CHECK_SAY(held >= HOLD_OF_95, "in %d of %d runs", held, (int)RUNS);
}

static void where_nothing_can_be_told(void) {
    run r;
    plb_spool *s = recorded(9, 4000, 16000, &r);
    plb_estimate e;
    s->device[0].graph_launches = 1;
    CHECK(!plb_estimate_of(s, &e));
    s->device[0].graph_launches = 0, s->blocks = 5;
    CHECK(!plb_estimate_of(s, &e) && e.blocks == 5);
    s->blocks = 8, s->block[4].first_number = s->block[3].last_number;
    CHECK(!plb_estimate_of(s, &e));
    plb_free(s);
}

static const check_test tests[] = {
    {"the whole from a fifth", the_whole_from_a_fifth},
    {"the interval holds as often as it says", the_interval_holds_as_often_as_it_says},
    {"where nothing can be told", where_nothing_can_be_told},
};
CHECK_MAIN(tests)
