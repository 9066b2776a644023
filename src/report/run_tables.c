// SPDX-License-Identifier: Apache-2.0
// The tables of a run: every case, its proof, and the machine.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "report/run.h"
#include "report/run_cases.h"

// ---------------------------------------------------------------------------- all cases
static void add_columns(plb_table *t) {
    static const struct {
        const char *title;
        plb_column_kind kind;
        plb_unit unit;
    } columns[] = {
        {"model", PLB_COLUMN_TEXT, PLB_UNIT_NONE},
        {"task", PLB_COLUMN_TEXT, PLB_UNIT_NONE},
        {"stack", PLB_COLUMN_TEXT, PLB_UNIT_NONE},
        {"batch", PLB_COLUMN_NUMBER, PLB_UNIT_COUNT},
        {"size", PLB_COLUMN_NUMBER, PLB_UNIT_COUNT},
        {"type", PLB_COLUMN_TEXT, PLB_UNIT_NONE},
        {"device", PLB_COLUMN_TEXT, PLB_UNIT_NONE},
        {"threads", PLB_COLUMN_NUMBER, PLB_UNIT_COUNT},
        {"outcome", PLB_COLUMN_TEXT, PLB_UNIT_NONE},
        {"time", PLB_COLUMN_NUMBER, PLB_UNIT_NS},
        {"low", PLB_COLUMN_NUMBER, PLB_UNIT_NS},
        {"high", PLB_COLUMN_NUMBER, PLB_UNIT_NS},
        {"× floor", PLB_COLUMN_NUMBER, PLB_UNIT_RATIO},
        {"verdict", PLB_COLUMN_TEXT, PLB_UNIT_NONE},
        {"throughput", PLB_COLUMN_NUMBER, PLB_UNIT_PER_SECOND},
        {"starts", PLB_COLUMN_NUMBER, PLB_UNIT_COUNT},
        {"warm-up", PLB_COLUMN_NUMBER, PLB_UNIT_COUNT},
        {"load", PLB_COLUMN_NUMBER, PLB_UNIT_NS},
        {"first call", PLB_COLUMN_NUMBER, PLB_UNIT_NS},
        {"host memory", PLB_COLUMN_NUMBER, PLB_UNIT_BYTES},
        {"case", PLB_COLUMN_TEXT, PLB_UNIT_NONE},
    };
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        plb_table_column(t, columns[i].title, columns[i].kind, columns[i].unit);
}

static void add_outcome(plb_table *t, const plb_run_case *c) {
    const char *outcome = c->row->outcome ? c->row->outcome : "unfinished";
    const bool fine = strcmp(outcome, "ok") == 0, refused = strcmp(outcome, "refused") == 0;
    plb_table_badge(t, fine ? PLB_TONE_GOOD : refused ? PLB_TONE_PLAIN : PLB_TONE_BAD, outcome);
}

static void add_verdict(plb_table *t, const plb_run_case *c) {
    if (!c->pair || isnan(c->pair->comparison.ratio)) {
        plb_table_text(t, "%s", c->ratio == 1 ? "floor" : "-");
        return;
    }
    const plb_verdict verdict = c->pair->comparison.verdict;
    plb_table_badge(t, plb_verdict_tone(verdict), plb_verdict_name(verdict));
}

