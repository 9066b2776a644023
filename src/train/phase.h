// SPDX-License-Identifier: Apache-2.0
// One pass over a dataset, to train or to evaluate: a loader, a plan for whole batches and one for
// the last batch, where that is not full.
#ifndef PLB_TRAIN_PHASE_H
#define PLB_TRAIN_PHASE_H

#include "data/loader.h"
#include "plumb/plan.h"

typedef struct plb_batch_plan {
    plb_plan *plan; // NULL: no batch has this size
    float *x;       // its inputs
    int64_t *y;
} plb_batch_plan;

typedef struct plb_phase {
    plb_loader *loader;
    int64_t samples, batches, batch; // of an epoch; of a whole batch
    plb_batch_plan whole, last;
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
// Runs the loader's next batch, which is `number` of its epoch.
PLB_MUST_USE plb_status plb_phase_step(plb_phase *phase, int64_t number, int64_t *out_size,
                                       double *out_loss, double *out_correct);
void plb_phase_free(plb_phase *phase);

#endif
