// SPDX-License-Identifier: Apache-2.0
// A run or a profile for other programs: JSON (of a run all of it, and back with import), CSV for
// spreadsheets, Markdown for issues, JUnit for build servers.
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "bench/case_profile.h"
#include "bench/summary.h"
#include "bench/transfer.h"
#include "cli/cli.h"
#include "cli/profile_export.h"
#include "cli/profile_show.h"
#include "cli/stored.h"
#include "plumb/version.h"
#include "report/escape.h"
#include "store/profile.h"

typedef struct export_flags {
    const char *db, *format;
    bool no_samples;
} export_flags;

static const plb_flag flags[] = {
    PLB_FLAG_DB(offsetof(export_flags, db)),
    {.name = "format",
     .kind = PLB_FLAG_CHOICE,
     .offset = offsetof(export_flags, format),
     .value = "json|csv|markdown|junit",
     .fallback = "json",
     .help = "of what is written to standard output"},
    {.name = "no-samples",
     .kind = PLB_FLAG_SWITCH,
     .offset = offsetof(export_flags, no_samples),
     .help = "JSON without raw samples, which cannot be imported"},
};

// A case of the run with what the tables show of it.
typedef struct line {
    const plb_measurement_row *row;
    plb_case keys;
    plb_summary summary;
    plb_case_profile profile;
} line;

typedef struct table {
    const plb_run_row *run;
    line *lines;
    size_t count;
} table;

static const char *outcome_of(const line *l) {
    return l->row->outcome ? l->row->outcome : "unfinished";
}

static plb_status load(plb_store *store, const plb_run_row *run, plb_arena *arena, table *out) {
    plb_measurement_row *rows;
    const plb_measurement_filter filter = {.run = run->id, .algorithm = PLB_SUMMARY_ALGORITHM};
    out->run = run;
    PLB_TRY(plb_store_measurements(store, &filter, arena, &rows, &out->count));
    out->lines = plb_arena_alloc(arena, (out->count + 1) * sizeof *out->lines);
    if (!out->lines) return plb_fail(PLB_ENOMEM, "out of memory");
    for (size_t i = 0; i < out->count; i++) {
        out->lines[i].row = &rows[i];
        PLB_TRY(plb_case_parse(rows[i].keys, &out->lines[i].keys));
        PLB_TRY(plb_summary_to_show(store, &rows[i], arena, &out->lines[i].summary));
        PLB_TRY(plb_case_profile_read(rows[i].results, arena, &out->lines[i].profile));
    }
    return PLB_OK;
}

static void print_as(void (*escape)(plb_strbuf *, const char *), const char *text) {
    plb_strbuf escaped = {0};
    if (text) escape(&escaped, text);
    plb_print_text(&escaped);
    plb_strbuf_free(&escaped);
}

// ---------------------------------------------------------------------------- CSV
static void csv_number(double value) {
    if (isnan(value))
        plb_print(","); // a blank, never 0
    else
        plb_print(",%.9g", value);
}

static void csv_settings(const plb_case *c) {
    char text[PLB_CASE_MAX_SETTINGS * 136] = "";
    size_t length = 0;
    for (int i = 0; i < c->setting_count; i++) {
        int n = snprintf(text + length, sizeof text - length, "%s%s=%s", i ? " " : "",
                         c->settings[i].key, c->settings[i].value);
        length += n > 0 ? (size_t)n : 0;
    }
    print_as(plb_escape_csv, text);
}

// Of one iteration of the probed start; blanks where there was none.
static void csv_profile(const plb_case_profile *p) {
    const double none = (double)NAN;
    const double numbers[] = {p->wall_ns * 1e-6, p->cpu_ns * 1e-6, p->active,          p->move,
                              p->idle,           p->launches,      p->device_ns * 1e-6};
    for (int k = 0; k < 7; k++) csv_number(p->there ? numbers[k] : none);
}

static void print_csv(const table *t) {
    plb_print("run,case,model,task,stack,settings,device,batch,size,dtype,math,autocast,layout,"
              "threads,region,cache,in_flight,input,outcome,reason,starts,samples,median_ms,low_ms,"
              "high_ms,min_ms,p05_ms,p95_ms,profile_wall_ms,profile_cpu_ms,profile_active,"
              "profile_move,profile_idle,profile_launches,profile_device_ms\r\n");
    for (size_t i = 0; i < t->count; i++) {
        const line *l = &t->lines[i];
        const plb_case *c = &l->keys;
        const plb_summary *s = &l->summary;
        plb_print("%" PRId64 ",%s,", t->run->id, l->row->case_hash);
        print_as(plb_escape_csv, c->model);
        plb_print(",%s,", c->task);
        print_as(plb_escape_csv, c->stack);
        plb_print(",");
        csv_settings(c);
        plb_print(",");
        print_as(plb_escape_csv, c->device);
        plb_print(",%" PRId64 ",%" PRId64 ",%s,%s,%s,%s,%" PRId64 ",%s,%s,%" PRId64 ",%s,%s,",
                  c->batch, c->size, c->dtype, c->math, c->autocast, c->layout, c->threads,
                  c->region, c->cache, c->in_flight, c->input, outcome_of(l));
        print_as(plb_escape_csv, l->row->reason);
        plb_print(",%" PRId64 ",%" PRId64, s->starts, s->samples);
        const double numbers[] = {s->median_ns, s->low_ns, s->high_ns,
                                  s->min_ns,    s->p05_ns, s->p95_ns};
        for (int k = 0; k < 6; k++) csv_number(numbers[k] * 1e-6);
        csv_profile(&l->profile);
        plb_print("\r\n");
    }
}

