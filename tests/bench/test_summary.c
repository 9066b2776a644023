// SPDX-License-Identifier: Apache-2.0
// Summaries from the store: equal whether computed or cached, renewed when samples come, and
// spreads learnt from them as worked out by hand.
#include "check.h"

#include <sqlite3.h>
#include <unistd.h>

#include "base/core/status.h"
#include "bench/spread.h"
#include "bench/summary.h"
#include "faults.h"
#include "store/store.h"

static char path[128];

static plb_store *open_new(void) {
    plb_store *store = NULL;
    snprintf(path, sizeof path, "%s/plumb.db", fault_folder());
    CHECK_OK(plb_store_open(path, &store));
    return store;
}

static void end(plb_store *store) {
    plb_store_close(store);
    *strrchr(path, '/') = '\0';
    fault_folder_remove(path);
}

static int64_t add_measurement(plb_store *store, int64_t *run) {
    const plb_store_new_run new_run = {.command = "c", .machine = "{}", .fingerprint = "{}"};
    int64_t measurement = 0;
    bool done;
    CHECK_OK(plb_store_begin_run(store, &new_run, run));
    CHECK_OK(plb_store_add_measurement(store, *run, "a1", "{}", &measurement, &done));
    return measurement;
}

// A start of one block a sweep, each of `count` equal samples of `ns`.
static void add_start(plb_store *store, int64_t measurement, int64_t number, int64_t group,
                      int64_t ns, int sweeps, size_t count) {
    int64_t start, samples[64];
    CHECK_OK(plb_store_begin_start(store, measurement, number, group, &start));
    for (size_t i = 0; i < count; i++) samples[i] = ns;
    plb_store_block block = {.kind = PLB_BLOCK_WARMUP,
                             .sweep = -1,
                             .iterations_per_sample = 1,
                             .samples_ns = (const int64_t[]){9 * ns},
                             .count = 1};
    CHECK_OK(plb_store_add_block(store, start, &block));
    block = (plb_store_block){.kind = PLB_BLOCK_TIMED,
                              .iterations_per_sample = 2,
                              .began_ns = 100 * number,
                              .samples_ns = samples,
                              .count = count};
    for (int q = 0; q < sweeps; q++) {
        block.sweep = group < 0 ? -1 : q;
        CHECK_OK(plb_store_add_block(store, start, &block));
    }
    const plb_store_start_end end_of_start = {.outcome = "ok",
                                              .steady = true,
                                              .load_ns = -1,
                                              .first_call_ns = -1,
                                              .compile_ns = -1,
                                              .peak_rss_bytes = -1,
                                              .device_peak_bytes = -1};
    CHECK_OK(plb_store_end_start(store, start, &end_of_start));
}

static void check_summary(const plb_summary *s) {
    CHECK(s->starts == 2 && s->samples == 2 * 3 * 20);
    CHECK_NEAR(s->median_ns, sqrt(1000.0 * 1100.0), 1e-9); // the geometric mean of the starts
    // t(0.975, 1) = 12.706 times half the difference of the logs.
    CHECK_NEAR(s->high_ns / s->median_ns, exp(12.70620473617 * log(1.1) / 2), 1e-9);
    CHECK_NEAR(s->low_ns * s->high_ns, s->median_ns * s->median_ns, 1e-3);
    CHECK(s->min_ns == 1000 && s->p05_ns == 1000 && s->p95_ns == 1100 && !s->drift);
    const plb_start_summary *b = &s->start[1];
    CHECK(b->number == 1 && b->group == 5 && b->samples == 60 && b->iterations == 120);
    CHECK_NEAR(b->median_ns, 1100, 1e-9);
    CHECK(b->steady && b->began_ns == 100 && b->variance < 1e-24 && b->sweep_count == 3);
    for (int q = 0; q < 3; q++) CHECK_NEAR((double)b->sweep[q], log(1100), 1e-6);
}

