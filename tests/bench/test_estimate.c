// SPDX-License-Identifier: Apache-2.0
// Estimates against cases whose times are made up by the rule that a stack has: so many seconds to
// come up, so many floating-point operations a second.
#include "check.h"

#include "bench/estimate.h"

static plb_case a_case(const char *model, const char *stack, int64_t batch) {
    plb_case c;
    plb_case_init(&c);
    snprintf(c.model, sizeof c.model, "%s", model);
    snprintf(c.stack, sizeof c.stack, "%s", stack);
    snprintf(c.task, sizeof c.task, "train");
    c.batch = batch, c.threads = 2;
    return c;
}

// A stack that takes 12 s to come up at first, 5 s later, and computes 1e11 a second.
static plb_observation made(const char *model, int64_t batch, double flops) {
    double t = flops / 1e11;
    return (plb_observation){.c = a_case(model, "slow", batch),
                             .flops = flops,
                             .iteration_s = t,
                             .first_s = 12 + 5 * t + 5 * t + 2 * t + 4 * t,
                             .later_s = 5 + t + 2 * t + 4 * t};
}

static void test_learns_a_stack(void) {
    plb_estimator e = {.time_s = 1};
    const plb_observation small = made("resnet18", 8, 2e11), large = made("resnet18", 16, 4e11);
    CHECK_OK(plb_estimator_add(&e, &small));
    CHECK_OK(plb_estimator_add(&e, &large));
    const plb_case wanted = a_case("resnet50", "slow", 16);
    const plb_observation right = made("resnet50", 16, 10e11);
    plb_estimate found = plb_estimate_case(&e, &wanted, 10e11, false);
    CHECK(!found.known);
    CHECK_NEAR(found.first_s, right.first_s, 0.01 * right.first_s);
    CHECK_NEAR(found.later_s, right.later_s, 0.01 * right.later_s);
    plb_estimator_free(&e);
}

static void test_repeats_a_case(void) {
    plb_estimator e = {.time_s = 1};
    plb_observation o = made("resnet18", 8, 2e11);
    snprintf(o.c.input_digest, sizeof o.c.input_digest, "0123456789abcdef");
    o.first_s = 77, o.later_s = 33;
    CHECK_OK(plb_estimator_add(&e, &o));
    const plb_case wanted = a_case("resnet18", "slow", 8);
    plb_estimate found = plb_estimate_case(&e, &wanted, 2e11, false);
    CHECK(found.known && found.first_s == 77 && found.later_s == 33);
    e.proof_only = true; // 6 iterations of samples and 5 of the audit are left out
    CHECK_NEAR(plb_estimate_case(&e, &wanted, 2e11, false).first_s, 77 - 22, 1e-9);
    plb_estimator_free(&e);
}

// A proof's seconds are not taken for those of samples, and samples' not for those of a proof.
static void test_proofs_alone(void) {
    plb_estimator e = {.time_s = 1, .proof_only = true};
    const plb_observation timed = made("resnet18", 8, 2e11);
    plb_observation proven = made("resnet18", 16, 4e11);
    proven.first_s = 12 + 5 * 4.0, proven.later_s = NAN, proven.proof_only = true;
    const plb_case wanted = a_case("resnet50", "slow", 16);
    CHECK_OK(plb_estimator_add(&e, &timed));
    CHECK_NEAR(plb_estimate_case(&e, &wanted, 10e11, false).first_s, 12 + 5 * 10.0, 0.1);
    CHECK_OK(plb_estimator_add(&e, &proven));
    CHECK_NEAR(plb_estimate_case(&e, &wanted, 10e11, false).first_s, 12 + 5 * 10.0, 0.1);
    e.proof_only = false;
    CHECK_NEAR(plb_estimate_case(&e, &proven.c, 4e11, false).first_s, 12 + 16 * 4.0, 0.1);
    plb_estimator_free(&e);
}

