// SPDX-License-Identifier: Apache-2.0
// Measures of a result against hand-made numbers, and what is allowed of one.
#include <math.h>
#include <stdio.h>

#include "bench/tolerance.h"
#include "check.h"

enum { N = 4 };

static double error_of(plb_result_kind kind, const double *reference, const float *value) {
    const plb_tensor found =
        plb_tensor_dense((void *)value, PLB_F32, &plb_shape_of(N), (plb_layout){0});
    return plb_result_error(kind, reference, &found, NULL, 0);
}

static void errors_are_relative(void) {
    const double reference[N] = {1, -2, 4, 0};
    const float value[N] = {1, -2, 4.5f, 0.25f};
    CHECK(error_of(PLB_RESULT_OUTPUT, reference, value) == 0.5 / 4);
    double expected = sqrt((0.25 + 0.0625) / 4) / sqrt(21.0 / 4);
    CHECK(fabs(error_of(PLB_RESULT_GRADIENT, reference, value) - expected) < 1e-15);
}

static void what_is_no_number_must_be_none(void) {
    const double reference[N] = {1, NAN, INFINITY, -2};
    const float same[N] = {1, NAN, INFINITY, -2}, off[N] = {1, NAN, INFINITY, -2.5f};
    const float made_up[N] = {1, 12345, INFINITY, -2}, turned[N] = {1, NAN, -INFINITY, -2};
    const float lost[N] = {NAN, NAN, INFINITY, -2};
    for (int kind = 0; kind < PLB_RESULT_KINDS; kind++) {
        CHECK(error_of(kind, reference, same) == 0);
        CHECK(error_of(kind, reference, made_up) == HUGE_VAL);
        CHECK(error_of(kind, reference, turned) == HUGE_VAL);
        CHECK(error_of(kind, reference, lost) == HUGE_VAL);
        double found = error_of(kind, reference, off);
        CHECK_SAY(found >= 0.15 && found <= 0.26, "%g", found); // an infinity is no size
    }
}

static void rounding_only_takes_away(void) {
    plb_case c;
    plb_case_init(&c);
    snprintf(c.autocast, sizeof c.autocast, "bf16");
    const double eps = 0x1p-7, limit = plb_tolerance(&c, PLB_RESULT_OUTPUT, 9);
    CHECK(limit == 5 * eps * 3);
    CHECK(plb_tolerance_rounded(&c, PLB_RESULT_OUTPUT, limit, NAN) == limit);
    CHECK(plb_tolerance_rounded(&c, PLB_RESULT_OUTPUT, limit, 1) == limit);
    CHECK(plb_tolerance_rounded(&c, PLB_RESULT_OUTPUT, limit, 0.01) == 3 * 0.01 + 2 * eps);
    CHECK(plb_tolerance_rounded(&c, PLB_RESULT_GRADIENT, limit, 0.01) == 6 * 0.01 + 2 * eps);
}

static const check_test tests[] = {
    {"errors are relative", errors_are_relative},
    {"what is no number must be none", what_is_no_number_must_be_none},
    {"rounding only takes away", rounding_only_takes_away},
};
CHECK_MAIN(tests)
