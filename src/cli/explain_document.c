// SPDX-License-Identifier: Apache-2.0
#include "cli/explain_document.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "report/palette.h"

enum { MOST_KINDS = 9 }; // of ops in the roofline: those that take most time

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory for a report");
}

static bool counts(const plb_explained_op *op) {
    return !op->op.prologue && op->seconds > 0;
}

static double sum_seconds(const plb_explained *e) {
    double sum = 0;
    for (int i = 0; i < e->n_ops; i++) sum += counts(&e->ops[i]) ? e->ops[i].seconds : 0;
    return sum;
}

// ---------------------------------------------------------------------------- kinds of ops
typedef struct kind {
    const char *name;
    double seconds, least;
    size_t ops;
} kind;

// Kinds by the time that they take, the longest first.
typedef struct kind_list {
    kind *item;
    size_t count;
} kind_list;

static plb_status list_kinds(const plb_explained *e, plb_arena *arena, kind_list *out) {
    kind *item = plb_arena_alloc(arena, ((size_t)e->n_ops + 1) * sizeof *item);
    size_t count = 0;
    if (!item) return no_memory();
    for (int i = 0; i < e->n_ops; i++) {
        size_t k = 0;
        if (!counts(&e->ops[i])) continue;
        while (k < count && strcmp(item[k].name, e->ops[i].op.op) != 0) k++;
        if (k == count) item[count++] = (kind){.name = e->ops[i].op.op};
        item[k].seconds += e->ops[i].seconds, item[k].least += e->ops[i].least, item[k].ops++;
    }
    for (size_t i = 1; i < count; i++) {
        for (size_t k = i; k > 0 && item[k].seconds > item[k - 1].seconds; k--) {
            const kind swap = item[k];
            item[k] = item[k - 1], item[k - 1] = swap;
        }
    }
    *out = (kind_list){item, count};
    return PLB_OK;
}

// ---------------------------------------------------------------------------- the roofline
// A roof from `low` to where `ceiling` begins, and on to `high` if it is the ceiling itself.
static plb_status add_roof(plb_arena *arena, const char *name, double bandwidth, double ceiling,
                           double low, double high, plb_figure_series *out) {
    double *at = plb_arena_alloc(arena, 4 * sizeof *at);
    if (!at) return no_memory();
    at[0] = low;
    at[1] = bandwidth > 0 ? fmax(ceiling / bandwidth, low) : high;
    at[2] = bandwidth > 0 ? at[0] * bandwidth : ceiling;
    at[3] = bandwidth > 0 ? at[1] * bandwidth : ceiling;
    *out = (plb_figure_series){.name = name,
                               .count = 2,
                               .x = at,
                               .y = at + 2,
                               .style = PLB_SERIES_LINE,
                               .colour = PLB_PALETTE};
    return PLB_OK;
}

static plb_status add_points(const plb_explained *e, plb_arena *arena, const char *name,
                             plb_figure_series *out) {
    const size_t most = (size_t)e->n_ops + 1;
    double *x = plb_arena_alloc(arena, 2 * most * sizeof *x), *y = x + most;
    const char **label = plb_arena_alloc(arena, most * sizeof *label);
    size_t n = 0;
    if (!x || !label) return no_memory();
    for (int i = 0; i < e->n_ops; i++) {
        const plb_explained_op *op = &e->ops[i];
        if (!counts(op) || strcmp(op->op.op, name) != 0) continue;
        if (!(op->op.flops > 0) || !(op->op.bytes > 0)) continue;
        x[n] = op->op.flops / op->op.bytes, y[n] = op->op.flops / op->seconds;
        label[n] = plb_arena_printf(arena, "%s%s%s", op->op.scope, *op->op.scope ? ", " : "",
                                    op->op.kernel);
        if (!label[n++]) return no_memory();
    }
    *out = (plb_figure_series){.name = name, .count = n, .x = x, .y = y, .label = label};
    return PLB_OK;
}

static void range_of(const plb_figure_series *series, size_t count, double *low, double *high) {
    *low = *high = (double)NAN;
    for (size_t s = 0; s < count; s++) {
        for (size_t i = 0; i < series[s].count; i++)
            *low = fmin(*low, series[s].x[i]), *high = fmax(*high, series[s].x[i]);
    }
}

