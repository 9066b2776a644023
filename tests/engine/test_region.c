// SPDX-License-Identifier: Apache-2.0
// if, loop and scan: what they compute against plain C, their gradients against finite
// differences, and what they refuse.
#include "check.h"
#include "engine/run_ref.h"
#include "faults.h"

static plb_graph *new_graph(plb_model **model) {
    plb_graph *graph = NULL;
    *model = plb_model_new();
    CHECK_OK(plb_model_program(*model, "p", &graph));
    return graph;
}

static plb_value input(plb_graph *graph, const char *name, plb_shape shape) {
    return plb_input(graph, name, PLB_F64, &shape);
}

static void fill(const run_ref *run, plb_value value, double first) {
    int64_t count = plb_shape_count(&run->values[value].shape);
    for (int64_t i = 0; i < count; i++) run_ref_set(run, value, i, sin(first + 2.3 * (double)i));
}

// d[i], values of the graph, against differences of `loss` along wrt[i].
static void check_gradients(run_ref *run, plb_value loss, const plb_value *wrt, const plb_value *d,
                            int n) {
    const double h = 1e-5;
    for (int i = 0; i < n; i++) {
        int64_t count = plb_shape_count(&run->values[wrt[i]].shape);
        CHECK(d[i] != PLB_NONE);
        for (int64_t k = 0; k < count && d[i] != PLB_NONE; k++) {
            double x = run_ref_at(run, wrt[i], k), f[2];
            for (int side = 0; side < 2; side++) {
                run_ref_set(run, wrt[i], k, side ? x - h : x + h);
                CHECK_OK(run_ref_all(run));
                f[side] = run_ref_at(run, loss, 0);
            }
            run_ref_set(run, wrt[i], k, x);
            CHECK_OK(run_ref_all(run));
            CHECK_NEAR(run_ref_at(run, d[i], k), (f[0] - f[1]) / (2 * h), 1e-7);
        }
    }
}

// Gradients of loss, and of the sum of their squares, which takes them a second time.
static void check_twice(plb_graph *graph, plb_value loss, const plb_value *wrt, int n,
                        const plb_value *flag, bool holds) {
    plb_value d[4], dd[4], squares = PLB_NONE;
    plb_gradients(graph, loss, wrt, n, d);
    for (int i = 0; i < n; i++) {
        plb_value square = plb_sum(graph, plb_mul(graph, d[i], d[i]), 0, false);
        squares = i ? plb_add(graph, squares, square) : square;
    }
    plb_gradients(graph, squares, wrt, n, dd);
    CHECK_OK(plb_graph_status(graph));
    if (plb_graph_status(graph)) return;
    run_ref run;
    run_ref_new(&run, graph);
    for (int i = 0; i < n; i++) fill(&run, wrt[i], i);
    if (flag) run_ref_set(&run, *flag, 0, holds);
    check_gradients(&run, loss, wrt, d, n);
    check_gradients(&run, squares, wrt, dd, n);
    run_ref_free(&run);
}

// ---------------------------------------------------------------------------- if
static void multiply(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    (void)context;
    out[0] = plb_mul(region, in[0], plb_tanh(region, in[1]));
    out[1] = in[0];
}

static void keep(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    (void)region, (void)context;
    out[0] = in[0];
    out[1] = plb_mul(region, in[0], in[0]);
}

static void if_takes_one_branch(void) {
    for (int holds = 0; holds < 2; holds++) {
        plb_model *model;
        plb_graph *graph = new_graph(&model);
        plb_value flag = plb_input(graph, "flag", PLB_BOOL, &plb_scalar_shape);
        plb_value x[] = {input(graph, "x", plb_shape_of(3)), input(graph, "y", plb_shape_of(3))};
        plb_if_spec spec = {.condition = flag,
                            .captures = x,
                            .n_captures = 2,
                            .n_out = 2,
                            .then_fn = multiply,
                            .else_fn = keep};
        plb_value y = plb_if(graph, &spec);
        plb_value sum = plb_sum(graph, plb_mul(graph, y, plb_mul(graph, y, y + 1)), 0, false);
        run_ref run;
        run_ref_new(&run, graph);
        fill(&run, x[0], 1), fill(&run, x[1], 2);
        run_ref_set(&run, flag, 0, holds);
        CHECK_OK(run_ref_all(&run));
        double expected = holds ? sin(1) * tanh(sin(2)) : sin(1);
        CHECK_NEAR(run_ref_at(&run, y, 0), expected, 1e-15);
        run_ref_free(&run);
        check_twice(graph, sum, x, 2, &flag, holds);
        plb_model_free(model);
    }
}

