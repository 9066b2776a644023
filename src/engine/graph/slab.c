// SPDX-License-Identifier: Apache-2.0
// From lives to addresses. Steps are numbered prologue first; a value lives from the step that
// makes it to the last that reads it; what the prologue makes for the main part stays for good.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/plan.h"

typedef struct lives {
    plb_plan *plan;
    int *first, *last; // of each value that is a root; -1: never touched
} lives;

static void touch(lives *l, plb_value value, int step) {
    if (value < 0) return;
    plb_value root = l->plan->storage[value].root;
    if (l->first[root] < 0 || step < l->first[root]) l->first[root] = step;
    if (step > l->last[root]) l->last[root] = step;
}

static bool reads_input(const plb_step *step, int k) {
    bool packed = step->launch.pack && step->launch.packed_inputs >> k & 1u;
    return !packed || step->packs_each_run;
}

static void touch_step(lives *l, int i) {
    const plb_step *step = &l->plan->steps[i];
    const plb_node *node = &l->plan->graph->nodes[step->node];
    if (step->kind == PLB_STEP_STORE) {
        touch(l, step->store, i);
        return;
    }
    if (step->kind == PLB_STEP_PACK) {
        const plb_launch *launch = &l->plan->steps[step->packs].launch;
        for (int k = 0; k < node->n_in && k < 32; k++) {
            if (launch->packed_inputs >> k & 1u) touch(l, node->in[k], i);
        }
        return;
    }
    for (int k = 0; k < node->n_in; k++) {
        if (k >= 32 || reads_input(step, k)) touch(l, node->in[k], i);
    }
    for (int k = 0; k < node->n_out; k++) touch(l, node->out + k, i);
}

// Results of the prologue that the main part reads, and outputs, outlive the steps.
static void settle_kinds(lives *l) {
    plb_plan *plan = l->plan;
    const plb_graph *graph = plan->graph;
    for (int v = 0; v < graph->n_values; v++) {
        plb_storage *s = &plan->storage[v];
        if (s->kind != PLB_PLACE_TRANSIENT || s->root != v) continue;
        bool made_once = l->first[v] >= 0 && l->first[v] < plan->n_prologue;
        if (made_once && l->last[v] >= plan->n_prologue) s->kind = PLB_PLACE_PERSISTENT;
        if (l->first[v] < 0) s->kind = PLB_PLACE_NONE;
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        plb_storage *s = &plan->storage[plan->storage[graph->outputs[i].value].root];
        bool once = plan->prologue[graph->values[s->root].node];
        if (s->kind == PLB_PLACE_TRANSIENT) s->kind = once ? PLB_PLACE_PERSISTENT : PLB_PLACE_BOUND;
    }
}

static bool is_program_output(const plb_plan *plan, plb_value root) {
    for (int i = 0; i < plan->graph->n_outputs; i++) {
        if (plan->storage[plan->graph->outputs[i].value].root == root) return true;
    }
    return false;
}

// Outputs that nobody reads and the kernel can do without.
static void drop_unread_outputs(lives *l) {
    plb_plan *plan = l->plan;
    for (int i = 0; i < plan->n_steps; i++) {
        const plb_step *step = &plan->steps[i];
        if (step->kind != PLB_STEP_LAUNCH) continue;
        const plb_node *node = &plan->graph->nodes[step->node];
        for (int k = 0; k < node->n_out; k++) {
            plb_value v = node->out + k;
            bool alone = plan->storage[v].root == v && l->first[v] == i && l->last[v] == i;
            bool optional = step->launch.optional_outputs >> k & 1u;
            if (!alone || !optional || is_program_output(plan, v)) continue;
            if (plan->storage[v].kind == PLB_PLACE_TRANSIENT) {
                plan->storage[v].kind = PLB_PLACE_NONE;
            }
        }
    }
}

// ---------------------------------------------------------------------------- placing
typedef struct slab {
    plb_block *blocks;
    int n;
    size_t bytes;
} slab;

static size_t padded(const plb_plan *plan, size_t size_bytes) {
    return (size_bytes + plan->align_bytes - 1) & ~(plan->align_bytes - 1);
}

static void add_block(slab *s, size_t size_bytes, int first, int last, int *out_index) {
    s->blocks[s->n] = (plb_block){.size_bytes = size_bytes, .first = first, .last = last};
    *out_index = s->n++;
}

