// SPDX-License-Identifier: Apache-2.0
// A file written again with other weights: its own messages, nodes, names, open extents and all,
// and the values that a model's variables have now. Copies are made only of what changes.
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/home.h"
#include "onnx/file.h"
#include "onnx/store.h"

// ---------------------------------------------------------------------------- what stays out
static bool outside(const Onnx__TensorProto *t) {
    return t && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

static plb_status check_nodes(Onnx__NodeProto *const *nodes, size_t n);

static plb_status check_attribute(const Onnx__AttributeProto *a) {
    bool found = outside(a->t);
    for (size_t i = 0; i < a->n_tensors; i++) found |= outside(a->tensors[i]);
    for (size_t k = 0; k < a->n_graphs + (a->g != NULL); k++) {
        const Onnx__GraphProto *g = k < a->n_graphs ? a->graphs[k] : a->g;
        for (size_t i = 0; i < g->n_initializer; i++) found |= outside(g->initializer[i]);
        PLB_TRY(check_nodes(g->node, g->n_node)); // depth was bounded by the reader
    }
    if (!found) return PLB_OK;
    return plb_fail(PLB_EUNSUPPORTED, "attribute %s has values in a file beside the model",
                    plb_onnx_string(a->name));
}

static plb_status check_nodes(Onnx__NodeProto *const *nodes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < nodes[i]->n_attribute; k++) {
            plb_status status = check_attribute(nodes[i]->attribute[k]);
            if (status) return plb_fail_context(status, "node %s", plb_onnx_string(nodes[i]->name));
        }
    }
    return PLB_OK;
}

static plb_status check_all(const Onnx__ModelProto *model) {
    PLB_TRY(check_nodes(model->graph->node, model->graph->n_node));
    for (size_t i = 0; i < model->n_functions; i++) {
        PLB_TRY(check_nodes(model->functions[i]->node, model->functions[i]->n_node));
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- values
// A tensor of these values, whatever form `from` had them in.
static Onnx__TensorProto *with_values(plb_arena *arena, const Onnx__TensorProto *from,
                                      const plb_onnx_values *values) {
    Onnx__TensorProto *t = plb_arena_alloc(arena, sizeof *t);
    if (!t) return NULL;
    *t = *from;
    t->n_float_data = t->n_int32_data = t->n_int64_data = 0;
    t->n_double_data = t->n_uint64_data = t->n_string_data = t->n_external_data = 0;
    t->has_data_location = 0, t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT;
    t->has_raw_data = 1;
    t->raw_data = (ProtobufCBinaryData){values->size_bytes, (uint8_t *)(uintptr_t)values->bytes};
    return t;
}

// What the variable holds now, fetched from where it was trained; NULL: there is none, or it still
// is as the file has it.
static plb_status value_now(plb_model *model, int variable, const void **out) {
    *out = NULL;
    if (variable < 0) return PLB_OK;
    PLB_TRY(plb_home_fetch(model, variable));
    *out = plb_variable_data(model, variable);
    return PLB_OK;
}

static plb_status new_tensor(plb_onnx *file, plb_model *model, plb_arena *arena,
                             const Onnx__TensorProto *from, Onnx__TensorProto **out) {
    int variable = plb_model_find_variable(model, plb_onnx_string(from->name));
    plb_onnx_values v;
    if (variable < 0 && !outside(from)) {
        *out = plb_arena_copy(arena, from, sizeof *from); // storing it may change it
        return *out ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a tensor");
    }
    PLB_TRY(plb_onnx_values_of(file, arena, from, &v));
    const void *now;
    PLB_TRY(value_now(model, variable, &now));
    if (now) v.bytes = now;
    *out = with_values(arena, from, &v);
    return *out ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a tensor");
}

// A sparse tensor that was trained is sparse no more.
static plb_status new_sparse(plb_onnx *file, plb_model *model, plb_arena *arena,
                             const Onnx__SparseTensorProto *from, Onnx__TensorProto **out) {
    *out = NULL;
    int variable = plb_model_find_variable(model, plb_onnx_string(from->values->name));
    const void *now;
    plb_onnx_values v;
    PLB_TRY(value_now(model, variable, &now));
    if (!now) return PLB_OK;
    PLB_TRY(plb_onnx_values_of_sparse(file, arena, from, &v));
    v.bytes = now;
    *out = with_values(arena, from->values, &v);
    if (!*out) return plb_fail(PLB_ENOMEM, "out of memory for a tensor");
    (*out)->dims = from->dims, (*out)->n_dims = from->n_dims;
    return PLB_OK;
}

static plb_status new_graph(plb_onnx *file, plb_model *model, plb_arena *arena,
                            Onnx__GraphProto *g) {
    const Onnx__GraphProto *from = file->graph;
    size_t n = from->n_initializer + from->n_sparse_initializer + 1;
    *g = *from;
    g->n_sparse_initializer = g->n_initializer = 0;
    g->initializer = plb_arena_alloc(arena, n * sizeof *g->initializer);
    g->sparse_initializer = plb_arena_alloc(arena, n * sizeof *g->sparse_initializer);
    if (!g->initializer || !g->sparse_initializer) {
        return plb_fail(PLB_ENOMEM, "out of memory for a graph");
    }
    for (size_t i = 0; i < from->n_initializer; i++) {
        PLB_TRY(new_tensor(file, model, arena, from->initializer[i],
                           &g->initializer[g->n_initializer++]));
    }
    for (size_t i = 0; i < from->n_sparse_initializer; i++) {
        Onnx__TensorProto *dense;
        PLB_TRY(new_sparse(file, model, arena, from->sparse_initializer[i], &dense));
        if (dense)
            g->initializer[g->n_initializer++] = dense;
        else
            g->sparse_initializer[g->n_sparse_initializer++] = from->sparse_initializer[i];
    }
    return PLB_OK;
}

plb_status plb_onnx_write_trained(const plb_onnx *file, plb_model *model, const char *path,
                                  bool external, plb_onnx_written *out) {
    Onnx__ModelProto whole = *file->model;
    Onnx__GraphProto graph;
    *out = (plb_onnx_written){.opset = file->opset};
    plb_arena *arena = plb_arena_new();
    plb_status status =
        arena ? check_all(file->model) : plb_fail(PLB_ENOMEM, "out of memory for a file");
    if (!status) status = new_graph((plb_onnx *)(uintptr_t)file, model, arena, &graph);
    if (status) status = plb_fail_context(status, "%s", path);
    if (!status) {
        whole.graph = &graph;
        out->nodes = (int64_t)graph.n_node;
        out->initializers = (int64_t)(graph.n_initializer + graph.n_sparse_initializer);
        status = plb_onnx_store(&whole, &graph, arena, path, external, out);
    }
    plb_arena_free(arena);
    return status;
}
