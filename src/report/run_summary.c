// SPDX-License-Identifier: Apache-2.0
// A run in sentences, the verdicts first.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "report/run.h"
#include "report/run_cases.h"

enum { MOST_SENTENCES = 12, MOST_UNSURE = 3 };

// "torch-eager takes 2.31 times as long as plumb-plan (95 % interval: 2.28 to 2.34): mnist_cnn …"
static void say_pair(const plb_run_cases *all, plb_document *d, const plb_run_case *c) {
    const plb_comparison *k = &c->pair->comparison;
    const plb_run_group *g = &all->group[c->group];
    char need[256];
    if (isnan(k->ratio)) return;
    plb_comparison_need(k, need, sizeof need);
    const bool several = all->groups > 1;
    const char *of = several ? " (" : "", *title = several ? g->title : "",
               *end = several ? ")" : "";
    if (k->verdict == PLB_VERDICT_UNSURE) {
        char fits[96] = "";
        if (!isnan(k->low) && !isnan(k->high))
            snprintf(fits, sizeof fits, ", but anything from %.2f to %.2f fits", k->low, k->high);
        plb_document_verdict(
            d, PLB_TONE_UNSURE, "UNSURE", "%s against %s%s%s%s: %.2f times as long%s%s%s.", c->name,
            g->floor->name, of, title, end, k->ratio, fits, *need ? "; a verdict " : "", need);
        return;
    }
    const int digits = k->ratio < 10 ? 2 : k->ratio < 100 ? 1 : 0;
    plb_document_verdict(d, plb_verdict_tone(k->verdict), plb_verdict_name(k->verdict),
                         "%s takes %.*f times as long as %s%s%s%s; 95 %% interval %.*f to %.*f.",
                         c->name, digits, k->ratio, g->floor->name, of, title, end, digits, k->low,
                         digits, k->high);
}

// Where there are many pairs: how often each stack got which verdict.
typedef struct tally {
    const char *stack;
    int64_t verdicts[4];
    double log_sum;
    int64_t pairs;
} tally;

static size_t count_stacks(const plb_run_cases *all, tally *tallies, size_t most) {
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++) {
        const plb_run_case *c = &all->item[i];
        size_t k = 0;
        if (!c->pair || isnan(c->pair->comparison.ratio)) continue;
        while (k < count && strcmp(tallies[k].stack, c->name) != 0) k++;
        if (k == count && count == most) continue;
        if (k == count) tallies[count++] = (tally){.stack = c->name};
        tallies[k].verdicts[c->pair->comparison.verdict]++;
        tallies[k].log_sum += log(c->pair->comparison.ratio);
        tallies[k].pairs++;
    }
    return count;
}

static void say_tallies(const plb_run_cases *all, plb_document *d) {
    tally tallies[MOST_SENTENCES];
    const size_t count = count_stacks(all, tallies, MOST_SENTENCES);
    for (size_t i = 0; i < count; i++) {
        const tally *t = &tallies[i];
        const int64_t slower = t->verdicts[PLB_VERDICT_SLOWER];
        const int64_t faster = t->verdicts[PLB_VERDICT_FASTER];
        const int64_t same = t->verdicts[PLB_VERDICT_SAME];
        const int64_t most = slower > faster ? slower : faster;
        const char *word = same > most                        ? "SAME"
                           : most == 0 || 2 * most < t->pairs ? "MIXED"
                           : slower >= faster                 ? "SLOWER"
                                                              : "FASTER";
        const plb_tone tone = *word == 'M'      ? PLB_TONE_UNSURE
                              : slower > faster ? PLB_TONE_BAD
                                                : PLB_TONE_GOOD;
        plb_document_verdict(d, tone, word,
                             "%s against our lowest level, in %" PRId64
                             " comparisons: slower in %" PRId64 ", faster in %" PRId64
                             ", the same in %" PRId64 ", unsure in %" PRId64
                             "; %.3g times as long on geometric average.",
                             t->stack, t->pairs, slower, faster, same,
                             t->verdicts[PLB_VERDICT_UNSURE], exp(t->log_sum / (double)t->pairs));
    }
}

static bool is_unsure(const plb_run_case *c) {
    return c->pair && !isnan(c->pair->comparison.ratio) &&
           c->pair->comparison.verdict == PLB_VERDICT_UNSURE;
}

