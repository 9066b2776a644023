// SPDX-License-Identifier: Apache-2.0
// How `plumb bench` and `plumb verify` tell what they found.
#ifndef PLB_CLI_BENCH_REPORT_H
#define PLB_CLI_BENCH_REPORT_H

#include "bench/bench.h"
#include "cli/cli.h"

// A callback of plb_bench_options: a line that is written over on a terminal, else one line a case,
// on standard error.
void plb_bench_show(void *context, const plb_bench_event *event);
void plb_bench_clear_shown(void);

// Before it runs: the matrix in one line, with an estimate.
void plb_bench_print_plan(const plb_bench *bench, const plb_bench_options *options);
// One table a model; `verify`: of proofs alone.
void plb_bench_print_tables(const plb_bench *bench, bool verify);
PLB_MUST_USE plb_status plb_bench_print_json(const plb_bench *bench, const char *document,
                                             const char *label);
// Of all outcomes: broken, not equal, nothing measured, fine.
int plb_bench_exit_code(const plb_bench *bench);

#endif
