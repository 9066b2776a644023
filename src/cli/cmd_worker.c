// SPDX-License-Identifier: Apache-2.0
// Our own stacks as worker processes. Started by `plumb bench`, never by a person.
#include "cli/cli.h"
#include "worker/worker.h"

static plb_status run_worker(plb_call *call) {
    return plb_worker_serve(call->operands[0]);
}

const plb_command plb_cmd_worker = {
    .name = "worker",
    .summary = "run a stack of Plumb's own engine for `plumb bench`",
    .operands = "STACK",
    .description = "Speaks the protocol of stacks/protocol.md on the descriptors that\n"
                   "$PLUMB_FD, $PLUMB_IN_FD and $PLUMB_OUT_FD name.",
    .min_operands = 1,
    .max_operands = 1,
    .hidden = true,
    .plain = true,
    .completes = "",
    .run = run_worker,
};
