// SPDX-License-Identifier: Apache-2.0
// Exporters of networks with channels last put a permutation before and behind every convolution.
// Between two convolutions they would cancel, but for what stands between:
//
//   permute(relu(permute(x)))  ->  relu(x)
//
// So a permutation moves behind pointwise ops where another one waits at the end of them, and two
// that follow each other become one, or none.
#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "engine/graph/pattern.h"

static bool counted(const plb_graph *graph, plb_value value) {
    return graph->values[value].count != PLB_NONE;
}

static bool is_pointwise(const plb_node *node) {
    const unsigned flags = plb_op_of(node->op)->flags;
    return (flags & PLB_OP_POINTWISE) && !(flags & (PLB_OP_FRAME | PLB_OP_RANDOM)) &&
           node->n_out == 1 && node->n_in >= 1 && node->n_in <= 3;
}

// Whether what reads the value, and nothing else does, ends in a permutation.
static bool ends_in_permute(const plb_rewrite *rw, plb_value value) {
    for (int steps = 0; steps < 16 && rw->uses[value] == 1 && rw->consumer[value] >= 0; steps++) {
        const plb_node *next = &rw->from->nodes[rw->consumer[value]];
        if (next->op == PLB_OP_permute) return true;
        if (!is_pointwise(next)) return false;
        value = next->out;
    }
    return false;
}

static bool same_axes(const plb_node *a, const plb_node *b, int rank) {
    const plb_permute_attrs *p = a->attrs, *q = b->attrs;
    for (int i = 0; i < rank; i++) {
        if (p->axes[i] != q->axes[i]) return false;
    }
    return true;
}

// The permutation that all inputs of a pointwise node come from, but for numbers; NULL: none.
static const plb_node *permuted(const plb_rewrite *rw, const plb_node *node) {
    const plb_node *found = NULL;
    const plb_shape out = rw->from->values[node->out].type.shape;
    if (counted(rw->from, node->out)) return NULL;
    for (int k = 0; k < node->n_in; k++) {
        if (node->in[k] < 0) continue;
        const plb_value to = rw->map[node->in[k]];
        const plb_shape shape = rw->to->values[to].type.shape;
        if (shape.rank == 0) continue;
        const plb_node *made = plb_maker(rw->to, to);
        if (made->op != PLB_OP_permute || rw->uses[node->in[k]] != 1) return NULL;
        if (!plb_shape_equal(&shape, &out) || counted(rw->to, made->in[0])) return NULL;
        if (found && !same_axes(found, made, shape.rank)) return NULL;
        found = made;
    }
    return found && ends_in_permute(rw, node->out) ? found : NULL;
}

static plb_value permute_as(plb_graph *to, plb_value x, const plb_permute_attrs *attrs) {
    int axes[PLB_MAX_RANK], rank = to->values[x].type.shape.rank;
    for (int i = 0; i < rank; i++) axes[i] = (int)attrs->axes[i];
    return plb_permute(to, x, axes, rank);
}

static void move_behind(plb_rewrite *rw, const plb_node *node, const plb_node *permute) {
    plb_value in[3];
    const plb_permute_attrs attrs = *(const plb_permute_attrs *)permute->attrs;
    const plb_type type = {rw->from->values[node->out].type.dtype,
                           rw->to->values[permute->in[0]].type.shape};
    for (int k = 0; k < node->n_in; k++) {
        in[k] = node->in[k] < 0 ? PLB_NONE : rw->map[node->in[k]];
        if (in[k] == PLB_NONE || rw->to->values[in[k]].type.shape.rank == 0) continue;
        in[k] = plb_maker(rw->to, in[k])->in[0];
    }
    plb_node moved = *node;
    moved.in = in;
    plb_value out = plb_append_node(rw->to, &moved, &type);
    rw->map[node->out] = out == PLB_NONE ? PLB_NONE : permute_as(rw->to, out, &attrs);
}

// A permutation of what a permutation made.
static bool join(plb_rewrite *rw, const plb_node *node) {
    if (node->op != PLB_OP_permute || counted(rw->from, node->out)) return false;
    const plb_node *first = plb_maker(rw->to, rw->map[node->in[0]]);
    if (first->op != PLB_OP_permute || counted(rw->to, first->in[0])) return false;
    const plb_permute_attrs *p = first->attrs, *q = node->attrs;
    const plb_value x = first->in[0];
    const int rank = rw->to->values[x].type.shape.rank;
    plb_permute_attrs both = {0};
    bool nothing = true;
    for (int i = 0; i < rank; i++) {
        both.axes[i] = p->axes[q->axes[i]];
        nothing &= both.axes[i] == i;
    }
    rw->map[node->out] = nothing ? x : permute_as(rw->to, x, &both);
    return true;
}

plb_status plb_pass_permute(plb_graph **graph, const plb_pass_context *context) {
    plb_rewrite rw;
    int moved = 0, joined = 0;
    PLB_TRY(plb_rewrite_begin(*graph, &rw));
    for (int i = 0; i < (*graph)->n_nodes && !rw.to->status; i++) {
        const plb_node *node = &(*graph)->nodes[i];
        const plb_node *from = is_pointwise(node) ? permuted(&rw, node) : NULL;
        plb_scope_enter(rw.to, node->scope);
        if (from) {
            move_behind(&rw, node, from);
            moved++;
        } else if (join(&rw, node)) {
            joined++;
        } else {
            plb_rewrite_copy(&rw, i);
        }
        plb_scope_pop(rw.to);
    }
    PLB_TRY(plb_pass_commit(&rw, graph));
    if (!joined && !moved) return PLB_OK;
    if (joined) {
        plb_strbuf_printf(context->report, "permutations: %d joined with others, over %d ops\n",
                          joined, moved);
    }
    return plb_pass_clean(graph, context);
}
