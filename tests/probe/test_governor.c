// SPDX-License-Identifier: Apache-2.0
// Programs that are made up, launching at known rates, under a budget: what recording them costs,
// and which of their time is recorded.
#include <math.h>

#include "check.h"
#include "probe/governor.h"

#define SECOND INT64_C(1000000000)

typedef struct program {
    plb_governor governor;
    int64_t now_ns, records, launches, on_ns, first_off_ns, turns;
    int64_t shortest_ns, longest_ns, since_ns; // of blocks but the first
    double remainder;
} program;

static program begun(double budget, uint64_t seed) {
    program p = {.now_ns = 7 * SECOND, .shortest_ns = INT64_MAX};
    plb_governor_begin(&p.governor, budget, p.now_ns, seed);
    return p;
}

static void note_turn(program *p, bool on) {
    p->turns++;
    if (on) {
        p->since_ns = p->now_ns;
        return;
    }
    if (!p->first_off_ns) {
        p->first_off_ns = p->now_ns;
        return;
    }
    const int64_t length_ns = p->now_ns - p->since_ns;
    if (length_ns < p->shortest_ns) p->shortest_ns = length_ns;
    if (length_ns > p->longest_ns) p->longest_ns = length_ns;
}

// `rate` launches a second for so long, looked at when it is asked for.
static void run(program *p, double rate, double seconds) {
    const int64_t end_ns = p->now_ns + (int64_t)(seconds * 1e9);
    while (p->now_ns < end_ns) {
        const bool on = p->governor.on;
        int64_t wait_ns = plb_governor_wait_ns(&p->governor, p->now_ns);
        if (wait_ns > end_ns - p->now_ns) wait_ns = end_ns - p->now_ns;
        p->remainder += rate * (double)wait_ns / 1e9;
        const int64_t fresh = (int64_t)p->remainder;
        p->remainder -= (double)fresh;
        p->launches += fresh;
        if (on) p->records += fresh, p->on_ns += wait_ns;
        p->now_ns += wait_ns;
        if (plb_governor_look(&p->governor, p->now_ns, p->records) != on) note_turn(p, !on);
    }
}

static double cost_s(const program *p) {
    return ((double)p->records * PLB_GOVERNOR_RECORD_NS +
            (double)p->turns / 2 * PLB_GOVERNOR_SWITCH_NS) /
           1e9;
}

static void what_launches_slowly_is_recorded_whole(void) {
    program p = begun(.01, 1);
    run(&p, 3000, 600); // 0.9 % of the time
    CHECK(p.turns == 0 && p.records == p.launches);
}

static void what_is_young_is_recorded_whole(void) {
    program p = begun(.01, 1);
    run(&p, 40000, .7);
    CHECK(p.turns == 0 && p.records == p.launches && p.records == 28000);
    run(&p, 40000, 1);
    CHECK(p.turns == 1 && !p.governor.on);
}

static void what_launches_fast_costs_the_budget(void) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        program p = begun(.01, seed);
        run(&p, 40000, 600);
        const double most = .01 * 600 + PLB_GOVERNOR_ALLOWANCE_NS / 1e9;
        CHECK_SAY(cost_s(&p) < 1.01 * most && cost_s(&p) > .85 * most, "%g s of %g", cost_s(&p),
                  most);
        CHECK_SAY(p.turns > 200, "%d turns", (int)p.turns);
        // Uneven, so that they do not fall in step with the program.
        CHECK_SAY(p.longest_ns > 3 * p.shortest_ns / 2, "%g to %g ms", (double)p.shortest_ns / 1e6,
                  (double)p.longest_ns / 1e6);
    }
}

static void rates_that_change_are_followed(void) {
    program p = begun(.01, 3);
    run(&p, 300000, 120);
    CHECK_SAY(cost_s(&p) < .01 * 120 + .4, "%g s", cost_s(&p));
    CHECK_SAY(p.turns > 20, "%d turns", (int)p.turns);
    run(&p, 0, 15);
    CHECK(p.governor.on);
    const int64_t before = p.records, launched = p.launches;
    run(&p, 1500, 60); // slow: whole again, from the first on
    CHECK(p.records - before == p.launches - launched);
    const int64_t turns = p.turns;
    run(&p, 100000, 120);
    CHECK(p.turns > turns + 20 && !isnan(p.governor.rate));
    CHECK_SAY(cost_s(&p) < .01 * 310 + .6, "%g s", cost_s(&p));
}

// There is room for 2048 blocks.
static void a_day_has_room(void) {
    program p = begun(.01, 5);
    run(&p, 50000, 86400);
    CHECK_SAY(p.turns / 2 < 2048 && p.turns / 2 > 400, "%d blocks", (int)p.turns / 2);
    const double most = .01 * 86400;
    CHECK_SAY(cost_s(&p) < 1.02 * most && cost_s(&p) > .9 * most, "%g s of %g", cost_s(&p), most);
}

static const check_test tests[] = {
    {"what launches slowly is recorded whole", what_launches_slowly_is_recorded_whole},
    {"what is young is recorded whole", what_is_young_is_recorded_whole},
    {"what launches fast costs the budget", what_launches_fast_costs_the_budget},
    {"rates that change are followed", rates_that_change_are_followed},
    {"a day has room", a_day_has_room},
};
CHECK_MAIN(tests)
