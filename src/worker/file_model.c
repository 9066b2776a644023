// SPDX-License-Identifier: Apache-2.0
// Models that are ONNX files: `load` builds them in place of the zoo's, `describe` tells the caller
// what they take and give.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/status.h"
#include "engine/graph/graph.h"
#include "onnx/lower.h"
#include "plumb/ops.h"
#include "worker/session.h"

static plb_status open_file(plb_worker_job *job, const json_t *request, plb_graph **graph) {
    plb_onnx_dims dims;
    PLB_TRY(plb_onnx_dims_read(plb_request_text(request, "dims", NULL), &dims));
    PLB_TRY(plb_onnx_open(plb_request_text(request, "file", ""), &job->file));
    PLB_TRY(plb_model_program(job->model, "infer", graph));
    const plb_onnx_options options = {.dims = dims.list, .n_dims = dims.n, .open_extent = 1};
    return plb_onnx_build(job->file, &options, *graph, NULL);
}

static plb_status list_outputs(plb_worker_job *job, const plb_graph *graph) {
    if (graph->n_outputs > PLB_WORKER_MAX_OUTPUTS) {
        return plb_fail(PLB_EUNSUPPORTED, "%d outputs: at most %d are measured", graph->n_outputs,
                        PLB_WORKER_MAX_OUTPUTS);
    }
    job->n_outputs = graph->n_outputs;
    for (int i = 0; i < graph->n_outputs; i++) {
        const plb_graph_output *o = &graph->outputs[i];
        job->output[i] = o->name;
        snprintf(job->answer[i], sizeof job->answer[i], "output.%d", i);
        if (plb_value_count(graph, o->value) == PLB_NONE) continue;
        return plb_fail(PLB_EUNSUPPORTED, "output %s: its extent depends on data", o->name);
    }
    return PLB_OK;
}

// What training hands out is its loss alone.
static plb_status build_training(plb_worker_session *s, plb_worker_job *job,
                                 const json_t *request) {
    plb_graph *graph = NULL;
    PLB_TRY(plb_onnx_open(plb_request_text(request, "file", ""), &job->file));
    plb_status status = plb_worker_file_step(job, "train", &job->step, &graph);
    if (status == PLB_EUNSUPPORTED) s->error_code = "refused", s->error_kind = "model";
    return status;
}

