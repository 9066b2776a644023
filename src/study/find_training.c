// SPDX-License-Identifier: Apache-2.0
// Whether levels of abstraction begin and end a training alike.
#include <math.h>
#include <string.h>

#include "base/core/strbuf.h"
#include "study/finding.h"

// Test losses before the first step, of all stacks that trained the part from its first seed; 0
// where all of them are ours.
static int first_losses(const plb_finder *f, const plb_study_part *part, double *least,
                        double *most) {
    int count = 0, others = 0;
    *least = INFINITY, *most = -INFINITY;
    for (size_t i = 0; i < f->r->count; i++) {
        const plb_result *item = &f->r->items[i];
        if (!item->ok || strcmp(item->part, part->name) != 0 || item->seed != part->seeds.value[0])
            continue;
        double loss = plb_result_epoch(item, 0, "test_loss");
        *least = fmin(*least, loss), *most = fmax(*most, loss), count++;
        others += strncmp(item->stack, "plumb-", 6) != 0;
    }
    return others ? count : 0;
}

void plb_find_initialisation(const plb_finder *f) {
    for (size_t p = 0; p < f->r->spec.part_count; p++) {
        const plb_study_part *part = &f->r->spec.parts[p];
        double least, most;
        int count = part->kind == PLB_PART_TRAIN ? first_losses(f, part, &least, &most) : 0;
        if (count < 2) continue;
        plb_find_say(
            f, PLB_EXPLAINED,
            "PyTorch initialises weights silently, and others differ. The rule is Kaiming's "
            "uniform one with a = sqrt(5): its bound is 1/sqrt(fan in), easily mistaken for "
            "1/fan in. Here all stacks read one file of weights: before the first step the test "
            "losses of %d trainings (%s) lie between %.6f and %.6f.",
            count, plb_part_title(f->r, part), least, most);
        return;
    }
    plb_find_say(f, PLB_OPEN,
                 "PyTorch initialises silently: no stack of PyTorch's trained beside ours here.");
}

static double last_accuracy(const plb_pool *pool) {
    return plb_pool_epoch(pool, -1, "test_accuracy").mean;
}

// More than who always tells the commonest class gets right, by two of the deviations that chance
// gives to so many samples.
static bool has_learnt(const plb_pool *pool) {
    const double share = plb_result_number(pool->first, "majority");
    const double samples = plb_result_number(pool->first, "test_samples");
    const double chance = 2 * sqrt(share * (1 - share) / fmax(samples, 1));
    return last_accuracy(pool) > share + chance;
}

// One seed each does not tell what seeds differ by: a few points between them say nothing.
static plb_answer accuracy_verdict(const plb_seed_spread *spread, const plb_pool *torch,
                                   const plb_pool *ours) {
    if (!has_learnt(torch) && !has_learnt(ours)) return PLB_OPEN;
    const plb_agreement a = plb_pools_agreement(spread, torch, ours);
    if (!a.apart || a.difference > 0) return PLB_REFUTED;
    return a.difference > -0.05 && torch->count + ours->count < 4 ? PLB_OPEN : PLB_REPRODUCED;
}

// The end of every other stack, beside PyTorch's.
static void say_other_accuracies(const plb_finder *f, const plb_study_part *part,
                                 const plb_pool *pools, int count, const plb_pool *torch,
                                 const plb_pool *ours) {
    const plb_seed_spread spread = plb_pools_spread(pools, count, torch->first->model);
    plb_strbuf ends = {0};
    int others = 0, apart = 0;
    for (int i = 0; i < count; i++) {
        const plb_pool *p = &pools[i];
        if (p == torch || p == ours || strcmp(p->first->model, torch->first->model) != 0) continue;
        plb_band band = plb_pool_epoch(p, -1, "test_accuracy");
        bool away = plb_pools_agreement(&spread, torch, p).apart;
        plb_strbuf_printf(&ends, "%s%s %.1f %% (%.1f to %.1f, %d seed%s)%s", others ? ", " : "",
                          p->first->stack, 100 * band.mean, 100 * band.low, 100 * band.high,
                          p->count, p->count == 1 ? "" : "s", away ? " (!)" : "");
        others++, apart += away;
    }
    if (others && !ends.failed)
        plb_document_verdict(f->d, PLB_TONE_PLAIN, NULL,
                             "%s, the other stacks: %s. %s what seeds, and chance in the samples, "
                             "make of torch-eager's %.1f %%.",
                             plb_part_title(f->r, part), ends.text,
                             apart ? "The marked ones lie outside" : "All lie within",
                             100 * last_accuracy(torch));
    plb_strbuf_free(&ends);
}

static void say_accuracy(const plb_finder *f, const plb_study_part *part, const plb_pool *torch,
                         const plb_pool *ours, plb_answer verdict) {
    plb_band a = plb_pool_epoch(torch, -1, "test_accuracy");
    plb_band b = plb_pool_epoch(ours, -1, "test_accuracy");
    plb_find_say(f, verdict,
                 "The C level trains to a poorer accuracy. %s (%s), after %d epoch%s: torch-eager "
                 "%.1f %% (%.1f to %.1f), %s %.1f %% (%.1f to %.1f), %d and %d seeds; always the "
                 "commonest class: %.1f %%.%s",
                 plb_part_title(f->r, part), torch->first->model, torch->last,
                 torch->last == 1 ? "" : "s", 100 * a.mean, 100 * a.low, 100 * a.high,
                 ours->first->stack, 100 * b.mean, 100 * b.low, 100 * b.high, torch->count,
                 ours->count, 100 * plb_result_number(torch->first, "majority"),
                 verdict != PLB_OPEN ? ""
                 : has_learnt(torch) || has_learnt(ours)
                     ? " More seeds would have to say whether that is more than seeds differ by."
                     : " Neither does better than that yet: longer training would have to say.");
}

void plb_find_c_accuracy(const plb_finder *f) {
    bool any = false, all_equal = true;
    for (size_t p = 0; p < f->r->spec.part_count; p++) {
        const plb_study_part *part = &f->r->spec.parts[p];
        plb_pool *pools;
        if (part->kind != PLB_PART_TRAIN) continue;
        int count = plb_results_pools(f->r, part->name, &pools);
        const plb_pool *torch = NULL, *ours = NULL;
        for (int i = 0; i < count; i++) {
            if (!torch && !strcmp(pools[i].first->stack, "torch-eager")) torch = &pools[i];
            bool floor = !strcmp(pools[i].first->stack, "plumb-replay") ||
                         (!ours && !strcmp(pools[i].first->stack, "plumb-plan"));
            if (floor) ours = &pools[i];
        }
        if (!torch || !ours) continue;
        const plb_seed_spread spread = plb_pools_spread(pools, count, torch->first->model);
        plb_answer verdict = accuracy_verdict(&spread, torch, ours);
        any = true, all_equal = all_equal && verdict == PLB_REFUTED;
        say_accuracy(f, part, torch, ours, verdict);
        say_other_accuracies(f, part, pools, count, torch, ours);
    }
    if (!any)
        plb_find_say(f, PLB_OPEN,
                     "The C level trains to a poorer accuracy: no part trained both here.");
    else if (all_equal)
        plb_find_say(
            f, PLB_EXPLAINED,
            "A C level that falls behind has a mistake, not a cost of its own. Those that lead "
            "there are easily made: weights drawn within 1/fan in instead of 1/sqrt(fan in), "
            "running statistics that are never set, a rate that decays a batch instead of an "
            "epoch. With one file of weights and one set of batches nothing of it is left.");
}
