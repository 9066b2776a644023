// SPDX-License-Identifier: Apache-2.0
// The section of a sweep: bars where nothing varies but the stack, slices where batch or size does,
// heat maps where both do.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/results.h"

typedef enum measure { TIME, UTILISATION, MEMORY, MEASURES } measure;

static const struct {
    const char *name, *title, *axis;
    plb_unit unit;
    bool log;
} measures[MEASURES] = {
    [TIME] = {"time", "Time of a sample", "time of a sample", PLB_UNIT_NS, true},
    [UTILISATION] = {"utilisation", "Utilisation", "utilisation", PLB_UNIT_SHARE, false},
    [MEMORY] = {"memory", "Memory", "memory", PLB_UNIT_BYTES, true},
};

typedef struct teller {
    const plb_results *r;
    const plb_study_part *part;
    plb_document *d;
    plb_section *section;
    const plb_result **line; // the first item of each stack, device, model, task, region
    int lines;
    int64_t *batch, *size; // ascending
    int batches, sizes;
} teller;

static void insert(int64_t *list, int *count, int64_t value) {
    int at = 0;
    while (at < *count && list[at] < value) at++;
    if (at < *count && list[at] == value) return;
    memmove(list + at + 1, list + at, (size_t)(*count - at) * sizeof *list);
    list[at] = value;
    ++*count;
}

static bool same_line(const plb_result *a, const plb_result *b) {
    return !strcmp(a->model, b->model) && !strcmp(a->stack, b->stack) &&
           !strcmp(a->device, b->device) && !strcmp(a->task, b->task) &&
           !strcmp(a->region, b->region) && a->threads == b->threads;
}

static void *room(teller *t, size_t count, size_t each) {
    return plb_arena_alloc(plb_document_arena(t->d), (count + 1) * each);
}

// False: out of memory.
static bool collect(teller *t) {
    t->line = room(t, t->r->count, sizeof *t->line);
    t->batch = room(t, t->r->count, sizeof *t->batch);
    t->size = room(t, t->r->count, sizeof *t->size);
    if (!t->line || !t->batch || !t->size) return false;
    for (size_t i = 0; i < t->r->count; i++) {
        const plb_result *item = &t->r->items[i];
        if (strcmp(item->part, t->part->name) != 0) continue;
        insert(t->batch, &t->batches, item->batch);
        insert(t->size, &t->sizes, item->size);
        int k = 0;
        while (k < t->lines && !same_line(t->line[k], item)) k++;
        if (k == t->lines) t->line[t->lines++] = item;
    }
    return true;
}

static const plb_result *cell(const teller *t, const plb_result *line, int64_t batch,
                              int64_t size) {
    for (size_t i = 0; i < t->r->count; i++) {
        const plb_result *item = &t->r->items[i];
        if (!strcmp(item->part, t->part->name) && item->batch == batch && item->size == size &&
            same_line(item, line))
            return item;
    }
    return NULL;
}

// Time of one sample in ns, a share of the threads' or the card's time, or bytes.
static double value_of(const plb_result *item, measure what) {
    if (!item || !item->ok) return NAN;
    if (what == MEMORY) return plb_result_memory(item);
    if (what == UTILISATION)
        return plb_result_number(item, strncmp(item->device, "cuda", 4) ? "utilisation"
                                                                        : "device_utilisation");
    return plb_result_number(item, "median_ns") / (double)item->batch;
}

// Whether any cell has it: a run of an older version may lack one.
static bool known(const teller *t, measure what) {
    for (size_t i = 0; i < t->r->count; i++)
        if (!strcmp(t->r->items[i].part, t->part->name) && !isnan(value_of(&t->r->items[i], what)))
            return true;
    return false;
}

static const char *why_none(const plb_result *item) {
    return !item || item->ok ? NULL : item->outcome;
}

