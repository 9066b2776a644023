// SPDX-License-Identifier: Apache-2.0
#include "report/json_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/core/status.h"
#include "report/profile_read.h"

// ---------------------------------------------------------------------------- units
typedef struct known_unit {
    const char *name;
    plb_unit unit;
    double factor; // to the base unit
} known_unit;

static const known_unit units[] = {
    {"", PLB_UNIT_NONE, 1},
    {"count", PLB_UNIT_COUNT, 1},
    {"ns", PLB_UNIT_NS, 1},
    {"us", PLB_UNIT_NS, 1e3},
    {"µs", PLB_UNIT_NS, 1e3},
    {"ms", PLB_UNIT_NS, 1e6},
    {"s", PLB_UNIT_SECONDS, 1},
    {"min", PLB_UNIT_SECONDS, 60},
    {"h", PLB_UNIT_SECONDS, 3600},
    {"bytes", PLB_UNIT_BYTES, 1},
    {"B", PLB_UNIT_BYTES, 1},
    {"KiB", PLB_UNIT_BYTES, 0x1p10},
    {"MiB", PLB_UNIT_BYTES, 0x1p20},
    {"GiB", PLB_UNIT_BYTES, 0x1p30},
    {"kB", PLB_UNIT_BYTES, 1e3},
    {"MB", PLB_UNIT_BYTES, 1e6},
    {"GB", PLB_UNIT_BYTES, 1e9},
    {"%", PLB_UNIT_SHARE, 0.01},
    {"share", PLB_UNIT_SHARE, 1},
    {"x", PLB_UNIT_RATIO, 1},
    {"ratio", PLB_UNIT_RATIO, 1},
    {"1/s", PLB_UNIT_PER_SECOND, 1},
    {"samples/s", PLB_UNIT_PER_SECOND, 1},
    {"flop/s", PLB_UNIT_FLOPS, 1},
    {"GFLOP/s", PLB_UNIT_FLOPS, 1e9},
    {"TFLOP/s", PLB_UNIT_FLOPS, 1e12},
    {"flop/byte", PLB_UNIT_FLOP_BYTE, 1},
};

static const known_unit *find_unit(const char *name) {
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(name, units[i].name) == 0) return &units[i];
    }
    return NULL;
}

// ---------------------------------------------------------------------------- reading
typedef struct reader {
    const char *label;
    plb_document *document;
    plb_arena *arena;
    int section, block; // for errors; counted from 1, 0: outside
} reader;

static plb_status bad(const reader *r, const char *key, const char *expected) {
    if (!r->section) return plb_fail(PLB_EINVAL, "%s: %s: expected %s", r->label, key, expected);
    return plb_fail(PLB_EINVAL, "%s: section %d, block %d: %s: expected %s", r->label, r->section,
                    r->block, key, expected);
}

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory for a report");
}

// A text, or `missing` if the key is not there.
static const char *text_of(const json_t *object, const char *key, const char *missing) {
    const json_t *value = json_object_get(object, key);
    return json_is_string(value) ? json_string_value(value) : missing;
}

static double number_of(const json_t *value) {
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

// What a figure shows: NaN if it is no number. What lies farther out would overflow where figures
// take ratios, sums and rounded ends of it.
static plb_status read_number(const reader *r, const json_t *value, const char *key, double factor,
                              double *out) {
    const double size = fabs(number_of(value) * factor);
    *out = number_of(value) * factor;
    if (size == 0 || isnan(size) || (size >= 1e-150 && size <= 1e150)) return PLB_OK;
    return plb_fail(PLB_EINVAL,
                    "%s: section %d, block %d: %s: expected 0 or a number of 1e-150 to 1e150, "
                    "found %g",
                    r->label, r->section, r->block, key, *out);
}

static void *take(const reader *r, size_t size_bytes) {
    return plb_arena_alloc(r->arena, size_bytes + 1);
}

// Numbers of an array, times `factor`; a text among them becomes the label of a missing value.
static plb_status read_values(const reader *r, const json_t *array, const char *key, double factor,
                              size_t count, const double **out, const char *const **labels) {
    double *values;
    const char **words;
    *out = NULL;
    if (!array || json_is_null(array)) return PLB_OK;
    if (!json_is_array(array) || json_array_size(array) != count)
        return bad(r, key, "an array as long as its neighbours");
    values = take(r, count * sizeof *values);
    if (!values) return no_memory();
    words = take(r, count * sizeof *words);
    if (!words) return no_memory();
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        const json_t *v = json_array_get(array, i);
        PLB_TRY(read_number(r, v, key, factor, &values[i]));
        words[i] = json_is_string(v) ? json_string_value(v) : NULL;
        any |= words[i] != NULL;
    }
    *out = values;
    if (labels && any) *labels = words;
    return PLB_OK;
}

