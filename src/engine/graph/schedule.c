// SPDX-License-Identifier: Apache-2.0
// Order of execution. A graph's own order is legal; two changes save work and memory:
// what depends on constants and on variables that the program never assigns is computed once, in
// the prologue; and the update of a variable runs as soon as its gradient is there and everybody
// who reads the old value has run, so that gradients do not pile up.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/plan.h"

static bool *assigned_variables(const plb_plan *plan) {
    const plb_graph *graph = plan->graph;
    bool *assigned = plb_arena_alloc(plan->arena, (size_t)plan->model->n_variables + 1);
    for (int i = 0; i < graph->n_nodes && assigned; i++) {
        if (graph->nodes[i].op != PLB_OP_assign) continue;
        assigned[((const plb_variable_attrs *)graph->nodes[i].attrs)->variable] = true;
    }
    return assigned;
}

static bool is_prologue(const plb_plan *plan, const plb_node *node, const bool *assigned) {
    const plb_op *op = plb_op_of(node->op);
    if (node->op == PLB_OP_constant) return true;
    if (node->op == PLB_OP_read) {
        return !assigned[((const plb_variable_attrs *)node->attrs)->variable];
    }
    if (op->flags & (PLB_OP_FRAME | PLB_OP_RANDOM) || node->region[0] || !node->n_in) return false;
    for (int k = 0; k < node->n_in; k++) {
        if (node->in[k] >= 0 && !plan->prologue[plan->graph->values[node->in[k]].node]) {
            return false;
        }
    }
    return true;
}

// ---------------------------------------------------------------------------- early updates
typedef struct early {
    const plb_graph *graph;
    int *waits; // of each node: inputs' makers and order constraints not yet placed
    int *after; // edges, as linked lists: after[e] is a node that waits for ...
    int *next;  // ... the node whose list holds e
    int *head;  // first edge of each node, -1
    int n_edges, capacity;
    bool *urgent; // nodes that lead to an assign and to nothing else
} early;

static plb_status add_edge(early *e, int before, int after) {
    if (e->n_edges == e->capacity) {
        int grown = e->capacity;
        PLB_TRY(plb_reserve(&e->after, &grown, e->n_edges + 1, sizeof *e->after));
        PLB_TRY(plb_reserve(&e->next, &e->capacity, e->n_edges + 1, sizeof *e->next));
    }
    e->after[e->n_edges] = after;
    e->next[e->n_edges] = e->head[before];
    e->head[before] = e->n_edges++;
    e->waits[after]++;
    return PLB_OK;
}

// Nodes from which every path ends in an assign: the update of a variable.
static void find_urgent(early *e) {
    const plb_graph *graph = e->graph;
    for (int i = 0; i < graph->n_nodes; i++) e->urgent[i] = true;
    for (int i = 0; i < graph->n_outputs; i++) {
        e->urgent[graph->values[graph->outputs[i].value].node] = false;
    }
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        const plb_node *node = &graph->nodes[i];
        if (plb_op_of(node->op)->flags & PLB_OP_FRAME && node->op != PLB_OP_assign) {
            e->urgent[i] = false;
        }
        if (e->urgent[i] && node->backward) {
            // What computes gradients is in its own good order already.
            e->urgent[i] = false;
        }
        if (e->urgent[i]) continue;
        for (int k = 0; k < node->n_in; k++) {
            if (node->in[k] >= 0) e->urgent[graph->values[node->in[k]].node] = false;
        }
    }
}

