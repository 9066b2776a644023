// SPDX-License-Identifier: Apache-2.0
// One pass over a dataset, to train or to evaluate: a loader, a plan for whole batches and one for
// the last batch, where that is not full.
#ifndef PLB_TRAIN_PHASE_H
#define PLB_TRAIN_PHASE_H

#include "data/loader.h"
#include "engine/graph/slots.h"
#include "plumb/plan.h"

typedef struct plb_batch_plan {
    plb_plan *plan;        // NULL: no batch has this size
    void *x[PLB_SLOTS];    // its inputs
    int64_t *y[PLB_SLOTS]; //
    plb_slots *slots;      // on a device; NULL: a step is over when plb_phase_step returns
} plb_batch_plan;

// What became of a batch.
typedef struct plb_phase_result {
    int64_t size; // samples; 0: there is none
    double loss, correct;
} plb_phase_result;

typedef struct plb_phase {
    plb_loader *loader;
    int64_t samples, batches, batch; // of an epoch; of a whole batch
    plb_batch_plan whole, last;
    // The step that a device still works on.
    plb_batch_plan *pending; // NULL: none
    int pending_slot;
    int64_t pending_size;
} plb_phase;

// Sizes of the batches that there are: 0 where none has that size.
static inline int64_t plb_phase_whole(const plb_phase *phase) {
    return phase->samples >= phase->batch ? phase->batch : 0;
}
static inline int64_t plb_phase_last(const plb_phase *phase) {
    return phase->samples % phase->batch;
}

// The loader; fills the extents.
PLB_MUST_USE plb_status plb_phase_open(plb_phase *phase, const plb_dataset *set,
                                       const plb_loader_options *options);
// Makes the plans of the programs of these names, which were built for the sizes above.
PLB_MUST_USE plb_status plb_phase_plan(plb_phase *phase, const plb_model *model, const char *whole,
                                       const char *last, const plb_plan_options *options);
// Runs the loader's next batch, which is `number` of its epoch. On a device the result is that of
// the batch before, which the device worked on meanwhile: after the first batch there is none yet.
PLB_MUST_USE plb_status plb_phase_step(plb_phase *phase, int64_t number, plb_phase_result *out);
// The result that is still to come, if any. After it, nothing of the phase is in flight.
PLB_MUST_USE plb_status plb_phase_finish(plb_phase *phase, plb_phase_result *out);
void plb_phase_free(plb_phase *phase);

#endif
