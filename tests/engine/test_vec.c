// SPDX-License-Identifier: Apache-2.0
// The vectorised functions against f64: how many units in the last place they are wrong, and what
// they make of infinities, NaNs and the smallest numbers.
#include "check.h"
#include "engine/device/cpu/vec.h"
#include "engine/ops/pointwise.h"

typedef struct range {
    plb_op_id op;
    double low, high;
    double ulps; // allowed, beside 1e-6 of the value where `loose`
} range;

// The worst distance from the f64 value over a dense walk, in units in the last place.
static double worst(const range *r, double *at) {
    enum { N = 200000, BLOCK = 1000 };
    static float x[BLOCK], y[BLOCK];
    const plb_vec *vec = plb_vec_of(plb_cpu_isa());
    double most = 0;
    for (int i = 0; i < N; i += BLOCK) {
        for (int j = 0; j < BLOCK; j++) x[j] = (float)(r->low + (r->high - r->low) * (i + j) / N);
        plb_vec_args v = {.a = x, .b = x, .c = x, .y = y, .n = BLOCK, .alpha = 1, .beta = 20};
        vec->op[r->op](&v);
        for (int j = 0; j < BLOCK; j++) {
            double in[3] = {(double)x[j]}, want = plb_pointwise_f64(r->op, in, 1, 20);
            double ulp = fmax(ldexp(1, ilogb(want) - 23), 0x1p-149);
            double error =
                want == 0 ? ((double)y[j] == 0 ? 0 : INFINITY) : fabs((double)y[j] - want) / ulp;
            if (error > most) most = error, *at = (double)x[j];
        }
    }
    return most;
}

static void functions_are_accurate(void) {
    static const range ranges[] = {
        {PLB_OP_exp, -87, 88.7, 3},     {PLB_OP_exp, -1, 1, 2},
        {PLB_OP_log, 1e-6, 3, 3},       {PLB_OP_log, 1, 1e30, 3},
        {PLB_OP_log, 1e-40, 1e-37, 3},  {PLB_OP_log1p, -0.9999, 3, 3},
        {PLB_OP_log1p, -1e-3, 1e-3, 3}, {PLB_OP_expm1, -1, 1, 3},
        {PLB_OP_expm1, -30, 88, 3},     {PLB_OP_tanh, -12, 12, 4},
        {PLB_OP_tanh, -0.01, 0.01, 4},  {PLB_OP_sigmoid, -80, 80, 4},
        {PLB_OP_erf, -5, 5, 4},         {PLB_OP_erf, -0.01, 0.01, 4},
        {PLB_OP_gelu, -4, 6, 24},       {PLB_OP_gelu_tanh, -3, 6, 24},
        {PLB_OP_silu, -20, 20, 5},      {PLB_OP_mish, -18, 30, 8},
        {PLB_OP_softplus, -80, 19, 5},  {PLB_OP_sin, -3, 3, 3},
        {PLB_OP_sin, -60000, 60000, 3}, {PLB_OP_cos, -60000, 60000, 3},
        {PLB_OP_selu, -10, 3, 5},       {PLB_OP_celu, -10, 3, 4},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        double at = 0, error = worst(&ranges[i], &at);
        CHECK_SAY(error <= ranges[i].ulps, "%s on [%g, %g]: %.2f ulp at %.9g",
                  plb_op_of(ranges[i].op)->name, ranges[i].low, ranges[i].high, error, at);
        if (getenv("PLB_TEST_VERBOSE")) {
            fprintf(stderr, "%s on [%g, %g]: %.2f ulp at %.9g\n", plb_op_of(ranges[i].op)->name,
                    ranges[i].low, ranges[i].high, error, at);
        }
    }
}

static void edges_of_functions(void) {
    static const plb_op_id ops[] = {PLB_OP_exp,   PLB_OP_log,     PLB_OP_log1p,    PLB_OP_expm1,
                                    PLB_OP_tanh,  PLB_OP_sigmoid, PLB_OP_softplus, PLB_OP_erf,
                                    PLB_OP_sin,   PLB_OP_cos,     PLB_OP_relu,     PLB_OP_clamp,
                                    PLB_OP_isnan, PLB_OP_round,   PLB_OP_rsqrt,    PLB_OP_elu};
    const float in[] = {0,   -0.0f, INFINITY, -INFINITY, NAN,   1,      -1,   1e-42f, 3e38f,
                        200, -200,  0.5f,     1.5f,      -2.5f, 1e-20f, 1e6f, 89,     -104};
    enum { N = sizeof in / sizeof *in };
    const plb_vec *vec = plb_vec_of(plb_cpu_isa());
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        float y[N];
        plb_vec_args v = {.a = in, .b = in, .c = in, .y = y, .n = N, .alpha = 1, .beta = 20};
        vec->op[ops[i]](&v);
        for (int j = 0; j < N; j++) {
            double x[3] = {(double)in[j]};
            float want = (float)plb_pointwise_f64(ops[i], x, 1, 20);
            bool same = y[j] == want || (y[j] != y[j] && want != want) ||
                        fabsf(y[j] - want) <= 1e-6f * fabsf(want) + 0x1p-140f;
            CHECK_SAY(same, "%s(%g): %g, expected %g", plb_op_of(ops[i])->name, (double)in[j],
                      (double)y[j], (double)want);
        }
    }
}

// Also where nothing else is in the row, of any length.
static void extremes_reach_infinity(void) {
    const plb_vec *vec = plb_vec_of(plb_cpu_isa());
    float low[200], high[200];
    for (int i = 0; i < 200; i++) low[i] = -INFINITY, high[i] = INFINITY;
    for (int n = 0; n <= 200; n++) {
        CHECK(vec->max(low, n) == -INFINITY && vec->min(high, n) == INFINITY);
    }
    low[131] = -3, high[77] = 5, low[7] = NAN;
    CHECK(vec->max(low, 200) == -3 && vec->min(high, 200) == 5);
}

static const check_test tests[] = {
    {"extremes reach infinity", extremes_reach_infinity},
    {"functions are accurate", functions_are_accurate},
    {"edges of functions", edges_of_functions},
};
CHECK_MAIN(tests)
