// SPDX-License-Identifier: Apache-2.0
#include "bench/facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/status.h"
#include "base/core/utf8.h"
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
        if (!name || !dtype || (!out->file[0] && json_array_size(shape) < 1) ||
            json_array_size(shape) > PLB_MAX_RANK) {
            return malformed(reference);
        }
        snprintf(out->input[i].name, sizeof out->input[i].name, "%s", name);
        out->input[i].dtype = plb_dtype_from_name(dtype);
        out->input[i].shape.rank = (int)json_array_size(shape);
        for (int k = 0; k < out->input[i].shape.rank; k++) {
            out->input[i].shape.dim[k] = json_integer_value(json_array_get(shape, (size_t)k));
        }
        out->input[i].low = json_integer_value(json_object_get(entry, "low"));
        out->input[i].high = json_integer_value(json_object_get(entry, "high"));
        if (plb_shape_check(&out->input[i].shape) || !plb_dtype_size(out->input[i].dtype)) {
            return malformed(reference);
        }
    }
    return PLB_OK;
}

static plb_status read_outputs(plb_client *reference, const json_t *list, plb_facts *out) {
    out->n_outputs = 1;
    out->output[0].count = out->classes, out->output[0].dtype = PLB_F32;
    if (!out->file[0] || out->training) return PLB_OK;
    out->n_outputs = (int)json_array_size(list);
    if (out->n_outputs < 1 || out->n_outputs > PLB_FACTS_MAX_OUTPUTS) return malformed(reference);
    for (int i = 0; i < out->n_outputs; i++) {
        const json_t *entry = json_array_get(list, (size_t)i);
        const json_t *shape = json_object_get(entry, "shape");
        const char *name = json_string_value(json_object_get(entry, "name"));
        const char *dtype = json_string_value(json_object_get(entry, "dtype"));
        if (!dtype) return malformed(reference);
        out->output[i].dtype = plb_dtype_from_name(dtype);
        snprintf(out->output[i].name, sizeof out->output[i].name, "%s", name ? name : "");
        out->output[i].count = 1;
        for (size_t k = 0; k < json_array_size(shape); k++) {
            out->output[i].count *= json_integer_value(json_array_get(shape, k));
        }
    }
    return PLB_OK;
}

bool plb_facts_is_file(const char *model) {
    size_t n = strlen(model);
    return n > 5 && strcmp(model + n - 5, ".onnx") == 0;
}

plb_output_name plb_facts_output_name(const plb_facts *facts, int k) {
    plb_output_name name = {"output"};
    if (facts->file[0]) snprintf(name.text, sizeof name.text, "output.%d", k);
    return name;
}

// Cases and caches know a file by its own name and by what is in it. 40 bytes of the name at most,
// whole characters; what cannot be shown or would have to be escaped is an underscore.
static void name_file(plb_facts *facts) {
    const char *slash = strrchr(facts->file, '/'), *at = slash ? slash + 1 : facts->file;
    char name[41];
    size_t size = 0;
    while (*at) {
        size_t length = plb_utf8_length(at);
        bool plain = length > 1 || (length == 1 && (unsigned char)*at >= ' ' && *at != 127 &&
                                    *at != '"' && *at != '\\');
        if (!length) length = 1;
        if (size + length >= sizeof name) break;
        memcpy(name + size, plain ? at : "_", plain ? length : 1);
        size += plain ? length : 1;
        at += length;
    }
    name[size] = 0;
    snprintf(facts->model, sizeof facts->model, "%s#%.8s", name, facts->graph);
}

static bool is_utf8(const char *text) {
    while (*text) {
        size_t length = plb_utf8_length(text);
        if (!length) return false;
        text += length;
    }
    return true;
}

