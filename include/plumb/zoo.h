// SPDX-License-Identifier: Apache-2.0
// The models of Plumb. zoo.def lists them, one line each; an architecture family is one file with
// one function that appends the forward pass to a graph. Variables have the names, the order and
// the first values of the peer that a model is compared with (torchvision's state_dict), so that
// weights go from one to the other without a table of names.
//
// Usual order: plb_zoo_build_infer, or plb_zoo_build_train and plb_train_step (plumb/step.h);
// plb_weights_load (plumb/weights.h) where there are weights; plb_plan_new (plumb/plan.h).
#ifndef PLUMB_ZOO_H
#define PLUMB_ZOO_H

#include "plumb/ops.h"

typedef struct plb_zoo_info {
    const char *name;   // "resnet50"
    const char *task;   // "classification"
    const char *domain; // "vision"
    int64_t batch_infer, batch_train;
    int64_t channels, height, width; // of the input x[N,C,H,W]
    int64_t classes;
    const char *peer; // where the same model is found: "torchvision.models.resnet50"
} plb_zoo_info;

PLB_API int plb_zoo_count(void);
// Static; NULL when index is out of range.
PLB_API const plb_zoo_info *plb_zoo_at(int index);
// Static. PLB_EINVAL with the nearest name when there is none of that name.
PLB_API PLB_MUST_USE plb_status plb_zoo_find(const char *name, const plb_zoo_info **out);

// Whether the outputs are log-probabilities, for plb_nll, and not logits.
PLB_API bool plb_zoo_log_probabilities(const plb_zoo_info *info);

enum { PLB_ZOO_CHANNELS = 4 };

// Pixels as they are stored become x = (pixel / 255 - mean) / std, by channel.
typedef struct plb_zoo_pixels {
    float mean[PLB_ZOO_CHANNELS], std[PLB_ZOO_CHANNELS];
} plb_zoo_pixels;

typedef struct plb_zoo_options {
    int64_t batch;                // 0: the model's default for the task
    int64_t size;                 // height and width of the input; 0: the model's default
    int64_t classes;              // 0: the model's default
    bool no_dropout;              // every dropout and stochastic depth gets p = 0, for proofs
    bool norms_of_batch;          // running statistics become those of the batch: momentum 1
    double smoothing;             // label smoothing of the cross entropy
    const plb_zoo_pixels *pixels; // the input x is u8 and normalised by the program; NULL: f32
    const char *program;          // name of the program; NULL: "infer", "eval", "train"
} plb_zoo_options;

// What a forward pass makes: logits[N,classes] and, in training, those of auxiliary heads.
enum { PLB_ZOO_MAX_AUX = 2 };
typedef struct plb_zoo_result {
    plb_value logits;
    plb_value aux[PLB_ZOO_MAX_AUX];
    int n_aux;
    double aux_weight; // of each auxiliary loss in the training loss
} plb_zoo_result;

// Appends the forward pass on x[N,C,H,W] in the graph's mode (plb_graph_training). NULL options:
// all defaults. Fails as plb_graph_status does.
PLB_API PLB_MUST_USE plb_status plb_zoo_forward(plb_graph *graph, const char *name, plb_value x,
                                                const plb_zoo_options *options,
                                                plb_zoo_result *out);

// Adds the program "infer": x[N,C,H,W] -> logits[N,classes].
PLB_API PLB_MUST_USE plb_status plb_zoo_build_infer(plb_model *model, const char *name,
                                                    const plb_zoo_options *options);
// Adds the program "eval": x, y i64[N] -> loss (the sum over the batch), correct (a count in f32).
PLB_API PLB_MUST_USE plb_status plb_zoo_build_eval(plb_model *model, const char *name,
                                                   const plb_zoo_options *options);
// Adds the program "train" as far as its loss: x, y i64[N] -> loss (mean), correct, logits, and
// assigns of running statistics. Its graph (borrowed) and loss are for plb_train_step, which
// completes it.
PLB_API PLB_MUST_USE plb_status plb_zoo_build_train(plb_model *model, const char *name,
                                                    const plb_zoo_options *options,
                                                    plb_graph **out_graph, plb_value *out_loss);

#endif