static const char *line_name(teller *t, const plb_result *line) {
    const char *label = plb_result_label(t->r, line, plb_document_arena(t->d));
    const char *name = plb_arena_printf(
        plb_document_arena(t->d), "%s%s%s%s%s", label, t->part->tasks.count > 1 ? ", " : "",
        t->part->tasks.count > 1 ? line->task : "", t->part->regions.count > 1 ? ", " : "",
        t->part->regions.count > 1 ? line->region : "");
    return name ? name : label;
}

static const char *name_of(teller *t, const char *what) {
    const char *name = plb_arena_printf(plb_document_arena(t->d), "%s-%s", t->part->name, what);
    return name ? name : what;
}

// ---------------------------------------------------------------------------- bars
// Of one device: beside a card's bars those of a processor would have no length.
static void draw_bars_of(teller *t, const char *device, bool alone) {
    plb_arena *arena = plb_document_arena(t->d);
    size_t n = 0, most = (size_t)t->lines;
    double *y = room(t, most, sizeof *y), *low = room(t, most, sizeof *y),
           *high = room(t, most, sizeof *y);
    const char **names = room(t, most, sizeof *names), **labels = room(t, most, sizeof *labels);
    int *colours = room(t, most, sizeof *colours);
    char *what = plb_arena_printf(arena, "throughput%s%s", alone ? "" : "-", alone ? "" : device);
    const char *title = alone ? "Throughput" : plb_arena_printf(arena, "Throughput, %s", device);
    if (!y || !low || !high || !names || !labels || !colours || !what || !title) return;
    for (char *c = strchr(what, ':'); c; c = strchr(c, ':')) *c = '-'; // of "cuda:1"
    for (size_t i = 0; i < most; i++) {
        const plb_result *item = t->line[i];
        double samples = (double)item->batch * 1e9;
        if (strcmp(item->device, device) != 0) continue;
        y[n] = item->ok ? samples / plb_result_number(item, "median_ns") : NAN;
        low[n] = item->ok ? samples / plb_result_number(item, "high_ns") : NAN;
        high[n] = item->ok ? samples / plb_result_number(item, "low_ns") : NAN;
        names[n] = line_name(t, item), labels[n] = why_none(item);
        colours[n++] = plb_stack_colour(item->stack);
    }
    const plb_figure_series series = {
        .name = "", .count = n, .y = y, .low = low, .high = high, .label = labels};
    plb_section_figure(
        t->section,
        &(plb_figure){.kind = PLB_FIGURE_BARS,
                      .name = name_of(t, what),
                      .title = title,
                      .y = {.title = "samples", .unit = PLB_UNIT_PER_SECOND, .zero = true},
                      .category = names,
                      .categories = n,
                      .category_colour = colours,
                      .series = &series,
                      .series_count = 1});
}

// Whether no line before it has its device.
static bool first_of_device(const teller *t, int line) {
    for (int i = 0; i < line; i++)
        if (!strcmp(t->line[i]->device, t->line[line]->device)) return false;
    return true;
}

static void draw_bars(teller *t) {
    int devices = 0;
    for (int i = 0; i < t->lines; i++) devices += first_of_device(t, i);
    for (int i = 0; i < t->lines; i++)
        if (first_of_device(t, i)) draw_bars_of(t, t->line[i]->device, devices == 1);
}

// ---------------------------------------------------------------------------- slices
static bool fill_line(teller *t, const plb_result *line, measure what, plb_figure_series *out) {
    bool by_size = t->sizes > 1;
    int n = by_size ? t->sizes : t->batches;
    double *x = room(t, (size_t)n, sizeof *x), *y = room(t, (size_t)n, sizeof *y);
    const char **labels = room(t, (size_t)n, sizeof *labels);
    if (!x || !y || !labels) return false;
    for (int k = 0; k < n; k++) {
        const plb_result *item = by_size ? cell(t, line, t->batch[0], t->size[k])
                                         : cell(t, line, t->batch[k], t->size[0]);
        x[k] = (double)(by_size ? t->size[k] : t->batch[k]);
        y[k] = value_of(item, what), labels[k] = why_none(item);
    }
    *out = (plb_figure_series){.name = line_name(t, line),
                               .count = (size_t)n,
                               .x = x,
                               .y = y,
                               .label = labels,
                               .colour = plb_stack_colour(line->stack)};
    return true;
}

