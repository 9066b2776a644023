// SPDX-License-Identifier: Apache-2.0
// A graph around one op, in f64, for its gradients: a loss of its outputs with fixed weights, what
// autodiff appends, and an evaluator that knows nothing but `ref`.
#ifndef PLB_TESTS_ENGINE_OP_GRAPH_H
#define PLB_TESTS_ENGINE_OP_GRAPH_H

#include "engine/graph/graph.h"
#include "op_case.h"
#include "plumb/ops.h"

typedef struct op_graph {
    const op_case *c; // its f64 case
    plb_model *model;
    plb_graph *graph;
    plb_value in[PLB_SAMPLE_INPUTS];
    plb_value out[PLB_MAX_OUTPUTS];
    plb_value loss;
    plb_value grad[PLB_SAMPLE_INPUTS];  // of loss; PLB_NONE: zero, or not asked
    plb_value slope;                    // sum of grad * fixed directions; PLB_NONE: no grad
    plb_value grad2[PLB_SAMPLE_INPUTS]; // of slope
    bool second;                        // there is a second order
    plb_tensor *value;
    int n_values; // with memory
} op_graph;

enum { OP_STREAM_WEIGHT = 100, OP_STREAM_DIRECTION = 200 };

// In [-1, 1), of a fixed stream of the case.
static inline double op_graph_number(const op_case *c, int stream, int64_t i) {
    return 2 * op_case_uniform(op_case_key(c), (uint64_t)stream, i) - 1;
}

static inline plb_value op_graph_numbers(op_graph *g, int stream, const plb_shape *shape) {
    int64_t n = plb_shape_count(shape);
    double *data = malloc((size_t)(n + 1) * sizeof *data);
    if (!data) abort();
    for (int64_t i = 0; i < n; i++) data[i] = op_graph_number(g->c, stream, i);
    plb_value value = plb_constant(g->graph, PLB_F64, shape, data);
    free(data);
    return value;
}

static inline plb_value op_graph_dot(op_graph *g, plb_value a, int stream) {
    plb_shape shape = plb_value_shape(g->graph, a);
    plb_value weighted = plb_mul(g->graph, a, op_graph_numbers(g, stream, &shape));
    return plb_sum(g->graph, weighted, 0, false);
}

static inline plb_value op_graph_add(op_graph *g, plb_value a, plb_value b) {
    return a == PLB_NONE ? b : plb_add(g->graph, a, b);
}

static inline bool op_graph_wanted(const op_case *c, int k) {
    bool refused = c->sample->no_gradient_of >> k & 1;
    return c->in[k].data && plb_dtype_is_float(c->in_type[k].dtype) && !refused;
}

// loss = sum w out, or with `curved` sum w (out + out^2 / 2), over all f64 outputs.
static inline void op_graph_loss(op_graph *g, bool curved) {
    g->loss = PLB_NONE;
    for (int k = 0; k < g->c->n_out; k++) {
        if (!plb_dtype_is_float(g->c->out_type[k].dtype)) continue;
        plb_value y = plb_cast(g->graph, g->out[k], PLB_F64);
        if (curved) y = plb_add(g->graph, y, plb_affine(g->graph, plb_mul(g->graph, y, y), 0.5, 0));
        g->loss = op_graph_add(g, g->loss, op_graph_dot(g, y, OP_STREAM_WEIGHT + k));
    }
}

static inline void op_graph_first_order(op_graph *g) {
    plb_value wrt[PLB_SAMPLE_INPUTS], grad[PLB_SAMPLE_INPUTS];
    int which[PLB_SAMPLE_INPUTS], n = 0;
    for (int k = 0; k < g->c->n_in; k++) {
        g->grad[k] = PLB_NONE;
        if (op_graph_wanted(g->c, k)) wrt[n] = g->in[k], which[n++] = k;
    }
    if (n && g->loss != PLB_NONE) plb_gradients(g->graph, g->loss, wrt, n, grad);
    for (int i = 0; i < n && g->loss != PLB_NONE; i++) g->grad[which[i]] = grad[i];
}

static inline void op_graph_second_order(op_graph *g) {
    g->slope = PLB_NONE;
    for (int k = 0; k < g->c->n_in; k++) {
        g->grad2[k] = PLB_NONE;
        if (g->grad[k] == PLB_NONE) continue;
        g->slope = op_graph_add(g, g->slope, op_graph_dot(g, g->grad[k], OP_STREAM_DIRECTION + k));
    }
    if (g->slope == PLB_NONE) return;
    plb_value wrt[PLB_SAMPLE_INPUTS], grad[PLB_SAMPLE_INPUTS];
    for (int k = 0; k < g->c->n_in; k++) wrt[k] = op_graph_wanted(g->c, k) ? g->in[k] : PLB_NONE;
    plb_gradients(g->graph, g->slope, wrt, g->c->n_in, grad);
    for (int k = 0; k < g->c->n_in; k++) g->grad2[k] = grad[k];
}