// reader_of[v]: lists of nodes that use, directly or through views, the current read of v.
static plb_status order_around_assigns(early *e, int n_variables) {
    const plb_graph *graph = e->graph;
    int *variable_of = plb_alloc_array((size_t)graph->n_values + 1, sizeof *variable_of);
    int *last_assign = plb_alloc_array((size_t)n_variables + 1, sizeof *last_assign);
    plb_status status = PLB_OK;
    if (!variable_of || !last_assign) {
        status = plb_fail(PLB_ENOMEM, "out of memory for a schedule");
        goto out;
    }
    for (int v = 0; v < n_variables; v++) last_assign[v] = -1;
    for (int i = 0; i < graph->n_values; i++) variable_of[i] = -1;
    for (int i = 0; i < graph->n_nodes; i++) {
        const plb_node *node = &graph->nodes[i];
        const plb_variable_attrs *attrs = node->attrs;
        if (node->op == PLB_OP_read) {
            variable_of[node->out] = attrs->variable;
            int writer = last_assign[attrs->variable];
            if (writer >= 0) PLB_TRY_OUT(add_edge(e, writer, i));
            continue;
        }
        for (int k = 0; k < node->n_in; k++) {
            int v = node->in[k] < 0 ? -1 : variable_of[node->in[k]];
            if (v < 0) continue;
            bool view = plb_op_of(node->op)->flags & PLB_OP_VIEW || node->op == PLB_OP_reorder;
            if (view && k == 0) variable_of[node->out] = v;
        }
        if (node->op != PLB_OP_assign) continue;
        // Everyone before this assign that reads the variable goes first.
        for (int j = 0; j < i; j++) {
            const plb_node *reader = &graph->nodes[j];
            bool reads = reader->op == PLB_OP_read &&
                         ((const plb_variable_attrs *)reader->attrs)->variable == attrs->variable;
            for (int k = 0; k < reader->n_in && !reads; k++) {
                reads = reader->in[k] >= 0 && variable_of[reader->in[k]] == attrs->variable;
            }
            if (reads || (reader->op == PLB_OP_assign && j == last_assign[attrs->variable])) {
                PLB_TRY_OUT(add_edge(e, j, i));
            }
        }
        last_assign[attrs->variable] = i;
    }
out:
    plb_free(variable_of);
    plb_free(last_assign);
    return status;
}

static plb_status add_data_edges(early *e) {
    for (int i = 0; i < e->graph->n_nodes; i++) {
        const plb_node *node = &e->graph->nodes[i];
        for (int k = 0; k < node->n_in; k++) {
            if (node->in[k] >= 0) PLB_TRY(add_edge(e, e->graph->values[node->in[k]].node, i));
        }
    }
    return PLB_OK;
}

// Appends `node`, then every urgent node that waited for nothing else.
static void place(early *e, plb_plan *plan, bool *placed, int *n, int *stack, int node) {
    int top = 0;
    stack[top++] = node;
    while (top) {
        int i = stack[--top];
        placed[i] = true;
        plan->order[(*n)++] = i;
        for (int edge = e->head[i]; edge >= 0; edge = e->next[edge]) {
            int waiter = e->after[edge];
            if (--e->waits[waiter] == 0 && e->urgent[waiter] && !placed[waiter]) {
                stack[top++] = waiter;
            }
        }
    }
}

static void place_alone(const early *e, plb_plan *plan, bool *placed, int *n, int i) {
    placed[i] = true;
    plan->order[(*n)++] = i;
    for (int edge = e->head[i]; edge >= 0; edge = e->next[edge]) e->waits[e->after[edge]]--;
}

static bool casts_a_read(const plb_graph *graph, const plb_node *node) {
    if (node->op != PLB_OP_cast) return false;
    return graph->nodes[graph->values[node->in[0]].node].op == PLB_OP_read;
}

// For devices, where many small launches cost more than the memory of gradients that wait: casts
// of weights come first, the updates of variables last, alike ones together, so that they can
// become one launch (merge.c). False, with nothing placed for good, where something waits for an
// update.
static bool order_grouped(const early *e, plb_plan *plan, bool *placed, int *out_n) {
    const plb_graph *graph = plan->graph;
    int n = 0, n_nodes = graph->n_nodes;
    for (int pass = 0; pass < 3; pass++) {
        for (int i = 0; i < n_nodes; i++) {
            const plb_node *node = &graph->nodes[i];
            bool frame = plb_op_of(node->op)->flags & PLB_OP_FRAME && node->op != PLB_OP_assign;
            bool now = pass == 2 ? !e->urgent[i] : pass == 1 ? casts_a_read(graph, node) : frame;
            if (placed[i] || !now) continue;
            if (e->waits[i] == 0) {
                place_alone(e, plan, placed, &n, i);
            } else if (pass == 2) {
                return false;
            }
        }
    }
    for (plb_op_id last = PLB_OP_COUNT; n < n_nodes;) {
        int next = -1;
        for (int i = 0; i < n_nodes; i++) {
            if (placed[i] || e->waits[i]) continue;
            bool alike = graph->nodes[i].op == last || graph->nodes[i].op == PLB_OP_assign;
            if (next < 0 || alike) next = i;
            if (alike) break;
        }
        if (next < 0) return false;
        if (graph->nodes[next].op != PLB_OP_assign) last = graph->nodes[next].op;
        place_alone(e, plan, placed, &n, next);
    }
    *out_n = n;
    return true;
}

