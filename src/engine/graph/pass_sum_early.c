// SPDX-License-Identifier: Apache-2.0
// The gradient of max_pool puts each element of dy at one place of its plane and nothing anywhere
// else, so a sum over planes is the same before as after, and reads fewer elements: the gradient of
// the bias of a convolution in front of the pooling.
#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "plumb/ops.h"

enum { INDEX, DY };

// The gradient of a pooling whose planes the sum `index` adds up, or NULL. Positions that no
// max_pool made may lie outside.
static const plb_node *pool_of(const plb_graph *graph, int index) {
    const plb_node *sum = &graph->nodes[index];
    if (sum->op != PLB_OP_reduce_sum) return NULL;
    const plb_node *pool = &graph->nodes[graph->values[sum->in[0]].node];
    if (pool->op != PLB_OP_max_pool_grad) return NULL;
    const plb_value positions = pool->in[INDEX];
    const plb_node *maker = &graph->nodes[graph->values[positions].node];
    if (maker->op != PLB_OP_max_pool || positions != maker->out + 1) return NULL;
    const int rank = graph->values[sum->in[0]].type.shape.rank;
    const int64_t axes = ((const plb_reduce_attrs *)sum->attrs)->axes;
    const int64_t plane = ((int64_t)1 << rank) - 4; // axes 2 and up
    return axes == 0 || (axes & plane) == plane ? pool : NULL;
}

plb_status plb_pass_sum_early(plb_graph **graph, const plb_pass_context *context) {
    plb_rewrite rw;
    int found = 0;
    PLB_TRY(plb_rewrite_begin(*graph, &rw));
    for (int i = 0; i < (*graph)->n_nodes && !rw.to->status; i++) {
        const plb_node *pool = pool_of(*graph, i);
        if (!pool) {
            plb_rewrite_copy(&rw, i);
            continue;
        }
        plb_node sum = (*graph)->nodes[i];
        plb_value dy = rw.map[pool->in[DY]];
        sum.in = &dy;
        plb_rewrite_replace(&rw, i, &sum);
        found++;
    }
    PLB_TRY(plb_pass_commit(&rw, graph));
    if (found) plb_strbuf_printf(context->report, "sum early: %d gradients of biases\n", found);
    return PLB_OK;
}
