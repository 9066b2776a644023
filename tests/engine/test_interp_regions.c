// SPDX-License-Identifier: Apache-2.0
// Programs with if, loop and scan at level interp, against plain C and finite differences; values
// whose extent depends on data at every level that runs them.
#include "check.h"
#include "plumb/plumb.h"

enum { MOST = 16 };

typedef struct program {
    plb_model *model;
    plb_graph *graph;
    plb_plan *plan;
} program;

static program program_new(void) {
    program p = {.model = plb_model_new()};
    CHECK_OK(plb_model_program(p.model, "p", &p.graph));
    return p;
}

static bool program_plan(program *p, plb_level level) {
    plb_plan_options options = {.level = level, .threads = 1};
    plb_status status = plb_plan_new(p->graph, &options, &p->plan);
    CHECK_SAY(!status, "%s", plb_error_text());
    return !status;
}

static void program_free(program *p) {
    plb_plan_free(p->plan);
    plb_model_free(p->model);
}

static plb_value f64_input(const program *p, const char *name, plb_shape shape) {
    return plb_input(p->graph, name, PLB_F64, &shape);
}

static void put(const program *p, const char *name, const double *values, int64_t n) {
    plb_tensor t;
    CHECK_OK(plb_plan_input(p->plan, name, &t));
    CHECK(plb_shape_count(&t.shape) == n);
    for (int64_t i = 0; i < n; i++) plb_store_f64(t.data, t.dtype, i, values[i]);
}

static void get(const program *p, const char *name, double *values, int64_t n) {
    plb_tensor t;
    CHECK_OK(plb_plan_output(p->plan, name, &t));
    CHECK(plb_shape_count(&t.shape) == n);
    for (int64_t i = 0; i < n; i++) values[i] = plb_load_f64(t.data, t.dtype, i);
}

// Output "d" against differences of the scalar output "loss" along input `name`, at `x`.
static void check_gradient(const program *p, const char *name, double *x, int64_t n) {
    const double h = 1e-5;
    double d[MOST], side[2];
    put(p, name, x, n);
    CHECK_OK(plb_plan_run(p->plan));
    get(p, "d", d, n);
    for (int64_t i = 0; i < n; i++) {
        double at = x[i];
        for (int s = 0; s < 2; s++) {
            x[i] = s ? at - h : at + h;
            put(p, name, x, n);
            CHECK_OK(plb_plan_run(p->plan));
            get(p, "loss", &side[s], 1);
        }
        x[i] = at;
        CHECK_NEAR(d[i], (side[0] - side[1]) / (2 * h), 1e-8);
    }
}

// ---------------------------------------------------------------------------- if
// The condition chooses between (x sin(y), y) and (y, x): outputs that are inputs, too.
static void product(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    (void)context;
    out[0] = plb_mul(region, in[0], plb_sin(region, in[1]));
    out[1] = in[1];
}

static void exchange(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    (void)region, (void)context;
    out[0] = in[1];
    out[1] = in[0];
}

static void if_takes_one_branch(void) {
    program p = program_new();
    plb_value flag = plb_input(p.graph, "flag", PLB_BOOL, &plb_scalar_shape);
    plb_value in[] = {f64_input(&p, "x", plb_shape_of(2)), f64_input(&p, "y", plb_shape_of(2))}, d;
    plb_if_spec spec = {.condition = flag,
                        .captures = in,
                        .n_captures = 2,
                        .n_out = 2,
                        .then_fn = product,
                        .else_fn = exchange};
    plb_value a = plb_if(p.graph, &spec), squares = plb_mul(p.graph, a, a);
    plb_value loss = plb_sum(p.graph, plb_mul(p.graph, squares, a + 1), 0, false);
    plb_gradients(p.graph, loss, in, 1, &d);
    plb_output(p.graph, "a", a);
    plb_output(p.graph, "b", a + 1);
    plb_output(p.graph, "loss", loss);
    plb_output(p.graph, "d", d);
    double x[2] = {0.5, -1.25}, y[2] = {2, 0.75}, out[2];
    for (int holds = 1; holds >= 0 && (p.plan || program_plan(&p, PLB_LEVEL_INTERP)); holds--) {
        put(&p, "flag", (double[]){holds}, 1);
        put(&p, "x", x, 2);
        put(&p, "y", y, 2);
        CHECK_OK(plb_plan_run(p.plan));
        get(&p, "a", out, 2);
        for (int i = 0; i < 2; i++) CHECK_NEAR(out[i], holds ? x[i] * sin(y[i]) : y[i], 1e-15);
        get(&p, "b", out, 2);
        for (int i = 0; i < 2; i++) CHECK_NEAR(out[i], holds ? y[i] : x[i], 0);
        check_gradient(&p, "x", x, 2);
    }
    program_free(&p);
}