// ---------------------------------------------------------------------------- loop
// Carries a sum, keeps its squares, stops once the sum is past the captured limit.
static void add_up(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    (void)context;
    plb_value step = plb_cast(region, in[0], PLB_F64);
    out[1] = plb_add(region, in[1], step);
    out[0] = plb_lt(region, out[1], in[2]);
    out[2] = plb_mul(region, out[1], out[1]);
}

static plb_value build_loop(plb_graph *graph, int64_t max_trips, plb_value trips,
                            plb_value *limit) {
    plb_value zero = plb_scalar(graph, PLB_F64, 0);
    *limit = input(graph, "limit", plb_scalar_shape);
    plb_loop_spec spec = {.trips = trips,
                          .condition = PLB_NONE,
                          .carried = &zero,
                          .n_carried = 1,
                          .captures = limit,
                          .n_captures = 1,
                          .n_stacks = 1,
                          .max_trips = max_trips,
                          .body = add_up};
    return plb_loop(graph, &spec);
}

static void loop_stops_and_counts(void) {
    plb_model *model;
    plb_graph *graph = new_graph(&model);
    plb_value limit, sum = build_loop(graph, 8, PLB_NONE, &limit);
    CHECK_OK(plb_graph_status(graph));
    CHECK(plb_value_count(graph, sum + 1) == sum + 2);
    CHECK(plb_value_shape(graph, sum + 1).dim[0] == 8);
    run_ref run;
    run_ref_new(&run, graph);
    run_ref_set(&run, limit, 0, 9); // 0 + 1 + 2 + 3 + 4 = 10
    CHECK_OK(run_ref_all(&run));
    CHECK(run_ref_at(&run, sum, 0) == 10 && run_ref_at(&run, sum + 2, 0) == 5);
    CHECK(run_ref_at(&run, sum + 1, 4) == 100 && run_ref_at(&run, sum + 1, 5) == 0);
    run_ref_set(&run, limit, 0, 1e9);
    CHECK_FAILS(PLB_EINVAL, "max_trips", run_ref_all(&run));
    run_ref_free(&run);
    plb_value d;
    plb_gradients(graph, sum, &limit, 1, &d);
    CHECK_FAILS(PLB_EUNSUPPORTED, "use scan", plb_graph_status(graph));
    plb_model_free(model);
}

static void loop_makes_its_trips(void) {
    plb_model *model;
    plb_graph *graph = new_graph(&model);
    plb_value trips = plb_input(graph, "trips", PLB_I64, &plb_scalar_shape);
    plb_value limit, sum = build_loop(graph, 8, trips, &limit);
    run_ref run;
    run_ref_new(&run, graph);
    run_ref_set(&run, limit, 0, 1e9);
    for (int64_t n = 0; n < 4; n++) {
        run_ref_set(&run, trips, 0, (double)n);
        CHECK_OK(run_ref_all(&run));
        CHECK(run_ref_at(&run, sum, 0) == (double)(n * (n - 1) / 2));
        CHECK(run_ref_at(&run, sum + 2, 0) == (double)n);
    }
    run_ref_free(&run);
    plb_model_free(model);
}

// ---------------------------------------------------------------------------- scan
// h' = tanh(w h + x) and the row h' x; a counter of rows is carried along.
static void cell(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    (void)context;
    out[0] = plb_tanh(region, plb_add(region, plb_mul(region, in[3], in[0]), in[2]));
    out[1] = plb_add(region, in[1], plb_scalar(region, PLB_I64, 1));
    out[2] = plb_mul(region, out[0], in[2]);
}

