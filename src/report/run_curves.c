// SPDX-License-Identifier: Apache-2.0
// Figures of a run over time: the warm-up of a start, iteration by iteration, and the history of a
// case, run by run.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/status.h"
#include "bench/stats.h"
#include "report/palette.h"
#include "report/run_cases.h"

enum { MOST_CURVES = 12, MOST_GROUPS = 6, POINTS = 150, LEAST_RUNS = 3 };

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory for a run's curves");
}

// ---------------------------------------------------------------------------- warm-up
// The times of a start's iterations, and how many of them were warm-up.
typedef struct curve {
    double *x, *y; // iterations from 1, nanoseconds
    size_t count, warmup;
    double began; // the first iteration that counts
} curve;

static plb_status read_curve(const plb_run_cases *all, const plb_run_case *c, curve *out) {
    plb_store_block *blocks;
    size_t count, total = 0;
    double done = 0;
    *out = (curve){0};
    PLB_TRY(plb_store_blocks(all->store, c->first_start, all->arena, &blocks, &count));
    for (size_t b = 0; b < count; b++) total += blocks[b].count;
    out->x = plb_arena_alloc(all->arena, (total + 1) * sizeof *out->x);
    out->y = plb_arena_alloc(all->arena, (total + 1) * sizeof *out->y);
    if (!out->x || !out->y) return no_memory();
    for (size_t b = 0; b < count; b++) {
        const double each = (double)blocks[b].iterations_per_sample;
        for (size_t i = 0; i < blocks[b].count; i++) {
            done += each;
            out->x[out->count] = done;
            out->y[out->count++] = (double)blocks[b].samples_ns[i] / each;
        }
        if (blocks[b].kind == PLB_BLOCK_WARMUP) out->warmup = out->count;
    }
    if (out->warmup < out->count) out->began = out->x[out->warmup];
    return PLB_OK;
}

// All of the first samples, then medians of stretches that grow with the number of the iteration:
// on a logarithmic axis points are as far apart everywhere. No stretch holds warm-up and more.
static void thin(curve *c) {
    size_t n = 0;
    const size_t warmup = c->warmup;
    const double step = c->count > POINTS ? pow((double)c->count / 10, 1.0 / (POINTS - 10)) : 1;
    double next = 1;
    for (size_t from = 0; from < c->count;) {
        size_t to = from + 1;
        if (from >= 10 && step > 1) {
            next = fmax((double)from * step, (double)from + 1);
            to = (size_t)next < c->count ? (size_t)next : c->count;
        }
        if (from < warmup && to > warmup) to = warmup;
        const double x = c->x[from + (to - from) / 2];
        c->y[n] = plb_median(c->y + from, to - from);
        c->x[n++] = x;
        if (to == warmup) c->warmup = n;
        from = to;
    }
    c->count = n;
}

// Says how many lines of a figure that has `shown` of them are missing.
static const char *caption_of(const plb_run_cases *all, const char *text, size_t shown,
                              size_t missing) {
    const char *more = missing ? plb_arena_printf(all->arena,
                                                  "%s These are the first %zu; %zu more are left "
                                                  "out of the figure.",
                                                  text, shown, missing)
                               : text;
    return more ? more : text;
}

static plb_status add_warmup(const plb_run_cases *all, const plb_run_group *g, plb_section *s) {
    plb_figure_series series[MOST_CURVES + 1];
    double *ends = plb_arena_alloc(all->arena, 2 * MOST_CURVES * sizeof *ends);
    size_t n = 0, marked = 0, missing = 0;
    if (!ends) return no_memory();
    for (size_t i = 0; i < g->members; i++) {
        const plb_run_case *c = &g->member[i];
        curve line;
        if (!c->ok || c->first_start < 0) continue;
        missing += n == MOST_CURVES;
        if (n == MOST_CURVES) continue;
        PLB_TRY(read_curve(all, c, &line));
        thin(&line);
        if (!line.count) continue;
        if (line.warmup && line.warmup < line.count) {
            ends[marked] = line.began;
            ends[MOST_CURVES + marked++] = line.y[line.warmup];
        }
        series[n++] = (plb_figure_series){.name = c->name,
                                          .count = line.count,
                                          .x = line.x,
                                          .y = line.y,
                                          .style = PLB_SERIES_LINE,
                                          .colour = plb_stack_colour(c->c.stack)};
    }
    if (!n) return PLB_OK;
    const char *name = plb_arena_printf(all->arena, "warm-up-%s", g->name);
    if (!name) return no_memory();
    series[n] = (plb_figure_series){.name = "measured from here on",
                                    .count = marked,
                                    .x = ends,
                                    .y = ends + MOST_CURVES,
                                    .style = PLB_SERIES_DOTS,
                                    .colour = PLB_PALETTE};
    const plb_figure figure = {
        .kind = PLB_FIGURE_LINES,
        .name = name,
        .title = g->title,
        .caption = caption_of(all,
                              "The first start of each stack, iteration by iteration; beyond the "
                              "tenth, medians of stretches. What lies before the mark was found to "
                              "be warm-up and is in no result.",
                              n, missing),
        .command = plb_run_command(all, name),
        .x = {.title = "iteration", .unit = PLB_UNIT_COUNT, .log = true},
        .y = {.title = "time of one iteration", .unit = PLB_UNIT_NS, .log = true},
        .series = series,
        .series_count = n + (marked > 0),
    };
    plb_section_figure(s, &figure);
    return PLB_OK;
}

