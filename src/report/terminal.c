// SPDX-License-Identifier: Apache-2.0
#include "report/terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/core/status.h"
#include "report/escape.h"
#include "report/parts.h"

plb_terminal plb_terminal_of(int descriptor) {
    struct winsize size;
    const char *none = getenv("NO_COLOR"), *kind = getenv("TERM"); // https://no-color.org
    plb_terminal t = {.columns = 80};
    if (!isatty(descriptor)) return t;
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) t.columns = size.ws_col;
    t.colour = !(none && *none) && kind && strcmp(kind, "dumb") != 0;
    return t;
}

int plb_terminal_columns(const plb_terminal *terminal) {
    const int columns = terminal->columns > 0 ? terminal->columns : 80;
    return columns < 40 ? 40 : columns > 160 ? 160 : columns;
}

// ---------------------------------------------------------------------------- texts
static int columns_of(unsigned code) {
    if (code >= 0x300 && code < 0x370) return 0; // marks that combine
    const bool wide = (code >= 0x1100 && code < 0x1160) || (code >= 0x2e80 && code < 0xa4d0) ||
                      (code >= 0xac00 && code < 0xd7a4) || (code >= 0xf900 && code < 0xfb00) ||
                      (code >= 0xff00 && code < 0xff61) || code >= 0x1f300;
    return wide ? 2 : 1;
}

// The code point at *text, which is moved on; invalid bytes are one each.
static unsigned next_code(const char **text) {
    const unsigned char *p = (const unsigned char *)*text;
    const int more = *p < 0xc0 ? 0 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : 3;
    unsigned code = more == 0 ? *p : *p & (0x3fu >> more);
    int i = 1;
    for (; i <= more && (p[i] & 0xc0) == 0x80; i++) code = code << 6 | (p[i] & 0x3f);
    *text += i;
    return code;
}

static int columns_until(const char *text, const char *end) {
    int columns = 0;
    while (text < end) columns += columns_of(next_code(&text));
    return columns;
}

int plb_text_columns(const char *text) {
    return columns_until(text, text + strlen(text));
}

// Bytes of the text that fit into so many columns.
static size_t fit(const char *text, int columns) {
    const char *at = text;
    for (int used = 0; *at;) {
        const char *next = at;
        used += columns_of(next_code(&next));
        if (used > columns) break;
        at = next;
    }
    return (size_t)(at - text);
}

void plb_put_repeated(plb_strbuf *out, const char *text, int times) {
    for (int i = 0; i < times; i++) plb_strbuf_append(out, text, strlen(text));
}

void plb_put_padded(plb_strbuf *out, const char *text, int columns, bool right) {
    plb_strbuf clean = {0};
    plb_escape_terminal(&clean, text);
    const char *shown = clean.text ? clean.text : "";
    const int wide = plb_text_columns(shown);
    if (clean.failed) out->failed = true;
    if (right) plb_put_repeated(out, " ", columns - wide);
    if (wide <= columns) {
        plb_strbuf_append(out, shown, strlen(shown));
    } else {
        plb_strbuf_append(out, shown, fit(shown, columns - 1));
        plb_put_repeated(out, "…", columns > 0);
    }
    if (!right) plb_put_repeated(out, " ", columns - wide);
    plb_strbuf_free(&clean);
}

// ---------------------------------------------------------------------------- colours
void plb_put_colour(plb_strbuf *out, const plb_terminal *terminal, uint32_t rgb, bool back) {
    if (!terminal->colour) return;
    // The cube of 6 x 6 x 6 colours, which every terminal has that has colours at all.
    unsigned r = (rgb >> 16 & 255) * 5 + 127, g = (rgb >> 8 & 255) * 5 + 127,
             b = (rgb & 255) * 5 + 127;
    plb_strbuf_printf(out, "\033[%d;5;%um", back ? 48 : 38,
                      16 + 36 * (r / 255) + 6 * (g / 255) + b / 255);
}

void plb_put_ink(plb_strbuf *out, const plb_terminal *terminal, plb_ink ink) {
    // Between the colours for light and dark pages: what lies behind is not known.
    uint32_t a = plb_ink_rgb(ink, 0), b = plb_ink_rgb(ink, 1);
    plb_put_colour(out, terminal, (a >> 1 & 0x7f7f7f) + (b >> 1 & 0x7f7f7f), false);
}

