// SPDX-License-Identifier: Apache-2.0
// Runs a graph by the references of its ops, regions included, in the simplest way: every value
// gets memory of its own. The executors are checked elsewhere; this checks what ops mean.
#ifndef PLB_TESTS_ENGINE_RUN_REF_H
#define PLB_TESTS_ENGINE_RUN_REF_H

#include <stdlib.h>

#include "base/core/status.h"
#include "engine/graph/region.h"

enum { RUN_REF_MAX_IN = 64 };

typedef struct run_ref {
    const plb_graph *graph;
    plb_tensor *values;
} run_ref;

static inline plb_tensor run_ref_tensor(const plb_type *type) {
    size_t size = plb_layout_bytes(&type->shape, type->dtype, (plb_layout){0});
    return plb_tensor_dense(calloc(1, size + 1), type->dtype, &type->shape, (plb_layout){0});
}

static inline void run_ref_new(run_ref *run, const plb_graph *graph) {
    *run = (run_ref){graph, calloc((size_t)graph->n_values + 1, sizeof(plb_tensor))};
    for (int i = 0; i < graph->n_values; i++) {
        run->values[i] = run_ref_tensor(&graph->values[i].type);
    }
}

static inline void run_ref_free(run_ref *run) {
    for (int i = 0; i < run->graph->n_values; i++) free(run->values[i].data);
    free(run->values);
}

static inline plb_status run_ref_all(run_ref *run);

static inline plb_status run_ref_copy(const plb_tensor *to, const plb_tensor *from) {
    plb_tensor target = *to;
    return plb_tensor_copy(&target, from);
}

// Row t of a tensor.
static inline plb_tensor run_ref_row(const plb_tensor *whole, int64_t t) {
    plb_type type = {whole->dtype, {.rank = whole->shape.rank - 1}};
    for (int i = 0; i < type.shape.rank; i++) type.shape.dim[i] = whole->shape.dim[i + 1];
    size_t row = plb_layout_bytes(&type.shape, type.dtype, (plb_layout){0});
    return plb_tensor_dense((char *)whole->data + (size_t)t * row, type.dtype, &type.shape,
                            (plb_layout){0});
}

// One run of a region: `in` are its inputs in order, `out` receives copies of its outputs.
static inline plb_status run_ref_region(const plb_graph *region, const plb_tensor *in,
                                        const plb_tensor *out) {
    run_ref run;
    run_ref_new(&run, region);
    plb_status status = PLB_OK;
    for (int i = 0, k = 0; i < region->n_nodes && !status; i++) {
        const plb_node *node = &region->nodes[i];
        if (node->op == PLB_OP_input) status = run_ref_copy(&run.values[node->out], &in[k++]);
    }
    if (!status) status = run_ref_all(&run);
    for (int i = 0; i < region->n_outputs && !status; i++) {
        status = run_ref_copy(&out[i], &run.values[region->outputs[i].value]);
    }
    run_ref_free(&run);
    return status;
}

static inline plb_status run_ref_loop(const plb_node *node, const plb_tensor *in,
                                      const plb_tensor *out) {
    const plb_region_attrs *a = node->attrs;
    const int n = (int)a->n_carried, s = (int)a->n_stacks;
    int64_t trips = in[0].data ? plb_load_i64(in[0].data, PLB_I64, 0) : INT64_MAX, i = 0;
    uint8_t go_on = in[1].data ? *(const uint8_t *)in[1].data : 1;
    plb_tensor from[RUN_REF_MAX_IN], to[PLB_MAX_OUTPUTS + 1];
    for (int k = 0; k < n; k++) PLB_TRY(run_ref_copy(&out[k], &in[2 + k]));
    for (; i < trips && go_on; i++) {
        if (s && i >= a->max_trips) {
            return plb_fail(PLB_EINVAL, "loop: more than max_trips, %lld", (long long)a->max_trips);
        }
        from[0] = plb_tensor_dense(&i, PLB_I64, &plb_scalar_shape, (plb_layout){0});
        to[0] = plb_tensor_dense(&go_on, PLB_BOOL, &plb_scalar_shape, (plb_layout){0});
        for (int k = 0; k < n; k++) from[1 + k] = to[1 + k] = out[k];
        for (int k = 0; k < a->n_captures; k++) from[1 + n + k] = in[2 + n + k];
        for (int k = 0; k < s; k++) to[1 + n + k] = run_ref_row(&out[n + k], i);
        PLB_TRY(run_ref_region(node->region[0], from, to));
    }
    plb_store_i64(out[n + s].data, PLB_I64, 0, i);
    return PLB_OK;
}

static inline plb_status run_ref_scan(const plb_node *node, const plb_tensor *in,
                                      const plb_tensor *out) {
    const plb_region_attrs *a = node->attrs;
    const int n = (int)a->n_carried, m = (int)a->n_scanned, s = (int)a->n_stacks;
    const int64_t rows = in[n].shape.dim[0];
    plb_tensor from[RUN_REF_MAX_IN], to[PLB_MAX_OUTPUTS];
    for (int k = 0; k < n; k++) PLB_TRY(run_ref_copy(&out[k], &in[k]));
    for (int64_t i = 0; i < rows; i++) {
        int64_t t = a->reverse ? rows - 1 - i : i;
        for (int k = 0; k < n; k++) from[k] = to[k] = out[k];
        for (int k = 0; k < m; k++) from[n + k] = run_ref_row(&in[n + k], t);
        for (int k = n + m; k < node->n_in; k++) from[k] = in[k];
        for (int k = 0; k < s; k++) to[n + k] = run_ref_row(&out[n + k], t);
        PLB_TRY(run_ref_region(node->region[0], from, to));
    }
    return PLB_OK;
}

static inline plb_status run_ref_node(run_ref *run, const plb_node *node) {
    if (node->op == PLB_OP_input) return PLB_OK;
    plb_tensor in[RUN_REF_MAX_IN] = {{0}}, *out = &run->values[node->out];
    if (node->op == PLB_OP_constant) {
        const plb_constant_attrs *a = node->attrs;
        plb_tensor from =
            plb_tensor_dense((void *)a->data, a->type.dtype, &a->type.shape, (plb_layout){0});
        return plb_tensor_copy(out, &from);
    }
    for (int k = 0; k < node->n_in; k++) {
        if (node->in[k] >= 0) in[k] = run->values[node->in[k]];
    }
    if (node->op == PLB_OP_loop) return run_ref_loop(node, in, out);
    if (node->op == PLB_OP_scan) return run_ref_scan(node, in, out);
    if (node->op == PLB_OP_if) {
        bool holds = *(const uint8_t *)in[0].data;
        return run_ref_region(node->region[holds ? 0 : 1], in + 1, out);
    }
    plb_call call = {.attrs = node->attrs,
                     .n_in = node->n_in,
                     .n_out = node->n_out,
                     .in = in,
                     .out = out,
                     .threads = 1};
    return plb_op_of(node->op)->ref(&call);
}

// Inputs hold what the caller put there.
static inline plb_status run_ref_all(run_ref *run) {
    for (int i = 0; i < run->graph->n_nodes; i++) {
        PLB_TRY(run_ref_node(run, &run->graph->nodes[i]));
    }
    return PLB_OK;
}

static inline double run_ref_at(const run_ref *run, plb_value value, int64_t i) {
    return plb_load_f64(run->values[value].data, run->values[value].dtype, i);
}

static inline void run_ref_set(const run_ref *run, plb_value value, int64_t i, double x) {
    plb_store_f64(run->values[value].data, run->values[value].dtype, i, x);
}

#endif
