// SPDX-License-Identifier: Apache-2.0
// `plumb bench`, and `plumb verify`, which is its proof alone.
#ifndef PLB_CLI_BENCH_COMMAND_H
#define PLB_CLI_BENCH_COMMAND_H

#include "cli/bench_flags.h"
#include "cli/cli.h"
#include "cli/profile_show.h"

// The options of `call` are a plb_bench_flags.
PLB_MUST_USE plb_status plb_bench_command(plb_call *call, bool verify);

// `plumb profile MODEL --stack S`: proves the one case that `flags` describe, and shows the profile
// of a probed start. PLB_EINVAL when they describe more than one. The exit code is
// PLB_EXIT_BROKEN where there is no profile, and with `strict` where it is incomplete.
PLB_MUST_USE plb_status plb_bench_profile_case(plb_call *call, const plb_bench_flags *flags,
                                               const plb_profile_flags *show, bool strict);

#endif
