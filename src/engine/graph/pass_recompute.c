// SPDX-License-Identifier: Apache-2.0
// What a batch norm made,
//   y = act((x - mean) inv_std gamma + beta),
// is not kept for backward, which has x in any case. The gradient of the norm itself needs no more
// than y's sign, and tells it by beta. For other readers y is computed again: one read and one
// write of an image, where keeping it costs its memory from forward to backward. With a residual y
// stays: it is what the next layers add theirs to. Small values stay too.
#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "engine/ops/norm.h"
#include "plumb/ops.h"

enum { X, GAMMA, BETA, RESIDUAL };                     // inputs of a norm; its outputs:
enum { MEAN = 1, INV_STD };                            //
enum { OF_GAMMA = 2, OF_MEAN, OF_INV, OF_Y, OF_BETA }; // inputs of its gradient
enum { LEAST_BYTES = 4 << 20 };

static bool is_plain_norm(const plb_node *norm) {
    if (norm->op != PLB_OP_batch_norm || norm->backward) return false;
    if (norm->n_in > RESIDUAL && norm->in[RESIDUAL] >= 0) return false;
    const plb_norm_attrs *attrs = norm->attrs;
    return attrs->epilogue.activation <= PLB_ACT_RELU;
}

static plb_dtype dtype_of(const plb_graph *graph, plb_value value) {
    return graph->values[value].type.dtype;
}

// Scales and statistics alike; x may be narrower.
static bool is_of_one_dtype(const plb_graph *graph, const plb_node *norm) {
    const plb_dtype dtype = dtype_of(graph, norm->in[GAMMA]);
    return dtype_of(graph, norm->in[BETA]) == dtype && dtype_of(graph, norm->out + MEAN) == dtype &&
           dtype_of(graph, norm->out + INV_STD) == dtype;
}

// ---------------------------------------------------------------------------- signs
// The norm whose gradient `node` is, if it can do with beta; else NULL.
static const plb_node *norm_of(const plb_graph *graph, const plb_node *node) {
    if (node->op != PLB_OP_batch_norm_grad || node->n_in != OF_Y + 1) return NULL;
    if (((const plb_norm_attrs *)node->attrs)->masked || node->in[OF_Y] < 0) return NULL;
    const plb_node *norm = &graph->nodes[graph->values[node->in[OF_Y]].node];
    if (!is_plain_norm(norm) || node->in[OF_Y] != norm->out) return NULL;
    bool same = node->in[X] == norm->in[X] && node->in[OF_GAMMA] == norm->in[GAMMA] &&
                node->in[OF_MEAN] == norm->out + MEAN && node->in[OF_INV] == norm->out + INV_STD;
    return same ? norm : NULL;
}

static void give_beta(plb_rewrite *rw, int index, const plb_node *norm) {
    plb_node node = rw->from->nodes[index];
    plb_value in[OF_BETA + 1];
    for (int k = 0; k < OF_Y; k++) in[k] = rw->map[node.in[k]];
    in[OF_Y] = PLB_NONE;
    in[OF_BETA] = rw->map[norm->in[BETA]];
    node.in = in;
    node.n_in = OF_BETA + 1;
    plb_rewrite_replace(rw, index, &node);
}

static plb_status use_signs(plb_graph **graph, int *found) {
    plb_rewrite rw;
    PLB_TRY(plb_rewrite_begin(*graph, &rw));
    for (int i = 0; i < (*graph)->n_nodes && !rw.to->status; i++) {
        const plb_node *norm = norm_of(*graph, &(*graph)->nodes[i]);
        if (norm) {
            give_beta(&rw, i, norm);
            ++*found;
        } else {
            plb_rewrite_copy(&rw, i);
        }
    }
    return plb_pass_commit(&rw, graph);
}

// ---------------------------------------------------------------------------- values
static size_t bytes_of(const plb_graph *graph, plb_value value) {
    const plb_type *type = &graph->values[value].type;
    return plb_layout_bytes(&type->shape, type->dtype, (plb_layout){0});
}

