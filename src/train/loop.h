// SPDX-License-Identifier: Apache-2.0
// Training: programs for whole batches and for the last one of an epoch, which is not full, to
// train and to evaluate; all share the model's variables. After the first step of each program
// nothing here allocates, but where a checkpoint is written or an epoch ends.
//
// What is computed depends on the options alone, kernels included: a run that was stopped at any
// step and resumed from its checkpoint ends with the same bits as one that was not.
#ifndef PLB_TRAIN_LOOP_H
#define PLB_TRAIN_LOOP_H

#include "data/dataset.h"
#include "train/checkpoint.h"

// What is trained, and on what. Builders as plb_zoo_build_train and plb_zoo_build_eval: inputs
// x[batch,C,H,W] and y i64[batch]; outputs "loss" (train: mean of the batch; eval: sum) and
// "correct" (a count).
typedef struct plb_train_task {
    void *context; // for the builders
    plb_status (*build_train)(void *context, plb_model *model, const char *program, int64_t batch,
                              plb_graph **out_graph, plb_value *out_loss);
    plb_status (*build_eval)(void *context, plb_model *model, const char *program, int64_t batch);
    const plb_dataset *train_set, *test_set; // borrowed
    bool pixels; // x is u8, pixels as stored, and the programs normalise them
} plb_train_task;

typedef struct plb_train_event {
    int64_t epoch, epochs; // from 1, of so many
    int64_t done, total;   // samples of the epoch, or of the test set
    bool evaluating;       //
    double loss, accuracy; // means so far
    int64_t train_ns;      // so far, of the epoch
} plb_train_event;

typedef struct plb_train_callbacks {
    void *context;
    bool (*stop)(void *context); // asked before every step; true ends the run there. May be NULL
    void (*batch)(void *context, const plb_train_event *event); // after every batch. May be NULL
    void (*epoch)(void *context, const plb_train_epoch *epoch); // when one has ended. May be NULL
} plb_train_callbacks;

// One op of the training programs, summed over those of the same name.
typedef struct plb_train_op {
    const char *name; // "layer1.0.conv1 conv_weight_grad (backward)"
    int64_t calls, time_ns;
    double flops, bytes; // of all calls
} plb_train_op;

typedef struct plb_train_result {
    const plb_train_epoch *epochs; // those of before a resumption too; the last may be a part
    int n_epochs;
    int64_t steps;           // done in all, those of before a resumption too
    bool stopped;            // by the callback
    plb_status unwritten;    // why the last checkpoint could not be written; PLB_OK: it could
    const char *why;         // the text of that
    int64_t parameters;      // trained elements
    plb_plan_bytes planned;  // of all programs together, variables counted once
    const plb_train_op *ops; // longest time first; none at level replay
    int n_ops;
    plb_arena *arena; // what the pointers point into
} plb_train_result;

// Trains `model`, which is new or freshly built by nobody else. `resume` may be NULL. Errors: those
// of plans, data and the checkpoint resumed; PLB_EINVAL for options that fit nothing, as fewer
// steps or epochs than were done before. A NaN loss is warned of, once, and so is a checkpoint that
// cannot be written: the next one is tried, and the result tells of the last. `out` is yours to
// free; the model holds the weights.
PLB_API PLB_MUST_USE plb_status plb_train_run(plb_model *model, const plb_train_task *task,
                                              const plb_train_options *options,
                                              const plb_checkpoint *resume,
                                              const plb_train_callbacks *callbacks,
                                              plb_train_result *out);
PLB_API void plb_train_result_free(plb_train_result *result); // back to {0}

#endif