static void test_cached_or_not(void) {
    plb_store *store = open_new();
    plb_arena *arena = plb_arena_new();
    int64_t run, measurement = add_measurement(store, &run);
    add_start(store, measurement, 0, 5, 2000, 3, 20); // samples of two iterations each
    add_start(store, measurement, 1, 5, 2200, 3, 20);
    plb_summary s;
    const plb_measurement_filter filter = {.measurement = measurement,
                                           .algorithm = PLB_SUMMARY_ALGORITHM};
    plb_measurement_row *row;
    size_t count;
    CHECK_OK(plb_store_measurements(store, &filter, arena, &row, &count));
    CHECK(count == 1 && !row->summary);
    CHECK_OK(plb_summary_load(store, measurement, arena, &s));
    check_summary(&s);
    CHECK_OK(plb_store_measurements(store, &filter, arena, &row, &count));
    CHECK(count == 1 && row->summary);
    CHECK_OK(plb_summary_load(store, measurement, arena, &s));
    check_summary(&s);
    add_start(store, measurement, 2, 5, 2400, 3, 20);
    CHECK_OK(plb_summary_load(store, measurement, arena, &s)); // the old one is stale
    CHECK(s.starts == 3 && s.start[2].samples == 60);
    CHECK_FAILS(PLB_EINVAL, "no measurement 77", plb_summary_load(store, 77, arena, &s));
    plb_arena_free(arena);
    end(store);
}

// A cache whose bytes are damaged is computed anew, whatever they are.
static void test_damaged_cache(void) {
    plb_store *store = open_new();
    plb_arena *arena = plb_arena_new();
    int64_t run, measurement = add_measurement(store, &run);
    add_start(store, measurement, 0, 5, 2000, 3, 20);
    add_start(store, measurement, 1, 5, 2200, 3, 20);
    plb_summary s;
    CHECK_OK(plb_summary_load(store, measurement, arena, &s));
    plb_measurement_row *row;
    size_t count;
    const plb_measurement_filter filter = {.measurement = measurement,
                                           .algorithm = PLB_SUMMARY_ALGORITHM};
    CHECK_OK(plb_store_measurements(store, &filter, arena, &row, &count));
    for (size_t cut = 0; cut < row->summary_bytes; cut += 7) {
        CHECK_OK(plb_store_put_summary(store, measurement, PLB_SUMMARY_ALGORITHM, row->samples_hash,
                                       row->summary, cut ? cut : 1));
        CHECK_OK(plb_summary_load(store, measurement, arena, &s));
        check_summary(&s);
    }
    plb_arena_free(arena);
    end(store);
}

// Of what is not ok no table shows a time, but how much was measured.
static void test_to_show(void) {
    plb_store *store = open_new();
    plb_arena *arena = plb_arena_new();
    int64_t run, measurement = add_measurement(store, &run);
    add_start(store, measurement, 0, 5, 2000, 3, 20);
    add_start(store, measurement, 1, 5, 2200, 3, 20);
    const plb_measurement_filter filter = {.measurement = measurement,
                                           .algorithm = PLB_SUMMARY_ALGORITHM};
    static const char *const outcomes[] = {NULL, "invalid", "oom", "ok"};
    for (int i = 0; i < 4; i++) {
        plb_measurement_row *row;
        size_t count;
        plb_summary s;
        const plb_store_outcome outcome = {.outcome = outcomes[i]};
        CHECK_OK(plb_store_end_measurement(store, measurement, &outcome));
        CHECK_OK(plb_store_measurements(store, &filter, arena, &row, &count));
        CHECK_OK(plb_summary_to_show(store, row, arena, &s));
        CHECK(s.starts == 2 && s.samples == 2 * 3 * 20);
        CHECK(isnan(s.median_ns) == (i < 3) && isnan(s.low_ns) == (i < 3));
        CHECK(isnan(s.high_ns) == (i < 3) && isnan(s.min_ns) == (i < 3));
        CHECK(isnan(s.p05_ns) == (i < 3) && isnan(s.p95_ns) == (i < 3));
    }
    plb_arena_free(arena);
    end(store);
}

