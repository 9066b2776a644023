// SPDX-License-Identifier: Apache-2.0
// if: one of two regions, chosen by a condition that is known when the program runs. Its gradient
// is an if over the gradients of the two regions, each of which computes its region again.
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/region.h"
#include "engine/ops/walk.h"

static plb_status infer(plb_signature *s) {
    const plb_region_attrs *attrs = s->attrs;
    if (s->in[0].dtype != PLB_BOOL || s->in[0].shape.rank != 0) {
        return plb_fail(PLB_EINVAL, "if: expected a bool scalar as condition, found %s of rank %d",
                        plb_dtype_name(s->in[0].dtype), s->in[0].shape.rank);
    }
    if (s->n_in != 1 + attrs->n_captures) {
        return plb_fail(PLB_EINVAL, "if: expected %lld captures, found %d",
                        (long long)attrs->n_captures, s->n_in - 1);
    }
    s->n_out = (int)attrs->n_types;
    for (int i = 0; i < s->n_out; i++) s->out[i] = attrs->types[i];
    return PLB_OK;
}

typedef struct if_grad {
    const plb_node *node;
    int n_captures, n_dout, n_needed;
    const int *of_dout; // which output the i-th gradient belongs to
    const bool *needed; // of each capture
} if_grad;

// in: captures, then the gradients of outputs; out: gradients of the needed captures.
static void branch_grad(plb_graph *region, int branch, const plb_value *in, plb_value *out,
                        const if_grad *g) {
    plb_value dout[PLB_MAX_OUTPUTS], din[PLB_REGION_MAX_IN];
    for (int k = 0; k < PLB_MAX_OUTPUTS; k++) dout[k] = PLB_NONE;
    for (int k = 0; k < g->n_dout; k++) dout[g->of_dout[k]] = in[g->n_captures + k];
    plb_region_gradients(region, g->node->region[branch], in, g->n_captures, dout, g->needed, din);
    for (int i = 0, k = 0; i < g->n_captures; i++) {
        if (g->needed[i]) out[k++] = din[i];
    }
}

static void then_grad(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    branch_grad(region, 0, in, out, context);
}

static void else_grad(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    branch_grad(region, 1, in, out, context);
}

static void grad(plb_graph *graph, int index, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    const plb_node node = graph->nodes[index]; // a copy: the array moves
    plb_value captures[PLB_REGION_MAX_IN + PLB_MAX_OUTPUTS];
    int of_dout[PLB_MAX_OUTPUTS];
    if_grad g = {
        .node = &node, .n_captures = node.n_in - 1, .of_dout = of_dout, .needed = needed + 1};
    for (int i = 0; i < g.n_captures; i++) {
        captures[i] = node.in[i + 1];
        g.n_needed += g.needed[i];
    }
    for (int k = 0; k < node.n_out; k++) {
        if (dout[k] == PLB_NONE) continue;
        of_dout[g.n_dout] = k;
        captures[g.n_captures + g.n_dout++] = dout[k];
    }
    plb_if_spec spec = {.condition = node.in[0],
                        .captures = captures,
                        .n_captures = g.n_captures + g.n_dout,
                        .n_out = g.n_needed,
                        .then_fn = then_grad,
                        .else_fn = else_grad,
                        .context = &g};
    plb_value first = plb_if(graph, &spec);
    for (int i = 0; i < g.n_captures && first != PLB_NONE; i++) {
        if (g.needed[i]) din[i + 1] = first++;
    }
}

const plb_op plb_op_if = {
    .name = "if",
    .attrs_bytes = sizeof(plb_region_attrs),
    .types_at = 1 + offsetof(plb_region_attrs, types),
    .n_types = PLB_MAX_OUTPUTS,
    .min_in = 1,
    .max_in = PLB_REGION_MAX_IN,
    .infer = infer,
    .grad = grad,
    .flops = plb_no_flops,
    .describe = plb_region_describe,
};

static plb_graph *build_branch(plb_graph *graph, const plb_if_spec *spec, bool taken,
                               const plb_type *types, plb_type *out_types) {
    plb_value in[PLB_REGION_MAX_IN], out[PLB_MAX_OUTPUTS];
    plb_graph *region = plb_region_new(graph, taken ? "then" : "else", types, spec->n_captures, in);
    if (!region) return NULL;
    for (int i = 0; i < spec->n_out; i++) out[i] = PLB_NONE;
    (taken ? spec->then_fn : spec->else_fn)(region, in, out, spec->context);
    plb_region_close(graph, region, out, spec->n_out);
    for (int i = 0; i < spec->n_out; i++) out_types[i] = plb_value_type(region, out[i]);
    return region;
}

static plb_status branches_agree(const plb_type *a, const plb_type *b, int n) {
    for (int i = 0; i < n; i++) {
        if (a[i].dtype == b[i].dtype && plb_shape_equal(&a[i].shape, &b[i].shape)) continue;
        char s[160], t[160];
        return plb_fail(PLB_EINVAL, "if: output %d: then gives %s %s, else gives %s %s", i,
                        plb_dtype_name(a[i].dtype), plb_shape_format(&a[i].shape, s, sizeof s),
                        plb_dtype_name(b[i].dtype), plb_shape_format(&b[i].shape, t, sizeof t));
    }
    return PLB_OK;
}

plb_value plb_if(plb_graph *graph, const plb_if_spec *spec) {
    if (graph->status) return PLB_NONE;
    const int n = spec->n_captures;
    if (n < 0 || n >= PLB_REGION_MAX_IN || spec->n_out < 1 || spec->n_out > PLB_MAX_OUTPUTS) {
        return plb_graph_fail(
            graph, plb_fail(PLB_EINVAL, "if: %d captures and %d outputs", n, spec->n_out));
    }
    plb_value in[PLB_REGION_MAX_IN] = {spec->condition};
    plb_type types[PLB_REGION_MAX_IN], other[PLB_MAX_OUTPUTS];
    plb_region_attrs attrs = {.n_captures = n, .n_types = spec->n_out};
    for (int i = 0; i < n; i++) {
        in[i + 1] = spec->captures[i];
        types[i] = plb_value_type(graph, spec->captures[i]);
    }
    plb_graph *taken = build_branch(graph, spec, true, types, attrs.types);
    plb_graph *not_taken = build_branch(graph, spec, false, types, other);
    if (!graph->status) {
        plb_status status = branches_agree(attrs.types, other, spec->n_out);
        if (status) plb_graph_fail(graph, status);
    }
    return plb_region_emit(graph, PLB_OP_if, in, n + 1, &attrs, taken, not_taken);
}
