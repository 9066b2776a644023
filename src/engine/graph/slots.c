// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/slots.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/plan.h"

enum { MAX_INPUTS = 8 };

typedef struct slot {
    void *host[MAX_INPUTS];   // pinned; filled by the caller
    void *staged[MAX_INPUTS]; // on the device
    void *result[PLB_SLOT_RESULTS];
    plb_event *copied, *done;
} slot;

struct plb_slots {
    plb_plan *plan;
    plb_stream *copies;
    plb_value input[MAX_INPUTS], result[PLB_SLOT_RESULTS];
    int n_inputs, n_results;
    slot slots[PLB_SLOTS];
};

static const plb_storage *storage_of(const plb_slots *s, plb_value value) {
    return &s->plan->storage[s->plan->storage[value].root];
}

static plb_status find_values(plb_slots *s, const char *const *results, int n_results) {
    const plb_graph *graph = s->plan->graph;
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].op != PLB_OP_input) continue;
        if (s->n_inputs == MAX_INPUTS) {
            return plb_fail(PLB_EUNSUPPORTED, "more than %d inputs", MAX_INPUTS);
        }
        s->input[s->n_inputs++] = graph->nodes[i].out;
    }
    for (int k = 0; k < n_results && k < PLB_SLOT_RESULTS; k++) {
        int found = -1;
        for (int i = 0; i < graph->n_outputs; i++) {
            if (strcmp(graph->outputs[i].name, results[k]) == 0) found = i;
        }
        if (found < 0) return plb_fail(PLB_EINVAL, "no output is called %s", results[k]);
        s->result[s->n_results++] = graph->outputs[found].value;
    }
    return PLB_OK;
}

static plb_status make_slot(plb_slots *s, slot *one) {
    const plb_backend *b = s->plan->backend;
    plb_device *device = s->plan->device;
    for (int k = 0; k < s->n_inputs; k++) {
        size_t size = storage_of(s, s->input[k])->size_bytes;
        PLB_TRY(b->host_alloc(device, size, &one->host[k]));
        PLB_TRY(b->alloc(device, size, &one->staged[k]));
        memset(one->host[k], 0, size);
    }
    for (int k = 0; k < s->n_results; k++) {
        PLB_TRY(b->host_alloc(device, sizeof(double), &one->result[k]));
    }
    PLB_TRY(b->event_new(device, &one->copied));
    return b->event_new(device, &one->done);
}

plb_status plb_slots_new(plb_plan *plan, const char *const *results, int n_results,
                         plb_slots **out) {
    *out = NULL;
    if (plan->backend->host_memory || !plan->graph || plan->events) return PLB_OK;
    plb_slots *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for slots");
    s->plan = plan;
    plb_status status = plan->backend->enter(plan->device);
    if (!status) status = plan->backend->stream_new(plan->device, &s->copies);
    if (!status) status = find_values(s, results, n_results);
    for (int i = 0; i < PLB_SLOTS && !status; i++) status = make_slot(s, &s->slots[i]);
    if (status) {
        plb_slots_free(s);
        return status;
    }
    *out = s;
    return PLB_OK;
}

void plb_slots_free(plb_slots *s) {
    if (!s) return;
    const plb_backend *b = s->plan->backend;
    plb_device *device = s->plan->device;
    (void)!b->wait(s->plan->stream);
    for (int i = 0; i < PLB_SLOTS; i++) {
        slot *one = &s->slots[i];
        for (int k = 0; k < MAX_INPUTS; k++) {
            b->host_free(device, one->host[k]);
            b->free(device, one->staged[k]);
        }
        for (int k = 0; k < PLB_SLOT_RESULTS; k++) b->host_free(device, one->result[k]);
        b->event_free(one->copied);
        b->event_free(one->done);
    }
    b->stream_free(s->copies);
    plb_free(s);
}

plb_status plb_slots_input(plb_slots *s, int slot_index, const char *name, plb_tensor *out) {
    const plb_graph *graph = s->plan->graph;
    for (int k = 0; k < s->n_inputs; k++) {
        const plb_node *node = &graph->nodes[graph->values[s->input[k]].node];
        if (strcmp(((const plb_input_attrs *)node->attrs)->name, name) != 0) continue;
        *out = s->plan->tensors[s->input[k]];
        out->data = s->slots[slot_index].host[k];
        return PLB_OK;
    }
    return plb_fail(PLB_EINVAL, "no input is called %s", name);
}

// Copies to the staging memory run beside the run before; only the last step, within the device,
// waits for it.
plb_status plb_slots_launch(plb_slots *s, int slot_index) {
    const plb_backend *b = s->plan->backend;
    slot *one = &s->slots[slot_index];
    PLB_TRY(b->enter(s->plan->device));
    for (int k = 0; k < s->n_inputs; k++) {
        size_t size = storage_of(s, s->input[k])->size_bytes;
        PLB_TRY(b->copy(s->copies, one->staged[k], one->host[k], size));
    }
    PLB_TRY(b->record(s->copies, one->copied));
    PLB_TRY(b->wait_event(s->plan->stream, one->copied));
    for (int k = 0; k < s->n_inputs; k++) {
        const plb_storage *to = storage_of(s, s->input[k]);
        if (to->data) PLB_TRY(b->copy(s->plan->stream, to->data, one->staged[k], to->size_bytes));
    }
    PLB_TRY(plb_plan_launch(s->plan));
    for (int k = 0; k < s->n_results; k++) {
        const plb_tensor *from = &s->plan->tensors[s->result[k]];
        PLB_TRY(b->copy(s->plan->stream, one->result[k], from->data, plb_dtype_size(from->dtype)));
    }
    return b->record(s->plan->stream, one->done);
}

plb_status plb_slots_wait(plb_slots *s, int slot_index, double *out) {
    slot *one = &s->slots[slot_index];
    PLB_TRY(s->plan->backend->wait_for(one->done));
    for (int k = 0; k < s->n_results; k++) {
        out[k] = plb_load_f64(one->result[k], s->plan->tensors[s->result[k]].dtype, 0);
    }
    return PLB_OK;
}
