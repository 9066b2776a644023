// SPDX-License-Identifier: Apache-2.0
// A hash of what a graph computes, whatever order its nodes stand in and whatever they are called:
// each value is hashed from its op, attributes and inputs, down to the names of inputs and of
// variables. Equal digests mean equal programs.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "onnx/lower.h"
#include "plumb/onnx.h"

static uint64_t hash_type(uint64_t hash, plb_type type) {
    hash = plb_hash_string(hash, plb_dtype_name(type.dtype));
    return plb_hash_bytes(hash, type.shape.dim, (size_t)type.shape.rank * sizeof *type.shape.dim);
}

static uint64_t hash_frame(const plb_graph *graph, const plb_node *node, uint64_t hash) {
    if (node->op == PLB_OP_input) {
        return plb_hash_string(hash, ((const plb_input_attrs *)node->attrs)->name);
    }
    if (node->op == PLB_OP_constant) {
        const plb_constant_attrs *a = node->attrs;
        size_t size = plb_layout_bytes(&a->type.shape, a->type.dtype, (plb_layout){0});
        return plb_hash_bytes(hash, a->data, size);
    }
    int variable = ((const plb_variable_attrs *)node->attrs)->variable;
    return plb_hash_string(hash, graph->model->variables[variable].name);
}

// By their words where there are any: a struct also has bytes between its fields, which a copy of
// it need not keep.
static uint64_t hash_attributes(const plb_op *op, const void *attrs, uint64_t hash, bool *failed) {
    if (!op->describe) return plb_hash_bytes(hash, attrs, op->attrs_bytes);
    plb_strbuf text = {0};
    op->describe(attrs, &text);
    hash = plb_hash_string(hash, text.length ? text.text : "");
    *failed |= text.failed;
    plb_strbuf_free(&text);
    return hash;
}

uint64_t plb_onnx_hash_content(const plb_graph *graph, const plb_node *node, uint64_t hash,
                               bool *failed) {
    const plb_op *op = plb_op_of(node->op);
    if (op->flags & PLB_OP_FRAME) return hash_frame(graph, node, hash);
    return op->attrs_bytes ? hash_attributes(op, node->attrs, hash, failed) : hash;
}

static uint64_t hash_node(const plb_graph *graph, const plb_node *node, const uint64_t *of_value,
                          bool *failed) {
    const plb_op *op = plb_op_of(node->op);
    uint64_t hash = plb_hash_string(PLB_HASH_SEED, op->name);
    hash = plb_onnx_hash_content(graph, node, hash, failed);
    for (int k = 0; k < node->n_in; k++) {
        uint64_t input = node->in[k] < 0 ? 0 : of_value[node->in[k]];
        hash = plb_hash_bytes(hash, &input, sizeof input);
    }
    return hash;
}

static plb_status hash_graph(const plb_graph *graph, uint64_t *out) {
    uint64_t *of_value = plb_alloc_array((size_t)graph->n_values + 1, sizeof *of_value);
    if (!of_value) return plb_fail(PLB_ENOMEM, "out of memory for a digest");
    plb_status status = PLB_OK;
    bool failed = false;
    for (int i = 0; i < graph->n_nodes && !status; i++) {
        const plb_node *node = &graph->nodes[i];
        if (node->region[0])
            status =
                plb_fail(PLB_EUNSUPPORTED, "%s: a digest of regions", plb_op_of(node->op)->name);
        uint64_t hash = hash_node(graph, node, of_value, &failed);
        for (int k = 0; k < node->n_out; k++) {
            hash = hash_type(hash, graph->values[node->out + k].type);
            of_value[node->out + k] = plb_hash_bytes(hash, &k, sizeof k);
        }
    }
    if (failed && !status) status = plb_fail(PLB_ENOMEM, "out of memory for a digest");
    *out = PLB_HASH_SEED;
    for (int i = 0; i < graph->n_outputs && !status; i++) {
        uint64_t value = of_value[graph->outputs[i].value];
        *out = plb_hash_string(*out, graph->outputs[i].name);
        *out = plb_hash_bytes(*out, &value, sizeof value);
    }
    plb_free(of_value);
    return status;
}

plb_status plb_onnx_digest(const plb_graph *graph, uint64_t *out) {
    plb_graph *lowered = NULL;
    PLB_TRY(plb_onnx_lower(graph, &lowered));
    plb_status status = hash_graph(lowered, out);
    plb_graph_free(lowered);
    return status;
}
