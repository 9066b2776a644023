// SPDX-License-Identifier: Apache-2.0
// Our own stacks as a worker process: stacks/protocol.md in, the engine out. `plumb worker NAME`
// runs it; the descriptors that the protocol names are inherited.
#ifndef PLB_WORKER_WORKER_H
#define PLB_WORKER_WORKER_H

#include "plumb/status.h"

// Serves until the caller says bye or closes. `stack`: plumb-plan, plumb-interp, plumb-replay or
// plumb-ref.
// PLB_EINVAL: no such stack, or no descriptors as the protocol wants them.
PLB_API PLB_MUST_USE plb_status plb_worker_serve(const char *stack);

#endif