// ---------------------------------------------------------------------------- Markdown
static void print_markdown(const table *t) {
    const plb_run_row *r = t->run;
    plb_print("Plumb %s, run %" PRId64 ", %s", plb_version(), r->id,
              plb_show_moment(r->began_ms).text);
    if (r->label) plb_print(", label "), print_as(plb_escape_markdown, r->label);
    if (r->git) plb_print(", git %.12s", r->git);
    plb_print("; machine %s\n\n", r->machine_hash);
    plb_print("| case | outcome | median ms | 95 %% interval | starts | samples |\n"
              "|---|---|---:|---:|---:|---:|\n");
    for (size_t i = 0; i < t->count; i++) {
        const line *l = &t->lines[i];
        char title[512];
        plb_case_title(&l->keys, title, sizeof title);
        plb_print("| ");
        print_as(plb_escape_markdown, title);
        plb_print(" | %s", outcome_of(l));
        if (l->row->reason) plb_print(": "), print_as(plb_escape_markdown, l->row->reason);
        plb_print(" | %s | %s to %s | %" PRId64 " | %" PRId64 " |\n",
                  plb_show_ms(l->summary.median_ns).text, plb_show_ms(l->summary.low_ns).text,
                  plb_show_ms(l->summary.high_ns).text, l->summary.starts, l->summary.samples);
    }
}

static void print_share(double share) {
    if (isnan(share))
        plb_print(" | -");
    else
        plb_print(" | %.1f %%", 100 * share);
}

static void print_profiles(const table *t) {
    bool begun = false;
    for (size_t i = 0; i < t->count; i++) {
        const plb_case_profile *p = &t->lines[i].profile;
        char title[512];
        if (!p->there) continue;
        if (!begun)
            plb_print("\nOne more start of each under the probe, an iteration:\n\n"
                      "| case | wall ms | processor ms | active | moving data | idle | kernels | "
                      "kernels ms | remark |\n|---|---:|---:|---:|---:|---:|---:|---:|---|\n");
        begun = true;
        plb_case_title(&t->lines[i].keys, title, sizeof title);
        plb_print("| ");
        print_as(plb_escape_markdown, title);
        plb_print(" | %s | %s", plb_show_ms(p->wall_ns).text, plb_show_ms(p->cpu_ns).text);
        print_share(p->active), print_share(p->move), print_share(p->idle);
        if (isnan(p->launches))
            plb_print(" | -");
        else
            plb_print(" | %.4g", p->launches);
        plb_print(" | %s | ", plb_show_ms(p->device_ns).text);
        print_as(plb_escape_markdown, p->failure ? p->failure : p->lacks);
        plb_print(" |\n");
    }
}

// ---------------------------------------------------------------------------- JUnit
static void junit_result(const line *l) {
    const char *outcome = outcome_of(l);
    if (strcmp(outcome, "ok") == 0) return;
    bool refused = strcmp(outcome, "refused") == 0, invalid = strcmp(outcome, "invalid") == 0;
    const char *element = refused ? "skipped" : invalid ? "failure" : "error";
    plb_print("\n    <%s message=\"%s: ", element, outcome);
    print_as(plb_escape_xml, l->row->reason);
    plb_print("\">");
    if (!refused) print_as(plb_escape_xml, l->row->log);
    plb_print("</%s>\n  ", element);
}

static void print_junit(const table *t) {
    int failures = 0, errors = 0, skipped = 0;
    for (size_t i = 0; i < t->count; i++) {
        const char *outcome = outcome_of(&t->lines[i]);
        if (strcmp(outcome, "refused") == 0)
            skipped++;
        else if (strcmp(outcome, "invalid") == 0)
            failures++;
        else if (strcmp(outcome, "ok") != 0)
            errors++;
    }
    plb_print("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"plumb run %" PRId64
              "\" tests=\"%zu\" failures=\"%d\" errors=\"%d\" skipped=\"%d\">\n",
              t->run->id, t->count, failures, errors, skipped);
    for (size_t i = 0; i < t->count; i++) {
        const line *l = &t->lines[i];
        char title[512];
        plb_case_title(&l->keys, title, sizeof title);
        plb_print("  <testcase classname=\"");
        print_as(plb_escape_xml, l->keys.model);
        plb_print("\" name=\"");
        print_as(plb_escape_xml, title);
        plb_print("\"");
        if (!isnan(l->summary.median_ns)) plb_print(" time=\"%.9f\"", l->summary.median_ns * 1e-9);
        plb_print(">");
        junit_result(l);
        plb_print("</testcase>\n");
    }
    plb_print("</testsuite>\n");
}