void plb_put_plain(plb_strbuf *out, const plb_terminal *terminal) {
    if (terminal->colour) plb_strbuf_printf(out, "\033[0m");
}

void plb_put_bold(plb_strbuf *out, const plb_terminal *terminal) {
    if (terminal->colour) plb_strbuf_printf(out, "\033[1m");
}

static void put_tone(plb_strbuf *out, const plb_terminal *terminal, plb_tone tone) {
    static const int codes[] = {
        [PLB_TONE_PLAIN] = 0, [PLB_TONE_GOOD] = 32, [PLB_TONE_BAD] = 31, [PLB_TONE_UNSURE] = 33};
    if (terminal->colour && codes[tone]) plb_strbuf_printf(out, "\033[%dm", codes[tone]);
}

// ---------------------------------------------------------------------------- paragraphs
// Words, broken so that no line is longer than the terminal; `hang` blanks before all but the
// first line.
static void put_wrapped(plb_strbuf *out, const plb_terminal *terminal, const char *text, int used,
                        int hang) {
    const int columns = plb_terminal_columns(terminal);
    plb_strbuf clean = {0};
    plb_escape_terminal(&clean, text);
    int at = used;
    bool first = true; // of its line, or behind what stands there
    for (const char *word = clean.text ? clean.text : ""; *word;) {
        size_t length = strcspn(word, " ");
        const int wide = columns_until(word, word + length);
        if (at > hang && at + 1 + wide > columns) {
            plb_strbuf_append(out, "\n", 1);
            plb_put_repeated(out, " ", hang);
            at = hang;
        } else if (!first) {
            plb_strbuf_append(out, " ", 1), at++;
        }
        first = false;
        plb_strbuf_append(out, word, length);
        at += wide;
        word += length;
        word += strspn(word, " ");
    }
    plb_strbuf_append(out, "\n", 1);
    out->failed |= clean.failed;
    plb_strbuf_free(&clean);
}

static void put_verdict(plb_strbuf *out, const plb_terminal *terminal, const plb_part_verdict *v) {
    int used = 2;
    plb_put_repeated(out, " ", 2);
    if (v->word) {
        put_tone(out, terminal, v->tone);
        plb_put_padded(out, v->word, plb_text_columns(v->word), false);
        plb_put_plain(out, terminal);
        plb_put_repeated(out, " ", 2);
        used += plb_text_columns(v->word) + 2;
    }
    put_wrapped(out, terminal, v->text, used, 4);
}

// ---------------------------------------------------------------------------- tables
static const char *cell_text(const plb_table *t, size_t cell, char shown[PLB_UNIT_BYTES_SHOWN]) {
    const plb_part_cell *c = &t->cell[cell];
    if (c->text) return c->text;
    plb_unit_show(t->column[cell % t->columns].unit, c->number, shown);
    return shown;
}

// Widths of the columns; the widest texts give way where all of it is too wide.
static void measure(const plb_table *t, int columns, int width[PLB_MOST_COLUMNS]) {
    enum { LEAST = 12 };
    char shown[PLB_UNIT_BYTES_SHOWN];
    int total = 0;
    for (size_t i = 0; i < t->columns; i++) width[i] = plb_text_columns(t->column[i].title);
    for (size_t i = 0; i < t->cells; i++) {
        const int wide = plb_text_columns(cell_text(t, i, shown));
        if (wide > width[i % t->columns]) width[i % t->columns] = wide;
    }
    for (size_t i = 0; i < t->columns; i++) total += width[i] + 2;
    while (total > columns) {
        size_t widest = 0;
        for (size_t i = 0; i < t->columns; i++)
            if (t->column[i].kind == PLB_COLUMN_TEXT && width[i] > width[widest]) widest = i;
        if (t->column[widest].kind != PLB_COLUMN_TEXT || width[widest] <= LEAST) return;
        width[widest]--, total--;
    }
}

