// SPDX-License-Identifier: Apache-2.0
#include "study/document.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/core/status.h"
#include "report/run.h"
#include "store/read.h"
#include "study/results.h"

static void say_head(const plb_run_row *run, const plb_results *r, plb_document *d) {
    char when[64] = "";
    plb_strbuf commands = {0};
    time_t seconds = (time_t)(run->began_ms / 1000);
    struct tm tm;
    if (gmtime_r(&seconds, &tm)) strftime(when, sizeof when, "%Y-%m-%d %H:%M UTC", &tm);
    json_error_t error;
    json_t *machine = json_loads(run->machine, 0, &error);
    const char *cpu = json_string_value(json_object_get(machine, "cpu_model"));
    const json_t *card = json_array_get(json_object_get(machine, "gpus"), 0);
    const char *gpu =
        json_string_value(json_is_object(card) ? json_object_get(card, "name") : card);
    plb_document_set_subtitle(d, "%s; run %lld, %s%s%s%s%s", when, (long long)r->study.run,
                              run->state, cpu ? "; " : "", cpu ? cpu : "", gpu ? "; " : "",
                              gpu ? gpu : "");
    plb_report_add_commands(run, &commands);
    if (commands.length) plb_document_set_command(d, commands.text);
    plb_strbuf_free(&commands);
    json_decref(machine);
}

static void say_about(const plb_results *r, plb_document *d) {
    if (!r->spec.about && !r->spec.origin && !r->quick) return;
    plb_section *section = plb_document_section(d, "What this is");
    if (r->spec.about) plb_section_say(section, "%s", r->spec.about);
    if (r->spec.origin) plb_section_say(section, "Origin: %s.", r->spec.origin);
    if (r->quick)
        plb_section_say(section, "This is the study's quick edition: small models, few samples and "
                                 "few sizes. Its numbers show how, not how much.");
}

static bool has_items(const plb_results *r, const plb_study_part *part) {
    for (size_t i = 0; i < r->count; i++)
        if (!strcmp(r->items[i].part, part->name)) return true;
    return false;
}

static void say_deviations(const plb_results *r, plb_document *d) {
    bool any = r->spec.deviations.count > 0;
    for (size_t i = 0; i < r->spec.part_count; i++)
        any |= r->spec.parts[i].kind == PLB_PART_TRAIN && r->spec.parts[i].epochs &&
               has_items(r, &r->spec.parts[i]);
    if (!any) return;
    plb_section *section = plb_document_section(d, r->spec.origin ? "What differs from the original"
                                                                  : "What was done");
    for (size_t i = 0; i < r->spec.deviations.count; i++)
        plb_section_say(section, "%s", r->spec.deviations.word[i]);
    for (size_t i = 0; i < r->spec.part_count; i++) {
        const plb_study_part *p = &r->spec.parts[i];
        if (p->kind != PLB_PART_TRAIN || !p->epochs || !has_items(r, p)) continue;
        plb_section_say(section, "%s: %lld epoch%s and %zu seed%s%s.", plb_part_title(r, p),
                        (long long)p->epochs, p->epochs == 1 ? "" : "s", p->seeds.count,
                        p->seeds.count == 1 ? "" : "s",
                        p->train_samples ? ", on a part of the samples" : "");
    }
}

// Whether an earlier item without numbers says the same.
static bool told_before(const plb_results *r, size_t i) {
    const plb_result *item = &r->items[i];
    for (size_t k = 0; k < i; k++) {
        const plb_result *other = &r->items[k];
        if (!strcmp(other->part, item->part) && !strcmp(other->stack, item->stack) &&
            !strcmp(other->device, item->device) && !strcmp(other->model, item->model) &&
            !strcmp(other->outcome, item->outcome) && !item->reason == !other->reason &&
            (!item->reason || !strcmp(other->reason, item->reason)))
            return true;
    }
    return false;
}

