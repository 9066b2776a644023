// SPDX-License-Identifier: Apache-2.0
// Completes a training program: gradients, optimizer steps, assigns. All of a step is graph, so
// that it is planned, priced and replayed as one.
#ifndef PLUMB_STEP_H
#define PLUMB_STEP_H

#include "plumb/ops.h"

typedef enum plb_optimizer {
    PLB_OPTIMIZER_SGD,
    PLB_OPTIMIZER_ADAM, // with adam.decoupled: AdamW
} plb_optimizer;

typedef struct plb_step_options {
    plb_optimizer optimizer;
    double lr; // first value of the variable "lr"
    plb_sgd_attrs sgd;
    plb_adam_attrs adam;
    bool output_gradients; // also outputs "grad.<parameter>", for proofs
    // Loss scaling, without which gradients in f16 vanish below 6e-8: the loss is multiplied by the
    // variable "loss_scale", whose first value this is, and gradients are divided by it. A step in
    // which some gradient is not finite is left out and halves the scale; `scale_growth` steps
    // without one (0: 2000) double it. 0: none.
    double loss_scale;
    int64_t scale_growth;
    // Programs of a model share what a step declares, as one for whole batches and one for the last
    // of an epoch do. Programs that learn apart, each at its own rate, have a prefix each: their
    // variables are "<prefix>.lr" and so on. NULL: none.
    const char *prefix;
    // Trains the parameters of this scope ("generator": those called "generator.…") and no others,
    // as the loss of a generator goes through the discriminator. NULL: all.
    const char *scope;
} plb_step_options;

// PyTorch's defaults of the optimizer called "sgd", "adam" or "adamw"; the learning rate of sgd is
// 0.01. PLB_EINVAL with the nearest name for any other.
PLB_API PLB_MUST_USE plb_status plb_step_options_for(const char *optimizer, plb_step_options *out);

// Differentiates the scalar `loss` with respect to every PLB_ROLE_PARAMETER variable (of
// options.scope) that the graph reads, and assigns the optimizer's results in the order of
// declaration. Parameters that the loss does not depend on stay as they are. Variables: "lr" and
// "step" (PLB_ROLE_STATE, f32 scalars; step counts the runs, from 1 in the first, but for those
// that loss scaling leaves out), with loss scaling "loss_scale" and "loss_scale.steps" (since it
// last changed), and per parameter "sgd.momentum.<parameter>", or "adam.mean.<parameter>" and
// "adam.square.<parameter>" (PLB_ROLE_OPTIMIZER). PLB_EINVAL: no parameter is read; a name is
// longer than 511 bytes; or another program of the model has such a variable, which begins with
// another value there.
PLB_API PLB_MUST_USE plb_status plb_train_step(plb_graph *graph, plb_value loss,
                                               const plb_step_options *options);

#endif
