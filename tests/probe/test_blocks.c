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
    int64_t short_calls, short_ns; // of kernels under 10 us, since the first block
    plb_blocks *blocks;
    plb_sum *sum;
    plb_gap window;
    bool on, in_graphs;
} run;

static int64_t draw(run *r, int64_t most) {
    r->random = r->random * 1664525u + 1013904223u;
    return (int64_t)(r->random >> 8) % most;
}

// Recording alternates by the time of the launch.
static void turn(run *r) {
    const int64_t each_ns = (r->block_us + r->rest_us) * US;
    for (; r->now_ns >= r->window.start_ns + each_ns; r->window.start_ns += each_ns) {
        r->window.end_ns = r->window.start_ns + r->block_us * US;
        plb_blocks_close(r->blocks, r->window, false); // also one that had no work
    }
    r->on = r->now_ns < r->window.start_ns + r->block_us * US;
}

static void work(run *r, plb_record_kind kind, int64_t length_ns, int64_t pause_ns) {
    const plb_record record = {.kind = kind,
                               .start_ns = r->now_ns,
                               .end_ns = r->now_ns + length_ns,
                               .name = length_ns < 10 * US ? "short" : "long",
                               .copy = PLB_COPY_IN,
                               .in_graph = r->in_graphs,
                               .grid_number = r->in_graphs ? 0 : r->number};
    turn(r);
    if (r->on) {
        plb_sum_record(r->sum, &record);
        plb_blocks_note(r->blocks, &record);
        if (!r->begin_ns)
            r->begin_ns = r->now_ns,
            r->active_ns = r->copying_ns = r->short_calls = r->short_ns = 0;
    }
    if (kind == PLB_RECORD_KERNEL) {
        r->active_ns += length_ns, r->number++;
        if (length_ns < 10 * US) r->short_calls++, r->short_ns += length_ns;
    } else {
        r->copying_ns += length_ns;
    }
    r->now_ns += length_ns;
    r->end_ns = r->on ? r->now_ns : r->end_ns;
    r->now_ns += pause_ns;
}

// Launches of 5 to 25 us with pauses as long, a copy of 40 us after every twentieth, and twice a
// long stretch without any.
static plb_spool *recorded_in(uint32_t seed, int64_t block_us, int64_t rest_us, bool in_graphs,
                              run *r) {
    plb_spool *s = plb_alloc(sizeof *s);
    *r = (run){.random = seed,
               .now_ns = US,
               .block_us = block_us,
               .rest_us = rest_us,
               .in_graphs = in_graphs};
    s->alternates = 1, s->name_bytes = 1;
    r->blocks = plb_blocks_new(s);
    r->sum = plb_sum_new(s);
    for (int i = 0; i < 20000; i++) {
        work(r, PLB_RECORD_KERNEL, 5 * US + draw(r, 20 * US), 5 * US + draw(r, 20 * US));
        if (i % 20 == 0) work(r, PLB_RECORD_COPY, 40 * US, 0);
        if (i == 7000 || i == 13000) r->now_ns += 150000 * US;
    }
    r->window.end_ns = r->window.start_ns + r->block_us * US;
    plb_blocks_close(r->blocks, r->window, false);
    plb_blocks_free(r->blocks);
    plb_sum_free(r->sum);
    return s;
}

static plb_spool *recorded(uint32_t seed, int64_t block_us, int64_t rest_us, run *r) {
    return recorded_in(seed, block_us, rest_us, false, r);
}

static int row_of(const plb_spool *s, const char *name) {
    for (int i = 0; i < PLB_SPOOL_KERNELS; i++)
        if (s->kernel[i].hash && strcmp(s->names + s->kernel[i].name, name) == 0) return i;
    return 0;
}

static void the_whole_from_a_fifth(void) {
    run r;
    plb_spool *s = recorded(5, 4000, 16000, &r);
    plb_estimate e;
    CHECK(plb_estimate_of(s, &e));
    const double span = (double)(r.end_ns - r.begin_ns);
    CHECK(e.known && e.by_launches && e.blocks > 20 && e.recorded < .25 * e.kernels);
    // But for what came before the first block and after the last.
    CHECK(fabs(e.kernels - (double)r.number) < 2000 && e.kernels_half == 0);
    CHECK_NEAR((double)e.span_ns, span, .03 * span);
    CHECK_SAY(fabs(e.active - (double)r.active_ns / span) < .02, "active %g, in truth %g", e.active,
              (double)r.active_ns / span);
    CHECK_SAY(fabs(e.copying - (double)r.copying_ns / span) < .01, "copying %g, in truth %g",
              e.copying, (double)r.copying_ns / span);
    CHECK(e.active_low < e.active && e.active < e.active_high && e.active_high < e.active + .05);
    CHECK_NEAR(e.active + e.copying + e.idle, 1, 1e-12);
    plb_free(s);
}

typedef struct tally {
    int active, calls, ns;
} tally;

// Whether the truth of the stretch that the estimate is about lies in its intervals.
static void try(uint32_t seed, tally *held) {
    run r;
    plb_spool *s = recorded(seed, 4000, 16000, &r);
    plb_estimate e;
    CHECK(plb_estimate_of(s, &e) && e.known);
    const double active_us = 14.9995; // of a launch, in the mean of its draws
    const double truth = e.kernels * active_us * US / (double)e.span_ns;
    const plb_estimated k = plb_estimate_kernel(s, &e, row_of(s, "short"));
    const double calls = e.kernels / 4, ns = calls * 7499.5; // a quarter is of 5 to 10 us
    held->active += e.active_low <= truth && truth <= e.active_high;
    held->calls += fabs(k.calls - calls) <= k.calls_half;
    held->ns += fabs(k.ns - ns) <= k.ns_half;
    plb_free(s);
}