static void draw_slice(teller *t, measure what) {
    plb_figure_series *series = room(t, (size_t)t->lines, sizeof *series);
    size_t count = 0;
    if (!series) return;
    for (int i = 0; i < t->lines; i++)
        if (fill_line(t, t->line[i], what, &series[count])) count++;
    bool by_size = t->sizes > 1;
    const char *title =
        plb_arena_printf(plb_document_arena(t->d), "%s by %s, %s %lld", measures[what].title,
                         by_size ? "resolution" : "batch", by_size ? "batch" : "resolution",
                         (long long)(by_size ? t->batch[0] : t->size[0]));
    plb_section_figure(t->section,
                       &(plb_figure){.kind = PLB_FIGURE_LINES,
                                     .name = name_of(t, measures[what].name),
                                     .title = title ? title : "",
                                     .x = {.title = by_size ? "height and width" : "batch",
                                           .unit = PLB_UNIT_COUNT,
                                           .log = true},
                                     .y = {.title = measures[what].axis,
                                           .unit = measures[what].unit,
                                           .log = measures[what].log,
                                           .zero = !measures[what].log},
                                     .series = series,
                                     .series_count = count});
}

// ---------------------------------------------------------------------------- surfaces
static bool fill_grid(teller *t, const plb_result *line, measure what, plb_figure_series *out) {
    size_t n = (size_t)(t->batches * t->sizes);
    double *y = room(t, n, sizeof *y);
    const char **labels = room(t, n, sizeof *labels);
    if (!y || !labels) return false;
    for (int s = 0; s < t->sizes; s++)
        for (int b = 0; b < t->batches; b++) {
            const plb_result *item = cell(t, line, t->batch[b], t->size[s]);
            y[s * t->batches + b] = value_of(item, what);
            labels[s * t->batches + b] = why_none(item);
        }
    *out = (plb_figure_series){.name = line_name(t, line), .count = n, .y = y, .label = labels};
    return true;
}

static const char **ticks(teller *t, const int64_t *values, int count) {
    const char **names = room(t, (size_t)count, sizeof *names);
    for (int i = 0; names && i < count; i++) {
        names[i] = plb_arena_printf(plb_document_arena(t->d), "%lld", (long long)values[i]);
        if (!names[i]) names[i] = "?";
    }
    return names;
}

static void draw_surface(teller *t, measure what) {
    plb_figure_series *series = room(t, (size_t)t->lines, sizeof *series);
    size_t count = 0;
    const char *title = plb_arena_printf(plb_document_arena(t->d), "%s over batch and resolution",
                                         measures[what].title);
    if (!series) return;
    for (int i = 0; i < t->lines; i++)
        if (fill_grid(t, t->line[i], what, &series[count])) count++;
    plb_section_figure(t->section, &(plb_figure){.kind = PLB_FIGURE_HEAT,
                                                 .name = name_of(t, measures[what].name),
                                                 .title = title ? title : "",
                                                 .x = {.title = "batch"},
                                                 .y = {.title = measures[what].axis,
                                                       .unit = measures[what].unit,
                                                       .log = measures[what].log,
                                                       .zero = !measures[what].log},
                                                 .category = ticks(t, t->batch, t->batches),
                                                 .categories = (size_t)t->batches,
                                                 .row = ticks(t, t->size, t->sizes),
                                                 .rows = (size_t)t->sizes,
                                                 .row_title = "height and width",
                                                 .series = series,
                                                 .series_count = count});
}

