// SPDX-License-Identifier: Apache-2.0
// `plumb bench`, and `plumb verify`, which is its proof alone.
#ifndef PLB_CLI_BENCH_COMMAND_H
#define PLB_CLI_BENCH_COMMAND_H

#include "cli/cli.h"

// The options of `call` are a plb_bench_flags.
PLB_MUST_USE plb_status plb_bench_command(plb_call *call, bool verify);

#endif
