// SPDX-License-Identifier: Apache-2.0
// Whose memory each value uses. A view shares its input's bytes; an in-place op its input's, when
// nobody needs them afterwards; the new value of a variable is written straight into the
// variable's storage, when everybody who reads the old one has run.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/plan.h"

// Data pointers while no memory exists: offsets from this address, which is never dereferenced.
static void *const unplaced = (void *)(uintptr_t)PLB_UNPLACED;

typedef struct sharing {
    plb_plan *plan;
    int *position; // of each node in the order
    int *last_use; // of each root: position of the last node that touches its bytes
} sharing;

static plb_value root_of(const sharing *s, plb_value value) {
    return s->plan->storage[value].root;
}

static void own(sharing *s, plb_value value, plb_place_kind kind) {
    plb_plan *plan = s->plan;
    const plb_value_info *info = &plan->graph->values[value];
    plan->tensors[value] =
        plb_tensor_dense(unplaced, info->type.dtype, &info->type.shape, info->layout);
    plan->storage[value] = (plb_storage){
        .kind = kind,
        .root = value,
        .variable = -1,
        .backward = plan->graph->nodes[info->node].backward,
        .size_bytes = plb_layout_bytes(&info->type.shape, info->type.dtype, info->layout)};
}

static void share(sharing *s, plb_value value, plb_value with) {
    plb_storage *mine = &s->plan->storage[value];
    *mine = s->plan->storage[with];
    mine->root = root_of(s, with);
}

static bool reads_strides(const plb_node *node) {
    return plb_op_of(node->op)->flags &
           (PLB_OP_POINTWISE | PLB_OP_FOLLOWS | PLB_OP_STRIDED | PLB_OP_VIEW);
}

// Kernels expect dense operands, unless the op says that it follows strides.
static bool consumers_read_strides(const plb_graph *graph, plb_value value) {
    for (int i = graph->values[value].node + 1; i < graph->n_nodes; i++) {
        for (int k = 0; k < graph->nodes[i].n_in; k++) {
            if (graph->nodes[i].in[k] == value && !reads_strides(&graph->nodes[i])) return false;
        }
    }
    return true;
}

// A reorder between layouts that coincide, or a view that its op can express by strides.
static bool try_view(sharing *s, int index) {
    plb_plan *plan = s->plan;
    const plb_node *node = &plan->graph->nodes[index];
    const plb_op *op = plb_op_of(node->op);
    if (node->n_out != 1 || node->n_in < 1) return false;
    const plb_tensor *in = &plan->tensors[node->in[0]];
    const plb_value_info *info = &plan->graph->values[node->out];
    plb_tensor out;
    if (node->op == PLB_OP_reorder) {
        out = *in;
        out.layout = info->layout;
        if (!plb_tensor_is_dense(in) || !plb_tensor_is_dense(&out)) return false;
        out = plb_tensor_dense(in->data, info->type.dtype, &info->type.shape, info->layout);
    } else {
        if (!(op->flags & PLB_OP_VIEW) || !op->view(node->attrs, in, &out)) return false;
        if (op->flags & PLB_OP_FOLLOWS) out.layout = info->layout; // strides say it as well
        if (!plb_layout_equal(out.layout, info->layout)) return false;
        if (!plb_tensor_is_dense(&out) && !consumers_read_strides(plan->graph, node->out)) {
            return false;
        }
    }
    plan->tensors[node->out] = out;
    share(s, node->out, node->in[0]);
    plan->is_view[index] = true;
    return true;
}

// Uses of a root's bytes after `position`, by anyone.
static bool is_last_use(const sharing *s, plb_value root, int position) {
    return s->last_use[root] <= position;
}

static bool same_form(const plb_tensor *a, const plb_value_info *b) {
    return a->dtype == b->type.dtype && plb_shape_equal(&a->shape, &b->type.shape) &&
           plb_layout_equal(a->layout, b->layout) && plb_tensor_is_dense(a);
}

static bool may_overwrite(const plb_op *op, int input, int output) {
    if (op->flags & PLB_OP_POINTWISE) return true;
    for (int i = 0; i < op->n_overwrites; i++) {
        if (op->overwrites[i].input == input && op->overwrites[i].output == output) return true;
    }
    return false;
}

