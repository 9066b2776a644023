// SPDX-License-Identifier: Apache-2.0
// Figures of a run: times of the stacks in each group, sweeps, what comes before the first result,
// memory.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/status.h"
#include "report/run_cases.h"

enum { MOST_GROUPS = 12, MOST_BARS = 48 };

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory for a run's figures");
}

// Arrays of a figure, in the run's arena.
typedef struct columns {
    const char **category, **label;
    double *y, *low, *high;
    int *colour;
} columns;

static plb_status take_columns(const plb_run_cases *all, size_t count, columns *out) {
    out->category = plb_arena_alloc(all->arena, (count + 1) * sizeof *out->category);
    out->label = plb_arena_alloc(all->arena, (count + 1) * sizeof *out->label);
    out->y = plb_arena_alloc(all->arena, (count + 1) * sizeof *out->y);
    out->low = plb_arena_alloc(all->arena, (count + 1) * sizeof *out->low);
    out->high = plb_arena_alloc(all->arena, (count + 1) * sizeof *out->high);
    out->colour = plb_arena_alloc(all->arena, (count + 1) * sizeof *out->colour);
    const bool made = out->category && out->label && out->y && out->low && out->high && out->colour;
    return made ? PLB_OK : no_memory();
}

static const char *print(const plb_run_cases *all, const char *head, const char *tail) {
    const char *text = plb_arena_printf(all->arena, "%s%s", head, tail);
    return text ? text : "";
}

// ---------------------------------------------------------------------------- times
// A factor of 30 between bars leaves the small ones without a length.
static bool spans_decades(const plb_run_group *g) {
    double least = (double)NAN, most = (double)NAN;
    for (size_t i = 0; i < g->members; i++) {
        if (!g->member[i].ok) continue;
        least = fmin(least, g->member[i].s.median_ns), most = fmax(most, g->member[i].s.median_ns);
    }
    return most > 30 * least;
}

static plb_status add_levels(const plb_run_cases *all, const plb_run_group *g, plb_section *s) {
    columns c;
    PLB_TRY(take_columns(all, g->members, &c));
    for (size_t i = 0; i < g->members; i++) {
        const plb_run_case *m = &g->member[i];
        c.category[i] = m->name;
        c.colour[i] = plb_stack_colour(m->c.stack);
        c.y[i] = m->ok ? m->s.median_ns : (double)NAN;
        c.low[i] = m->ok ? m->s.low_ns : (double)NAN;
        c.high[i] = m->ok ? m->s.high_ns : (double)NAN;
        c.label[i] = m->ok ? NULL : m->row->outcome ? m->row->outcome : "unfinished";
    }
    const plb_figure_series series = {
        .name = "", .count = g->members, .y = c.y, .low = c.low, .high = c.high, .label = c.label};
    const char *name = print(all, "levels-", g->name);
    const plb_figure figure = {
        .kind = PLB_FIGURE_BARS,
        .name = name,
        .title = g->title,
        .caption = "Time of one iteration: median and 95 % interval over the starts.",
        .command = plb_run_command(all, name),
        .y = {.title = "time of one iteration", .unit = PLB_UNIT_NS, .log = spans_decades(g)},
        .category = c.category,
        .categories = g->members,
        .category_colour = c.colour,
        .series = &series,
        .series_count = 1,
    };
    plb_section_figure(s, &figure);
    return PLB_OK;
}

// Where there are many groups: one point a group and stack, as ratios to the floor.
static plb_status add_overview(const plb_run_cases *all, plb_section *s) {
    const char *stack[16];
    plb_figure_series series[16];
    size_t stacks = 0;
    for (size_t i = 0; i < all->count; i++) {
        size_t k = 0;
        while (k < stacks && strcmp(stack[k], all->item[i].name) != 0) k++;
        if (k == stacks && stacks < 16 && all->item[i].ok) stack[stacks++] = all->item[i].name;
    }
    for (size_t k = 0; k < stacks; k++) {
        double *values = plb_arena_alloc(all->arena, 2 * (all->groups + 1) * sizeof *values);
        const char **labels = plb_arena_alloc(all->arena, (all->groups + 1) * sizeof *labels);
        size_t n = 0;
        if (!values || !labels) return no_memory();
        series[k] = (plb_figure_series){
            .name = stack[k], .x = values, .y = values + all->groups + 1, .label = labels};
        for (size_t i = 0; i < all->count && n < all->groups; i++) {
            const plb_run_case *c = &all->item[i];
            if (strcmp(c->name, stack[k]) != 0 || isnan(c->ratio)) continue;
            series[k].colour = plb_stack_colour(c->c.stack);
            labels[n] = all->group[c->group].title;
            values[n] = all->group[c->group].floor->s.median_ns;
            values[all->groups + 1 + n++] = c->ratio;
        }
        series[k].count = n;
    }
    const plb_figure figure = {
        .kind = PLB_FIGURE_POINTS,
        .name = "levels",
        .title = "Every case against the floor",
        .caption = "To the right longer iterations; upwards what the stack adds to them. 1 is our "
                   "own lowest level on the same work.",
        .command = plb_run_command(all, "levels"),
        .x = {.title = "time of the floor", .unit = PLB_UNIT_NS, .log = true},
        .y = {.title = "times the floor's time", .unit = PLB_UNIT_RATIO, .log = true},
        .series = series,
        .series_count = stacks,
    };
    plb_section_figure(s, &figure);
    return PLB_OK;
}

