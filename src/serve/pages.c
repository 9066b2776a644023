// SPDX-License-Identifier: Apache-2.0
#include "serve/pages.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/status.h"
#include "bench/case.h"
#include "bench/compare.h"
#include "report/html.h"
#include "report/run.h"
#include "store/study.h"
#include "study/document.h"

enum { REFRESH_S = 5, MOST_RUNS = 500 };

typedef struct request {
    plb_store *store;
    plb_arena *arena;
    plb_strbuf *out;
    int *status;
} request;

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory for a page");
}

static plb_status put_page(const request *r, const plb_document *d, int refresh_s,
                           const plb_page_link *more, size_t count) {
    plb_page_link links[6] = {{"/", "All runs"}};
    size_t n = 1;
    for (size_t i = 0; i < count && n < 6; i++) links[n++] = more[i];
    const plb_page_options options = {
        .link = links, .links = n, .refresh_s = refresh_s, .served = true};
    return plb_document_page(d, &options, r->out);
}

static plb_status put_missing(const request *r, const char *what) {
    plb_document *d = plb_document_new("Not there");
    if (!d) return no_memory();
    plb_document_verdict(d, PLB_TONE_BAD, "NOT THERE", "%s", what);
    *r->status = 404;
    plb_status status = put_page(r, d, 0, NULL, 0);
    plb_document_free(d);
    return status;
}

static plb_status put_not_there(const request *r, const char *kind, const char *name) {
    const char *what = plb_arena_printf(r->arena, "This store has no %s \"%.80s\".", kind, name);
    return what ? put_missing(r, what) : no_memory();
}

// ---------------------------------------------------------------------------- all runs
static plb_tone tone_of_state(const char *state) {
    return strcmp(state, "done") == 0      ? PLB_TONE_GOOD
           : strcmp(state, "running") == 0 ? PLB_TONE_PLAIN
                                           : PLB_TONE_UNSURE;
}

