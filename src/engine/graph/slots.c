// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/slots.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/plan.h"

enum { MAX_INPUTS = 8, NEAR_BYTES = 1 << 20 };

// Several values of a plan that are copied together: the run of bytes from the first to the last.
// What else lies between them is inputs and outputs of the same plan, which every run writes anew.
typedef struct span {
    char *data; // on the device; NULL: the values are copied one by one
    size_t size_bytes;
} span;

typedef struct slot {
    char *host, *staged; // inputs: pinned, filled by the caller; on the device
    char *result;        // pinned
    plb_event *copied, *done;
} slot;

struct plb_slots {
    plb_plan *plan;
    plb_stream *copies;
    plb_value input[MAX_INPUTS], result[PLB_SLOT_RESULTS];
    int n_inputs, n_results;
    size_t input_at[MAX_INPUTS], result_at[PLB_SLOT_RESULTS]; // in host, staged; in result
    size_t input_bytes, result_bytes;
    span inputs, results;
    int n_slots;
    slot *slots;
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

static size_t aligned(size_t size_bytes) {
    return (size_bytes + 255) & ~(size_t)255;
}

// Places values of these sizes at offsets in a buffer: as they lie on the device where they are
// near to each other there and all of them are bound, else one after the other.
static span arrange(char *const *data, const size_t *bytes, const bool *bound, int n, size_t *at,
                    size_t *out_bytes) {
    const char *low = NULL, *high = NULL;
    size_t sum = 0;
    bool together = n > 0;
    for (int k = 0; k < n; k++) {
        at[k] = sum;
        sum += aligned(bytes[k]);
        together = together && data[k] && bound[k];
        if (!together) continue;
        if (!low || data[k] < low) low = data[k];
        if (!high || data[k] + bytes[k] > high) high = data[k] + bytes[k];
    }
    *out_bytes = sum;
    if (!together || (size_t)(high - low) > sum + sum / 4 + 4096) return (span){0};
    for (int k = 0; k < n; k++) at[k] = (size_t)(data[k] - low);
    *out_bytes = (size_t)(high - low);
    return (span){(char *)low, *out_bytes};
}

static void arrange_all(plb_slots *s) {
    char *data[MAX_INPUTS];
    size_t bytes[MAX_INPUTS];
    bool bound[MAX_INPUTS];
    for (int k = 0; k < s->n_inputs; k++) {
        const plb_storage *to = storage_of(s, s->input[k]);
        data[k] = to->data, bytes[k] = to->size_bytes, bound[k] = to->kind == PLB_PLACE_BOUND;
    }
    s->inputs = arrange(data, bytes, bound, s->n_inputs, s->input_at, &s->input_bytes);
    for (int k = 0; k < s->n_results; k++) {
        const plb_tensor *from = &s->plan->tensors[s->result[k]];
        data[k] = from->data, bytes[k] = plb_dtype_size(from->dtype);
        bound[k] = storage_of(s, s->result[k])->kind == PLB_PLACE_BOUND;
    }
    s->results = arrange(data, bytes, bound, s->n_results, s->result_at, &s->result_bytes);
}

static plb_status make_slot(plb_slots *s, slot *one) {
    const plb_backend *b = s->plan->backend;
    plb_device *device = s->plan->device;
    void *host = NULL, *staged = NULL, *result = NULL;
    plb_status status = b->host_alloc(device, s->input_bytes, &host);
    if (!status) memset(host, 0, s->input_bytes);
    if (!status) status = b->alloc(device, s->input_bytes, &staged);
    if (!status && s->n_results) status = b->host_alloc(device, s->result_bytes, &result);
    one->host = host, one->staged = staged, one->result = result;
    PLB_TRY(status);
    PLB_TRY(b->event_new(device, &one->copied));
    return b->event_new(device, &one->done);
}

plb_status plb_slots_new(plb_plan *plan, int n_slots, const char *const *results, int n_results,
                         plb_slots **out) {
    *out = NULL;
    if (plan->backend->host_memory || !plan->graph || plan->events) return PLB_OK;
    plb_slots *s = plb_alloc(sizeof *s);
    if (s) s->slots = plb_alloc((size_t)n_slots * sizeof *s->slots);
    if (!s || !s->slots) {
        plb_free(s);
        return plb_fail(PLB_ENOMEM, "out of memory for slots");
    }
    s->plan = plan;
    s->n_slots = n_slots;
    plb_status status = plan->backend->enter(plan->device);
    if (!status) status = plan->backend->stream_new(plan->device, &s->copies);
    if (!status) status = find_values(s, results, n_results);
    if (!status) arrange_all(s);
    for (int i = 0; i < n_slots && !status; i++) status = make_slot(s, &s->slots[i]);
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
    for (int i = 0; i < s->n_slots; i++) {
        slot *one = &s->slots[i];
        b->host_free(device, one->host);
        b->free(device, one->staged);
        b->host_free(device, one->result);
        b->event_free(one->copied);
        b->event_free(one->done);
    }
    b->stream_free(s->copies);
    plb_free(s->slots);
    plb_free(s);
}

plb_status plb_slots_input(plb_slots *s, int slot_index, const char *name, plb_tensor *out) {
    const plb_graph *graph = s->plan->graph;
    for (int k = 0; k < s->n_inputs; k++) {
        const plb_node *node = &graph->nodes[graph->values[s->input[k]].node];
        if (strcmp(((const plb_input_attrs *)node->attrs)->name, name) != 0) continue;
        *out = s->plan->tensors[s->input[k]];
        out->data = s->slots[slot_index].host + s->input_at[k];
        return PLB_OK;
    }
    return plb_fail(PLB_EINVAL, "no input is called %s", name);
}

// In the stream of the runs, between two of them: there every microsecond counts.
static plb_status copy_between(const plb_slots *s, void *to, const void *from, size_t size_bytes) {
    const plb_backend *b = s->plan->backend;
    bool near = b->copy_near && size_bytes <= NEAR_BYTES;
    return near ? b->copy_near(s->plan->stream, to, from, size_bytes)
                : b->copy(s->plan->stream, to, from, size_bytes);
}

static plb_status place_inputs(plb_slots *s, const slot *one) {
    if (s->inputs.data) {
        return copy_between(s, s->inputs.data, one->staged, s->inputs.size_bytes);
    }
    for (int k = 0; k < s->n_inputs; k++) {
        const plb_storage *to = storage_of(s, s->input[k]);
        if (!to->data) continue; // nobody reads it
        PLB_TRY(copy_between(s, to->data, one->staged + s->input_at[k], to->size_bytes));
    }
    return PLB_OK;
}

static plb_status fetch_results(plb_slots *s, const slot *one) {
    if (s->results.data) {
        return copy_between(s, one->result, s->results.data, s->results.size_bytes);
    }
    for (int k = 0; k < s->n_results; k++) {
        const plb_tensor *from = &s->plan->tensors[s->result[k]];
        PLB_TRY(copy_between(s, one->result + s->result_at[k], from->data,
                             plb_dtype_size(from->dtype)));
    }
    return PLB_OK;
}

// Runs beside the run before; only the copy within the device waits for it.
plb_status plb_slots_send(plb_slots *s, int slot_index) {
    const plb_backend *b = s->plan->backend;
    slot *one = &s->slots[slot_index];
    PLB_TRY(b->enter(s->plan->device));
    PLB_TRY(b->copy(s->copies, one->staged, one->host, s->input_bytes));
    return b->record(s->copies, one->copied);
}

plb_status plb_slots_arrived(plb_slots *s) {
    return s->plan->backend->wait(s->copies);
}

plb_status plb_slots_run(plb_slots *s, int slot_index) {
    const plb_backend *b = s->plan->backend;
    slot *one = &s->slots[slot_index];
    PLB_TRY(b->enter(s->plan->device));
    PLB_TRY(b->wait_event(s->plan->stream, one->copied));
    PLB_TRY(place_inputs(s, one));
    PLB_TRY(plb_plan_launch(s->plan));
    PLB_TRY(fetch_results(s, one));
    return b->record(s->plan->stream, one->done);
}

plb_status plb_slots_launch(plb_slots *s, int slot_index) {
    PLB_TRY(plb_slots_send(s, slot_index));
    return plb_slots_run(s, slot_index);
}

plb_status plb_slots_wait(plb_slots *s, int slot_index, double *out) {
    slot *one = &s->slots[slot_index];
    PLB_TRY(s->plan->backend->wait_for(one->done));
    for (int k = 0; k < s->n_results; k++) {
        out[k] =
            plb_load_f64(one->result + s->result_at[k], s->plan->tensors[s->result[k]].dtype, 0);
    }
    return PLB_OK;
}
