// SPDX-License-Identifier: Apache-2.0
// Whether verdicts can be believed, by simulation: equal series must not be called different,
// planted slow-downs must be found, and what cannot be known must be UNSURE. The conditions are
// those of docs/measuring.md: 200 samples a side in 3 starts, 1 % noise, starts' effects uniform.
// PLB_TEST_FULL=1 makes ten times as many trials.
#include "check.h"

#include "bench/stats.h"
#include "bench/verdict.h"
#include "world.h"

enum { HISTORIES = 50, HISTORY_RUNS = 10 };

// Everything at once: noise that remembers, drift by 5 %, two modes 1 % apart, spikes.
static const world hard = {.starts = 3,
                           .samples = 200,
                           .blocks = 8,
                           .noise = 0.01,
                           .correlation = 0.3,
                           .start_width = 0.02,
                           .drift = 0.05,
                           .mode = 0.01,
                           .spike_period = 23};

typedef struct tally {
    int count[4]; // by verdict
    int trials;
    int lack[8];
    double covered; // share of intervals that hold the true ratio
    double squares; // mean square of the effects' errors
    double half;    // mean half-width of the intervals, of the log
    double more;    // mean of the starts that are said to be needed
} tally;

static int trials(void) {
    return getenv("PLB_TEST_FULL") ? 20000 : 2000;
}

typedef enum arrangement { INTERLEAVED, ALTERNATE, APART } arrangement;

typedef struct design {
    arrangement arrangement;
    bool same_case; // both sides are one case, with one history
    int history_runs;
} design;

static void arrange(const world *w, arrangement how, world_side *a, world_side *b, plb_arena *arena,
                    draws *d) {
    if (how == INTERLEAVED) {
        CHECK_OK(world_interleaved(w, a, b, arena, d));
        return;
    }
    CHECK_OK(world_alone(w, a, 0, 0, arena, d));
    CHECK_OK(world_alone(w, b, log1p(w->effect), 1000000, arena, d));
    for (int r = 0; how == ALTERNATE && r < w->starts; r++) {
        a->start[r].began_ns = r * 2;
        b->start[r].began_ns = r * 2 + 1;
    }
}

static tally simulate(const world *w, const design *plan, uint64_t seed) {
    static world_side a, b;
    draws d = draws_start(seed);
    plb_spread history[2][HISTORIES] = {{{0}}};
    plb_arena *arena = plb_arena_new();
    for (int i = 0; i < 2 * HISTORIES && plan->history_runs; i++) {
        CHECK_OK(world_history(w, plan->history_runs, arena, &d, &history[i % 2][i / 2]));
    }
    tally t = {.trials = trials()};
    for (int trial = 0; trial < t.trials; trial++) {
        plb_arena_free(arena);
        arena = plb_arena_new();
        arrange(w, plan->arrangement, &a, &b, arena, &d);
        const plb_spread *h[2] = {&history[0][trial % HISTORIES], &history[1][trial % HISTORIES]};
        const plb_verdict_options options = {0};
        const plb_side left = {.summary = &a.summary, .history = *h[0], .run = 1, .case_id = 1};
        const plb_side right = {.summary = &b.summary,
                                .history = *h[!plan->same_case],
                                .run = plan->arrangement == APART ? 2 : 1,
                                .case_id = plan->same_case ? 1 : 2};
        plb_comparison c;
        CHECK_OK(plb_compare(&left, &right, &options, &c));
        CHECK_OK(plb_decide(&c, 1, &options));
        t.count[c.verdict]++, t.lack[c.lack]++;
        t.covered += (c.low <= 1 + w->effect && 1 + w->effect <= c.high) / (double)t.trials;
        double error = c.effect - log1p(w->effect);
        t.squares += error * error / t.trials;
        t.half += log(c.high / c.low) / 2 / t.trials;
        t.more += (double)c.starts_more / t.trials;
    }
    plb_arena_free(arena);
    return t;
}

static void report(const char *name, const tally *t) {
    const double each = 100.0 / t->trials;
    printf("%-34s SAME %5.1f  SLOWER %5.1f  FASTER %5.1f  UNSURE %5.1f %%; ", name,
           each * t->count[PLB_VERDICT_SAME], each * t->count[PLB_VERDICT_SLOWER],
           each * t->count[PLB_VERDICT_FASTER], each * t->count[PLB_VERDICT_UNSURE]);
    printf("%.1f %% of the intervals hold the truth, half-width %.2f %%, error %.2f %%\n",
           100 * t->covered, 100 * t->half, 100 * sqrt(t->squares));
}

static double share(const tally *t, plb_verdict verdict) {
    return (double)t->count[verdict] / t->trials;
}

