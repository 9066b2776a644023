// SPDX-License-Identifier: Apache-2.0
// Training steps of models that are ONNX files: the file's graph with the loss that `plumb train`
// would take, on batches of the shape that its input asks for.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/hash.h"
#include "base/core/status.h"
#include "plumb/weights.h"
#include "worker/session.h"

plb_status plb_worker_file_step(const plb_worker_job *job, const char *program,
                                const plb_step_options *step, plb_graph **out) {
    plb_onnx_learning learning;
    plb_value loss = PLB_NONE;
    PLB_TRY(plb_onnx_learning_of(job->file, job->zoo.batch, &learning));
    PLB_TRY(plb_model_program(job->model, program, out));
    PLB_TRY(plb_onnx_build_learning(job->file, &learning, *out, &loss));
    if (plb_onnx_needs_interp(*out)) {
        return plb_fail(PLB_EUNSUPPORTED, "it branches or loops on data: not trained");
    }
    if (plb_worker_draws(*out)) {
        return plb_fail(PLB_EUNSUPPORTED,
                        "it drops at random in training, which no proof can follow");
    }
    return step ? plb_train_step(*out, loss, step) : PLB_OK;
}

// ---------------------------------------------------------------------------- description
static void describe_input(plb_json *reply, const plb_graph *g, int index, int64_t classes) {
    const char *name;
    plb_type type;
    if (!plb_onnx_end(g, false, index, &name, &type)) return;
    plb_json_begin_object(reply, NULL);
    plb_json_string(reply, "name", name);
    plb_json_string(reply, "dtype", plb_dtype_name(type.dtype));
    plb_json_begin_array(reply, "shape");
    for (int i = 0; i < type.shape.rank; i++) plb_json_int(reply, NULL, type.shape.dim[i]);
    plb_json_end(reply);
    if (!plb_dtype_is_float(type.dtype)) {
        plb_json_int(reply, "low", 0);
        plb_json_int(reply, "high", classes - 1);
    }
    plb_json_end(reply);
}

plb_status plb_worker_file_describe_training(plb_worker_session *s, plb_worker_job *job,
                                             const json_t *request) {
    plb_json *reply = &s->reply;
    plb_graph *graph = NULL;
    int depth = 0;
    char hash[24];
    uint64_t digest = PLB_HASH_SEED;
    if (*plb_request_text(request, "dims", "")) {
        return plb_fail(PLB_EINVAL, "--dim is for inference: a training step takes --batch");
    }
    PLB_TRY(plb_onnx_open(plb_request_text(request, "file", ""), &job->file));
    job->zoo.batch = plb_request_int(request, "batch", 0);
    PLB_TRY(plb_step_options_for("sgd", &job->step));
    PLB_TRY(plb_worker_file_step(job, "train", &job->step, &graph));
    PLB_TRY(plb_worker_product_depth(graph, &depth));
    PLB_TRY(plb_worker_file_hash(graph, &digest));
    snprintf(hash, sizeof hash, "%016" PRIx64, digest);
    plb_onnx_learning learning;
    PLB_TRY(plb_onnx_learning_of(job->file, job->zoo.batch, &learning));
    const int64_t classes = plb_onnx_learning_classes(graph);
    plb_json_begin_array(reply, "inputs");
    for (int i = 0; i < 2; i++) describe_input(reply, graph, i, classes);
    plb_json_end(reply);
    plb_json_int(reply, "batch", learning.batch);
    plb_json_int(reply, "size", 1);
    plb_json_int(reply, "classes", classes);
    plb_json_bool(reply, "log_probabilities", false);
    plb_json_bool(reply, "dropout", false);
    plb_json_int(reply, "depth", depth);
    const plb_onnx_costs costs = plb_onnx_costs_of(graph);
    plb_json_double(reply, "flops", costs.flops);
    plb_json_int(reply, "parameters", costs.parameters);
    plb_json_string(reply, "graph", hash);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- weights
plb_status plb_worker_file_weights(const char *file, const char *path) {
    plb_worker_job job = {.model = plb_model_new()};
    plb_graph *graph = NULL;
    if (!job.model) return plb_fail(PLB_ENOMEM, "out of memory for a model");
    plb_status status = plb_onnx_open(file, &job.file);
    if (!status) status = plb_worker_file_step(&job, "train", NULL, &graph);
    if (!status) status = plb_weights_write(path, job.model);
    plb_model_free(job.model);
    plb_onnx_free(job.file);
    return status;
}
