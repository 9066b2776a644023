// SPDX-License-Identifier: Apache-2.0
// The data sets: which are known and where they are, getting one, checking one.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/status.h"
#include "cli/cli.h"
#include "data/registry.h"

// "drawn", the folder, or NULL where the set is missing.
static plb_status place_of(const plb_known_dataset *set, plb_arena *arena, const char **out) {
    *out = "drawn";
    if (set->drawn) return PLB_OK;
    plb_status status = plb_dataset_locate(set->name, NULL, arena, out);
    if (status == PLB_EMISSING) {
        *out = NULL;
        return PLB_OK;
    }
    return status;
}

static void json_set(plb_json *json, const plb_known_dataset *set, const char *place) {
    plb_json_begin_object(json, NULL);
    plb_json_string(json, "name", set->name);
    plb_json_string(json, "summary", set->summary);
    plb_json_bool(json, "drawn", set->drawn);
    plb_json_bool(json, "downloadable", set->downloadable);
    plb_json_string(json, "folder", set->drawn ? NULL : place);
    plb_json_end(json);
}

static void print_set(const plb_known_dataset *set, const char *place) {
    plb_print("%-14s  %-46s  ", set->name, set->summary);
    if (place)
        plb_print("%s\n", place);
    else if (set->downloadable)
        plb_print("missing; plumb data get %s\n", set->name);
    else
        plb_print("missing\n");
}

static plb_status list(bool as_json) {
    plb_arena *arena = plb_arena_new();
    plb_json json = {0};
    plb_status status = PLB_OK;
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    if (as_json) {
        plb_cli_json_begin(&json, "data", 1);
        plb_json_begin_array(&json, "data_sets");
    }
    for (size_t i = 0; i < plb_known_dataset_count; i++) {
        const plb_known_dataset *set = plb_known_dataset_at(i);
        const char *place = NULL;
        PLB_TRY_OUT(place_of(set, arena, &place));
        if (as_json)
            json_set(&json, set, place);
        else
            print_set(set, place);
    }
    if (as_json) {
        plb_json_end(&json);
        status = plb_cli_json_print(&json);
    }
out:
    plb_json_free(&json);
    plb_arena_free(arena);
    return status;
}

static bool show(void *context, const plb_progress_event *e) {
    const bool *terminal = context;
    if (*terminal) {
        double mb = (double)e->done / 1e6;
        fprintf(stderr, "\r\033[K%s  %.1f MB", e->what, mb);
        if (e->total > 0) {
            fprintf(stderr, " of %.1f (%.0f %%)", (double)e->total / 1e6,
                    100 * (double)e->done / (double)e->total);
        }
        if (e->last) fputc('\n', stderr);
        fflush(stderr);
    }
    return !plb_cli_interrupted();
}

static plb_status answer(const char *what, const char *name, const char *text, bool as_json) {
    if (!as_json) {
        plb_print("%s: %s\n", name, text);
        return PLB_OK;
    }
    plb_json json;
    plb_cli_json_begin(&json, "data", 1);
    plb_json_string(&json, "name", name);
    plb_json_string(&json, what, text);
    return plb_cli_json_print(&json);
}

static plb_status get(const char *name, bool as_json) {
    bool terminal = isatty(STDERR_FILENO);
    plb_progress progress = {.callback = show, .context = &terminal, .interval_ns = 100000000};
    plb_status status = plb_dataset_download(name, NULL, &progress);
    if (status) return status;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    const char *folder = NULL;
    status = plb_dataset_locate(name, NULL, arena, &folder);
    if (!status) status = answer("folder", name, folder, as_json);
    plb_arena_free(arena);
    return status;
}

static plb_status run_data(plb_call *call) {
    const char *verb = call->operand_count ? call->operands[0] : "list";
    bool is_list = strcmp(verb, "list") == 0, is_get = strcmp(verb, "get") == 0;
    if (!is_list && !is_get && strcmp(verb, "check") != 0) {
        return plb_fail(PLB_EINVAL, "expected list, get NAME or check NAME, found \"%s\"", verb);
    }
    if (is_list) {
        if (call->operand_count > 1) {
            return plb_fail(PLB_EINVAL, "unexpected \"%s\"", call->operands[1]);
        }
        return list(call->json);
    }
    if (call->operand_count < 2)
        return plb_fail(PLB_EINVAL, "%s: expected a data set's name", verb);
    if (is_get) return get(call->operands[1], call->json);
    PLB_TRY(plb_dataset_check(call->operands[1], NULL));
    return answer("check", call->operands[1], "every file is as published", call->json);
}

const plb_command plb_cmd_data = {
    .name = "data",
    .summary = "list, download or check data sets",
    .operands = "[list|get NAME|check NAME]",
    .description =
        "Lists the data sets that Plumb knows and where they are; gets one, into the\n"
        "first of the folders below; or compares its files with the checksums that\n"
        "their publisher states. A download that was interrupted goes on where it was.\n\n"
        "Folders, in order: $PLUMB_DATA, else $XDG_DATA_HOME/plumb/data, else\n"
        "~/.local/share/plumb/data; then $PLUMB_TEST_DATA.",
    .max_operands = 2,
    .completes = "list get check",
    .run = run_data,
};