plb_status plb_worker_file_build(plb_worker_session *s, plb_worker_job *job,
                                 const json_t *request) {
    plb_graph *graph = NULL;
    if (job->training) return build_training(s, job, request);
    plb_status status = open_file(job, request, &graph);
    if (!status) status = list_outputs(job, graph);
    if (status == PLB_EUNSUPPORTED) s->error_code = "refused", s->error_kind = "model";
    if (status) return status;
    if (!plb_onnx_needs_interp(graph) || job->plan_options.level == PLB_LEVEL_INTERP) return PLB_OK;
    if (!s->kind->f64) {
        return plb_worker_refuse(s, "model",
                                 "it branches or loops on data, which only level "
                                 "interp runs");
    }
    job->plan_options.level = PLB_LEVEL_INTERP;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- inputs
// Integers that pick rows must be rows: the least extent that an input indexes, else 2. An index
// goes through casts, shapes and the sum that makes negative ones positive.
static int64_t least_extent(const plb_graph *g, plb_value input) {
    bool *reached = plb_alloc_array((size_t)g->n_values + 1, sizeof *reached);
    int64_t least = INT64_MAX;
    if (!reached) return 2;
    reached[input] = true;
    for (int i = 0; i < g->n_nodes; i++) {
        const plb_node *n = &g->nodes[i];
        bool picks = n->op == PLB_OP_take || n->op == PLB_OP_gather;
        if (picks && n->in[1] >= 0 && reached[n->in[1]]) {
            int64_t axis = ((const plb_index_attrs *)n->attrs)->axis;
            int64_t extent = plb_value_shape(g, n->in[0]).dim[axis];
            if (extent < least) least = extent;
        }
        bool passes = n->op == PLB_OP_cast || n->op == PLB_OP_reshape || n->op == PLB_OP_slice ||
                      n->op == PLB_OP_expand || n->op == PLB_OP_permute || n->op == PLB_OP_concat;
        for (int k = 0; k < n->n_in && n->n_out == 1; k++) {
            bool through = passes || (n->op == PLB_OP_where && k == 2);
            if (through && n->in[k] >= 0 && reached[n->in[k]]) reached[n->out] = true;
        }
    }
    plb_free(reached);
    return least == INT64_MAX || least < 1 ? 2 : least;
}

static plb_value value_of(const plb_graph *g, const char *name) {
    for (int i = 0; i < g->n_nodes; i++) {
        const plb_node *n = &g->nodes[i];
        bool found =
            n->op == PLB_OP_input && strcmp(((const plb_input_attrs *)n->attrs)->name, name) == 0;
        if (found) return n->out;
    }
    return PLB_NONE;
}

static void describe_type(plb_json *reply, const char *name, plb_type type) {
    plb_json_string(reply, "name", name);
    plb_json_string(reply, "dtype", plb_dtype_name(type.dtype));
    plb_json_begin_array(reply, "shape");
    for (int i = 0; i < type.shape.rank; i++) plb_json_int(reply, NULL, type.shape.dim[i]);
    plb_json_end(reply);
}

static void describe_inputs(plb_json *reply, const plb_graph *g, const plb_onnx_dims *dims) {
    const char *name;
    plb_type type;
    plb_json_begin_array(reply, "inputs");
    for (int i = 0; plb_onnx_end(g, false, i, &name, &type); i++) {
        int64_t low = 0, high = type.dtype == PLB_BOOL ? 1 : least_extent(g, value_of(g, name)) - 1;
        for (int k = 0; k < dims->n; k++) {
            bool given = plb_shape_count(&type.shape) == 1 && strcmp(dims->list[k].name, name) == 0;
            if (given) low = high = dims->list[k].extent;
        }
        plb_json_begin_object(reply, NULL);
        describe_type(reply, name, type);
        if (!plb_dtype_is_float(type.dtype)) {
            plb_json_int(reply, "low", low);
            plb_json_int(reply, "high", high);
        }
        plb_json_end(reply);
    }
    plb_json_end(reply);
}

static void describe_outputs(plb_json *reply, const plb_graph *g) {
    plb_json_begin_array(reply, "outputs");
    for (int i = 0; i < g->n_outputs; i++) {
        plb_json_begin_object(reply, NULL);
        describe_type(reply, g->outputs[i].name, plb_value_type(g, g->outputs[i].value));
        plb_json_end(reply);
    }
    plb_json_end(reply);
}

// ---------------------------------------------------------------------------- the whole
plb_status plb_worker_file_hash(const plb_graph *g, uint64_t *out) {
    const plb_model *model = g->model;
    uint64_t hash = *out;
    bool failed = false;
    for (int i = 0; i < model->n_variables; i++) {
        const plb_variable *v = &model->variables[i];
        size_t size = plb_layout_bytes(&v->type.shape, v->type.dtype, (plb_layout){0});
        hash = plb_hash_string(hash, v->name);
        if (v->source) hash = plb_hash_bytes(hash, v->source, size);
    }
    for (int i = 0; i < g->n_nodes; i++) {
        const plb_node *n = &g->nodes[i];
        hash = plb_hash_string(hash, plb_op_of(n->op)->name);
        hash = plb_onnx_hash_content(g, n, hash, &failed);
        hash = plb_hash_bytes(hash, n->in, (size_t)n->n_in * sizeof *n->in);
        for (int k = 0; k < n->n_out; k++) {
            const plb_type type = plb_value_type(g, n->out + k);
            hash = plb_hash_string(hash, plb_dtype_name(type.dtype));
            hash = plb_hash_bytes(hash, type.shape.dim, (size_t)type.shape.rank * 8);
        }
    }
    *out = hash;
    return failed ? plb_fail(PLB_ENOMEM, "out of memory for a hash of the file") : PLB_OK;
}

static plb_status describe(plb_worker_session *s, plb_worker_job *job, const json_t *request) {
    plb_json *reply = &s->reply;
    plb_graph *graph = NULL;
    plb_onnx_dims dims;
    int depth = 0;
    char hash[24];
    uint64_t digest = PLB_HASH_SEED;
    PLB_TRY(open_file(job, request, &graph));
    PLB_TRY(list_outputs(job, graph));
    if (plb_onnx_input_count(job->file) > PLB_WORKER_MAX_INPUTS) {
        return plb_fail(PLB_EUNSUPPORTED, "more than %d inputs", PLB_WORKER_MAX_INPUTS);
    }
    PLB_TRY(plb_onnx_dims_read(plb_request_text(request, "dims", NULL), &dims));
    PLB_TRY(plb_worker_product_depth(graph, &depth));
    if (!plb_onnx_needs_interp(graph)) PLB_TRY(plb_onnx_digest(graph, &digest));
    PLB_TRY(plb_worker_file_hash(graph, &digest));
    snprintf(hash, sizeof hash, "%016" PRIx64, digest);
    const plb_onnx_costs costs = plb_onnx_costs_of(graph);
    describe_inputs(reply, graph, &dims);
    describe_outputs(reply, graph);
    plb_json_int(reply, "batch", 1); // an input is drawn as a whole
    plb_json_int(reply, "size", 1);
    plb_json_int(reply, "classes", 1);
    plb_json_bool(reply, "log_probabilities", false);
    plb_json_bool(reply, "dropout", false);
    plb_json_int(reply, "depth", depth);
    plb_json_double(reply, "flops", costs.flops);
    plb_json_int(reply, "parameters", costs.parameters);
    plb_json_string(reply, "graph", hash);
    return PLB_OK;
}

plb_status plb_worker_file_describe(plb_worker_session *s, const json_t *request) {
    plb_worker_job job = {.model = plb_model_new()};
    if (!job.model) return plb_fail(PLB_ENOMEM, "out of memory for a model");
    bool training = strcmp(plb_request_text(request, "task", "infer"), "train") == 0;
    plb_status status =
        training ? plb_worker_file_describe_training(s, &job, request) : describe(s, &job, request);
    if (status == PLB_EINVAL || status == PLB_EUNSUPPORTED || status == PLB_EIO) {
        s->error_code = "refused", s->error_kind = "model";
    }
    plb_model_free(job.model);
    plb_onnx_free(job.file);
    return status;
}