static plb_status make_request(const plb_facts_request *r, plb_facts *out, json_t **request) {
    bool file = plb_facts_is_file(r->model);
    *out = (plb_facts){.training = strcmp(r->task, "train") == 0};
    snprintf(out->model, sizeof out->model, "%s", r->model);
    if (file && !realpath(r->model, out->file)) return plb_fail_errno("%s", r->model);
    if (file && ((r->batch && !out->training) || r->size)) {
        return plb_fail(PLB_EINVAL,
                        "%s: --batch and --size are the zoo's; --dim NAME=N gives the "
                        "extents of a file",
                        r->model);
    }
    if (file && !is_utf8(out->file)) {
        return plb_fail(PLB_EINVAL, "%s: workers are told paths in UTF-8, and this one is not",
                        r->model);
    }
    if (!file && r->dims) {
        return plb_fail(PLB_EINVAL, "--dim is for ONNX files, and %s is none", r->model);
    }
    snprintf(out->dims, sizeof out->dims, "%s", r->dims ? r->dims : "");
    *request = json_pack("{s:s,s:s,s:s,s:I,s:I}", "type", "describe", "model", r->model, "task",
                         r->task, "batch", (json_int_t)r->batch, "size", (json_int_t)r->size);
    if (!file || (!json_object_set_new(*request, "file", json_string(out->file)) &&
                  !json_object_set_new(*request, "dims", json_string(out->dims)))) {
        return PLB_OK;
    }
    json_decref(*request);
    return plb_fail(PLB_ENOMEM, "out of memory for a request");
}

plb_status plb_facts_ask(plb_client *reference, const plb_facts_request *r, plb_facts *out) {
    json_t *answer = NULL, *request = NULL;
    PLB_TRY(make_request(r, out, &request));
    PLB_TRY(plb_client_ask(reference, request, 60, "description", &answer));
    const char *graph = json_string_value(json_object_get(answer, "graph"));
    snprintf(out->graph, sizeof out->graph, "%s", graph ? graph : "");
    if (out->file[0]) name_file(out);
    out->batch = json_integer_value(json_object_get(answer, "batch"));
    out->size = json_integer_value(json_object_get(answer, "size"));
    out->classes = json_integer_value(json_object_get(answer, "classes"));
    out->log_probabilities = json_is_true(json_object_get(answer, "log_probabilities"));
    out->dropout = json_is_true(json_object_get(answer, "dropout"));
    out->depth = (int)json_integer_value(json_object_get(answer, "depth"));
    out->flops = json_number_value(json_object_get(answer, "flops"));
    out->least_flops = json_number_value(json_object_get(answer, "least_flops"));
    out->parameters = json_integer_value(json_object_get(answer, "parameters"));
    if (out->depth < 1) out->depth = 1;
    plb_status status = read_inputs(reference, json_object_get(answer, "inputs"), out);
    if (!status) status = read_outputs(reference, json_object_get(answer, "outputs"), out);
    json_decref(answer);
    return status;
}

plb_status plb_facts_weights(plb_client *reference, const plb_facts *facts, const char *cache,
                             char *path, size_t size) {
    char folder[4096], which[64];
    if (facts->file[0] && !facts->training) { // it brings its own
        snprintf(path, size, "%s", facts->file);
        return PLB_OK;
    }
    // One file serves all sizes of a model whose weights do not depend on it: those of one count.
    if (facts->training)
        snprintf(which, sizeof which, "train-%s", facts->graph);
    else
        snprintf(which, sizeof which, "settled-%" PRId64, facts->parameters);
    snprintf(folder, sizeof folder, "%s/weights", cache);
    int n = snprintf(path, size, "%s/%s-%s-%s-%d.safetensors", folder, facts->model, PLUMB_VERSION,
                     which, (int)weights_seed);
    if (n < 0 || (size_t)n >= size) return plb_fail(PLB_EINVAL, "%s: the path is too long", cache);
    PLB_TRY(plb_folder_make(folder));
    if (plb_file_exists(path)) return PLB_OK;
    json_t *request =
        json_pack("{s:s,s:s,s:s,s:s,s:I,s:I}", "type", "weights", "model", facts->model, "task",
                  facts->training ? "train" : "infer", "path", path, "seed",
                  (json_int_t)weights_seed, "size", (json_int_t)facts->size);
    if (facts->file[0] && json_object_set_new(request, "file", json_string(facts->file))) {
        json_decref(request);
        return plb_fail(PLB_ENOMEM, "out of memory for a request");
    }
    return plb_client_ask(reference, request, 300, "ok", NULL);
}
