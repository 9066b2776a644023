// SPDX-License-Identifier: Apache-2.0
// Whether a worker's times can be believed: that they cover the work, all of it and nothing but it.
// Looked at from outside, by our clock and the kernel's counters:
//
// - What the worker's samples leave out of the wall time must not grow with the number of
//   iterations (but for region `return`, which is what leaves the wait out); nor may the processor
//   time that it burns after it answered.
// - Batches that it never saw must take as long as those that it has seen, and taking batches in
//   must not take as long as computing on them.
// - No more threads work at the same time than it was told to use.
// - What it reads back (`ran`) must be what was asked.
//
// What is wrong becomes the outcome INVALID of the client, with both numbers.
#ifndef PLB_BENCH_AUDIT_H
#define PLB_BENCH_AUDIT_H

#include "bench/proof.h"

typedef struct plb_audit {
    double unaccounted;   // share of the wall time an iteration that its samples leave out
    double after_ns;      // processor time an iteration after the answer
    double at_once;       // threads at work at the same time in a block, on average
    double processors;    // processor time over wall time in a block
    double seen_over_new; // time of batches seen before over that of new ones
} plb_audit;

// On a loaded worker that has been proven. `iteration_ns`: about how long one takes.
// `exact`: as of plb_proof_check_block.
PLB_API PLB_MUST_USE plb_status plb_audit_run(plb_client *client, const plb_load *load,
                                              const plb_reference *reference, bool exact,
                                              double iteration_ns, plb_proof *proof,
                                              plb_audit *out);
// Asks what really ran; *ran is yours to json_decref, also when it is not what was asked.
PLB_API PLB_MUST_USE plb_status plb_audit_ran(plb_client *client, const plb_case *c, json_t **ran);

#endif
