// SPDX-License-Identifier: Apache-2.0
// Small nodes of constants become constants: what exporters compute shapes, scales and masks with.
// The op's own definition computes them, so that the result does not depend on the device.
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/pass.h"

enum { MOST_ELEMENTS = 4096, MOST_IN = 16 };

static bool is_constant(const plb_rewrite *rw, plb_value old) {
    if (old < 0) return true;
    plb_value value = rw->map[old];
    return rw->to->nodes[rw->to->values[value].node].op == PLB_OP_constant;
}

// One output, few elements, nothing but constants read.
static bool foldable(const plb_rewrite *rw, const plb_node *node) {
    const plb_op *op = plb_op_of(node->op);
    if (op->flags & (PLB_OP_FRAME | PLB_OP_RANDOM) || node->region[0] || !op->ref) return false;
    if (node->n_out != 1 || !node->n_in || node->n_in > MOST_IN) return false;
    const plb_value_info *out = &rw->from->values[node->out];
    if (out->count >= 0 || plb_shape_count(&out->type.shape) > MOST_ELEMENTS) return false;
    for (int k = 0; k < node->n_in; k++) {
        if (!is_constant(rw, node->in[k])) return false;
        if (node->in[k] < 0) continue;
        plb_shape shape = rw->from->values[node->in[k]].type.shape;
        if (plb_shape_count(&shape) > MOST_ELEMENTS) return false;
    }
    return true;
}

static plb_tensor constant_tensor(const plb_graph *graph, plb_value value) {
    if (value < 0) return (plb_tensor){.dtype = PLB_DTYPE_COUNT};
    const plb_constant_attrs *a = graph->nodes[graph->values[value].node].attrs;
    void *data = (void *)(uintptr_t)a->data; // read only
    return plb_tensor_dense(data, a->type.dtype, &a->type.shape, (plb_layout){0});
}

// False, with nothing appended, where the definition refuses the values: the run will tell.
static bool fold(plb_rewrite *rw, const plb_node *node) {
    const plb_type *type = &rw->from->values[node->out].type;
    plb_tensor in[MOST_IN];
    for (int k = 0; k < node->n_in; k++) {
        in[k] = constant_tensor(rw->to, node->in[k] < 0 ? PLB_NONE : rw->map[node->in[k]]);
    }
    size_t size = plb_layout_bytes(&type->shape, type->dtype, (plb_layout){0});
    void *memory = plb_arena_alloc(rw->to->arena, size + 8);
    if (!memory) {
        plb_graph_fail(rw->to, plb_fail(PLB_ENOMEM, "out of memory in a pass"));
        return true;
    }
    plb_tensor out = plb_tensor_dense(memory, type->dtype, &type->shape, (plb_layout){0});
    plb_call call = {
        .attrs = node->attrs, .n_in = node->n_in, .n_out = 1, .in = in, .out = &out, .threads = 1};
    if (plb_op_of(node->op)->ref(&call)) return false;
    rw->map[node->out] = plb_constant(rw->to, type->dtype, &type->shape, memory);
    return true;
}

plb_status plb_pass_fold_constants(plb_graph **graph, const plb_pass_context *context) {
    plb_rewrite rw;
    int folded = 0;
    PLB_TRY(plb_rewrite_begin(*graph, &rw));
    for (int i = 0; i < (*graph)->n_nodes && !rw.to->status; i++) {
        const plb_node *node = &(*graph)->nodes[i];
        if (foldable(&rw, node) && fold(&rw, node)) {
            folded++;
        } else {
            plb_rewrite_copy(&rw, i);
        }
    }
    PLB_TRY(plb_pass_commit(&rw, graph));
    if (folded) plb_strbuf_printf(context->report, "fold constants: %d nodes\n", folded);
    return PLB_OK;
}
