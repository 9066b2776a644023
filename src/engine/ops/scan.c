// SPDX-License-Identifier: Apache-2.0
// scan: a region run once for each row of the scanned values, carrying state from row to row: a
// recurrent network. Its gradient is two scans: one computes the states before each row again and
// keeps them, one goes the other way, carrying the gradients of the state and the sums of those of
// the captures (back-propagation through time; Werbos 1990).
#include "base/core/status.h"
#include "engine/graph/region.h"
#include "engine/ops/walk.h"

static plb_status infer(plb_signature *s) {
    const plb_region_attrs *attrs = s->attrs;
    const int n = (int)attrs->n_carried, m = (int)attrs->n_scanned;
    if (m < 1 || s->n_in != n + m + attrs->n_captures) {
        return plb_fail(PLB_EINVAL, "scan: %d inputs, %d of them scanned", s->n_in, m);
    }
    for (int i = n; i < n + m; i++) {
        const plb_shape *first = &s->in[n].shape, *shape = &s->in[i].shape;
        if (shape->rank < 1 || shape->dim[0] != first->dim[0]) {
            char a[160], b[160];
            return plb_fail(PLB_EINVAL, "scan: expected one extent along axis 0, found %s and %s",
                            plb_shape_format(first, a, sizeof a),
                            plb_shape_format(shape, b, sizeof b));
        }
    }
    for (int i = 0; i < n; i++) s->out[i] = s->in[i];
    return plb_region_stacks(s, n, s->in[n].shape.dim[0]);
}

// ---------------------------------------------------------------------------- gradient
enum { MAX_IN = PLB_REGION_MAX_IN, MAX_OUT = PLB_MAX_OUTPUTS };

// How the reverse scan's operands are made of the forward scan's: n carried, m scanned, c captures,
// s stacks.
typedef struct scan_grad {
    plb_node node; // a copy: the array of nodes moves
    int n, m, c, s;
    bool flows[MAX_OUT]; // which carried values are floats, so that a gradient runs through them
    bool given[MAX_OUT]; // which stacks have a gradient
    bool needed[MAX_IN]; // which carried, scanned, captured values want one inside the region
} scan_grad;

// The forward region, its carried inputs being kept as rows.
static void keep_states(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    const scan_grad *g = context;
    plb_value all[MAX_OUT + 1];
    plb_region_inline(region, g->node.region[0], in, all);
    for (int i = 0; i < g->n; i++) {
        out[i] = all[i];
        out[g->n + i] = in[i];
    }
}

// in: gradients of the state, sums for captures; states, scanned, gradients of stacks; captures.
// out: the first two again, and gradients of scanned rows.
static void step_back(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    const scan_grad *g = context;
    plb_value own[MAX_IN], dout[MAX_OUT], din[MAX_IN];
    const plb_value *next = in;
    for (int k = 0; k < MAX_OUT; k++) dout[k] = PLB_NONE;
    for (int i = 0; i < g->n; i++) {
        if (g->flows[i]) dout[i] = *next++;
    }
    const plb_value *sums = next;
    for (int i = 0; i < g->c; i++) next += g->needed[g->n + g->m + i];
    for (int i = 0; i < g->n + g->m; i++) own[i] = *next++;
    for (int i = 0; i < g->s; i++) {
        if (g->given[i]) dout[g->n + i] = *next++;
    }
    for (int i = 0; i < g->c; i++) own[g->n + g->m + i] = *next++;
    plb_region_gradients(region, g->node.region[0], own, g->n + g->m + g->c, dout, g->needed, din);
    for (int i = 0; i < g->n; i++) {
        if (g->flows[i]) *out++ = din[i];
    }
    for (int i = g->n + g->m; i < g->n + g->m + g->c; i++) {
        if (g->needed[i]) *out++ = plb_add(region, *sums++, din[i]);
    }
    for (int i = g->n; i < g->n + g->m; i++) {
        if (g->needed[i]) *out++ = din[i];
    }
}

// The states before each row, the first of n stacks.
static plb_value scan_states(plb_graph *graph, scan_grad *g) {
    const plb_region_attrs *attrs = g->node.attrs;
    const plb_value *in = g->node.in;
    plb_scan_spec spec = {.carried = in,
                          .n_carried = g->n,
                          .scanned = in + g->n,
                          .n_scanned = g->m,
                          .captures = in + g->n + g->m,
                          .n_captures = g->c,
                          .n_stacks = g->n,
                          .reverse = attrs->reverse,
                          .body = keep_states,
                          .context = g};
    return plb_scan(graph, &spec) + g->n;
}