static size_t workspace_of(const plb_plan *plan, const plb_step *step) {
    size_t packed = step->packs_each_run ? padded(plan, step->launch.packed_bytes) : 0;
    return padded(plan, step->launch.workspace_bytes) + packed;
}

// Everything that must not share gets a life that overlaps all others.
static void collect(lives *l, slab *transient, slab *persistent, slab *bound) {
    plb_plan *plan = l->plan;
    for (int v = 0; v < plan->graph->n_values; v++) {
        plb_storage *s = &plan->storage[v];
        if (s->root != v) continue;
        if (s->kind == PLB_PLACE_TRANSIENT) {
            add_block(transient, s->size_bytes, l->first[v], l->last[v], &s->block);
            size_t *sum = s->backward ? &plan->bytes.gradients : &plan->bytes.activations;
            *sum += padded(plan, s->size_bytes);
        } else if (s->kind == PLB_PLACE_PERSISTENT ||
                   (s->kind == PLB_PLACE_CONSTANT && !plan->backend->host_memory)) {
            add_block(persistent, s->size_bytes, 0, plan->n_steps, &s->block);
        } else if (s->kind == PLB_PLACE_BOUND) {
            add_block(bound, s->size_bytes, 0, plan->n_steps, &s->block);
        }
    }
    for (int i = 0; i < plan->n_steps; i++) {
        plb_step *step = &plan->steps[i];
        if (step->kind != PLB_STEP_LAUNCH) continue;
        step->workspace_block = step->packed_block = -1;
        size_t workspace = workspace_of(plan, step);
        if (workspace) add_block(transient, workspace, i, i, &step->workspace_block);
        if (workspace > plan->bytes.workspace) plan->bytes.workspace = workspace;
        if (step->launch.pack && !step->packs_each_run) {
            add_block(persistent, step->launch.packed_bytes, 0, plan->n_steps, &step->packed_block);
        }
    }
}

static plb_status allocate(plb_plan *plan, slab *s, void **out) {
    PLB_TRY(plb_place(s->blocks, s->n, plan->align_bytes, &s->bytes));
    return plan->backend->alloc(plan->device, s->bytes, out);
}

static char *at(void *base, const slab *s, int block) {
    return (char *)base + s->blocks[block].offset_bytes;
}

static void point_values(plb_plan *plan, const slab *transient, const slab *persistent,
                         const slab *bound) {
    const plb_graph *graph = plan->graph;
    for (int v = 0; v < graph->n_values; v++) {
        plb_storage *s = &plan->storage[v];
        if (s->root != v) continue;
        const plb_node *node = &graph->nodes[graph->values[v].node];
        switch (s->kind) {
        case PLB_PLACE_NONE: s->data = NULL; break;
        case PLB_PLACE_TRANSIENT: s->data = at(plan->transient, transient, s->block); break;
        case PLB_PLACE_PERSISTENT: s->data = at(plan->persistent, persistent, s->block); break;
        case PLB_PLACE_BOUND: s->data = at(plan->bound, bound, s->block); break;
        case PLB_PLACE_VARIABLE:
            s->data = plb_home_data(&plan->model->variables[s->variable], plan->home);
            break;
        case PLB_PLACE_CONSTANT:
            s->data = plan->backend->host_memory
                          ? (void *)((const plb_constant_attrs *)node->attrs)->data
                          : at(plan->persistent, persistent, s->block);
            break;
        }
    }
    for (int v = 0; v < graph->n_values; v++) {
        const plb_storage *root = &plan->storage[plan->storage[v].root];
        intptr_t offset = (intptr_t)plan->tensors[v].data - PLB_UNPLACED;
        plan->tensors[v].data = root->data ? (char *)root->data + offset : NULL;
    }
}

static void point_steps(plb_plan *plan, const slab *transient, const slab *persistent) {
    for (int i = 0; i < plan->n_steps; i++) {
        plb_step *step = &plan->steps[i];
        if (step->kind != PLB_STEP_LAUNCH) continue;
        const plb_node *node = &plan->graph->nodes[step->node];
        plb_tensor *in = (plb_tensor *)step->call.in; // the arena's, made by select.c
        for (int k = 0; k < node->n_in; k++) {
            if (node->in[k] >= 0) in[k].data = plan->tensors[node->in[k]].data;
        }
        for (int k = 0; k < node->n_out; k++) {
            step->call.out[k].data = plan->tensors[node->out + k].data;
        }
        if (step->workspace_block >= 0) {
            step->call.workspace = at(plan->transient, transient, step->workspace_block);
        }
        if (step->packed_block >= 0) {
            step->packed = at(plan->persistent, persistent, step->packed_block);
        } else if (step->packs_each_run) {
            step->packed =
                (char *)step->call.workspace + padded(plan, step->launch.workspace_bytes);
        }
        step->call.packed = step->packed;
    }
}