static double false_alarms(const tally *t) {
    return share(t, PLB_VERDICT_SLOWER) + share(t, PLB_VERDICT_FASTER);
}

static const design interleaved = {.arrangement = INTERLEAVED, .history_runs = HISTORY_RUNS};

// ---------------------------------------------------------------------------- the promises
static void test_equal(void) {
    tally t = simulate(&hard, &interleaved, 1);
    report("equal, all at once", &t);
    CHECK(false_alarms(&t) <= 0.01);
    CHECK(t.covered >= 0.94);
    const design same = {
        .arrangement = INTERLEAVED, .same_case = true, .history_runs = HISTORY_RUNS};
    t = simulate(&hard, &same, 2);
    report("equal, one case (A/A)", &t);
    CHECK(false_alarms(&t) <= 0.01);
}

// Each trouble by itself, and stronger.
static void test_equal_each(void) {
    const world base = {
        .starts = 3, .samples = 200, .blocks = 8, .noise = 0.01, .start_width = 0.02};
    world w[6] = {base, base, base, base, base, base};
    static const char *const names[6] = {"equal, plain",
                                         "equal, r = 0.8",
                                         "equal, drift of 20 %",
                                         "equal, two modes 5 % apart",
                                         "equal, spikes every 7th",
                                         "equal, starts alike"};
    w[1].correlation = 0.8, w[2].drift = 0.2, w[3].mode = 0.05, w[4].spike_period = 7;
    w[5].start_width = 0;
    for (int i = 0; i < 6; i++) {
        tally t = simulate(&w[i], &interleaved, 10 + (uint64_t)i);
        report(names[i], &t);
        CHECK_SAY(false_alarms(&t) <= 0.01, "%s", names[i]);
    }
}

static void test_same(void) {
    world w = hard;
    w.start_width = 0.005;
    tally t = simulate(&w, &interleaved, 20);
    report("equal, starts within 0.5 %", &t);
    CHECK(share(&t, PLB_VERDICT_SAME) >= 0.95);
    CHECK(false_alarms(&t) <= 0.01);
    // At the margin itself SAME is as wrong as can be: so seldom as its level says.
    w.effect = 0.01;
    t = simulate(&w, &interleaved, 23);
    report("1 % slower, starts within 0.5 %", &t);
    CHECK(share(&t, PLB_VERDICT_SAME) <= 0.06);
    w.effect = 0, w.mode = 0;
    t = simulate(&w, &interleaved, 22);
    report("equal, within 0.5 %, one mode", &t);
    CHECK(share(&t, PLB_VERDICT_SAME) >= 0.95);
    CHECK(false_alarms(&t) <= 0.01);
    // Where the spread of starts forbids so narrow an interval, more starts allow it.
    w = hard, w.starts = 14, w.samples = 14 * 67;
    t = simulate(&w, &interleaved, 21);
    report("equal, 14 starts", &t);
    CHECK(share(&t, PLB_VERDICT_SAME) >= 0.95);
}

static void test_slower(void) {
    world w = hard;
    w.effect = 0.03;
    tally t = simulate(&w, &interleaved, 30);
    report("3 % slower", &t);
    CHECK(share(&t, PLB_VERDICT_SLOWER) >= 0.95);
    w.effect = -0.03;
    t = simulate(&w, &interleaved, 31);
    report("3 % faster", &t);
    CHECK(share(&t, PLB_VERDICT_FASTER) >= 0.95);
    w.effect = 0.02, w.start_width = 0.005;
    t = simulate(&w, &interleaved, 32);
    report("2 % slower, starts within 0.5 %", &t);
    CHECK(share(&t, PLB_VERDICT_SLOWER) >= 0.95);
}

// Without a history three starts say nothing, however large the effect, and it is told how many do.
static void test_unknown_spread(void) {
    const design unknown = {.arrangement = INTERLEAVED};
    for (int i = 0; i < 3; i++) {
        world w = hard;
        w.effect = 0.03 * i;
        tally t = simulate(&w, &unknown, 40 + (uint64_t)i);
        report("spread unknown", &t);
        printf("    %.1f starts more\n", t.more);
        CHECK(t.count[PLB_VERDICT_UNSURE] == t.trials && t.lack[PLB_LACK_SPREAD] == t.trials);
        CHECK(i != 2 || (t.more > 3.99 && t.more < 12)); // 6 %: 7 starts or some more
    }
    world w = hard;
    w.starts = 7, w.samples = 7 * 67;
    tally t = simulate(&w, &unknown, 43);
    report("equal, 7 starts, no history", &t);
    CHECK(false_alarms(&t) <= 0.01);
    w.effect = 0.03;
    t = simulate(&w, &unknown, 44);
    report("3 % slower, 7 starts, no history", &t);
    CHECK(share(&t, PLB_VERDICT_SLOWER) >= 0.9);
    const design young = {.arrangement = INTERLEAVED, .history_runs = 2};
    w = hard, w.effect = 0;
    t = simulate(&w, &young, 45);
    report("equal, two earlier runs", &t);
    CHECK(false_alarms(&t) <= 0.01);
    const design youngest = {.arrangement = INTERLEAVED, .history_runs = 1};
    t = simulate(&w, &youngest, 46);
    report("equal, one earlier run", &t);
    CHECK(false_alarms(&t) <= 0.01);
}

