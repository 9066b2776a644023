// SPDX-License-Identifier: Apache-2.0
// Losses that other ops compose. Terms are of the shape that x and target broadcast to.
#include "plumb/ops.h"

static plb_value reduce(plb_graph *graph, plb_value terms, plb_reduction how) {
    switch (how) {
    case PLB_REDUCE_MEAN: return plb_mean(graph, terms, 0, false);
    case PLB_REDUCE_SUM: return plb_sum(graph, terms, 0, false);
    case PLB_REDUCE_NONE: break;
    }
    return terms;
}

static plb_value number(plb_graph *graph, plb_value like, double value) {
    return plb_scalar(graph, plb_value_type(graph, like).dtype, value);
}

plb_value plb_mse(plb_graph *graph, plb_value x, plb_value target, plb_reduction how) {
    plb_value d = plb_sub(graph, x, target);
    return reduce(graph, plb_mul(graph, d, d), how);
}

plb_value plb_l1(plb_graph *graph, plb_value x, plb_value target, plb_reduction how) {
    return reduce(graph, plb_abs(graph, plb_sub(graph, x, target)), how);
}

// d^2 / (2 beta) where |d| < beta, otherwise |d| - beta / 2.
plb_value plb_smooth_l1(plb_graph *graph, plb_value x, plb_value target, double beta,
                        plb_reduction how) {
    if (beta == 0) return plb_l1(graph, x, target, how);
    plb_value d = plb_sub(graph, x, target), size = plb_abs(graph, d);
    plb_value near = plb_lt(graph, size, number(graph, d, beta));
    plb_value square = plb_affine(graph, plb_mul(graph, d, d), 0.5 / beta, 0);
    return reduce(graph, plb_where(graph, near, square, plb_affine(graph, size, 1, -0.5 * beta)),
                  how);
}

// log p, or log(1 - p), but no less than -100: also where it is infinite, and there with the
// gradient 0.
static plb_value bounded_log(plb_graph *graph, plb_value p, bool of_rest) {
    plb_value pole = number(graph, p, of_rest ? 1 : 0), least = number(graph, p, -100);
    plb_value regular = of_rest ? plb_lt(graph, p, pole) : plb_gt(graph, p, pole);
    plb_value safe = plb_where(graph, regular, p, number(graph, p, 0.5));
    plb_value log = of_rest ? plb_log1p(graph, plb_neg(graph, safe)) : plb_log(graph, safe);
    return plb_where(graph, regular, plb_max(graph, log, least), least);
}

// -(t log p + (1 - t) log(1 - p))
plb_value plb_bce(plb_graph *graph, plb_value p, plb_value target, plb_reduction how) {
    plb_value log_p = bounded_log(graph, p, false), log_q = bounded_log(graph, p, true);
    plb_value rest = plb_affine(graph, target, -1, 1);
    plb_value terms = plb_add(graph, plb_mul(graph, target, log_p), plb_mul(graph, rest, log_q));
    return reduce(graph, plb_neg(graph, terms), how);
}

// The same of p = sigmoid(x): softplus(x) - t x. Beyond 40 softplus(x) is x, even in f64.
plb_value plb_bce_logits(plb_graph *graph, plb_value x, plb_value target, plb_reduction how) {
    plb_value terms = plb_sub(graph, plb_softplus(graph, x, 1, 40), plb_mul(graph, target, x));
    return reduce(graph, terms, how);
}

// t (log t - log_p), and 0 where t = 0.
plb_value plb_kl(plb_graph *graph, plb_value log_p, plb_value target, plb_reduction how) {
    plb_value positive = plb_gt(graph, target, number(graph, target, 0));
    plb_value safe = plb_where(graph, positive, target, number(graph, target, 1));
    plb_value terms = plb_mul(graph, target, plb_sub(graph, plb_log(graph, safe), log_p));
    return reduce(graph, terms, how);
}
