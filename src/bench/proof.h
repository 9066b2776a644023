// SPDX-License-Identifier: Apache-2.0
// Whether a loaded worker computes what the reference computes. An answer of "no" is not a failure
// of these calls: it is in the proof.
#ifndef PLB_BENCH_PROOF_H
#define PLB_BENCH_PROOF_H

#include "bench/reference.h"
#include "bench/tolerance.h"

typedef struct plb_proof_worst {
    double error, limit;
    char name[160];
} plb_proof_worst;

typedef struct plb_proof {
    bool done, equal;
    double max_rel_error; // of all that was compared
    double worst;         // error over tolerance of the worst: at most 1 when equal
    char worst_name[160]; // which that is
    char first_name[160]; // the first that differs; "" when equal
    plb_proof_worst kind[PLB_RESULT_KINDS];   // the worst of each; of training, of the first step
    plb_proof_worst later_output, later_loss; // of later steps
    plb_proof_worst size;                     // of gradients and changes: reference over found
    plb_proof_worst step;                     // how far the optimizer went
    char first_layer[160];          // the first layer that differs, where the stack told; ""
    char reason[800];               // why not equal; ""
    int compared[PLB_RESULT_KINDS]; // how many of each kind
    bool random;                    // that dropout draws new numbers was seen
    int64_t timed_checks;           // outputs of timed iterations that were compared
    int64_t rows;                   // of the batch that were compared; 0: all
} plb_proof;

// Proves. The worker was loaded by `load`, without dropout in training.
PLB_API PLB_MUST_USE plb_status plb_proof_run(plb_client *client, const plb_load *load,
                                              const plb_reference *reference, plb_proof *out);
// Training with dropout on: two proofs from the same weights must differ.
PLB_API PLB_MUST_USE plb_status plb_proof_randomness(plb_client *client, const plb_load *load,
                                                     plb_proof *out);
// The results of a checked iteration of a timed block. `arrangement`: what the slots held.
// `step`: iterations since the file's weights (training). `exact`: whether the reference knows.
PLB_API void plb_proof_check_block(const plb_load *load, const plb_reference *reference,
                                   const plb_block *block, int arrangement, int64_t step,
                                   bool exact, plb_proof *out);
// Training: every parameter that the reference moves has moved after what was timed.
PLB_API PLB_MUST_USE plb_status plb_proof_moved(plb_client *client, const plb_load *load,
                                                const plb_reference *reference, plb_proof *out);
// Marks a proof as failed for a reason found elsewhere; keeps the first.
PLB_API void plb_proof_fail(plb_proof *proof, const char *format, ...) PLB_PRINTF(2);

// {"equal":…,"max_rel_error":…,"checked":[…],…} or NULL when out of memory.
PLB_API json_t *plb_proof_json(const plb_proof *proof);

#endif
