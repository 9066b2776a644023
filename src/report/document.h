// SPDX-License-Identifier: Apache-2.0
// What a report says, before it is known where: a title, a summary in sentences, and sections of
// paragraphs, tables and figures. It is built once and written as one HTML file, Markdown, CSV,
// PNG, PDF or for a terminal (report/write.h).
//
//     plb_document *d = plb_document_new("levels");
//     plb_document_set_command(d, "plumb study levels --quick");
//     plb_document_verdict(d, PLB_TONE_BAD, "SLOWER", "torch-eager takes %.2f times as long", r);
//     plb_section *s = plb_document_section(d, "Accuracy");
//     plb_section_say(s, "Three seeds each; the band is the smallest to the largest.");
//     plb_section_figure(s, &(plb_figure){...});
//     plb_table *t = plb_section_table(s, "final", "After the last epoch");
//     plb_table_column(t, "stack", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
//     plb_table_column(t, "accuracy", PLB_COLUMN_NUMBER, PLB_UNIT_SHARE);
//     plb_table_text(t, "%s", stack);              // cells, row by row; the last one ends the row
//     plb_table_number(t, accuracy);
//     PLB_TRY_OUT(plb_document_status(d));         // one check for all calls above
//
// All texts are plain: what looks like HTML or Markdown is shown as it is. Everything is copied
// into the document. Calls after a failure do nothing; pointers are never NULL.
#ifndef PLB_REPORT_DOCUMENT_H
#define PLB_REPORT_DOCUMENT_H

#include <stdarg.h>

#include "report/figure.h"

typedef struct plb_document plb_document;
typedef struct plb_section plb_section;
typedef struct plb_table plb_table;

typedef enum plb_tone { PLB_TONE_PLAIN, PLB_TONE_GOOD, PLB_TONE_BAD, PLB_TONE_UNSURE } plb_tone;

// Drops everything but the figure or table of this name. PLB_EINVAL: there is none.
PLB_API PLB_MUST_USE plb_status plb_document_keep(plb_document *document, const char *name);

PLB_API plb_document *plb_document_new(const char *title); // NULL when out of memory
PLB_API void plb_document_free(plb_document *document);    // NULL is legal
// PLB_ENOMEM, or PLB_EINVAL if a figure was not right or a table's last row is not whole.
PLB_API PLB_MUST_USE plb_status plb_document_status(const plb_document *document);
// Lives as long as the document: for numbers and texts on their way into a figure.
PLB_API plb_arena *plb_document_arena(plb_document *document);

// ---------------------------------------------------------------------------- the head
// One line below the title: when, on what.
PLB_API void plb_document_set_subtitle(plb_document *document, const char *format, ...)
    PLB_PRINTF(2);
// What a user types to make all of it again.
PLB_API void plb_document_set_command(plb_document *document, const char *command);
// A sentence of the summary, in the order in which they are to be read; `word` ("SLOWER") stands
// before it as a badge; NULL: none.
PLB_API void plb_document_verdict(plb_document *document, plb_tone tone, const char *word,
                                  const char *format, ...) PLB_PRINTF(4);
PLB_API void plb_document_vverdict(plb_document *document, plb_tone tone, const char *word,
                                   const char *format, va_list args);

// ---------------------------------------------------------------------------- sections
PLB_API plb_section *plb_document_section(plb_document *document, const char *title);
PLB_API void plb_section_say(plb_section *section, const char *format, ...) PLB_PRINTF(2);
// An item of a list; items that follow each other are one list.
PLB_API void plb_section_item(plb_section *section, const char *format, ...) PLB_PRINTF(2);
// A command or a piece of a file, as it is typed.
PLB_API void plb_section_code(plb_section *section, const char *text);
// A text whose lines stay as they are: a log, a JSON document. Folded in HTML under `title`.
PLB_API void plb_section_text(plb_section *section, const char *title, const char *text);
PLB_API void plb_section_figure(plb_section *section, const plb_figure *figure);

// ---------------------------------------------------------------------------- tables
typedef enum plb_column_kind { PLB_COLUMN_TEXT, PLB_COLUMN_NUMBER } plb_column_kind;

// `name` is what chooses it (plb_document_write's `part`); `caption` stands above it.
PLB_API plb_table *plb_section_table(plb_section *section, const char *name, const char *caption);
PLB_API void plb_table_column(plb_table *table, const char *title, plb_column_kind kind,
                              plb_unit unit);
PLB_API void plb_table_text(plb_table *table, const char *format, ...) PLB_PRINTF(2);
PLB_API void plb_table_number(plb_table *table, double value); // NaN: "-"
// A text with a tone, such as a verdict or an outcome.
PLB_API void plb_table_badge(plb_table *table, plb_tone tone, const char *word);
// A text that leads to another page of `plumb serve`; elsewhere it is only a text.
PLB_API void plb_table_link(plb_table *table, const char *address, const char *format, ...)
    PLB_PRINTF(3);

#endif
