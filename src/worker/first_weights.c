// SPDX-License-Identifier: Apache-2.0
// The file of first weights that all stacks get.
//
// Networks that nobody trained have no running statistics. With those that a batch norm begins
// with, mean 0 and variance 1, the values of some fade from layer to layer: nothing but the last
// bias reaches the output, so that any network would be found equal to them, or logits are zero in
// f16. For inference these get the statistics of a batch of normal noise, which is what stacks are
// given to compute on. Others keep what they begin with: a deep network that normalises every layer
// amplifies rounding as no trained one does.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "plumb/plan.h"
#include "plumb/weights.h"
#include "plumb/zoo.h"
#include "worker/session.h"

enum { TRIAL_ROWS = 2, ROWS = 4 };
static const double least_spread = 1e-3; // of the trial's logits, of the largest
static const double least_logit = 1e-3;

static bool has_buffers(const plb_model *model) {
    for (int i = 0; i < plb_model_variable_count(model); i++) {
        if (plb_model_variable_info(model, i).role == PLB_ROLE_BUFFER) return true;
    }
    return false;
}

// The forward pass on noise. In f64, so that every machine rounds to the same numbers.
static plb_status plan_on_noise(plb_model *model, const char *name, bool training, int64_t classes,
                                plb_plan **out) {
    const plb_zoo_options zoo = {.no_dropout = true, .norms_of_batch = true, .classes = classes};
    const plb_plan_options options = {.f64 = true};
    const plb_zoo_info *info = NULL;
    plb_zoo_result result;
    plb_graph *graph = NULL;
    PLB_TRY(plb_zoo_find(name, &info));
    const plb_shape shape =
        plb_shape_of(training ? ROWS : TRIAL_ROWS, info->channels, info->height, info->width);
    PLB_TRY(plb_model_program(model, training ? "statistics" : "trial", &graph));
    plb_graph_set_training(graph, training);
    plb_value x = plb_param(graph, training ? "noise" : "trial noise", PLB_F32, &shape,
                            PLB_ROLE_STATE, (plb_init){PLB_INIT_NORMAL, 0, 1});
    PLB_TRY(plb_zoo_forward(graph, name, x, &zoo, &result));
    plb_output(graph, "logits", result.logits);
    return plb_plan_new(graph, &options, out);
}

// Whether the output hardly tells two inputs apart, or is next to nothing.
static bool fades(const plb_tensor *logits) {
    const double *y = logits->data;
    int64_t classes = plb_shape_count(&logits->shape) / TRIAL_ROWS;
    double most = 0, spread = 0;
    for (int64_t i = 0; i < classes; i++) {
        most = fmax(most, fmax(fabs(y[i]), fabs(y[classes + i])));
        spread = fmax(spread, fabs(y[i] - y[classes + i]));
    }
    return most < least_logit || spread < least_spread * most;
}

static plb_status settle(plb_model *model, const char *name, int64_t classes) {
    plb_plan *trial = NULL, *statistics = NULL;
    plb_tensor logits;
    plb_status status;
    PLB_TRY_OUT(plan_on_noise(model, name, false, classes, &trial));
    PLB_TRY_OUT(plb_plan_run(trial));
    PLB_TRY_OUT(plb_plan_output(trial, "logits", &logits));
    if (fades(&logits)) {
        PLB_TRY_OUT(plan_on_noise(model, name, true, classes, &statistics));
        PLB_TRY_OUT(plb_plan_run(statistics));
    }
out:
    plb_plan_free(trial);
    plb_plan_free(statistics);
    return status;
}

plb_status plb_worker_weights(plb_worker_session *s, const json_t *request) {
    const char *name = plb_request_text(request, "model", "");
    const char *path = plb_request_text(request, "path", NULL);
    const char *file = plb_request_text(request, "file", NULL);
    PLB_TRY(plb_worker_only_reference(s));
    if (!path) return plb_fail(PLB_EINVAL, "weights: expected a path");
    if (file) return plb_worker_file_weights(file, path);
    plb_model *model = plb_model_new();
    if (!model) return plb_fail(PLB_ENOMEM, "out of memory for a model");
    const uint64_t seed = (uint64_t)plb_request_int(request, "seed", 0);
    const bool settled = strcmp(plb_request_text(request, "task", "train"), "infer") == 0;
    plb_graph *graph = NULL;
    plb_value loss = PLB_NONE;
    plb_status status;
    // The training program has every variable, those of auxiliary heads too.
    const plb_zoo_options zoo = {.batch = 2,
                                 .size = plb_request_int(request, "size", 0),
                                 .classes = plb_request_int(request, "classes", 0)};
    PLB_TRY_OUT(plb_zoo_build_train(model, name, &zoo, &graph, &loss));
    PLB_TRY_OUT(plb_model_init(model, seed));
    if (settled && has_buffers(model)) PLB_TRY_OUT(settle(model, name, zoo.classes));
    PLB_TRY_OUT(plb_weights_write(path, model));
out:
    plb_model_free(model);
    return status;
}
