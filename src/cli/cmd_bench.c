// SPDX-License-Identifier: Apache-2.0
// One model at every level: proof of equal work, then times.
#include <stddef.h>

#include "cli/bench_command.h"
#include "cli/bench_flags.h"
#include "cli/cli.h"

static const plb_flag flags[] = {
    PLB_BENCH_CASE_FLAGS,
    {PLB_BENCH_FLAG("region", STRING, region), .value = "LIST", .fallback = "latency",
     .help = "what a time covers: latency, queued, host, return"},
    {PLB_BENCH_FLAG("starts", INT, starts), .value = "N", .min = 1, .max = 1000, .fallback = "3",
     .help = "processes that run each case"},
    {PLB_BENCH_FLAG("time", DOUBLE, time), .value = "S", .low = 0.01, .high = 1e6, .fallback = "3",
     .help = "seconds of samples of a case, over all its starts"},
    {PLB_BENCH_FLAG("precision", DOUBLE, precision), .value = "PCT", .low = 0.01, .high = 50,
     .fallback = "1", .help = "half-width of the median's interval to stop at, in %"},
    {PLB_BENCH_FLAG("profile", SWITCH, profile),
     .help = "one more start of each case, under the probe of `plumb profile`"},
    {PLB_BENCH_FLAG("plot", SWITCH, plot),
     .help = "print the run's report, with figures as plots, in place of tables"},
    {PLB_BENCH_FLAG("db", FILE, db), .value = "F",
     .help = "the store; default: $XDG_DATA_HOME/plumb/plumb.db"},
    {PLB_BENCH_FLAG("label", STRING, label), .value = "TEXT", .help = "a name for this run"},
    {PLB_BENCH_FLAG("resume", INT, resume), .value = "RUN", .min = 1, .max = INT64_MAX,
     .help = "finish an interrupted run, with the flags it began with"},
};

static plb_status run_bench(plb_call *call) {
    return plb_bench_command(call, false);
}

const plb_command plb_cmd_bench = {
    .name = "bench",
    .summary = "time models at every level, with proof of equal work",
    .operands = "MODEL|F.onnx...",
    .description =
        "Runs every case of the matrix that the lists span: one worker process a stack, given\n"
        "the same weights and batches, proven against a reference in f64, then timed. Cases\n"
        "that differ only in the stack are timed in turns. All samples go to the store.\n\n"
        "An ONNX file brings its own weights; its inputs are drawn by their types, and --dim\n"
        "gives numbers to extents that it leaves open, and to integer inputs of one element.\n\n"
        "A case can also end as INVALID (it did other work than asked), refused, oom, timeout,\n"
        "crash or protocol; then its reason stands where the time would. docs/measuring.md\n"
        "explains the rules, stacks/protocol.md how to add a stack.\n\n"
        "Exit status: 6 if a worker broke, 1 if a case is INVALID, 5 if nothing was measured.",
    .min_operands = 1,
    .max_operands = -1,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(plb_bench_flags),
    .completes = "",
    .run = run_bench,
};
