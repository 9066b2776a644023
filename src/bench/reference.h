// SPDX-License-Identifier: Apache-2.0
// The right answers, in f64, from plumb-ref; kept on disk by graph, weights and input, so that the
// same question costs once.
#ifndef PLB_BENCH_REFERENCE_H
#define PLB_BENCH_REFERENCE_H

#include "base/core/arena.h"
#include "bench/load.h"

enum { PLB_REFERENCE_STEPS = 4 };

typedef struct plb_reference_entry {
    const char *name; // as in the protocol's proof
    int64_t batch;
    plb_shape shape;
    const double *value;
    double moved; // by rounding (bench/rounding.h), as plb_result_distance has it; NAN: unknown
} plb_reference_entry;

typedef struct plb_reference {
    plb_arena *arena;
    // Inference: logits of the first known rows of every batch of the pool,
    // output[n_sources][known][classes]. Of a file a row is all of its outputs, one after another.
    int64_t known, classes;
    const double *output;
    double output_moved; // as an entry's
    int64_t n_sources;   // batches of the pool
    // Training: one proof over batches 0 and 1; the loss of the first step on each batch of the
    // pool; losses of steps that rotate batches 0 and 1.
    plb_reference_entry *entry;
    int count;
    double rate;                 // of the optimizer that these hold for
    const double *first_loss;    // [n_sources]
    const double *sequence_loss; // [PLB_REFERENCE_STEPS]
} plb_reference;

// `client` is a started plumb-ref. `budget_s`: how long computing may take; of inference fewer rows
// are computed then (at least one batch of 8). Freed by plb_reference_free.
PLB_API PLB_MUST_USE plb_status plb_reference_get(plb_client *client, const plb_load *load,
                                                  const char *cache, double budget_s,
                                                  plb_reference *out);
PLB_API void plb_reference_free(plb_reference *reference); // back to {0}
// The results alone, computed: outputs, or one proof of two steps with the rate of the load.
PLB_API PLB_MUST_USE plb_status plb_reference_compute(plb_client *client, const plb_load *load,
                                                      double budget_s, plb_reference *out);
// Where the cache keeps it; of a case in coarse numbers how far they move results.
PLB_API PLB_MUST_USE plb_status plb_reference_path(const plb_load *load, const char *cache,
                                                   char *path, size_t size);
// Logits [classes] of a row of the pool, or NULL where they are not known.
PLB_API const double *plb_reference_row(const plb_reference *reference, int64_t batch, int64_t row);

// The rate of a proof's optimizer, from the first step's loss and gradients among the entries:
// PLB_BENCH_LR, halved until the step changes the loss to first order by no more than
// PLB_REFERENCE_SHARE of it: rate · Σ gradient² ≤ share · loss. Two steps of a larger one are
// chaotic in models that normalise few values: they amplify rounding beyond any tolerance.
#define PLB_REFERENCE_SHARE 0.01
PLB_API double plb_reference_rate(const plb_reference *reference);

// Whether the proof of a training step in f64 fits the budget, by its arithmetic.
PLB_API bool plb_reference_affords(const plb_facts *facts, double budget_s);

#endif
