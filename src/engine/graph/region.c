// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/region.h"

#include <stdio.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

plb_graph *plb_region_new(plb_graph *outer, const char *name, const plb_type *types, int n,
                          plb_value *in) {
    if (outer->status) return NULL;
    plb_graph *region = plb_graph_new(outer->model, name);
    if (!region) {
        plb_graph_fail(outer, plb_fail(PLB_ENOMEM, "out of memory for a region"));
        return NULL;
    }
    region->training = outer->training;
    plb_scope_enter(region, plb_scope(outer)); // names stay whole: "decoder.lstm.gates"
    region->differentiating = outer->differentiating;
    for (int i = 0; i < n; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        in[i] = plb_input(region, number, types[i].dtype, &types[i].shape);
    }
    return region;
}

static plb_status check_nodes(const plb_graph *region) {
    for (int i = 0; i < region->n_nodes; i++) {
        const plb_node *node = &region->nodes[i];
        if (node->op != PLB_OP_read && node->op != PLB_OP_assign) continue;
        int variable = ((const plb_variable_attrs *)node->attrs)->variable;
        return plb_fail(PLB_EINVAL, "%s of variable %s in a region: read it outside and capture it",
                        plb_op_of(node->op)->name, region->model->variables[variable].name);
    }
    return PLB_OK;
}

bool plb_region_close(plb_graph *outer, plb_graph *region, const plb_value *out, int n) {
    for (int i = 0; i < n; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        plb_output(region, number, out[i]);
    }
    if (!region->status) {
        plb_status status = check_nodes(region);
        if (status) plb_graph_fail(region, status);
    }
    plb_status status = plb_graph_status(region);
    if (status) plb_graph_fail(outer, status);
    return !status;
}

plb_value plb_region_emit(plb_graph *outer, plb_op_id op, const plb_value *in, int n_in,
                          const plb_region_attrs *attrs, plb_graph *first, plb_graph *second) {
    plb_value out = outer->status ? PLB_NONE : plb_emit(outer, op, in, n_in, attrs);
    if (outer->status) {
        plb_graph_free(first);
        plb_graph_free(second);
        return PLB_NONE;
    }
    plb_node *node = &outer->nodes[outer->n_nodes - 1];
    node->region[0] = first;
    node->region[1] = second;
    return out;
}

void plb_region_carries(plb_graph *region, const plb_type *types, const plb_value *out, int n) {
    for (int i = 0; i < n && !region->status; i++) {
        plb_type found = plb_value_type(region, out[i]);
        if (found.dtype == types[i].dtype && plb_shape_equal(&found.shape, &types[i].shape)) {
            continue;
        }
        char s[160], t[160];
        plb_graph_fail(region, plb_fail(PLB_EINVAL, "carried value %d: %s %s came in, %s %s out", i,
                                        plb_dtype_name(types[i].dtype),
                                        plb_shape_format(&types[i].shape, s, sizeof s),
                                        plb_dtype_name(found.dtype),
                                        plb_shape_format(&found.shape, t, sizeof t)));
    }
}

