// SPDX-License-Identifier: Apache-2.0
// Two stored profiles beside each other: which kernels appeared, vanished, or changed in count,
// time, launch shape or class. No verdict: speeds belong to unprobed runs.
#ifndef PLB_CLI_PROFILE_COMPARE_H
#define PLB_CLI_PROFILE_COMPARE_H

#include "cli/cli.h"

// The call's two operands, each kept by `profile --save`. `margin`: relative change of a kernel's
// mean time that is told.
PLB_MUST_USE plb_status plb_profile_compare(const plb_call *call, double margin);

#endif
