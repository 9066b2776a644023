// SPDX-License-Identifier: Apache-2.0
// The graph builder: arrays that grow, an arena for what nodes point to, and one sticky error.
#include "engine/graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

plb_status plb_reserve(void *array_pointer, int *capacity, int need, size_t size_bytes) {
    if (need <= *capacity) return PLB_OK;
    int grown = *capacity < 8 ? 16 : *capacity * 2;
    if (grown < need) grown = need;
    void *array;
    memcpy(&array, array_pointer, sizeof array);
    array = plb_realloc_array(array, (size_t)grown, size_bytes);
    if (!array) return plb_fail(PLB_ENOMEM, "out of memory for %d elements", grown);
    memcpy(array_pointer, &array, sizeof array);
    *capacity = grown;
    return PLB_OK;
}

plb_graph *plb_graph_new(plb_model *model, const char *name) {
    plb_graph *graph = plb_alloc(sizeof *graph);
    if (!graph) return NULL;
    graph->model = model;
    graph->arena = plb_arena_new();
    graph->name = graph->arena ? plb_arena_strdup(graph->arena, name) : NULL;
    if (!graph->name) {
        plb_graph_free(graph);
        return NULL;
    }
    return graph;
}

void plb_graph_free(plb_graph *graph) {
    if (!graph) return;
    for (int i = 0; i < graph->n_nodes && !graph->borrows_regions; i++) {
        for (int r = 0; r < PLB_MAX_REGIONS; r++) plb_graph_free(graph->nodes[i].region[r]);
    }
    plb_free(graph->nodes);
    plb_free(graph->values);
    plb_free(graph->outputs);
    plb_free(graph->scopes);
    plb_arena_free(graph->arena);
    plb_free(graph);
}

plb_value plb_graph_fail(plb_graph *graph, plb_status status) {
    if (graph->status) return PLB_NONE;
    graph->status = status;
    const char *scope = plb_scope(graph);
    graph->error =
        plb_arena_printf(graph->arena, "%s%s%s", scope, *scope ? ": " : "", plb_error_text());
    return PLB_NONE;
}

plb_status plb_graph_status(const plb_graph *graph) {
    if (!graph->status) return PLB_OK;
    return plb_fail(graph->status, "%s: %s", graph->name,
                    graph->error ? graph->error : "out of memory");
}

plb_model *plb_graph_model(const plb_graph *graph) {
    return graph->model;
}

void plb_graph_set_training(plb_graph *graph, bool training) {
    graph->training = training;
}

bool plb_graph_training(const plb_graph *graph) {
    return graph->training;
}

// ---------------------------------------------------------------------------- scopes
void plb_scope_push(plb_graph *graph, const char *format, ...) {
    char part[256];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(part, sizeof part, format, args);
    va_end(args);
    if (length >= (int)sizeof part) { // entered cut, for the pop that follows
        plb_graph_fail(graph, plb_fail(PLB_EINVAL, "scope %.40s...: a name of %d bytes, at most %d",
                                       part, length, (int)sizeof part - 1));
    }
    const char *outer = plb_scope(graph);
    const char *scope = plb_arena_printf(graph->arena, "%s%s%s", outer, *outer ? "." : "", part);
    plb_scope_enter(graph, scope);
}

void plb_scope_enter(plb_graph *graph, const char *scope) {
    plb_status status = plb_reserve(&graph->scopes, &graph->scopes_capacity, graph->n_scopes + 1,
                                    sizeof *graph->scopes);
    if (!scope) status = plb_fail(PLB_ENOMEM, "out of memory for a scope");
    if (status) {
        plb_graph_fail(graph, status);
        return;
    }
    graph->scopes[graph->n_scopes++] = scope;
}

void plb_scope_pop(plb_graph *graph) {
    if (graph->n_scopes) graph->n_scopes--;
}

const char *plb_scope(const plb_graph *graph) {
    return graph->n_scopes ? graph->scopes[graph->n_scopes - 1] : "";
}

// ---------------------------------------------------------------------------- nodes
static void zero_unused_of_shape(plb_shape *shape) {
    plb_shape used;
    memset(&used, 0, sizeof used);
    used.rank = shape->rank;
    for (int i = 0; i < shape->rank && i < PLB_MAX_RANK; i++) used.dim[i] = shape->dim[i];
    memcpy(shape, &used, sizeof used);
}