static bool try_in_place(sharing *s, const plb_node *node, int k, int position) {
    plb_plan *plan = s->plan;
    const plb_op *op = plb_op_of(node->op);
    const plb_value_info *info = &plan->graph->values[node->out + k];
    for (int i = 0; i < node->n_in; i++) {
        if (!may_overwrite(op, i, k)) continue;
        plb_value in = node->in[i];
        if (in < 0) continue;
        const plb_storage *storage = &plan->storage[in];
        plb_value root = storage->root;
        size_t size = plb_layout_bytes(&info->type.shape, info->type.dtype, info->layout);
        // Only a whole root: a slice of it would leave the rest allocated for nothing.
        if (storage->kind != PLB_PLACE_TRANSIENT || size != plan->storage[root].size_bytes)
            continue;
        if (plan->prologue[info->node] != plan->prologue[plan->graph->values[root].node]) continue;
        if (!is_last_use(s, root, position) || !same_form(&plan->tensors[in], info)) continue;
        bool twice = false; // two operands in the same bytes: one is read after it is written
        for (int j = 0; j < node->n_in; j++) {
            twice |= j != i && node->in[j] >= 0 && root_of(s, node->in[j]) == root &&
                     !(op->flags & PLB_OP_POINTWISE && node->in[j] == in);
        }
        for (int j = 0; j < k; j++) twice |= root_of(s, node->out + j) == root;
        if (twice) continue;
        plan->tensors[node->out + k] = plan->tensors[in];
        share(s, node->out + k, in);
        int later = s->last_use[node->out + k]; // the root now lives as long as both
        if (later > s->last_use[root]) s->last_use[root] = later;
        return true;
    }
    return false;
}

// The one assign that stores `value`, when no other writes its variable; or -1.
static int only_assign(const plb_graph *graph, plb_value value, int *variable) {
    int assign = -1, n_assigns = 0;
    for (int i = 0; i < graph->n_nodes && assign < 0; i++) {
        const plb_node *node = &graph->nodes[i];
        if (node->op != PLB_OP_assign || node->in[0] != value) continue;
        *variable = ((const plb_variable_attrs *)node->attrs)->variable;
        assign = i;
    }
    for (int i = 0; i < graph->n_nodes && assign >= 0; i++) {
        const plb_node *node = &graph->nodes[i];
        if (node->op != PLB_OP_assign) continue;
        n_assigns += ((const plb_variable_attrs *)node->attrs)->variable == *variable;
    }
    return n_assigns == 1 ? assign : -1;
}

static bool holds(const sharing *s, plb_value value, int variable) {
    if (value < 0) return false;
    const plb_storage *storage = &s->plan->storage[value];
    return storage->kind == PLB_PLACE_VARIABLE && storage->variable == variable;
}

// Whether somebody needs what `variable` holds after `position`: reads it before the assign, uses
// what was read (other assigns among them), or is an output.
static bool old_value_needed(const sharing *s, int variable, int assign, int position) {
    const plb_graph *graph = s->plan->graph;
    for (int i = 0; i < graph->n_nodes; i++) {
        const plb_node *other = &graph->nodes[i];
        if (s->position[i] <= position || i == assign) continue;
        if (other->op == PLB_OP_read && s->position[i] < s->position[assign] &&
            ((const plb_variable_attrs *)other->attrs)->variable == variable) {
            return true;
        }
        for (int k = 0; k < other->n_in; k++) {
            if (holds(s, other->in[k], variable)) return true;
        }
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        if (holds(s, graph->outputs[i].value, variable)) return true;
    }
    return false;
}

// The variable that `value` is the new value of, if its producer may write there directly; or -1.
static int direct_variable(const sharing *s, const plb_node *node, plb_value value, int position) {
    const plb_graph *graph = s->plan->graph;
    const plb_op *op = plb_op_of(node->op);
    const plb_value_info *info = &graph->values[value];
    int variable = -1;
    if (!(op->flags & PLB_OP_POINTWISE) && !op->n_overwrites) return -1;
    if (info->layout.kind != PLB_LAYOUT_PLAIN) return -1;
    if (s->plan->prologue[info->node]) return -1; // it would come before every reader
    int assign = only_assign(graph, value, &variable);
    if (assign < 0 || old_value_needed(s, variable, assign, position)) return -1;
    // Its own operands may be the old value, whole and in the same form: read before written.
    for (int k = 0; k < node->n_in; k++) {
        if (!holds(s, node->in[k], variable)) continue;
        if (!same_form(&s->plan->tensors[node->in[k]], info)) return -1;
        if (!may_overwrite(op, k, value - node->out)) return -1;
    }
    return variable;
}