plb_status plb_run_add_times(const plb_run_cases *all, plb_document *d) {
    size_t figures = 0, comparable = 0;
    for (size_t g = 0; g < all->groups; g++) comparable += all->group[g].members > 1;
    if (!comparable) return PLB_OK;
    plb_section *s = plb_document_section(d, "Times");
    if (*all->common) plb_section_say(s, "All cases: %s.", all->common);
    if (comparable > MOST_GROUPS) {
        plb_section_say(s,
                        "%zu sets of cases can be compared; the first %d have figures of their "
                        "own, the table of all cases has the rest.",
                        comparable, MOST_GROUPS);
        PLB_TRY(add_overview(all, s));
    }
    for (size_t g = 0; g < all->groups && figures < MOST_GROUPS; g++) {
        if (all->group[g].members < 2) continue;
        PLB_TRY(add_levels(all, &all->group[g], s));
        figures++;
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- before and beside
// Of the cases that have a time, the first so many.
static size_t list_ok(const plb_run_cases *all, const plb_run_case **out) {
    size_t n = 0;
    for (size_t i = 0; i < all->count && n < MOST_BARS; i++)
        if (all->item[i].ok) out[n++] = &all->item[i];
    return n;
}

static const char *name_bar(const plb_run_cases *all, const plb_run_case *c) {
    if (all->groups < 2) return c->name;
    const char *text = plb_arena_printf(all->arena, "%s · %s", c->name, all->group[c->group].title);
    return text ? text : "";
}

static plb_status add_start(const plb_run_cases *all, const plb_run_case *const *list, size_t n,
                            plb_section *s) {
    static const char *const names[] = {"load", "compile", "first call"};
    plb_figure_series series[3];
    const char **category = plb_arena_alloc(all->arena, (n + 1) * sizeof *category);
    if (!category) return no_memory();
    for (int k = 0; k < 3; k++) {
        double *y = plb_arena_alloc(all->arena, (n + 1) * sizeof *y);
        if (!y) return no_memory();
        for (size_t i = 0; i < n; i++) {
            category[i] = name_bar(all, list[i]);
            y[i] = k == 0   ? list[i]->load_ns
                   : k == 1 ? list[i]->compile_ns
                            : list[i]->first_call_ns;
        }
        series[k] = (plb_figure_series){.name = names[k], .count = n, .y = y};
    }
    const plb_figure figure = {
        .kind = PLB_FIGURE_STACK,
        .name = "before",
        .title = "Before the first result",
        .caption = "Loading the model, compiling it where a stack says how long that took, and the "
                   "first call; medians over the starts. Starting the process is not in it.",
        .command = plb_run_command(all, "before"),
        .y = {.title = "time", .unit = PLB_UNIT_NS},
        .category = category,
        .categories = n,
        .series = series,
        .series_count = 3,
    };
    plb_section_figure(s, &figure);
    return PLB_OK;
}

static double memory_of(const plb_run_case *c, int kind) {
    return kind == 0 ? c->rss_bytes : kind == 1 ? c->device_bytes : c->planned_bytes;
}

static plb_status add_memory(const plb_run_cases *all, const plb_run_case *const *list, size_t n,
                             plb_section *s) {
    static const char *const names[] = {"host, resident at most", "device at most", "planned"};
    plb_figure_series series[3];
    size_t kinds = 0;
    const char **category = plb_arena_alloc(all->arena, (n + 1) * sizeof *category);
    if (!category) return no_memory();
    for (int k = 0; k < 3; k++) {
        bool any = false;
        double *y = plb_arena_alloc(all->arena, (n + 1) * sizeof *y);
        const char **label = plb_arena_alloc(all->arena, (n + 1) * sizeof *label);
        if (!y || !label) return no_memory();
        for (size_t i = 0; i < n; i++) {
            category[i] = name_bar(all, list[i]);
            y[i] = memory_of(list[i], k);
            label[i] = "unknown";
            any |= !isnan(y[i]);
        }
        if (any) {
            series[kinds++] = (plb_figure_series){
                .name = names[k], .count = n, .y = y, .label = label, .colour = k + 1};
        }
    }
    if (!kinds) return PLB_OK;
    const plb_figure figure = {
        .kind = PLB_FIGURE_BARS,
        .name = "memory",
        .title = "Memory",
        .caption = "Of the worker's process: its libraries are in it. \"Planned\" is what the plan "
                   "of our engine takes for values; other stacks do not say.",
        .command = plb_run_command(all, "memory"),
        .y = {.title = "memory", .unit = PLB_UNIT_BYTES},
        .category = category,
        .categories = n,
        .series = series,
        .series_count = kinds,
    };
    plb_section_figure(s, &figure);
    return PLB_OK;
}

plb_status plb_run_add_costs(const plb_run_cases *all, plb_document *d) {
    const plb_run_case *list[MOST_BARS];
    const size_t n = list_ok(all, list);
    if (!n) return PLB_OK;
    plb_section *s = plb_document_section(d, "Start and memory");
    if (n < all->ok)
        plb_section_say(s, "The first %zu of %zu cases; the table has all of them.", n, all->ok);
    PLB_TRY(add_start(all, list, n, s));
    return add_memory(all, list, n, s);
}
