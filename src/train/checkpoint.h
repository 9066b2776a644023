// SPDX-License-Identifier: Apache-2.0
// A training run at rest: one safetensors file with every variable (parameters, buffers, optimizer,
// state) under its name, and as metadata the options, the position in the data, the sums of the
// epoch that was begun, the epochs that ended, and the kernels in use. Written whole or not at all,
// so a run that is killed finds its last checkpoint.
//
// Usual order: open → options → check → (programs are built, the model is initialised) → load →
// progress, choices → free.
#ifndef PLB_TRAIN_CHECKPOINT_H
#define PLB_TRAIN_CHECKPOINT_H

#include "train/metrics.h"
#include "train/options.h"

// How far a run has come.
typedef struct plb_train_progress {
    int64_t step;              // done in all
    int64_t epoch, number;     // the next batch, both from 0; number may be an epoch's count
    plb_metrics metrics;       // of the epoch that was begun
    int64_t train_ns, wait_ns; // of that epoch
    plb_train_epoch *history;  // [epoch]: those that ended
    int n_history, capacity;
} plb_train_progress;

PLB_API void plb_train_progress_free(plb_train_progress *progress); // back to {0}
// Appends to the history.
PLB_API PLB_MUST_USE plb_status plb_train_progress_push(plb_train_progress *progress,
                                                        const plb_train_epoch *epoch);

// Errors as plb_safetensors_write.
PLB_API PLB_MUST_USE plb_status plb_checkpoint_write(const char *path, plb_model *model,
                                                     const plb_train_options *options,
                                                     const plb_train_progress *progress,
                                                     const char *choices);

typedef struct plb_checkpoint plb_checkpoint;

// PLB_EINVAL for a file that is no checkpoint; further errors as plb_safetensors_open.
PLB_API PLB_MUST_USE plb_status plb_checkpoint_open(const char *path, plb_checkpoint **out);
PLB_API void plb_checkpoint_free(plb_checkpoint *checkpoint);

// Sets the options that checkpoints keep; strings are borrowed from the checkpoint.
PLB_API PLB_MUST_USE plb_status plb_checkpoint_options(const plb_checkpoint *checkpoint,
                                                       plb_train_options *out);
// PLB_EINVAL names the first option that the run began with and `options` has otherwise.
PLB_API PLB_MUST_USE plb_status plb_checkpoint_check(const plb_checkpoint *checkpoint,
                                                     const plb_train_options *options);
// `out` is yours to free.
PLB_API PLB_MUST_USE plb_status plb_checkpoint_progress(const plb_checkpoint *checkpoint,
                                                        plb_train_progress *out);
// For plb_plan_options; borrowed.
PLB_API const char *plb_checkpoint_choices(const plb_checkpoint *checkpoint);
// Fills every variable. PLB_EINVAL, with no variable touched, unless the file and the model hold
// the same names, shapes and dtypes.
PLB_API PLB_MUST_USE plb_status plb_checkpoint_load(const plb_checkpoint *checkpoint,
                                                    plb_model *model);

#endif
