// SPDX-License-Identifier: Apache-2.0
// From two summaries to an effect with a variance. Which part of it is known from where:
//
//   start    the spread between starts: from this measurement's own starts and from the history of
//            the case, pooled by their degrees of freedom, unless the starts now contradict history
//   within   what blocks and samples inside a start leave open: part of the above, since a start's
//            center is seen only through its samples
//   apart    what may have changed on the machine between two measurements that did not take turns
#include "bench/verdict.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "bench/stats.h"

static const double default_margin = 0.01, default_false_rate = 0.005;
// The level of each of the two one-sided tests of equivalence: Schuirmann's, and the usual one.
static const double same_rate = 0.05;
// Starts that differ more than history says by so small a chance show that it is another history.
static const double distrust = 0.01;
// Two runs of unchanged software differ by about 1 % where nobody has measured it: TorchBench's
// published run-to-run deltas have a median of 1.84 % between the extremes of several runs. Taken
// as seen with 4 degrees of freedom, so that a few A/A runs outweigh it.
static const double apart_prior = 1e-4, apart_prior_dof = 4;

// A sum of variances with Satterthwaite's degrees of freedom.
typedef struct mix {
    double sum, squares;
} mix;

static void mix_add(mix *m, double variance, double dof) {
    m->sum += variance;
    if (dof > 0) m->squares += variance * variance / dof;
}

static double mix_dof(const mix *m) {
    return m->squares > 0 ? m->sum * m->sum / m->squares : 0;
}

// A start-level variance: what it is and what it stands on.
typedef struct level {
    double variance;
    double dof;      // of a sum of variances as Satterthwaite has it: what quantiles are taken for
    double counted;  // just added up: does not depend on how the variances came out
    bool distrusted; // history said otherwise
} level;

// History's estimate and the starts' own, pooled; the starts' own alone if they are beyond it.
static level pool(level history, level own) {
    if (!(history.dof > 0)) return own;
    if (!(own.dof > 0)) return history;
    double f = own.variance / history.variance;
    if (plb_fisher_tail(f, own.dof, history.dof) < distrust) {
        own.distrusted = true;
        return own;
    }
    double dof = history.dof + own.dof;
    return (level){(history.dof * history.variance + own.dof * own.variance) / dof, dof,
                   history.counted + own.counted, false};
}

static const char *const verdict_names[] = {"UNSURE", "SAME", "SLOWER", "FASTER"};
static const char *const design_names[] = {"interleaved", "alternate", "apart"};

const char *plb_verdict_name(plb_verdict verdict) {
    return verdict_names[verdict];
}

const char *plb_design_name(plb_design design) {
    return design_names[design];
}

// ---------------------------------------------------------------------------- interleaved
// The effect inside one pair of starts: sweep by sweep, so that what drifts slowly is in both.
static plb_status pair_effect(const plb_start_summary *a, const plb_start_summary *b,
                              plb_location *out) {
    int64_t sweeps = a->sweep_count < b->sweep_count ? a->sweep_count : b->sweep_count;
    double *effects = plb_alloc_array((size_t)(sweeps > 0 ? sweeps : 1), 3 * sizeof *effects);
    if (!effects) return plb_fail(PLB_ENOMEM, "out of memory");
    size_t n = 0;
    for (int64_t q = 0; q < sweeps; q++) {
        double effect = (double)b->sweep[q] - (double)a->sweep[q];
        if (!isnan(effect)) effects[n++] = effect;
    }
    *out = plb_trimmed_location(effects, n, effects + sweeps);
    plb_free(effects);
    return PLB_OK;
}

static const plb_start_summary *partner_of(const plb_start_summary *start, const plb_side *other) {
    for (int64_t i = 0; i < other->summary->starts; i++)
        if (other->summary->start[i].group == start->group) return &other->summary->start[i];
    return NULL;
}

