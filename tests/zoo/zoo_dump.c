// SPDX-License-Identifier: Apache-2.0
// Runs a model of the zoo for test_zoo_torch.py, which compares what comes out with PyTorch:
//
//   zoo_dump IN OUT model=NAME size=N steps=N optimizer=NAME lr=X momentum=X weight_decay=X
//            level=plan|interp|replay winograd=0|1 f64=0|1
//            device=cpu|cuda math=f32|tf32 autocast=no|bf16|f16 tune=SECONDS
//
// IN and OUT are safetensors files. IN holds the variables by name and the batches x.0, y.0, x.1, …
// OUT gets "infer" (logits of x.0 before training), "eval.loss", "eval.correct"; and with steps > 0
// "loss", "correct", "logits" and all "grad.…" of the first step, "step.loss.N" of each, and the
// variables after the last.
//
//   zoo_dump - OUT model=NAME
//
// writes the variables as they begin.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/graph.h"
#include "io/safetensors.h"
#include "plumb/plan.h"
#include "plumb/step.h"
#include "plumb/zoo.h"

enum { MAX_RESULTS = 4096 };

typedef struct dump {
    plb_safetensors *in;
    plb_model *model;
    plb_named_tensor results[MAX_RESULTS];
    void *owned[2 * MAX_RESULTS];
    size_t n_results, n_owned;
} dump;

static const char *argument(char **args, const char *key, const char *otherwise) {
    size_t length = strlen(key);
    for (; *args; args++) {
        if (strncmp(*args, key, length) == 0 && (*args)[length] == '=') return *args + length + 1;
    }
    return otherwise;
}

static plb_status keep(dump *d, const char *name, const plb_tensor *value) {
    if (d->n_results == MAX_RESULTS) return plb_fail(PLB_EINVAL, "too many results");
    void *data = plb_alloc(plb_layout_bytes(&value->shape, value->dtype, (plb_layout){0}));
    char *copy = plb_strdup(name);
    d->owned[d->n_owned++] = data, d->owned[d->n_owned++] = copy;
    if (!data || !copy) return plb_fail(PLB_ENOMEM, "out of memory for %s", name);
    plb_tensor dense = plb_tensor_dense(data, value->dtype, &value->shape, (plb_layout){0});
    d->results[d->n_results++] = (plb_named_tensor){copy, dense};
    return plb_tensor_copy(&dense, value);
}

static plb_status keep_output(dump *d, plb_plan *plan, const char *output, const char *name) {
    plb_tensor value;
    PLB_TRY(plb_plan_output(plan, output, &value));
    return keep(d, name, &value);
}

static plb_status load_variables(dump *d) {
    PLB_TRY(plb_model_init(d->model, 0));
    for (int i = 0; i < plb_model_variable_count(d->model); i++) {
        plb_variable_info info = plb_model_variable_info(d->model, i);
        const plb_named_tensor *found = plb_safetensors_find(d->in, info.name);
        if (!found && info.role <= PLB_ROLE_BUFFER) {
            return plb_fail(PLB_EINVAL, "%s is not in the file", info.name);
        }
        if (found) PLB_TRY(plb_variable_write(d->model, i, &found->tensor));
    }
    return PLB_OK;
}

static plb_status feed(dump *d, plb_plan *plan, const char *input, int batch) {
    char name[32];
    snprintf(name, sizeof name, "%s.%d", input, batch);
    const plb_named_tensor *found = plb_safetensors_find(d->in, name);
    if (!found) return plb_fail(PLB_EINVAL, "%s is not in the file", name);
    plb_tensor buffer;
    PLB_TRY(plb_plan_input(plan, input, &buffer));
    return plb_tensor_copy(&buffer, &found->tensor);
}

static plb_status run_infer(dump *d, const plb_plan_options *options) {
    plb_plan *plan = NULL;
    plb_status status;
    PLB_TRY_OUT(plb_plan_new(plb_model_find_program(d->model, "infer"), options, &plan));
    PLB_TRY_OUT(feed(d, plan, "x", 0));
    PLB_TRY_OUT(plb_plan_run(plan));
    PLB_TRY_OUT(keep_output(d, plan, "logits", "infer"));
out:
    plb_plan_free(plan);
    return status;
}

static plb_status run_eval(dump *d, const plb_plan_options *options) {
    plb_plan *plan = NULL;
    plb_status status;
    PLB_TRY_OUT(plb_plan_new(plb_model_find_program(d->model, "eval"), options, &plan));
    PLB_TRY_OUT(feed(d, plan, "x", 0));
    PLB_TRY_OUT(feed(d, plan, "y", 0));
    PLB_TRY_OUT(plb_plan_run(plan));
    PLB_TRY_OUT(keep_output(d, plan, "loss", "eval.loss"));
    PLB_TRY_OUT(keep_output(d, plan, "correct", "eval.correct"));
out:
    plb_plan_free(plan);
    return status;
}

static plb_status keep_first_step(dump *d, plb_plan *plan, const plb_graph *graph) {
    for (int i = 0; i < graph->n_outputs; i++) {
        const char *name = graph->outputs[i].name;
        PLB_TRY(keep_output(d, plan, name, name));
    }
    return PLB_OK;
}

