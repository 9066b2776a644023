// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/rewrite.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

static void count_uses(plb_rewrite *rw) {
    const plb_graph *from = rw->from;
    for (int i = 0; i < from->n_nodes; i++) {
        const plb_node *node = &from->nodes[i];
        for (int k = 0; k < node->n_in; k++) {
            if (node->in[k] < 0) continue;
            rw->uses[node->in[k]]++;
            rw->consumer[node->in[k]] = i;
        }
    }
    for (int i = 0; i < from->n_outputs; i++) rw->uses[from->outputs[i].value]++;
}

plb_status plb_rewrite_begin(const plb_graph *from, plb_rewrite *out) {
    *out = (plb_rewrite){.from = from};
    size_t n = (size_t)from->n_values;
    out->to = plb_graph_new(from->model, from->name);
    out->map = plb_alloc_array(n, sizeof *out->map);
    out->uses = plb_alloc_array(n, sizeof *out->uses);
    out->consumer = plb_alloc_array(n, sizeof *out->consumer);
    if (!out->to || !out->map || !out->uses || !out->consumer) {
        plb_rewrite_abort(out);
        return plb_fail(PLB_ENOMEM, "out of memory for a pass over %s", from->name);
    }
    out->to->training = from->training;
    out->to->borrows_regions = true;
    for (size_t i = 0; i < n; i++) out->map[i] = PLB_NONE, out->consumer[i] = -1;
    count_uses(out);
    return PLB_OK;
}

// Names and constants live in the arena of the graph that holds them.
static bool own_attrs(plb_graph *to, plb_node *node, plb_input_attrs *input,
                      plb_constant_attrs *constant) {
    if (node->op == PLB_OP_input) {
        input->name = plb_arena_strdup(to->arena, ((const plb_input_attrs *)node->attrs)->name);
        node->attrs = input;
        return input->name;
    }
    if (node->op == PLB_OP_constant) {
        *constant = *(const plb_constant_attrs *)node->attrs;
        size_t size =
            plb_layout_bytes(&constant->type.shape, constant->type.dtype, (plb_layout){0});
        constant->data = plb_arena_copy(to->arena, constant->data, size);
        node->attrs = constant;
        return constant->data;
    }
    return true;
}

enum { FEW_IN = 32 };

void plb_rewrite_replace(plb_rewrite *rw, int index, const plb_node *node) {
    const plb_node *old = &rw->from->nodes[index];
    plb_node copy = *node;
    plb_input_attrs input;
    plb_constant_attrs constant;
    plb_type types[PLB_MAX_OUTPUTS];
    for (int k = 0; k < node->n_out; k++) types[k] = rw->from->values[old->out + k].type;
    if (!own_attrs(rw->to, &copy, &input, &constant)) {
        plb_graph_fail(rw->to, plb_fail(PLB_ENOMEM, "out of memory in a pass"));
        return;
    }
    if (rw->to->status) return;
    plb_append_node(rw->to, &copy, types);
    if (rw->to->status) return;
    const plb_node *made = &rw->to->nodes[rw->to->n_nodes - 1];
    for (int k = 0; k < node->n_out; k++) {
        const plb_value_info *info = &rw->from->values[old->out + k];
        rw->map[old->out + k] = made->out + k;
        rw->to->values[made->out + k].layout = info->layout;
        if (info->count >= 0) rw->to->values[made->out + k].count = rw->map[info->count];
    }
}

void plb_rewrite_copy(plb_rewrite *rw, int index) {
    plb_node node = rw->from->nodes[index];
    plb_value few[FEW_IN], *in = few;
    if (node.n_in > FEW_IN) in = plb_arena_alloc(rw->to->arena, (size_t)node.n_in * sizeof *in);
    if (!in) {
        plb_graph_fail(rw->to, plb_fail(PLB_ENOMEM, "out of memory in a pass"));
        return;
    }
    for (int k = 0; k < node.n_in; k++) {
        in[k] = node.in[k] < 0 ? PLB_NONE : rw->map[node.in[k]];
    }
    node.in = in;
    plb_rewrite_replace(rw, index, &node);
}

plb_status plb_rewrite_end(plb_rewrite *rw, plb_graph **out) {
    for (int i = 0; i < rw->from->n_outputs; i++) {
        plb_output(rw->to, rw->from->outputs[i].name, rw->map[rw->from->outputs[i].value]);
    }
    plb_status status = plb_graph_status(rw->to);
    if (!status) {
        *out = rw->to;
        rw->to = NULL;
    }
    plb_rewrite_abort(rw);
    return status;
}

bool plb_rewrite_keeps_shape(const plb_rewrite *rw, plb_value value) {
    if (rw->to->status) return true; // the end tells
    const plb_shape was = plb_value_shape(rw->from, value);
    const plb_shape is = plb_value_shape(rw->to, rw->map[value]);
    return plb_shape_equal(&was, &is);
}

void plb_rewrite_abort(plb_rewrite *rw) {
    plb_graph_free(rw->to);
    plb_free(rw->map);
    plb_free(rw->uses);
    plb_free(rw->consumer);
    *rw = (plb_rewrite){0};
}