plb_status plb_run_add_warmup(const plb_run_cases *all, plb_document *d) {
    plb_section *s = NULL;
    size_t figures = 0, measured = 0;
    for (size_t g = 0; g < all->groups; g++) measured += all->group[g].ok > 0;
    for (size_t g = 0; g < all->groups && figures < MOST_GROUPS; g++) {
        if (!all->group[g].ok) continue;
        if (!s) s = plb_document_section(d, "Warm-up");
        if (!figures && measured > MOST_GROUPS)
            plb_section_say(s, "The first %d of %zu sets of cases.", MOST_GROUPS, measured);
        PLB_TRY(add_warmup(all, &all->group[g], s));
        figures++;
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- history
typedef struct past {
    const plb_measurement_row *row;
    size_t count;
} past;

// The rows of one case, which lie together.
static past find_past(const plb_measurement_row *rows, size_t count, int64_t case_id,
                      int64_t machine) {
    past p = {0};
    for (size_t i = 0; i < count; i++) {
        if (rows[i].case_id != case_id || rows[i].machine_id != machine) continue;
        if (!p.count++) p.row = &rows[i];
    }
    return p;
}

static plb_status fill_past(const plb_run_cases *all, const past *p, const plb_run_case *c,
                            plb_figure_series *out) {
    double *x = plb_arena_alloc(all->arena, 4 * (p->count + 1) * sizeof *x);
    if (!x) return no_memory();
    double *y = x + p->count + 1, *low = y + p->count + 1, *high = low + p->count + 1;
    for (size_t i = 0; i < p->count; i++) {
        plb_summary s;
        PLB_TRY(plb_summary_of_row(all->store, &p->row[i], all->arena, &s));
        x[i] = (double)p->row[i].run;
        y[i] = s.median_ns, low[i] = s.low_ns, high[i] = s.high_ns;
    }
    *out = (plb_figure_series){.name = c->name,
                               .count = p->count,
                               .x = x,
                               .y = y,
                               .low = low,
                               .high = high,
                               .colour = plb_stack_colour(c->c.stack)};
    return PLB_OK;
}

static plb_status add_history(const plb_run_cases *all, const plb_run_group *g,
                              const plb_measurement_row *rows, size_t count, plb_document *d,
                              plb_section **section, size_t *figures, size_t *left_out) {
    plb_figure_series series[MOST_CURVES];
    size_t n = 0, missing = 0;
    for (size_t i = 0; i < g->members; i++) {
        const plb_run_case *c = &g->member[i];
        const past p = find_past(rows, count, c->row->case_id, c->row->machine_id);
        if (p.count < LEAST_RUNS) continue;
        missing += n == MOST_CURVES;
        if (n < MOST_CURVES) PLB_TRY(fill_past(all, &p, c, &series[n++]));
    }
    if (!n) return PLB_OK;
    if (*figures == MOST_GROUPS) {
        ++*left_out;
        return PLB_OK;
    }
    const char *name = plb_arena_printf(all->arena, "history-%s", g->name);
    if (!name) return no_memory();
    if (!*section) *section = plb_document_section(d, "History");
    const plb_figure figure = {
        .kind = PLB_FIGURE_LINES,
        .name = name,
        .title = g->title,
        .caption = caption_of(all,
                              "The same case in every run on this machine, with the 95 % interval "
                              "over its starts.",
                              n, missing),
        .command = plb_run_command(all, name),
        .x = {.title = "run", .unit = PLB_UNIT_COUNT},
        .y = {.title = "time of one iteration", .unit = PLB_UNIT_NS, .log = true},
        .series = series,
        .series_count = n,
    };
    plb_section_figure(*section, &figure);
    ++*figures;
    return PLB_OK;
}

plb_status plb_run_add_history(const plb_run_cases *all, plb_document *d) {
    plb_measurement_row *rows;
    plb_section *section = NULL;
    size_t count, figures = 0, left_out = 0;
    if (!all->count) return PLB_OK;
    PLB_TRY(plb_store_history(all->store, &all->run->id, 1, PLB_SUMMARY_ALGORITHM, all->arena,
                              &rows, &count));
    for (size_t g = 0; g < all->groups; g++)
        PLB_TRY(add_history(all, &all->group[g], rows, count, d, &section, &figures, &left_out));
    if (left_out)
        plb_section_say(section,
                        "%zu more sets of cases have a history; plumb serve shows that of every "
                        "case.",
                        left_out);
    return PLB_OK;
}
