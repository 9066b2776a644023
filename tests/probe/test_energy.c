// SPDX-License-Identifier: Apache-2.0
// Energy of a stretch of a run against areas worked out by hand.
#include "base/core/alloc.h"
#include "check.h"
#include "probe/energy.h"

static const int64_t second = 1000000000;

static void look(plb_command_result *run, int card, double at_seconds, float watts) {
    run->sample[run->samples++] = (plb_command_sample){
        .at_ns = run->begin_ns + (int64_t)(at_seconds * 1e9), .card = card, .watts = watts};
}

// 100 W in the first second, 200 in the second, 300 in the third, 50 in the fourth.
static plb_command_result *made_run(void) {
    plb_command_result *run = plb_alloc(sizeof *run);
    run->begin_ns = 7 * second;
    run->cards = 1;
    for (int i = 1; i <= 4; i++) look(run, 0, i, i < 4 ? 100.0f * (float)i : 50.0f);
    return run;
}

static void area_under_the_power(void) {
    plb_command_result *run = made_run();
    double joules = 0;
    CHECK(plb_energy_between(run, 7 * second, 11 * second, &joules));
    CHECK_SAY(joules == 650, "found %g", joules);
    CHECK(plb_energy_between(run, 7 * second + second / 2, 10 * second - second / 4, &joules));
    CHECK_SAY(joules == 50 + 200 + 225, "found %g", joules);
    // What lies beyond the last look is not made up.
    CHECK(plb_energy_between(run, 8 * second, 99 * second, &joules));
    CHECK_SAY(joules == 550, "found %g", joules);
    plb_free(run);
}

static void too_few_looks_say_nothing(void) {
    plb_command_result *run = made_run();
    double joules;
    CHECK(!plb_energy_between(run, 7 * second, 9 * second, &joules));
    CHECK(!plb_energy_between(run, 20 * second, 30 * second, &joules));
    run->cards = 0;
    CHECK(!plb_energy_between(run, 7 * second, 11 * second, &joules));
    plb_free(run);
}

static void cards_add_up(void) {
    plb_command_result *run = made_run();
    double joules;
    run->cards = 2;
    CHECK(!plb_energy_between(run, 7 * second, 11 * second, &joules)); // nothing of the second
    for (int i = 1; i <= 4; i++) look(run, 1, i, 10);
    CHECK(plb_energy_between(run, 7 * second, 11 * second, &joules));
    CHECK_SAY(joules == 690, "found %g", joules);
    look(run, 5, 2, 1e9f); // of a card that is not there
    CHECK(plb_energy_between(run, 7 * second, 11 * second, &joules));
    CHECK_SAY(joules == 690, "found %g", joules);
    plb_free(run);
}

static void a_step_has_its_share(void) {
    plb_command_result *run = made_run();
    plb_spool *spool = plb_alloc(sizeof *spool);
    plb_profile_range ranges[] = {{.name = "step", .calls = 10}, {.name = "other", .calls = 3}};
    plb_profile profile = {.process = &spool, .processes = 1, .range = ranges};
    plb_step_cost cost;
    // CUPTI's clock is 1000 s ahead; the device worked from the first second to the third.
    spool->begin_ns = 7 * second, spool->begin_cupti_ns = 1007 * second;
    CHECK(!plb_step_cost_of(&profile, run, 5, &cost)); // no device worked
    spool->device[2].records = 1;
    spool->device[2].sums.first_ns = 1007 * second, spool->device[2].sums.last_ns = 1010 * second;
    CHECK(plb_step_cost_of(&profile, run, 6, &cost));
    CHECK_SAY(cost.known && cost.ms == 500 && cost.joules == 100, "%g ms, %g J", cost.ms,
              cost.joules);
    CHECK(!plb_step_cost_of(&profile, run, 0, &cost)); // no ranges were read
    profile.ranges = 2;
    CHECK(plb_step_cost_of(&profile, run, 0, &cost) && cost.steps == 10);
    CHECK(plb_step_cost_of(&profile, NULL, 6, &cost) && !cost.known);
    plb_free(spool);
    plb_free(run);
}

static const check_test tests[] = {
    {"the area under the power", area_under_the_power},
    {"too few looks say nothing", too_few_looks_say_nothing},
    {"cards add up", cards_add_up},
    {"a step has its share", a_step_has_its_share},
};
CHECK_MAIN(tests)
