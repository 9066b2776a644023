// SPDX-License-Identifier: Apache-2.0
// Flags that `bench` and `verify` share, and what they become.
#ifndef PLB_CLI_BENCH_FLAGS_H
#define PLB_CLI_BENCH_FLAGS_H

#include "base/core/arena.h"
#include "bench/bench.h"
#include "cli/cli.h"

typedef struct plb_bench_flags {
    const char *task, *stack, *device, *batch, *size, *dtype, *math, *autocast, *region, *threads;
    const char *set, *dim, *db, *label, *memory_limit;
    int64_t starts, resume;
    double time, precision, timeout, proof_time;
    bool no_lock, profile, plot;
} plb_bench_flags;

#define PLB_BENCH_FLAG(flag, what, field) \
    .name = flag, .kind = PLB_FLAG_##what, .offset = offsetof(plb_bench_flags, field)
// Rows of a table of flags, for both commands.
#define PLB_BENCH_CASE_FLAGS                                                                \
    {PLB_BENCH_FLAG("task", STRING, task), .value = "LIST", .fallback = "infer",            \
     .help = "infer, train"},                                                               \
        {PLB_BENCH_FLAG("stack", STRING, stack), .value = "LIST", .fallback = "all",        \
         .help = "stacks by name; `plumb stacks list` names them"},                         \
        {PLB_BENCH_FLAG("device", STRING, device), .value = "LIST", .fallback = "cpu",      \
         .help = "cpu, cuda, cuda:N"},                                                      \
        {PLB_BENCH_FLAG("batch", STRING, batch), .value = "LIST",                           \
         .help = "samples of an iteration; default: the model's; auto: each stack's best"}, \
        {PLB_BENCH_FLAG("size", STRING, size), .value = "LIST",                             \
         .help = "height and width of the input; default: the model's"},                    \
        {PLB_BENCH_FLAG("dtype", STRING, dtype), .value = "LIST", .fallback = "f32",        \
         .help = "f32, bf16, f16: of weights, inputs, activations"},                        \
        {PLB_BENCH_FLAG("math", STRING, math), .value = "LIST", .fallback = "f32",          \
         .help = "f32, tf32: how products of f32 are computed"},                            \
        {PLB_BENCH_FLAG("autocast", STRING, autocast), .value = "LIST", .fallback = "none", \
         .help = "none, bf16, f16: mixed precision"},                                       \
        {PLB_BENCH_FLAG("threads", STRING, threads), .value = "LIST",                       \
         .help = "default: as many as this process may use"},                               \
        {PLB_BENCH_FLAG("dim", STRING, dim), .value = "NAME=N,...",                         \
         .help = "of an ONNX file: numbers for extents that it names; default 1"},          \
        {PLB_BENCH_FLAG("set", STRING, set), .value = "LIST",                               \
         .help = "settings of stacks: STACK.key=value,..."},                                \
        {PLB_BENCH_FLAG("timeout", DOUBLE, timeout),                                        \
         .value = "S",                                                                      \
         .low = 0.1,                                                                        \
         .high = 1e6,                                                                       \
         .fallback = "900",                                                                 \
         .help = "limit of loading, of the first call, of the proof"},                      \
        {PLB_BENCH_FLAG("memory-limit", STRING, memory_limit), .value = "SIZE",             \
         .help = "of a worker with its children: 4G, 800M; default: 9/10 of what is free"}, \
        {PLB_BENCH_FLAG("proof-time", DOUBLE, proof_time),                                  \
         .value = "S",                                                                      \
         .low = 0.1,                                                                        \
         .high = 1e6,                                                                       \
         .fallback = "60",                                                                  \
         .help = "a reference that takes longer is made smaller"},                          \
    {                                                                                       \
        PLB_BENCH_FLAG("no-lock", SWITCH, no_lock),                                         \
            .help = "measure though another plumb measures"                                 \
    }

// Strings are the arena's and argv's. PLB_EINVAL for lists and sizes that make no sense.
PLB_MUST_USE plb_status plb_bench_flags_read(const plb_bench_flags *flags, const plb_call *call,
                                             plb_arena *arena, plb_bench_options *out);

// The path of this program.
PLB_MUST_USE plb_status plb_own_path(plb_arena *arena, const char **out);

// Waits until no other plumb measures on this machine, and keeps others waiting until this process
// ends, however it ends: the lock is a name in the kernel, not a file. PLB_ECANCELLED.
PLB_MUST_USE plb_status plb_measure_lock(void);

#endif
