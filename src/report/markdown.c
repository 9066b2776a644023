// SPDX-License-Identifier: Apache-2.0
// A document for an issue or a README: figures become their tables, long ones are folded.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "report/escape.h"
#include "report/parts.h"
#include "report/terminal.h"
#include "report/write.h"

enum { FOLD_FROM = 12 }; // rows

static void put(plb_strbuf *out, const char *text) {
    plb_strbuf_append(out, text, strlen(text));
}

static void put_escaped(plb_strbuf *out, const char *before, const char *text, const char *after) {
    put(out, before);
    plb_escape_markdown(out, text ? text : "");
    put(out, after);
}

static void put_line(plb_strbuf *out, const char *text, const char *after) {
    plb_escape_markdown_line(out, text ? text : "");
    put(out, after);
}

static void put_cell(plb_strbuf *out, const plb_part_column *column, const plb_part_cell *cell) {
    char shown[PLB_UNIT_BYTES_SHOWN];
    if (cell->text) {
        put_escaped(out, cell->badge && *cell->text ? " **" : " ", cell->text,
                    cell->badge && *cell->text ? "** |" : " |");
        return;
    }
    plb_unit_show(column->unit, cell->number, shown);
    put_escaped(out, " ", shown, " |");
}

static void put_table(plb_strbuf *out, const plb_table *t, bool caption) {
    const size_t rows = t->columns ? t->cells / t->columns : 0;
    const bool fold = rows >= FOLD_FROM;
    if (fold) {
        put(out, "<details><summary>");
        // A new line stays a reference to one: an empty line would end the HTML.
        plb_escape_xml(out, t->caption ? t->caption : t->name);
        plb_strbuf_printf(out, " (%zu rows)</summary>\n\n", rows);
    } else if (caption && t->caption) {
        put_escaped(out, "**", t->caption, "**\n\n");
    }
    put(out, "|");
    for (size_t i = 0; i < t->columns; i++)
        put_escaped(out, " ", *t->column[i].title ? t->column[i].title : "name", " |");
    put(out, "\n|");
    for (size_t i = 0; i < t->columns; i++)
        put(out, t->column[i].kind == PLB_COLUMN_NUMBER ? "--:|" : "---|");
    put(out, "\n");
    for (size_t i = 0; i < t->cells; i++) {
        if (i % t->columns == 0) put(out, "|");
        put_cell(out, &t->column[i % t->columns], &t->cell[i]);
        if ((i + 1) % t->columns == 0) put(out, "\n");
    }
    put(out, fold ? "\n</details>\n\n" : "\n");
}

static size_t longest_run(const char *text, char c) {
    size_t longest = 0;
    for (size_t run = 0; *text; text++) {
        run = *text == c ? run + 1 : 0;
        if (run > longest) longest = run;
    }
    return longest;
}

// Between fences that are longer than any backquotes in it, nothing is markup. Indented code would
// be a paragraph where a list stands before it.
static void put_code(plb_strbuf *out, const char *text) {
    const size_t inside = longest_run(text, '`');
    const int fence = (int)(inside < 3 ? 3 : inside + 1);
    plb_put_repeated(out, "`", fence);
    put(out, "\n");
    for (const char *line = text; *line;) {
        const size_t length = strcspn(line, "\r\n");
        plb_strbuf_append(out, line, length);
        put(out, "\n");
        line += length + (line[length] == '\r' && line[length + 1] == '\n') + (line[length] != 0);
    }
    plb_put_repeated(out, "`", fence);
    put(out, "\n\n");
}

static plb_status put_figure(plb_strbuf *out, const plb_document *d, const plb_figure *f) {
    const char *command = plb_figure_command(d, f);
    plb_arena *arena = plb_arena_new();
    const plb_table *table = arena ? plb_figure_table(f, arena) : NULL;
    put_escaped(out, "### ", f->title, "\n\n");
    if (f->caption) put_line(out, f->caption, "\n\n");
    if (table) put_table(out, table, false);
    if (command) put_code(out, command);
    plb_arena_free(arena);
    return table ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a figure's table");
}

static plb_status put_part(plb_strbuf *out, const plb_document *d, const plb_part *p) {
    switch (p->kind) {
    case PLB_PART_SAY: put_line(out, p->text, "\n\n"); return PLB_OK;
    case PLB_PART_ITEM:
        put(out, "- ");
        put_line(out, p->text, p->next && p->next->kind == PLB_PART_ITEM ? "\n" : "\n\n");
        return PLB_OK;
    case PLB_PART_CODE: put_code(out, p->text); return PLB_OK;
    case PLB_PART_TEXT:
        put_line(out, p->title ? p->title : "Text", ":\n\n");
        put_code(out, p->text);
        return PLB_OK;
    case PLB_PART_FIGURE: return put_figure(out, d, p->figure);
    case PLB_PART_TABLE: put_table(out, p->table, true); return PLB_OK;
    }
    return PLB_OK;
}

plb_status plb_document_markdown(const plb_document *document, plb_strbuf *out) {
    PLB_TRY(plb_document_status(document));
    put_escaped(out, "# ", document->title, "\n\n");
    if (document->subtitle) put_line(out, document->subtitle, "\n\n");
    for (const plb_part_verdict *v = document->verdict; v; v = v->next) {
        put(out, "- ");
        if (v->word)
            put_escaped(out, "**", v->word, "**: "), put_escaped(out, "", v->text, "\n");
        else
            put_line(out, v->text, "\n");
    }
    if (document->verdict) put(out, "\n");
    for (const plb_section *s = document->first; s; s = s->next) {
        put_escaped(out, "## ", s->title, "\n\n");
        for (const plb_part *p = s->first; p; p = p->next) PLB_TRY(put_part(out, document, p));
    }
    if (document->command) {
        put(out, "Made by:\n\n");
        put_code(out, document->command);
    }
    return out->failed ? plb_fail(PLB_ENOMEM, "out of memory for a report") : PLB_OK;
}
