// SPDX-License-Identifier: Apache-2.0
// Keeping a device busy: several runs of a plan in flight, each with inputs and results of its own
// on the host. While the device computes one, another's inputs are filled and copied by a stream
// beside it. Order for each slot: fill inputs, launch, wait, read results, and again. Inputs that
// were sent once serve any number of runs.
#ifndef PLB_ENGINE_GRAPH_SLOTS_H
#define PLB_ENGINE_GRAPH_SLOTS_H

#include "plumb/plan.h"

enum { PLB_SLOTS = 2 };        // that training takes turns with
enum { PLB_SLOT_RESULTS = 4 }; // at most

typedef struct plb_slots plb_slots;

// `results` names outputs of one number each. Borrows the plan. A plan on the CPU, or at level
// interp, has none: *out is NULL and the status PLB_OK.
PLB_API PLB_MUST_USE plb_status plb_slots_new(plb_plan *plan, int n_slots,
                                              const char *const *results, int n_results,
                                              plb_slots **out);
PLB_API void plb_slots_free(plb_slots *slots); // waits for what is in flight
// The slot's buffer of an input.
PLB_API PLB_MUST_USE plb_status plb_slots_input(plb_slots *slots, int slot, const char *name,
                                                plb_tensor *out);
// Queues the copy of its inputs to the device, and returns at once.
PLB_API PLB_MUST_USE plb_status plb_slots_send(plb_slots *slots, int slot);
// Until all that was sent is there.
PLB_API PLB_MUST_USE plb_status plb_slots_arrived(plb_slots *slots);
// Queues a run on what was sent, and the copy of its results, and returns at once.
PLB_API PLB_MUST_USE plb_status plb_slots_run(plb_slots *slots, int slot);
// Sends, and runs.
PLB_API PLB_MUST_USE plb_status plb_slots_launch(plb_slots *slots, int slot);
// Until the slot's run is over; out[k] is result k.
PLB_API PLB_MUST_USE plb_status plb_slots_wait(plb_slots *slots, int slot, double *out);

#endif
