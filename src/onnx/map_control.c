// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan. A branch whose condition is known is built in place. Otherwise bodies become
// regions, which level interp runs: what they use from outside is found by name and captured.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/ops/op.h"
#include "onnx/build.h"
#include "onnx/map.h"

enum { MAX_CAPTURES = 200 };

typedef struct capture {
    int n;
    const char *name[MAX_CAPTURES];
    plb_value value[MAX_CAPTURES];
} capture;

// A body that becomes a region: the first inputs are the body's own, the others are captures.
typedef struct body_context {
    const plb_onnx_node *n;
    const Onnx__GraphProto *body[2];
    const capture *captured;
    int leading;        // of the region's inputs, before the captures
    bool has_condition; // of a Loop: the body's second input, and its first output
    bool as_scan;       // of a Loop whose condition never changes
} body_context;

static plb_status body_of(const plb_onnx_node *n, const char *name, const Onnx__GraphProto **out) {
    const Onnx__AttributeProto *a = plb_onnx_attr(n, name);
    *out = a ? a->g : NULL;
    return *out ? PLB_OK : plb_fail(PLB_EINVAL, "attribute %s: expected a graph", name);
}

// ---------------------------------------------------------------------------- captures
static plb_status capture_name(plb_onnx_scope *scope, const char *name, capture *c) {
    plb_value value;
    if (!*name || plb_onnx_lookup(scope, name, &value)) return PLB_OK; // the body's own
    for (int i = 0; i < c->n; i++) {
        if (strcmp(c->name[i], name) == 0) return PLB_OK;
    }
    if (c->n == MAX_CAPTURES) {
        return plb_onnx_refuse("a body that uses more than %d values from outside", MAX_CAPTURES);
    }
    c->name[c->n] = name;
    c->value[c->n++] = value;
    return PLB_OK;
}