// History's starts were seen through their samples as today's are. Only where today's leave clearly
// more or less open, by a factor of two, is the difference reckoned in, for neither is known better
// than that.
static level adjust_within(mix *m, double counted, const mix *then, const mix *now) {
    level l = {m->sum, mix_dof(m), counted, false};
    if (now->sum <= 2 * then->sum && now->sum >= then->sum / 2) return l;
    mix_add(m, -then->sum, mix_dof(then));
    mix_add(m, now->sum, mix_dof(now));
    if (m->sum < now->sum) return (level){now->sum, l.dof, counted, false};
    return (level){m->sum, mix_dof(m), counted, false};
}

static level predict_pair(const plb_side *a, const plb_side *b, const mix *within) {
    const plb_spread *ha = &a->history, *hb = &b->history;
    if (!(ha->dof > 0) || !(hb->dof > 0)) return (level){0};
    mix m = {0}, then = {0};
    bool one = a->case_id == b->case_id;
    mix_add(&m, (one ? 2 : 1) * ha->variance, ha->dof);
    if (!one) mix_add(&m, hb->variance, hb->dof);
    mix_add(&then, ha->within, ha->within_dof);
    mix_add(&then, hb->within, hb->within_dof);
    return adjust_within(&m, one ? ha->dof : ha->dof + hb->dof, &then, within);
}

// Fills `out` from the groups that both sides share; false if there are none.
static plb_status compare_paired(const plb_side *a, const plb_side *b, plb_comparison *out,
                                 level *starts, bool *paired) {
    const int64_t most = a->summary->starts;
    double *effects = plb_alloc_array((size_t)(most > 0 ? most : 1), sizeof *effects);
    if (!effects) return plb_fail(PLB_ENOMEM, "out of memory");
    plb_status status = PLB_OK;
    size_t n = 0;
    mix within = {0};
    for (int64_t i = 0; i < most && a->run == b->run; i++) {
        const plb_start_summary *start = &a->summary->start[i];
        const plb_start_summary *partner = start->group >= 0 ? partner_of(start, b) : NULL;
        plb_location location;
        if (!partner) continue;
        PLB_TRY_OUT(pair_effect(start, partner, &location));
        if (isnan(location.center)) continue;
        effects[n++] = location.center;
        if (!isnan(location.variance)) mix_add(&within, location.variance, location.dof);
    }
    within.sum /= (double)(n ? n : 1), within.squares /= (double)(n ? n * n : 1); // of one pair
    *paired = n > 0;
    if (!n) goto out;
    plb_location all = plb_mean_location(effects, n);
    const double share = 1 / (double)n, dof = (double)n - 1;
    level own = {n > 1 ? all.variance * (double)n : 0, dof, dof, false};
    *starts = pool(predict_pair(a, b, &within), own);
    out->design = PLB_DESIGN_PAIRED;
    out->starts_a = out->starts_b = (int64_t)n;
    out->effect = all.center;
    out->variance = starts->variance * share;
    out->dof = starts->dof;
    out->start_variance = starts->variance;
out:
    plb_free(effects);
    return status;
}

// ---------------------------------------------------------------------------- not interleaved
typedef struct side_facts {
    double center;
    level own, history;
} side_facts;

static side_facts look_at(const plb_side *side) {
    const plb_summary *s = side->summary;
    side_facts f = {.center = NAN};
    const double n = (double)s->starts;
    double squares = 0, mean = 0;
    mix within = {0};
    for (int64_t i = 0; i < s->starts; i++) mean += s->start[i].log_median / n;
    for (int64_t i = 0; i < s->starts; i++) {
        const plb_start_summary *start = &s->start[i];
        squares += (start->log_median - mean) * (start->log_median - mean);
        if (!isnan(start->variance)) mix_add(&within, start->variance / n, start->dof);
    }
    if (s->starts) f.center = mean;
    if (s->starts > 1) f.own = (level){squares / (n - 1), n - 1, n - 1, false};
    if (side->history.dof > 0) {
        const plb_spread *h = &side->history;
        mix m = {0}, then = {0};
        mix_add(&m, h->variance, h->dof);
        mix_add(&then, h->within, h->within_dof);
        f.history = adjust_within(&m, h->dof, &then, &within);
    }
    return f;
}

