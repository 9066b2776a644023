// SPDX-License-Identifier: Apache-2.0
// The requests of a case, as bench makes them.
#ifndef PLB_BENCH_LOAD_H
#define PLB_BENCH_LOAD_H

#include "bench/batches.h"
#include "bench/case.h"

// The optimizer of every training case: large enough a step to be seen in f32, small enough that
// six steps stay near the reference. Where a step of that rate would be too large for it, the
// reference halves the rate (bench/reference.h) and all stacks get the smaller one.
#define PLB_BENCH_LR       0.001
#define PLB_BENCH_MOMENTUM 0.9

typedef struct plb_load {
    const plb_case *c;
    const plb_facts *facts;
    const plb_batches *batches;
    const char *weights;
    bool dropout; // as the model has it; else p = 0
    double rate;  // of the optimizer; 0: PLB_BENCH_LR
    double limit_s;
} plb_load;

// What load said of itself; -1 is unknown.
typedef struct plb_loaded {
    int64_t load_ns, compile_ns;
} plb_loaded;

// Checks the case against the stack's capabilities alone: a refusal, or PLB_OK.
PLB_API PLB_MUST_USE plb_status plb_load_check(plb_client *client, const plb_load *load);
// Checks the case against the stack's capabilities (a refusal), fills all slots and loads.
PLB_API PLB_MUST_USE plb_status plb_load_send(plb_client *client, const plb_load *load,
                                              plb_loaded *out);

typedef struct plb_block_request {
    int64_t n, check; // check -1: none
    const char *region;
    int first_slot, n_slots; // the batches that rotate
    bool restart;
    double limit_s;
} plb_block_request;

typedef struct plb_block {
    const int64_t *samples_ns; // in the client's outputs, until its next request
    int64_t count, iterations_per_sample;
    int64_t wall_ns;    // as seen from outside
    int64_t compile_ns; // -1: unknown
    int64_t recompiled;
    int checked_slot; // -1: nothing was checked
    int n_outputs;    // that came, from the first on
    bool has_loss;
    plb_tensor output[PLB_FACTS_MAX_OUTPUTS], loss;
} plb_block;

PLB_API PLB_MUST_USE plb_status plb_block_take(plb_client *client, const plb_block_request *request,
                                               plb_block *out);
// Has the slots taken in again.
PLB_API PLB_MUST_USE plb_status plb_load_batches(plb_client *client, int first_slot, int n_slots,
                                                 double limit_s);

#endif
