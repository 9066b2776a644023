// SPDX-License-Identifier: Apache-2.0
// Inference: a batch norm with given statistics behind a convolution is a change of its weights:
//   s = gamma / sqrt(variance + eps)
//   conv(x, w, b) norm'd = conv(x, w s, (b - mean) s + beta)
// The new weights depend on variables alone, so they are computed in the prologue.
#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "plumb/ops.h"

// Operands of batch_norm_infer.
enum { X, GAMMA, BETA, MEAN, VARIANCE };

// Also a constant that was widened, as a norm without gamma or beta has it.
static bool from_variables(const plb_graph *graph, plb_value value) {
    const plb_node *node = &graph->nodes[graph->values[value].node];
    if (node->op == PLB_OP_expand) node = &graph->nodes[graph->values[node->in[0]].node];
    return node->op == PLB_OP_read || node->op == PLB_OP_constant;
}

// The convolution that `norm` can join, or -1.
static int foldable(const plb_rewrite *rw, const plb_node *norm) {
    const plb_graph *from = rw->from;
    plb_value x = norm->in[X];
    int index = from->values[x].node;
    const plb_node *conv = &from->nodes[index];
    if (conv->op != PLB_OP_conv || rw->uses[x] != 1) return -1;
    const plb_conv_attrs *attrs = conv->attrs;
    bool bare = attrs->epilogue.activation == PLB_ACT_NONE && conv->n_in <= 3;
    bool known = from_variables(from, conv->in[1]);
    plb_dtype dtype = from->values[conv->in[1]].type.dtype;
    for (int k = GAMMA; k <= VARIANCE; k++) {
        known &= from_variables(from, norm->in[k]);
        known &= from->values[norm->in[k]].type.dtype == dtype; // 16-bit weights would lose by it
    }
    return bare && known ? index : -1;
}

static void fold(plb_rewrite *rw, int index, int conv_index) {
    plb_graph *to = rw->to;
    const plb_node norm = rw->from->nodes[index], conv = rw->from->nodes[conv_index];
    const plb_norm_attrs *attrs = norm.attrs;
    plb_shape w_shape = plb_value_shape(rw->from, conv.in[1]);
    plb_scope_enter(to, conv.scope);
    plb_value in[4];
    for (int k = GAMMA; k <= VARIANCE; k++) in[k - 1] = rw->map[norm.in[k]];
    plb_value scale = plb_mul(to, in[0], plb_rsqrt(to, plb_affine(to, in[3], 1, attrs->eps)));
    plb_shape column = {.rank = w_shape.rank, .dim = {w_shape.dim[0]}};
    for (int i = 1; i < column.rank; i++) column.dim[i] = 1;
    plb_value w = plb_mul(to, rw->map[conv.in[1]], plb_reshape(to, scale, &column));
    bool has_bias = conv.n_in > 2 && conv.in[2] >= 0;
    plb_value shift = has_bias ? plb_sub(to, rw->map[conv.in[2]], in[2]) : plb_neg(to, in[2]);
    plb_value bias = plb_add(to, plb_mul(to, shift, scale), in[1]);
    plb_scope_pop(to);
    plb_node folded = conv;
    folded.in = (plb_value[]){rw->map[conv.in[0]], w, bias};
    folded.n_in = 3;
    plb_rewrite_replace(rw, index, &folded);
}

plb_status plb_pass_fold_norm(plb_graph **graph, const plb_pass_context *context) {
    plb_rewrite rw;
    int folded = 0;
    PLB_TRY(plb_rewrite_begin(*graph, &rw));
    for (int i = 0; i < (*graph)->n_nodes; i++) {
        const plb_node *node = &(*graph)->nodes[i];
        int conv = node->op == PLB_OP_batch_norm_infer ? foldable(&rw, node) : -1;
        if (conv >= 0) {
            fold(&rw, i, conv);
            folded++;
        } else {
            plb_rewrite_copy(&rw, i); // the convolution, too: dead when folded
        }
    }
    PLB_TRY(plb_pass_commit(&rw, graph));
    if (folded) {
        plb_strbuf_printf(context->report, "fold norm: %d batch norms into convolutions\n", folded);
    }
    return PLB_OK;
}
