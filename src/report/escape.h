// SPDX-License-Identifier: Apache-2.0
// Texts of others inside HTML, XML, Markdown and CSV: shown as they are, whatever they hold. Bytes
// that are not UTF-8, and control characters, become U+FFFD.
#ifndef PLB_REPORT_ESCAPE_H
#define PLB_REPORT_ESCAPE_H

#include "base/core/strbuf.h"

// For element content and attributes in double quotes.
PLB_API void plb_escape_html(plb_strbuf *out, const char *text);
PLB_API void plb_escape_xml(plb_strbuf *out, const char *text); // the same; new lines survive
// For what stands inside a line of Markdown, as in a cell: one line, nothing in it is markup.
PLB_API void plb_escape_markdown(plb_strbuf *out, const char *text);
// For what begins a line or an item of a list: it begins no list, rule or code there, either.
PLB_API void plb_escape_markdown_line(plb_strbuf *out, const char *text);
// One field of CSV (RFC 4180), quoted where needed. A text that a spreadsheet would take for a
// formula gets an apostrophe.
PLB_API void plb_escape_csv(plb_strbuf *out, const char *text);
// For a terminal: no control characters, so that no label moves the cursor.
PLB_API void plb_escape_terminal(plb_strbuf *out, const char *text);
// The same of a text whose lines and tabs are meant.
PLB_API void plb_escape_lines(plb_strbuf *out, const char *text);

#endif