static void zero_unused_of_type(plb_type *type) {
    plb_type used;
    memset(&used, 0, sizeof used);
    used.dtype = type->dtype;
    memcpy(&used.shape, &type->shape, sizeof used.shape);
    zero_unused_of_shape(&used.shape);
    memcpy(type, &used, sizeof used);
}

// NULL when out of memory.
static const void *copy_attrs(plb_graph *graph, const plb_op *op, const void *attrs) {
    char *copy = plb_arena_alloc(graph->arena, op->attrs_bytes);
    if (!copy) return NULL;
    memcpy(copy, attrs, op->attrs_bytes);
    if (op->shape_at) zero_unused_of_shape((plb_shape *)(void *)(copy + op->shape_at - 1));
    plb_type *types = op->n_types ? (plb_type *)(void *)(copy + op->types_at - 1) : NULL;
    for (int i = 0; i < op->n_types; i++) zero_unused_of_type(&types[i]);
    return copy;
}

plb_value plb_append_node(plb_graph *graph, const plb_node *node, const plb_type *out_types) {
    plb_node copy = *node;
    const plb_op *op = plb_op_of(node->op);
    copy.in = plb_arena_copy(graph->arena, node->in, (size_t)node->n_in * sizeof *node->in);
    copy.attrs = op->attrs_bytes ? copy_attrs(graph, op, node->attrs) : NULL;
    copy.scope = plb_arena_strdup(graph->arena, node->scope);
    copy.out = graph->n_values;
    copy.backward |= graph->differentiating;
    plb_status status = PLB_OK;
    if (!copy.in || (op->attrs_bytes && !copy.attrs) || !copy.scope) {
        status = plb_fail(PLB_ENOMEM, "out of memory for a node");
    }
    if (!status) {
        status = plb_reserve(&graph->nodes, &graph->nodes_capacity, graph->n_nodes + 1,
                             sizeof *graph->nodes);
    }
    if (!status) {
        status = plb_reserve(&graph->values, &graph->values_capacity, graph->n_values + node->n_out,
                             sizeof *graph->values);
    }
    if (status) return plb_graph_fail(graph, status);
    for (int i = 0; i < node->n_out; i++) {
        graph->values[graph->n_values++] =
            (plb_value_info){.type = out_types[i], .node = graph->n_nodes, .count = PLB_NONE};
    }
    graph->nodes[graph->n_nodes++] = copy;
    return copy.n_out ? copy.out : PLB_NONE;
}

enum { MAX_IN = 1024 }; // of a concat

static plb_status node_types(const plb_graph *graph, const plb_op *op, const plb_value *in,
                             int n_in, plb_type *types) {
    if (n_in < op->min_in || n_in > op->max_in) {
        return plb_fail(PLB_EINVAL, "%s: expected %d to %d inputs, found %d", op->name, op->min_in,
                        op->max_in, n_in);
    }
    for (int i = 0; i < n_in; i++) {
        if (in[i] >= graph->n_values || in[i] < PLB_NONE) {
            return plb_fail(PLB_EINVAL, "%s: input %d is no value of this graph", op->name, i);
        }
        types[i] =
            in[i] == PLB_NONE ? (plb_type){.dtype = PLB_DTYPE_COUNT} : graph->values[in[i]].type;
        bool optional = i >= op->min_in || (i < 32 && op->optional_in >> i & 1u);
        if (in[i] == PLB_NONE && !optional) {
            return plb_fail(PLB_EINVAL, "%s: input %d is missing", op->name, i);
        }
    }
    return PLB_OK;
}

static plb_status infer(const plb_op *op, plb_signature *s) {
    PLB_TRY(op->infer(s));
    for (int i = 0; i < s->n_out; i++) {
        plb_status status = plb_shape_check(&s->out[i].shape);
        if (status) return plb_fail_context(status, "%s", op->name);
        if (!plb_dtype_size(s->out[i].dtype)) {
            return plb_fail(PLB_EUNSUPPORTED, "%s: dtype %s is reserved", op->name,
                            plb_dtype_name(s->out[i].dtype));
        }
    }
    return PLB_OK;
}