static inline void op_graph_storage(op_graph *g) {
    const plb_graph *graph = g->graph;
    g->n_values = graph->n_values;
    g->value = calloc((size_t)g->n_values + 1, sizeof *g->value);
    if (!g->value) abort();
    for (int i = 0; i < g->n_values; i++) {
        g->value[i] = op_case_tensor(&graph->values[i].type, 0xa5);
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        const plb_node *node = &graph->nodes[i];
        if (node->op != PLB_OP_constant) continue;
        const plb_constant_attrs *attrs = node->attrs;
        size_t size = plb_layout_bytes(&attrs->type.shape, attrs->type.dtype, (plb_layout){0});
        if (size) memcpy(g->value[node->out].data, attrs->data, size);
    }
}

// Builds everything; PLB_OK or the graph's failure. `c` is an f64 case and must stay open.
static inline plb_status op_graph_open(op_graph *g, const op_case *c, bool second) {
    *g = (op_graph){.c = c, .second = second};
    g->model = plb_model_new();
    if (!g->model) return PLB_ENOMEM;
    plb_status status = plb_model_program(g->model, "test", &g->graph);
    if (status) return status;
    for (int k = 0; k < c->n_in; k++) {
        char name[16];
        snprintf(name, sizeof name, "in%d", k);
        g->in[k] = c->in[k].data
                       ? plb_input(g->graph, name, c->in_type[k].dtype, &c->in_type[k].shape)
                       : PLB_NONE;
    }
    plb_value first = plb_emit(g->graph, c->id, g->in, c->n_in, c->sample->attrs);
    for (int k = 0; k < c->n_out; k++) g->out[k] = first + k;
    op_graph_loss(g, second);
    op_graph_first_order(g);
    if (second) op_graph_second_order(g);
    status = plb_graph_status(g->graph);
    if (!status) op_graph_storage(g);
    return status;
}

static inline void op_graph_close(op_graph *g) {
    for (int i = 0; i < g->n_values; i++) op_case_tensor_free(&g->value[i]);
    free(g->value);
    plb_model_free(g->model);
}

// Puts the case's inputs in, input `moved` shifted by `step` along the fixed direction.
static inline void op_graph_inputs(op_graph *g, int moved, double step) {
    for (int k = 0; k < g->c->n_in; k++) {
        const plb_tensor *from = &g->c->in[k];
        if (!from->data) continue;
        size_t size = plb_layout_bytes(&from->shape, from->dtype, from->layout);
        plb_tensor *to = &g->value[g->in[k]];
        if (size) memcpy(to->data, from->data, size);
        int64_t n = k == moved ? plb_shape_count(&from->shape) : 0;
        for (int64_t i = 0; i < n; i++) {
            ((double *)to->data)[i] += step * op_graph_number(g->c, OP_STREAM_DIRECTION + k, i);
        }
    }
}

// Runs `ref` of every node up to the one that makes `last`.
static inline plb_status op_graph_run(op_graph *g, plb_value last) {
    const plb_graph *graph = g->graph;
    for (int i = 0; i <= graph->values[last].node; i++) {
        const plb_node *node = &graph->nodes[i];
        const plb_op *op = plb_op_of(node->op);
        if (op->flags & PLB_OP_FRAME) continue;
        plb_tensor in[PLB_SAMPLE_INPUTS];
        if (node->n_in > PLB_SAMPLE_INPUTS) return PLB_EUNSUPPORTED;
        for (int k = 0; k < node->n_in; k++) {
            in[k] = node->in[k] == PLB_NONE ? (plb_tensor){.dtype = PLB_DTYPE_COUNT}
                                            : g->value[node->in[k]];
        }
        plb_call call = {.attrs = node->attrs,
                         .n_in = node->n_in,
                         .n_out = node->n_out,
                         .in = in,
                         .out = &g->value[node->out],
                         .threads = 1};
        plb_status status = op->ref(&call);
        if (status) return status;
    }
    return PLB_OK;
}

static inline double op_graph_scalar(const op_graph *g, plb_value value) {
    return *(const double *)g->value[value].data;
}

#endif