static plb_status capture_body(plb_onnx_scope *scope, const Onnx__GraphProto *body, capture *c,
                               int depth) {
    if (depth > PLB_ONNX_MAX_DEPTH) return plb_fail(PLB_EINVAL, "bodies nested too deep");
    for (size_t i = 0; i < body->n_node; i++) {
        const Onnx__NodeProto *node = body->node[i];
        for (size_t k = 0; k < node->n_input; k++) {
            PLB_TRY(capture_name(scope, plb_onnx_string(node->input[k]), c));
        }
        for (size_t k = 0; k < node->n_attribute; k++) {
            const Onnx__GraphProto *inner = node->attribute[k]->g;
            if (inner) PLB_TRY(capture_body(scope, inner, c, depth + 1));
        }
    }
    for (size_t i = 0; i < body->n_output; i++) {
        PLB_TRY(capture_name(scope, plb_onnx_string(body->output[i]->name), c));
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- regions
static bool value_from_outside(void *context, plb_value input, plb_tensor *out) {
    const plb_onnx_scope *scope = context;
    for (int i = 0; i < scope->n_captured; i++) {
        if (scope->inner[i] != input) continue;
        bool known;
        return !plb_evaluate(scope->around->evaluator, scope->captured[i], &known, out) && known;
    }
    return false;
}

// Values for the body's inputs: those of the region, and of a Loop the condition, which holds while
// the body runs.
static plb_status define_inputs(plb_onnx_scope *scope, const body_context *c,
                                const Onnx__GraphProto *body, const plb_value *in) {
    int expected = c->leading + c->has_condition, from = 0;
    if (body->n_input != (size_t)expected) {
        return plb_fail(PLB_EINVAL, "a body of %zu inputs, expected %d", body->n_input, expected);
    }
    if (c->as_scan) { // the iteration comes last, as what is scanned
        from = c->leading - 1;
    }
    for (int i = 0; i < expected; i++) {
        const char *name = plb_onnx_string(body->input[i]->name);
        plb_value value;
        if (c->has_condition && i == 1) {
            value = plb_scalar(scope->graph, PLB_BOOL, 1);
        } else if (c->as_scan) {
            value = i == 0 ? in[from] : in[i - 2];
        } else {
            value = in[c->has_condition && i > 1 ? i - 1 : i];
        }
        PLB_TRY(plb_onnx_define(scope, name, value));
    }
    return PLB_OK;
}

static plb_status build_in(plb_onnx_scope *scope, const body_context *c,
                           const Onnx__GraphProto *body, const plb_value *in, plb_value *out) {
    PLB_TRY(define_inputs(scope, c, body, in));
    for (int i = 0; i < c->captured->n; i++) {
        PLB_TRY(plb_onnx_define(scope, c->captured->name[i], in[c->leading + i]));
    }
    PLB_TRY(plb_onnx_build_body(scope, body));
    for (size_t i = c->as_scan; i < body->n_output; i++) {
        const char *name = plb_onnx_string(body->output[i]->name);
        PLB_TRY(plb_onnx_lookup(scope, name, &out[i - c->as_scan]));
        if (c->has_condition && !c->as_scan && i == 0) {
            out[0] = plb_reshape(scope->graph, out[0], &plb_scalar_shape);
        }
    }
    return plb_graph_status(scope->graph);
}

static void build_region(plb_graph *region, const plb_value *in, plb_value *out,
                         const body_context *c, const Onnx__GraphProto *body) {
    plb_onnx_scope scope;
    plb_status status = plb_onnx_scope_open(&scope, c->n->scope);
    scope.graph = region;
    scope.around = c->n->scope;
    scope.captured = c->captured->value;
    scope.inner = in + c->leading;
    scope.n_captured = c->captured->n;
    scope.evaluator = plb_evaluator_new(region, value_from_outside, &scope);
    if (!status && !scope.evaluator) status = plb_fail(PLB_ENOMEM, "out of memory for a body");
    if (!status) status = build_in(&scope, c, body, in, out);
    plb_evaluator_free(scope.evaluator);
    plb_onnx_scope_close(&scope);
    if (status) plb_graph_fail(region, status);
}

static void first_region(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    const body_context *c = context;
    build_region(region, in, out, c, c->body[0]);
}

static void second_region(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    const body_context *c = context;
    build_region(region, in, out, c, c->body[1]);
}

static plb_status give_outputs(plb_onnx_node *n, plb_value first, int count) {
    PLB_TRY(plb_graph_status(n->graph));
    if (count < n->n_out) return plb_fail(PLB_EINVAL, "%d outputs of %d", n->n_out, count);
    for (int i = 0; i < n->n_out; i++) n->out[i] = first + i;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- If
static plb_status in_place(plb_onnx_node *n, const Onnx__GraphProto *body) {
    plb_onnx_scope scope;
    PLB_TRY(plb_onnx_scope_open(&scope, n->scope));
    scope.outer = n->scope;
    plb_status status = plb_onnx_build_body(&scope, body);
    for (size_t i = 0; i < body->n_output && (int)i < n->n_out && !status; i++) {
        status = plb_onnx_lookup(&scope, plb_onnx_string(body->output[i]->name), &n->out[i]);
    }
    plb_onnx_scope_close(&scope);
    return status;
}

plb_status plb_onnx_map_if(plb_onnx_node *n) {
    body_context c = {.n = n};
    capture captured = {0};
    bool known;
    int64_t yes = 0;
    PLB_TRY(body_of(n, "then_branch", &c.body[0]));
    PLB_TRY(body_of(n, "else_branch", &c.body[1]));
    PLB_TRY(plb_onnx_try_int(n, 0, &known, &yes));
    if (known) return in_place(n, c.body[yes ? 0 : 1]);
    PLB_TRY(capture_body(n->scope, c.body[0], &captured, 0));
    PLB_TRY(capture_body(n->scope, c.body[1], &captured, 0));
    c.captured = &captured;
    plb_if_spec spec = {.condition = plb_reshape(n->graph, n->in[0], &plb_scalar_shape),
                        .captures = captured.value,
                        .n_captures = captured.n,
                        .n_out = (int)c.body[0]->n_output,
                        .then_fn = first_region,
                        .else_fn = second_region,
                        .context = &c};
    if (c.body[0]->n_output != c.body[1]->n_output || c.body[0]->n_output > PLB_MAX_OUTPUTS) {
        return plb_onnx_refuse("branches of %zu and %zu outputs", c.body[0]->n_output,
                               c.body[1]->n_output);
    }
    return give_outputs(n, plb_if(n->graph, &spec), spec.n_out);
}

// ---------------------------------------------------------------------------- Loop
static const Onnx__NodeProto *maker_of(const Onnx__GraphProto *body, const char *name) {
    for (size_t i = 0; i < body->n_node; i++) {
        const Onnx__NodeProto *node = body->node[i];
        for (size_t k = 0; k < node->n_output; k++) {
            if (strcmp(plb_onnx_string(node->output[k]), name) == 0) return node;
        }
    }
    return NULL;
}

// Whether the body's condition is what came in, or a constant true.
static bool never_stops(const Onnx__GraphProto *body) {
    const char *name = plb_onnx_string(body->output[0]->name);
    for (int steps = 0; steps < 16; steps++) {
        if (strcmp(name, plb_onnx_string(body->input[1]->name)) == 0) return true;
        const Onnx__NodeProto *maker = maker_of(body, name);
        if (!maker) return false;
        if (strcmp(plb_onnx_string(maker->op_type), "Constant") == 0) {
            const Onnx__TensorProto *t = maker->n_attribute ? maker->attribute[0]->t : NULL;
            if (!t) return false;
            bool raw = t->has_raw_data && t->raw_data.len == 1 && t->raw_data.data[0];
            return raw || (t->n_int32_data == 1 && t->int32_data[0]);
        }
        if (strcmp(plb_onnx_string(maker->op_type), "Identity") != 0 || maker->n_input != 1) {
            return false;
        }
        name = plb_onnx_string(maker->input[0]);
    }
    return false;
}

static plb_status known_scalar(const plb_onnx_node *n, int i, int64_t missing, bool *known,
                               int64_t *out) {
    *out = missing;
    *known = true;
    if (!plb_onnx_given_in(n, i)) return PLB_OK;
    return plb_onnx_try_int(n, i, known, out);
}

static plb_value as_scalar(const plb_onnx_node *n, int i) {
    if (!plb_onnx_given_in(n, i)) return PLB_NONE;
    return plb_reshape(n->graph, n->in[i], &plb_scalar_shape);
}

// So many trips, known beforehand: a scan over the numbers of the trips.
static plb_status counted_loop(plb_onnx_node *n, body_context *c, int carried, int stacks,
                               int64_t trips) {
    c->as_scan = true;
    plb_value numbers = plb_iota(n->graph, PLB_I64, &plb_shape_of(trips), 0);
    plb_scan_spec spec = {.carried = n->in + 2,
                          .n_carried = carried,
                          .scanned = &numbers,
                          .n_scanned = 1,
                          .captures = c->captured->value,
                          .n_captures = c->captured->n,
                          .n_stacks = stacks,
                          .body = first_region,
                          .context = c};
    return give_outputs(n, plb_scan(n->graph, &spec), carried + stacks);
}

plb_status plb_onnx_map_loop(plb_onnx_node *n) {
    body_context c = {.n = n, .has_condition = true};
    capture captured = {0};
    int64_t trips, condition;
    bool trips_known, condition_known;
    PLB_TRY(body_of(n, "body", &c.body[0]));
    const Onnx__GraphProto *body = c.body[0];
    int carried = n->n_in - 2;
    if (carried < 0 || body->n_output < (size_t)carried + 1 || body->n_input < 2) {
        return plb_fail(PLB_EINVAL, "%d values carried, %zu outputs", carried, body->n_output);
    }
    int stacks = (int)body->n_output - 1 - carried;
    if (carried + stacks + 1 > PLB_MAX_OUTPUTS) return plb_onnx_refuse("%d outputs", n->n_out);
    PLB_TRY(capture_body(n->scope, body, &captured, 0));
    c.captured = &captured;
    c.leading = 1 + carried;
    PLB_TRY(known_scalar(n, 0, -1, &trips_known, &trips));
    PLB_TRY(known_scalar(n, 1, 1, &condition_known, &condition));
    if (trips_known && trips >= 0 && condition_known && condition && never_stops(body)) {
        return counted_loop(n, &c, carried, stacks, trips);
    }
    // Exporters write a `while` with the largest number of trips that there is.
    if (stacks && (!trips_known || trips < 0 || trips > PLB_ONNX_MAX_EXTENT)) {
        return plb_onnx_refuse("rows are kept of a loop whose most trips are not known");
    }
    plb_loop_spec spec = {.trips = as_scalar(n, 0),
                          .condition = as_scalar(n, 1),
                          .carried = n->in + 2,
                          .captures = captured.value,
                          .n_carried = carried,
                          .n_captures = captured.n,
                          .n_stacks = stacks,
                          .max_trips = stacks ? trips : 0,
                          .body = first_region,
                          .context = &c};
    return give_outputs(n, plb_loop(n->graph, &spec), carried + stacks);
}

// ---------------------------------------------------------------------------- Scan
static plb_value to_front(plb_graph *g, plb_value x, int axis) {
    int order[PLB_MAX_RANK] = {axis}, rank = plb_value_shape(g, x).rank;
    for (int i = 1; i < rank; i++) order[i] = i <= axis ? i - 1 : i;
    return axis ? plb_permute(g, x, order, rank) : x;
}

static plb_value from_front(plb_graph *g, plb_value x, int axis) {
    int order[PLB_MAX_RANK], rank = plb_value_shape(g, x).rank;
    for (int i = 0; i < rank; i++) order[i] = i < axis ? i + 1 : i == axis ? 0 : i;
    return axis ? plb_permute(g, x, order, rank) : x;
}

// Axis and direction of the i-th scanned value or stack.
static plb_status scan_way(const plb_onnx_node *n, const char *axes, const char *directions, int i,
                           int rank, int *axis, bool *backwards) {
    int64_t list[PLB_ONNX_MAX_OUT];
    int count;
    PLB_TRY(plb_onnx_ints(n, axes, list, PLB_ONNX_MAX_OUT, &count));
    PLB_TRY(plb_onnx_axis(i < count ? list[i] : 0, rank, axis));
    PLB_TRY(plb_onnx_ints(n, directions, list, PLB_ONNX_MAX_OUT, &count));
    *backwards = i < count && list[i] == 1;
    return PLB_OK;
}

plb_status plb_onnx_map_scan(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    body_context c = {.n = n};
    capture captured = {0};
    plb_value scanned[PLB_ONNX_MAX_OUT];
    PLB_TRY(body_of(n, "body", &c.body[0]));
    int64_t given = plb_onnx_int(n, "num_scan_inputs", 0);
    int n_scanned = given >= 1 && given <= PLB_ONNX_MAX_OUT ? (int)given : n->n_in + 1;
    int carried = n->n_in - n_scanned, all = (int)c.body[0]->n_output;
    if (carried < 0 || all < carried || all > PLB_MAX_OUTPUTS) {
        return plb_onnx_refuse("%lld scanned inputs of %d", (long long)given, n->n_in);
    }
    for (int i = 0; i < n_scanned; i++) {
        int axis;
        bool backwards;
        PLB_TRY(scan_way(n, "scan_input_axes", "scan_input_directions", i,
                         plb_onnx_type(n, carried + i).shape.rank, &axis, &backwards));
        scanned[i] = to_front(g, n->in[carried + i], axis);
        if (backwards) scanned[i] = plb_flip(g, scanned[i], 1);
    }
    PLB_TRY(capture_body(n->scope, c.body[0], &captured, 0));
    c.captured = &captured;
    c.leading = carried + n_scanned;
    plb_scan_spec spec = {.carried = n->in,
                          .scanned = scanned,
                          .captures = captured.value,
                          .n_carried = carried,
                          .n_scanned = n_scanned,
                          .n_captures = captured.n,
                          .n_stacks = all - carried,
                          .body = first_region,
                          .context = &c};
    PLB_TRY(give_outputs(n, plb_scan(g, &spec), all));
    for (int i = carried; i < n->n_out; i++) {
        int axis, rank = plb_value_shape(g, n->out[i]).rank;
        bool backwards;
        PLB_TRY(scan_way(n, "scan_output_axes", "scan_output_directions", i - carried, rank, &axis,
                         &backwards));
        if (backwards) n->out[i] = plb_flip(g, n->out[i], 1);
        n->out[i] = from_front(g, n->out[i], axis);
    }
    return PLB_OK;
}
