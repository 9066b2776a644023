// SPDX-License-Identifier: Apache-2.0
// Whether `plumb bench --resume RUN` asks for what the run began with. A run holds the cases of one
// command: under other flags it would get cases of another one, or the same ones measured unlike.
#ifndef PLB_CLI_BENCH_RESUME_H
#define PLB_CLI_BENCH_RESUME_H

#include "cli/bench_flags.h"

// Compares models and flags, but for those that change nothing of what is measured, with the
// command that the store has of run `now->resume`. PLB_EINVAL names the run, what it began with and
// what was found, or says that it is no run of `plumb bench`; PLB_EMISSING: there is no store.
PLB_MUST_USE plb_status plb_bench_check_resume(const plb_bench_flags *now, const plb_call *call);

#endif