// The same with a choice inside: a region in a region.
static void gated(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    cell(region, in, out, context);
    plb_value even = plb_eq(region, plb_remainder(region, in[1], plb_scalar(region, PLB_I64, 2)),
                            plb_scalar(region, PLB_I64, 0));
    plb_value captures[] = {out[0], in[3]};
    plb_if_spec spec = {.condition = even,
                        .captures = captures,
                        .n_captures = 2,
                        .n_out = 2,
                        .then_fn = multiply,
                        .else_fn = keep};
    out[0] = plb_if(region, &spec);
}

static void expect_rows(const run_ref *run, const plb_value *v, plb_value out, bool reverse) {
    double h[2] = {run_ref_at(run, v[0], 0), run_ref_at(run, v[0], 1)};
    for (int i = 0; i < 3; i++) {
        int t = reverse ? 2 - i : i;
        for (int k = 0; k < 2; k++) {
            double x = run_ref_at(run, v[1], 2 * t + k);
            h[k] = tanh(run_ref_at(run, v[2], k) * h[k] + x);
            CHECK_NEAR(run_ref_at(run, out + 2, 2 * t + k), h[k] * x, 1e-15);
        }
    }
    CHECK_NEAR(run_ref_at(run, out, 0), h[0], 1e-15);
    CHECK(run_ref_at(run, out + 1, 0) == 3);
}

static void check_scan(bool reverse, plb_region_fn body) {
    plb_model *model;
    plb_graph *graph = new_graph(&model);
    plb_value v[] = {input(graph, "h", plb_shape_of(2)), input(graph, "x", plb_shape_of(3, 2)),
                     input(graph, "w", plb_shape_of(2))};
    plb_value carried[] = {v[0], plb_scalar(graph, PLB_I64, 0)};
    plb_scan_spec spec = {.carried = carried,
                          .n_carried = 2,
                          .scanned = &v[1],
                          .n_scanned = 1,
                          .captures = &v[2],
                          .n_captures = 1,
                          .n_stacks = 1,
                          .reverse = reverse,
                          .body = body};
    plb_value out = plb_scan(graph, &spec);
    CHECK_OK(plb_graph_status(graph));
    run_ref run;
    run_ref_new(&run, graph);
    for (int i = 0; i < 3; i++) fill(&run, v[i], i);
    CHECK_OK(run_ref_all(&run));
    if (body == cell) expect_rows(&run, v, out, reverse);
    run_ref_free(&run);
    plb_value rows = plb_sum(graph, plb_mul(graph, out + 2, out + 2), 0, false);
    check_twice(graph, plb_add(graph, rows, plb_sum(graph, out, 0, false)), v, 3, NULL, false);
    plb_model_free(model);
}

static void scan_runs_forward(void) {
    check_scan(false, cell);
}

static void scan_runs_in_reverse(void) {
    check_scan(true, cell);
}

static void scan_with_if_inside(void) {
    check_scan(false, gated);
}

static void square_row(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    (void)context;
    out[0] = plb_mul(region, in[0], in[0]);
}

static void scan_without_state_is_a_map(void) {
    plb_model *model;
    plb_graph *graph = new_graph(&model);
    plb_value x = input(graph, "x", plb_shape_of(3, 2));
    plb_scan_spec spec = {.scanned = &x, .n_scanned = 1, .n_stacks = 1, .body = square_row};
    plb_value y = plb_scan(graph, &spec);
    check_twice(graph, plb_sum(graph, plb_mul(graph, y, x), 0, false), &x, 1, NULL, false);
    plb_model_free(model);
}

// ---------------------------------------------------------------------------- refusals
static void reads(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    plb_init one = {PLB_INIT_CONSTANT, 1, 0};
    out[0] = plb_param(region, "w", PLB_F64, &plb_scalar_shape, PLB_ROLE_PARAMETER, one);
    (void)in, (void)context;
}

static void same(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    (void)region, (void)context;
    out[0] = in[0];
}