static size_t count_unsure(const plb_run_cases *all) {
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++) count += is_unsure(&all->item[i]);
    return count;
}

// Many comparisons without a verdict in one sentence, with what the first of them needs.
static void say_unsure(const plb_run_cases *all, plb_document *d, size_t unsure) {
    for (size_t i = 0; i < all->count; i++) {
        char need[256];
        if (!is_unsure(&all->item[i])) continue;
        plb_comparison_need(&all->item[i].pair->comparison, need, sizeof need);
        plb_document_verdict(d, PLB_TONE_UNSURE, "UNSURE",
                             "%zu comparisons have no verdict yet; the first one (%s against %s) "
                             "%s. The table of all cases has their ratios.",
                             unsure, all->item[i].name, all->group[all->item[i].group].floor->name,
                             *need ? need : "needs more samples");
        return;
    }
}

static void say_comparisons(const plb_run_cases *all, plb_document *d) {
    size_t pairs = 0;
    for (size_t i = 0; i < all->count; i++) pairs += all->item[i].pair != NULL;
    if (pairs > MOST_SENTENCES) {
        say_tallies(all, d);
        return;
    }
    static const plb_verdict order[] = {PLB_VERDICT_SLOWER, PLB_VERDICT_FASTER, PLB_VERDICT_SAME,
                                        PLB_VERDICT_UNSURE};
    const size_t unsure = count_unsure(all);
    const int verdicts = unsure > MOST_UNSURE ? 3 : 4;
    for (int k = 0; k < verdicts; k++) {
        for (size_t i = 0; i < all->count; i++) {
            const plb_run_case *c = &all->item[i];
            if (c->pair && c->pair->comparison.verdict == order[k]) say_pair(all, d, c);
        }
    }
    if (verdicts == 3) say_unsure(all, d, unsure);
}

// ---------------------------------------------------------------------------- proof and outcomes
static bool proven_equal(const plb_run_case *c) {
    json_t *proof = c->row->proof ? json_loads(c->row->proof, 0, NULL) : NULL;
    const bool equal = json_is_true(json_object_get(proof, "equal"));
    json_decref(proof);
    return equal;
}

static void say_proof(const plb_run_cases *all, plb_document *d) {
    size_t equal = 0;
    for (size_t i = 0; i < all->count; i++) equal += all->item[i].ok && proven_equal(&all->item[i]);
    if (!all->ok) {
        plb_document_verdict(d, PLB_TONE_BAD, "NOTHING", "No case of this run has a time.");
    } else if (equal == all->ok) {
        plb_document_verdict(d, PLB_TONE_GOOD, "PROVEN",
                             "%s with a time computed the same as the reference in f64, from the "
                             "same weights and batches.",
                             equal == 1 ? "The one case" : "Every case");
    } else {
        plb_document_verdict(d, PLB_TONE_UNSURE, "UNPROVEN",
                             "%zu of %zu cases with a time have no proof that they computed the "
                             "same.",
                             all->ok - equal, all->ok);
    }
}

static void say_outcomes(const plb_run_cases *all, plb_document *d) {
    size_t told = 0, failed = 0;
    for (size_t i = 0; i < all->count; i++) {
        const plb_run_case *c = &all->item[i];
        const bool invalid = c->row->outcome && strcmp(c->row->outcome, "invalid") == 0;
        const bool refused = c->row->outcome && strcmp(c->row->outcome, "refused") == 0;
        if (c->row->outcome && strcmp(c->row->outcome, "ok") == 0) continue;
        failed++;
        if (told == MOST_SENTENCES / 2) continue;
        told++;
        plb_document_verdict(d, refused ? PLB_TONE_PLAIN : PLB_TONE_BAD,
                             invalid           ? "INVALID"
                             : c->row->outcome ? c->row->outcome
                                               : "UNFINISHED",
                             "%s, %s: %s", c->name, all->group[c->group].title,
                             c->row->reason ? c->row->reason : "no reason is stored");
    }
    if (failed > told) {
        plb_document_verdict(d, PLB_TONE_PLAIN, NULL,
                             "%zu more cases have no time; the table of all cases says why.",
                             failed - told);
    }
}

void plb_run_add_summary(const plb_run_cases *cases, plb_document *document) {
    say_comparisons(cases, document);
    say_proof(cases, document);
    say_outcomes(cases, document);
    plb_report_say_machine(cases->run, document);
}