// Whether the starts of the two took turns: at least two changes of side in the order of time for
// every start of the side that has fewer, but one.
static bool takes_turns(const plb_summary *a, const plb_summary *b) {
    int64_t i = 0, k = 0, changes = 0;
    int last = -1;
    while (i < a->starts || k < b->starts) {
        int side = i == a->starts || (k < b->starts && b->start[k].began_ns < a->start[i].began_ns);
        changes += last >= 0 && side != last;
        last = side;
        i += side == 0, k += side == 1;
    }
    int64_t fewer = a->starts < b->starts ? a->starts : b->starts;
    return fewer >= 2 && changes >= fewer + (fewer > 2);
}

static void add_apart(const plb_side *side, mix *m) {
    const plb_spread *h = &side->history;
    double dof = apart_prior_dof + h->run_dof;
    mix_add(m, (apart_prior_dof * apart_prior + h->run_dof * h->run_variance) / dof, dof);
}

static level compare_sides(const plb_side *a, const plb_side *b, plb_comparison *out) {
    side_facts fa = look_at(a), fb = look_at(b);
    const double na = (double)a->summary->starts, nb = (double)b->summary->starts;
    level ta = pool(fa.history, fa.own), tb = pool(fb.history, fb.own);
    if (a->case_id == b->case_id && !ta.distrusted && !tb.distrusted &&
        fa.own.dof + fb.own.dof > 0) {
        double dof = fa.own.dof + fb.own.dof;
        double variance = (fa.own.dof * fa.own.variance + fb.own.dof * fb.own.variance) / dof;
        level both = {variance, dof, dof, false};
        ta = tb = pool(fa.history, both);
    }
    bool known = ta.dof > 0 && tb.dof > 0;
    mix m = {0};
    if (a->case_id == b->case_id) {
        mix_add(&m, ta.variance * (1 / na + 1 / nb), ta.dof);
    } else {
        mix_add(&m, ta.variance / na, ta.dof);
        mix_add(&m, tb.variance / nb, tb.dof);
    }
    level starts = {.variance = ta.variance + tb.variance,
                    .dof = known ? mix_dof(&m) : 0,
                    .counted = !known                     ? 0
                               : a->case_id == b->case_id ? fmax(ta.counted, tb.counted)
                                                          : ta.counted + tb.counted,
                    .distrusted = ta.distrusted || tb.distrusted};
    out->design = a->run == b->run && takes_turns(a->summary, b->summary) ? PLB_DESIGN_ALTERNATE
                                                                          : PLB_DESIGN_APART;
    if (out->design == PLB_DESIGN_APART) {
        mix rest = {0};
        add_apart(a, &rest);
        add_apart(b, &rest);
        out->rest_variance = rest.sum;
        mix_add(&m, rest.sum, mix_dof(&rest));
    }
    out->starts_a = a->summary->starts, out->starts_b = b->summary->starts;
    out->effect = fb.center - fa.center;
    out->variance = known ? m.sum : NAN;
    out->dof = known ? mix_dof(&m) : 0;
    out->start_variance = starts.variance;
    return starts;
}

// ---------------------------------------------------------------------------- one comparison
static bool never_steady(const plb_summary *s) {
    for (int64_t i = 0; i < s->starts; i++)
        if (!s->start[i].steady && s->start[i].drift) return true;
    return false;
}

static plb_lack find_lack(const plb_comparison *c, const level *starts, const plb_side *a,
                          const plb_side *b) {
    if (isnan(c->effect)) return PLB_LACK_SAMPLES;
    if (c->starts_a < PLB_LEAST_STARTS || c->starts_b < PLB_LEAST_STARTS) return PLB_LACK_STARTS;
    if (starts->counted < PLB_LEAST_DOF) {
        return starts->distrusted ? PLB_LACK_TRUST : PLB_LACK_SPREAD;
    }
    if (c->design != PLB_DESIGN_PAIRED && (never_steady(a->summary) || never_steady(b->summary)))
        return PLB_LACK_DRIFT;
    return PLB_LACK_NOTHING;
}

static double standard_error(double variance) {
    return sqrt(variance) + 1e-9; // equal samples leave no variance, but a clock has its step
}

static double margin_of(const plb_verdict_options *o) {
    return o->margin > 0 ? o->margin : default_margin;
}

