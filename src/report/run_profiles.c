// SPDX-License-Identifier: Apache-2.0
// What the probe saw of each case that `plumb bench --profile` profiled: where an iteration's time
// went on the device, how busy the host was, kernels and calls. Times of tables and figures
// elsewhere come from other starts, without the probe.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "bench/case_profile.h"
#include "report/run_cases.h"

enum { MOST_BARS = 48 };

typedef struct profiled {
    const plb_run_case *of;
    plb_case_profile p;
} profiled;

typedef struct teller {
    const plb_run_cases *all;
    profiled *item;
    size_t count;
    plb_section *section;
} teller;

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory for a run's profiles");
}

static plb_status collect(teller *t) {
    t->item = plb_arena_alloc(t->all->arena, (t->all->count + 1) * sizeof *t->item);
    if (!t->item) return no_memory();
    for (size_t i = 0; i < t->all->count; i++) {
        profiled *at = &t->item[t->count];
        at->of = &t->all->item[i];
        PLB_TRY(plb_case_profile_read(at->of->row->results, t->all->arena, &at->p));
        t->count += at->p.there;
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- the tables
static void add_columns(plb_table *table) {
    static const struct {
        const char *title;
        plb_unit unit;
    } columns[] = {{"batch", PLB_UNIT_COUNT},       {"size", PLB_UNIT_COUNT},
                   {"iterations", PLB_UNIT_COUNT},  {"iteration", PLB_UNIT_NS},
                   {"processor time", PLB_UNIT_NS}, {"processors busy", PLB_UNIT_NONE},
                   {"active", PLB_UNIT_SHARE},      {"moving data", PLB_UNIT_SHARE},
                   {"idle", PLB_UNIT_SHARE},        {"kernels", PLB_UNIT_COUNT},
                   {"kernel time", PLB_UNIT_NS}};
    static const char *const texts[] = {"model", "task", "stack", "device"};
    for (int i = 0; i < 4; i++) plb_table_column(table, texts[i], PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        plb_table_column(table, columns[i].title, PLB_COLUMN_NUMBER, columns[i].unit);
    plb_table_column(table, "remark", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
}

static void add_row(plb_table *table, const profiled *at) {
    const plb_case *c = &at->of->c;
    const plb_case_profile *p = &at->p;
    plb_table_text(table, "%s", c->model);
    plb_table_text(table, "%s", c->task);
    plb_table_text(table, "%s", at->of->name);
    plb_table_text(table, "%s", c->device);
    plb_table_number(table, (double)c->batch);
    plb_table_number(table, c->size ? (double)c->size : (double)NAN);
    plb_table_number(table, p->failure ? (double)NAN : (double)p->iterations);
    plb_table_number(table, p->wall_ns);
    plb_table_number(table, p->cpu_ns);
    plb_table_number(table, p->cpu_ns / p->wall_ns);
    plb_table_number(table, p->active);
    plb_table_number(table, p->move);
    plb_table_number(table, p->idle);
    plb_table_number(table, p->launches);
    plb_table_number(table, p->device_ns);
    plb_table_text(table, "%s%s",
                   p->failure ? "no profile: "
                   : p->lacks ? "incomplete: "
                              : "",
                   p->failure ? p->failure
                   : p->lacks ? p->lacks
                              : "");
}

static void add_summary(teller *t) {
    plb_table *table = plb_section_table(t->section, "profiles", "A probed start of each case");
    add_columns(table);
    for (size_t i = 0; i < t->count; i++) add_row(table, &t->item[i]);
}

static void add_work(teller *t) {
    plb_table *table = NULL;
    for (size_t i = 0; i < t->count; i++) {
        const profiled *at = &t->item[i];
        for (size_t k = 0; k < at->p.rows; k++) {
            const plb_profile_row *row = &at->p.row[k];
            if (!table) {
                table = plb_section_table(t->section, "profile-work",
                                          "Classes, kernels and calls of one iteration");
                static const char *const texts[] = {"case", "kind", "name", "class"};
                for (int n = 0; n < 4; n++)
                    plb_table_column(table, texts[n], PLB_COLUMN_TEXT, PLB_UNIT_NONE);
                plb_table_column(table, "calls", PLB_COLUMN_NUMBER, PLB_UNIT_COUNT);
                plb_table_column(table, "time", PLB_COLUMN_NUMBER, PLB_UNIT_NS);
            }
            plb_table_text(table, "%s, %s", t->all->group[at->of->group].title, at->of->name);
            plb_table_text(table, "%s", row->kind);
            plb_table_text(table, "%s", row->name);
            plb_table_text(table, "%s", row->class);
            plb_table_number(table, row->calls);
            plb_table_number(table, row->ns);
        }
    }
}

// ---------------------------------------------------------------------------- the figures
typedef struct bars {
    const char **category;
    double *y[3];
    int *colour;
    size_t count;
} bars;

static plb_status make_bars(const teller *t, bars *out) {
    plb_arena *arena = t->all->arena;
    *out = (bars){.category = plb_arena_alloc(arena, (t->count + 1) * sizeof *out->category),
                  .colour = plb_arena_alloc(arena, (t->count + 1) * sizeof *out->colour)};
    if (!out->category || !out->colour) return no_memory();
    for (int k = 0; k < 3; k++) {
        out->y[k] = plb_arena_alloc(arena, (t->count + 1) * sizeof *out->y[k]);
        if (!out->y[k]) return no_memory();
    }
    return PLB_OK;
}

static plb_status add_bar(const teller *t, const profiled *at, bars *to) {
    const plb_run_group *g = &t->all->group[at->of->group];
    const char *name = t->all->groups > 1
                           ? plb_arena_printf(t->all->arena, "%s, %s", at->of->name, g->title)
                           : at->of->name;
    if (!name) return no_memory();
    to->category[to->count] = name;
    to->colour[to->count++] = plb_stack_colour(at->of->c.stack);
    return PLB_OK;
}

static plb_status draw_devices(teller *t) {
    static const char *const titles[] = {"active", "moving data", "idle"};
    bars b;
    PLB_TRY(make_bars(t, &b));
    for (size_t i = 0; i < t->count && b.count < MOST_BARS; i++) {
        const plb_case_profile *p = &t->item[i].p;
        if (!p->devices) continue;
        b.y[0][b.count] = p->active, b.y[1][b.count] = p->move, b.y[2][b.count] = p->idle;
        PLB_TRY(add_bar(t, &t->item[i], &b));
    }
    if (!b.count) return PLB_OK;
    plb_figure_series series[3];
    for (int k = 0; k < 3; k++)
        series[k] = (plb_figure_series){
            .name = titles[k], .count = b.count, .y = b.y[k], .colour = k == 2 ? 11 : k + 1};
    plb_section_figure(
        t->section,
        &(plb_figure){.kind = PLB_FIGURE_STACK,
                      .name = "profile-devices",
                      .title = "Where the time of the device goes",
                      .caption = "From the first work to the last. Active: something computes or "
                                 "copies within the device; moving data: only copies to or from "
                                 "the host run.",
                      .command = plb_run_command(t->all, "profile-devices"),
                      .y = {.title = "share of the time", .unit = PLB_UNIT_SHARE},
                      .category = b.category,
                      .categories = b.count,
                      .series = series,
                      .series_count = 3});
    return PLB_OK;
}

static plb_status draw_host(teller *t) {
    bars b;
    PLB_TRY(make_bars(t, &b));
    for (size_t i = 0; i < t->count && b.count < MOST_BARS; i++) {
        const plb_case_profile *p = &t->item[i].p;
        if (isnan(p->cpu_ns) || !(p->wall_ns > 0)) continue;
        b.y[0][b.count] = p->cpu_ns / p->wall_ns;
        PLB_TRY(add_bar(t, &t->item[i], &b));
    }
    if (!b.count) return PLB_OK;
    const plb_figure_series series = {.name = "", .count = b.count, .y = b.y[0]};
    plb_section_figure(
        t->section,
        &(plb_figure){.kind = PLB_FIGURE_BARS,
                      .name = "profile-host",
                      .title = "Processors busy during an iteration",
                      .caption = "Processor time of the worker's threads over wall time; threads "
                                 "that spin while they wait are busy.",
                      .command = plb_run_command(t->all, "profile-host"),
                      .y = {.title = "processors", .unit = PLB_UNIT_NONE, .zero = true},
                      .category = b.category,
                      .categories = b.count,
                      .category_colour = b.colour,
                      .series = &series,
                      .series_count = 1});
    return PLB_OK;
}

plb_status plb_run_add_profiles(const plb_run_cases *cases, plb_document *d) {
    teller t = {.all = cases};
    PLB_TRY(collect(&t));
    if (!t.count) return PLB_OK;
    t.section = plb_document_section(d, "Profiles");
    plb_section_say(t.section,
                    "One more start of each case ran under the probe, which recorded once the "
                    "iterations were warm. Recording takes time: speeds are those of the other "
                    "starts, above.");
    PLB_TRY(draw_devices(&t));
    PLB_TRY(draw_host(&t));
    add_summary(&t);
    add_work(&t);
    return PLB_OK;
}
