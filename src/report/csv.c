// SPDX-License-Identifier: Apache-2.0
// One table as CSV (RFC 4180): numbers in their base unit, with all digits that matter, and empty
// where there is none.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "report/escape.h"
#include "report/parts.h"
#include "report/write.h"

static void put_title(plb_strbuf *out, const plb_part_column *column) {
    plb_strbuf title = {0};
    const char *unit = column->kind == PLB_COLUMN_NUMBER ? plb_unit_base(column->unit) : "";
    plb_strbuf_printf(&title, "%s%s%s", *column->title ? column->title : "name", *unit ? " " : "",
                      unit);
    if (title.failed)
        out->failed = true;
    else
        plb_escape_csv(out, title.text);
    plb_strbuf_free(&title);
}

static void put_table(const plb_table *t, plb_strbuf *out) {
    for (size_t i = 0; i < t->columns; i++) {
        if (i) plb_strbuf_append(out, ",", 1);
        put_title(out, &t->column[i]);
    }
    plb_strbuf_append(out, "\r\n", 2);
    for (size_t i = 0; i < t->cells; i++) {
        const plb_part_cell *cell = &t->cell[i];
        if (cell->text)
            plb_escape_csv(out, cell->text);
        else if (isfinite(cell->number))
            plb_strbuf_printf(out, "%.10g", cell->number);
        const bool ends = (i + 1) % t->columns == 0;
        plb_strbuf_append(out, ends ? "\r\n" : ",", ends ? 2 : 1);
    }
}

static plb_status put_figure(const plb_figure *figure, plb_strbuf *out) {
    plb_arena *arena = plb_arena_new();
    const plb_table *table = arena ? plb_figure_table(figure, arena) : NULL;
    if (table) put_table(table, out);
    plb_arena_free(arena);
    return table ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a figure's table");
}

// The first table, or what is called `part`; NULL: there is none.
static const plb_part *find(const plb_document *d, const char *part) {
    for (const plb_section *s = d->first; s; s = s->next) {
        for (const plb_part *p = s->first; p; p = p->next) {
            if (p->kind == PLB_PART_TABLE && (!part || strcmp(part, p->table->name) == 0)) return p;
            if (p->kind == PLB_PART_FIGURE && part && strcmp(part, p->figure->name) == 0) return p;
        }
    }
    return NULL;
}

plb_status plb_document_csv(const plb_document *document, const char *part, plb_strbuf *out) {
    PLB_TRY(plb_document_status(document));
    const plb_part *p = find(document, part);
    if (!p) return plb_document_no_part(document, part);
    if (p->kind == PLB_PART_TABLE)
        put_table(p->table, out);
    else
        PLB_TRY(put_figure(p->figure, out));
    return out->failed ? plb_fail(PLB_ENOMEM, "out of memory for a table") : PLB_OK;
}