static void add_run_columns(plb_table *t) {
    plb_table_column(t, "run", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "began", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "state", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "label", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "with a time", PLB_COLUMN_NUMBER, PLB_UNIT_COUNT);
    plb_table_column(t, "cases", PLB_COLUMN_NUMBER, PLB_UNIT_COUNT);
    plb_table_column(t, "took", PLB_COLUMN_NUMBER, PLB_UNIT_SECONDS);
    plb_table_column(t, "revision", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "compare", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "command", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
}

// The run before this one on the same machine, which is what it is most likely compared with.
static const plb_run_row *run_before(const plb_run_row *rows, size_t count, size_t i) {
    for (size_t k = i + 1; k < count; k++) {
        const char *a = rows[i].machine_hash, *b = rows[k].machine_hash;
        if (a && b && strcmp(a, b) == 0) return &rows[k];
    }
    return NULL;
}

static void add_run(plb_table *t, const plb_run_row *rows, size_t count, size_t i) {
    const plb_run_row *run = &rows[i], *before = run_before(rows, count, i);
    char address[96], began[PLB_UNIT_BYTES_SHOWN];
    snprintf(address, sizeof address, "/run/%" PRId64, run->id);
    plb_table_link(t, address, "%" PRId64, run->id);
    plb_moment_show(run->began_ms, began);
    plb_table_text(t, "%s", began);
    plb_table_badge(t, tone_of_state(run->state), run->state);
    plb_table_text(t, "%s", run->label ? run->label : "-");
    plb_table_number(t, (double)run->ok);
    plb_table_number(t, (double)run->cases);
    plb_table_number(t, run->ended_ms < 0 ? (double)NAN
                                          : (double)(run->ended_ms - run->began_ms) / 1000);
    plb_table_text(t, "%.12s", run->git ? run->git : "-");
    if (before) {
        snprintf(address, sizeof address, "/compare/%" PRId64 "/%" PRId64, before->id, run->id);
        plb_table_link(t, address, "with run %" PRId64, before->id);
    } else {
        plb_table_text(t, "-");
    }
    plb_table_text(t, "%s", run->command);
}

static plb_status put_runs(const request *r) {
    plb_run_row *rows;
    size_t count;
    bool running = false;
    const plb_run_filter filter = {.limit = MOST_RUNS + 1};
    PLB_TRY(plb_store_runs(r->store, &filter, r->arena, &rows, &count));
    plb_document *d = plb_document_new("Runs");
    if (!d) return no_memory();
    plb_document_set_subtitle(d, "%s", plb_store_path(r->store));
    if (!count)
        plb_document_verdict(d, PLB_TONE_PLAIN, NULL,
                             "There is no run yet: plumb bench makes one.");
    const size_t shown = count > MOST_RUNS ? MOST_RUNS : count;
    plb_section *s = plb_document_section(d, "Runs, the newest first");
    if (shown < count)
        plb_section_say(s, "These are the newest %zu; plumb runs --limit lists more.", shown);
    plb_table *t = plb_section_table(s, "runs", NULL);
    add_run_columns(t);
    for (size_t i = 0; i < shown; i++) {
        add_run(t, rows, count, i);
        running |= strcmp(rows[i].state, "running") == 0;
    }
    plb_status status = put_page(r, d, running ? REFRESH_S : 0, NULL, 0);
    plb_document_free(d);
    return status;
}

// ---------------------------------------------------------------------------- one run
static plb_status find_run(const request *r, int64_t id, plb_run_row **out) {
    plb_run_row *rows;
    size_t count;
    const plb_run_filter filter = {.id = id, .limit = 1};
    *out = NULL;
    if (id <= 0) return PLB_OK;
    PLB_TRY(plb_store_runs(r->store, &filter, r->arena, &rows, &count));
    if (count) *out = rows;
    return PLB_OK;
}

static plb_status put_run(const request *r, const char *name) {
    plb_run_row *run;
    char *end;
    const int64_t id = strtoll(name, &end, 10);
    PLB_TRY(find_run(r, *end ? 0 : id, &run));
    if (!run) return put_not_there(r, "run", name);
    plb_document *d;
    PLB_TRY(plb_study_run_document(r->store, run, &d));
    const bool running = strcmp(run->state, "running") == 0;
    plb_status status = put_page(r, d, running ? REFRESH_S : 0, NULL, 0);
    plb_document_free(d);
    return status;
}

// ---------------------------------------------------------------------------- one case
static void add_case_columns(plb_table *t) {
    plb_table_column(t, "run", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "began", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "label", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "revision", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "machine", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "outcome", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "time", PLB_COLUMN_NUMBER, PLB_UNIT_NS);
    plb_table_column(t, "low", PLB_COLUMN_NUMBER, PLB_UNIT_NS);
    plb_table_column(t, "high", PLB_COLUMN_NUMBER, PLB_UNIT_NS);
    plb_table_column(t, "starts", PLB_COLUMN_NUMBER, PLB_UNIT_COUNT);
}

static void add_measurement(plb_table *t, const plb_measurement_row *m, const plb_run_row *run,
                            const plb_summary *s) {
    char address[64], began[PLB_UNIT_BYTES_SHOWN];
    const char *outcome = m->outcome ? m->outcome : "unfinished";
    snprintf(address, sizeof address, "/run/%" PRId64, m->run);
    plb_table_link(t, address, "%" PRId64, m->run);
    plb_moment_show(run ? run->began_ms : -1, began);
    plb_table_text(t, "%s", began);
    plb_table_text(t, "%s", run && run->label ? run->label : "-");
    plb_table_text(t, "%.12s", run && run->git ? run->git : "-");
    plb_table_text(t, "%.12s", run && run->machine_hash ? run->machine_hash : "-");
    plb_table_badge(t, strcmp(outcome, "ok") == 0 ? PLB_TONE_GOOD : PLB_TONE_BAD, outcome);
    plb_table_number(t, s->median_ns);
    plb_table_number(t, s->low_ns);
    plb_table_number(t, s->high_ns);
    plb_table_number(t, (double)s->starts);
}

// The times of the measurements as one line a machine: times of two machines are not comparable.
static plb_status add_history(const request *r, plb_section *s, const plb_measurement_row *rows,
                              const plb_summary *summaries, size_t count) {
    enum { MOST_MACHINES = 8 };
    plb_figure_series series[MOST_MACHINES];
    int64_t machine[MOST_MACHINES];
    size_t machines = 0;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < machines && machine[k] != rows[i].machine_id) k++;
        if (k == machines && machines < MOST_MACHINES) machine[machines++] = rows[i].machine_id;
    }
    for (size_t k = 0; k < machines; k++) {
        double *x = plb_arena_alloc(r->arena, 4 * (count + 1) * sizeof *x);
        const char *name = plb_arena_printf(r->arena, "machine %" PRId64, machine[k]);
        if (!x || !name) return no_memory();
        double *y = x + count + 1, *low = y + count + 1, *high = low + count + 1;
        size_t n = 0;
        for (size_t i = 0; i < count; i++) {
            if (rows[i].machine_id != machine[k] || isnan(summaries[i].median_ns)) continue;
            x[n] = (double)rows[i].run, y[n] = summaries[i].median_ns;
            low[n] = summaries[i].low_ns, high[n++] = summaries[i].high_ns;
        }
        series[k] = (plb_figure_series){
            .name = machines > 1 ? name : "", .count = n, .x = x, .y = y, .low = low, .high = high};
    }
    const plb_figure figure = {
        .kind = PLB_FIGURE_LINES,
        .name = "history",
        .title = "Time in every run",
        .caption = "Median and 95 % interval over the starts.",
        .x = {.title = "run", .unit = PLB_UNIT_COUNT},
        .y = {.title = "time of one iteration", .unit = PLB_UNIT_NS},
        .series = series,
        .series_count = machines,
    };
    plb_section_figure(s, &figure);
    return PLB_OK;
}

