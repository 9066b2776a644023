// SPDX-License-Identifier: Apache-2.0
// The losses that other ops compose, against their formulas; and where formulas have poles.
#include "small_program.h"

enum { N = 4 };
static const double x_data[N] = {0.2, 0.9, 0.5, 0.05}, t_data[N] = {1, 0.25, 0.5, 0};

typedef plb_value (*loss)(plb_graph *g, plb_value x, plb_value target, plb_reduction how);

static plb_value smooth(plb_graph *g, plb_value x, plb_value target, plb_reduction how) {
    return plb_smooth_l1(g, x, target, 0.5, how);
}

static double term_mse(double x, double t) {
    return (x - t) * (x - t);
}

static double term_l1(double x, double t) {
    return fabs(x - t);
}

static double term_smooth(double x, double t) {
    double d = fabs(x - t);
    return d < 0.5 ? d * d / (2 * 0.5) : d - 0.25;
}

static double term_bce(double x, double t) {
    return -(t * log(x) + (1 - t) * log(1 - x));
}

static double term_bce_logits(double x, double t) {
    return term_bce(1 / (1 + exp(-x)), t);
}

static double term_kl(double x, double t) {
    return t == 0 ? 0 : t * (log(t) - x);
}

static const struct {
    const char *name;
    loss build;
    double (*term)(double x, double t);
} losses[] = {{"mse", plb_mse, term_mse},
              {"l1", plb_l1, term_l1},
              {"smooth l1", smooth, term_smooth},
              {"bce", plb_bce, term_bce},
              {"bce logits", plb_bce_logits, term_bce_logits},
              {"kl", plb_kl, term_kl}};
enum { N_LOSSES = sizeof losses / sizeof *losses };

static void values_follow_their_formulas(void) {
    for (int i = 0; i < N_LOSSES; i++) {
        for (int how = PLB_REDUCE_MEAN; how <= PLB_REDUCE_NONE; how++) {
            small_program p = small_program_new();
            plb_value x = small_vector(&p, "x", N, x_data), t = small_vector(&p, "t", N, t_data);
            double found[N] = {0}, sum = 0;
            bool reduced = how != PLB_REDUCE_NONE;
            small_run(&p, losses[i].build(p.graph, x, t, how), reduced ? 1 : N, found);
            for (int k = 0; k < N; k++) {
                double term = losses[i].term(x_data[k], t_data[k]);
                sum += term;
                if (!reduced) CHECK_NEAR(found[k], term, 1e-14);
            }
            if (reduced) CHECK_NEAR(found[0], how == PLB_REDUCE_SUM ? sum : sum / N, 1e-14);
            small_program_free(&p);
        }
    }
}

static void gradients_follow_differences(void) {
    const double step = 1e-6;
    for (int i = 0; i < N_LOSSES; i++) {
        small_program p = small_program_new();
        plb_value x = small_vector(&p, "x", N, x_data), t = small_vector(&p, "t", N, t_data), dx;
        plb_value sum = losses[i].build(p.graph, x, t, PLB_REDUCE_SUM);
        plb_gradients(p.graph, sum, &x, 1, &dx);
        double found[N] = {0};
        small_run(&p, dx, N, found);
        for (int k = 0; k < N; k++) {
            double a = x_data[k], b = t_data[k];
            if (losses[i].term == term_l1 && a == b) continue; // its corner
            double expected = losses[i].term(a + step, b) - losses[i].term(a - step, b);
            CHECK_SAY(fabs(found[k] - expected / (2 * step)) < 1e-8 * (1 + fabs(found[k])),
                      "%s: %.12g against %.12g", losses[i].name, found[k], expected / (2 * step));
        }
        small_program_free(&p);
    }
}

// PyTorch bounds the logarithms by -100 too; its gradient there is about 1e12, ours is 0.
static void cross_entropy_of_certainty_is_finite(void) {
    const double p_data[N] = {0, 1, 0, 1}, certain[N] = {0, 1, 1, 0};
    small_program p = small_program_new();
    plb_value x = small_vector(&p, "x", N, p_data), t = small_vector(&p, "t", N, certain), dx;
    plb_value terms = plb_bce(p.graph, x, t, PLB_REDUCE_NONE);
    plb_gradients(p.graph, plb_sum(p.graph, terms, 0, false), &x, 1, &dx);
    plb_value parts[2] = {terms, dx};
    double found[2 * N] = {0};
    small_run(&p, plb_concat(p.graph, parts, 2, 0), 2 * N, found);
    for (int k = 0; k < N; k++) {
        CHECK_NEAR(found[k], k < 2 ? 0 : 100, 0);
        CHECK(isfinite(found[N + k]));
    }
    small_program_free(&p);
}

static void logits_may_be_large(void) {
    const double x_large[N] = {800, -800, 800, -800}, target[N] = {1, 0, 0, 1};
    small_program p = small_program_new();
    plb_value x = small_vector(&p, "x", N, x_large), t = small_vector(&p, "t", N, target);
    double found[N] = {0};
    small_run(&p, plb_bce_logits(p.graph, x, t, PLB_REDUCE_NONE), N, found);
    for (int k = 0; k < N; k++) CHECK_NEAR(found[k], k < 2 ? 0 : 800, 1e-12);
    small_program_free(&p);
}

static const check_test tests[] = {
    {"values follow their formulas", values_follow_their_formulas},
    {"gradients follow differences", gradients_follow_differences},
    {"cross entropy of certainty is finite", cross_entropy_of_certainty_is_finite},
    {"logits may be large", logits_may_be_large},
};
CHECK_MAIN(tests)