// ---------------------------------------------------------------------------- command
static plb_status print_json(plb_store *store, const plb_run_row *run, bool samples,
                             plb_arena *arena) {
    plb_store_profile profile;
    plb_json json = {.compact = true}; // a line for each of millions of samples helps nobody
    plb_json_begin_object(&json, NULL);
    plb_json_string(&json, "plumb", plb_version());
    plb_json_string(&json, "document", "run");
    plb_json_int(&json, "document_version", 1);
    plb_status status = plb_transfer_write(store, run, samples, &json);
    const plb_status found =
        status ? status : plb_store_get_profile(store, run->id, arena, &profile);
    if (!found) plb_json_raw(&json, "profile", profile.document);
    if (!status && found != PLB_EMISSING) status = found;
    if (!status) return plb_cli_json_print(&json);
    plb_json_free(&json);
    return status;
}

// A profile, in a file or, where `profile` is given, of the store.
static plb_status print_profile(plb_call *call, const char *format,
                                const plb_store_profile *profile) {
    static const plb_profile_flags as_usual = {.sort = "total", .group = "kernel", .top = 20};
    char folder[PATH_MAX], why[320];
    plb_profile_view view = {.flags = &as_usual, .folder = folder, .output = -1};
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "no memory for a profile");
    plb_status status = plb_profile_folder(folder);
    if (!status) {
        status = profile ? plb_profile_extract(profile, folder, arena, &view.about)
                         : plb_kept_extract(call->operands[0], folder, arena, &view.about);
        if (!status && strcmp(format, "csv") == 0)
            status = plb_profile_tell(&view, plb_profile_print_csv);
        else if (!status && strcmp(format, "markdown") == 0)
            status = plb_profile_tell(&view, plb_profile_print_markdown);
        else if (!status && strcmp(format, "junit") == 0)
            status = plb_fail(PLB_EINVAL,
                              "%s: a profile tests nothing: expected --format json, "
                              "csv or markdown",
                              call->operands[0]);
        else if (!status)
            status = plb_profile_show(&view, call, why, sizeof why);
        plb_profile_remove_folder(folder);
    }
    plb_arena_free(arena);
    return status;
}

static plb_status export_run(plb_call *call, plb_store *store, const plb_run_row *run,
                             plb_arena *arena) {
    const export_flags *f = call->options;
    plb_store_profile profile;
    table t = {0};
    if (call->json || strcmp(f->format, "json") == 0)
        return print_json(store, run, !f->no_samples, arena);
    const plb_status found = plb_store_get_profile(store, run->id, arena, &profile);
    if (!found) return print_profile(call, f->format, &profile);
    if (found != PLB_EMISSING) return found;
    PLB_TRY(load(store, run, arena, &t));
    if (strcmp(f->format, "csv") == 0)
        print_csv(&t);
    else if (strcmp(f->format, "markdown") == 0)
        print_markdown(&t), print_profiles(&t);
    else
        print_junit(&t);
    return PLB_OK;
}

static plb_status run_export(plb_call *call) {
    const export_flags *f = call->options;
    plb_store *store;
    plb_arena *arena;
    plb_run_row run;
    plb_status status;
    if (call->json && strcmp(f->format, "json") != 0)
        return plb_fail(PLB_EINVAL, "--json: expected --format json or none, found --format %s",
                        f->format);
    if (!f->db && plb_kept_is(call->operands[0])) { // a file, whatever the store has
        call->json |= strcmp(f->format, "json") == 0;
        return print_profile(call, call->json ? "json" : f->format, NULL);
    }
    PLB_TRY_OUT(plb_stored_open(f->db, &store, &arena));
    PLB_TRY_OUT(plb_stored_run(store, call->operands[0], arena, &run));
    status = export_run(call, store, &run, arena);
out:
    plb_store_close(store);
    plb_arena_free(arena);
    return status;
}

const plb_command plb_cmd_export = {
    .name = "export",
    .summary = "write a run or a profile as JSON, CSV, Markdown or JUnit",
    .operands = "RUN",
    .description =
        "JSON holds everything, raw samples and fingerprint included, and `plumb import`\n"
        "reads it back. CSV and Markdown have a row a case with every key that matters, and\n"
        "what the probe saw of it after `plumb bench --profile`. In JUnit a case that was\n"
        "refused is skipped, one whose proof failed is a failure, and every other outcome but\n"
        "ok an error.\n"
        "\n"
        "RUN is also a file that `plumb profile --save` wrote, or a run that is a profile:\n"
        "CSV and Markdown then are its tables; in CSV a row's first column names its table.\n"
        "`plumb import` leaves the profile in a run's JSON out.",
    .min_operands = 1,
    .max_operands = 1,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(export_flags),
    .run = run_export,
};