// A history of starts that hardly differ, and now they do: it is not believed.
static void test_distrust(void) {
    static world_side a, b;
    world calm = hard, wild = hard;
    calm.start_width = 0.002, calm.mode = 0, wild.start_width = 0.10;
    draws d = draws_start(50);
    plb_arena *arena = plb_arena_new();
    plb_spread history;
    CHECK_OK(world_history(&calm, HISTORY_RUNS, arena, &d, &history));
    int sure = 0, distrusted = 0;
    for (int trial = 0; trial < 500; trial++) {
        CHECK_OK(world_interleaved(&wild, &a, &b, arena, &d));
        const plb_side left = {.summary = &a.summary, .history = history, .run = 1, .case_id = 1},
                       right = {.summary = &b.summary, .history = history, .run = 1, .case_id = 2};
        plb_comparison c;
        CHECK_OK(plb_compare(&left, &right, &(plb_verdict_options){0}, &c));
        CHECK_OK(plb_decide(&c, 1, &(plb_verdict_options){0}));
        sure += c.verdict != PLB_VERDICT_UNSURE, distrusted += c.lack == PLB_LACK_TRUST;
    }
    plb_arena_free(arena);
    printf("history contradicted: %d of 500 distrusted, %d verdicts\n", distrusted, sure);
    CHECK(distrusted >= 450 && sure <= 25);
}

static void test_not_interleaved(void) {
    world w = hard;
    w.drift = 0;
    const design alternate = {.arrangement = ALTERNATE, .history_runs = HISTORY_RUNS};
    tally t = simulate(&w, &alternate, 60);
    report("equal, starts alternate", &t);
    CHECK(false_alarms(&t) <= 0.01 && t.covered >= 0.94);
    w.apart = 0.01; // two runs: each has 1 % of its own
    const design apart = {.arrangement = APART, .history_runs = HISTORY_RUNS};
    t = simulate(&w, &apart, 61);
    report("equal, two runs 1 % apart", &t);
    CHECK(false_alarms(&t) <= 0.01 && t.covered >= 0.94);
    const design unknown = {.arrangement = APART, .history_runs = 2};
    t = simulate(&w, &unknown, 62);
    report("equal, two runs, young history", &t);
    CHECK(false_alarms(&t) <= 0.01);
    w.effect = 0.2;
    t = simulate(&w, &apart, 63);
    report("20 % slower, two runs", &t);
    CHECK(share(&t, PLB_VERDICT_SLOWER) >= 0.95);
}

// What the usual way does under the same conditions: Welch's test on the pooled samples.
static void test_naive_way_fails(void) {
    static world_side a, b;
    draws d = draws_start(70);
    int alarms = 0;
    plb_arena *arena = plb_arena_new();
    for (int trial = 0; trial < 1000; trial++) {
        world w = hard;
        w.spike_period = 0;
        double logs[2][400];
        for (int side = 0; side < 2; side++) {
            int n = 0;
            for (int r = 0; r < 3; r++) {
                world_start s = world_begin(&w, 0, &d);
                for (int i = 0; i < 67; i++)
                    logs[side][n++] = log((double)world_sample(&w, &s, 0, &d));
            }
        }
        plb_location x = plb_mean_location(logs[0], 201), y = plb_mean_location(logs[1], 201);
        alarms += fabs(x.center - y.center) > 2.6 * sqrt(x.variance + y.variance);
    }
    plb_arena_free(arena);
    (void)a, (void)b;
    printf("pooled samples, 1 %% level: %.1f %% false alarms\n", alarms / 10.0);
    CHECK(alarms > 300);
}

