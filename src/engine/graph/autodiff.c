// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation, graph to graph (Griewank, Walther: "Evaluating Derivatives",
// 2008, chapter 3). Nodes are visited last to first; each op's grad appends nodes that map the
// gradients of its outputs to those of its inputs; what several consumers contribute is added.
// The result is ordinary graph, so it is planned and profiled like the rest and differentiates
// again.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/graph.h"
#include "plumb/ops.h"

typedef struct reverse {
    plb_graph *graph;
    int n_values;      // of the graph before gradients were appended
    plb_value *dvalue; // gradient of each of them so far, or PLB_NONE
    bool *reaches;     // whether a value depends on some wrt
} reverse;

static void mark_dependents(reverse *r, const plb_value *wrt, int n) {
    const plb_graph *graph = r->graph;
    for (int i = 0; i < n; i++) {
        if (wrt[i] >= 0 && wrt[i] < r->n_values) r->reaches[wrt[i]] = true;
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        const plb_node *node = &graph->nodes[i];
        if (plb_op_of(node->op)->flags & PLB_OP_NO_GRAD) continue;
        bool any = false;
        for (int k = 0; k < node->n_in; k++) any |= node->in[k] >= 0 && r->reaches[node->in[k]];
        for (int k = 0; k < node->n_out && any; k++) {
            r->reaches[node->out + k] |=
                plb_dtype_is_float(graph->values[node->out + k].type.dtype);
        }
    }
}

static void accumulate(reverse *r, plb_value value, plb_value gradient) {
    if (gradient == PLB_NONE) return;
    plb_value *sum = &r->dvalue[value];
    *sum = *sum == PLB_NONE ? gradient : plb_add(r->graph, *sum, gradient);
}

enum { MAX_GRAD_IN = 256 };

static void visit(reverse *r, int index) {
    plb_graph *graph = r->graph;
    const plb_node node = graph->nodes[index]; // a copy: the array moves while grad appends
    const plb_op *op = plb_op_of(node.op);
    if (op->flags & (PLB_OP_NO_GRAD | PLB_OP_FRAME)) return;
    plb_value dout[PLB_MAX_OUTPUTS], din[MAX_GRAD_IN];
    bool needed[MAX_GRAD_IN], flows = false, wanted = false;
    for (int k = 0; k < node.n_out; k++) {
        dout[k] = r->dvalue[node.out + k];
        flows |= dout[k] != PLB_NONE;
    }
    if (!flows) return;
    if (node.n_in > MAX_GRAD_IN) {
        plb_graph_fail(
            graph, plb_fail(PLB_EUNSUPPORTED, "%s: gradient of %d inputs", op->name, node.n_in));
        return;
    }
    for (int k = 0; k < node.n_in; k++) {
        din[k] = PLB_NONE;
        needed[k] = node.in[k] >= 0 && r->reaches[node.in[k]];
        wanted |= needed[k];
    }
    if (!wanted) return;
    if (!op->grad) {
        plb_graph_fail(graph, plb_fail(PLB_EUNSUPPORTED, "%s has no gradient", op->name));
        return;
    }
    plb_scope_enter(graph, node.scope);
    op->grad(graph, index, dout, needed, din);
    for (int k = 0; k < node.n_in && !graph->status; k++) {
        if (needed[k]) accumulate(r, node.in[k], din[k]);
    }
    plb_scope_pop(graph);
}

static plb_status check_loss(const plb_graph *graph, plb_value loss) {
    plb_type type = plb_value_type(graph, loss);
    if (loss < 0 || loss >= graph->n_values || !plb_dtype_is_float(type.dtype) ||
        plb_shape_count(&type.shape) != 1) {
        char text[160];
        return plb_fail(PLB_EINVAL, "gradients: expected a float scalar as loss, found %s %s",
                        plb_dtype_name(type.dtype),
                        plb_shape_format(&type.shape, text, sizeof text));
    }
    return PLB_OK;
}

static plb_value ones_like(plb_graph *graph, plb_value value) {
    plb_type type = plb_value_type(graph, value);
    return plb_expand(graph, plb_scalar(graph, type.dtype, 1), &type.shape);
}

void plb_gradients(plb_graph *graph, plb_value loss, const plb_value *wrt, int n, plb_value *out) {
    for (int i = 0; i < n; i++) out[i] = PLB_NONE;
    if (graph->status) return;
    plb_status status = check_loss(graph, loss);
    if (status) {
        plb_graph_fail(graph, status);
        return;
    }
    reverse r = {.graph = graph, .n_values = graph->n_values};
    r.dvalue = plb_alloc_array((size_t)r.n_values, sizeof *r.dvalue);
    r.reaches = plb_alloc_array((size_t)r.n_values, sizeof *r.reaches);
    if (!r.dvalue || !r.reaches) {
        plb_graph_fail(graph, plb_fail(PLB_ENOMEM, "out of memory for gradients"));
        goto out;
    }
    for (int i = 0; i < r.n_values; i++) r.dvalue[i] = PLB_NONE;
    mark_dependents(&r, wrt, n);
    graph->differentiating = true;
    r.dvalue[loss] = ones_like(graph, loss);
    for (int i = graph->values[loss].node; i >= 0 && !graph->status; i--) visit(&r, i);
    for (int i = 0; i < n && !graph->status; i++) {
        if (wrt[i] >= 0 && wrt[i] < r.n_values) out[i] = r.dvalue[wrt[i]];
    }
out:
    graph->differentiating = false;
    plb_free(r.dvalue);
    plb_free(r.reaches);
}