static plb_status read_texts(const reader *r, const json_t *array, const char *key,
                             const char *const **out, size_t *count) {
    const char **texts;
    if (!json_is_array(array)) return bad(r, key, "an array of texts or numbers");
    *count = json_array_size(array);
    texts = take(r, *count * sizeof *texts);
    if (!texts) return no_memory();
    for (size_t i = 0; i < *count; i++) {
        const json_t *v = json_array_get(array, i);
        texts[i] = json_is_string(v) ? json_string_value(v)
                                     : plb_arena_printf(r->arena, "%.6g", json_number_value(v));
        if (!texts[i]) return no_memory();
    }
    *out = texts;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- figures
// An axis from {"label", "unit", "log", "zero"}; *factor is for its values. `counts`: what has no
// unit is a number of something (batches, epochs).
static plb_status read_axis(const reader *r, const json_t *json, bool counts, plb_figure_axis *out,
                            double *factor) {
    const char *name = text_of(json, "unit", "");
    const known_unit *unit = find_unit(name);
    *factor = unit ? unit->factor : 1;
    out->unit = unit ? unit->unit : PLB_UNIT_NONE;
    if (counts && !*name) out->unit = PLB_UNIT_COUNT;
    out->title = text_of(json, "label", text_of(json, "title", NULL));
    if (!unit) {
        out->title = plb_arena_printf(r->arena, "%s (%s)", out->title ? out->title : "", name);
        if (!out->title) return no_memory();
    }
    out->log = json_is_true(json_object_get(json, "log"));
    out->zero = json_is_true(json_object_get(json, "zero"));
    return PLB_OK;
}

static plb_series_style read_style(const json_t *series) {
    const char *style = text_of(series, "style", "");
    return strcmp(style, "line") == 0     ? PLB_SERIES_LINE
           : strcmp(style, "dashed") == 0 ? PLB_SERIES_DASHED
           : strcmp(style, "dots") == 0   ? PLB_SERIES_DOTS
                                          : PLB_SERIES_AUTO;
}

static bool is_stack(const char *name) {
    static const char *const heads[] = {"plumb-", "torch-", "libtorch", "onnxruntime", "openvino"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        if (strncmp(name, heads[i], strlen(heads[i])) == 0) return true;
    }
    return false;
}

static plb_status read_series(const reader *r, const json_t *json, const double *factors,
                              plb_figure_series *out) {
    const json_t *values = json_object_get(json, "y");
    out->name = text_of(json, "name", "");
    out->style = read_style(json);
    if (!values) values = json_object_get(json, "values");
    if (!json_is_array(values)) return bad(r, "series", "each with an array y or values");
    out->count = json_array_size(values);
    PLB_TRY(read_values(r, values, "y", factors[1], out->count, &out->y, &out->label));
    PLB_TRY(read_values(r, json_object_get(json, "x"), "x", factors[0], out->count, &out->x, NULL));
    PLB_TRY(read_values(r, json_object_get(json, "low"), "low", factors[1], out->count, &out->low,
                        NULL));
    PLB_TRY(read_values(r, json_object_get(json, "high"), "high", factors[1], out->count,
                        &out->high, NULL));
    const json_t *labels = json_object_get(json, "labels");
    size_t count;
    if (labels) PLB_TRY(read_texts(r, labels, "labels", &out->label, &count));
    if (labels && count != out->count) return bad(r, "labels", "as many as values");
    if (is_stack(out->name)) out->colour = plb_stack_colour(out->name);
    return PLB_OK;
}

// Cells of a layer are rows of columns.
static plb_status read_layer(const reader *r, const json_t *json, const plb_figure *f,
                             double factor, plb_figure_series *out) {
    double *values;
    const char **words;
    const json_t *rows = json_object_get(json, "cells");
    out->name = text_of(json, "name", "");
    out->count = f->rows * f->categories;
    values = take(r, out->count * sizeof *values);
    if (!values) return no_memory();
    words = take(r, out->count * sizeof *words);
    if (!words) return no_memory();
    if (json_array_size(rows) != f->rows) return bad(r, "cells", "one row for each tick of y");
    for (size_t i = 0; i < f->rows; i++) {
        const json_t *row = json_array_get(rows, i);
        if (json_array_size(row) != f->categories)
            return bad(r, "cells", "one cell for each tick of x");
        for (size_t k = 0; k < f->categories; k++) {
            const json_t *cell = json_array_get(row, k);
            PLB_TRY(read_number(r, cell, "cells", factor, &values[i * f->categories + k]));
            words[i * f->categories + k] = json_is_string(cell) ? json_string_value(cell) : NULL;
        }
    }
    out->y = values, out->label = words;
    return PLB_OK;
}

static const struct {
    const char *name;
    plb_figure_kind kind;
} kinds[] = {
    {"bars", PLB_FIGURE_BARS},   {"stacked", PLB_FIGURE_STACK},  {"stack", PLB_FIGURE_STACK},
    {"lines", PLB_FIGURE_LINES}, {"scatter", PLB_FIGURE_POINTS}, {"points", PLB_FIGURE_POINTS},
    {"areas", PLB_FIGURE_AREAS}, {"heat", PLB_FIGURE_HEAT},
};

static plb_status read_kind(const reader *r, const json_t *json, plb_figure *f) {
    const char *type = text_of(json, "type", "");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        f->kind = kinds[i].kind;
        if (strcmp(type, kinds[i].name) == 0) return PLB_OK;
    }
    return bad(r, "type", "bars, stacked, lines, scatter, areas or heat");
}