// ---------------------------------------------------------------------------- loop
// Fibonacci numbers until one is past the limit: a' = b, b' = a + b, keeping a. Carried values
// change places, which fails where one is overwritten while the other is still to be read.
static void fibonacci(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    (void)context;
    out[1] = in[2];
    out[2] = plb_add(region, in[1], in[2]);
    out[0] = plb_le(region, out[2], in[3]);
    out[3] = in[1];
}

static void build_fibonacci(program *p, int64_t max_trips) {
    plb_value limit = f64_input(p, "limit", plb_scalar_shape);
    plb_value trips = plb_input(p->graph, "trips", PLB_I64, &plb_scalar_shape);
    plb_value carried[] = {plb_scalar(p->graph, PLB_F64, 0), plb_scalar(p->graph, PLB_F64, 1)};
    plb_loop_spec spec = {.trips = trips,
                          .condition = PLB_NONE,
                          .carried = carried,
                          .n_carried = 2,
                          .captures = &limit,
                          .n_captures = 1,
                          .n_stacks = 1,
                          .max_trips = max_trips,
                          .body = fibonacci};
    plb_scope_push(p->graph, "series");
    plb_value last = plb_loop(p->graph, &spec);
    plb_scope_pop(p->graph);
    plb_output(p->graph, "last", last + 1);
    plb_output(p->graph, "rows", last + 2);
    plb_output(p->graph, "count", plb_value_count(p->graph, last + 2));
}

static void loop_stops_by_its_data(void) {
    static const double series[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34};
    program p = program_new();
    build_fibonacci(&p, 9);
    double rows[9], last, count;
    for (int trips = 0; trips < 9 && (p.plan || program_plan(&p, PLB_LEVEL_INTERP)); trips += 2) {
        put(&p, "limit", (double[]){15}, 1); // the first past it is 21, made by the 7th trip
        put(&p, "trips", (double[]){trips}, 1);
        CHECK_OK(plb_plan_run(p.plan));
        get(&p, "last", &last, 1);
        get(&p, "count", &count, 1);
        get(&p, "rows", rows, 9);
        int made = trips < 7 ? trips : 7;
        CHECK(count == made && last == series[made + 1]);
        for (int i = 0; i < 9; i++) CHECK(rows[i] == (i < made ? series[i] : 0));
    }
    put(&p, "limit", (double[]){1e9}, 1);
    put(&p, "trips", (double[]){10}, 1);
    CHECK_FAILS(PLB_EINVAL, "series: loop: a trip beyond max_trips, which is 9",
                plb_plan_run(p.plan));
    put(&p, "trips", (double[]){9}, 1); // after an error it runs again
    CHECK_OK(plb_plan_run(p.plan));
    program_free(&p);
}

// ---------------------------------------------------------------------------- scan
// h' = h + g x, and h' is kept; with an if inside, so that g doubles x where it is positive.
static void twice(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    (void)context;
    out[0] = plb_affine(region, in[0], 2, 0);
}

static void once(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    (void)region, (void)context;
    out[0] = in[0];
}

static void add_up(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    plb_value x = in[1];
    if (context) {
        plb_value positive = plb_gt(region, x, plb_scalar(region, PLB_F64, 0));
        plb_if_spec spec = {.condition = positive,
                            .captures = &x,
                            .n_captures = 1,
                            .n_out = 1,
                            .then_fn = twice,
                            .else_fn = once};
        x = plb_if(region, &spec);
    }
    out[0] = plb_add(region, in[0], x);
    out[1] = out[0];
}