plb_status plb_region_stacks(plb_signature *s, int n, int64_t extent) {
    const plb_region_attrs *attrs = s->attrs;
    s->n_out = n;
    for (int i = 0; i < attrs->n_stacks; i++) {
        plb_type row = attrs->types[i], stack = {row.dtype, {.rank = row.shape.rank + 1}};
        if (stack.shape.rank > PLB_MAX_RANK) {
            return plb_fail(PLB_EINVAL, "stack of rows of rank %d", row.shape.rank);
        }
        stack.shape.dim[0] = extent;
        for (int k = 0; k < row.shape.rank; k++) stack.shape.dim[k + 1] = row.shape.dim[k];
        s->out[s->n_out++] = stack;
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- copies
static plb_graph *clone(const plb_graph *region);

// The copy of one node, its inputs looked up in `map`.
static void copy_node(plb_graph *to, const plb_graph *from, int index, plb_value *map) {
    const plb_node *node = &from->nodes[index];
    plb_value in[PLB_REGION_MAX_IN * 4];
    plb_type types[PLB_MAX_OUTPUTS];
    plb_node copy = *node;
    for (int k = 0; k < node->n_in; k++) in[k] = node->in[k] < 0 ? PLB_NONE : map[node->in[k]];
    for (int k = 0; k < node->n_out; k++) types[k] = from->values[node->out + k].type;
    copy.in = in;
    bool cloned = true;
    for (int r = 0; r < PLB_MAX_REGIONS; r++) {
        copy.region[r] = node->region[r] ? clone(node->region[r]) : NULL;
        cloned &= !node->region[r] || copy.region[r];
    }
    if (!cloned) plb_graph_fail(to, plb_fail(PLB_ENOMEM, "out of memory for a region"));
    plb_value out = to->status ? PLB_NONE : plb_append_node(to, &copy, types);
    if (to->status) {
        for (int r = 0; r < PLB_MAX_REGIONS; r++) plb_graph_free(copy.region[r]);
        return;
    }
    for (int k = 0; k < node->n_out; k++) map[node->out + k] = out + k;
    for (int k = 0; k < node->n_out; k++) {
        plb_value count = from->values[node->out + k].count;
        to->values[out + k].count = count < 0 ? PLB_NONE : map[count];
    }
}

void plb_region_inline(plb_graph *to, const plb_graph *from, const plb_value *in, plb_value *out) {
    for (int i = 0; i < from->n_outputs; i++) out[i] = PLB_NONE;
    plb_value *map = plb_alloc_array((size_t)from->n_values + 1, sizeof *map);
    if (!map) {
        plb_graph_fail(to, plb_fail(PLB_ENOMEM, "out of memory for a region"));
        return;
    }
    int n_in = 0;
    for (int i = 0; i < from->n_nodes && !to->status; i++) {
        if (from->nodes[i].op == PLB_OP_input) {
            map[from->nodes[i].out] = in[n_in++];
        } else {
            copy_node(to, from, i, map);
        }
    }
    for (int i = 0; i < from->n_outputs && !to->status; i++) out[i] = map[from->outputs[i].value];
    plb_free(map);
}

// NULL when out of memory.
static plb_graph *clone(const plb_graph *region) {
    plb_value in[PLB_REGION_MAX_IN], out[PLB_MAX_OUTPUTS + 1];
    plb_type types[PLB_REGION_MAX_IN];
    int n_in = 0;
    for (int i = 0; i < region->n_nodes; i++) {
        const plb_node *node = &region->nodes[i];
        if (node->op == PLB_OP_input) types[n_in++] = region->values[node->out].type;
    }
    plb_graph *copy = plb_graph_new(region->model, region->name);
    if (!copy) return NULL;
    copy->training = region->training;
    for (int i = 0; i < n_in; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        in[i] = plb_input(copy, number, types[i].dtype, &types[i].shape);
    }
    plb_region_inline(copy, region, in, out);
    for (int i = 0; i < region->n_outputs; i++) plb_output(copy, region->outputs[i].name, out[i]);
    if (!copy->status) return copy;
    plb_graph_free(copy);
    return NULL;
}

// ---------------------------------------------------------------------------- gradients
plb_value plb_zeros(plb_graph *graph, const plb_type *type) {
    return plb_expand(graph, plb_scalar(graph, type->dtype, 0), &type->shape);
}

// The sum of out[k] * dout[k], in f64 so that terms of several dtypes can meet; nobody uses its
// value, only its gradients.
static plb_value weighted_sum(plb_graph *graph, const plb_value *out, const plb_value *dout,
                              int n) {
    plb_value sum = PLB_NONE;
    for (int k = 0; k < n; k++) {
        if (dout[k] == PLB_NONE) continue;
        plb_value term = plb_sum(graph, plb_mul(graph, out[k], dout[k]), 0, false);
        term = plb_cast(graph, term, PLB_F64);
        sum = sum == PLB_NONE ? term : plb_add(graph, sum, term);
    }
    return sum;
}

void plb_region_gradients(plb_graph *to, const plb_graph *from, const plb_value *in, int n_in,
                          const plb_value *dout, const bool *needed, plb_value *din) {
    plb_value out[PLB_MAX_OUTPUTS + 1], wrt[PLB_REGION_MAX_IN], found[PLB_REGION_MAX_IN];
    int n = 0;
    plb_region_inline(to, from, in, out);
    plb_value loss = weighted_sum(to, out, dout, from->n_outputs);
    for (int i = 0; i < n_in; i++) {
        din[i] = PLB_NONE;
        if (needed[i]) wrt[n++] = in[i];
    }
    for (int i = 0; i < n; i++) found[i] = PLB_NONE;
    const bool outer = to->differentiating; // plb_gradients leaves it false
    if (loss != PLB_NONE) plb_gradients(to, loss, wrt, n, found);
    to->differentiating = outer;
    for (int i = 0, k = 0; i < n_in && !to->status; i++) {
        if (!needed[i]) continue;
        din[i] = found[k++];
        plb_type type = plb_value_type(to, in[i]);
        if (din[i] == PLB_NONE) din[i] = plb_zeros(to, &type);
    }
}

void plb_region_describe(const void *attrs, plb_strbuf *text) {
    const plb_region_attrs *a = attrs;
    plb_strbuf_printf(text, "\"carried\":%lld,\"scanned\":%lld,\"captures\":%lld,\"stacks\":%lld",
                      (long long)a->n_carried, (long long)a->n_scanned, (long long)a->n_captures,
                      (long long)a->n_stacks);
    if (a->max_trips) plb_strbuf_printf(text, ",\"max_trips\":%lld", (long long)a->max_trips);
    if (a->reverse) plb_strbuf_printf(text, ",\"reverse\":true");
}
