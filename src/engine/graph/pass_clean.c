// SPDX-License-Identifier: Apache-2.0
// Common subexpressions and dead code. Two nodes are equal when op, inputs and attributes are and
// nothing distinguishes their runs: random nodes, reads (a write may stand between) and nodes with
// regions are left alone.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/pass.h"

plb_status plb_pass_commit(plb_rewrite *rw, plb_graph **graph) {
    plb_graph *made = NULL;
    PLB_TRY(plb_rewrite_end(rw, &made));
    plb_graph_free(*graph);
    *graph = made;
    return PLB_OK;
}

static bool may_merge(const plb_node *node) {
    const plb_op *op = plb_op_of(node->op);
    if (node->op == PLB_OP_read || node->op == PLB_OP_input || node->n_out == 0) return false;
    return !(op->flags & PLB_OP_RANDOM) && !node->region[0];
}

static uint64_t hash_node(const plb_node *node, const plb_value *in) {
    uint64_t hash = plb_hash_bytes(PLB_HASH_SEED, &node->op, sizeof node->op);
    hash = plb_hash_bytes(hash, in, (size_t)node->n_in * sizeof *in);
    if (node->op == PLB_OP_constant) {
        const plb_constant_attrs *a = node->attrs;
        return plb_hash_bytes(hash, a->data,
                              plb_layout_bytes(&a->type.shape, a->type.dtype, (plb_layout){0}));
    }
    return plb_hash_bytes(hash, node->attrs, plb_op_of(node->op)->attrs_bytes);
}

static bool same_constant(const plb_constant_attrs *a, const plb_constant_attrs *b) {
    size_t size = plb_layout_bytes(&a->type.shape, a->type.dtype, (plb_layout){0});
    return a->type.dtype == b->type.dtype && plb_shape_equal(&a->type.shape, &b->type.shape) &&
           memcmp(a->data, b->data, size) == 0;
}

static bool same_node(const plb_node *a, const plb_node *b) { // of the new graph
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out) return false;
    if (a->op == PLB_OP_constant) return same_constant(a->attrs, b->attrs);
    size_t attrs_bytes = plb_op_of(a->op)->attrs_bytes;
    return memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in) == 0 &&
           (!attrs_bytes || memcmp(a->attrs, b->attrs, attrs_bytes) == 0);
}

// A table of node indices by hash; open addressing, never more than half full.
typedef struct seen {
    int *slots; // node + 1 of the new graph, 0: free
    size_t mask;
} seen;

static int find_or_add(seen *s, const plb_graph *to, int node, uint64_t hash) {
    size_t i = hash & s->mask;
    for (; s->slots[i]; i = (i + 1) & s->mask) {
        if (same_node(&to->nodes[s->slots[i] - 1], &to->nodes[node])) return s->slots[i] - 1;
    }
    s->slots[i] = node + 1;
    return node;
}

static void merge_or_keep(plb_rewrite *rw, int index, seen *table, int *merged) {
    const plb_node *old = &rw->from->nodes[index];
    plb_rewrite_copy(rw, index);
    if (rw->to->status || !may_merge(old)) return;
    int made = rw->to->n_nodes - 1;
    const plb_node *copy = &rw->to->nodes[made];
    int first = find_or_add(table, rw->to, made, hash_node(copy, copy->in));
    if (first == made) return;
    for (int k = 0; k < old->n_out; k++) rw->map[old->out + k] = rw->to->nodes[first].out + k;
    rw->to->n_nodes--;
    rw->to->n_values -= old->n_out;
    ++*merged;
}

static plb_status merge_equal(plb_graph **graph, int *merged) {
    seen table = {.mask = 15};
    while (table.mask < 2 * (size_t)(*graph)->n_nodes) table.mask = table.mask * 2 + 1;
    table.slots = plb_alloc_array(table.mask + 1, sizeof *table.slots);
    if (!table.slots) return plb_fail(PLB_ENOMEM, "out of memory for a pass");
    plb_rewrite rw;
    plb_status status = plb_rewrite_begin(*graph, &rw);
    if (!status) {
        for (int i = 0; i < (*graph)->n_nodes; i++) merge_or_keep(&rw, i, &table, merged);
        status = plb_pass_commit(&rw, graph);
    }
    plb_free(table.slots);
    return status;
}

static plb_status drop_dead(plb_graph **graph, int *dropped) {
    const plb_graph *from = *graph;
    bool *needed = plb_alloc_array((size_t)from->n_values, sizeof *needed);
    plb_rewrite rw = {0};
    plb_status status = PLB_OK;
    if (!needed) status = plb_fail(PLB_ENOMEM, "out of memory for a pass");
    if (!status) status = plb_rewrite_begin(from, &rw);
    if (status) {
        plb_free(needed);
        return status;
    }
    for (int i = 0; i < from->n_outputs; i++) needed[from->outputs[i].value] = true;
    for (int i = from->n_nodes - 1; i >= 0; i--) {
        const plb_node *node = &from->nodes[i];
        bool keep = plb_node_is_effect(node);
        for (int k = 0; k < node->n_out; k++) keep |= needed[node->out + k];
        for (int k = 0; k < node->n_out; k++) {
            plb_value count = from->values[node->out + k].count;
            if (keep && count >= 0) needed[count] = true;
            if (keep) needed[node->out + k] = true; // marks the node for the second walk
        }
        for (int k = 0; k < node->n_in && keep; k++) {
            if (node->in[k] >= 0) needed[node->in[k]] = true;
        }
    }
    for (int i = 0; i < from->n_nodes; i++) {
        const plb_node *node = &from->nodes[i];
        if (node->n_out ? needed[node->out] : plb_node_is_effect(node)) {
            plb_rewrite_copy(&rw, i);
        } else {
            ++*dropped;
        }
    }
    plb_free(needed);
    return plb_pass_commit(&rw, graph);
}

plb_status plb_pass_clean(plb_graph **graph, const plb_pass_context *context) {
    int merged = 0, dropped = 0;
    PLB_TRY(merge_equal(graph, &merged));
    PLB_TRY(drop_dead(graph, &dropped));
    if (merged || dropped) {
        plb_strbuf_printf(context->report,
                          "clean: %d equal nodes merged, %d that nobody needs dropped\n", merged,
                          dropped);
    }
    return PLB_OK;
}
