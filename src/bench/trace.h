// SPDX-License-Identifier: Apache-2.0
// Where a stack that was not equal begins to differ: the first layer, in the order in which it ran.
#ifndef PLB_BENCH_TRACE_H
#define PLB_BENCH_TRACE_H

#include "bench/proof.h"

// Both workers are loaded by `load`. Appends the first layer that differs to the proof's reason, or
// that all that were handed out agree. Does nothing where the stack hands out no layers. Only the
// reason changes: what fails in here, fails in the clients alone.
PLB_API PLB_MUST_USE plb_status plb_trace_run(plb_client *client, plb_client *reference,
                                              const plb_load *load, plb_proof *proof);

#endif