static void count_bytes(plb_plan *plan) {
    const size_t *roles = plan->home == PLB_HOST_HOME ? plan->model->slab_bytes
                                                      : plan->model->homes[plan->home - 1].bytes;
    plan->bytes.weights =
        roles[PLB_ROLE_PARAMETER] + roles[PLB_ROLE_BUFFER] + plan->persistent_bytes;
    plan->bytes.optimizer = roles[PLB_ROLE_OPTIMIZER] + roles[PLB_ROLE_STATE];
    plan->bytes.activations += plan->bound_bytes;
    plan->bytes.transient = plan->transient_bytes;
    plan->bytes.total = plan->bytes.weights + plan->bytes.optimizer + plan->bound_bytes +
                        plan->transient_bytes + plan->bytes.kernels;
}

static void add_live(plb_plan *plan, const plb_block *block, bool gradient) {
    const size_t bytes = padded(plan, block->size_bytes);
    for (int i = block->first; i <= block->last; i++) {
        plan->steps[i].live_bytes += bytes;
        if (gradient) plan->steps[i].live_gradient_bytes += bytes;
    }
}

// What of the slab is alive at each step: values, gradients among them, and workspace.
static void count_live(plb_plan *plan, const slab *transient) {
    for (int v = 0; v < plan->graph->n_values; v++) {
        const plb_storage *s = &plan->storage[v];
        if (s->root == v && s->kind == PLB_PLACE_TRANSIENT)
            add_live(plan, &transient->blocks[s->block], s->backward);
    }
    for (int i = 0; i < plan->n_steps; i++) {
        const bool launches = plan->steps[i].kind == PLB_STEP_LAUNCH;
        const int block = launches ? plan->steps[i].workspace_block : -1;
        if (block < 0) continue;
        add_live(plan, &transient->blocks[block], false);
        plan->steps[i].live_workspace_bytes = padded(plan, transient->blocks[block].size_bytes);
    }
}

// Inputs and outputs begin as zeros; a device gets its own copies of constants.
static plb_status fill_slabs(plb_plan *plan) {
    const plb_backend *backend = plan->backend;
    if (backend->host_memory) {
        memset(plan->bound, 0, plan->bound_bytes);
        return PLB_OK;
    }
    PLB_TRY(backend->clear(plan->stream, plan->bound, plan->bound_bytes));
    for (int v = 0; v < plan->graph->n_values; v++) {
        const plb_storage *s = &plan->storage[v];
        if (s->root != v || s->kind != PLB_PLACE_CONSTANT) continue;
        const plb_constant_attrs *a = plan->graph->nodes[plan->graph->values[v].node].attrs;
        PLB_TRY(backend->copy(plan->stream, s->data, a->data, s->size_bytes));
    }
    return backend->wait(plan->stream);
}

// ---------------------------------------------------------------------------- how much at least
// The lives that values have in the main part, in places of plan->order: steps come later. What
// the prologue makes may be packed before the main part begins, and so does not count.
static void touch_order(lives *l) {
    const plb_plan *plan = l->plan;
    for (int i = 0; i < plan->graph->n_nodes; i++) {
        const int index = plan->order[i];
        const plb_node *node = &plan->graph->nodes[index];
        if (plan->prologue[index] || plan->is_view[index]) continue;
        for (int k = 0; k < node->n_out; k++) touch(l, node->out + k, i);
        for (int k = 0; k < node->n_in; k++) {
            const plb_value root = node->in[k] < 0 ? -1 : plan->storage[node->in[k]].root;
            if (root >= 0 && l->first[root] >= 0) touch(l, root, i);
        }
    }
}

