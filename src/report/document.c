// SPDX-License-Identifier: Apache-2.0
#include "report/document.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "report/parts.h"

plb_document *plb_document_new(const char *title) {
    plb_document *d = plb_alloc(sizeof *d);
    if (!d) return NULL;
    d->arena = plb_arena_new();
    d->title = d->arena ? plb_arena_strdup(d->arena, title) : NULL;
    if (!d->title) {
        plb_document_free(d);
        return NULL;
    }
    d->spare_section.document = d->spare_table.document = d;
    return d;
}

void plb_document_free(plb_document *document) {
    if (!document) return;
    plb_arena_free(document->arena);
    plb_free(document->problem);
    plb_free(document);
}

plb_arena *plb_document_arena(plb_document *document) {
    return document->arena;
}

// The first failure stays.
static void fail(plb_document *d, plb_status status) {
    if (d->status || !status) return;
    d->status = status;
    d->problem = plb_strdup(plb_error_text());
}

static void fail_memory(plb_document *d) {
    fail(d, plb_fail(PLB_ENOMEM, "out of memory for a report"));
}

static plb_status check_table(const plb_table *t) {
    if (!t->columns ? t->cells > 0 : t->cells % t->columns != 0) {
        return plb_fail(PLB_EINVAL, "table %s: expected rows of %zu cells, found %zu cells in all",
                        t->name, t->columns, t->cells);
    }
    return PLB_OK;
}

plb_status plb_document_status(const plb_document *document) {
    if (document->status) {
        return plb_fail(document->status, "%s",
                        document->problem ? document->problem : "out of memory for a report");
    }
    for (const plb_section *s = document->first; s; s = s->next) {
        for (const plb_part *p = s->first; p; p = p->next) {
            if (p->kind == PLB_PART_TABLE) PLB_TRY(check_table(p->table));
        }
    }
    return PLB_OK;
}

// Memory of the document, zeroed; NULL after any failure.
static void *take(plb_document *d, size_t size_bytes) {
    if (d->status) return NULL;
    void *memory = plb_arena_alloc(d->arena, size_bytes);
    if (!memory) fail_memory(d);
    return memory;
}

static const char *take_text(plb_document *d, const char *text) {
    if (d->status || !text) return NULL;
    const char *copy = plb_arena_strdup(d->arena, text);
    if (!copy) fail_memory(d);
    return copy;
}

