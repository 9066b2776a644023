// SPDX-License-Identifier: Apache-2.0
// loop: a region run again and again on what it carries, until it says stop or the trips are
// through. How often is known only when the program runs, so that there is no gradient: what is to
// be differentiated is a scan.
#include "base/core/status.h"
#include "engine/graph/region.h"
#include "engine/ops/walk.h"

static plb_status expect_scalar(const char *what, const plb_type *type, plb_dtype dtype) {
    if (plb_type_absent(type) || (type->dtype == dtype && type->shape.rank == 0)) return PLB_OK;
    return plb_fail(PLB_EINVAL, "loop: expected %s to be a %s scalar, found %s of rank %d", what,
                    plb_dtype_name(dtype), plb_dtype_name(type->dtype), type->shape.rank);
}

static plb_status infer(plb_signature *s) {
    const plb_region_attrs *attrs = s->attrs;
    const int n = (int)attrs->n_carried;
    if (s->n_in != 2 + n + attrs->n_captures) {
        return plb_fail(PLB_EINVAL, "loop: expected %lld carried values and captures, found %d",
                        (long long)(n + attrs->n_captures), s->n_in - 2);
    }
    PLB_TRY(expect_scalar("the number of trips", &s->in[0], PLB_I64));
    PLB_TRY(expect_scalar("the condition", &s->in[1], PLB_BOOL));
    for (int i = 0; i < n; i++) s->out[i] = s->in[2 + i];
    PLB_TRY(plb_region_stacks(s, n, attrs->max_trips));
    s->out[s->n_out++] = (plb_type){PLB_I64, plb_scalar_shape};
    return PLB_OK;
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    (void)node, (void)dout, (void)needed, (void)din;
    plb_graph_fail(graph, plb_fail(PLB_EUNSUPPORTED,
                                   "loop has no gradient, since its number of trips is known only "
                                   "when it runs; use scan"));
}

const plb_op plb_op_loop = {
    .name = "loop",
    .attrs_bytes = sizeof(plb_region_attrs),
    .types_at = 1 + offsetof(plb_region_attrs, types),
    .n_types = PLB_MAX_OUTPUTS,
    .min_in = 0,
    .max_in = PLB_REGION_MAX_IN,
    .infer = infer,
    .grad = grad,
    .flops = plb_no_flops,
    .describe = plb_region_describe,
};

static plb_graph *build_body(plb_graph *graph, const plb_loop_spec *spec, const plb_value *in,
                             plb_region_attrs *attrs) {
    plb_type types[PLB_REGION_MAX_IN] = {{PLB_I64, plb_scalar_shape}};
    plb_value inner[PLB_REGION_MAX_IN], out[PLB_MAX_OUTPUTS + 1];
    const int n = spec->n_carried + spec->n_captures, n_out = spec->n_carried + spec->n_stacks;
    for (int i = 0; i < n; i++) types[i + 1] = plb_value_type(graph, in[i + 2]);
    plb_graph *region = plb_region_new(graph, "loop", types, n + 1, inner);
    if (!region) return NULL;
    for (int i = 0; i <= n_out; i++) out[i] = PLB_NONE;
    spec->body(region, inner, out, spec->context);
    if (out[0] == PLB_NONE) out[0] = plb_scalar(region, PLB_BOOL, 1);
    plb_type go_on = plb_value_type(region, out[0]);
    if (!region->status && (go_on.dtype != PLB_BOOL || go_on.shape.rank != 0)) {
        plb_graph_fail(region, plb_fail(PLB_EINVAL,
                                        "output 0: expected a bool scalar, whether to "
                                        "go on, found %s of rank %d",
                                        plb_dtype_name(go_on.dtype), go_on.shape.rank));
    }
    plb_region_carries(region, types + 1, out + 1, spec->n_carried);
    plb_region_close(graph, region, out, n_out + 1);
    for (int i = 0; i < spec->n_stacks; i++) {
        attrs->types[i] = plb_value_type(region, out[1 + spec->n_carried + i]);
    }
    return region;
}

plb_value plb_loop(plb_graph *graph, const plb_loop_spec *spec) {
    if (graph->status) return PLB_NONE;
    const int n = spec->n_carried, m = spec->n_captures, n_out = n + spec->n_stacks + 1;
    if (n < 0 || m < 0 || spec->n_stacks < 0 || n + m + 2 > PLB_REGION_MAX_IN ||
        n_out > PLB_MAX_OUTPUTS) {
        return plb_graph_fail(
            graph,
            plb_fail(PLB_EINVAL, "loop: %d carried, %d captures, %d stacks", n, m, spec->n_stacks));
    }
    plb_value in[PLB_REGION_MAX_IN] = {spec->trips, spec->condition};
    for (int i = 0; i < n; i++) in[2 + i] = spec->carried[i];
    for (int i = 0; i < m; i++) in[2 + n + i] = spec->captures[i];
    plb_region_attrs attrs = {.n_carried = n,
                              .n_captures = m,
                              .n_stacks = spec->n_stacks,
                              .n_types = spec->n_stacks,
                              .max_trips = spec->n_stacks ? spec->max_trips : 0};
    plb_graph *body = build_body(graph, spec, in, &attrs);
    plb_value out = plb_region_emit(graph, PLB_OP_loop, in, 2 + n + m, &attrs, body, NULL);
    for (int i = 0; i < spec->n_stacks && out != PLB_NONE; i++) {
        graph->values[out + n + i].count = out + n_out - 1;
    }
    return out;
}