// The most bytes that are alive at one place. A value of one place alone may be an output that
// nobody needs.
static size_t largest_live(const lives *l, ptrdiff_t *change) {
    const plb_plan *plan = l->plan;
    ptrdiff_t now = 0, most = 0;
    for (int v = 0; v < plan->graph->n_values; v++) {
        const plb_storage *s = &plan->storage[v];
        if (s->root != v || s->kind != PLB_PLACE_TRANSIENT || l->last[v] == l->first[v]) continue;
        change[l->first[v]] += (ptrdiff_t)padded(plan, s->size_bytes);
        change[l->last[v] + 1] -= (ptrdiff_t)padded(plan, s->size_bytes);
    }
    for (int i = 0; i < plan->graph->n_nodes; i++) {
        now += change[i];
        if (now > most) most = now;
    }
    return (size_t)most;
}

plb_status plb_plan_least_bytes(plb_plan *plan, size_t *out) {
    const size_t n_values = (size_t)plan->graph->n_values + 1;
    const size_t n_nodes = (size_t)plan->graph->n_nodes + 1;
    lives l = {.plan = plan};
    plb_status status = PLB_OK;
    l.first = plb_alloc_array(n_values, sizeof *l.first);
    l.last = plb_alloc_array(n_values, sizeof *l.last);
    ptrdiff_t *change = plb_alloc_array(n_nodes, sizeof *change);
    *out = 0;
    if (!l.first || !l.last || !change) {
        status = plb_fail(PLB_ENOMEM, "out of memory for a plan");
    } else {
        memset(change, 0, n_nodes * sizeof *change);
        for (size_t v = 0; v < n_values; v++) l.first[v] = l.last[v] = -1;
        touch_order(&l);
        *out = largest_live(&l, change);
    }
    plb_free(l.first);
    plb_free(l.last);
    plb_free(change);
    return status;
}

plb_status plb_plan_check_room(plb_plan *plan) {
    size_t least = 0, free_bytes = 0, total_bytes = 0;
    PLB_TRY(plb_plan_least_bytes(plan, &least));
    PLB_TRY(plan->backend->memory(plan->device, &free_bytes, &total_bytes));
    if (least <= free_bytes) return PLB_OK;
    return plb_fail(
        PLB_ENOMEM,
        "%s: out of memory: at least %zu bytes planned, %zu of the device's %zu are free",
        plan->options.device, least, free_bytes, total_bytes);
}

plb_status plb_plan_place(plb_plan *plan) {
    lives l = {.plan = plan};
    size_t n_values = (size_t)plan->graph->n_values + 1;
    size_t most = n_values + 2 * (size_t)plan->n_steps;
    slab transient = {0}, persistent = {0}, bound = {0};
    l.first = plb_alloc_array(n_values, sizeof *l.first);
    l.last = plb_alloc_array(n_values, sizeof *l.last);
    transient.blocks = plb_alloc_array(most, sizeof *transient.blocks);
    persistent.blocks = plb_alloc_array(most, sizeof *persistent.blocks);
    bound.blocks = plb_alloc_array(most, sizeof *bound.blocks);
    plb_status status = PLB_OK;
    if (!l.first || !l.last || !transient.blocks || !persistent.blocks || !bound.blocks) {
        status = plb_fail(PLB_ENOMEM, "out of memory for a plan");
        goto out;
    }
    for (size_t v = 0; v < n_values; v++) l.first[v] = l.last[v] = -1;
    for (int i = 0; i < plan->n_steps; i++) touch_step(&l, i);
    drop_unread_outputs(&l);
    settle_kinds(&l);
    collect(&l, &transient, &persistent, &bound);
    plb_alloc_trim(); // what timing took
    PLB_TRY_OUT(allocate(plan, &transient, &plan->transient));
    PLB_TRY_OUT(allocate(plan, &persistent, &plan->persistent));
    PLB_TRY_OUT(allocate(plan, &bound, &plan->bound));
    plan->transient_bytes = transient.bytes;
    plan->persistent_bytes = persistent.bytes;
    plan->bound_bytes = bound.bytes;
    point_values(plan, &transient, &persistent, &bound);
    point_steps(plan, &transient, &persistent);
    PLB_TRY_OUT(fill_slabs(plan));
    count_bytes(plan);
    count_live(plan, &transient);
out:
    plb_free(l.first);
    plb_free(l.last);
    plb_free(transient.blocks);
    plb_free(persistent.blocks);
    plb_free(bound.blocks);
    return status;
}
