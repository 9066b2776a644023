// SPDX-License-Identifier: Apache-2.0
// A folder of the probe's files as a report, a JSON document and a trace: what `profile` does after
// a run and `trace` with a stored one.
#ifndef PLB_CLI_PROFILE_SHOW_H
#define PLB_CLI_PROFILE_SHOW_H

#include <limits.h>
#include <stddef.h>

#include <jansson.h>

#include "base/json.h"
#include "cli/cli.h"
#include "probe/kept.h"
#include "store/profile.h"

// First in the options of both commands.
typedef struct plb_profile_flags {
    const char *sort, *group, *classes; // classes NULL: the built-in ones
    int64_t top, steps;
} plb_profile_flags;

#define PLB_PROFILE_FLAG(flag, what, field) \
    .name = flag, .kind = PLB_FLAG_##what, .offset = offsetof(plb_profile_flags, field)
// Rows of a table of flags, for both commands.
#define PLB_PROFILE_FLAGS                                                                       \
    {PLB_PROFILE_FLAG("sort", CHOICE, sort),                                                    \
     .value = "total|calls|average|max|name|self|device|self-device", .fallback = "total",      \
     .help = "order of the tables"},                                                            \
        {PLB_PROFILE_FLAG("top", INT, top), .value = "N", .max = 1 << 20, .fallback = "20",     \
         .help = "rows of a table; 0: all"},                                                    \
        {PLB_PROFILE_FLAG("steps", INT, steps), .value = "N", .max = 1 << 30, .fallback = "0",  \
         .help = "steps it makes; 0: one a range \"step\""},                                    \
        {PLB_PROFILE_FLAG("group", CHOICE, group), .value = "kernel|class|stream|range|thread", \
         .fallback = "kernel", .help = "class: no single kernels; range: operators"},           \
    {                                                                                           \
        PLB_PROFILE_FLAG("classes", FILE, classes),                                             \
            .value = "FILE",                                                                    \
            .help = "lines \"CLASS PATTERN\" that come before the built-in classes of kernels"  \
    }

typedef struct plb_profile_view {
    const plb_profile_flags *flags;
    const char *trace; // NULL, or where to write a trace
    const char *folder;
    plb_kept_about about;
    const json_t *operators; // of a case's stack, as the protocol has them; NULL: none
    int64_t operator_iterations;
    int output;     // instead of standard output, or -1
    bool bandwidth; // measure what copies can reach, of each device that made some
} plb_profile_view;

// Tells on standard output, as text or, with call->json, as a document. `why`: what the profile
// lacks, or "".
PLB_MUST_USE plb_status plb_profile_show(const plb_profile_view *view, const plb_call *call,
                                         char *why, size_t why_bytes);

// The document of --json, yours to free with plb_json_free.
PLB_MUST_USE plb_status plb_profile_document_text(const plb_profile_view *view, plb_json *out);

// Reads the folder and hands what it holds, sorted, to `teller`.
struct plb_profile_report;
PLB_MUST_USE plb_status plb_profile_tell(const plb_profile_view *view,
                                         void (*teller)(const struct plb_profile_report *report));

// A profile of the store back into the probe's files, in `folder`; `out` is in `arena`.
PLB_MUST_USE plb_status plb_profile_extract(const plb_store_profile *profile, const char *folder,
                                            plb_arena *arena, plb_kept_about *out);

// A new folder of our own, and its removal with the files in it.
PLB_MUST_USE plb_status plb_profile_folder(char out[PATH_MAX]);
void plb_profile_remove_folder(const char *folder);

#endif
