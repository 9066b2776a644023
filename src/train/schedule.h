// SPDX-License-Identifier: Apache-2.0
// How the learning rate goes over the epochs, as PyTorch's schedulers do when they are stepped once
// an epoch: the value depends on the epoch alone, so a resumed run needs to remember nothing.
#ifndef PLB_TRAIN_SCHEDULE_H
#define PLB_TRAIN_SCHEDULE_H

#include <stdint.h>

#include "plumb/status.h"

typedef enum plb_schedule_kind {
    PLB_SCHEDULE_CONSTANT,
    PLB_SCHEDULE_STEP,   // lr factor^floor(epoch / every), torch.optim.lr_scheduler.StepLR
    PLB_SCHEDULE_COSINE, // lr (1 + cos(pi epoch / epochs)) / 2, CosineAnnealingLR down to 0
} plb_schedule_kind;

typedef struct plb_schedule {
    plb_schedule_kind kind;
    double lr;      // of epoch 0
    int64_t epochs; // of the whole run, at least 1
    int64_t every;  // STEP: epochs between two steps, at least 1
    double factor;  // STEP
} plb_schedule;

// The schedule called "constant", "step" (a tenth after each third of the epochs) or "cosine".
// PLB_EINVAL with the nearest name for any other.
PLB_API PLB_MUST_USE plb_status plb_schedule_for(const char *name, double lr, int64_t epochs,
                                                 plb_schedule *out);

// The learning rate of epoch 0, 1, …
PLB_API double plb_schedule_lr(const plb_schedule *schedule, int64_t epoch);

#endif