static plb_status read_grid(const reader *r, const json_t *json, plb_figure *f) {
    const json_t *x = json_object_get(json, "x"), *y = json_object_get(json, "y");
    double factor;
    PLB_TRY(read_axis(r, json_object_get(json, "value"), false, &f->y, &factor));
    f->x.title = text_of(x, "label", NULL), f->row_title = text_of(y, "label", NULL);
    PLB_TRY(read_texts(r, json_object_get(x, "ticks"), "x.ticks", &f->category, &f->categories));
    PLB_TRY(read_texts(r, json_object_get(y, "ticks"), "y.ticks", &f->row, &f->rows));
    const json_t *layers = json_object_get(json, "layers");
    plb_figure_series *series;
    f->series_count = json_array_size(layers);
    series = take(r, f->series_count * sizeof *series);
    if (!series) return no_memory();
    for (size_t i = 0; i < f->series_count; i++)
        PLB_TRY(read_layer(r, json_array_get(layers, i), f, factor, &series[i]));
    f->series = series;
    return PLB_OK;
}

// A vertical line at a value of the x axis.
static plb_status read_mark(const reader *r, const json_t *json, double factor, plb_figure *f) {
    if (!json) return PLB_OK;
    f->mark = text_of(json, "label", "");
    return read_number(r, json_object_get(json, "x"), "mark.x", factor, &f->mark_x);
}

static plb_status read_plane(const reader *r, const json_t *json, plb_figure *f) {
    double factors[2];
    const bool bars = f->kind == PLB_FIGURE_BARS || f->kind == PLB_FIGURE_STACK;
    const json_t *list = json_object_get(json, "series");
    plb_figure_series *series;
    PLB_TRY(read_axis(r, json_object_get(json, "x"), true, &f->x, &factors[0]));
    PLB_TRY(read_axis(r, json_object_get(json, "y"), false, &f->y, &factors[1]));
    if (bars) {
        PLB_TRY(read_texts(r, json_object_get(json, "categories"), "categories", &f->category,
                           &f->categories));
    }
    if (!json_is_array(list)) return bad(r, "series", "an array");
    f->series_count = json_array_size(list);
    series = take(r, f->series_count * sizeof *series);
    if (!series) return no_memory();
    for (size_t i = 0; i < f->series_count; i++)
        PLB_TRY(read_series(r, json_array_get(list, i), factors, &series[i]));
    f->series = series;
    return read_mark(r, json_object_get(json, "mark"), factors[0], f);
}

// Bars of one series that are named after stacks have the stacks' colours.
static plb_status colour_categories(const reader *r, plb_figure *f) {
    int *colours;
    if (f->kind != PLB_FIGURE_BARS || f->series_count != 1) return PLB_OK;
    colours = take(r, f->categories * sizeof *colours);
    if (!colours) return no_memory();
    for (size_t i = 0; i < f->categories; i++)
        colours[i] = is_stack(f->category[i]) ? plb_stack_colour(f->category[i]) : 1;
    f->category_colour = colours;
    return PLB_OK;
}

