// SPDX-License-Identifier: Apache-2.0
// Where a block of a residual network begins, the gradients of its two branches are added, and the
// norm in front masks the sum and hands the masked one on:
//   d = add(a, b); dx, …, masked = batch_norm_grad(x, d, …)   ->   batch_norm_grad(x, a, …, b)
// which spares the sum its way to memory and back. For devices whose norms can do it.
#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "engine/graph/pattern.h"
#include "plumb/ops.h"

enum { DY = 1, MORE = 7 };

// The addition that only the norm's gradient `index` reads, or NULL.
static const plb_node *sum_of(const plb_rewrite *rw, int index) {
    const plb_graph *from = rw->from;
    const plb_node *node = &from->nodes[index];
    const plb_norm_attrs *attrs = node->attrs;
    if (node->op != PLB_OP_batch_norm_grad || !attrs->masked || node->n_in > MORE) return NULL;
    const plb_value d = node->in[DY];
    const plb_node *add = &from->nodes[from->values[d].node];
    if (add->op != PLB_OP_add || rw->uses[d] != 1) return NULL;
    return plb_same_type(from, add->in[0], d) && plb_same_type(from, add->in[1], d) ? add : NULL;
}

static void emit(plb_rewrite *rw, int index, const plb_node *add) {
    plb_node node = rw->from->nodes[index];
    plb_value in[MORE + 1];
    for (int k = 0; k <= MORE; k++) in[k] = PLB_NONE;
    for (int k = 0; k < node.n_in; k++) {
        if (node.in[k] >= 0) in[k] = rw->map[node.in[k]];
    }
    in[DY] = rw->map[add->in[0]];
    in[MORE] = rw->map[add->in[1]];
    node.in = in;
    node.n_in = MORE + 1;
    plb_rewrite_replace(rw, index, &node);
}

plb_status plb_pass_fuse_norm_sum(plb_graph **graph, const plb_pass_context *context) {
    plb_rewrite rw;
    const int n = (*graph)->n_nodes;
    int found = 0;
    if (!context->backend->rich_norms) return PLB_OK;
    PLB_TRY(plb_rewrite_begin(*graph, &rw));
    bool *dropped = plb_arena_alloc(rw.to->arena, (size_t)n + 1);
    if (!dropped) {
        plb_rewrite_abort(&rw);
        return plb_fail(PLB_ENOMEM, "out of memory for a pass");
    }
    for (int i = 0; i < n; i++) {
        const plb_node *add = sum_of(&rw, i);
        if (add) dropped[add - (*graph)->nodes] = true;
    }
    for (int i = 0; i < n && !rw.to->status; i++) {
        if (dropped[i]) continue;
        const plb_node *add = sum_of(&rw, i);
        if (add) {
            emit(&rw, i, add);
            found++;
        } else {
            plb_rewrite_copy(&rw, i);
        }
    }
    PLB_TRY(plb_pass_commit(&rw, graph));
    if (found) plb_strbuf_printf(context->report, "fuse norm sum: %d sums of gradients\n", found);
    return PLB_OK;
}
