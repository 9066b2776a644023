// SPDX-License-Identifier: Apache-2.0
// What texts and plots in a terminal share: columns that a text takes, colours, padding.
#ifndef PLB_REPORT_TERMINAL_H
#define PLB_REPORT_TERMINAL_H

#include "report/palette.h"
#include "report/write.h"

// Columns that a text takes: letters of East Asia two, marks that combine none.
int plb_text_columns(const char *text);
// The text, cut to `columns` with "…" and filled up with blanks: on the left if `right`.
void plb_put_padded(plb_strbuf *out, const char *text, int columns, bool right);
void plb_put_repeated(plb_strbuf *out, const char *text, int times);
// What follows is in this colour; `back`: its ground. Nothing where there are no colours.
void plb_put_colour(plb_strbuf *out, const plb_terminal *terminal, uint32_t rgb, bool back);
void plb_put_ink(plb_strbuf *out, const plb_terminal *terminal, plb_ink ink);
void plb_put_plain(plb_strbuf *out, const plb_terminal *terminal); // back to normal
void plb_put_bold(plb_strbuf *out, const plb_terminal *terminal);
int plb_terminal_columns(const plb_terminal *terminal);

#endif