static plb_status add_roofline(const plb_explained *e, const kind_list *kinds, plb_document *d,
                               plb_section *s) {
    plb_arena *arena = plb_document_arena(d);
    plb_figure_series series[MOST_KINDS + 3];
    size_t n = 0;
    double low, high;
    for (size_t k = 0; k < kinds->count && n < MOST_KINDS; k++) {
        PLB_TRY(add_points(e, arena, kinds->item[k].name, &series[n]));
        if (series[n].count) series[n].colour = (int)n + 1, n++;
    }
    if (!n) return PLB_OK;
    range_of(series, n, &low, &high);
    const plb_roof *r = &e->roof;
    high = fmax(high, 2 * r->flops_per_s / r->memory_bytes_per_s);
    PLB_TRY(add_roof(arena, "arithmetic", 0, r->flops_per_s, low, high, &series[n++]));
    PLB_TRY(
        add_roof(arena, "memory", r->memory_bytes_per_s, r->flops_per_s, low, high, &series[n++]));
    if (r->cache_bytes) {
        PLB_TRY(add_roof(arena, "cache", r->cache_bytes_per_s, r->flops_per_s, low, high,
                         &series[n++]));
        series[n - 1].style = PLB_SERIES_DASHED;
    }
    const plb_figure figure = {
        .kind = PLB_FIGURE_POINTS,
        .name = "roofline",
        .title = "Ops against the measured roofs",
        .caption = "Each op at the arithmetic that its kernel executes for a byte, and what it "
                   "achieves. Above the roof of memory is what found its operands in a cache.",
        .x = {.title = "arithmetic for a byte", .unit = PLB_UNIT_FLOP_BYTE, .log = true},
        .y = {.title = "achieved", .unit = PLB_UNIT_FLOPS, .log = true},
        .series = series,
        .series_count = n,
    };
    plb_section_figure(s, &figure);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- time and memory
static plb_status add_kinds(const kind_list *kinds, plb_document *d, plb_section *s) {
    plb_arena *arena = plb_document_arena(d);
    const size_t n = kinds->count;
    const char **category = plb_arena_alloc(arena, (n + 1) * sizeof *category);
    double *least = plb_arena_alloc(arena, 2 * (n + 1) * sizeof *least), *above = least + n + 1;
    if (!category || !least) return no_memory();
    for (size_t k = 0; k < n; k++) {
        const kind *one = &kinds->item[k];
        category[k] = plb_arena_printf(arena, "%s (%zu)", one->name, one->ops);
        if (!category[k]) return no_memory();
        least[k] = fmin(one->least, one->seconds);
        above[k] = one->seconds - least[k];
    }
    const plb_figure_series series[] = {
        {.name = "what the roof allows at best", .count = n, .y = least},
        {.name = "above it", .count = n, .y = above}};
    const plb_figure figure = {
        .kind = PLB_FIGURE_STACK,
        .name = "kinds",
        .title = "Time by kind of op",
        .caption = "The shortest call of each op, added up.",
        .y = {.title = "time in one iteration", .unit = PLB_UNIT_SECONDS},
        .category = category,
        .categories = n,
        .series = series,
        .series_count = 2,
    };
    if (n) plb_section_figure(s, &figure);
    return PLB_OK;
}

// Each op is as wide as the others: the steps of the schedule, not its time.
static plb_status add_memory(const plb_explained *e, plb_document *d, plb_section *s) {
    static const char *const names[] = {"weights",   "optimizer",   "inputs, outputs",
                                        "gradients", "activations", "workspace"};
    enum { PARTS = 6 };
    plb_arena *arena = plb_document_arena(d);
    const plb_plan_bytes b = plb_plan_memory(e->plan);
    const size_t most = 2 * (size_t)e->n_ops + 1;
    double *x = plb_arena_alloc(arena, most * sizeof *x), *y[PARTS];
    plb_figure_series series[PARTS];
    size_t n = 0, parts = 0;
    for (int p = 0; p < PARTS; p++) {
        y[p] = plb_arena_alloc(arena, most * sizeof **y);
        if (!y[p] || !x) return no_memory();
    }
    const double bound =
        (double)b.total - (double)(b.weights + b.optimizer + b.transient + b.kernels);
    for (int i = 0; i < e->n_ops; i++) {
        const plb_plan_op *op = &e->ops[i].op;
        for (int side = 0; side < 2; side++, n++) { // a step has two ends
            x[n] = i + side;
            y[0][n] = (double)b.weights, y[1][n] = (double)b.optimizer, y[2][n] = bound;
            y[3][n] = (double)op->live_gradient_bytes;
            y[4][n] = (double)(op->live_bytes - op->live_gradient_bytes - op->live_workspace_bytes);
            y[5][n] = (double)op->live_workspace_bytes;
        }
    }
    for (int p = 0; p < PARTS; p++) {
        double largest = 0;
        for (size_t i = 0; i < n; i++) largest = fmax(largest, y[p][i]);
        if (largest > 0)
            series[parts++] = (plb_figure_series){
                .name = names[p], .count = n, .x = x, .y = y[p], .colour = p + 1};
    }
    const plb_figure figure = {
        .kind = PLB_FIGURE_AREAS,
        .name = "memory",
        .title = "Memory over the schedule",
        .caption = "What is alive while each op runs, the first to the last. Values whose lives do "
                   "not overlap share their place in one slab.",
        .x = {.title = "op", .unit = PLB_UNIT_COUNT},
        .y = {.title = "planned memory", .unit = PLB_UNIT_BYTES, .zero = true},
        .series = series,
        .series_count = parts,
    };
    if (n && parts) plb_section_figure(s, &figure);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- tables
static void add_ops(const plb_explained *e, plb_section *s) {
    const double sum = sum_seconds(e), none = (double)NAN;
    plb_table *t = plb_section_table(s, "ops", NULL);
    plb_table_column(t, "place", PLB_COLUMN_NUMBER, PLB_UNIT_COUNT);
    plb_table_column(t, "op", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "scope", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "time", PLB_COLUMN_NUMBER, PLB_UNIT_SECONDS);
    plb_table_column(t, "of all", PLB_COLUMN_NUMBER, PLB_UNIT_SHARE);
    plb_table_column(t, "of the roof", PLB_COLUMN_NUMBER, PLB_UNIT_SHARE);
    plb_table_column(t, "flop", PLB_COLUMN_NUMBER, PLB_UNIT_COUNT);
    plb_table_column(t, "bytes", PLB_COLUMN_NUMBER, PLB_UNIT_BYTES);
    plb_table_column(t, "achieved", PLB_COLUMN_NUMBER, PLB_UNIT_FLOPS);
    plb_table_column(t, "output", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "kernel", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "better ones refused", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    for (int i = 0; i < e->n_ops; i++) {
        const plb_explained_op *op = &e->ops[i];
        char shape[160];
        const bool timed = counts(op);
        plb_table_number(t, i);
        plb_table_text(t, "%s%s%s", op->op.op, op->op.backward ? " (backward)" : "",
                       op->op.prologue ? " (once)" : "");
        plb_table_text(t, "%s", op->op.scope);
        plb_table_number(t, op->seconds > 0 ? op->seconds : none);
        plb_table_number(t, timed && sum > 0 ? op->seconds / sum : none);
        plb_table_number(t, timed && op->least > 0 ? op->least / op->seconds : none);
        plb_table_number(t, op->op.flops);
        plb_table_number(t, op->op.bytes);
        plb_table_number(t, timed && op->op.flops > 0 ? op->op.flops / op->seconds : none);
        plb_table_text(t, "%s", plb_shape_format(&op->op.type.shape, shape, sizeof shape));
        plb_table_text(t, "%s %s", op->op.kernel, op->op.choice);
        plb_table_text(t, "%s", op->op.refused);
    }
}

static void add_roofs(const plb_roof *r, plb_section *s) {
    plb_table *t = plb_section_table(s, "roofs", "Measured roofs");
    plb_table_column(t, "roof", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "arithmetic", PLB_COLUMN_NUMBER, PLB_UNIT_FLOPS);
    plb_table_column(t, "bytes a second", PLB_COLUMN_NUMBER, PLB_UNIT_BYTES);
    plb_table_column(t, "measured on", PLB_COLUMN_NUMBER, PLB_UNIT_BYTES);
    plb_table_text(t, "arithmetic, %s", r->isa);
    plb_table_number(t, r->flops_per_s);
    plb_table_number(t, (double)NAN), plb_table_number(t, (double)NAN);
    if (r->cache_bytes) {
        plb_table_text(t, "cache"), plb_table_number(t, (double)NAN);
        plb_table_number(t, r->cache_bytes_per_s), plb_table_number(t, (double)r->cache_bytes);
    }
    plb_table_text(t, "memory"), plb_table_number(t, (double)NAN);
    plb_table_number(t, r->memory_bytes_per_s);
    plb_table_number(t, (double)r->memory_buffer_bytes);
}

// ---------------------------------------------------------------------------- the document
static void say_summary(const plb_explained *e, const kind_list *kinds, plb_document *d) {
    double flops = 0, least = 0;
    char time[PLB_UNIT_BYTES_SHOWN], rate[PLB_UNIT_BYTES_SHOWN], memory[PLB_UNIT_BYTES_SHOWN];
    for (int i = 0; i < e->n_ops; i++) {
        if (!counts(&e->ops[i])) continue;
        flops += e->ops[i].op.flops, least += e->ops[i].least;
    }
    plb_unit_show(PLB_UNIT_SECONDS, e->seconds, time);
    plb_unit_show(PLB_UNIT_FLOPS, flops / e->seconds, rate);
    plb_unit_show(PLB_UNIT_BYTES, (double)plb_plan_memory(e->plan).total, memory);
    plb_document_verdict(d, PLB_TONE_PLAIN, NULL,
                         "One iteration takes %s: %s, %.0f %% of what the measured roofs allow.",
                         time, rate, 100 * least / e->seconds);
    if (kinds->count) {
        const kind *most = &kinds->item[0];
        plb_document_verdict(
            d, PLB_TONE_PLAIN, NULL, "Most time goes into %s: %.0f %%, at %.0f %% of its roof.",
            most->name, 100 * most->seconds / sum_seconds(e), 100 * most->least / most->seconds);
    }
    plb_document_verdict(d, PLB_TONE_PLAIN, NULL, "The plan takes %s of memory.", memory);
}

static plb_status fill(const plb_explained *e, plb_document *d) {
    kind_list kinds = {0};
    PLB_TRY(list_kinds(e, plb_document_arena(d), &kinds));
    char input[128] = ""; // not of a file
    if (e->batch)
        snprintf(input, sizeof input, "batch %" PRId64 " of %" PRId64 "×%" PRId64 "×%" PRId64 ", ",
                 e->batch, e->channels, e->height, e->width);
    plb_document_set_subtitle(d, "%s, %s%s, %d thread%s, the shortest of %d runs", e->task, input,
                              e->options.device ? e->options.device : "cpu", e->options.threads,
                              e->options.threads == 1 ? "" : "s", e->runs);
    say_summary(e, &kinds, d);
    plb_section *s = plb_document_section(d, "Time");
    PLB_TRY(add_kinds(&kinds, d, s));
    PLB_TRY(add_roofline(e, &kinds, d, s));
    add_roofs(&e->roof, s);
    PLB_TRY(add_memory(e, d, plb_document_section(d, "Memory")));
    add_ops(e, plb_document_section(d, "All ops"));
    plb_section_text(plb_document_section(d, "Passes"), "What each pass did",
                     plb_plan_report(e->plan));
    return plb_document_status(d);
}

plb_status plb_explain_document(const plb_explained *e, const char *command, plb_document **out) {
    plb_strbuf title = {0}; // the model may be a path of any length
    plb_strbuf_printf(&title, "%s, op by op", e->model);
    *out = title.failed ? NULL : plb_document_new(title.text);
    plb_strbuf_free(&title);
    if (!*out) return no_memory();
    plb_document_set_command(*out, command);
    plb_status status = fill(e, *out);
    if (status) {
        plb_document_free(*out);
        *out = NULL;
    }
    return status;
}