// ---------------------------------------------------------------------------- many comparisons
static void test_many(void) {
    enum { PAIRS = 100, EQUAL = 80, ROUNDS = 20 };
    static world_side a[PAIRS], b[PAIRS];
    static plb_comparison c[PAIRS];
    draws d = draws_start(80);
    plb_arena *arena = plb_arena_new();
    world calm = hard;
    calm.start_width = 0.005;
    plb_spread history;
    CHECK_OK(world_history(&calm, HISTORY_RUNS, arena, &d, &history));
    int called = 0, wrong = 0, missed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < PAIRS; i++) {
            world w = calm;
            w.effect = i < EQUAL ? 0 : 0.04;
            CHECK_OK(world_interleaved(&w, &a[i], &b[i], arena, &d));
            const plb_side left = {
                .summary = &a[i].summary, .history = history, .run = 1, .case_id = 1};
            const plb_side right = {
                .summary = &b[i].summary, .history = history, .run = 1, .case_id = 2};
            CHECK_OK(plb_compare(&left, &right, &(plb_verdict_options){0}, &c[i]));
        }
        CHECK_OK(plb_decide(c, PAIRS, &(plb_verdict_options){0}));
        for (int i = 0; i < PAIRS; i++) {
            bool differ = c[i].verdict == PLB_VERDICT_SLOWER || c[i].verdict == PLB_VERDICT_FASTER;
            called += differ, wrong += differ && i < EQUAL, missed += !differ && i >= EQUAL;
        }
    }
    plb_arena_free(arena);
    printf("%d called, %d wrongly, %d of 400 missed\n", called, wrong, missed);
    CHECK(wrong * 100 <= called * 2 && missed <= 40);
}

// The step-up by hand: p = 0.001 0.012 0.03 0.5 become 0.004 0.024 0.04 0.5.
static void test_adjusting(void) {
    plb_comparison c[5] = {{.p_differ = 0.03, .effect = 0.05, .variance = 1e-4, .dof = 9},
                           {.p_differ = 0.001, .effect = 0.05, .variance = 1e-4, .dof = 9},
                           {.p_differ = 0.5, .effect = 0.05, .variance = 1e-4, .dof = 9},
                           {.p_differ = 0.012, .effect = -0.05, .variance = 1e-4, .dof = 9},
                           {.p_differ = 0, .lack = PLB_LACK_SPREAD, .variance = NAN}};
    for (int i = 0; i < 5; i++) c[i].p_same = 1;
    CHECK_OK(plb_decide(c, 5, &(plb_verdict_options){.false_rate = 0.03}));
    CHECK_NEAR(c[0].p_differ_adjusted, 0.04, 1e-15);
    CHECK_NEAR(c[1].p_differ_adjusted, 0.004, 1e-15);
    CHECK_NEAR(c[2].p_differ_adjusted, 0.5, 1e-15);
    CHECK_NEAR(c[3].p_differ_adjusted, 0.024, 1e-15);
    CHECK(c[0].verdict == PLB_VERDICT_UNSURE && c[1].verdict == PLB_VERDICT_SLOWER);
    CHECK(c[3].verdict == PLB_VERDICT_FASTER && c[4].verdict == PLB_VERDICT_UNSURE);
}

static void test_words(void) {
    char text[200];
    plb_comparison c = {.lack = PLB_LACK_SPREAD, .starts_more = 4};
    plb_comparison_need(&c, text, sizeof text);
    CHECK(strstr(text, "needs 4 more starts of each: how much starts of this case differ"));
    c.starts_more = 1, c.lack = PLB_LACK_WIDTH;
    plb_comparison_need(&c, text, sizeof text);
    CHECK(strstr(text, "needs 1 more start of each: the interval"));
    c.verdict = PLB_VERDICT_SAME;
    plb_comparison_need(&c, text, sizeof text);
    CHECK(!*text);
    CHECK(strcmp(plb_verdict_name(PLB_VERDICT_FASTER), "FASTER") == 0);
}

static void test_nothing(void) {
    const plb_summary none = {0};
    const plb_side side = {.summary = &none};
    plb_comparison c;
    CHECK_OK(plb_compare(&side, &side, &(plb_verdict_options){0}, &c));
    CHECK_OK(plb_decide(&c, 1, &(plb_verdict_options){0}));
    CHECK(c.verdict == PLB_VERDICT_UNSURE && c.lack == PLB_LACK_SAMPLES && isnan(c.ratio));
}

static const check_test tests[] = {
    {"equal", test_equal},
    {"equal_each", test_equal_each},
    {"same", test_same},
    {"slower", test_slower},
    {"unknown_spread", test_unknown_spread},
    {"distrust", test_distrust},
    {"not_interleaved", test_not_interleaved},
    {"naive", test_naive_way_fails},
    {"many", test_many},
    {"adjusting", test_adjusting},
    {"words", test_words},
    {"nothing", test_nothing},
};
CHECK_MAIN(tests)
