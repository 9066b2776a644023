// SPDX-License-Identifier: Apache-2.0
#include "bench/facts.h"

#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "base/folder.h"
#include "plumb/version.h"

static const uint64_t weights_seed = 1;

static plb_status malformed(plb_client *reference) {
    return plb_failure_set(&reference->failure, PLB_OUTCOME_PROTOCOL,
                           "describe: the answer makes no sense");
}

static plb_status read_inputs(plb_client *reference, const json_t *list, plb_facts *out) {
    out->n_inputs = (int)json_array_size(list);
    if (out->n_inputs < 1 || out->n_inputs > PLB_FACTS_MAX_INPUTS) return malformed(reference);
    for (int i = 0; i < out->n_inputs; i++) {
        const json_t *entry = json_array_get(list, (size_t)i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        const char *dtype = json_string_value(json_object_get(entry, "dtype"));
        const json_t *shape = json_object_get(entry, "shape");
        if (!name || !dtype || json_array_size(shape) < 1 ||
            json_array_size(shape) > PLB_MAX_RANK) {
            return malformed(reference);
        }
        snprintf(out->input[i].name, sizeof out->input[i].name, "%s", name);
        out->input[i].dtype = plb_dtype_from_name(dtype);
        out->input[i].shape.rank = (int)json_array_size(shape);
        for (int k = 0; k < out->input[i].shape.rank; k++) {
            out->input[i].shape.dim[k] = json_integer_value(json_array_get(shape, (size_t)k));
        }
        if (plb_shape_check(&out->input[i].shape) || !plb_dtype_size(out->input[i].dtype)) {
            return malformed(reference);
        }
    }
    return PLB_OK;
}

plb_status plb_facts_ask(plb_client *reference, const char *model, const char *task, int64_t batch,
                         int64_t size, plb_facts *out) {
    json_t *answer = NULL;
    json_t *request = json_pack("{s:s,s:s,s:s,s:I,s:I}", "type", "describe", "model", model, "task",
                                task, "batch", (json_int_t)batch, "size", (json_int_t)size);
    *out = (plb_facts){.training = strcmp(task, "train") == 0};
    PLB_TRY(plb_client_ask(reference, request, 60, "description", &answer));
    const char *graph = json_string_value(json_object_get(answer, "graph"));
    snprintf(out->model, sizeof out->model, "%s", model);
    snprintf(out->graph, sizeof out->graph, "%s", graph ? graph : "");
    out->batch = json_integer_value(json_object_get(answer, "batch"));
    out->size = json_integer_value(json_object_get(answer, "size"));
    out->classes = json_integer_value(json_object_get(answer, "classes"));
    out->log_probabilities = json_is_true(json_object_get(answer, "log_probabilities"));
    out->dropout = json_is_true(json_object_get(answer, "dropout"));
    out->depth = (int)json_integer_value(json_object_get(answer, "depth"));
    out->flops = json_number_value(json_object_get(answer, "flops"));
    out->parameters = json_integer_value(json_object_get(answer, "parameters"));
    if (out->depth < 1) out->depth = 1;
    plb_status status = read_inputs(reference, json_object_get(answer, "inputs"), out);
    json_decref(answer);
    return status;
}

plb_status plb_facts_weights(plb_client *reference, const plb_facts *facts, const char *cache,
                             char *path, size_t size) {
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/weights", cache);
    int n = snprintf(path, size, "%s/%s-%s-%s-%d.safetensors", folder, facts->model, PLUMB_VERSION,
                     facts->training ? facts->graph : "infer", (int)weights_seed);
    if (n < 0 || (size_t)n >= size) return plb_fail(PLB_EINVAL, "%s: the path is too long", cache);
    PLB_TRY(plb_folder_make(folder));
    if (plb_file_exists(path)) return PLB_OK;
    return plb_client_ask(reference,
                          json_pack("{s:s,s:s,s:s,s:I}", "type", "weights", "model", facts->model,
                                    "path", path, "seed", (json_int_t)weights_seed),
                          300, "ok", NULL);
}
