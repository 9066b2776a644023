// SPDX-License-Identifier: Apache-2.0
// A start's series as it grows: the warm-up's end, the size of blocks, when to stop, and how often
// the interval it stopped with holds the truth.
#include "check.h"

#include "bench/series.h"
#include "draws.h"
#include "faults.h"

// Time of iteration `i`, ns.
typedef double (*model)(int64_t i, draws *d);

static double steady_model(int64_t i, draws *d) {
    (void)i;
    return 1e6 * exp(0.01 * draw_normal(d));
}

// Three times as slow at first, 1 % slower after 115 iterations, 0.1 % after 173.
static double warming_model(int64_t i, draws *d) {
    return steady_model(i, d) * (1 + 2 * exp(-(double)i / 22.5)) + 0 * (double)i;
}

// A plateau that looks steady for 20 iterations before a compiler's work pays off.
static double late_model(int64_t i, draws *d) {
    return steady_model(i, d) * (i < 20 ? 2 : 1);
}

static double sliding_model(int64_t i, draws *d) {
    return steady_model(i, d) * (1 + (double)i * 0.0005);
}

static double spiky_model(int64_t i, draws *d) {
    return steady_model(i, d) * (i % 10 == 3 ? 8 : 1);
}

static double slow_model(int64_t i, draws *d) {
    return steady_model(i, d) * 3000;
}

// Runs a start to its end; iterations that were timed begin at *first.
static plb_series *run(const plb_series_options *options, model of, draws *d, int64_t *first) {
    plb_series *s = plb_series_new(options);
    int64_t samples[4096], i = 0;
    for (int blocks = 0; plb_series_stop_of(s) == PLB_STOP_NOT_YET && blocks < 10000; blocks++) {
        int64_t n = plb_series_next(s);
        CHECK(n >= 1 && n <= 4096);
        if (plb_series_phase_of(s) == PLB_PHASE_WARMUP) *first = i + n;
        double total = 0;
        for (int64_t k = 0; k < n; k++, i++) {
            double ns = of(i, d);
            total += ns;
            samples[k] = (int64_t)ns;
        }
        if (options->queued) samples[0] = (int64_t)total;
        CHECK_OK(plb_series_append(s, samples, options->queued ? 1 : (size_t)n,
                                   options->queued ? n : 1));
    }
    return s;
}

static plb_series_summary summary_of(const plb_series_options *options, model of, uint64_t seed,
                                     int64_t *first, plb_stop *stop) {
    draws d = draws_start(seed);
    plb_series_summary out;
    plb_series *s = run(options, of, &d, first);
    plb_series_summarize(s, &out);
    *stop = plb_series_stop_of(s);
    plb_series_free(s);
    return out;
}

static void test_warmup(void) {
    for (uint64_t seed = 1; seed <= 40; seed++) {
        int64_t first;
        plb_stop stop;
        const plb_series_options options = {.time_ns = 400000000};
        plb_series_summary s = summary_of(&options, warming_model, seed, &first, &stop);
        CHECK_SAY(s.steady && first >= 90, "seed %d: warm-up of %lld", (int)seed, (long long)first);
        CHECK_SAY(fabs(s.median_ns / 1e6 - 1) < 0.012, "seed %d: %.0f", (int)seed, s.median_ns);
        CHECK(s.warmup_iterations == first);
        s = summary_of(&options, late_model, seed, &first, &stop);
        CHECK_SAY(s.steady && first >= 21 && first < 400, "%lld", (long long)first);
        CHECK(fabs(s.median_ns / 1e6 - 1) < 0.01);
        s = summary_of(&options, steady_model, seed, &first, &stop);
        CHECK_SAY(s.steady && first < 150, "%lld", (long long)first);
    }
}

static void test_never_steady(void) {
    int64_t first;
    plb_stop stop;
    const plb_series_options options = {
        .time_ns = 2000000000, .warmup_max_ns = 60000000, .precision = 0.001};
    plb_series_summary s = summary_of(&options, sliding_model, 1, &first, &stop);
    CHECK(s.drift && s.warmup_iterations < 200);
    s = summary_of(&options, steady_model, 1, &first, &stop);
    CHECK(!s.drift);
    // Each iteration 1 % slower than the last: the warm-up is given up, and this is said.
    plb_series *series = plb_series_new(&(plb_series_options){.warmup_max_ns = 3000000000});
    double ns = 1e6;
    for (int i = 0; plb_series_phase_of(series) == PLB_PHASE_WARMUP && i < 1000; i++) {
        int64_t block[8];
        for (int k = 0; k < 8; k++, ns *= 1.01) block[k] = (int64_t)ns;
        CHECK_OK(plb_series_append(series, block, 8, 1));
    }
    CHECK(plb_series_phase_of(series) == PLB_PHASE_TIMED);
    plb_series_summarize(series, &s);
    CHECK(!s.steady && s.samples == 0 && isnan(s.median_ns));
    plb_series_free(series);
}

