// SPDX-License-Identifier: Apache-2.0
// The page: one file with its style, its script and its figures inside. Figures are drawn twice,
// for wide screens and for phones, since text that is scaled down to a phone cannot be read.
#include "report/html.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "plumb/version.h"
#include "report/drawing.h"
#include "report/escape.h"
#include "report/parts.h"
#include "report/write.h"

extern const char plb_page_css[], plb_page_js[]; // embedded by CMake

enum { WIDE = 860, SMALL = 380, FILTER_FROM = 8, MOST_RATIO_CELLS = 2000, LONG_CELL = 36 };

typedef struct page {
    plb_strbuf *out;
    const plb_document *document;
    const plb_page_options *options;
    int tables; // numbered, since names of others may repeat
} page;

static void put(page *p, const char *text) {
    plb_strbuf_append(p->out, text, strlen(text));
}

static void escape(page *p, const char *text) {
    plb_escape_html(p->out, text ? text : "");
}

static const char *tone_class(plb_tone tone) {
    switch (tone) {
    case PLB_TONE_GOOD: return "badge good";
    case PLB_TONE_BAD: return "badge bad";
    case PLB_TONE_UNSURE: return "badge unsure";
    case PLB_TONE_PLAIN: break;
    }
    return "badge";
}

// ---------------------------------------------------------------------------- head
static void put_ink_rules(page *p) {
    for (plb_ink ink = PLB_INK_TEXT; ink <= PLB_INK_SERIES + PLB_PALETTE; ink++) {
        const char *class = plb_ink_class(ink);
        if (class) {
            plb_strbuf_printf(p->out, ".f-%s{fill:var(--i-%s)}.l-%s{stroke:var(--i-%s)}\n", class,
                              class, class, class);
        }
    }
}

static void put_ink_colours(page *p, const char *selector, int dark) {
    plb_strbuf_printf(p->out, "%s{", selector);
    for (plb_ink ink = PLB_INK_TEXT; ink <= PLB_INK_SERIES + PLB_PALETTE; ink++) {
        const char *class = plb_ink_class(ink);
        if (class) plb_strbuf_printf(p->out, "--i-%s:#%06x;", class, plb_ink_rgb(ink, dark));
    }
    put(p, "}\n");
}

static void put_head(page *p) {
    put(p, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
           "<meta http-equiv=\"Content-Security-Policy\" content=\"" PLB_PAGE_POLICY "\">\n"
           "<meta name=\"generator\" content=\"Plumb " PLUMB_VERSION "\">\n"
           "<link rel=\"icon\" href=\"data:,\">\n");
    if (p->options->refresh_s) {
        plb_strbuf_printf(p->out, "<meta http-equiv=\"refresh\" content=\"%d\">\n",
                          p->options->refresh_s);
    }
    put(p, "<title>");
    escape(p, p->document->title);
    put(p, "</title>\n<style>\n");
    put(p, plb_page_css);
    put_ink_colours(p, ":root", 0);
    put_ink_colours(p, ":root[data-theme=dark]", 1);
    put(p, "@media (prefers-color-scheme:dark){");
    put_ink_colours(p, ":root:not([data-theme])", 1);
    put(p, "}\n");
    put_ink_rules(p);
    put(p, "</style>\n</head>\n");
}

static void put_contents(page *p) {
    int number = 0;
    const plb_section *s = p->document->first;
    if (!s || !s->next) return;
    put(p, "<nav aria-label=\"Contents\"><ul>\n");
    for (; s; s = s->next) {
        plb_strbuf_printf(p->out, "<li><a href=\"#s%d\">", ++number);
        escape(p, s->title);
        put(p, "</a></li>\n");
    }
    put(p, "</ul></nav>\n");
}

static void put_header(page *p) {
    put(p, "<body>\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header>\n"
           "<div class=\"tools\"><button type=\"button\" id=\"theme\">Theme</button></div>\n");
    if (p->options->links) put(p, "<nav aria-label=\"Pages\"><ul>\n");
    for (size_t i = 0; i < p->options->links; i++) {
        put(p, "<li><a href=\"");
        escape(p, p->options->link[i].address);
        put(p, "\">");
        escape(p, p->options->link[i].text);
        put(p, "</a></li>\n");
    }
    if (p->options->links) put(p, "</ul></nav>\n");
    put(p, "<h1>");
    escape(p, p->document->title);
    put(p, "</h1>\n");
    if (p->document->subtitle) {
        put(p, "<p class=\"sub\">");
        escape(p, p->document->subtitle);
        put(p, "</p>\n");
    }
    put_contents(p);
    put(p, "</header>\n<main id=\"main\">\n");
}

static void put_verdicts(page *p) {
    const plb_part_verdict *v = p->document->verdict;
    if (!v) return;
    put(p, "<ul class=\"verdicts\" aria-label=\"Summary\">\n");
    for (; v; v = v->next) {
        put(p, "<li>");
        if (v->word) {
            plb_strbuf_printf(p->out, "<span class=\"%s\">", tone_class(v->tone));
            escape(p, v->word);
            put(p, "</span> ");
        }
        put(p, "<span>");
        escape(p, v->text);
        put(p, "</span></li>\n");
    }
    put(p, "</ul>\n");
}

