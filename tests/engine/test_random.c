// SPDX-License-Identifier: Apache-2.0
// Uniform numbers keep below their upper bound in every dtype, drawn or as first values: rounded to
// 16 bits one in some hundred would reach it.
#include "check.h"
#include "engine/ops/random.h"
#include "plumb/plumb.h"

enum { N = 1 << 16 };

typedef struct range {
    plb_dtype dtype;
    double low, high, most; // most: the dtype's largest number below high
} range;

static const range ranges[] = {
    {PLB_F64, 1, 2, 2 - 0x1p-52},    {PLB_F32, 1, 2, 2 - 0x1p-23},
    {PLB_F16, 1, 2, 2 - 0x1p-10},    {PLB_BF16, 1, 2, 2 - 0x1p-7},
    {PLB_BF16, 0, 1, 1 - 0x1p-8},    {PLB_F16, -1, 1, 1 - 0x1p-11},
    {PLB_BF16, -3, -2, -2 - 0x1p-6}, {PLB_BF16, 0.25, 0.3, 0.298828125},
    {PLB_F16, -1, 0, -0x1p-24},      {PLB_F16, 0, 1e9, 65504},
};
enum { N_RANGES = sizeof ranges / sizeof *ranges };

static void the_most_is_the_next_below(void) {
    for (int i = 0; i < N_RANGES; i++) {
        const double most = plb_uniform_most(ranges[i].dtype, ranges[i].low, ranges[i].high);
        CHECK_SAY(most == ranges[i].most, "%s below %g: expected %a, found %a",
                  plb_dtype_name(ranges[i].dtype), ranges[i].high, ranges[i].most, most);
    }
    CHECK(plb_uniform_most(PLB_F32, 2, 2) == INFINITY); // nothing is in [2, 2)
}

// The largest of `t`; how many are at the bound of `r` or past it.
static int reach(const plb_tensor *t, const range *r, double *largest) {
    int past = 0;
    *largest = -INFINITY;
    for (int64_t i = 0; i < N; i++) {
        const double value = plb_load_f64(t->data, t->dtype, i);
        *largest = fmax(*largest, value);
        past += value >= r->high;
    }
    return past;
}

static void check_program(const range *r, plb_level level) {
    plb_model *model = plb_model_new();
    plb_graph *g;
    plb_plan *plan = NULL;
    plb_tensor t;
    double largest;
    CHECK_OK(plb_model_program(model, "p", &g));
    const plb_shape shape = plb_shape_of(N);
    const plb_init init = {PLB_INIT_UNIFORM, r->low, r->high};
    plb_output(g, "drawn", plb_random_uniform(g, r->dtype, &shape, r->low, r->high));
    plb_output(g, "first", plb_param(g, "w", r->dtype, &shape, PLB_ROLE_PARAMETER, init));
    CHECK_OK(plb_plan_new(g, &(plb_plan_options){.level = level, .threads = 1}, &plan));
    CHECK_OK(plb_plan_run(plan));
    const char *const names[] = {"drawn", "first"};
    for (int k = 0; k < 2; k++) {
        CHECK_OK(plb_plan_output(plan, names[k], &t));
        const int past = reach(&t, r, &largest);
        CHECK_SAY(past == 0, "%s, %s below %g: %d numbers are not", names[k],
                  plb_dtype_name(r->dtype), r->high, past);
        if (r->dtype == PLB_BF16) CHECK(largest == r->most); // so many numbers reach it
    }
    plb_plan_free(plan);
    plb_model_free(model);
}

static void uniform_numbers_keep_below_the_bound(void) {
    for (int i = 0; i < N_RANGES; i++) {
        check_program(&ranges[i], PLB_LEVEL_PLAN);
        check_program(&ranges[i], PLB_LEVEL_INTERP);
    }
}

static const check_test tests[] = {
    {"the most is the next below", the_most_is_the_next_below},
    {"uniform numbers keep below the bound", uniform_numbers_keep_below_the_bound},
};
CHECK_MAIN(tests)