static void test_stops(void) {
    int64_t first;
    plb_stop stop;
    plb_series_options options = {.time_ns = 1000000000};
    plb_series_summary s = summary_of(&options, steady_model, 2, &first, &stop);
    CHECK(stop == PLB_STOP_PRECISE && s.relative_half_width <= 0.01 && s.samples >= 64);
    CHECK(s.samples < 300 && s.low_ns < s.median_ns && s.median_ns < s.high_ns);
    CHECK(s.min_ns < s.p05_ns && s.p05_ns < s.median_ns && s.median_ns < s.p95_ns);
    s = summary_of(&options, spiky_model, 2, &first, &stop); // every tenth sample, eightfold
    CHECK(stop == PLB_STOP_PRECISE && s.samples < 300);
    options.precision = 1e-6;
    s = summary_of(&options, steady_model, 2, &first, &stop);
    CHECK(stop == PLB_STOP_TIME && s.samples > 800 && s.samples < 1200);
    options = (plb_series_options){.time_ns = 1000000000}; // 3 s an iteration
    s = summary_of(&options, slow_model, 2, &first, &stop);
    CHECK(stop == PLB_STOP_TIME && s.samples == 3 && s.steady && s.warmup_iterations <= 8);
    CHECK(strcmp(plb_stop_name(stop), "time") == 0);
}

static void test_queued(void) {
    int64_t first;
    plb_stop stop;
    const plb_series_options options = {.time_ns = 1000000000, .queued = true};
    plb_series_summary s = summary_of(&options, steady_model, 4, &first, &stop);
    CHECK(fabs(s.median_ns / 1e6 - 1) < 0.01);
    CHECK(s.iterations > 2 * s.samples && s.samples >= 8);
}

// Stopping when the interval looks narrow picks moments when it is too narrow: how much of its
// 95 % does that cost?
static void test_coverage_when_stopped(void) {
    enum { TRIALS = 1500 };
    int held = 0, precise = 0;
    draws d = draws_start(9);
    for (int trial = 0; trial < TRIALS; trial++) {
        int64_t first;
        const plb_series_options options = {.time_ns = 300000000, .precision = 0.003};
        plb_series *s = run(&options, steady_model, &d, &first);
        plb_series_summary out;
        plb_series_summarize(s, &out);
        precise += plb_series_stop_of(s) == PLB_STOP_PRECISE;
        held += out.low_ns <= 1e6 && 1e6 <= out.high_ns;
        plb_series_free(s);
    }
    printf("stopped as precise: %.1f %%; intervals hold %.1f %%\n", 100.0 * precise / TRIALS,
           100.0 * held / TRIALS);
    CHECK(precise > TRIALS / 2 && held > TRIALS * 0.92);
}

static void test_refusals(void) {
    plb_series *s = plb_series_new(&(plb_series_options){0});
    const int64_t bad[] = {4, -4};
    CHECK_FAILS(PLB_EINVAL, "expected some", plb_series_append(s, bad, 0, 1));
    CHECK_FAILS(PLB_EINVAL, "one iteration or more", plb_series_append(s, bad, 1, 0));
    CHECK_FAILS(PLB_EINVAL, "sample 1", plb_series_append(s, bad, 2, 1));
    CHECK(plb_series_next(s) == 1 && plb_series_stop_of(s) == PLB_STOP_NOT_YET);
    plb_series_free(s);
    plb_series_free(NULL);
}

static plb_status some_blocks(void *unused) {
    (void)unused;
    plb_series *s = plb_series_new(&(plb_series_options){.time_ns = 1});
    if (!s) return PLB_ENOMEM;
    int64_t samples[300];
    for (int i = 0; i < 300; i++) samples[i] = 1000000;
    plb_status status = plb_series_append(s, samples, 300, 1);
    if (!status) status = plb_series_append(s, samples, 300, 1);
    plb_series_free(s);
    return status;
}

static void test_out_of_memory(void) {
    CHECK(fault_every_allocation(some_blocks, NULL) >= 3);
}

static void test_clock(void) {
    plb_clock_facts clock;
    plb_clock_measure(&clock);
    CHECK(clock.resolution_ns >= 1 && clock.resolution_ns < 1e6);
    CHECK(clock.overhead_ns > 0 && clock.overhead_ns < 1e5);
    const plb_clock_facts coarse = {.resolution_ns = 25, .overhead_ns = 20};
    CHECK_OK(plb_clock_check(&coarse, 2501, 0.01, "case"));
    CHECK_FAILS(PLB_EINVAL, "lenet infer: an iteration of 2499 ns is too short",
                plb_clock_check(&coarse, 2499, 0.01, "lenet infer"));
    CHECK_OK(plb_clock_check(&coarse, 2499, 0.02, "case"));
}

static const check_test tests[] = {
    {"warmup", test_warmup},
    {"never_steady", test_never_steady},
    {"stops", test_stops},
    {"queued", test_queued},
    {"coverage", test_coverage_when_stopped},
    {"refusals", test_refusals},
    {"out_of_memory", test_out_of_memory},
    {"clock", test_clock},
};
CHECK_MAIN(tests)
