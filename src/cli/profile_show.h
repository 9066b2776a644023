// SPDX-License-Identifier: Apache-2.0
// A folder of the probe's files as a report, a JSON document and a trace: what `profile` does after
// a run and `trace` with a stored one.
#ifndef PLB_CLI_PROFILE_SHOW_H
#define PLB_CLI_PROFILE_SHOW_H

#include <limits.h>

#include "cli/cli.h"
#include "probe/command.h"

typedef struct plb_profile_view {
    const char *sort, *group, *classes; // as the flags have them; classes NULL: the built-in ones
    const char *trace;                  // NULL, or where to write a trace
    int64_t top;
    const char *folder;
    char *const *command;
    const plb_command_result *run; // NULL: unknown
    int output;                    // instead of standard output, or -1
} plb_profile_view;

// Tells on standard output, as text or, with call->json, as a document. `why`: what the profile
// lacks, or "".
PLB_MUST_USE plb_status plb_profile_show(const plb_profile_view *view, const plb_call *call,
                                         char *why, size_t why_bytes);

// A new folder of our own, and its removal with the files in it.
PLB_MUST_USE plb_status plb_profile_folder(char out[PATH_MAX]);
void plb_profile_remove_folder(const char *folder);

#endif
