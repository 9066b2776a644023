// SPDX-License-Identifier: Apache-2.0
// What follows a convolution, a product or a batch norm and touches every element once more is
// done while the element is still in a register: a residual is added, then an activation.
//   add(conv(…), r)            ->  conv(…, residual r)
//   relu(conv(…))              ->  conv(…) with activation
// The fused node stands where its base stood when the residual is there by then; else where the
// chain ended, which is legal only if nobody reads the base's other outputs before.
#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "engine/graph/pattern.h"
#include "plumb/ops.h"

enum { MAX_IN = 6 };

// Which input the residual is.
static int residual_of(plb_op_id op) {
    return op == PLB_OP_batch_norm_infer ? 5 : 3;
}

static bool is_norm(plb_op_id op) {
    return op == PLB_OP_batch_norm || op == PLB_OP_batch_norm_infer;
}

static plb_epilogue *epilogue_of(plb_op_id op, void *attrs) {
    switch (op) {
    case PLB_OP_conv: return &((plb_conv_attrs *)attrs)->epilogue;
    case PLB_OP_matmul: return &((plb_matmul_attrs *)attrs)->epilogue;
    case PLB_OP_batch_norm:
    case PLB_OP_batch_norm_infer: return &((plb_norm_attrs *)attrs)->epilogue;
    default: return NULL;
    }
}

typedef union any_attrs {
    plb_conv_attrs conv;
    plb_matmul_attrs matmul;
    plb_norm_attrs norm;
} any_attrs;

static any_attrs attrs_of(const plb_node *node) {
    any_attrs attrs = {0};
    switch (node->op) {
    case PLB_OP_conv: attrs.conv = *(const plb_conv_attrs *)node->attrs; break;
    case PLB_OP_matmul: attrs.matmul = *(const plb_matmul_attrs *)node->attrs; break;
    case PLB_OP_batch_norm:
    case PLB_OP_batch_norm_infer: attrs.norm = *(const plb_norm_attrs *)node->attrs; break;
    default: break;
    }
    return attrs;
}

// A chain found in the old graph: the base node and what joins it.
typedef struct chain {
    int base;           // node
    int end;            // node that makes the chain's result
    plb_value residual; // old value or PLB_NONE
    plb_epilogue epilogue;
} chain;

// Where norms are not rich those with given statistics take nothing, and batch_norm ReLU alone.
static bool can_absorb(plb_op_id op, const plb_backend *on) {
    if (op == PLB_OP_batch_norm_infer) return on->rich_norms;
    return op == PLB_OP_conv || op == PLB_OP_matmul || op == PLB_OP_batch_norm;
}

// Whether `value` is output 0 of a bare base that nobody else reads.
static bool is_base(const plb_rewrite *rw, plb_value value, const plb_backend *on) {
    const plb_node *node = &rw->from->nodes[rw->from->values[value].node];
    if (!can_absorb(node->op, on) || value != node->out || rw->uses[value] != 1) return false;
    any_attrs attrs = attrs_of(node);
    const int residual = residual_of(node->op);
    bool has_residual = node->n_in > residual && node->in[residual] >= 0;
    return epilogue_of(node->op, &attrs)->activation == PLB_ACT_NONE && !has_residual;
}

// add(base, r) in either order. Where both are bases, the later one absorbs: the other is computed
// by then.
static bool match_add(const plb_rewrite *rw, const plb_node *node, const plb_backend *on,
                      chain *c) {
    if (node->op != PLB_OP_add || !plb_same_type(rw->from, node->in[0], node->in[1])) return false;
    if (node->in[0] == node->in[1]) return false;
    int first = is_base(rw, node->in[0], on) ? rw->from->values[node->in[0]].node : -1;
    int second = is_base(rw, node->in[1], on) ? rw->from->values[node->in[1]].node : -1;
    if (first < 0 && second < 0) return false;
    bool take_second = second > first;
    c->base = take_second ? second : first;
    c->residual = node->in[take_second ? 0 : 1];
    return true;
}

static bool activation_of(const plb_node *node, plb_op_id base, const plb_backend *on,
                          plb_epilogue *out) {
    const plb_pointwise_attrs *a = node->attrs;
    const bool norm = is_norm(base);
    *out = (plb_epilogue){.activation = PLB_ACT_RELU};
    if (node->op == PLB_OP_relu) return true;
    if (norm && !on->rich_norms) return false;
    *out = (plb_epilogue){.activation = PLB_ACT_SILU};
    if (node->op == PLB_OP_silu) return norm || on->takes_silu;
    *out = (plb_epilogue){.activation = PLB_ACT_CLAMP, .alpha = a->alpha, .beta = a->beta};
    return true;
}