plb_value plb_emit(plb_graph *graph, plb_op_id id, const plb_value *in, int n_in,
                   const void *attrs) {
    if (graph->status) return PLB_NONE;
    const plb_op *op = plb_op_of(id);
    plb_type types[16], *in_types = types, out_types[PLB_MAX_OUTPUTS];
    if (n_in > MAX_IN) {
        return plb_graph_fail(graph, plb_fail(PLB_EINVAL, "%s: %d inputs", op->name, n_in));
    }
    if (n_in > 16) in_types = plb_arena_alloc(graph->arena, (size_t)n_in * sizeof *in_types);
    if (!in_types) return plb_graph_fail(graph, plb_fail(PLB_ENOMEM, "out of memory"));
    plb_status status = node_types(graph, op, in, n_in, in_types);
    plb_signature s = {.attrs = attrs, .n_in = n_in, .n_out = 1, .in = in_types, .out = out_types};
    if (!status) status = infer(op, &s);
    if (status) return plb_graph_fail(graph, status);
    plb_node node = {.op = id,
                     .n_in = n_in,
                     .n_out = s.n_out,
                     .in = in,
                     .attrs = attrs,
                     .scope = plb_scope(graph)};
    return plb_append_node(graph, &node, out_types);
}

plb_value plb_node_in(const plb_graph *graph, int node, int i) {
    return i < graph->nodes[node].n_in ? graph->nodes[node].in[i] : PLB_NONE;
}

plb_value plb_node_out(const plb_graph *graph, int node, int i) {
    return graph->nodes[node].out + i;
}

const void *plb_node_attrs(const plb_graph *graph, int node) {
    return graph->nodes[node].attrs;
}

bool plb_node_is_effect(const plb_node *node) {
    return node->op == PLB_OP_assign || node->op == PLB_OP_input;
}

bool plb_read_outlives_assign(const plb_graph *graph, int index, bool *seen) {
    int variable = ((const plb_variable_attrs *)graph->nodes[index].attrs)->variable;
    memset(seen, 0, (size_t)graph->n_values);
    seen[graph->nodes[index].out] = true;
    bool assigned = false;
    for (int i = index + 1; i < graph->n_nodes; i++) {
        const plb_node *node = &graph->nodes[i];
        for (int k = 0; k < node->n_in; k++) {
            if (node->in[k] < 0 || !seen[node->in[k]]) continue;
            if (assigned) return true;
            if (plb_op_of(node->op)->flags & PLB_OP_VIEW) seen[node->out] = true;
        }
        assigned |= node->op == PLB_OP_assign &&
                    ((const plb_variable_attrs *)node->attrs)->variable == variable;
    }
    for (int i = 0; i < graph->n_outputs && assigned; i++) {
        if (seen[graph->outputs[i].value]) return true;
    }
    return false;
}

// ---------------------------------------------------------------------------- values
plb_type plb_value_type(const plb_graph *graph, plb_value value) {
    if (value < 0 || value >= graph->n_values) return (plb_type){.dtype = PLB_DTYPE_COUNT};
    return graph->values[value].type;
}

plb_shape plb_value_shape(const plb_graph *graph, plb_value value) {
    return plb_value_type(graph, value).shape;
}

plb_value plb_value_count(const plb_graph *graph, plb_value value) {
    return value < 0 || value >= graph->n_values ? PLB_NONE : graph->values[value].count;
}

void plb_output(plb_graph *graph, const char *name, plb_value value) {
    if (graph->status) return;
    plb_status status = PLB_OK;
    if (value < 0 || value >= graph->n_values) {
        status = plb_fail(PLB_EINVAL, "output %s: no value of this graph", name);
    }
    for (int i = 0; i < graph->n_outputs && !status; i++) {
        if (strcmp(graph->outputs[i].name, name) == 0) {
            status = plb_fail(PLB_EINVAL, "output %s: there is one of that name already", name);
        }
    }
    if (!status) {
        status = plb_reserve(&graph->outputs, &graph->outputs_capacity, graph->n_outputs + 1,
                             sizeof *graph->outputs);
    }
    char *copy = plb_arena_strdup(graph->arena, name);
    if (!status && !copy) status = plb_fail(PLB_ENOMEM, "out of memory for an output");
    if (status) {
        plb_graph_fail(graph, status);
        return;
    }
    graph->outputs[graph->n_outputs++] = (plb_graph_output){copy, value};
}
