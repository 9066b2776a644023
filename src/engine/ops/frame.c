// SPDX-License-Identifier: Apache-2.0
// The frame of a program: where values come from and go to. Executors bind these nodes to memory;
// no kernel computes them.
#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "engine/graph/graph.h"

static plb_status never_inferred(plb_signature *s) {
    (void)s;
    return plb_fail(PLB_EBROKEN, "types of the frame's ops are given, not inferred");
}

const plb_op plb_op_input = {.name = "input",
                             .flags = PLB_OP_FRAME,
                             .infer = never_inferred,
                             .attrs_bytes = sizeof(plb_input_attrs)};
const plb_op plb_op_constant = {.name = "constant",
                                .flags = PLB_OP_FRAME,
                                .infer = never_inferred,
                                .attrs_bytes = sizeof(plb_constant_attrs)};
const plb_op plb_op_read = {.name = "read",
                            .flags = PLB_OP_FRAME,
                            .infer = never_inferred,
                            .attrs_bytes = sizeof(plb_variable_attrs)};
const plb_op plb_op_assign = {.name = "assign",
                              .flags = PLB_OP_FRAME,
                              .infer = never_inferred,
                              .min_in = 1,
                              .max_in = 1,
                              .attrs_bytes = sizeof(plb_variable_attrs)};

static plb_value append_source(plb_graph *graph, plb_op_id op, const void *attrs,
                               const plb_type *type) {
    if (graph->status) return PLB_NONE;
    plb_status status = plb_shape_check(&type->shape);
    if (!status && !plb_dtype_size(type->dtype)) {
        status = plb_fail(PLB_EUNSUPPORTED, "dtype %s is reserved", plb_dtype_name(type->dtype));
    }
    if (status) return plb_graph_fail(graph, status);
    plb_node node = {.op = op, .n_out = 1, .attrs = attrs, .scope = plb_scope(graph)};
    return plb_append_node(graph, &node, type);
}

static bool input_exists(const plb_graph *graph, const char *name) {
    for (int i = 0; i < graph->n_nodes; i++) {
        const plb_node *node = &graph->nodes[i];
        if (node->op != PLB_OP_input) continue;
        if (strcmp(((const plb_input_attrs *)node->attrs)->name, name) == 0) return true;
    }
    return false;
}

plb_value plb_input(plb_graph *graph, const char *name, plb_dtype dtype, const plb_shape *shape) {
    if (input_exists(graph, name)) {
        return plb_graph_fail(graph, plb_fail(PLB_EINVAL, "input %s: there is one already", name));
    }
    plb_input_attrs attrs = {plb_arena_strdup(graph->arena, name)};
    if (!attrs.name) return plb_graph_fail(graph, plb_fail(PLB_ENOMEM, "out of memory"));
    return append_source(graph, PLB_OP_input, &attrs, &(plb_type){dtype, *shape});
}

plb_value plb_constant(plb_graph *graph, plb_dtype dtype, const plb_shape *shape,
                       const void *data) {
    if (graph->status) return PLB_NONE;
    plb_constant_attrs attrs = {.type = {dtype, *shape}};
    plb_status status = plb_shape_check(shape);
    if (!status) {
        size_t size = plb_layout_bytes(shape, dtype, (plb_layout){0});
        attrs.data = plb_arena_copy(graph->arena, data, size);
        if (!attrs.data) status = plb_fail(PLB_ENOMEM, "out of memory for a constant");
    }
    if (status) return plb_graph_fail(graph, status);
    return append_source(graph, PLB_OP_constant, &attrs, &attrs.type);
}

plb_value plb_scalar(plb_graph *graph, plb_dtype dtype, double value) {
    double place[2] = {0};                                        // as large as any element
    if (graph->status) return PLB_NONE;                           // dtype may be that of no value
    if (dtype <= PLB_BOOL) plb_store_f64(place, dtype, 0, value); // else refused below
    return plb_constant(graph, dtype, &plb_scalar_shape, place);
}

static bool variable_exists(plb_graph *graph, int variable) {
    if (variable >= 0 && variable < graph->model->n_variables) return true;
    plb_graph_fail(graph, plb_fail(PLB_EINVAL, "variable %d: the model has %d", variable,
                                   graph->model->n_variables));
    return false;
}

plb_value plb_read(plb_graph *graph, int variable) {
    if (graph->status || !variable_exists(graph, variable)) return PLB_NONE;
    return append_source(graph, PLB_OP_read, &(plb_variable_attrs){variable},
                         &graph->model->variables[variable].type);
}

plb_value plb_param(plb_graph *graph, const char *name, plb_dtype dtype, const plb_shape *shape,
                    plb_role role, plb_init init) {
    if (graph->status) return PLB_NONE;
    const char *scope = plb_scope(graph);
    char full[512];
    int length = snprintf(full, sizeof full, "%s%s%s", scope, *scope ? "." : "", name);
    if (length >= (int)sizeof full) { // what is cut may be another's name
        return plb_graph_fail(graph,
                              plb_fail(PLB_EINVAL, "%.40s...: a name of %d bytes, at most %d", name,
                                       length, (int)sizeof full - 1));
    }
    int index;
    plb_status status =
        plb_model_variable(graph->model, full, &(plb_type){dtype, *shape}, role, init, &index);
    if (status) return plb_graph_fail(graph, status);
    return plb_read(graph, index);
}

void plb_assign(plb_graph *graph, int variable, plb_value value) {
    if (graph->status || !variable_exists(graph, variable)) return;
    const plb_variable *v = &graph->model->variables[variable];
    plb_type type = plb_value_type(graph, value);
    if (type.dtype != v->type.dtype || !plb_shape_equal(&type.shape, &v->type.shape)) {
        char s[160], t[160];
        plb_graph_fail(graph, plb_fail(PLB_EINVAL, "assign to %s: expected %s %s, found %s %s",
                                       v->name, plb_dtype_name(v->type.dtype),
                                       plb_shape_format(&v->type.shape, s, sizeof s),
                                       plb_dtype_name(type.dtype),
                                       plb_shape_format(&type.shape, t, sizeof t)));
        return;
    }
    plb_node node = {.op = PLB_OP_assign,
                     .n_in = 1,
                     .in = &value,
                     .scope = plb_scope(graph),
                     .attrs = &(plb_variable_attrs){variable}};
    plb_append_node(graph, &node, NULL);
}

int plb_value_variable(const plb_graph *graph, plb_value value) {
    if (value < 0 || value >= graph->n_values) return -1;
    const plb_node *node = &graph->nodes[graph->values[value].node];
    return node->op == PLB_OP_read ? ((const plb_variable_attrs *)node->attrs)->variable : -1;
}
