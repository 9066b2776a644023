// SPDX-License-Identifier: Apache-2.0
// Networks for digits write ReLU behind the pooling, and behind the dropout that follows a
// convolution. Both leave the larger of two numbers the larger, so that the ReLU may as well stand
// in front of them:
//
//   relu(max_pool(dropout(conv(…))))  ->  max_pool(dropout(relu(conv(…))))
//
// where the convolution takes it into its own launch. Values are the same. Positions differ in
// windows without a positive element, so that nobody may read them but a gradient that the ReLU's
// slope makes zero there, wherever it goes.
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "engine/graph/pattern.h"

// Whether nobody but the next node of the chain reads a value.
static bool read_once(const plb_rewrite *rw, plb_value value) {
    return rw->uses[value] == 1 && rw->from->values[value].count == PLB_NONE;
}

// Whether a gradient is zero wherever `relu` is not positive.
static bool is_masked(const plb_graph *graph, plb_value dy, const plb_node *relu) {
    const plb_node *node = plb_maker(graph, dy);
    while (node->op == PLB_OP_dropout || node->op == PLB_OP_max_pool_grad) {
        node = plb_maker(graph, node->in[node->op == PLB_OP_max_pool_grad]);
    }
    return node->op == PLB_OP_relu_grad && node->in[1] == relu->out;
}

// Whether it does not matter which position stands for a window that has nothing positive.
static bool is_free(const plb_rewrite *rw, const plb_node *pool, const plb_node *relu) {
    const plb_value positions = pool->out + 1;
    if (pool->op != PLB_OP_max_pool || rw->uses[positions] == 0) return true;
    if (rw->uses[positions] > 1 || rw->consumer[positions] < 0) return false;
    const plb_node *reader = &rw->from->nodes[rw->consumer[positions]];
    return reader->op == PLB_OP_max_pool_grad && is_masked(rw->from, reader->in[1], relu);
}

// The bare convolution whose value reaches `relu` through nothing but pools and dropout, at least
// one of them; -1: none.
static int base_of(const plb_rewrite *rw, const plb_node *relu) {
    plb_value x = relu->in[0];
    const plb_node *node = plb_maker(rw->from, x);
    bool passed = false;
    for (; node->op == PLB_OP_max_pool || node->op == PLB_OP_dropout; passed = true) {
        if (x != node->out || !read_once(rw, x) || !is_free(rw, node, relu)) return -1;
        x = node->in[0];
        node = plb_maker(rw->from, x);
    }
    if (!passed || node->op != PLB_OP_conv || !read_once(rw, x)) return -1;
    const plb_conv_attrs *attrs = node->attrs;
    const bool bare = attrs->epilogue.activation == PLB_ACT_NONE;
    return bare ? rw->from->values[x].node : -1;
}

static void relu_of(plb_rewrite *rw, const plb_node *relu, plb_value x) {
    plb_node node = *relu;
    const plb_type type = rw->from->values[x].type;
    node.in = &rw->map[x];
    plb_value made = plb_append_node(rw->to, &node, &type);
    rw->map[x] = made;
}

plb_status plb_pass_early_relu(plb_graph **graph, const plb_pass_context *context) {
    if (!context->backend->launches_are_dear) return PLB_OK;
    plb_rewrite rw;
    const int n = (*graph)->n_nodes;
    int found = 0;
    PLB_TRY(plb_rewrite_begin(*graph, &rw));
    int *relu = plb_arena_alloc(rw.to->arena, (size_t)(n + 1) * sizeof *relu);
    bool *moved = plb_arena_alloc(rw.to->arena, (size_t)(n + 1) * sizeof *moved);
    if (!relu || !moved) {
        plb_rewrite_abort(&rw);
        return plb_fail(PLB_ENOMEM, "out of memory for a pass");
    }
    for (int i = 0; i < n; i++) relu[i] = -1, moved[i] = false;
    for (int i = 0; i < n; i++) {
        const plb_node *node = &(*graph)->nodes[i];
        const int base = node->op == PLB_OP_relu ? base_of(&rw, node) : -1;
        if (base >= 0) relu[base] = i, moved[i] = true, found++;
    }
    for (int i = 0; i < n && !rw.to->status; i++) {
        const plb_node *node = &(*graph)->nodes[i];
        if (moved[i]) {
            rw.map[node->out] = rw.map[node->in[0]];
            continue;
        }
        plb_rewrite_copy(&rw, i);
        if (relu[i] >= 0) relu_of(&rw, &(*graph)->nodes[relu[i]], node->out);
    }
    PLB_TRY(plb_pass_commit(&rw, graph));
    if (found) plb_strbuf_printf(context->report, "early relu: %d in front of pools\n", found);
    return PLB_OK;
}
