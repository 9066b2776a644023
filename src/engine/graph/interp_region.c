// SPDX-License-Identifier: Apache-2.0
// if, loop and scan at level interp; region.h says what they mean. A region borrows the memory of
// its inputs, and its outputs are copied to where they are wanted. What a loop carries lies twice
// in memory, the old and the new, because an output may be another's input.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/status.h"
#include "engine/graph/interp.h"
#include "engine/graph/region.h"

enum { MAX_OUT = 2 * PLB_MAX_OUTPUTS };

// One run of a region; `in` in the order of its inputs, `out` in that of its outputs.
static plb_status run_region(plb_plan *plan, plb_interp *region, const plb_tensor *in,
                             const plb_tensor *out) {
    const plb_graph *graph = region->graph;
    for (int i = 0, k = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].op != PLB_OP_input) continue;
        region->tensors[graph->nodes[i].out] = in[k++];
    }
    plb_status status = plb_interp_run_graph(plan, region);
    for (int i = 0; i < graph->n_outputs && !status; i++) {
        status = plb_interp_copy(plan, &out[i], &region->tensors[graph->outputs[i].value]);
    }
    plb_interp_drop(region);
    return status;
}

static size_t bytes_of(const plb_tensor *t) {
    return plb_layout_bytes(&t->shape, t->dtype, (plb_layout){0});
}

// Row t along axis 0 of a plain dense tensor.
static plb_tensor row_of(const plb_tensor *whole, int64_t t) {
    plb_shape shape = {.rank = whole->shape.rank - 1};
    memcpy(shape.dim, whole->shape.dim + 1, (size_t)shape.rank * sizeof *shape.dim);
    size_t row = plb_layout_bytes(&shape, whole->dtype, (plb_layout){0});
    return plb_tensor_dense((char *)whole->data + (size_t)t * row, whole->dtype, &shape,
                            (plb_layout){0});
}

// What goes round: the current values and room for the next ones.
typedef struct carried {
    plb_plan *plan;
    plb_interp *interp;
    plb_value first; // of the node's outputs
    int n;
    plb_tensor now[PLB_MAX_OUTPUTS], next[PLB_MAX_OUTPUTS];
} carried;

static plb_status carried_begin(carried *c, const plb_tensor *in, const plb_tensor *out) {
    for (int k = 0; k < c->n; k++) {
        c->now[k] = out[k];
        PLB_TRY(plb_interp_copy(c->plan, &c->now[k], &in[k]));
    }
    for (int k = 0; k < c->n; k++) {
        c->next[k] = out[k];
        c->next[k].data = NULL;
        PLB_TRY(plb_interp_alloc(c->plan, bytes_of(&out[k]), &c->next[k].data));
    }
    return PLB_OK;
}

static void carried_turn(carried *c) {
    for (int k = 0; k < c->n; k++) {
        void *data = c->now[k].data;
        c->now[k].data = c->next[k].data;
        c->next[k].data = data;
    }
}

// The node's outputs keep the current values, the other memory goes.
static void carried_end(carried *c) {
    for (int k = 0; k < c->n; k++) {
        if (!c->now[k].data) continue; // never begun
        c->interp->owned[c->first + k] = c->now[k].data;
        c->interp->tensors[c->first + k].data = c->now[k].data;
        plb_interp_release(c->plan, c->next[k].data);
    }
}

static plb_status in_time(const plb_plan *plan) {
    if (!plan->deadline_ns || plb_now_ns() < plan->deadline_ns) return PLB_OK;
    return plb_fail(PLB_EUNSUPPORTED, "not done within the time limit of %g s",
                    (double)plan->options.time_limit_ms / 1000);
}

static plb_status run_trip(plb_plan *plan, plb_interp *region, const plb_region_attrs *a,
                           carried *c, plb_tensor *from, plb_tensor *to) {
    const int n = (int)a->n_carried;
    // In a loop the iteration comes before what is carried, and whether to go on after it.
    const int before = region->graph->n_outputs - n - (int)a->n_stacks;
    PLB_TRY(in_time(plan));
    for (int k = 0; k < n; k++) from[before + k] = c->now[k], to[before + k] = c->next[k];
    PLB_TRY(run_region(plan, region, from, to));
    carried_turn(c);
    return PLB_OK;
}

static plb_status read_i64(plb_plan *plan, const plb_tensor *from, int64_t *out) {
    return from->data ? plb_interp_get(plan, out, from->data, sizeof *out) : PLB_OK;
}

static plb_status read_bool(plb_plan *plan, const plb_tensor *from, uint8_t *out) {
    return from->data ? plb_interp_get(plan, out, from->data, sizeof *out) : PLB_OK;
}