static plb_status fill_case(const request *r, plb_document *d, const plb_measurement_row *rows,
                            size_t count) {
    plb_summary *summaries = plb_arena_alloc(r->arena, (count + 1) * sizeof *summaries);
    if (!summaries) return no_memory();
    for (size_t i = 0; i < count; i++)
        PLB_TRY(plb_summary_to_show(r->store, &rows[i], r->arena, &summaries[i]));
    plb_section *s = plb_document_section(d, "History");
    PLB_TRY(add_history(r, s, rows, summaries, count));
    plb_table *t = plb_section_table(s, "measurements", NULL);
    add_case_columns(t);
    for (size_t i = 0; i < count; i++) {
        plb_run_row *run;
        PLB_TRY(find_run(r, rows[i].run, &run));
        add_measurement(t, &rows[i], run, &summaries[i]);
    }
    plb_section_code(plb_document_section(d, "The case"), rows[0].keys);
    return plb_document_status(d);
}

static bool is_hash(const char *text) {
    return *text && !text[strspn(text, "0123456789abcdef")];
}

static plb_status put_case(const request *r, const char *hash) {
    plb_measurement_row *rows;
    plb_case c;
    size_t count = 0;
    char title[512];
    const plb_measurement_filter filter = {.case_hash = hash, .algorithm = PLB_SUMMARY_ALGORITHM};
    if (is_hash(hash)) PLB_TRY(plb_store_measurements(r->store, &filter, r->arena, &rows, &count));
    // A beginning may be that of several cases: they have no history together.
    for (size_t i = 1; i < count; i++)
        if (rows[i].case_id != rows[0].case_id) count = 0;
    if (!count) return put_not_there(r, "case", hash);
    PLB_TRY(plb_case_parse(rows[0].keys, &c));
    plb_case_title(&c, title, sizeof title);
    plb_document *d = plb_document_new(title);
    if (!d) return no_memory();
    plb_document_set_subtitle(d, "case %s", rows[0].case_hash);
    plb_status status = fill_case(r, d, rows, count);
    if (!status) status = put_page(r, d, 0, NULL, 0);
    plb_document_free(d);
    return status;
}

// ---------------------------------------------------------------------------- two runs
static void say_counts(plb_document *d, const plb_compare_result *result) {
    size_t counts[4] = {0};
    for (size_t i = 0; i < result->count; i++)
        if (!result->pairs[i].refused) counts[result->pairs[i].comparison.verdict]++;
    const plb_verdict order[] = {PLB_VERDICT_SLOWER, PLB_VERDICT_FASTER, PLB_VERDICT_SAME,
                                 PLB_VERDICT_UNSURE};
    for (int k = 0; k < 4; k++) {
        if (!counts[order[k]]) continue;
        plb_document_verdict(d, plb_verdict_tone(order[k]), plb_verdict_name(order[k]),
                             "%zu case%s", counts[order[k]], counts[order[k]] == 1 ? "" : "s");
    }
    if (result->refused) {
        plb_document_verdict(d, PLB_TONE_PLAIN, "REFUSED",
                             "%zu pair%s of cases cannot be compared; the table says why.",
                             result->refused, result->refused == 1 ? "" : "s");
    }
    if (!result->count)
        plb_document_verdict(d, PLB_TONE_PLAIN, "NOTHING", "The two runs share no case.");
}

static const char *title_of(const request *r, const char *keys) {
    plb_case c;
    char title[512];
    if (plb_case_parse(keys, &c)) return keys;
    plb_case_title(&c, title, sizeof title);
    const char *copy = plb_arena_strdup(r->arena, title);
    return copy ? copy : keys;
}

