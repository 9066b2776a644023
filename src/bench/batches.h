// SPDX-License-Identifier: Apache-2.0
// The batches that all stacks of a comparison get. They are drawn from a pool of rows whose right
// answers the reference computes once. A batch never seen before is then free: in inference any
// choice of rows has known answers, in training any order of a batch's rows has the same loss. That
// is how a stack that remembers answers is told from one that computes.
//
// Slot: a place in shared memory that holds one batch. Slots 0 and 1 rotate while timed; the others
// serve checks. Arrangement 0 is what slots hold at first, the others hold new batches.
#ifndef PLB_BENCH_BATCHES_H
#define PLB_BENCH_BATCHES_H

#include "bench/facts.h"

enum { PLB_BATCHES_MAX_SLOTS = 16, PLB_BATCHES_MAX_ARRANGEMENTS = 4 };

typedef struct plb_batches {
    int64_t batch, rows;       // rows of the pool: a multiple of batch
    int n_slots, arrangements; // arrangements: how many there are, at least 2
    bool training;
    int n_inputs;
    size_t row_bytes[PLB_FACTS_MAX_INPUTS];
    uint8_t *pool[PLB_FACTS_MAX_INPUTS]; // [rows][row_bytes]
    char digest[24];                     // of the pool, 16 hexadecimal digits
} plb_batches;

// Draws the pool from a fixed seed: x normal (mean 0, deviation 1), y uniform over the classes; of
// a file, floats normal and integers uniform in their range.
PLB_API PLB_MUST_USE plb_status plb_batches_new(const plb_facts *facts, plb_batches *out);
PLB_API void plb_batches_free(plb_batches *batches); // back to {0}

// Row of the pool that stands in row `row` of a slot.
PLB_API int64_t plb_batches_row(const plb_batches *batches, int slot, int arrangement, int64_t row);
// The batch of the pool (rows / batch there are) whose rows a slot holds, in some order.
PLB_API int64_t plb_batches_source(const plb_batches *batches, int slot, int arrangement);

// Bytes of one slot of all inputs, and where input i of a slot lies.
PLB_API size_t plb_batches_bytes(const plb_batches *batches);
PLB_API size_t plb_batches_offset(const plb_batches *batches, int slot, int input);
// Fills a slot of the client's shared memory, which is as long as all slots need afterwards.
PLB_API PLB_MUST_USE plb_status plb_batches_fill(const plb_batches *batches, plb_client *client,
                                                 int slot, int arrangement);
// The member "inputs" of a `load` request, with `batch` rows; NULL when out of memory.
PLB_API json_t *plb_batches_describe(const plb_batches *batches, const plb_facts *facts);

#endif
