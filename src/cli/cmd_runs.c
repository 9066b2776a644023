// SPDX-License-Identifier: Apache-2.0
// What runs the store has.
#include <inttypes.h>
#include <stdio.h>

#include "base/core/status.h"
#include "cli/cli.h"
#include "cli/stored.h"

typedef struct runs_flags {
    const char *db, *label;
    int64_t limit;
} runs_flags;

static const plb_flag flags[] = {
    PLB_FLAG_DB(offsetof(runs_flags, db)),
    {.name = "label",
     .kind = PLB_FLAG_STRING,
     .offset = offsetof(runs_flags, label),
     .value = "TEXT",
     .help = "only runs with this label"},
    {.name = "limit",
     .kind = PLB_FLAG_INT,
     .offset = offsetof(runs_flags, limit),
     .value = "N",
     .min = 1,
     .max = 1000000,
     .fallback = "50",
     .help = "at most the newest N"},
};

static void print_run(const plb_run_row *r, plb_arena *arena) {
    char cases[32];
    snprintf(cases, sizeof cases, "%" PRId64 "/%" PRId64, r->ok, r->cases);
    plb_print("%6" PRId64 "  %-17s%-12s%10s  %-12.12s  %-16s  %s\n", r->id,
              plb_show_moment(r->began_ms).text, r->state, cases, r->git ? r->git : "-",
              r->label ? plb_stored_plain(r->label, arena) : "-",
              plb_stored_plain(r->command, arena));
}

static void json_run(plb_json *json, const plb_run_row *r) {
    plb_json_begin_object(json, NULL);
    plb_json_int(json, "id", r->id);
    plb_json_string(json, "uuid", r->uuid);
    plb_json_string(json, "label", r->label);
    plb_json_string(json, "command", r->command);
    plb_json_string(json, "git", r->git);
    plb_json_string(json, "state", r->state);
    plb_json_int(json, "began_ms", r->began_ms);
    if (r->ended_ms < 0)
        plb_json_null(json, "seconds");
    else
        plb_json_double(json, "seconds", (double)(r->ended_ms - r->began_ms) / 1000);
    plb_json_string(json, "machine", r->machine_hash);
    plb_json_int(json, "cases", r->cases);
    plb_json_int(json, "ok", r->ok);
    plb_json_end(json);
}

static plb_status run_runs(plb_call *call) {
    const runs_flags *f = call->options;
    const plb_run_filter filter = {.label = f->label, .limit = f->limit};
    plb_store *store;
    plb_arena *arena;
    plb_run_row *rows;
    size_t count;
    plb_status status;
    PLB_TRY_OUT(plb_stored_open(f->db, &store, &arena));
    PLB_TRY_OUT(plb_store_runs(store, &filter, arena, &rows, &count));
    if (call->json) {
        plb_json json;
        plb_cli_json_begin(&json, "runs", 1);
        plb_json_begin_array(&json, "runs");
        for (size_t i = 0; i < count; i++) json_run(&json, &rows[i]);
        plb_json_end(&json);
        PLB_TRY_OUT(plb_cli_json_print(&json));
        goto out;
    }
    plb_print("%6s  %-17s%-12s%10s  %-12s  %-16s  %s\n", "run", "began", "state", "ok/cases", "git",
              "label", "command");
    for (size_t i = 0; i < count; i++) print_run(&rows[i], arena);
out:
    plb_store_close(store);
    plb_arena_free(arena);
    return status;
}

const plb_command plb_cmd_runs = {
    .name = "runs",
    .summary = "list what was measured",
    .description =
        "The newest run comes first. `plumb show RUN` shows one; `plumb compare A B` compares\n"
        "two.",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(runs_flags),
    .run = run_runs,
};
