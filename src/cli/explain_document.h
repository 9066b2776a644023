// SPDX-License-Identifier: Apache-2.0
// What `plumb explain` found out as a document: ops against the measured roofs, memory over the
// schedule, all ops as a table.
#ifndef PLB_CLI_EXPLAIN_DOCUMENT_H
#define PLB_CLI_EXPLAIN_DOCUMENT_H

#include "cli/explain_report.h"
#include "report/document.h"

// `command`: that makes it again. Freed by plb_document_free.
PLB_MUST_USE plb_status plb_explain_document(const plb_explained *e, const char *command,
                                             plb_document **out);

#endif