static plb_table *missing_table(plb_document *d) {
    static const char *const columns[] = {"part", "model", "stack", "device", "outcome", "reason"};
    plb_section *section = plb_document_section(d, "What is missing, and why");
    plb_table *table = plb_section_table(section, "missing", "Items without numbers");
    for (int c = 0; c < 6; c++) plb_table_column(table, columns[c], PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    return table;
}

static void say_missing_row(plb_document *d, plb_table **made, const plb_result *item,
                            const char *reason) {
    const int kept = plb_result_epochs(item);
    plb_table *table = *made ? *made : (*made = missing_table(d));
    plb_table_text(table, "%s", item->part);
    plb_table_text(table, "%s", item->model);
    plb_table_text(table, "%s", item->stack);
    plb_table_text(table, "%s", item->device);
    plb_table_badge(table, PLB_TONE_UNSURE, item->outcome);
    if (kept > 0)
        plb_table_text(table, "%s; epochs that are kept: %d", reason, kept);
    else
        plb_table_text(table, "%s", reason);
}

// What is not there, and why: refusals once each, what was left out by number.
static void say_missing(const plb_results *r, plb_document *d) {
    plb_table *table = NULL;
    for (size_t i = 0; i < r->count; i++) {
        const plb_result *item = &r->items[i];
        if (item->ok || told_before(r, i)) continue;
        bool under_way = !strcmp(item->outcome, "running"); // the reason is a process then
        say_missing_row(d, &table, item,
                        under_way      ? "was under way when this was written"
                        : item->reason ? item->reason
                                       : "");
    }
    for (size_t p = 0; p < r->spec.part_count; p++) {
        const plb_study_part *part = &r->spec.parts[p];
        const bool wanted = part->kind == PLB_PART_SWEEP || part->epochs;
        const plb_result whole = {
            .part = part->name, .model = "", .stack = "", .device = "", .outcome = "not run"};
        if (wanted && !has_items(r, part))
            say_missing_row(d, &table, &whole, "no item of this part was begun");
    }
}

static void say_machine(const plb_run_row *run, const plb_results *r, plb_document *d) {
    plb_section *section = plb_document_section(d, "Machine, versions and the study itself");
    plb_section_text(section, "fingerprint of the machine", run->fingerprint);
    for (size_t i = 0; i < r->count; i++) {
        bool told = !r->items[i].ok;
        for (size_t k = 0; k < i && !told; k++)
            told = r->items[k].ok && !strcmp(r->items[k].stack, r->items[i].stack);
        json_t *versions = told ? NULL : json_object_get(r->items[i].json, "versions");
        char *text = versions ? json_dumps(versions, 0) : NULL;
        if (text) plb_section_text(section, r->items[i].stack, text);
        free(text);
    }
    plb_section_text(section, "the study as a file", r->study.spec);
    plb_section_text(section, "its options", r->study.options);
}

static plb_status say_all(plb_store *store, plb_results *r, plb_document *d) {
    plb_run_row *rows;
    size_t count;
    const plb_run_filter filter = {.id = r->study.run};
    PLB_TRY(plb_store_runs(store, &filter, r->arena, &rows, &count));
    if (!count) return plb_fail(PLB_EMISSING, "no run %lld", (long long)r->study.run);
    r->others_cpus = plb_report_others_cpus(&rows[0]);
    say_head(&rows[0], r, d);
    plb_study_say_findings(r, d);
    plb_report_say_machine(&rows[0], d);
    say_about(r, d);
    for (size_t i = 0; i < r->spec.part_count; i++) {
        const plb_study_part *part = &r->spec.parts[i];
        if (part->kind == PLB_PART_SWEEP)
            plb_study_say_sweep(r, part, d);
        else if (part->epochs) // 0: left out of the study
            plb_study_say_training(r, part, d);
    }
    say_deviations(r, d);
    say_missing(r, d);
    say_machine(&rows[0], r, d);
    return plb_document_status(d);
}

plb_status plb_study_document(plb_store *store, int64_t run_id, plb_document **out) {
    plb_results results = {0};
    PLB_TRY(plb_results_load(store, run_id, &results));
    plb_document *document = plb_document_new(results.spec.title);
    plb_status status = document ? say_all(store, &results, document)
                                 : plb_fail(PLB_ENOMEM, "out of memory for a report");
    plb_results_free(&results);
    if (status) {
        plb_document_free(document);
        return status;
    }
    *out = document;
    return PLB_OK;
}

plb_status plb_study_run_document(plb_store *store, const plb_run_row *run, plb_document **out) {
    plb_study_row study;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory for a report");
    const plb_status found = plb_store_find_study(store, run->id, NULL, arena, &study);
    plb_arena_free(arena);
    if (found == PLB_OK) return plb_study_document(store, run->id, out);
    return found == PLB_EMISSING || found == PLB_EINVAL ? plb_report_run(store, run, out) : found;
}