static void add_case(plb_table *t, const plb_run_case *c) {
    const plb_case *k = &c->c;
    const bool plain = strcmp(k->math, "f32") == 0 && strcmp(k->autocast, "none") == 0;
    const double none = (double)NAN;
    char address[64];
    plb_table_text(t, "%s", k->model);
    plb_table_text(t, "%s", k->task);
    plb_table_text(t, "%s", c->name);
    plb_table_number(t, (double)k->batch);
    plb_table_number(t, k->size ? (double)k->size : none);
    if (plain)
        plb_table_text(t, "%s", k->dtype);
    else
        plb_table_text(t, "%s %s autocast %s", k->dtype, k->math, k->autocast);
    plb_table_text(t, "%s", k->device);
    plb_table_number(t, (double)k->threads);
    add_outcome(t, c);
    plb_table_number(t, c->ok ? c->s.median_ns : none);
    plb_table_number(t, c->ok ? c->s.low_ns : none);
    plb_table_number(t, c->ok ? c->s.high_ns : none);
    plb_table_number(t, c->ratio);
    add_verdict(t, c);
    plb_table_number(t, c->ok ? (double)k->batch * 1e9 / c->s.median_ns : none);
    plb_table_number(t, (double)c->s.starts);
    plb_table_number(t, c->warmup_iterations < 0 ? none : (double)c->warmup_iterations);
    plb_table_number(t, c->load_ns);
    plb_table_number(t, c->first_call_ns);
    plb_table_number(t, c->rss_bytes);
    snprintf(address, sizeof address, "/case/%s", c->row->case_hash);
    plb_table_link(t, address, "%s", c->row->case_hash);
}

// ---------------------------------------------------------------------------- proof
// ["output", "loss"] as "output, loss".
static void join(const json_t *array, plb_strbuf *out) {
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *word = json_string_value(json_array_get(array, i));
        if (word) plb_strbuf_printf(out, "%s%s", out->length ? ", " : "", word);
    }
}

static double number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static void add_proof(plb_table *t, const plb_run_case *c) {
    json_t *proof = c->row->proof ? json_loads(c->row->proof, 0, NULL) : NULL;
    if (!proof) return;
    const bool equal = json_is_true(json_object_get(proof, "equal"));
    const json_t *reason = json_object_get(proof, "reason");
    const char *worst = json_string_value(json_object_get(proof, "worst"));
    plb_strbuf checked = {0};
    join(json_object_get(proof, "checked"), &checked);
    plb_table_text(t, "%s %s", c->c.model, c->c.task);
    plb_table_text(t, "%s", c->name);
    plb_table_number(t, (double)c->c.batch);
    plb_table_badge(t, equal ? PLB_TONE_GOOD : PLB_TONE_BAD, equal ? "EQUAL" : "NOT EQUAL");
    plb_table_text(t, "%s", checked.text && !checked.failed ? checked.text : "-");
    plb_table_number(t, number_of(proof, "max_rel_error"));
    plb_table_number(t, number_of(proof, "worst_over_tolerance"));
    plb_table_text(t, "%s",
                   json_is_string(reason) ? json_string_value(reason)
                   : worst                ? worst
                                          : "-");
    plb_strbuf_free(&checked);
    json_decref(proof);
}

static void add_proofs(const plb_run_cases *all, plb_section *s) {
    plb_section_say(s, "Before it was timed, each stack computed from the same weights and batches "
                       "as the reference in f64, and while it was timed results of random "
                       "iterations were compared again. Errors are relative to the largest value; "
                       "the last number is the share of what is allowed.");
    plb_table *t = plb_section_table(s, "proof", "Proof of equal work");
    plb_table_column(t, "work", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "stack", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "batch", PLB_COLUMN_NUMBER, PLB_UNIT_COUNT);
    plb_table_column(t, "proof", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "checked", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "largest error", PLB_COLUMN_NUMBER, PLB_UNIT_NONE);
    plb_table_column(t, "of what is allowed", PLB_COLUMN_NUMBER, PLB_UNIT_SHARE);
    plb_table_column(t, "worst", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    for (size_t i = 0; i < all->count; i++) add_proof(t, &all->item[i]);
}

void plb_run_add_tables(const plb_run_cases *cases, plb_document *document) {
    plb_section *s = plb_document_section(document, "All cases");
    plb_table *t = plb_section_table(s, "cases", NULL);
    add_columns(t);
    for (size_t i = 0; i < cases->count; i++) add_case(t, &cases->item[i]);
    add_proofs(cases, plb_document_section(document, "Proof"));
}

// ---------------------------------------------------------------------------- the machine
static void put_value(plb_strbuf *out, const json_t *value) {
    char *text =
        json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    if (json_is_string(value))
        plb_strbuf_printf(out, "%s", json_string_value(value));
    else if (text && !json_is_null(value))
        plb_strbuf_printf(out, "%s", text);
    free(text);
}

// One row a fact that is known; of nested objects the innermost. `end`: the same facts later, for a
// column of what has changed; NULL: not known.
static void add_facts(plb_table *t, json_t *object, const json_t *end, const char *prefix) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        char name[128];
        plb_strbuf text = {0}, later = {0};
        const json_t *then = json_object_get(end, key);
        snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? " " : "", key);
        if (json_is_object(value)) {
            add_facts(t, value, then, name);
            continue;
        }
        put_value(&text, value);
        if (then && !json_equal(value, then)) put_value(&later, then);
        if (text.length && strcmp(text.text, "[]") != 0) {
            plb_table_text(t, "%s", name);
            plb_table_text(t, "%s", text.text);
            plb_table_text(t, "%s", later.length ? later.text : "");
        }
        plb_strbuf_free(&text);
        plb_strbuf_free(&later);
    }
}

