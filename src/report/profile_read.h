// SPDX-License-Identifier: Apache-2.0
// What `plumb profile --json` prints as a document: the time of each device in shares, what the
// host did while devices idled, kernels and calls.
#ifndef PLB_REPORT_PROFILE_READ_H
#define PLB_REPORT_PROFILE_READ_H

#include <jansson.h>

#include "report/document.h"

// `root`: that JSON document. Freed by plb_document_free. PLB_EINVAL if it has no devices.
PLB_MUST_USE plb_status plb_profile_document(const json_t *root, const char *label,
                                             plb_document **out);

#endif
