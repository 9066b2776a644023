// SPDX-License-Identifier: Apache-2.0
// Tells again what a stored profile holds.
#include <limits.h>
#include <stdio.h>

#include "base/core/arena.h"
#include "base/core/status.h"
#include "cli/cli.h"
#include "cli/profile_show.h"
#include "cli/stored.h"
#include "probe/kept.h"
#include "store/profile.h"

typedef struct trace_flags {
    plb_profile_flags show;
    const char *trace, *db;
    bool strict;
} trace_flags;

#define FLAG(flag, what, field) \
    .name = flag, .kind = PLB_FLAG_##what, .offset = offsetof(trace_flags, field)
static const plb_flag flags[] = {
    PLB_PROFILE_FLAGS,
    {FLAG("trace", FILE, trace), .value = "FILE",
     .help = "write the records, if they were kept, for ui.perfetto.dev"},
    {FLAG("db", FILE, db), .value = "FILE", .help = "PROFILE is a run of this store"},
    {FLAG("strict", SWITCH, strict),
     .help = "exit with 6 when the profile is incomplete, or of no device"},
};

// A run's profile goes through a file, as any other.
static plb_status extract_run(const char *db, const char *word, const char *folder,
                              plb_arena *arena, plb_kept_about *out) {
    plb_store *store = NULL;
    plb_run_row run;
    plb_store_profile profile;
    plb_status status;
    PLB_TRY_OUT(plb_store_open_existing(db, &store));
    PLB_TRY_OUT(plb_stored_run(store, word, arena, &run));
    PLB_TRY_OUT(plb_store_get_profile(store, run.id, arena, &profile));
    PLB_TRY_OUT(plb_profile_extract(&profile, folder, arena, out));
out:
    plb_store_close(store);
    return status;
}

static plb_status extract(const trace_flags *f, const char *word, const char *folder,
                          plb_arena *arena, plb_kept_about *out) {
    return f->db ? extract_run(f->db, word, folder, arena, out)
                 : plb_kept_extract(word, folder, arena, out);
}

static plb_status tell(const trace_flags *f, plb_call *call, const char *folder, plb_arena *arena) {
    char why[320] = "";
    plb_profile_view view = {.flags = &f->show, .trace = f->trace, .folder = folder, .output = -1};
    PLB_TRY(extract(f, call->operands[0], folder, arena, &view.about));
    PLB_TRY(plb_profile_show(&view, call, why, sizeof why));
    if (f->strict && why[0]) {
        plb_note("incomplete: %s", why);
        call->exit_code = PLB_EXIT_BROKEN;
    }
    return PLB_OK;
}

static plb_status run_trace(plb_call *call) {
    char folder[PATH_MAX];
    plb_arena *arena = plb_arena_new();
    plb_status status =
        arena ? plb_profile_folder(folder) : plb_fail(PLB_ENOMEM, "no memory for a profile");
    if (!status) {
        status = tell(call->options, call, folder, arena);
        plb_profile_remove_folder(folder);
    }
    plb_arena_free(arena);
    return status;
}

const plb_command plb_cmd_trace = {
    .name = "trace",
    .summary = "tell again what a stored profile holds",
    .operands = "PROFILE",
    .description =
        "Reads what `plumb profile --save PROFILE` kept, and shows it as that did; with --db,\n"
        "what `plumb profile --db FILE` kept as the run PROFILE, a number or a label.",
    .min_operands = 1,
    .max_operands = 1,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(trace_flags),
    .completes = "",
    .run = run_trace,
};
