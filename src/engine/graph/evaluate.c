// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "plumb/ops.h"

// The largest value that is computed while building, and the most work for one node.
enum { MAX_ELEMENTS = 1 << 22 };
#define MAX_FLOPS 1e9

struct plb_evaluator {
    const plb_graph *graph;
    plb_evaluate_input input;
    void *context;
    plb_arena *arena;   // of results
    plb_tensor *known;  // of each value; data is NULL where it is not (yet)
    int known_capacity; // of values
    int *stack, *order; // nodes: to be looked at; to be run
    int stack_capacity, order_capacity;
    bool *seen; // of each node
    int seen_capacity;
};

plb_evaluator *plb_evaluator_new(const plb_graph *graph, plb_evaluate_input input, void *context) {
    plb_evaluator *e = plb_alloc(sizeof *e);
    if (!e) return NULL;
    *e = (plb_evaluator){.graph = graph, .input = input, .context = context};
    e->arena = plb_arena_new();
    if (e->arena) return e;
    plb_free(e);
    return NULL;
}

void plb_evaluator_free(plb_evaluator *evaluator) {
    if (!evaluator) return;
    plb_arena_free(evaluator->arena);
    plb_free(evaluator->known);
    plb_free(evaluator->stack);
    plb_free(evaluator->order);
    plb_free(evaluator->seen);
    plb_free(evaluator);
}

static plb_status reserve(plb_evaluator *e) {
    int before = e->known_capacity, values = e->graph->n_values, nodes = e->graph->n_nodes;
    PLB_TRY(plb_reserve(&e->known, &e->known_capacity, values + 1, sizeof *e->known));
    for (int i = before; i < e->known_capacity; i++) e->known[i] = (plb_tensor){0};
    PLB_TRY(plb_reserve(&e->stack, &e->stack_capacity, nodes + 1, sizeof *e->stack));
    PLB_TRY(plb_reserve(&e->order, &e->order_capacity, nodes + 1, sizeof *e->order));
    PLB_TRY(plb_reserve(&e->seen, &e->seen_capacity, nodes + 1, sizeof *e->seen));
    memset(e->seen, 0, (size_t)nodes + 1);
    return PLB_OK;
}

static bool is_small(const plb_evaluator *e, const plb_node *node) {
    plb_type in[16];
    const plb_op *op = plb_op_of(node->op);
    for (int k = 0; k < node->n_out; k++) {
        if (plb_shape_count(&e->graph->values[node->out + k].type.shape) > MAX_ELEMENTS) {
            return false;
        }
    }
    if (node->op == PLB_OP_sort || node->op == PLB_OP_top_k) { // by definition, which is quadratic
        const plb_shape x = plb_value_shape(e->graph, node->in[0]);
        const int64_t axis = ((const plb_axis_attrs *)node->attrs)->axis;
        const double line = x.rank ? (double)x.dim[axis < 0 ? axis + x.rank : axis] : 1;
        if ((double)plb_shape_count(&x) * line > (double)MAX_FLOPS) return false;
    }
    if (!op->flops || node->n_in > 16) return true;
    for (int k = 0; k < node->n_in; k++) in[k] = plb_value_type(e->graph, node->in[k]);
    plb_type out[PLB_MAX_OUTPUTS];
    for (int k = 0; k < node->n_out; k++) out[k] = e->graph->values[node->out + k].type;
    plb_signature s = {node->attrs, node->n_in, node->n_out, in, out};
    return op->flops(&s) <= MAX_FLOPS;
}