// ---------------------------------------------------------------------------- the table
static void say_cells(teller *t) {
    static const struct {
        const char *title;
        plb_unit unit;
    } columns[] = {
        {"batch", PLB_UNIT_COUNT},  {"size", PLB_UNIT_COUNT},    {"iteration", PLB_UNIT_NS},
        {"low", PLB_UNIT_NS},       {"high", PLB_UNIT_NS},       {"samples/s", PLB_UNIT_PER_SECOND},
        {"a sample", PLB_UNIT_NS},  {"FLOP/s", PLB_UNIT_FLOPS},  {"utilisation", PLB_UNIT_SHARE},
        {"memory", PLB_UNIT_BYTES}, {"first call", PLB_UNIT_NS}, {"load", PLB_UNIT_SECONDS}};
    plb_table *table = plb_section_table(
        t->section, name_of(t, "cells"),
        "Cells: medians with 95 % intervals by ranks (none below 6 samples), all in one process a "
        "stack");
    static const char *const texts[] = {"model", "task", "stack", "device", "region", "outcome"};
    for (int i = 0; i < 6; i++) plb_table_column(table, texts[i], PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        plb_table_column(table, columns[i].title, PLB_COLUMN_NUMBER, columns[i].unit);
    for (size_t i = 0; i < t->r->count; i++) {
        const plb_result *item = &t->r->items[i];
        if (strcmp(item->part, t->part->name) != 0) continue;
        double median = item->ok ? plb_result_number(item, "median_ns") : NAN;
        plb_table_text(table, "%s", item->model);
        plb_table_text(table, "%s", item->task);
        plb_table_text(table, "%s", item->stack);
        plb_table_text(table, "%s", item->device);
        plb_table_text(table, "%s", item->region);
        plb_table_text(table, "%s%s%s", item->outcome, item->reason ? ": " : "",
                       item->reason ? item->reason : "");
        plb_table_number(table, (double)item->batch);
        plb_table_number(table, item->size ? (double)item->size : NAN); // a file has none
        plb_table_number(table, median);
        plb_table_number(table, item->ok ? plb_result_number(item, "low_ns") : NAN);
        plb_table_number(table, item->ok ? plb_result_number(item, "high_ns") : NAN);
        plb_table_number(table, (double)item->batch * 1e9 / median);
        plb_table_number(table, median / (double)item->batch);
        plb_table_number(table, plb_result_number(item, "flops") * 1e9 / median);
        plb_table_number(table, value_of(item, UTILISATION));
        plb_table_number(table, value_of(item, MEMORY));
        plb_table_number(table, plb_result_number(item, "first_ns"));
        plb_table_number(table, plb_result_number(item, "load_s"));
    }
}

void plb_study_say_sweep(const plb_results *r, const plb_study_part *part, plb_document *d) {
    teller *t = plb_arena_alloc(plb_document_arena(d), sizeof *t);
    if (!t) return;
    *t = (teller){.r = r, .part = part, .d = d, .section = plb_document_section(d, part->title)};
    if (!collect(t)) return;
    if (part->about) plb_section_say(t->section, "%s", part->about);
    if (!t->lines) {
        plb_section_say(t->section, "Nothing of this part was measured.");
        return;
    }
    if (t->batches == 1 && t->sizes == 1) draw_bars(t);
    for (measure m = TIME; m < MEASURES && t->batches * t->sizes > 1; m++) {
        if (!known(t, m)) continue;
        if (t->batches > 1 && t->sizes > 1)
            draw_surface(t, m);
        else
            draw_slice(t, m);
    }
    plb_section_say(t->section,
                    "Memory: on a device what its allocator held at most; on the CPU what a plan "
                    "takes (Plumb; a stack's first cell has what libraries set up once as well), "
                    "or what is resident above the loaded libraries (others). "
                    "Utilisation: of a device the share of NVML's last sampling period, up to a "
                    "second, in which a kernel ran; of the CPU the worker's processor time over "
                    "wall time x threads: threads that spin while they wait count as busy, and "
                    "what others took of the machine does not.");
    say_cells(t);
}