static plb_status read_figure(const reader *r, const json_t *json, plb_section *section) {
    plb_figure f = {.title = text_of(json, "title", ""),
                    .caption = text_of(json, "caption", NULL),
                    .command = text_of(json, "command", NULL)};
    char name[64];
    snprintf(name, sizeof name, "figure-%d-%d", r->section, r->block);
    f.name = text_of(json, "name", name);
    PLB_TRY(read_kind(r, json, &f));
    PLB_TRY(f.kind == PLB_FIGURE_HEAT ? read_grid(r, json, &f) : read_plane(r, json, &f));
    PLB_TRY(colour_categories(r, &f));
    plb_section_figure(section, &f);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- tables
// A cell is a number, a text, null, or {"v", "low", "high"}; low and high have columns of their own
// if any row has them.
static bool has_interval(const json_t *rows, size_t column) {
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        if (json_object_get(json_array_get(row, column), "low")) return true;
    }
    return false;
}

static plb_status add_columns(const reader *r, plb_table *table, const char *name, bool number,
                              const known_unit *unit, const char *unit_name, bool interval) {
    const plb_unit shown = unit ? unit->unit : PLB_UNIT_NONE;
    const char *title = unit ? name : plb_arena_printf(r->arena, "%s (%s)", name, unit_name);
    if (!title) return no_memory();
    plb_table_column(table, title, number ? PLB_COLUMN_NUMBER : PLB_COLUMN_TEXT, shown);
    if (!interval) return PLB_OK;
    plb_table_column(table, "low", PLB_COLUMN_NUMBER, shown);
    plb_table_column(table, "high", PLB_COLUMN_NUMBER, shown);
    return PLB_OK;
}

static void add_cell(plb_table *table, const json_t *cell, bool number, double factor,
                     bool interval) {
    const json_t *value = json_is_object(cell) ? json_object_get(cell, "v") : cell;
    if (json_is_string(value))
        plb_table_text(table, "%s", json_string_value(value));
    else if (number)
        plb_table_number(table, number_of(value) * factor);
    else if (json_is_number(value))
        plb_table_text(table, "%.6g", json_number_value(value));
    else
        plb_table_text(table, "-");
    if (!interval) return;
    plb_table_number(table, number_of(json_object_get(cell, "low")) * factor);
    plb_table_number(table, number_of(json_object_get(cell, "high")) * factor);
}

typedef struct column_read {
    bool number, interval;
    double factor;
} column_read;