// A call that costs 50 ms whatever it computes, as on a crowded machine, does not make a model of
// 3,000 times the operations cost 3,000 times as much.
static void test_cost_of_a_call(void) {
    plb_estimator e = {.time_s = 1};
    plb_observation o = made("mnist_cnn", 1, 1e8);
    o.iteration_s = 0.05;
    o.first_s = 12 + 1.95, o.later_s = 5 + 1.15; // 0.05 + 0.1 + a second of samples
    CHECK_OK(plb_estimator_add(&e, &o));
    const plb_case wanted = a_case("resnet50", "slow", 16);
    plb_estimate found = plb_estimate_case(&e, &wanted, 3e11, false); // 3 s at the assumed pace
    CHECK(found.later_s > 5 + 7 * 3.0 && found.later_s < 6 + 7 * 3.1);
    plb_estimator_free(&e);
}

// One start of a hundred times the length moves an estimate, but is not all that counts.
static void test_one_slow_start(void) {
    plb_estimator e = {.time_s = 1};
    for (int i = 0; i < 9; i++) {
        plb_observation o = made("resnet18", 8 + i, 2e11);
        if (i == 4) o.later_s = 500;
        CHECK_OK(plb_estimator_add(&e, &o));
    }
    const plb_case wanted = a_case("resnet50", "slow", 16);
    double later_s = plb_estimate_case(&e, &wanted, 10e11, false).later_s;
    CHECK_SAY(later_s < 5 * 2 + 7 * 10.0, "%.1f s", later_s);
    plb_estimator_free(&e);
}

static void test_refusals_cost_little(void) {
    plb_estimator e = {.time_s = 1};
    const plb_observation o = {.c = a_case("mnist_cnn", "infers-only", 1),
                               .flops = 1e8,
                               .iteration_s = NAN,
                               .first_s = NAN,
                               .later_s = NAN,
                               .refused = true};
    CHECK_OK(plb_estimator_add(&e, &o));
    plb_case wanted = a_case("resnet50", "infers-only", 16);
    plb_estimate found = plb_estimate_case(&e, &wanted, 1e12, false);
    CHECK(found.first_s < 1 && found.later_s == 0);
    snprintf(wanted.task, sizeof wanted.task, "infer"); // says nothing of another task
    CHECK(plb_estimate_case(&e, &wanted, 1e12, false).first_s > 10);
    plb_estimator_free(&e);
}

// One start after the first was never seen: it is guessed, not taken for nothing.
static void test_one_start(void) {
    plb_estimator e = {.time_s = 1};
    plb_observation o = made("resnet18", 8, 2e11);
    o.later_s = NAN;
    CHECK_OK(plb_estimator_add(&e, &o));
    const plb_case wanted = a_case("resnet18", "slow", 8);
    CHECK(plb_estimate_case(&e, &wanted, 2e11, false).later_s >= 14);
    plb_estimator_free(&e);
}

// Half an hour is left, and goes by; an estimate that is doubled for a second moves what is told
// little, one that stays doubled wins.
static void test_counts_down(void) {
    const int64_t second = 1000000000;
    plb_countdown c = {0};
    CHECK(plb_countdown_tell(&c, second, 1800) == 1800);
    CHECK_NEAR(plb_countdown_tell(&c, 61 * second, 1740), 1740, 1e-9);
    CHECK_NEAR(plb_countdown_tell(&c, 63 * second, 3480), 1738, 40);
    double told = 0;
    for (int64_t s = 64; s < 1000; s += 10) {
        told = plb_countdown_tell(&c, s * second, 3480 - (double)(s - 64));
    }
    CHECK_NEAR(told, 3480 - 930, 250);
    for (int64_t s = 1000; s <= 3600; s += 10) { // the truth again, to the end
        told = plb_countdown_tell(&c, s * second, fmax(0, 3600 - (double)s));
    }
    CHECK(told < 15);
}

static const check_test tests[] = {
    {"learns a stack", test_learns_a_stack}, {"repeats a case", test_repeats_a_case},
    {"proofs alone", test_proofs_alone},     {"cost of a call", test_cost_of_a_call},
    {"one slow start", test_one_slow_start}, {"refusals cost little", test_refusals_cost_little},
    {"one start", test_one_start},           {"counts down", test_counts_down},
};
CHECK_MAIN(tests)
