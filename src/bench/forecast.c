// SPDX-License-Identifier: Apache-2.0
// How long a bench will take, or what is left of it.
#include <math.h>

#include "base/core/status.h"
#include "bench/matrix.h"

static const double reference_flops = 20e9; // a second, in f64

static double case_estimate_s(const plb_bench *b, const plb_bench_case *c, bool *known) {
    plb_estimate e =
        plb_estimate_case(&b->estimator, &c->c, b->groups[c->group].facts.flops, !c->stack->folder);
    *known |= e.known;
    return e.first_s + (b->options.verify ? 0 : (b->options.starts - 1) * e.later_s);
}

// A reference is made for a group that never ran.
static double group_estimate_s(const plb_bench *b, const plb_group *g) {
    double sum = 0;
    bool known = false;
    for (int i = 0; i < g->count; i++) {
        const plb_bench_case *c = &b->cases[g->first + i];
        if (!c->ended) sum += fmax(0, case_estimate_s(b, c, &known) - (double)c->spent_ns / 1e9);
    }
    if (sum == 0 || known || g->has_reference) return sum;
    double cost = g->facts.flops * (g->facts.training ? 12 : 2) / reference_flops;
    return sum + fmin(cost, 2 * b->options.proof_budget_s);
}

double plb_bench_estimate_s(const plb_bench *b) {
    double sum = 0;
    for (int i = 0; i < b->group_count; i++) sum += group_estimate_s(b, &b->groups[i]);
    return sum;
}

// Nothing is said where there is no store yet, or another program's.
plb_status plb_bench_learn(plb_bench *b) {
    plb_store *store = NULL;
    plb_status status = plb_store_open_existing(b->options.store, &store);
    b->estimator.time_s = b->options.time_s / b->options.starts;
    b->estimator.proof_only = b->options.verify;
    if (status) return status == PLB_ENOMEM ? status : PLB_OK;
    for (int i = 0; i < b->case_count && b->cases[i].table == 0 && !status; i++) {
        status = plb_estimator_learn(&b->estimator, store, b->cases[i].c.stack);
    }
    plb_store_close(store);
    return status == PLB_ENOMEM ? status : PLB_OK;
}

plb_status plb_bench_observe(plb_bench *b, const plb_bench_case *c) {
    const double unknown = (double)NAN;
    bool refused = c->failure.outcome == PLB_OUTCOME_REFUSED;
    int later = c->starts - 1;
    if (c->failure.outcome != PLB_OUTCOME_OK && !refused) return PLB_OK;
    const plb_observation o = {
        .c = c->c,
        .flops = b->groups[c->group].facts.flops,
        .iteration_s = c->iteration_ns > 0 ? c->iteration_ns / 1e9 : unknown,
        .first_s = c->first_spent_ns && !refused ? (double)c->first_spent_ns / 1e9 : unknown,
        .later_s = later > 0 ? (double)(c->spent_ns - c->first_spent_ns) / 1e9 / later : unknown,
        .proof_only = b->options.verify,
        .refused = refused};
    return plb_estimator_add(&b->estimator, &o);
}
