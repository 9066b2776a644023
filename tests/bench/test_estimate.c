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
                             .first_s = 12 + 5 * t + 5 * t + 3 * t + 4 * t,
                             .later_s = 5 + t + 3 * t + 4 * t};
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
    e.proof_only = true; // 7 iterations of samples and 5 of the audit are left out
    CHECK_NEAR(plb_estimate_case(&e, &wanted, 2e11, false).first_s, 77 - 24, 1e-9);
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
    CHECK(plb_estimate_case(&e, &wanted, 2e11, false).later_s >= 16);
    plb_estimator_free(&e);
}

static const check_test tests[] = {
    {"learns a stack", test_learns_a_stack},
    {"repeats a case", test_repeats_a_case},
    {"refusals cost little", test_refusals_cost_little},
    {"one start", test_one_start},
};
CHECK_MAIN(tests)