static void test_empty(void) {
    plb_store *store = open_new();
    plb_arena *arena = plb_arena_new();
    int64_t run, measurement = add_measurement(store, &run);
    plb_summary s;
    CHECK_OK(plb_summary_load(store, measurement, arena, &s));
    CHECK(s.starts == 0 && s.samples == 0 && isnan(s.median_ns) && isnan(s.low_ns));
    CHECK(isnan(s.min_ns) && isnan(s.p95_ns));
    add_start(store, measurement, 0, -1, 2000, 1, 20);
    CHECK_OK(plb_summary_load(store, measurement, arena, &s));
    CHECK(s.starts == 1 && isnan(s.low_ns)); // one start says nothing of the others: blank, not 0
    CHECK(s.start[0].sweep_count == 0 && s.start[0].group == -1);
    plb_arena_free(arena);
    end(store);
}

static plb_summary of_logs(plb_start_summary *starts, const double *logs, int count,
                           double variance) {
    for (int i = 0; i < count; i++)
        starts[i] = (plb_start_summary){.log_median = logs[i], .variance = variance, .dof = 4};
    plb_summary s = {.starts = count, .start = starts};
    plb_summary_combine(&s);
    return s;
}

static void test_spread(void) {
    plb_start_summary starts[3];
    plb_spread_sums sums = {0};
    plb_summary s = of_logs(starts, (const double[]){1, 2, 3}, 3, 0.25);
    plb_spread_add(&sums, &s); // squares 2, 2 degrees
    s = of_logs(starts, (const double[]){5, 7}, 2, 0.5);
    plb_spread_add(&sums, &s); // squares 2, 1 degree
    s = of_logs(starts, (const double[]){9}, 1, 0.5);
    plb_spread_add(&sums, &s); // says nothing
    // Software 1: centers 2 and 6, squares 8, of which the starts (variance 4/3) explain
    // (4/3 / 3 + 4/3 / 2) / 2 = 5/9. Software 2 has but one run.
    plb_spread_run runs[] = {{1, 2, 3}, {2, 9, 1}, {1, 6, 2}};
    plb_spread spread = plb_spread_of(&sums, runs, 3);
    CHECK(spread.runs == 2 && spread.dof == 3 && spread.run_dof == 1);
    CHECK_NEAR(spread.variance, 4.0 / 3, 1e-14);
    CHECK_NEAR(spread.within, (2 * 0.25 + 1 * 0.5) / 3, 1e-14);
    // Satterthwaite: 1^2 / (2^2 (3 0.25^2 / 4 / 9) + (2 0.5^2 / 4 / 4)).
    CHECK_NEAR(spread.within_dof, 1 / (4 * 0.1875 / 36 + 0.03125), 1e-12);
    CHECK_NEAR(spread.run_variance, 8 - 5.0 / 9, 1e-13);
    spread = plb_spread_of(&(plb_spread_sums){0}, NULL, 0);
    CHECK(spread.dof == 0 && spread.run_dof == 0 && spread.variance == 0);
}

static plb_status load(void *store) {
    plb_arena *arena = plb_arena_new();
    plb_summary s;
    plb_status status = arena ? plb_summary_load(store, 1, arena, &s) : PLB_ENOMEM;
    plb_arena_free(arena);
    return status;
}

static void test_out_of_memory(void) {
    plb_store *store = open_new();
    int64_t run, measurement = add_measurement(store, &run);
    add_start(store, measurement, 0, 5, 2000, 3, 20);
    CHECK(fault_every_allocation(load, store) > 3);
    end(store);
}

static const check_test tests[] = {
    {"cached_or_not", test_cached_or_not},
    {"damaged_cache", test_damaged_cache},
    {"to_show", test_to_show},
    {"empty", test_empty},
    {"spread", test_spread},
    {"out_of_memory", test_out_of_memory},
};
CHECK_MAIN(tests)
