// SPDX-License-Identifier: Apache-2.0
// A document in each of its forms. The forms of one document hold the same figures, tables and
// sentences.
#ifndef PLB_REPORT_WRITE_H
#define PLB_REPORT_WRITE_H

#include "base/core/strbuf.h"
#include "report/document.h"

typedef enum plb_format {
    PLB_FORMAT_HTML,     // one file, opens offline
    PLB_FORMAT_MARKDOWN, // tables, and figures as tables: for issues
    PLB_FORMAT_CSV,      // one table
    PLB_FORMAT_PNG,      // a file a figure (needs cairo)
    PLB_FORMAT_PDF,      // a page a figure (needs cairo)
    PLB_FORMAT_SVG,      // a file a figure
    PLB_FORMATS
} plb_format;

// "html|md|csv|png|pdf|svg": the words of a flag, and which of them `word` is (PLB_EINVAL).
#define PLB_FORMAT_WORDS "html|md|csv|png|pdf|svg"
PLB_API PLB_MUST_USE plb_status plb_format_parse(const char *word, plb_format *out);
PLB_API const char *plb_format_word(plb_format format); // which is the suffix of its files too

// The one that a path's suffix says; without a suffix html.
PLB_API PLB_MUST_USE plb_status plb_format_of_path(const char *path, plb_format *out);

// Writes the document to `path` and hands what was written to `tell` (a path each; NULL: nobody).
// `part`: the name of one figure or table; NULL: all, for CSV the first table. PNG and SVG of more
// than one figure put the figure's name before the suffix: F.png, F-NAME.png. PLB_EMISSING: the
// format needs what this build lacks. PLB_EINVAL: no such part.
typedef void (*plb_written)(void *context, const char *path);
PLB_API PLB_MUST_USE plb_status plb_document_write(const plb_document *document, plb_format format,
                                                   const char *part, const char *path,
                                                   plb_written tell, void *context);

// The forms that are text, appended to `out`.
PLB_API PLB_MUST_USE plb_status plb_document_html(const plb_document *document, plb_strbuf *out);
PLB_API PLB_MUST_USE plb_status plb_document_markdown(const plb_document *document,
                                                      plb_strbuf *out);
PLB_API PLB_MUST_USE plb_status plb_document_csv(const plb_document *document, const char *part,
                                                 plb_strbuf *out);
PLB_API PLB_MUST_USE plb_status plb_figure_svg(const plb_figure *figure, plb_strbuf *out);
PLB_API PLB_MUST_USE plb_status plb_figure_png(const plb_figure *figure, double scale,
                                               plb_strbuf *out);

typedef struct plb_terminal {
    int columns; // 0: 80
    bool colour; // of a terminal where NO_COLOR is not set (plb_terminal_of)
    bool plots;  // figures as plots; else as tables alone
} plb_terminal;

// What standard output is: its width, and whether colours are wanted.
PLB_API plb_terminal plb_terminal_of(int descriptor);
PLB_API PLB_MUST_USE plb_status plb_document_terminal(const plb_document *document,
                                                      const plb_terminal *terminal,
                                                      plb_strbuf *out);
PLB_API PLB_MUST_USE plb_status plb_figure_terminal(const plb_figure *figure,
                                                    const plb_terminal *terminal, plb_strbuf *out);

#endif
