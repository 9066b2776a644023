// SPDX-License-Identifier: Apache-2.0
// The proof of equal work alone.
#include <stddef.h>

#include "cli/bench_command.h"
#include "cli/bench_flags.h"
#include "cli/cli.h"

static const plb_flag flags[] = {PLB_BENCH_CASE_FLAGS};

static plb_status run_verify(plb_call *call) {
    return plb_bench_command(call, true);
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