// The value of a node that is not computed, if it is known.
static bool source(plb_evaluator *e, const plb_node *node) {
    plb_tensor *to = &e->known[node->out];
    if (node->op == PLB_OP_input) return e->input && e->input(e->context, node->out, to);
    const void *data = NULL;
    plb_type type = e->graph->values[node->out].type;
    if (node->op == PLB_OP_constant) data = ((const plb_constant_attrs *)node->attrs)->data;
    if (node->op == PLB_OP_read) {
        const plb_variable *v =
            &e->graph->model->variables[((const plb_variable_attrs *)node->attrs)->variable];
        if (plb_shape_count(&type.shape) > MAX_ELEMENTS || !v->source) return false;
        // A copy, since a source may lie at any address.
        size_t size = plb_layout_bytes(&type.shape, type.dtype, (plb_layout){0});
        data = plb_arena_copy(e->arena, v->source, size);
    }
    if (!data) return false;
    *to = plb_tensor_dense((void *)(uintptr_t)data, type.dtype, &type.shape, (plb_layout){0});
    return true;
}

// Collects the nodes to run for `value`; false if one of them cannot be known.
static bool collect(plb_evaluator *e, plb_value value, int *n_order) {
    const plb_graph *g = e->graph;
    int n_stack = 0;
    *n_order = 0;
    e->stack[n_stack++] = g->values[value].node;
    e->seen[g->values[value].node] = true;
    while (n_stack) {
        int index = e->stack[--n_stack];
        const plb_node *node = &g->nodes[index];
        if (e->known[node->out].data) continue;
        const plb_op *op = plb_op_of(node->op);
        if (op->flags & PLB_OP_FRAME) {
            if (!source(e, node)) return false;
            continue;
        }
        if ((op->flags & PLB_OP_RANDOM) || node->region[0] || !is_small(e, node)) return false;
        e->order[(*n_order)++] = index;
        for (int k = 0; k < node->n_in; k++) {
            if (node->in[k] < 0) continue;
            int from = g->values[node->in[k]].node;
            if (e->seen[from]) continue;
            e->seen[from] = true;
            e->stack[n_stack++] = from;
        }
    }
    return true;
}

static int ascending(const void *a, const void *b) {
    const int i = *(const int *)a, j = *(const int *)b;
    return (i > j) - (i < j);
}

static plb_status run(plb_evaluator *e, const plb_node *node) {
    size_t n_in = (size_t)node->n_in;
    plb_tensor *in = plb_arena_alloc(e->arena, (n_in + 1) * sizeof *in);
    if (!in) return plb_fail(PLB_ENOMEM, "out of memory for a value");
    for (int k = 0; k < node->n_in; k++) {
        in[k] = node->in[k] < 0 ? (plb_tensor){.dtype = PLB_DTYPE_COUNT} : e->known[node->in[k]];
    }
    plb_tensor out[PLB_MAX_OUTPUTS];
    for (int k = 0; k < node->n_out; k++) {
        plb_type type = e->graph->values[node->out + k].type;
        size_t size = plb_layout_bytes(&type.shape, type.dtype, (plb_layout){0});
        void *memory = plb_arena_alloc(e->arena, size + 8);
        if (!memory) return plb_fail(PLB_ENOMEM, "out of memory for a value");
        out[k] = plb_tensor_dense(memory, type.dtype, &type.shape, (plb_layout){0});
    }
    plb_call call = {.attrs = node->attrs,
                     .n_in = node->n_in,
                     .n_out = node->n_out,
                     .in = in,
                     .out = out,
                     .threads = 1};
    PLB_TRY(plb_op_of(node->op)->ref(&call));
    for (int k = 0; k < node->n_out; k++) e->known[node->out + k] = out[k];
    return PLB_OK;
}

plb_status plb_evaluate(plb_evaluator *evaluator, plb_value value, bool *known, plb_tensor *out) {
    plb_evaluator *e = evaluator;
    int n_order;
    *known = false;
    if (value < 0) return PLB_OK;
    PLB_TRY(reserve(e));
    if (!e->known[value].data) {
        if (!collect(e, value, &n_order)) return PLB_OK;
        qsort(e->order, (size_t)n_order, sizeof *e->order, ascending);
        for (int i = 0; i < n_order; i++) {
            plb_status status = run(e, &e->graph->nodes[e->order[i]]);
            if (status) return status;
        }
    }
    *known = true;
    *out = e->known[value];
    return PLB_OK;
}