static void add_versions(const plb_run_cases *all, plb_section *s) {
    plb_table *t = NULL;
    for (size_t i = 0; i < all->count; i++) {
        size_t k = 0;
        while (k < i && strcmp(all->item[k].c.stack, all->item[i].c.stack) != 0) k++;
        json_t *versions = k == i && all->item[i].row->versions
                               ? json_loads(all->item[i].row->versions, 0, NULL)
                               : NULL;
        if (!versions) continue;
        if (!t) {
            t = plb_section_table(s, "versions", "Versions of the stacks");
            plb_table_column(t, "stack", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
            plb_table_column(t, "versions", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
        }
        char *text = json_dumps(versions, JSON_COMPACT);
        plb_table_text(t, "%s", all->item[i].c.stack);
        plb_table_text(t, "%s", text ? text : "-");
        free(text);
        json_decref(versions);
    }
}

static plb_status add_raw(plb_section *s, const char *title, const char *text) {
    json_t *json = text ? json_loads(text, 0, NULL) : NULL;
    if (!json) return PLB_OK;
    char *pretty = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    if (pretty) plb_section_text(s, title, pretty);
    json_decref(json);
    free(pretty);
    return pretty ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a fingerprint");
}

plb_status plb_run_add_evidence(const plb_run_cases *cases, plb_document *document) {
    plb_section *s = plb_document_section(document, "Fingerprint");
    json_t *print = json_loads(cases->run->fingerprint ? cases->run->fingerprint : "{}", 0, NULL);
    json_t *end =
        cases->run->fingerprint_end ? json_loads(cases->run->fingerprint_end, 0, NULL) : NULL;
    plb_section_say(s,
                    "What these numbers depend on besides their cases. Runs whose machine "
                    "differs are not compared. Identity of the run: %s.",
                    cases->run->uuid ? cases->run->uuid : "-");
    if (json_object_size(print)) {
        plb_table *t = plb_section_table(s, "machine", "The machine and its state");
        plb_table_column(t, "fact", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
        plb_table_column(t, "value", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
        plb_table_column(t, "at the end, if another", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
        json_object_del(print, "resumed"); // has all facts again; below as it is stored
        add_facts(t, print, end, "");
    }
    json_decref(end);
    json_decref(print);
    add_versions(cases, s);
    plb_strbuf commands = {0};
    plb_report_add_commands(cases->run, &commands);
    if (commands.length) plb_section_code(s, commands.text);
    plb_strbuf_free(&commands);
    PLB_TRY(add_raw(s, "Fingerprint when the run began, and was taken up again",
                    cases->run->fingerprint));
    return add_raw(s, "State of the machine at the end", cases->run->fingerprint_end);
}