static void place_output(sharing *s, const plb_node *node, int k, int position) {
    plb_value value = node->out + k;
    plb_plan *plan = s->plan;
    int variable = direct_variable(s, node, value, position);
    if (variable >= 0) {
        own(s, value, PLB_PLACE_VARIABLE);
        plan->storage[value].variable = variable;
        return;
    }
    if (try_in_place(s, node, k, position)) return;
    own(s, value, PLB_PLACE_TRANSIENT);
}

static void place_frame(sharing *s, const plb_node *node) {
    if (node->n_out == 0) return;
    plb_place_kind kind = node->op == PLB_OP_input      ? PLB_PLACE_BOUND
                          : node->op == PLB_OP_constant ? PLB_PLACE_CONSTANT
                                                        : PLB_PLACE_VARIABLE;
    own(s, node->out, kind);
    if (node->op == PLB_OP_read) {
        s->plan->storage[node->out].variable = ((const plb_variable_attrs *)node->attrs)->variable;
    }
}

// Positions are taken through views: a root is used where any view of it is.
static void find_last_uses(sharing *s) {
    const plb_graph *graph = s->plan->graph;
    for (int i = 0; i < graph->n_values; i++) s->last_use[i] = -1;
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        const plb_node *node = &graph->nodes[i];
        int until = s->position[i];
        bool view = plb_op_of(node->op)->flags & PLB_OP_VIEW || node->op == PLB_OP_reorder;
        if (view && node->n_out && s->last_use[node->out] > until) until = s->last_use[node->out];
        for (int k = 0; k < node->n_in; k++) {
            if (node->in[k] >= 0 && s->last_use[node->in[k]] < until) {
                s->last_use[node->in[k]] = until;
            }
        }
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        plb_value value = graph->outputs[i].value;
        s->last_use[value] = graph->n_nodes;
        for (;;) { // what an output is a view of must stay too
            const plb_node *node = &graph->nodes[graph->values[value].node];
            bool view = plb_op_of(node->op)->flags & PLB_OP_VIEW || node->op == PLB_OP_reorder;
            if (!view) break;
            value = node->in[0];
            s->last_use[value] = graph->n_nodes;
        }
    }
}

plb_status plb_plan_assign_storage(plb_plan *plan) {
    const plb_graph *graph = plan->graph;
    sharing s = {.plan = plan};
    size_t n_values = (size_t)graph->n_values + 1, n_nodes = (size_t)graph->n_nodes + 1;
    plan->tensors = plb_arena_alloc(plan->arena, n_values * sizeof *plan->tensors);
    plan->storage = plb_arena_alloc(plan->arena, n_values * sizeof *plan->storage);
    plan->is_view = plb_arena_alloc(plan->arena, n_nodes);
    s.position = plb_alloc_array(n_nodes, sizeof *s.position);
    s.last_use = plb_alloc_array(n_values, sizeof *s.last_use);
    plb_status status = PLB_OK;
    if (!plan->tensors || !plan->storage || !plan->is_view || !s.position || !s.last_use) {
        status = plb_fail(PLB_ENOMEM, "out of memory for a plan");
        goto out;
    }
    for (int i = 0; i < graph->n_nodes; i++) s.position[plan->order[i]] = i;
    find_last_uses(&s);
    for (int p = 0; p < graph->n_nodes; p++) {
        const plb_node *node = &graph->nodes[plan->order[p]];
        if (plb_op_of(node->op)->flags & PLB_OP_FRAME) {
            place_frame(&s, node);
            continue;
        }
        if (try_view(&s, plan->order[p])) continue;
        for (int k = 0; k < node->n_out; k++) place_output(&s, node, k, p);
    }
out:
    plb_free(s.position);
    plb_free(s.last_use);
    return status;
}
