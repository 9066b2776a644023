// SPDX-License-Identifier: Apache-2.0
// An inference program as an ONNX file: variables become initializers of their names, nodes get
// the names of their scopes.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "onnx/lower.h"
#include "onnx/store.h"
#include "onnx/writer.h"
#include "plumb/onnx.h"
#include "plumb/version.h"

// The newest version of both that all of ONNX Runtime 1.32, OpenVINO 2026 and this reader know.
enum { IR_VERSION = 10, OPSET = 21 };

// ---------------------------------------------------------------------------- frame
static const char *plain_value(const plb_model *model, int variable, const void **bytes) {
    const plb_variable *v = &model->variables[variable];
    *bytes = v->source && !v->data ? v->source
                                   : plb_variable_data((plb_model *)(uintptr_t)model, variable);
    return v->name;
}

static void write_read(plb_onnx_writer *w, const plb_node *node) {
    int variable = ((const plb_variable_attrs *)node->attrs)->variable;
    const void *bytes;
    const char *name = plain_value(w->graph->model, variable, &bytes);
    const plb_type type = w->graph->values[node->out].type;
    for (int i = 0; i < w->graph->n_nodes; i++) { // a variable that is read twice is written once
        const plb_node *other = &w->graph->nodes[i];
        if (other == node) break;
        bool equal = other->op == PLB_OP_read &&
                     ((const plb_variable_attrs *)other->attrs)->variable == variable;
        if (equal) w->name[node->out] = w->name[other->out];
    }
    if (w->name[node->out]) return;
    w->name[node->out] = plb_onnx_fresh_name(w, name);
    if (!bytes) {
        plb_onnx_writer_fail(w, plb_fail(PLB_EINVAL, "%s: the variable has no value yet", name));
    }
    plb_onnx_append(w, &w->proto->initializer, &w->proto->n_initializer,
                    plb_onnx_put_tensor(w, w->name[node->out], type.dtype, &type.shape, bytes));
}

static void write_constant(plb_onnx_writer *w, const plb_node *node) {
    const plb_constant_attrs *a = node->attrs;
    Onnx__NodeProto *to = plb_onnx_put(w, node, "Constant", 1);
    plb_onnx_set_tensor(w, to, "value",
                        plb_onnx_put_tensor(w, "", a->type.dtype, &a->type.shape, a->data));
}

static plb_status write_any(plb_onnx_writer *w, const plb_node *node) {
    if (node->op == PLB_OP_assign) return plb_fail(PLB_EUNSUPPORTED, "it changes a variable");
    if (node->op == PLB_OP_input) return PLB_OK;
    bool needed = false;
    for (int k = 0; k < node->n_out; k++) needed |= w->needed[node->out + k];
    if (!needed) return PLB_OK;
    if (node->region[0]) return plb_fail(PLB_EUNSUPPORTED, "regions are not written");
    if (node->op == PLB_OP_read)
        write_read(w, node);
    else if (node->op == PLB_OP_constant)
        write_constant(w, node);
    else
        PLB_TRY(plb_onnx_write_node(w, node));
    return w->status;
}

static void mark_needed(plb_onnx_writer *w) {
    const plb_graph *g = w->graph;
    for (int i = 0; i < g->n_outputs; i++) w->needed[g->outputs[i].value] = true;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        bool needed = false;
        for (int k = 0; k < g->nodes[i].n_out; k++) needed |= w->needed[g->nodes[i].out + k];
        for (int k = 0; k < g->nodes[i].n_in && needed; k++) {
            if (g->nodes[i].in[k] >= 0) w->needed[g->nodes[i].in[k]] = true;
        }
    }
}

static void write_inputs(plb_onnx_writer *w) {
    for (int i = 0; i < w->graph->n_nodes; i++) {
        const plb_node *node = &w->graph->nodes[i];
        if (node->op != PLB_OP_input) continue;
        const char *name = ((const plb_input_attrs *)node->attrs)->name;
        w->name[node->out] = plb_onnx_fresh_name(w, name);
        plb_onnx_append(w, &w->proto->input, &w->proto->n_input,
                        plb_onnx_put_info(w, name, w->graph->values[node->out].type));
    }
}