// The longest chain that ends in node `index`, which must not itself continue.
static bool match(const plb_rewrite *rw, int index, const plb_backend *on, chain *c) {
    const plb_graph *from = rw->from;
    const plb_node *node = &from->nodes[index];
    *c = (chain){.base = -1, .residual = PLB_NONE};
    if (match_add(rw, node, on, c)) return true;
    if (node->op != PLB_OP_relu && node->op != PLB_OP_clamp && node->op != PLB_OP_silu) {
        return false;
    }
    plb_value x = node->in[0];
    const plb_node *before = &from->nodes[from->values[x].node];
    if (is_base(rw, x, on)) {
        c->base = from->values[x].node;
    } else if (rw->uses[x] != 1 || !match_add(rw, before, on, c)) {
        return false;
    }
    return activation_of(node, from->nodes[c->base].op, on, &c->epilogue);
}

static void emit(plb_rewrite *rw, const chain *c) {
    plb_node node = rw->from->nodes[c->base];
    any_attrs attrs = attrs_of(&node);
    *epilogue_of(node.op, &attrs) = c->epilogue;
    plb_value in[MAX_IN] = {PLB_NONE, PLB_NONE, PLB_NONE, PLB_NONE, PLB_NONE, PLB_NONE};
    for (int k = 0; k < node.n_in; k++) {
        in[k] = node.in[k] < 0 ? PLB_NONE : rw->map[node.in[k]];
    }
    if (c->residual >= 0) {
        in[residual_of(node.op)] = rw->map[c->residual];
        node.n_in = residual_of(node.op) + 1;
    }
    node.in = in;
    node.attrs = &attrs;
    plb_type types[PLB_MAX_OUTPUTS];
    const plb_node *base = &rw->from->nodes[c->base];
    for (int k = 0; k < node.n_out; k++) types[k] = rw->from->values[base->out + k].type;
    plb_value made = plb_append_node(rw->to, &node, types);
    for (int k = 0; k < node.n_out; k++) rw->map[base->out + k] = made + k;
    rw->map[rw->from->nodes[c->end].out] = made;
}

static bool statistics_read_before(const plb_graph *from, const plb_node *base, int first,
                                   int end) {
    for (int i = first; i < end; i++) {
        for (int k = 0; k < from->nodes[i].n_in; k++) {
            plb_value in = from->nodes[i].in[k];
            if (in > base->out && in < base->out + base->n_out) return true;
        }
    }
    return false;
}

// Where the fused node can stand, or -1.
static int position_of(const plb_rewrite *rw, const chain *c) {
    const plb_graph *from = rw->from;
    if (c->residual < 0 || from->values[c->residual].node < c->base) return c->base;
    bool read = statistics_read_before(from, &from->nodes[c->base], c->base + 1, c->end);
    return read ? -1 : c->end;
}

// The nodes of a chain are not copied.
static void swallow(const plb_rewrite *rw, const chain *c, bool *swallowed) {
    const plb_graph *from = rw->from;
    const plb_node *end = &from->nodes[c->end];
    swallowed[c->base] = swallowed[c->end] = true;
    int before = from->values[end->in[0]].node;
    if (end->op != PLB_OP_add && before != c->base) swallowed[before] = true;
}

static int find_chains(const plb_rewrite *rw, const plb_backend *on, chain *chains,
                       bool *swallowed) {
    int found = 0;
    for (int i = rw->from->n_nodes - 1; i >= 0; i--) {
        chain c;
        if (swallowed[i] || !match(rw, i, on, &c) || swallowed[c.base]) continue;
        c.end = i;
        int position = position_of(rw, &c);
        if (position < 0) continue;
        swallow(rw, &c, swallowed);
        chains[position] = c;
        found++;
    }
    return found;
}

plb_status plb_pass_fuse_epilogue(plb_graph **graph, const plb_pass_context *context) {
    plb_rewrite rw;
    int n = (*graph)->n_nodes;
    PLB_TRY(plb_rewrite_begin(*graph, &rw));
    chain *chains = plb_arena_alloc(rw.to->arena, (size_t)(n + 1) * sizeof *chains);
    bool *swallowed = plb_arena_alloc(rw.to->arena, (size_t)(n + 1));
    if (!chains || !swallowed) {
        plb_rewrite_abort(&rw);
        return plb_fail(PLB_ENOMEM, "out of memory for a pass");
    }
    for (int i = 0; i < n; i++) chains[i].base = -1;
    int found = find_chains(&rw, context->backend, chains, swallowed);
    for (int i = 0; i < n; i++) {
        if (chains[i].base >= 0) {
            emit(&rw, &chains[i]);
        } else if (!swallowed[i]) {
            plb_rewrite_copy(&rw, i);
        }
    }
    PLB_TRY(plb_pass_commit(&rw, graph));
    if (found) {
        plb_strbuf_printf(context->report, "fuse epilogue: %d residuals and activations\n", found);
    }
    return PLB_OK;
}