static plb_status keep_variables(dump *d) {
    for (int i = 0; i < plb_model_variable_count(d->model); i++) {
        plb_variable_info info = plb_model_variable_info(d->model, i);
        plb_tensor value = plb_tensor_dense(plb_variable_data(d->model, i), info.type.dtype,
                                            &info.type.shape, (plb_layout){0});
        PLB_TRY(keep(d, info.name, &value));
    }
    return PLB_OK;
}

static plb_status run_train(dump *d, const plb_graph *graph, int steps,
                            const plb_plan_options *options) {
    plb_plan *plan = NULL;
    plb_status status;
    PLB_TRY_OUT(plb_plan_new(graph, options, &plan));
    for (int i = 0; i < steps; i++) {
        PLB_TRY_OUT(feed(d, plan, "x", i));
        PLB_TRY_OUT(feed(d, plan, "y", i));
        PLB_TRY_OUT(plb_plan_run(plan));
        if (i == 0) PLB_TRY_OUT(keep_first_step(d, plan, graph));
        char name[32];
        snprintf(name, sizeof name, "step.loss.%d", i);
        PLB_TRY_OUT(keep_output(d, plan, "loss", name));
    }
    PLB_TRY_OUT(keep_variables(d));
out:
    plb_plan_free(plan);
    return status;
}

static plb_status build(dump *d, char **args, int steps, plb_graph **graph) {
    const char *name = argument(args, "model", "mnist_cnn");
    const plb_named_tensor *x = plb_safetensors_find(d->in, "x.0");
    if (!x) return plb_fail(PLB_EINVAL, "x.0 is not in the file");
    const plb_zoo_options options = {
        .batch = x->tensor.shape.dim[0], .size = x->tensor.shape.dim[2], .no_dropout = true};
    d->model = plb_model_new();
    if (!d->model) return plb_fail(PLB_ENOMEM, "out of memory for a model");
    PLB_TRY(plb_zoo_build_infer(d->model, name, &options));
    if (!steps) return PLB_OK;
    plb_step_options step;
    plb_value loss;
    PLB_TRY(plb_zoo_build_eval(d->model, name, &options));
    PLB_TRY(plb_zoo_build_train(d->model, name, &options, graph, &loss));
    PLB_TRY(plb_step_options_for(argument(args, "optimizer", "sgd"), &step));
    step.output_gradients = true;
    step.lr = atof(argument(args, "lr", "0.01"));
    step.sgd.momentum = atof(argument(args, "momentum", "0"));
    step.sgd.nesterov = atoi(argument(args, "nesterov", "0"));
    step.sgd.weight_decay = step.adam.weight_decay = atof(argument(args, "weight_decay", "0"));
    return plb_train_step(*graph, loss, &step);
}

static plb_status run_init(dump *d, char **args) {
    d->model = plb_model_new();
    if (!d->model) return plb_fail(PLB_ENOMEM, "out of memory for a model");
    PLB_TRY(plb_zoo_build_infer(d->model, argument(args, "model", "mnist_cnn"), NULL));
    PLB_TRY(plb_model_init(d->model, 7));
    PLB_TRY(keep_variables(d));
    return plb_safetensors_write(args[2], d->results, d->n_results, NULL, 0);
}

static plb_status run(dump *d, char **args) {
    if (strcmp(args[1], "-") == 0) return run_init(d, args);
    const int steps = atoi(argument(args, "steps", "0"));
    const char *level = argument(args, "level", "plan"), *device = argument(args, "device", "cpu");
    bool tf32 = strcmp(argument(args, "math", "f32"), "tf32") == 0;
    const char *cast = argument(args, "autocast", "no");
    const int tune_seconds = atoi(argument(args, "tune", "0"));
    const plb_plan_options options = {.level = strcmp(level, "interp") == 0   ? PLB_LEVEL_INTERP
                                               : strcmp(level, "replay") == 0 ? PLB_LEVEL_REPLAY
                                                                              : PLB_LEVEL_PLAN,
                                      .device = device,
                                      .math = tf32 ? PLB_MATH_TF32 : PLB_MATH_F32,
                                      .autocast = strcmp(cast, "bf16") == 0  ? PLB_AUTOCAST_BF16
                                                  : strcmp(cast, "f16") == 0 ? PLB_AUTOCAST_F16
                                                                             : PLB_AUTOCAST_NONE,
                                      .no_winograd = atoi(argument(args, "winograd", "1")) == 0,
                                      .f64 = atoi(argument(args, "f64", "0")) != 0,
                                      .no_tuning = tune_seconds == 0,
                                      .tune_ms = 1000 * (int64_t)tune_seconds};
    plb_graph *graph = NULL;
    PLB_TRY(plb_safetensors_open(args[1], &d->in));
    PLB_TRY(build(d, args, steps, &graph));
    PLB_TRY(load_variables(d));
    PLB_TRY(run_infer(d, &options));
    if (steps) PLB_TRY(run_eval(d, &options));
    if (steps) PLB_TRY(run_train(d, graph, steps, &options));
    return plb_safetensors_write(args[2], d->results, d->n_results, NULL, 0);
}

int main(int argc, char **argv) {
    static dump d;
    if (argc < 3) {
        fprintf(stderr, "usage: zoo_dump IN OUT key=value…\n");
        return 2;
    }
    plb_status status = run(&d, argv);
    if (status) fprintf(stderr, "zoo_dump: %s\n", plb_error_text());
    for (size_t i = 0; i < d.n_owned; i++) plb_free(d.owned[i]);
    plb_safetensors_free(d.in);
    plb_model_free(d.model);
    return status != PLB_OK;
}
