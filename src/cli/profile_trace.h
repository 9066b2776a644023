// SPDX-License-Identifier: Apache-2.0
#ifndef PLB_CLI_PROFILE_TRACE_H
#define PLB_CLI_PROFILE_TRACE_H

#include "cli/profile_report.h"

// Writes what the *.trace files beside the spools hold, and what the cards drew, to `path`, whole
// or not at all, in Chrome's trace event format ("JSON object format"), which
// ui.perfetto.dev opens.
PLB_MUST_USE plb_status plb_profile_write_trace(const plb_profile_report *report, const char *path);

#endif