static double false_rate_of(const plb_verdict_options *o) {
    return o->false_rate > 0 ? o->false_rate : default_false_rate;
}

plb_status plb_compare(const plb_side *a, const plb_side *b, const plb_verdict_options *options,
                       plb_comparison *out) {
    *out = (plb_comparison){.effect = NAN,
                            .variance = NAN,
                            .ratio = NAN,
                            .low = NAN,
                            .high = NAN,
                            .p_differ = NAN,
                            .p_same = NAN,
                            .detectable = NAN,
                            .design = PLB_DESIGN_APART,
                            .starts_more = -1,
                            .p_differ_adjusted = NAN,
                            .p_same_adjusted = NAN};
    level starts = {0};
    bool paired = false;
    if (a->summary->starts && b->summary->starts) {
        PLB_TRY(compare_paired(a, b, out, &starts, &paired));
        if (!paired) starts = compare_sides(a, b, out);
    }
    if (a->divisor > 0) out->effect += log(a->divisor);
    if (b->divisor > 0) out->effect -= log(b->divisor);
    out->start_dof = starts.dof, out->start_counted = starts.counted;
    out->lack = find_lack(out, &starts, a, b);
    if (isnan(out->effect)) return PLB_OK;
    out->ratio = exp(out->effect);
    if (isnan(out->variance) || !(out->dof > 0)) {
        out->variance = NAN;
        if (out->lack == PLB_LACK_NOTHING) out->lack = PLB_LACK_SPREAD; // starts without any
        return PLB_OK;
    }
    double error = standard_error(out->variance);
    double half = plb_student_quantile(0.975, out->dof) * error, margin = margin_of(options);
    out->low = exp(out->effect - half), out->high = exp(out->effect + half);
    out->p_differ = 2 * plb_student_tail(fabs(out->effect) / error, out->dof);
    double above = plb_student_tail((log1p(margin) - out->effect) / error, out->dof);
    double below = plb_student_tail((out->effect - log1p(-margin)) / error, out->dof);
    out->p_same = fmax(above, below);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- many comparisons
typedef struct ranked {
    double p;
    size_t index;
} ranked;

static int by_p(const void *a, const void *b) {
    double x = ((const ranked *)a)->p, y = ((const ranked *)b)->p;
    return (x > y) - (x < y);
}

// Benjamini and Hochberg's step-up: p times count over rank, made monotone from the largest down.
static void adjust(ranked *list, size_t count) {
    qsort(list, count, sizeof *list, by_p);
    double least = 1;
    for (size_t i = count; i-- > 0;) {
        double p = list[i].p * (double)count / (double)(i + 1);
        least = p < least ? p : least;
        list[i].p = least;
    }
}

static void adjust_all(plb_comparison *c, size_t count, ranked *list) {
    for (int which = 0; which < 2; which++) {
        size_t n = 0;
        for (size_t i = 0; i < count; i++) {
            if (c[i].lack == PLB_LACK_NOTHING)
                list[n++] = (ranked){which ? c[i].p_same : c[i].p_differ, i};
        }
        adjust(list, n);
        for (size_t k = 0; k < n; k++) {
            plb_comparison *at = &c[list[k].index];
            *(which ? &at->p_same_adjusted : &at->p_differ_adjusted) = list[k].p;
        }
    }
}

// Whether the interval whose quantile is that of `p` would be at most `reach` wide on each side.
// The normal quantile is never above Student's, and spares computing that for what is hopeless.
static bool would_reach(double p, double normal, double dof, double error, double reach) {
    return normal * error <= reach && plb_student_quantile(p, dof) * error <= reach;
}

// The smallest number of starts of each side, from `from` on, at which the effect as it stands now
// would get a verdict; −1 if 200 would not do.
static int64_t starts_needed(const plb_comparison *c, const plb_verdict_options *o, int64_t from) {
    const int64_t fewer = c->starts_a < c->starts_b ? c->starts_a : c->starts_b;
    const double gain = c->design == PLB_DESIGN_PAIRED ? 1 : 2, effect = fabs(c->effect);
    // The margin on that side where the effect is.
    const double margin = c->effect < 0 ? -log1p(-margin_of(o)) : log1p(margin_of(o));
    const bool beyond = effect > margin;
    const double p = beyond ? 1 - false_rate_of(o) / 2 : 1 - same_rate;
    const double normal = plb_student_quantile(p, 1e9), reach = beyond ? effect : margin - effect;
    for (int64_t n = from; n <= 200; n++) {
        double more = gain * (double)(n - fewer), dof = c->start_dof + more;
        if (n < PLB_LEAST_STARTS || c->start_counted + more < PLB_LEAST_DOF) continue;
        double error = standard_error(c->start_variance / (double)n + c->rest_variance);
        if (would_reach(p, normal, dof, error, reach)) return n;
    }
    return -1;
}

static void decide_one(plb_comparison *c, const plb_verdict_options *o) {
    const double margin = margin_of(o), false_rate = false_rate_of(o);
    c->verdict = PLB_VERDICT_UNSURE;
    c->starts_more = 0;
    if (!isnan(c->variance)) {
        double error = standard_error(c->variance);
        double reach = plb_student_quantile(1 - false_rate / 2, c->dof) * error;
        c->detectable =
            expm1(fmax(log1p(margin), reach) + plb_student_quantile(0.95, c->dof) * error);
    }
    if (c->lack == PLB_LACK_NOTHING) {
        bool beyond = c->effect > log1p(margin) || c->effect < log1p(-margin);
        if (beyond && c->p_differ_adjusted <= false_rate)
            c->verdict = c->effect > 0 ? PLB_VERDICT_SLOWER : PLB_VERDICT_FASTER;
        else if (c->p_same_adjusted <= same_rate)
            c->verdict = PLB_VERDICT_SAME;
        else
            c->lack = PLB_LACK_WIDTH;
    }
    if (c->verdict != PLB_VERDICT_UNSURE || c->lack == PLB_LACK_DRIFT) return;
    const int64_t fewer = c->starts_a < c->starts_b ? c->starts_a : c->starts_b;
    if (isnan(c->variance)) { // nothing to reckon with: as many as the rules ask for
        int64_t least = c->design == PLB_DESIGN_PAIRED ? PLB_LEAST_DOF + 1 : PLB_LEAST_DOF / 2 + 1;
        c->starts_more = least - fewer;
        return;
    }
    int64_t needed = starts_needed(c, o, fewer + 1);
    c->starts_more = needed < 0 ? -1 : needed - fewer;
}

plb_status plb_decide(plb_comparison *comparisons, size_t count,
                      const plb_verdict_options *options) {
    if (!count) return PLB_OK;
    ranked *list = plb_alloc_array(count, sizeof *list);
    if (!list) return plb_fail(PLB_ENOMEM, "out of memory for %zu comparisons", count);
    adjust_all(comparisons, count, list);
    plb_free(list);
    for (size_t i = 0; i < count; i++) decide_one(&comparisons[i], options);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- words
static const char *reason_of(plb_lack lack) {
    switch (lack) {
    case PLB_LACK_STARTS: return "a verdict takes 3";
    case PLB_LACK_SPREAD: return "how much starts of this case differ is not known yet";
    case PLB_LACK_TRUST: return "these differ far more than earlier ones did";
    default: return "the interval is too wide";
    }
}

void plb_comparison_need(const plb_comparison *c, char *text, size_t size) {
    text[0] = '\0';
    if (c->verdict != PLB_VERDICT_UNSURE || !size) return;
    if (c->lack == PLB_LACK_SAMPLES) {
        snprintf(text, size, "needs samples of both");
    } else if (c->lack == PLB_LACK_DRIFT) {
        snprintf(text, size, "needs a longer --time: a side never got steady");
    } else if (c->starts_more > 0) {
        snprintf(text, size, "needs %" PRId64 " more start%s of each: %s", c->starts_more,
                 c->starts_more == 1 ? "" : "s", reason_of(c->lack));
    } else if (c->rest_variance > 0) {
        snprintf(text, size,
                 "needs both in one run, taking turns: what changed on the machine "
                 "between them is not known well enough");
    } else {
        snprintf(text, size, "lies so near the margin that 200 starts would not tell");
    }
}