static void the_interval_holds_as_often_as_it_says(void) {
    tally held = {0};
    for (uint32_t i = 0; i < RUNS; i++) try(i * 7919 + 1, &held);
    CHECK_SAY(held.active >= HOLD_OF_95, "active: in %d of %d runs", held.active, (int)RUNS);
    CHECK_SAY(held.calls >= HOLD_OF_95, "calls: in %d of %d runs", held.calls, (int)RUNS);
    CHECK_SAY(held.ns >= HOLD_OF_95, "time: in %d of %d runs", held.ns, (int)RUNS);
}

// Kernels of graphs have no numbers: blocks stand for the rest by their length. The long stretches
// without work make that less certain.
static void by_time_where_numbers_do_not_tell(void) {
    run r;
    plb_spool *s = recorded_in(9, 4000, 16000, true, &r);
    plb_estimate e;
    CHECK(plb_estimate_of(s, &e) && e.known && !e.by_launches);
    const double span = (double)(r.end_ns - r.begin_ns), active = (double)r.active_ns / span;
    CHECK_SAY(e.active_low <= active && active <= e.active_high, "%g to %g, in truth %g",
              e.active_low, e.active_high, active);
    const double all = (double)r.number;
    CHECK_SAY(fabs(e.kernels - all) < .25 * all && e.kernels_half > 0, "%g +- %g, in truth %g",
              e.kernels, e.kernels_half, all);
    const plb_estimated k = plb_estimate_kernel(s, &e, row_of(s, "short"));
    CHECK(k.calls_half > 0 && fabs(k.calls - e.kernels / 4) < .03 * e.kernels);
    plb_free(s);
}

// What was recorded whole counts as it is, and stands for nothing else.
static void the_first_block_may_stand_apart(void) {
    run r;
    plb_spool *s = recorded(5, 4000, 16000, &r);
    plb_estimate all, rest;
    CHECK(plb_estimate_of(s, &all));
    s->work[0].active_ns = 0, s->blocks_apart = 1;
    CHECK(plb_estimate_of(s, &rest) && rest.blocks == all.blocks - 1);
    const double missing = (double)(s->work[1].active_ns) / (double)rest.span_ns;
    CHECK_NEAR(rest.active, all.active - missing, .5 * missing);
    plb_free(s);
}

static void where_nothing_can_be_told(void) {
    run r;
    plb_spool *s = recorded(9, 4000, 16000, &r);
    plb_estimate e;
    const int row = row_of(s, "short");
    s->blocks = 3; // as if all that is in the tables were theirs
    s->device[0].kernels = s->block_kernels[0] + s->block_kernels[1] + s->block_kernels[2];
    CHECK(plb_estimate_of(s, &e) && !e.known && e.blocks == 3 && e.recorded_ns < e.span_ns);
    const plb_estimated k = plb_estimate_kernel(s, &e, row);
    CHECK(isnan(k.calls_half) && k.calls > 3 * (double)s->kernel[row].times.calls);
    s->blocks = 8, s->block[4].first_number = s->block[3].last_number;
    CHECK(plb_estimate_of(s, &e) && e.known && !e.by_launches);
    s->window[4].start_ns = s->window[3].end_ns - 1;
    CHECK(!plb_estimate_of(s, &e));
    s->alternates = 0, s->window[4].start_ns += 2;
    CHECK(!plb_estimate_of(s, &e));
    plb_free(s);
}

// What is in the tables of a block that never ended stands for itself alone.
static void an_open_block_is_not_multiplied(void) {
    plb_spool *s = plb_alloc(sizeof *s);
    plb_estimate e;
    s->alternates = 2, s->blocks = 2;
    s->window[0] = (plb_gap){1000, 2000}, s->window[1] = (plb_gap){4000, 5000};
    s->work[0] = (plb_spool_work){1000, 2000, 500, 0};
    s->work[1] = (plb_spool_work){4000, 5000, 500, 0};
    s->block_kernels[0] = s->block_kernels[1] = 100;
    s->device[0].kernels = s->kernel[0].times.calls = 250;
    s->kernel[0].times.total_ns = 2500;
    CHECK(plb_estimate_of(s, &e) && !e.known && e.span_ns == 4000 && e.recorded_ns == 2000);
    const plb_estimated k = plb_estimate_kernel(s, &e, 0);
    CHECK_NEAR(k.calls, 2 * 200 + 50, 1e-9);
    CHECK_NEAR(k.ns, 2 * 2000 + 500, 1e-9);
    plb_free(s);
}

static const check_test tests[] = {
    {"the whole from a fifth", the_whole_from_a_fifth},
    {"the interval holds as often as it says", the_interval_holds_as_often_as_it_says},
    {"by time where numbers do not tell", by_time_where_numbers_do_not_tell},
    {"the first block may stand apart", the_first_block_may_stand_apart},
    {"an open block is not multiplied", an_open_block_is_not_multiplied},
    {"where nothing can be told", where_nothing_can_be_told},
};
CHECK_MAIN(tests)