// ---------------------------------------------------------------------------- tables
static void put_cell(page *p, const plb_part_column *column, const plb_part_cell *cell) {
    char shown[PLB_UNIT_BYTES_SHOWN];
    if (column->kind == PLB_COLUMN_NUMBER) {
        if (isfinite(cell->number))
            plb_strbuf_printf(p->out, "<td class=\"n\" data-v=\"%.9g\">", cell->number);
        else
            put(p, "<td class=\"n none\" data-v=\"\">");
        plb_unit_show(column->unit, cell->number, shown);
        escape(p, cell->text ? cell->text : shown);
    } else {
        put(p, strlen(cell->text) > LONG_CELL ? "<td class=\"w\">" : "<td>");
        if (cell->badge && *cell->text)
            plb_strbuf_printf(p->out, "<span class=\"%s\">", tone_class(cell->tone));
        if (cell->address && p->options->served) {
            put(p, "<a href=\"");
            escape(p, cell->address);
            put(p, "\">");
        }
        escape(p, cell->text);
        if (cell->address && p->options->served) put(p, "</a>");
        if (cell->badge && *cell->text) put(p, "</span>");
    }
    put(p, "</td>");
}

static void put_table_head(page *p, const plb_table *t, bool caption) {
    if (caption && t->caption) {
        put(p, "<caption>");
        escape(p, t->caption);
        put(p, "</caption>");
    }
    put(p, "<thead><tr>");
    for (size_t i = 0; i < t->columns; i++) {
        plb_strbuf_printf(p->out, "<th scope=\"col\"%s><button type=\"button\">",
                          t->column[i].kind == PLB_COLUMN_NUMBER ? " class=\"n\"" : "");
        escape(p, *t->column[i].title ? t->column[i].title : "name");
        put(p, "</button></th>");
    }
    put(p, "</tr></thead>\n<tbody>\n");
}