// The order says who overwrites whose memory, so it must be that of execution. `scratch` holds
// n_nodes.
static void prologue_first(plb_plan *plan, int *scratch) {
    int n = 0, later = 0;
    for (int i = 0; i < plan->graph->n_nodes; i++) {
        int node = plan->order[i];
        if (plan->prologue[node]) {
            plan->order[n++] = node;
        } else {
            scratch[later++] = node;
        }
    }
    memcpy(plan->order + n, scratch, (size_t)later * sizeof *scratch);
}

static plb_status order_nodes(plb_plan *plan) {
    const plb_graph *graph = plan->graph;
    size_t n_nodes = (size_t)graph->n_nodes;
    early e = {.graph = graph};
    bool *placed = plb_alloc_array(n_nodes + 1, sizeof *placed);
    int *stack = plb_alloc_array(n_nodes + 1, sizeof *stack);
    e.waits = plb_alloc_array(n_nodes + 1, sizeof *e.waits);
    e.head = plb_alloc_array(n_nodes + 1, sizeof *e.head);
    e.urgent = plb_alloc_array(n_nodes + 1, sizeof *e.urgent);
    plb_status status = PLB_OK;
    if (!placed || !stack || !e.waits || !e.head || !e.urgent) {
        status = plb_fail(PLB_ENOMEM, "out of memory for a schedule");
        goto out;
    }
    memset(e.head, 0xff, n_nodes * sizeof *e.head);
    find_urgent(&e);
    PLB_TRY_OUT(add_data_edges(&e));
    PLB_TRY_OUT(order_around_assigns(&e, plan->model->n_variables));
    int n = 0;
    if (!plan->backend->host_memory) {
        int *waits = stack; // kept, in case it does not work out
        memcpy(waits, e.waits, n_nodes * sizeof *waits);
        if (!order_grouped(&e, plan, placed, &n)) {
            memcpy(e.waits, waits, n_nodes * sizeof *waits);
            memset(placed, 0, n_nodes);
            n = 0;
        }
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        if (placed[i]) continue;
        // An urgent node that still waits (for readers further down) comes when they have run.
        if (e.urgent[i] && e.waits[i] > 0) continue;
        place(&e, plan, placed, &n, stack, i);
    }
    if (n != graph->n_nodes) status = plb_fail(PLB_EBROKEN, "schedule: a cycle of updates");
    prologue_first(plan, stack);
out:
    plb_free(placed);
    plb_free(stack);
    plb_free(e.waits);
    plb_free(e.head);
    plb_free(e.urgent);
    plb_free(e.after);
    plb_free(e.next);
    return status;
}

// What runs first comes first in the order too: storage.c sees in it who still needs a value.
static plb_status put_prologue_first(plb_plan *plan) {
    int n_nodes = plan->graph->n_nodes, n = 0;
    int *order = plb_alloc_array((size_t)n_nodes + 1, sizeof *order);
    if (!order) return plb_fail(PLB_ENOMEM, "out of memory for a schedule");
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < n_nodes; i++) {
            if (plan->prologue[plan->order[i]] == (pass == 0)) order[n++] = plan->order[i];
        }
    }
    memcpy(plan->order, order, (size_t)n_nodes * sizeof *order);
    plb_free(order);
    return PLB_OK;
}

plb_status plb_plan_schedule(plb_plan *plan) {
    const plb_graph *graph = plan->graph;
    bool *assigned = assigned_variables(plan);
    plan->prologue = plb_arena_alloc(plan->arena, (size_t)graph->n_nodes + 1);
    plan->order = plb_arena_alloc(plan->arena, ((size_t)graph->n_nodes + 1) * sizeof(int));
    if (!assigned || !plan->prologue || !plan->order) {
        return plb_fail(PLB_ENOMEM, "out of memory for a schedule");
    }
    int once = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        plan->prologue[i] = is_prologue(plan, &graph->nodes[i], assigned);
        once += plan->prologue[i] && !(plb_op_of(graph->nodes[i].op)->flags & PLB_OP_FRAME);
    }
    if (once) plb_strbuf_printf(&plan->report, "prologue: %d nodes computed once\n", once);
    PLB_TRY(order_nodes(plan));
    return put_prologue_first(plan);
}
