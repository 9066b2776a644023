// SPDX-License-Identifier: Apache-2.0
// The numbers of a figure as a table: what a reader checks, copies, or hears read out.
#include <math.h>
#include <string.h>

#include "report/parts.h"

// Fills a table whose columns are there already.
typedef struct filler {
    plb_table *table;
    plb_arena *arena;
} filler;

static void column(plb_table *t, const char *title, plb_column_kind kind, plb_unit unit) {
    if (t->columns < PLB_MOST_COLUMNS)
        t->column[t->columns++] = (plb_part_column){title ? title : "", kind, unit};
}

static bool reserve(filler *f, size_t rows) {
    f->table->capacity = rows * f->table->columns;
    f->table->cell = plb_arena_alloc(f->arena, (f->table->capacity + 1) * sizeof *f->table->cell);
    return f->table->cell != NULL;
}

static void put(filler *f, const char *text, double number) {
    if (f->table->cells < f->table->capacity)
        f->table->cell[f->table->cells++] = (plb_part_cell){.text = text, .number = number};
}

// A value, or the word that stands for it.
static void put_value(filler *f, const plb_figure_series *s, size_t i) {
    put(f, isnan(s->y[i]) && s->label ? s->label[i] : NULL, s->y[i]);
}

static bool has_interval(const plb_figure_series *s) {
    return s->low && s->high;
}

static void value_columns(plb_table *t, const plb_figure *figure, const plb_figure_series *s,
                          const char *title) {
    column(t, title, PLB_COLUMN_NUMBER, figure->y.unit);
    if (!has_interval(s)) return;
    column(t, "low", PLB_COLUMN_NUMBER, figure->y.unit);
    column(t, "high", PLB_COLUMN_NUMBER, figure->y.unit);
}

static bool by_category(filler *f, const plb_figure *figure) {
    column(f->table, "", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    for (size_t s = 0; s < figure->series_count; s++) {
        const char *name = figure->series[s].name;
        value_columns(f->table, figure, &figure->series[s], *name ? name : figure->y.title);
    }
    if (!reserve(f, figure->categories)) return false;
    for (size_t c = 0; c < figure->categories; c++) {
        size_t columns = 1;
        put(f, figure->category[c], (double)NAN);
        for (size_t s = 0; s < figure->series_count; s++) {
            const plb_figure_series *row = &figure->series[s];
            columns += has_interval(row) ? 3 : 1;
            if (columns > PLB_MOST_COLUMNS) return true; // beyond what a table has
            put_value(f, row, c);
            if (!has_interval(row)) continue;
            put(f, NULL, row->low[c]), put(f, NULL, row->high[c]);
        }
    }
    return true;
}

static bool by_point(filler *f, const plb_figure *figure) {
    bool interval = false, label = false;
    size_t rows = 0;
    for (size_t s = 0; s < figure->series_count; s++) {
        rows += figure->series[s].count;
        interval |= has_interval(&figure->series[s]);
        label |= figure->series[s].label != NULL;
    }
    column(f->table, "series", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    column(f->table, figure->x.title ? figure->x.title : "x", PLB_COLUMN_NUMBER, figure->x.unit);
    column(f->table, figure->y.title ? figure->y.title : "y", PLB_COLUMN_NUMBER, figure->y.unit);
    if (interval) column(f->table, "low", PLB_COLUMN_NUMBER, figure->y.unit);
    if (interval) column(f->table, "high", PLB_COLUMN_NUMBER, figure->y.unit);
    if (label) column(f->table, "", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    if (!reserve(f, rows)) return false;
    for (size_t s = 0; s < figure->series_count; s++) {
        const plb_figure_series *row = &figure->series[s];
        for (size_t i = 0; i < row->count; i++) {
            put(f, row->name, (double)NAN), put(f, NULL, row->x[i]), put(f, NULL, row->y[i]);
            if (interval) put(f, NULL, has_interval(row) ? row->low[i] : (double)NAN);
            if (interval) put(f, NULL, has_interval(row) ? row->high[i] : (double)NAN);
            if (label) put(f, row->label && row->label[i] ? row->label[i] : "", (double)NAN);
        }
    }
    return true;
}

static bool by_cell(filler *f, const plb_figure *figure) {
    column(f->table, "series", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    column(f->table, figure->row_title ? figure->row_title : "row", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    column(f->table, figure->x.title ? figure->x.title : "column", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    column(f->table, figure->y.title ? figure->y.title : "value", PLB_COLUMN_NUMBER,
           figure->y.unit);
    if (!reserve(f, figure->series_count * figure->rows * figure->categories)) return false;
    for (size_t s = 0; s < figure->series_count; s++) {
        for (size_t i = 0; i < figure->rows * figure->categories; i++) {
            put(f, figure->series[s].name, (double)NAN);
            put(f, figure->row[i / figure->categories], (double)NAN);
            put(f, figure->category[i % figure->categories], (double)NAN);
            put_value(f, &figure->series[s], i);
        }
    }
    return true;
}

plb_table *plb_figure_table(const plb_figure *figure, plb_arena *arena) {
    filler f = {.arena = arena, .table = plb_arena_alloc(arena, sizeof *f.table)};
    bool made;
    if (!f.table) return NULL;
    f.table->name = figure->name, f.table->caption = figure->title;
    switch (figure->kind) {
    case PLB_FIGURE_BARS:
    case PLB_FIGURE_STACK: made = by_category(&f, figure); break;
    case PLB_FIGURE_HEAT: made = by_cell(&f, figure); break;
    default: made = by_point(&f, figure); break;
    }
    return made ? f.table : NULL;
}
