// SPDX-License-Identifier: Apache-2.0
// A profile's tables for other programs, on standard output: one CSV whose rows say of which table
// they are, and Markdown for issues.
#ifndef PLB_CLI_PROFILE_EXPORT_H
#define PLB_CLI_PROFILE_EXPORT_H

#include "cli/profile_report.h"

// A number that is unknown, or has no meaning in that table, is a blank.
void plb_profile_print_csv(const plb_profile_report *report);
// Only columns that a table uses, and at most the report's number of rows of each.
void plb_profile_print_markdown(const plb_profile_report *report);

#endif
