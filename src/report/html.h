// SPDX-License-Identifier: Apache-2.0
// A document as one HTML page, with what a server's page has beyond a file.
#ifndef PLB_REPORT_HTML_H
#define PLB_REPORT_HTML_H

#include "base/core/strbuf.h"
#include "report/document.h"

typedef struct plb_page_link {
    const char *address, *text;
} plb_page_link;

typedef struct plb_page_options {
    const plb_page_link *link; // above the title: to other pages
    size_t links;
    int refresh_s; // the page loads anew after so many seconds; 0: never
    bool served;   // cells lead to other pages
} plb_page_options;

PLB_API PLB_MUST_USE plb_status plb_document_page(const plb_document *document,
                                                  const plb_page_options *options, plb_strbuf *out);

// The policy of every page: it may load nothing, from nowhere.
#define PLB_PAGE_POLICY                                                                          \
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; " \
    "base-uri 'none'; form-action 'self'"

#endif
