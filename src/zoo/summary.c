// SPDX-License-Identifier: Apache-2.0
// Walks the graphs of inference and training and adds up what the ops say of themselves.
#include "zoo/summary.h"

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/graph.h"

enum { MAX_IN = 64 }; // inputs of a node: the widest concat here has 25

// Fills `in` and `out` with the node's types. Frame and view nodes move and compute nothing.
static bool node_signature(const plb_graph *graph, const plb_node *node, plb_type *in,
                           plb_type *out, plb_signature *s) {
    if (plb_op_of(node->op)->flags & (PLB_OP_FRAME | PLB_OP_VIEW)) return false;
    if (node->n_in > MAX_IN || node->n_out > PLB_MAX_OUTPUTS || node->n_out == 0) return false;
    for (int i = 0; i < node->n_in; i++) in[i] = plb_value_type(graph, node->in[i]);
    for (int i = 0; i < node->n_out; i++) out[i] = plb_value_type(graph, node->out + i);
    *s = (plb_signature){
        .attrs = node->attrs, .n_in = node->n_in, .n_out = node->n_out, .in = in, .out = out};
    return true;
}

static double signature_flops(plb_op_id id, const plb_signature *s) {
    const plb_op *op = plb_op_of(id);
    return op->flops ? op->flops(s) : (double)plb_shape_count(&s->out[0].shape);
}

static double type_bytes(const plb_type *type) {
    if (plb_type_absent(type)) return 0;
    return (double)plb_layout_bytes(&type->shape, type->dtype, (plb_layout){0});
}

static double signature_bytes(const plb_signature *s) {
    double bytes = 0;
    for (int i = 0; i < s->n_in; i++) bytes += type_bytes(&s->in[i]);
    for (int i = 0; i < s->n_out; i++) bytes += type_bytes(&s->out[i]);
    return bytes;
}

static int64_t node_parameters(const plb_graph *graph, const plb_node *node) {
    int64_t count = 0;
    for (int i = 0; i < node->n_in; i++) {
        int variable = plb_value_variable(graph, node->in[i]);
        if (variable < 0) continue;
        plb_variable_info info = plb_model_variable_info(graph->model, variable);
        if (info.role == PLB_ROLE_PARAMETER) count += plb_shape_count(&info.type.shape);
    }
    return count;
}

static double graph_flops(const plb_graph *graph) {
    plb_type in[MAX_IN], out[PLB_MAX_OUTPUTS];
    plb_signature s;
    double flops = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        if (!node_signature(graph, &graph->nodes[i], in, out, &s)) continue;
        flops += signature_flops(graph->nodes[i].op, &s);
    }
    return flops;
}

static bool is_product(plb_op_id op) {
    return op == PLB_OP_conv || op == PLB_OP_matmul;
}

static plb_status summarize_infer(const plb_graph *graph, plb_zoo_summary *out) {
    plb_type in[MAX_IN], types[PLB_MAX_OUTPUTS];
    plb_signature s;
    out->rows = plb_alloc_array((size_t)graph->n_nodes, sizeof *out->rows);
    if (!out->rows) return plb_fail(PLB_ENOMEM, "out of memory for a summary");
    double products = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const plb_node *node = &graph->nodes[i];
        if (!node_signature(graph, node, in, types, &s)) continue;
        plb_zoo_row *row = &out->rows[out->n_rows++];
        *row = (plb_zoo_row){.scope = node->scope,
                             .op = plb_op_of(node->op)->name,
                             .type = types[0],
                             .parameters = node_parameters(graph, node),
                             .flops = signature_flops(node->op, &s),
                             .bytes = signature_bytes(&s)};
        out->flops_infer += row->flops / (double)out->batch;
        if (is_product(node->op)) products += row->flops;
    }
    out->products_infer = products / 2 / (double)out->batch;
    return PLB_OK;
}

// Of the loss with respect to every parameter that is read.
static plb_status append_gradients(plb_graph *graph, plb_value loss) {
    plb_value *wrt = plb_alloc_array((size_t)graph->n_nodes, 2 * sizeof *wrt);
    if (!wrt) return plb_fail(PLB_ENOMEM, "out of memory for gradients");
    plb_value *gradients = wrt + graph->n_nodes;
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        int variable = plb_value_variable(graph, graph->nodes[i].out);
        if (graph->nodes[i].op != PLB_OP_read) continue;
        if (plb_model_variable_info(graph->model, variable).role != PLB_ROLE_PARAMETER) continue;
        wrt[n++] = graph->nodes[i].out;
    }
    plb_gradients(graph, loss, wrt, n, gradients);
    plb_free(wrt);
    return plb_graph_status(graph);
}

static void count_variables(plb_zoo_summary *out) {
    for (int i = 0; i < plb_model_variable_count(out->model); i++) {
        plb_variable_info info = plb_model_variable_info(out->model, i);
        int64_t count = plb_shape_count(&info.type.shape);
        if (info.role == PLB_ROLE_PARAMETER) out->parameters += count;
        if (info.role == PLB_ROLE_BUFFER) out->buffers += count;
    }
}

plb_status plb_zoo_summarize(const char *name, const plb_zoo_options *options,
                             plb_zoo_summary *out) {
    plb_zoo_options infer = options ? *options : (plb_zoo_options){0};
    *out = (plb_zoo_summary){.batch = infer.batch ? infer.batch : 1};
    infer.batch = out->batch;
    out->model = plb_model_new();
    if (!out->model) return plb_fail(PLB_ENOMEM, "out of memory for a model");
    PLB_TRY(plb_zoo_build_infer(out->model, name, &infer));
    count_variables(out);
    PLB_TRY(summarize_infer(plb_model_find_program(out->model, "infer"), out));

    // Batch norm cannot train on a single value a channel, which small inputs come down to.
    plb_zoo_options train = infer;
    if (train.batch < 2) train.batch = 2;
    plb_graph *graph = NULL;
    plb_value loss = PLB_NONE;
    PLB_TRY(plb_zoo_build_train(out->model, name, &train, &graph, &loss));
    PLB_TRY(append_gradients(graph, loss));
    out->flops_train = graph_flops(graph) / (double)train.batch;
    return PLB_OK;
}

void plb_zoo_summary_free(plb_zoo_summary *summary) {
    plb_free(summary->rows);
    plb_model_free(summary->model);
    *summary = (plb_zoo_summary){0};
}
