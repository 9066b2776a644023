// SPDX-License-Identifier: Apache-2.0
// A start takes what its stack needs to come up (imports, compiles, loads), which is learnt as what
// is left of a start's time when its iterations are taken off, and its iterations.
#include "bench/estimate.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

static const double assumed_flops = 50e9; // a second and thread, in f32, where nothing is known
static const double up_own_s = 0.2, up_other_s = 4, refused_s = 0.5;
static const double long_s = 0.2;   // iterations above it are counted one by one
static const double least_s = 1e-9; // below it nothing is told apart
static const double audit_s = 0.6, warmup_s = 0.06;

void plb_estimator_free(plb_estimator *e) {
    plb_free(e->list);
    *e = (plb_estimator){0};
}

plb_status plb_estimator_add(plb_estimator *e, const plb_observation *o) {
    if (e->count == e->capacity) {
        int more = e->capacity ? 2 * e->capacity : 64;
        plb_observation *list = plb_realloc_array(e->list, (size_t)more, sizeof *list);
        if (!list) return plb_fail(PLB_ENOMEM, "out of memory for an estimate");
        e->list = list, e->capacity = more;
    }
    e->list[e->count++] = *o;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- the store
static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static plb_status add_row(plb_estimator *e, const plb_measurement_row *row) {
    plb_observation o;
    json_t *results = row->results ? json_loads(row->results, 0, NULL) : NULL;
    const json_t *spent = json_object_get(results, "spent_s");
    o = (plb_observation){.flops = number(results, "flops"),
                          .iteration_s = number(results, "iteration_ns") / 1e9,
                          .first_s = number(spent, "first"),
                          .later_s = number(spent, "later"),
                          .refused = row->outcome && strcmp(row->outcome, "refused") == 0};
    json_decref(results);
    // Of stores that another version wrote, nothing is learnt.
    if (plb_case_parse(row->keys, &o.c) || (!spent && !o.refused)) return PLB_OK;
    return plb_estimator_add(e, &o);
}

plb_status plb_estimator_learn(plb_estimator *e, plb_store *store, const char *stack) {
    enum { NEWEST = 300 };
    plb_measurement_row *rows = NULL;
    size_t count = 0;
    const plb_measurement_filter filter = {.stack = stack, .newest = NEWEST};
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory for an estimate");
    plb_status status = plb_store_measurements(store, &filter, arena, &rows, &count);
    for (size_t i = 0; i < count && !status; i++) status = add_row(e, &rows[i]);
    plb_arena_free(arena);
    return status;
}

// ---------------------------------------------------------------------------- the model
// What a start takes beside coming up, with iterations of t seconds: warm-up and samples; what is
// checked besides in the first one.
static double samples_s(const plb_estimator *e, double t) {
    return fmax(warmup_s, 2 * t) + fmax(e->time_s, 4 * t);
}

static double audit_rest_s(double t) {
    return t > long_s ? 5 * t : audit_s;
}

static double timing_s(const plb_estimator *e, double t) {
    return audit_rest_s(t) + samples_s(e, t);
}

static double first_rest_s(const plb_estimator *e, bool proof_only, double t) {
    const double proof = (1 + 1 + 3) * t;
    return proof_only ? proof : proof + timing_s(e, t);
}

static double later_rest_s(const plb_estimator *e, double t) {
    return t + samples_s(e, t);
}

static bool same_case(const plb_case *a, const plb_case *b) {
    if (strcmp(a->model, b->model) != 0 || a->batch != b->batch) return false; // soon told
    plb_case x = *a, y = *b;
    plb_case_difference differences[PLB_CASE_MAX_DIFFERENCES];
    memcpy(x.input_digest, y.input_digest, sizeof x.input_digest);
    return plb_case_differences(&x, &y, differences) == 0;
}

static bool same_work(const plb_observation *o, const plb_case *c) {
    return strcmp(o->c.stack, c->stack) == 0 && strcmp(o->c.task, c->task) == 0 &&
           strcmp(o->c.device, c->device) == 0;
}

// A mean of logs, so that one start that took ten times as long on a busy machine is not all that
// counts.
typedef struct recent {
    double sum, weight;
} recent;

static void note(recent *r, double value, double weight) {
    if (!isfinite(value)) return;
    r->sum += weight * log(fmax(value, least_s)), r->weight += weight;
}

static double mean_or(const recent *r, double fallback) {
    return r->weight > 0 ? exp(r->sum / r->weight) : fallback;
}

// How near an observation is: the same model teaches more than another.
static double nearness(const plb_observation *o, const plb_case *c) {
    double near = strcmp(o->c.model, c->model) == 0 ? 20 : 1;
    return o->c.batch == c->batch ? 2 * near : near;
}

// What the observed iteration would take with so many operations. Small models say more of a
// stack's cost of a call than of its pace: the further the step up, the less theirs counts.
static double scaled_s(const plb_observation *o, double flops, double assumed) {
    const double trusted = 4, forgotten = 100; // times the operations
    if (flops <= o->flops) return o->iteration_s * flops / o->flops;
    double doubt = log(flops / o->flops / trusted) / log(forgotten / trusted);
    doubt = fmin(1, fmax(0, doubt));
    double pace = pow(o->iteration_s / o->flops, 1 - doubt) * pow(1 / assumed, doubt);
    return o->iteration_s + (flops - o->flops) * pace;
}

static double guess_iteration_s(const plb_estimator *e, const plb_case *c, double flops) {
    recent times = {0};
    double assumed = assumed_flops * (c->threads > 0 ? (double)c->threads : 1);
    for (int i = 0; i < e->count; i++) {
        const plb_observation *o = &e->list[i];
        if (!same_work(o, c) || !(o->flops > 0) || o->c.threads != c->threads) continue;
        if (o->iteration_s > 0) note(&times, scaled_s(o, flops, assumed), nearness(o, c));
    }
    return mean_or(&times, flops / assumed);
}

static double left_of(double spent_s, double rest_s) {
    return isnan(spent_s) ? (double)NAN : fmax(0, spent_s - rest_s);
}

// Of a case that ran before.
static plb_estimate repeat(const plb_estimator *e, const plb_observation *o, double t) {
    if (isfinite(o->iteration_s)) t = o->iteration_s;
    double first = o->first_s + (o->proof_only ? timing_s(e, t) : 0);
    if (e->proof_only) first = fmax(first - timing_s(e, t), refused_s);
    return (plb_estimate){first, isfinite(o->later_s) ? o->later_s : later_rest_s(e, t), true};
}

plb_estimate plb_estimate_case(const plb_estimator *e, const plb_case *c, double flops, bool own) {
    recent up_first = {0}, up_later = {0};
    double tried = 0, refused = 0, t = guess_iteration_s(e, c, flops);
    for (int i = e->count - 1; i >= 0; i--) {
        const plb_observation *o = &e->list[i];
        if (!same_work(o, c)) continue;
        bool same = same_case(&o->c, c);
        if (same && o->refused) return (plb_estimate){refused_s, 0, true};
        if (same && isfinite(o->first_s)) return repeat(e, o, t);
        double near = nearness(o, c);
        tried += near, refused += o->refused ? near : 0;
        if (o->refused || !isfinite(o->iteration_s)) continue;
        note(&up_first, left_of(o->first_s, first_rest_s(e, o->proof_only, o->iteration_s)), near);
        note(&up_later, left_of(o->later_s, later_rest_s(e, o->iteration_s)), near);
    }
    if (tried > 0 && refused > 0.9 * tried) return (plb_estimate){refused_s, 0, false};
    double up = own ? up_own_s : up_other_s;
    double first = mean_or(&up_first, up), later = mean_or(&up_later, fmin(up, first));
    return (plb_estimate){first + first_rest_s(e, e->proof_only, t), later + later_rest_s(e, t),
                          false};
}

// ---------------------------------------------------------------------------- telling
double plb_countdown_tell(plb_countdown *c, int64_t now_ns, double estimate_s) {
    const double least = 10;
    double gone_s = (double)(now_ns - c->at_ns) / 1e9;
    if (c->at_ns) {
        double told = fmax(0, c->left_s - gone_s);
        double follows_s = fmax(least, 0.1 * told);
        c->left_s = told + gone_s / (gone_s + follows_s) * (estimate_s - told);
    } else {
        c->left_s = estimate_s;
    }
    c->at_ns = now_ns;
    return c->left_s;
}
