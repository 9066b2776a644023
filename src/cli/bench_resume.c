// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "cli/stored.h"
#include "cli/typed.h"

// What a run is told with, and where it lies; what it is stays the same.
static bool is_free(const char *flag) {
    static const char *const names[] = {"db", "no-lock", "plot", "resume"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(flag, names[i]) == 0) return true;
    return false;
}

// "--region latency", "--profile", "no --label".
static void show_flag(const plb_flag *flag, const void *options, char *text, size_t size) {
    const void *field = (const char *)options + flag->offset;
    const char *word;
    switch (flag->kind) {
    case PLB_FLAG_SWITCH:
        snprintf(text, size, "%s--%s", *(const bool *)field ? "" : "no ", flag->name);
        return;
    case PLB_FLAG_INT:
        snprintf(text, size, "--%s %" PRId64, flag->name, *(const int64_t *)field);
        return;
    case PLB_FLAG_DOUBLE:
        snprintf(text, size, "--%s %.17g", flag->name, *(const double *)field);
        return;
    default:
        memcpy(&word, field, sizeof word);
        snprintf(text, size, "%s--%s%s%s", word ? "" : "no ", flag->name, word ? " " : "",
                 word ? word : "");
    }
}

static plb_status compare_flags(int64_t run, const plb_command *bench, const plb_bench_flags *began,
                                const plb_bench_flags *now) {
    enum { SHOWN = 200 };
    char before[4096], after[4096];
    for (size_t i = 0; i < bench->flag_count; i++) {
        const plb_flag *flag = &bench->flags[i];
        if (is_free(flag->name)) continue;
        show_flag(flag, began, before, sizeof before);
        show_flag(flag, now, after, sizeof after);
        if (strcmp(before, after) == 0) continue;
        return plb_fail(PLB_EINVAL, "--resume %" PRId64 ": expected %.*s, as it began, found %.*s",
                        run, SHOWN, before, SHOWN, after);
    }
    return PLB_OK;
}

static plb_status compare_models(int64_t run, char **began, int count, const plb_call *call) {
    for (int i = 0; i < count || i < call->operand_count; i++) {
        const char *before = i < count ? began[i] : "no more models";
        const char *after = i < call->operand_count ? call->operands[i] : "no more models";
        if (strcmp(before, after) == 0) continue;
        return plb_fail(PLB_EINVAL, "--resume %" PRId64 ": expected %s, as it began, found %s", run,
                        before, after);
    }
    return PLB_OK;
}

static plb_status check_run(const plb_run_row *run, const plb_bench_flags *now,
                            const plb_call *call, plb_arena *arena) {
    const plb_command *bench = plb_command_find("bench");
    plb_bench_flags began;
    char **words;
    int count = 0, models;
    PLB_TRY(plb_typed_words(run->command, arena, &words, &count));
    if (count < 2 || strcmp(words[1], bench->name) != 0) {
        return plb_fail(PLB_EINVAL,
                        "--resume %" PRId64 ": expected a run of `plumb bench`, found one of "
                        "`plumb %s`",
                        run->id, count > 1 ? words[1] : "");
    }
    plb_status status = plb_cli_parse(bench, count - 2, words + 2, &began, &models);
    if (status) return plb_fail_context(status, "the command of run %" PRId64, run->id);
    PLB_TRY(compare_models(run->id, words + 2, models, call));
    return compare_flags(run->id, bench, &began, now);
}

plb_status plb_bench_check_resume(const plb_bench_flags *now, const plb_call *call) {
    const plb_run_filter filter = {.id = now->resume};
    plb_store *store;
    plb_arena *arena;
    plb_run_row *row;
    size_t count;
    plb_status status;
    PLB_TRY_OUT(plb_stored_open(now->db, &store, &arena));
    PLB_TRY_OUT(plb_store_runs(store, &filter, arena, &row, &count));
    if (!count)
        PLB_TRY_OUT(plb_fail(PLB_EINVAL, "%s: there is no run %" PRId64, plb_store_path(store),
                             now->resume));
    status = check_run(row, now, call, arena);
out:
    plb_store_close(store);
    plb_arena_free(arena);
    return status;
}