static void narrows(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    (void)context;
    out[0] = plb_cast(region, in[0], PLB_F32);
}

static void nothing(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    (void)region, (void)in, (void)out, (void)context;
}

static plb_status if_status(plb_region_fn then_fn, plb_region_fn else_fn, plb_dtype condition) {
    plb_model *model;
    plb_graph *graph = new_graph(&model);
    plb_value x = input(graph, "x", plb_scalar_shape);
    plb_value flag = plb_input(graph, "flag", condition, &plb_scalar_shape);
    plb_if_spec spec = {.condition = flag,
                        .captures = &x,
                        .n_captures = 1,
                        .n_out = 1,
                        .then_fn = then_fn,
                        .else_fn = else_fn};
    CHECK(plb_if(graph, &spec) == PLB_NONE);
    plb_status status = plb_graph_status(graph);
    plb_model_free(model);
    return status;
}

static plb_status scan_status(plb_region_fn body, plb_shape scanned) {
    plb_model *model;
    plb_graph *graph = new_graph(&model);
    plb_value x = input(graph, "x", plb_scalar_shape), rows = input(graph, "rows", scanned);
    plb_scan_spec spec = {
        .carried = &x, .n_carried = 1, .scanned = &rows, .n_scanned = 1, .body = body};
    CHECK(plb_scan(graph, &spec) == PLB_NONE);
    plb_status status = plb_graph_status(graph);
    plb_model_free(model);
    return status;
}

static void wrong_regions_are_refused(void) {
    CHECK_FAILS(PLB_EINVAL, "variable w in a region", if_status(same, reads, PLB_BOOL));
    CHECK_FAILS(PLB_EINVAL, "else gives f32", if_status(same, narrows, PLB_BOOL));
    CHECK_FAILS(PLB_EINVAL, "no value", if_status(nothing, same, PLB_BOOL));
    CHECK_FAILS(PLB_EINVAL, "bool scalar", if_status(same, same, PLB_F64));
    CHECK_FAILS(PLB_EINVAL, "f64 [] came in, f32 [] out", scan_status(narrows, plb_shape_of(3)));
    CHECK_FAILS(PLB_EINVAL, "axis 0", scan_status(same, plb_scalar_shape));
}

// Building a scan with an if inside and its gradient, in a model of its own.
static plb_status build_all(void *context) {
    (void)context;
    plb_model *model = plb_model_new();
    plb_graph *graph;
    if (!model) return PLB_ENOMEM;
    plb_status status = plb_model_program(model, "p", &graph);
    if (!status) {
        plb_value h = input(graph, "h", plb_shape_of(2)), d;
        plb_value x = input(graph, "x", plb_shape_of(3, 2)), w = input(graph, "w", plb_shape_of(2));
        plb_value carried[] = {h, plb_scalar(graph, PLB_I64, 0)};
        plb_scan_spec spec = {.carried = carried,
                              .n_carried = 2,
                              .scanned = &x,
                              .n_scanned = 1,
                              .captures = &w,
                              .n_captures = 1,
                              .n_stacks = 1,
                              .body = gated};
        plb_value y = plb_scan(graph, &spec);
        plb_gradients(graph, plb_sum(graph, y, 0, false), &w, 1, &d);
        status = plb_graph_status(graph);
    }
    plb_model_free(model);
    return status;
}

static void building_survives_failed_allocations(void) {
    CHECK(fault_every_allocation(build_all, NULL) > 20);
}

static const check_test tests[] = {
    {"if_takes_one_branch", if_takes_one_branch},
    {"loop_stops_and_counts", loop_stops_and_counts},
    {"loop_makes_its_trips", loop_makes_its_trips},
    {"scan_runs_forward", scan_runs_forward},
    {"scan_runs_in_reverse", scan_runs_in_reverse},
    {"scan_with_if_inside", scan_with_if_inside},
    {"scan_without_state_is_a_map", scan_without_state_is_a_map},
    {"wrong_regions_are_refused", wrong_regions_are_refused},
    {"building_survives_failed_allocations", building_survives_failed_allocations},
};
CHECK_MAIN(tests)