// A value that a node makes gets the output's name; others, and outputs that share one, are passed
// on by an Identity.
static void name_outputs(plb_onnx_writer *w) {
    const plb_graph *g = w->graph;
    for (int i = 0; i < g->n_outputs; i++) {
        const plb_graph_output *o = &g->outputs[i];
        const plb_op *op = plb_op_of(g->nodes[g->values[o->value].node].op);
        const char *name = plb_onnx_fresh_name(w, o->name);
        bool made = !(op->flags & PLB_OP_FRAME) || op == plb_op_of(PLB_OP_constant);
        if (made && !w->name[o->value]) w->name[o->value] = name;
        plb_onnx_append(w, &w->proto->output, &w->proto->n_output,
                        plb_onnx_put_info(w, o->name, g->values[o->value].type));
    }
}

static void pass_outputs_on(plb_onnx_writer *w) {
    const plb_graph *g = w->graph;
    for (int i = 0; i < g->n_outputs && !w->status; i++) {
        plb_value value = g->outputs[i].value;
        if (strcmp(w->name[value], g->outputs[i].name) == 0) continue;
        const char *from = w->name[value];
        const plb_node identity = {.out = value, .scope = ""};
        w->name[value] = g->outputs[i].name;
        plb_onnx_put_name(w, plb_onnx_put(w, &identity, "Identity", 1), from);
        w->name[value] = from;
    }
}

static plb_status write_graph(plb_onnx_writer *w) {
    const plb_graph *g = w->graph;
    mark_needed(w);
    write_inputs(w);
    name_outputs(w);
    for (int i = 0; i < g->n_nodes && !w->status; i++) {
        plb_status status = write_any(w, &g->nodes[i]);
        if (!status) continue;
        const char *scope = g->nodes[i].scope;
        return plb_fail_context(status, "node %s (%s)", *scope ? scope : "?",
                                plb_op_of(g->nodes[i].op)->name);
    }
    pass_outputs_on(w);
    return w->status;
}

// ---------------------------------------------------------------------------- the file
static plb_status write_model(plb_onnx_writer *w, const char *path, bool external,
                              plb_onnx_written *out) {
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    Onnx__OperatorSetIdProto set = ONNX__OPERATOR_SET_ID_PROTO__INIT, *sets[] = {&set};
    char domain[1] = "", producer[] = "plumb", version[] = PLUMB_VERSION;
    set.domain = domain, set.has_version = 1, set.version = OPSET;
    model.has_ir_version = 1, model.ir_version = IR_VERSION;
    model.opset_import = sets, model.n_opset_import = 1;
    model.producer_name = producer, model.producer_version = version;
    model.graph = w->proto;
    out->nodes = (int64_t)w->proto->n_node;
    out->initializers = (int64_t)w->proto->n_initializer;
    out->opset = OPSET;
    return plb_onnx_store(&model, w->proto, w->arena, path, external, out);
}

static plb_status write_lowered(plb_graph *lowered, const char *path, bool external,
                                plb_onnx_written *out) {
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    plb_onnx_writer w = {.graph = lowered,
                         .arena = plb_arena_new(),
                         .proto = &graph,
                         .taken = plb_map_new(),
                         .name = plb_alloc_array((size_t)lowered->n_values + 1, sizeof *w.name),
                         .needed = plb_alloc_array((size_t)lowered->n_values + 1, 1)};
    char *name =
        w.arena ? plb_arena_strdup(w.arena, *lowered->name ? lowered->name : "plumb") : NULL;
    plb_status status = PLB_OK;
    graph.name = name;
    if (!name || !w.taken || !w.name || !w.needed) {
        status = plb_fail(PLB_ENOMEM, "out of memory for a file");
    }
    if (!status) status = write_graph(&w);
    if (status) status = plb_fail_context(status, "%s", path);
    if (!status) status = write_model(&w, path, external, out);
    plb_free(w.needed);
    plb_free(w.name);
    plb_map_free(w.taken);
    plb_arena_free(w.arena);
    return status;
}

plb_status plb_onnx_write(const plb_graph *graph, const char *path, bool external,
                          plb_onnx_written *out) {
    plb_graph *lowered = NULL;
    *out = (plb_onnx_written){0};
    plb_status status = plb_onnx_lower(graph, &lowered);
    if (status) return plb_fail_context(status, "%s", path);
    status = write_lowered(lowered, path, external, out);
    plb_graph_free(lowered);
    return status;
}