static void put_table(page *p, const plb_table *t, bool caption) {
    const size_t rows = t->columns ? t->cells / t->columns : 0;
    const int number = ++p->tables;
    if (rows >= FILTER_FROM) {
        plb_strbuf_printf(p->out,
                          "<div class=\"controls\"><label>Filter <input type=\"search\" "
                          "data-filter=\"t%d\" placeholder=\"words that a row has\"></label>"
                          "<output aria-live=\"polite\"></output></div>\n",
                          number);
    }
    put(p, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: ");
    escape(p, t->caption ? t->caption : t->name);
    plb_strbuf_printf(p->out, "\"><table id=\"t%d\">", number);
    put_table_head(p, t, caption);
    for (size_t row = 0; row < rows; row++) {
        put(p, "<tr>");
        for (size_t i = 0; i < t->columns; i++)
            put_cell(p, &t->column[i], &t->cell[row * t->columns + i]);
        put(p, "</tr>\n");
    }
    put(p, "</tbody></table></div>\n");
}

// ---------------------------------------------------------------------------- figures
static plb_status put_drawing(page *p, const plb_figure *f, bool small, int series, int against,
                              bool hidden) {
    char extra[96];
    plb_drawing drawing;
    const plb_draw_options options = {
        .width = small ? SMALL : WIDE, .untipped = small, .series = series, .against = against};
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory for a figure");
    plb_status status = plb_draw(f, &options, arena, &drawing);
    if (series) {
        snprintf(extra, sizeof extra, " class=\"%s\" data-grid=\"%d-%d\"%s",
                 small ? "small" : "wide", series, against, hidden ? " hidden" : "");
    } else {
        snprintf(extra, sizeof extra, " class=\"%s\"", small ? "small" : "wide");
    }
    if (!status) plb_drawing_svg(&drawing, true, extra, p->out);
    plb_arena_free(arena);
    return status;
}

// Every pair of grids where that is not too much, else each against the first.
static bool all_pairs(const plb_figure *f) {
    return f->series_count * f->series_count * f->rows * f->categories <= MOST_RATIO_CELLS;
}

static void put_choices(page *p, const plb_figure *f, size_t count) {
    for (size_t i = 0; i < count; i++) {
        plb_strbuf_printf(p->out, "<option value=\"%zu\">", i + 1);
        escape(p, f->series[i].name);
        put(p, "</option>");
    }
}

static plb_status put_grids(page *p, const plb_figure *f) {
    const size_t against = f->series_count < 2 ? 0 : all_pairs(f) ? f->series_count : 1;
    put(p, "<div class=\"controls\"><label>Show <select>");
    put_choices(p, f, f->series_count);
    put(p, "</select></label>");
    if (against) {
        put(p, "<label>divided by <select><option value=\"0\">nothing</option>");
        put_choices(p, f, against);
        put(p, "</select></label>");
    }
    put(p, "</div>\n");
    for (size_t s = 1; s <= f->series_count; s++) {
        for (size_t a = 0; a <= against; a++) {
            if (a == s) continue;
            const bool hidden = s > 1 || a > 0;
            PLB_TRY(put_drawing(p, f, false, (int)s, (int)a, hidden));
            PLB_TRY(put_drawing(p, f, true, (int)s, (int)a, hidden));
        }
    }
    return PLB_OK;
}

static plb_status put_figure(page *p, const plb_figure *f) {
    const bool grids = f->kind == PLB_FIGURE_HEAT && f->series_count > 0;
    const char *command = plb_figure_command(p->document, f);
    // "f-": the page's own elements have names, too, and a figure may be called "main".
    plb_strbuf_printf(p->out, "<figure id=\"f-%s\"%s>\n<figcaption><b>", f->name,
                      grids ? " data-heat" : "");
    escape(p, f->title);
    put(p, "</b>");
    if (f->caption) {
        put(p, " <span>");
        escape(p, f->caption);
        put(p, "</span>");
    }
    put(p, "</figcaption>\n");
    if (grids) {
        PLB_TRY(put_grids(p, f));
    } else {
        PLB_TRY(put_drawing(p, f, false, 0, 0, false));
        PLB_TRY(put_drawing(p, f, true, 0, 0, false));
    }
    put(p, "<details><summary>Numbers and command</summary>\n");
    if (command) {
        put(p, "<div class=\"command\"><pre class=\"wrap\"><code>");
        escape(p, command);
        put(p, "</code></pre><button type=\"button\" class=\"copy\">Copy</button></div>\n");
    }
    plb_arena *arena = plb_arena_new();
    const plb_table *table = arena ? plb_figure_table(f, arena) : NULL;
    if (table) put_table(p, table, false);
    plb_arena_free(arena);
    put(p, "</details>\n</figure>\n");
    return table ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a figure's table");
}

// ---------------------------------------------------------------------------- sections
static void put_words(page *p, const char *before, const char *text, const char *after) {
    put(p, before);
    escape(p, text);
    put(p, after);
}

static plb_status put_part(page *p, const plb_part *part, const plb_part *last) {
    const bool first = !last || last->kind != PLB_PART_ITEM;
    const bool ends = !part->next || part->next->kind != PLB_PART_ITEM;
    switch (part->kind) {
    case PLB_PART_SAY: put_words(p, "<p>", part->text, "</p>\n"); return PLB_OK;
    case PLB_PART_ITEM:
        put_words(p, first ? "<ul><li>" : "<li>", part->text, ends ? "</li></ul>\n" : "</li>\n");
        return PLB_OK;
    case PLB_PART_CODE:
        put_words(p, "<div class=\"command\"><pre><code>", part->text,
                  "</code></pre><button type=\"button\" class=\"copy\">Copy</button></div>\n");
        return PLB_OK;
    case PLB_PART_TEXT:
        put_words(p, "<details><summary>", part->title ? part->title : "Text", "</summary>\n");
        put_words(p, "<pre class=\"wrap\" tabindex=\"0\">", part->text, "</pre></details>\n");
        return PLB_OK;
    case PLB_PART_FIGURE: return put_figure(p, part->figure);
    case PLB_PART_TABLE: put_table(p, part->table, true); return PLB_OK;
    }
    return PLB_OK;
}

static plb_status put_sections(page *p) {
    int number = 0;
    for (const plb_section *s = p->document->first; s; s = s->next) {
        plb_strbuf_printf(p->out, "<section id=\"s%d\" aria-labelledby=\"h%d\">\n<h2 id=\"h%d\">",
                          number + 1, number + 1, number + 1);
        number++;
        put_words(p, "", s->title, "</h2>\n");
        const plb_part *last = NULL;
        for (const plb_part *part = s->first; part; last = part, part = part->next)
            PLB_TRY(put_part(p, part, last));
        put(p, "</section>\n");
    }
    return PLB_OK;
}

static void put_footer(page *p) {
    put(p, "</main>\n<footer>");
    if (p->document->command) {
        put(p, "<p>Made by <code>");
        escape(p, p->document->command);
        put(p, "</code></p>");
    }
    put(p, "<p>Plumb " PLUMB_VERSION ". This page loads nothing from anywhere.</p></footer>\n"
           "<script>\n");
    put(p, plb_page_js);
    put(p, "</script>\n</body>\n</html>\n");
}

plb_status plb_document_page(const plb_document *document, const plb_page_options *options,
                             plb_strbuf *out) {
    page p = {.out = out, .document = document, .options = options};
    PLB_TRY(plb_document_status(document));
    put_head(&p);
    put_header(&p);
    put_verdicts(&p);
    PLB_TRY(put_sections(&p));
    put_footer(&p);
    return out->failed ? plb_fail(PLB_ENOMEM, "out of memory for a page") : PLB_OK;
}

plb_status plb_document_html(const plb_document *document, plb_strbuf *out) {
    return plb_document_page(document, &(plb_page_options){0}, out);
}
