// SPDX-License-Identifier: Apache-2.0
// The list of all findings, and what they share: saying an answer, looking up results.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "study/finding.h"

static const struct {
    const char *word;
    plb_tone tone;
} answers[] = {[PLB_REPRODUCED] = {"REPRODUCED", PLB_TONE_GOOD},
               [PLB_EXPLAINED] = {"EXPLAINED", PLB_TONE_PLAIN},
               [PLB_REFUTED] = {"REFUTED", PLB_TONE_BAD},
               [PLB_OPEN] = {"OPEN", PLB_TONE_UNSURE}};

void plb_find_say(const plb_finder *f, plb_answer answer, const char *format, ...) {
    va_list args;
    va_start(args, format);
    plb_document_vverdict(f->d, answers[answer].tone, answers[answer].word, format, args);
    va_end(args);
}

bool plb_find_fits(const plb_result *i, const plb_wanted *w) {
    return i->ok && i->train == w->train && (!w->part || !strcmp(i->part, w->part)) &&
           (!w->model || !strcmp(i->model, w->model)) &&
           (!w->stack || !strcmp(i->stack, w->stack)) &&
           (!w->device || !strncmp(i->device, w->device, strlen(w->device))) &&
           (!w->task || !strcmp(i->task, w->task)) &&
           (!w->region || !strcmp(i->region, w->region)) &&
           (!w->threads || i->threads == w->threads) && (!w->batch || i->batch == w->batch) &&
           (!w->size || i->size == w->size);
}

const plb_result *plb_find(const plb_finder *f, plb_wanted w) {
    for (size_t i = 0; i < f->r->count; i++)
        if (plb_find_fits(&f->r->items[i], &w)) return &f->r->items[i];
    return NULL;
}

double plb_find_sample_ns(const plb_result *item) {
    return item ? plb_result_number(item, "median_ns") / (double)item->batch : NAN;
}

static const struct {
    const char *name;
    void (*say)(const plb_finder *f);
} findings[] = {
    {"cpu_threads", plb_find_cpu_threads},
    {"gpu_threads", plb_find_gpu_threads},
    {"gpu_speedup", plb_find_gpu_speedup},
    {"profiler_cost", plb_find_profiler_cost},
    {"conv_share", plb_find_conv_share},
    {"table1", plb_find_table1},
    {"order_of_magnitude", plb_find_order_of_magnitude},
    {"copy_sizes", plb_find_copy_sizes},
    {"relu_grids", plb_find_relu_grids},
    {"memory_crossover", plb_find_memory_crossover},
    {"initialisation", plb_find_initialisation},
    {"c_accuracy", plb_find_c_accuracy},
};

enum { FINDINGS = sizeof findings / sizeof *findings };

plb_status plb_study_check_finding(const char *name, const char *label) {
    const char *names[FINDINGS];
    for (size_t i = 0; i < FINDINGS; i++) {
        names[i] = findings[i].name;
        if (!strcmp(name, names[i])) return PLB_OK;
    }
    const char *nearest = plb_nearest_name(name, names, FINDINGS);
    return plb_fail(PLB_EINVAL, "%s: findings: there is no %s%s%s%s", label, name,
                    nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

void plb_study_say_findings(const plb_results *r, plb_document *d) {
    const plb_finder f = {r, d};
    size_t ok = 0;
    for (size_t i = 0; i < r->count; i++) ok += r->items[i].ok;
    plb_document_verdict(d, PLB_TONE_PLAIN, NULL, "%zu of %zu items have numbers.", ok, r->count);
    for (size_t k = 0; k < r->spec.findings.count; k++)
        for (size_t i = 0; i < FINDINGS; i++)
            if (!strcmp(findings[i].name, r->spec.findings.word[k])) findings[i].say(&f);
}
