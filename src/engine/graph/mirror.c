// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs of a plan whose device has its own memory. Callers fill and read pinned
// copies on the host: every input has one from the beginning and is uploaded by each run; an
// output gets one when somebody first asks for it, and each later run brings it along.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/plan.h"

static plb_value root_of(const plb_plan *plan, plb_value value) {
    return plan->storage[value].root;
}

static plb_status make(plb_plan *plan, plb_value root) {
    if (plan->mirror[root]) return PLB_OK;
    size_t size = plan->storage[root].size_bytes;
    PLB_TRY(plan->backend->host_alloc(plan->device, size, &plan->mirror[root]));
    memset(plan->mirror[root], 0, size);
    return PLB_OK;
}

plb_status plb_mirror_new(plb_plan *plan) {
    const plb_graph *graph = plan->graph;
    plan->mirror =
        plb_arena_alloc(plan->arena, ((size_t)graph->n_values + 1) * sizeof *plan->mirror);
    if (!plan->mirror) return plb_fail(PLB_ENOMEM, "out of memory for a plan");
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].op != PLB_OP_input) continue;
        PLB_TRY(make(plan, root_of(plan, graph->nodes[i].out)));
    }
    return PLB_OK;
}

void plb_mirror_free(plb_plan *plan) {
    for (int v = 0; plan->mirror && v < plan->graph->n_values; v++) {
        plan->backend->host_free(plan->device, plan->mirror[v]);
    }
}

plb_status plb_mirror_upload(plb_plan *plan) {
    const plb_graph *graph = plan->graph;
    if (!graph) return plb_interp_upload(plan);
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].op != PLB_OP_input) continue;
        plb_value root = root_of(plan, graph->nodes[i].out);
        const plb_storage *s = &plan->storage[root];
        if (!s->data) continue;
        PLB_TRY(plan->backend->copy(plan->stream, s->data, plan->mirror[root], s->size_bytes));
    }
    return PLB_OK;
}

static plb_status fetch(plb_plan *plan, plb_value root) {
    const plb_storage *s = &plan->storage[root];
    return plan->backend->copy(plan->stream, plan->mirror[root], s->data, s->size_bytes);
}

plb_status plb_mirror_download(plb_plan *plan) {
    const plb_graph *graph = plan->graph;
    if (!graph) return PLB_OK; // level interp fetches what is asked for
    for (int i = 0; i < graph->n_outputs; i++) {
        plb_value root = root_of(plan, graph->outputs[i].value);
        bool input = plan->graph->nodes[graph->values[root].node].op == PLB_OP_input;
        if (plan->mirror[root] && !input) PLB_TRY(fetch(plan, root));
    }
    return PLB_OK;
}

plb_status plb_mirror_view(plb_plan *plan, plb_value value, plb_tensor *out) {
    plb_value root = root_of(plan, value);
    const plb_storage *s = &plan->storage[root];
    if (!plan->mirror[root]) {
        PLB_TRY(plan->backend->enter(plan->device));
        PLB_TRY(make(plan, root));
        PLB_TRY(fetch(plan, root));
        PLB_TRY(plan->backend->wait(plan->stream));
    }
    *out = plan->tensors[value];
    out->data = (char *)plan->mirror[root] + ((char *)plan->tensors[value].data - (char *)s->data);
    return PLB_OK;
}
