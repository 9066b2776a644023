// SPDX-License-Identifier: Apache-2.0
// What a file uses, and whether it is served, without building anything.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "onnx/build.h"

static bool is_function(const plb_onnx *file, const char *domain, const char *op) {
    for (size_t i = 0; i < file->model->n_functions; i++) {
        const Onnx__FunctionProto *f = file->model->functions[i];
        if (strcmp(plb_onnx_string(f->domain), domain) == 0 &&
            strcmp(plb_onnx_string(f->name), op) == 0) {
            return true;
        }
    }
    return false;
}

static plb_status count_op(const plb_onnx *file, const Onnx__NodeProto *node, plb_onnx_use *uses,
                           int *n) {
    const char *domain = plb_onnx_string(node->domain), *op = plb_onnx_string(node->op_type);
    for (int i = 0; i < *n; i++) {
        if (strcmp(uses[i].op, op) == 0 && strcmp(uses[i].domain, domain) == 0) {
            uses[i].count++;
            return PLB_OK;
        }
    }
    if (*n == PLB_ONNX_MAX_USES) {
        return plb_fail(PLB_EUNSUPPORTED, "more than %d kinds of ops", PLB_ONNX_MAX_USES);
    }
    bool own = !*domain || strcmp(domain, "ai.onnx") == 0;
    bool served = is_function(file, domain, op) || (own && plb_onnx_find_op(op, file->opset));
    uses[(*n)++] = (plb_onnx_use){domain, op, 1, served};
    return PLB_OK;
}

static plb_status count_nodes(const plb_onnx *file, Onnx__NodeProto *const *nodes, size_t count,
                              plb_onnx_use *uses, int *n) {
    for (size_t i = 0; i < count; i++) {
        PLB_TRY(count_op(file, nodes[i], uses, n));
        for (size_t k = 0; k < nodes[i]->n_attribute; k++) { // depth was bounded by the reader
            const Onnx__GraphProto *g = nodes[i]->attribute[k]->g;
            if (g) PLB_TRY(count_nodes(file, g->node, g->n_node, uses, n));
        }
    }
    return PLB_OK;
}

plb_status plb_onnx_uses(const plb_onnx *file, plb_onnx_use uses[PLB_ONNX_MAX_USES], int *count) {
    *count = 0;
    PLB_TRY(count_nodes(file, file->graph->node, file->graph->n_node, uses, count));
    for (size_t i = 0; i < file->model->n_functions; i++) {
        const Onnx__FunctionProto *f = file->model->functions[i];
        PLB_TRY(count_nodes(file, f->node, f->n_node, uses, count));
    }
    return PLB_OK;
}

bool plb_onnx_served(int index, const char **name, int64_t *since, const char **note) {
    const plb_onnx_op *op = plb_onnx_op_at(index);
    if (!op) return false;
    *name = op->name, *since = op->since, *note = op->note;
    return true;
}

bool plb_onnx_end(const plb_graph *graph, bool outputs, int index, const char **name,
                  plb_type *type) {
    if (outputs) {
        if (index >= graph->n_outputs) return false;
        *name = graph->outputs[index].name;
        *type = plb_value_type(graph, graph->outputs[index].value);
        return true;
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        const plb_node *node = &graph->nodes[i];
        if (node->op != PLB_OP_input || index-- > 0) continue;
        *name = ((const plb_input_attrs *)node->attrs)->name;
        *type = plb_value_type(graph, node->out);
        return true;
    }
    return false;
}

static double flops_of(const plb_graph *graph, const plb_node *node) {
    const plb_op *op = plb_op_of(node->op);
    plb_type in[16], out[PLB_MAX_OUTPUTS];
    if ((op->flags & PLB_OP_FRAME) || node->n_in > 16) return 0;
    for (int k = 0; k < node->n_in; k++) in[k] = plb_value_type(graph, node->in[k]);
    for (int k = 0; k < node->n_out; k++) out[k] = plb_value_type(graph, node->out + k);
    plb_signature s = {node->attrs, node->n_in, node->n_out, in, out};
    return op->flops ? op->flops(&s) : (double)plb_shape_count(&out[0].shape);
}

plb_onnx_costs plb_onnx_costs_of(const plb_graph *graph) {
    plb_onnx_costs c = {0};
    const plb_model *model = plb_graph_model(graph);
    for (int i = 0; i < plb_model_variable_count(model); i++) {
        plb_variable_info info = plb_model_variable_info(model, i);
        if (info.role == PLB_ROLE_PARAMETER) c.parameters += plb_shape_count(&info.type.shape);
    }
    for (int i = 0; i < graph->n_nodes; i++) c.flops += flops_of(graph, &graph->nodes[i]);
    return c;
}
