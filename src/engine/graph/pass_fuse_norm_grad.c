// SPDX-License-Identifier: Apache-2.0
// Backward through a norm with a fused ReLU:
//   d = relu_grad(dy, y); dx = batch_norm_grad(x, d, …)   ->   batch_norm_grad(x, dy, …, y)
// so that the mask costs no pass of its own. Where others (a residual branch) read d too, the
// norm's gradient hands it out as its fourth output.
#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "plumb/ops.h"

enum { DY = 1, Y = 5, MASKED = 3 };

// The relu_grad that feeds the norm gradient `index`, or -1. It must come right before: nobody
// else may read its result earlier than the norm's gradient runs.
static int mask_of(const plb_rewrite *rw, int index) {
    const plb_graph *from = rw->from;
    const plb_node *node = &from->nodes[index];
    const plb_norm_attrs *attrs = node->attrs;
    if (node->op != PLB_OP_batch_norm_grad || node->n_in > Y || attrs->masked) return -1;
    plb_value d = node->in[DY];
    int mask = from->values[d].node;
    if (from->nodes[mask].op != PLB_OP_relu_grad) return -1;
    const plb_type *a = &from->values[from->nodes[mask].in[0]].type;
    const plb_type *b = &from->values[from->nodes[mask].in[1]].type;
    if (!plb_shape_equal(&a->shape, &b->shape) || a->dtype != b->dtype) return -1;
    for (int i = mask + 1; i < index; i++) {
        for (int k = 0; k < from->nodes[i].n_in; k++) {
            if (from->nodes[i].in[k] == d) return -1;
        }
    }
    return mask;
}

static void emit(plb_rewrite *rw, int index, int mask_index) {
    const plb_graph *from = rw->from;
    plb_node node = from->nodes[index];
    const plb_node *mask = &from->nodes[mask_index];
    plb_norm_attrs attrs = *(const plb_norm_attrs *)node.attrs;
    plb_value in[Y + 1];
    for (int k = 0; k < Y; k++) in[k] = rw->map[node.in[k]];
    in[DY] = rw->map[mask->in[0]];
    in[Y] = rw->map[mask->in[1]];
    attrs.masked = rw->uses[mask->out] > 1;
    plb_type types[MASKED + 1] = {0};
    for (int k = 0; k < MASKED; k++) types[k] = from->values[node.out + k].type;
    types[MASKED] = types[0];
    node.in = in;
    node.n_in = Y + 1;
    node.attrs = &attrs;
    plb_value old = node.out;
    int n_old = node.n_out;
    node.n_out = attrs.masked ? MASKED + 1 : MASKED;
    plb_value made = plb_append_node(rw->to, &node, types);
    for (int k = 0; k < n_old; k++) rw->map[old + k] = made + k;
    if (attrs.masked) rw->map[mask->out] = made + MASKED;
}

plb_status plb_pass_fuse_norm_grad(plb_graph **graph, const plb_pass_context *context) {
    plb_rewrite rw;
    int n = (*graph)->n_nodes, found = 0;
    PLB_TRY(plb_rewrite_begin(*graph, &rw));
    int *mask = plb_arena_alloc(rw.to->arena, ((size_t)n + 1) * sizeof *mask);
    bool *dropped = plb_arena_alloc(rw.to->arena, (size_t)n + 1);
    if (!mask || !dropped) {
        plb_rewrite_abort(&rw);
        return plb_fail(PLB_ENOMEM, "out of memory for a pass");
    }
    for (int i = 0; i < n; i++) {
        mask[i] = mask_of(&rw, i);
        if (mask[i] >= 0 && dropped[mask[i]]) mask[i] = -1; // two norms behind one mask
        if (mask[i] >= 0) dropped[mask[i]] = true;
    }
    for (int i = 0; i < n; i++) {
        if (dropped[i]) continue;
        if (mask[i] >= 0) {
            emit(&rw, i, mask[i]);
            found++;
        } else {
            plb_rewrite_copy(&rw, i);
        }
    }
    PLB_TRY(plb_pass_commit(&rw, graph));
    if (found) {
        plb_strbuf_printf(context->report, "fuse norm grad: %d masks of ReLU\n", found);
    }
    return PLB_OK;
}
