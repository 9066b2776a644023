// SPDX-License-Identifier: Apache-2.0
// The proof of equal work alone.
#include <stddef.h>

#include "base/core/status.h"
#include "cli/bench_flags.h"
#include "cli/bench_report.h"
#include "cli/cli.h"

static const plb_flag flags[] = {PLB_BENCH_CASE_FLAGS};

static plb_status run_verify(plb_call *call) {
    const plb_bench_flags *f = call->options;
    plb_bench_options options;
    plb_bench *bench = NULL;
    plb_arena *arena = plb_arena_new();
    plb_status status;
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    plb_cli_catch_interrupt();
    PLB_TRY_OUT(plb_bench_flags_read(f, call, arena, &options));
    options.tell = plb_bench_show, options.verify = true;
    PLB_TRY_OUT(plb_bench_new(&options, &bench));
    plb_bench_print_plan(bench, &options);
    status = plb_bench_run(bench);
    plb_bench_clear_shown();
    if (status) goto out;
    if (call->json)
        PLB_TRY_OUT(plb_bench_print_json(bench, "verify", NULL));
    else
        plb_bench_print_tables(bench, true);
    call->exit_code = plb_bench_exit_code(bench);
out:
    plb_bench_free(bench);
    plb_arena_free(arena);
    return status;
}

const plb_command plb_cmd_verify = {
    .name = "verify",
    .summary = "prove that stacks compute the same",
    .operands = "MODEL|F.onnx...",
    .description =
        "Gives every stack the same weights and batches and compares what it computes with a\n"
        "reference in f64: outputs; in training also losses, every gradient, the weights after\n"
        "two steps and running statistics. Where one differs, the first tensor that does is\n"
        "named, with the difference and what is allowed. Nothing is timed.\n\n"
        "Exit status: 6 if a worker broke, 1 if a stack is not equal, 5 if none was proven.",
    .min_operands = 1,
    .max_operands = -1,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(plb_bench_flags),
    .completes = "",
    .run = run_verify,
};