// The iteration's number and whether to go on, where the region reads and writes them.
typedef struct trip {
    void *number, *go_on;
} trip;

static plb_status begin_loop(plb_plan *plan, trip *t, plb_tensor *from, plb_tensor *to) {
    PLB_TRY(plb_interp_alloc(plan, sizeof(int64_t), &t->number));
    PLB_TRY(plb_interp_alloc(plan, 1, &t->go_on));
    from[0] = plb_tensor_dense(t->number, PLB_I64, &plb_scalar_shape, (plb_layout){0});
    to[0] = plb_tensor_dense(t->go_on, PLB_BOOL, &plb_scalar_shape, (plb_layout){0});
    return PLB_OK;
}

static plb_status run_loop(plb_plan *plan, plb_interp *interp, int index, const plb_tensor *in,
                           const plb_tensor *out) {
    const plb_node *node = &interp->graph->nodes[index];
    const plb_region_attrs *a = node->attrs;
    const int n = (int)a->n_carried, s = (int)a->n_stacks;
    int64_t trips = INT64_MAX, i = 0;
    uint8_t go_on = 1;
    carried c = {.plan = plan, .interp = interp, .first = node->out, .n = n};
    trip t = {0};
    plb_tensor from[PLB_REGION_MAX_IN], to[MAX_OUT];
    plb_status status = PLB_OK;
    PLB_TRY_OUT(read_i64(plan, &in[0], &trips));
    PLB_TRY_OUT(read_bool(plan, &in[1], &go_on));
    PLB_TRY_OUT(begin_loop(plan, &t, from, to));
    for (int k = 0; k < a->n_captures; k++) from[1 + n + k] = in[2 + n + k];
    for (int k = 0; k < s; k++) {
        PLB_TRY_OUT(plb_interp_clear(plan, out[n + k].data, bytes_of(&out[n + k])));
    }
    PLB_TRY_OUT(carried_begin(&c, in + 2, out));
    for (; i < trips && go_on; i++) {
        if (s && i >= a->max_trips) {
            PLB_TRY_OUT(plb_fail(PLB_EINVAL, "a trip beyond max_trips, which is %lld",
                                 (long long)a->max_trips));
        }
        PLB_TRY_OUT(plb_interp_put(plan, t.number, &i, sizeof i));
        for (int k = 0; k < s; k++) to[1 + n + k] = row_of(&out[n + k], i);
        PLB_TRY_OUT(run_trip(plan, interp->nodes[index].region[0], a, &c, from, to));
        PLB_TRY_OUT(read_bool(plan, &to[0], &go_on));
    }
    PLB_TRY_OUT(plb_interp_put(plan, out[n + s].data, &i, sizeof i));
out:
    plb_interp_release(plan, t.number);
    plb_interp_release(plan, t.go_on);
    carried_end(&c);
    return status;
}

static plb_status run_scan(plb_plan *plan, plb_interp *interp, int index, const plb_tensor *in,
                           const plb_tensor *out) {
    const plb_node *node = &interp->graph->nodes[index];
    const plb_region_attrs *a = node->attrs;
    const int n = (int)a->n_carried, m = (int)a->n_scanned, s = (int)a->n_stacks;
    const int64_t rows = in[n].shape.dim[0];
    carried c = {.plan = plan, .interp = interp, .first = node->out, .n = n};
    plb_tensor from[PLB_REGION_MAX_IN], to[MAX_OUT];
    plb_status status = PLB_OK;
    for (int k = n + m; k < node->n_in; k++) from[k] = in[k];
    PLB_TRY_OUT(carried_begin(&c, in, out));
    for (int64_t i = 0; i < rows; i++) {
        int64_t t = a->reverse ? rows - 1 - i : i;
        for (int k = 0; k < m; k++) from[n + k] = row_of(&in[n + k], t);
        for (int k = 0; k < s; k++) to[n + k] = row_of(&out[n + k], t);
        PLB_TRY_OUT(run_trip(plan, interp->nodes[index].region[0], a, &c, from, to));
    }
out:
    carried_end(&c);
    return status;
}

plb_status plb_interp_run_regions(plb_plan *plan, plb_interp *interp, int index,
                                  const plb_interp_operands *operands) {
    const plb_node *node = &interp->graph->nodes[index];
    const plb_tensor *in = operands->all, *out = in + node->n_in;
    if (node->op == PLB_OP_loop) return run_loop(plan, interp, index, in, out);
    if (node->op == PLB_OP_scan) return run_scan(plan, interp, index, in, out);
    uint8_t holds = 0;
    PLB_TRY(read_bool(plan, &in[0], &holds));
    return run_region(plan, interp->nodes[index].region[holds ? 0 : 1], in + 1, out);
}