static const char *take_format(plb_document *d, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *text = length < 0 ? NULL : take(d, (size_t)length + 1);
    if (text) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

// ---------------------------------------------------------------------------- the head
void plb_document_set_subtitle(plb_document *document, const char *format, ...) {
    va_list args;
    va_start(args, format);
    document->subtitle = take_format(document, format, args);
    va_end(args);
}

void plb_document_set_command(plb_document *document, const char *command) {
    document->command = take_text(document, command);
}

void plb_document_verdict(plb_document *document, plb_tone tone, const char *word,
                          const char *format, ...) {
    va_list args;
    va_start(args, format);
    plb_document_vverdict(document, tone, word, format, args);
    va_end(args);
}

void plb_document_vverdict(plb_document *document, plb_tone tone, const char *word,
                           const char *format, va_list args) {
    const char *text = take_format(document, format, args);
    plb_part_verdict *v = take(document, sizeof *v);
    if (!v) return;
    *v = (plb_part_verdict){.tone = tone, .word = take_text(document, word), .text = text};
    if (document->last_verdict)
        document->last_verdict->next = v;
    else
        document->verdict = v;
    document->last_verdict = v;
}

// ---------------------------------------------------------------------------- sections
plb_section *plb_document_section(plb_document *document, const char *title) {
    plb_section *s = take(document, sizeof *s);
    const char *copy = take_text(document, title);
    if (!copy) return &document->spare_section;
    s->document = document, s->title = copy;
    if (document->last)
        document->last->next = s;
    else
        document->first = s;
    document->last = s;
    return s;
}

static plb_part *add_part(plb_section *section, plb_part_kind kind) {
    plb_part *p = take(section->document, sizeof *p);
    if (!p) return NULL;
    p->kind = kind;
    if (section->last)
        section->last->next = p;
    else
        section->first = p;
    section->last = p;
    return p;
}

static void add_words(plb_section *section, plb_part_kind kind, const char *text) {
    plb_part *p = text ? add_part(section, kind) : NULL;
    if (p) p->text = text;
}

void plb_section_say(plb_section *section, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_words(section, PLB_PART_SAY, take_format(section->document, format, args));
    va_end(args);
}

void plb_section_item(plb_section *section, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_words(section, PLB_PART_ITEM, take_format(section->document, format, args));
    va_end(args);
}

void plb_section_code(plb_section *section, const char *text) {
    add_words(section, PLB_PART_CODE, take_text(section->document, text));
}

void plb_section_text(plb_section *section, const char *title, const char *text) {
    const char *copy = take_text(section->document, text);
    plb_part *p = copy ? add_part(section, PLB_PART_TEXT) : NULL;
    if (!p) return;
    p->text = copy;
    p->title = take_text(section->document, title);
}

static bool has_name(const plb_document *d, const char *name) {
    for (const plb_section *s = d->first; s; s = s->next) {
        for (const plb_part *p = s->first; p; p = p->next) {
            if (p->kind == PLB_PART_FIGURE && strcmp(p->figure->name, name) == 0) return true;
            if (p->kind == PLB_PART_TABLE && strcmp(p->table->name, name) == 0) return true;
        }
    }
    return false;
}

// Names of figures and tables name files: none stands for two.
static const char *own_name(plb_document *d, const char *name) {
    const char *own = name;
    for (int i = 2; own && has_name(d, own); i++)
        own = plb_arena_printf(d->arena, "%s-%d", name, i);
    if (!own) fail_memory(d);
    return own;
}

void plb_section_figure(plb_section *section, const plb_figure *figure) {
    plb_document *d = section->document;
    plb_figure *copy;
    if (d->status) return;
    plb_status status = plb_figure_copy(figure, d->arena, &copy);
    if (status) {
        fail(d, status);
        return;
    }
    copy->name = own_name(d, copy->name);
    plb_part *p = add_part(section, PLB_PART_FIGURE);
    if (p) p->figure = copy;
}

const char *plb_figure_command(const plb_document *document, const plb_figure *figure) {
    return figure->command ? figure->command : document->command;
}

// ---------------------------------------------------------------------------- tables
plb_table *plb_section_table(plb_section *section, const char *name, const char *caption) {
    plb_document *d = section->document;
    plb_table *t = take(d, sizeof *t);
    const char *name_copy = take_text(d, name), *caption_copy = take_text(d, caption);
    if (name_copy) name_copy = own_name(d, name_copy);
    plb_part *p = name_copy ? add_part(section, PLB_PART_TABLE) : NULL;
    if (!p) return &d->spare_table;
    *t = (plb_table){.document = d, .name = name_copy, .caption = caption_copy};
    p->table = t;
    return t;
}

void plb_table_column(plb_table *table, const char *title, plb_column_kind kind, plb_unit unit) {
    plb_document *d = table->document;
    const char *copy = take_text(d, title);
    if (!copy) return;
    if (table->columns == PLB_MOST_COLUMNS || table->cells) {
        fail(d, plb_fail(PLB_EINVAL, "table %s: expected at most %d columns, before any cell",
                         table->name, PLB_MOST_COLUMNS));
        return;
    }
    table->column[table->columns++] = (plb_part_column){copy, kind, unit};
}

static void add_cell(plb_table *t, plb_part_cell cell) {
    plb_document *d = t->document;
    if (d->status) return;
    if (t->cells == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 64;
        plb_part_cell *cells = take(d, capacity * sizeof *cells);
        if (!cells) return;
        if (t->cells) memcpy(cells, t->cell, t->cells * sizeof *cells);
        t->cell = cells, t->capacity = capacity;
    }
    t->cell[t->cells++] = cell;
}

void plb_table_text(plb_table *table, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *text = take_format(table->document, format, args);
    va_end(args);
    add_cell(table, (plb_part_cell){.text = text, .number = (double)NAN});
}

void plb_table_number(plb_table *table, double value) {
    add_cell(table, (plb_part_cell){.number = value});
}

void plb_table_badge(plb_table *table, plb_tone tone, const char *word) {
    const char *copy = take_text(table->document, word ? word : "");
    add_cell(table,
             (plb_part_cell){.text = copy, .number = (double)NAN, .tone = tone, .badge = true});
}

void plb_table_link(plb_table *table, const char *address, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *text = take_format(table->document, format, args);
    va_end(args);
    const char *to = take_text(table->document, address);
    add_cell(table, (plb_part_cell){.text = text, .number = (double)NAN, .address = to});
}

// ---------------------------------------------------------------------------- a part alone
static bool is_called(const plb_part *part, const char *name) {
    const char *own = part->kind == PLB_PART_FIGURE  ? part->figure->name
                      : part->kind == PLB_PART_TABLE ? part->table->name
                                                     : NULL;
    return own && strcmp(own, name) == 0;
}

plb_status plb_document_keep(plb_document *document, const char *name) {
    for (plb_section *s = document->first; s; s = s->next) {
        for (plb_part *p = s->first; p; p = p->next) {
            if (!is_called(p, name)) continue;
            document->verdict = document->last_verdict = NULL;
            document->first = document->last = s;
            s->first = s->last = p;
            s->next = NULL, p->next = NULL;
            return PLB_OK;
        }
    }
    return plb_document_no_part(document, name);
}