static plb_status read_table(const reader *r, const json_t *json, plb_section *section) {
    enum { MOST = 40 };
    column_read column[MOST];
    char name[64];
    const json_t *columns = json_object_get(json, "columns"), *rows = json_object_get(json, "rows");
    const size_t count = json_array_size(columns);
    if (!count || count > MOST) return bad(r, "columns", "1 to 40 of them");
    snprintf(name, sizeof name, "table-%d-%d", r->section, r->block);
    plb_table *table =
        plb_section_table(section, text_of(json, "name", name), text_of(json, "title", NULL));
    for (size_t i = 0; i < count; i++) {
        const json_t *c = json_array_get(columns, i);
        const char *unit_name = text_of(c, "unit", "");
        const known_unit *unit = find_unit(unit_name);
        column[i].number = strcmp(text_of(c, "type", "text"), "number") == 0;
        column[i].interval = column[i].number && has_interval(rows, i);
        column[i].factor = unit ? unit->factor : 1;
        PLB_TRY(add_columns(r, table, text_of(c, "name", ""), column[i].number, unit, unit_name,
                            column[i].interval));
    }
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (json_array_size(row) != count) return bad(r, "rows", "one cell for each column");
        for (size_t k = 0; k < count; k++) {
            add_cell(table, json_array_get(row, k), column[k].number, column[k].factor,
                     column[k].interval);
        }
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- sections
// Paragraphs are separated by empty lines.
static plb_status read_paragraphs(const reader *r, const char *text, plb_section *section) {
    char *copy = plb_arena_strdup(r->arena, text);
    if (!copy) return no_memory();
    while (*copy) {
        char *end = strstr(copy, "\n\n");
        if (end) *end = '\0';
        if (*copy) plb_section_say(section, "%s", copy);
        if (!end) break;
        copy = end + 2;
    }
    return PLB_OK;
}

static plb_status read_block(const reader *r, const json_t *block, plb_section *section) {
    const char *kind = text_of(block, "kind", "");
    const char *text = text_of(block, "text", "");
    if (strcmp(kind, "figure") == 0) return read_figure(r, block, section);
    if (strcmp(kind, "table") == 0) return read_table(r, block, section);
    if (strcmp(kind, "text") == 0) return read_paragraphs(r, text, section);
    if (strcmp(kind, "code") == 0) {
        plb_section_code(section, text);
    } else if (strcmp(kind, "log") == 0) {
        plb_section_text(section, text_of(block, "title", "Log"), text);
    } else if (strcmp(kind, "list") == 0) {
        const json_t *items = json_object_get(block, "items");
        for (size_t i = 0; i < json_array_size(items); i++) {
            const char *item = json_string_value(json_array_get(items, i));
            if (item) plb_section_item(section, "%s", item);
        }
    } else {
        return bad(r, "kind", "text, list, code, log, table or figure");
    }
    return PLB_OK;
}

static plb_status read_sections(reader *r, const json_t *sections) {
    if (sections && !json_is_array(sections)) return bad(r, "sections", "an array");
    for (size_t i = 0; i < json_array_size(sections); i++) {
        const json_t *json = json_array_get(sections, i);
        const json_t *blocks = json_object_get(json, "blocks");
        r->section = (int)i + 1, r->block = 0;
        plb_section *section = plb_document_section(r->document, text_of(json, "title", ""));
        for (size_t k = 0; k < json_array_size(blocks); k++) {
            r->block = (int)k + 1;
            PLB_TRY(read_block(r, json_array_get(blocks, k), section));
        }
    }
    r->section = 0;
    return PLB_OK;
}

static plb_tone tone_of(const char *verdict) {
    static const struct {
        const char *word;
        plb_tone tone;
    } tones[] = {
        {"reproduced", PLB_TONE_GOOD}, {"pass", PLB_TONE_GOOD},      {"same", PLB_TONE_GOOD},
        {"faster", PLB_TONE_GOOD},     {"refuted", PLB_TONE_BAD},    {"fail", PLB_TONE_BAD},
        {"slower", PLB_TONE_BAD},      {"warning", PLB_TONE_UNSURE}, {"unsure", PLB_TONE_UNSURE}};
    for (size_t i = 0; i < sizeof tones / sizeof *tones; i++) {
        if (strcasecmp(verdict, tones[i].word) == 0) return tones[i].tone;
    }
    return PLB_TONE_PLAIN;
}

static void read_summary(const reader *r, const json_t *summary) {
    for (size_t i = 0; i < json_array_size(summary); i++) {
        const json_t *line = json_array_get(summary, i);
        const char *verdict = text_of(line, "verdict", "");
        plb_document_verdict(r->document, tone_of(verdict), *verdict ? verdict : NULL, "%s",
                             text_of(line, "text", ""));
    }
}

// What stands at the end of every report: on what it was measured, and what was proven.
static plb_status read_evidence(const reader *r, const json_t *root) {
    static const char *const keys[] = {"fingerprint", "proof"};
    static const char *const titles[] = {"Fingerprint of the machine", "Proof of equal work"};
    plb_section *section = NULL;
    for (int i = 0; i < 2; i++) {
        const json_t *json = json_object_get(root, keys[i]);
        if (!json || json_is_null(json)) continue;
        char *text = json_dumps(json, JSON_INDENT(2) | JSON_ENCODE_ANY);
        if (!text) return no_memory();
        if (!section) section = plb_document_section(r->document, "Evidence");
        plb_section_text(section, titles[i], text);
        free(text);
    }
    return PLB_OK;
}

static plb_status read_root(reader *r, const json_t *root) {
    const char *subtitle = text_of(root, "subtitle", NULL);
    const json_t *version = json_object_get(root, "version");
    const char *document = text_of(root, "document", "");
    if (strcmp(document, "profile") == 0) return plb_profile_document(root, r->label, &r->document);
    if (strcmp(document, "report") != 0) return bad(r, "document", "report or profile");
    if (json_integer_value(version) != 1) return bad(r, "version", "1");
    r->document = plb_document_new(text_of(root, "title", "Report"));
    if (!r->document) return no_memory();
    if (subtitle) plb_document_set_subtitle(r->document, "%s", subtitle);
    plb_document_set_command(r->document, text_of(root, "command", NULL));
    read_summary(r, json_object_get(root, "summary"));
    PLB_TRY(read_sections(r, json_object_get(root, "sections")));
    PLB_TRY(read_evidence(r, root));
    return plb_document_status(r->document);
}

plb_status plb_document_read_json(const char *bytes, size_t size_bytes, const char *label,
                                  plb_document **out) {
    json_error_t error;
    reader r = {.label = label, .arena = plb_arena_new()};
    json_t *root = json_loadb(bytes, size_bytes, JSON_REJECT_DUPLICATES, &error);
    plb_status status;
    *out = NULL;
    if (!r.arena) {
        status = no_memory();
    } else if (!root) {
        status = plb_fail(PLB_EINVAL, "%s: line %d: not JSON: %s", label, error.line, error.text);
    } else {
        status = read_root(&r, root);
    }
    json_decref(root);
    plb_arena_free(r.arena);
    if (status)
        plb_document_free(r.document);
    else
        *out = r.document;
    return status;
}