static void put_table(plb_strbuf *out, const plb_terminal *terminal, const plb_table *t) {
    int width[PLB_MOST_COLUMNS] = {0};
    char shown[PLB_UNIT_BYTES_SHOWN];
    measure(t, plb_terminal_columns(terminal), width);
    if (t->caption) put_wrapped(out, terminal, t->caption, 0, 0);
    plb_put_bold(out, terminal);
    for (size_t i = 0; i < t->columns; i++) {
        plb_put_padded(out, t->column[i].title, width[i], t->column[i].kind == PLB_COLUMN_NUMBER);
        plb_put_repeated(out, " ", 2);
    }
    plb_put_plain(out, terminal);
    plb_strbuf_append(out, "\n", 1);
    for (size_t i = 0; i < t->cells; i++) {
        const size_t k = i % t->columns;
        if (t->cell[i].badge) put_tone(out, terminal, t->cell[i].tone);
        plb_put_padded(out, cell_text(t, i, shown), width[k],
                       t->column[k].kind == PLB_COLUMN_NUMBER);
        if (t->cell[i].badge) plb_put_plain(out, terminal);
        plb_put_repeated(out, k + 1 == t->columns ? "\n" : "  ", 1);
    }
    plb_strbuf_append(out, "\n", 1);
}

// ---------------------------------------------------------------------------- the document
static plb_status put_figure(plb_strbuf *out, const plb_terminal *terminal, const plb_figure *f) {
    if (terminal->plots) return plb_figure_terminal(f, terminal, out);
    plb_arena *arena = plb_arena_new();
    const plb_table *table = arena ? plb_figure_table(f, arena) : NULL;
    if (table) put_table(out, terminal, table);
    plb_arena_free(arena);
    return table ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a figure's table");
}

static void put_lines(plb_strbuf *out, const char *text) {
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        plb_strbuf copy = {0};
        plb_strbuf_append(&copy, line, length);
        plb_put_repeated(out, " ", 4);
        if (copy.text) plb_escape_terminal(out, copy.text);
        out->failed |= copy.failed;
        plb_strbuf_free(&copy);
        plb_strbuf_append(out, "\n", 1);
        line += length + (line[length] == '\n');
    }
}

static plb_status put_part(plb_strbuf *out, const plb_terminal *terminal, const plb_part *p) {
    switch (p->kind) {
    case PLB_PART_SAY:
        put_wrapped(out, terminal, p->text, 0, 0);
        plb_strbuf_append(out, "\n", 1);
        return PLB_OK;
    case PLB_PART_ITEM:
        plb_put_repeated(out, "- ", 1);
        put_wrapped(out, terminal, p->text, 2, 2);
        if (!p->next || p->next->kind != PLB_PART_ITEM) plb_strbuf_append(out, "\n", 1);
        return PLB_OK;
    case PLB_PART_CODE:
        put_lines(out, p->text);
        plb_strbuf_append(out, "\n", 1);
        return PLB_OK;
    case PLB_PART_TEXT: return PLB_OK; // logs are for the page
    case PLB_PART_FIGURE: return put_figure(out, terminal, p->figure);
    case PLB_PART_TABLE: put_table(out, terminal, p->table); return PLB_OK;
    }
    return PLB_OK;
}

static void put_heading(plb_strbuf *out, const plb_terminal *terminal, const char *text) {
    plb_put_bold(out, terminal);
    put_wrapped(out, terminal, text, 0, 0);
    plb_put_plain(out, terminal);
}

plb_status plb_document_terminal(const plb_document *document, const plb_terminal *terminal,
                                 plb_strbuf *out) {
    PLB_TRY(plb_document_status(document));
    put_heading(out, terminal, document->title);
    if (document->subtitle) put_wrapped(out, terminal, document->subtitle, 0, 0);
    plb_strbuf_append(out, "\n", 1);
    for (const plb_part_verdict *v = document->verdict; v; v = v->next)
        put_verdict(out, terminal, v);
    for (const plb_section *s = document->first; s; s = s->next) {
        plb_strbuf_append(out, "\n", 1);
        put_heading(out, terminal, s->title);
        plb_put_repeated(out, "─", plb_text_columns(s->title));
        plb_strbuf_append(out, "\n", 1);
        for (const plb_part *p = s->first; p; p = p->next) PLB_TRY(put_part(out, terminal, p));
    }
    return out->failed ? plb_fail(PLB_ENOMEM, "out of memory for a report") : PLB_OK;
}