// The node before which y of the norm `index` is computed again: the first of backward that reads
// it, provided that nobody else does from there on and that x is read later still; -1: none.
static int place_of(const plb_rewrite *rw, int index) {
    const plb_graph *from = rw->from;
    const plb_node *norm = &from->nodes[index];
    if (!is_plain_norm(norm) || !is_of_one_dtype(from, norm)) return -1;
    if (bytes_of(from, norm->out) < LEAST_BYTES) return -1;
    for (int i = 0; i < from->n_outputs; i++) {
        if (from->outputs[i].value == norm->out) return -1;
    }
    int place = -1;
    for (int i = index + 1; i < from->n_nodes; i++) {
        const plb_node *node = &from->nodes[i];
        for (int k = 0; k < node->n_in; k++) {
            if (node->in[k] != norm->out) continue;
            if (place >= 0 && !node->backward) return -1;
            if (place < 0 && node->backward) place = i;
        }
    }
    return place >= 0 && rw->consumer[norm->in[X]] >= place ? place : -1;
}

// From here on the old y is a new one.
static void append_again(plb_rewrite *rw, const plb_node *norm) {
    plb_graph *to = rw->to;
    const plb_norm_attrs *attrs = norm->attrs;
    const int rank = rw->from->values[norm->out].type.shape.rank;
    plb_value in[RESIDUAL];
    for (int k = 0; k < RESIDUAL; k++) in[k] = rw->map[norm->in[k]];
    plb_scope_enter(to, norm->scope);
    to->differentiating = true; // marks what is appended
    plb_value scale = plb_mul(to, in[GAMMA], rw->map[norm->out + INV_STD]);
    plb_value shift = plb_sub(to, in[BETA], plb_mul(to, rw->map[norm->out + MEAN], scale));
    const plb_dtype wide = dtype_of(rw->from, norm->in[GAMMA]);
    const plb_dtype narrow = dtype_of(rw->from, norm->in[X]);
    plb_value x = narrow == wide ? in[X] : plb_cast(to, in[X], wide);
    plb_value y = plb_mul(to, x, plb_along_channels(to, scale, rank));
    y = plb_add(to, y, plb_along_channels(to, shift, rank));
    if (attrs->epilogue.activation == PLB_ACT_RELU) y = plb_relu(to, y);
    if (narrow != wide) y = plb_cast(to, y, narrow);
    to->differentiating = false;
    plb_scope_pop(to);
    rw->map[norm->out] = y;
}

static plb_status compute_again(plb_graph **graph, int *found, size_t *bytes) {
    plb_rewrite rw;
    const int n = (*graph)->n_nodes;
    PLB_TRY(plb_rewrite_begin(*graph, &rw));
    // Norms by the node before which they come again: next[] links those of one node.
    int *head = plb_arena_alloc(rw.to->arena, ((size_t)n + 1) * sizeof *head);
    int *next = plb_arena_alloc(rw.to->arena, ((size_t)n + 1) * sizeof *next);
    if (!head || !next) {
        plb_rewrite_abort(&rw);
        return plb_fail(PLB_ENOMEM, "out of memory for a pass");
    }
    for (int i = 0; i < n; i++) head[i] = -1;
    for (int i = 0; i < n; i++) {
        const int place = place_of(&rw, i);
        if (place >= 0) next[i] = head[place], head[place] = i;
    }
    for (int i = 0; i < n && !rw.to->status; i++) {
        for (int k = head[i]; k >= 0 && !rw.to->status; k = next[k]) {
            append_again(&rw, &(*graph)->nodes[k]);
            *bytes += bytes_of(*graph, (*graph)->nodes[k].out);
            ++*found;
        }
        plb_rewrite_copy(&rw, i);
    }
    return plb_pass_commit(&rw, graph);
}

plb_status plb_pass_use_signs(plb_graph **graph, const plb_pass_context *context) {
    int found = 0;
    if (!context->backend->takes_beta_for_y) return PLB_OK;
    PLB_TRY(use_signs(graph, &found));
    if (found) {
        plb_strbuf_printf(context->report, "use signs: %d gradients of norms do without y\n",
                          found);
    }
    return PLB_OK;
}

plb_status plb_pass_recompute(plb_graph **graph, const plb_pass_context *context) {
    int found = 0;
    size_t bytes = 0;
    PLB_TRY(compute_again(graph, &found, &bytes));
    if (found) {
        plb_strbuf_printf(context->report, "recompute: %d norms of %.1f MiB\n", found,
                          (double)bytes / (1 << 20));
    }
    return PLB_OK;
}
