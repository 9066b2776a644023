// SPDX-License-Identifier: Apache-2.0
// A document from JSON: what studies write, what is committed beside a page, and what a user's own
// script may write. docs/report.md describes the form.
#ifndef PLB_REPORT_JSON_READ_H
#define PLB_REPORT_JSON_READ_H

#include "report/document.h"

// `label` (a path) stands before every error. PLB_EINVAL names the section, the block and the key.
// Freed by plb_document_free.
PLB_API PLB_MUST_USE plb_status plb_document_read_json(const char *bytes, size_t size_bytes,
                                                       const char *label, plb_document **out);

#endif
