// SPDX-License-Identifier: Apache-2.0
// Runs from files that `plumb export --format json` wrote, here or on another machine.
#include <inttypes.h>

#include "base/core/status.h"
#include "bench/transfer.h"
#include "cli/cli.h"
#include "cli/stored.h"

typedef struct import_flags {
    const char *db;
} import_flags;

static const plb_flag flags[] = {
    PLB_FLAG_DB(offsetof(import_flags, db)),
};

static plb_status run_import(plb_call *call) {
    const import_flags *f = call->options;
    plb_store *store = NULL;
    plb_json json;
    plb_status status;
    PLB_TRY(plb_store_open(f->db, &store));
    if (call->json) {
        plb_cli_json_begin(&json, "import", 1);
        plb_json_begin_array(&json, "runs");
    }
    for (int i = 0; i < call->operand_count; i++) {
        int64_t run;
        PLB_TRY_OUT(plb_transfer_read(store, call->operands[i], &run));
        if (call->json)
            plb_json_int(&json, NULL, run);
        else
            plb_print("%s is run %" PRId64 "\n", call->operands[i], run);
    }
    status = PLB_OK;
out:
    plb_store_close(store);
    if (!call->json) return status;
    if (status) {
        plb_json_free(&json);
        return status;
    }
    plb_json_end(&json);
    return plb_cli_json_print(&json);
}

const plb_command plb_cmd_import = {
    .name = "import",
    .summary = "add runs that were exported as JSON to the store",
    .operands = "FILE...",
    .description =
        "Each file is one run, as `plumb export RUN --format json` writes it; it is added\n"
        "whole or not at all. A run that the store has already is refused.",
    .min_operands = 1,
    .max_operands = -1,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(import_flags),
    .run = run_import,
};