static void scan_back(plb_graph *graph, scan_grad *g, const plb_value *dout, plb_value states,
                      plb_value *din) {
    const plb_region_attrs *attrs = g->node.attrs;
    const plb_value *in = g->node.in;
    plb_value carried[MAX_IN], scanned[MAX_IN];
    plb_scan_spec spec = {.carried = carried,
                          .scanned = scanned,
                          .captures = in + g->n + g->m,
                          .n_captures = g->c,
                          .reverse = !attrs->reverse,
                          .body = step_back,
                          .context = g};
    for (int i = 0; i < g->n; i++) {
        plb_type type = plb_value_type(graph, in[i]);
        if (!g->flows[i]) continue;
        carried[spec.n_carried++] = dout[i] == PLB_NONE ? plb_zeros(graph, &type) : dout[i];
    }
    for (int i = g->n + g->m; i < g->node.n_in; i++) {
        plb_type type = plb_value_type(graph, in[i]);
        if (g->needed[i]) carried[spec.n_carried++] = plb_zeros(graph, &type);
    }
    for (int i = 0; i < g->n; i++) scanned[spec.n_scanned++] = states + i;
    for (int i = 0; i < g->m; i++) scanned[spec.n_scanned++] = in[g->n + i];
    for (int i = 0; i < g->s; i++) {
        if (g->given[i]) scanned[spec.n_scanned++] = dout[g->n + i];
    }
    for (int i = g->n; i < g->n + g->m; i++) spec.n_stacks += g->needed[i];
    plb_value out = plb_scan(graph, &spec);
    if (out == PLB_NONE) return;
    for (int i = 0; i < g->n; i++) {
        if (g->flows[i]) din[i] = out++;
    }
    for (int i = g->n + g->m; i < g->node.n_in; i++) {
        if (g->needed[i]) din[i] = out++;
    }
    for (int i = g->n; i < g->n + g->m; i++) {
        if (g->needed[i]) din[i] = out++;
    }
}

static void grad(plb_graph *graph, int index, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    const plb_region_attrs *attrs = plb_node_attrs(graph, index);
    scan_grad g = {.node = graph->nodes[index],
                   .n = (int)attrs->n_carried,
                   .m = (int)attrs->n_scanned,
                   .c = (int)attrs->n_captures,
                   .s = (int)attrs->n_stacks};
    for (int i = 0; i < g.node.n_in; i++) g.needed[i] = needed[i];
    for (int i = 0; i < g.n; i++) { // through the state, even where nobody asks for its beginning
        g.flows[i] = plb_dtype_is_float(plb_value_type(graph, g.node.in[i]).dtype);
        g.needed[i] = g.flows[i];
    }
    for (int i = 0; i < g.s; i++) g.given[i] = dout[g.n + i] != PLB_NONE;
    plb_value states = g.n ? scan_states(graph, &g) : PLB_NONE;
    if (!graph->status) scan_back(graph, &g, dout, states, din);
}

const plb_op plb_op_scan = {
    .name = "scan",
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

// ---------------------------------------------------------------------------- builder
static plb_graph *build_body(plb_graph *graph, const plb_scan_spec *spec, const plb_value *in,
                             plb_region_attrs *attrs) {
    plb_type types[MAX_IN];
    plb_value inner[MAX_IN], out[MAX_OUT];
    const int n = spec->n_carried, m = spec->n_scanned, n_out = n + spec->n_stacks;
    for (int i = 0; i < n + m + spec->n_captures; i++) {
        types[i] = plb_value_type(graph, in[i]);
        if (i < n || i >= n + m || types[i].shape.rank == 0) continue; // rank 0: infer refuses
        for (int k = 1; k < types[i].shape.rank; k++) {
            types[i].shape.dim[k - 1] = types[i].shape.dim[k];
        }
        types[i].shape.rank--;
    }
    plb_graph *region = plb_region_new(graph, "scan", types, n + m + spec->n_captures, inner);
    if (!region) return NULL;
    for (int i = 0; i < n_out; i++) out[i] = PLB_NONE;
    spec->body(region, inner, out, spec->context);
    plb_region_carries(region, types, out, n);
    plb_region_close(graph, region, out, n_out);
    for (int i = 0; i < spec->n_stacks; i++) attrs->types[i] = plb_value_type(region, out[n + i]);
    return region;
}

plb_value plb_scan(plb_graph *graph, const plb_scan_spec *spec) {
    if (graph->status) return PLB_NONE;
    const int n = spec->n_carried, m = spec->n_scanned, c = spec->n_captures;
    if (n < 0 || m < 1 || c < 0 || spec->n_stacks < 0 || n + m + c > MAX_IN ||
        n + spec->n_stacks < 1 || n + spec->n_stacks > MAX_OUT) {
        return plb_graph_fail(
            graph, plb_fail(PLB_EINVAL, "scan: %d carried, %d scanned, %d captures, %d stacks", n,
                            m, c, spec->n_stacks));
    }
    plb_value in[MAX_IN];
    for (int i = 0; i < n; i++) in[i] = spec->carried[i];
    for (int i = 0; i < m; i++) in[n + i] = spec->scanned[i];
    for (int i = 0; i < c; i++) in[n + m + i] = spec->captures[i];
    plb_region_attrs attrs = {.n_carried = n,
                              .n_scanned = m,
                              .n_captures = c,
                              .n_stacks = spec->n_stacks,
                              .n_types = spec->n_stacks,
                              .reverse = spec->reverse};
    plb_graph *body = build_body(graph, spec, in, &attrs);
    return plb_region_emit(graph, PLB_OP_scan, in, n + m + c, &attrs, body, NULL);
}