static void scan_is_cumsum(void) {
    for (int v = 0; v < 4; v++) { // in both directions, without and with the if
        const bool reverse = v & 1, nested = v & 2;
        program p = program_new();
        plb_value x = f64_input(&p, "x", plb_shape_of(5)), d;
        plb_value zero = plb_scalar(p.graph, PLB_F64, 0);
        plb_scan_spec spec = {.carried = &zero,
                              .n_carried = 1,
                              .scanned = &x,
                              .n_scanned = 1,
                              .n_stacks = 1,
                              .reverse = reverse,
                              .body = add_up,
                              .context = nested ? &spec : NULL};
        plb_value sum = plb_scan(p.graph, &spec);
        plb_value loss = plb_sum(p.graph, plb_mul(p.graph, sum + 1, sum + 1), 0, false);
        plb_gradients(p.graph, loss, &x, 1, &d);
        plb_output(p.graph, "sum", sum + 1);
        plb_output(p.graph, "cumsum", plb_cumsum(p.graph, x, 0, reverse, false));
        plb_output(p.graph, "loss", loss);
        plb_output(p.graph, "d", d);
        double at[5] = {0.5, -1.5, 2, 0.25, -3}, got[5], want[5];
        if (!program_plan(&p, PLB_LEVEL_INTERP)) return;
        put(&p, "x", at, 5);
        CHECK_OK(plb_plan_run(p.plan));
        get(&p, "sum", got, 5);
        get(&p, "cumsum", want, 5);
        double h = 0;
        for (int i = 0; i < 5 && nested; i++) {
            int t = reverse ? 4 - i : i;
            want[t] = h += at[t] > 0 ? 2 * at[t] : at[t];
        }
        for (int i = 0; i < 5; i++) CHECK_NEAR(got[i], want[i], 1e-15);
        check_gradient(&p, "x", at, 5);
        program_free(&p);
    }
}

static void only_level_interp_runs_regions(void) {
    program p = program_new();
    build_fibonacci(&p, 4);
    CHECK_FAILS(PLB_EUNSUPPORTED, "series: loop: regions run at level interp only",
                plb_plan_new(p.graph, &(plb_plan_options){.level = PLB_LEVEL_PLAN}, &p.plan));
    CHECK(!p.plan);
    if (program_plan(&p, PLB_LEVEL_INTERP)) {
        put(&p, "limit", (double[]){1e9}, 1);
        put(&p, "trips", (double[]){4}, 1);
        CHECK_OK(plb_plan_run(p.plan));
        CHECK(plb_plan_op_count(p.plan) == 1);
        CHECK(strcmp(plb_plan_op_info(p.plan, 0).kernel, "regions") == 0);
    }
    program_free(&p);
}

// ---------------------------------------------------------------------------- counts
static void nonzero_has_a_count(void) {
    static const plb_level levels[] = {PLB_LEVEL_INTERP, PLB_LEVEL_PLAN, PLB_LEVEL_REPLAY};
    for (int l = 0; l < 3; l++) {
        program p = program_new();
        plb_value x = f64_input(&p, "x", plb_shape_of(2, 3));
        plb_value rows = plb_nonzero(p.graph, plb_relu(p.graph, x));
        plb_output(p.graph, "rows", rows);
        plb_output(p.graph, "count", plb_value_count(p.graph, rows));
        if (!program_plan(&p, levels[l])) return;
        double got[12], count;
        put(&p, "x", (double[]){1, -1, 2, 0, -3, 4}, 6);
        CHECK_OK(plb_plan_run(p.plan));
        get(&p, "count", &count, 1);
        get(&p, "rows", got, 12);
        static const double want[12] = {0, 0, 0, 2, 1, 2};
        CHECK(count == 3);
        for (int i = 0; i < 12; i++) CHECK(got[i] == want[i]);
        put(&p, "x", (double[]){-1, -1, -2, 0, -3, -4}, 6); // the next run has its own count
        CHECK_OK(plb_plan_run(p.plan));
        get(&p, "count", &count, 1);
        CHECK(count == 0);
        program_free(&p);
    }
}

static const check_test tests[] = {
    {"if takes one branch", if_takes_one_branch},
    {"loop stops by its data", loop_stops_by_its_data},
    {"scan is cumsum", scan_is_cumsum},
    {"only level interp runs regions", only_level_interp_runs_regions},
    {"nonzero has a count", nonzero_has_a_count},
};
CHECK_MAIN(tests)