static void add_pair(const request *r, plb_table *t, const plb_pair *pair) {
    const plb_comparison *c = &pair->comparison;
    const double none = (double)NAN;
    char address[64], need[256];
    plb_comparison_need(c, need, sizeof need);
    snprintf(address, sizeof address, "/case/%s", pair->b->case_hash);
    plb_table_link(t, address, "%s", title_of(r, pair->b->keys));
    if (pair->refused)
        plb_table_badge(t, PLB_TONE_PLAIN, "REFUSED");
    else
        plb_table_badge(t, plb_verdict_tone(c->verdict), plb_verdict_name(c->verdict));
    plb_table_number(t, pair->refused ? none : c->ratio);
    plb_table_number(t, pair->refused ? none : c->low);
    plb_table_number(t, pair->refused ? none : c->high);
    plb_table_number(t, pair->summary_a.starts ? pair->summary_a.median_ns : none);
    plb_table_number(t, pair->summary_b.starts ? pair->summary_b.median_ns : none);
    plb_table_number(t, pair->refused ? none : c->detectable);
    if (pair->refused && pair->difference_count)
        plb_table_text(t, "%s: %s, %s", pair->differences[0].key, pair->differences[0].a,
                       pair->differences[0].b);
    else
        plb_table_text(t, "%s", need);
}

static plb_status fill_compare(const request *r, plb_document *d, const char *a, const char *b) {
    plb_compare_result result;
    const plb_compare_request what = {.a = plb_arena_printf(r->arena, "run:%s", a),
                                      .b = plb_arena_printf(r->arena, "run:%s", b)};
    if (!what.a || !what.b) return no_memory();
    PLB_TRY(plb_compare_run(r->store, &what, r->arena, &result));
    say_counts(d, &result);
    plb_section *s = plb_document_section(d, "Cases");
    plb_section_say(s,
                    "The ratio is the time in run %s over that in run %s, with its 95 %% "
                    "interval; the smallest difference that would have been called in 95 of 100 "
                    "cases stands beside it.",
                    b, a);
    plb_table *t = plb_section_table(s, "pairs", NULL);
    plb_table_column(t, "case", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "verdict", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "ratio", PLB_COLUMN_NUMBER, PLB_UNIT_RATIO);
    plb_table_column(t, "low", PLB_COLUMN_NUMBER, PLB_UNIT_RATIO);
    plb_table_column(t, "high", PLB_COLUMN_NUMBER, PLB_UNIT_RATIO);
    plb_table_column(t, "before", PLB_COLUMN_NUMBER, PLB_UNIT_NS);
    plb_table_column(t, "after", PLB_COLUMN_NUMBER, PLB_UNIT_NS);
    plb_table_column(t, "would see", PLB_COLUMN_NUMBER, PLB_UNIT_SHARE);
    plb_table_column(t, "needed", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    for (size_t i = 0; i < result.count; i++) add_pair(r, t, &result.pairs[i]);
    return plb_document_status(d);
}

static plb_status put_compare(const request *r, const char *names) {
    char a[24], b[24], title[80];
    plb_run_row *first, *second;
    int end = 0;
    if (sscanf(names, "%20[0-9]/%20[0-9]%n", a, b, &end) != 2 || names[end])
        return put_missing(r, "Expected the numbers of two runs: /compare/11/12.");
    PLB_TRY(find_run(r, strtoll(a, NULL, 10), &first));
    PLB_TRY(find_run(r, strtoll(b, NULL, 10), &second));
    if (!first || !second) return put_not_there(r, "run", first ? b : a);
    if (first->id == second->id)
        return put_missing(r, "Expected the numbers of two runs: a run is as fast as itself.");
    snprintf(title, sizeof title, "Run %s against run %s", b, a);
    plb_document *d = plb_document_new(title);
    if (!d) return no_memory();
    snprintf(title, sizeof title, "plumb compare %s %s", a, b);
    plb_document_set_command(d, title);
    const plb_page_link links[] = {{plb_arena_printf(r->arena, "/run/%s", a), "Before"},
                                   {plb_arena_printf(r->arena, "/run/%s", b), "After"}};
    plb_status status = links[0].address && links[1].address ? PLB_OK : no_memory();
    if (!status) status = fill_compare(r, d, a, b);
    if (!status) status = put_page(r, d, 0, links, 2);
    plb_document_free(d);
    return status;
}

// ---------------------------------------------------------------------------- addresses
static plb_status route(const request *r, const char *path) {
    static const struct {
        const char *head;
        plb_status (*put)(const request *r, const char *rest);
    } routes[] = {{"/run/", put_run}, {"/case/", put_case}, {"/compare/", put_compare}};
    if (strcmp(path, "/") == 0) return put_runs(r);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const size_t length = strlen(routes[i].head);
        if (strncmp(path, routes[i].head, length) == 0) return routes[i].put(r, path + length);
    }
    return put_missing(r, "No page has this address.");
}

plb_status plb_serve_page(plb_store *store, const char *path, plb_strbuf *out, int *status) {
    request r = {.store = store, .arena = plb_arena_new(), .out = out, .status = status};
    if (!r.arena) return no_memory();
    *status = 200;
    plb_status result = route(&r, path);
    plb_arena_free(r.arena);
    return result;
}
