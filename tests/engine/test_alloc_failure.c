// SPDX-License-Identifier: Apache-2.0
// Every allocation of a small training program fails once, wherever it stands: while the graph is
// built, differentiated, planned or run. The answer is PLB_ENOMEM each time, and the program works
// when nothing fails any more. That nothing leaks is the address sanitizer's to see. What oneDNN
// allocates for itself is not ours and not tested.
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "check.h"
#include "plumb/plumb.h"

enum { MOST_ALLOCATIONS = 20000 };

typedef struct countdown {
    int left;
    bool fired;
} countdown;

static bool count_down(void *context, size_t size_bytes) {
    (void)size_bytes;
    countdown *c = context;
    if (--c->left != 0) return true;
    c->fired = true;
    return false;
}

static plb_value normal(plb_graph *g, const char *name, plb_shape shape) {
    plb_init init = {PLB_INIT_NORMAL, 0, 0.1};
    return plb_param(g, name, PLB_F32, &shape, PLB_ROLE_PARAMETER, init);
}

// One step of descent: conv, relu, pool, matmul, cross-entropy, gradients, sgd.
static void build(plb_graph *g) {
    plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(2, 3, 8, 8));
    plb_value label = plb_input(g, "label", PLB_I64, &plb_shape_of(2));
    plb_scope_push(g, "layer");
    plb_value w[] = {normal(g, "conv", plb_shape_of(4, 3, 3, 3)),
                     normal(g, "linear", plb_shape_of(5, 36))};
    plb_scope_pop(g);
    plb_conv_attrs conv = plb_conv_uniform(2, 1, 0, 1, 1);
    plb_pool_attrs pool = plb_pool_uniform(2, 2, 2, 0);
    plb_value y = plb_relu(g, plb_conv(g, x, w[0], PLB_NONE, &conv));
    y = plb_flatten(g, plb_max_pool(g, y, &pool), 1);
    y = plb_linear(g, y, w[1], PLB_NONE);
    plb_value loss = plb_cross_entropy(g, y, label, PLB_NONE, &(plb_loss_attrs){0}), d[2];
    plb_gradients(g, loss, w, 2, d);
    plb_value lr = plb_scalar(g, PLB_F32, 0.01);
    for (int i = 0; i < 2; i++) {
        plb_value next = plb_sgd(g, w[i], d[i], PLB_NONE, lr, &(plb_sgd_attrs){0});
        plb_assign(g, plb_value_variable(g, w[i]), next);
    }
    plb_output(g, "loss", loss);
}

static void increment(plb_graph *region, const plb_value *in, plb_value *out, void *context) {
    (void)context;
    out[0] = PLB_NONE; // until the trips are through
    out[1] = plb_add(region, in[1], in[2]);
    out[2] = out[1];
}

// x added up three times by a loop, for level interp alone.
static void build_loop(plb_graph *g) {
    plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(2, 3, 8, 8));
    plb_input(g, "label", PLB_I64, &plb_shape_of(2));
    plb_loop_spec spec = {.trips = plb_scalar(g, PLB_I64, 3),
                          .condition = PLB_NONE,
                          .carried = &x,
                          .n_carried = 1,
                          .captures = &x,
                          .n_captures = 1,
                          .n_stacks = 1,
                          .max_trips = 3,
                          .body = increment};
    plb_value sum = plb_loop(g, &spec);
    plb_output(g, "loss", plb_sum(g, sum, 0, false));
}

static plb_status run_twice(plb_plan *plan, double loss[2]) {
    plb_tensor x, label;
    PLB_TRY(plb_plan_input(plan, "x", &x));
    PLB_TRY(plb_plan_input(plan, "label", &label));
    for (int i = 0; i < 2 * 3 * 8 * 8; i++) ((float *)x.data)[i] = (float)(i % 7) - 3;
    ((int64_t *)label.data)[0] = 1, ((int64_t *)label.data)[1] = 4;
    for (int i = 0; i < 2; i++) {
        PLB_TRY(plb_plan_run(plan));
        PLB_TRY(plb_plan_scalar(plan, "loss", &loss[i]));
    }
    return PLB_OK;
}

static plb_status all(plb_level level, void (*builder)(plb_graph *), double loss[2]) {
    plb_model *model = plb_model_new();
    plb_graph *g = NULL;
    plb_plan *plan = NULL;
    if (!model) return PLB_ENOMEM;
    plb_status status = plb_model_program(model, "train", &g);
    if (!status) {
        builder(g);
        plb_plan_options options = {.level = level, .threads = 2, .no_tuning = true};
        status = plb_plan_new(g, &options, &plan);
    }
    if (!status) status = run_twice(plan, loss);
    plb_plan_free(plan);
    plb_model_free(model);
    return status;
}

static void fail_each(plb_level level, void (*builder)(plb_graph *)) {
    double expected[2] = {0}, loss[2];
    CHECK_OK(all(level, builder, expected)); // what is made once a process is made now
    countdown c = {0};
    int n = 0, forgiven = 0;
    do {
        c = (countdown){.left = ++n};
        plb_alloc_set_hook(count_down, &c);
        plb_status status = all(level, builder, loss);
        plb_alloc_set_hook(NULL, NULL);
        // Asking a kernel whether it refuses may fail for want of memory and be tried again; then
        // the kernels, and with them the bits, are those of an undisturbed run.
        bool same = loss[0] == expected[0] && loss[1] == expected[1];
        bool right = status == PLB_OK ? same : c.fired && status == PLB_ENOMEM;
        forgiven += c.fired && status == PLB_OK;
        CHECK_SAY(right, "allocation %d: %s: %s", n, plb_status_name(status), plb_error_text());
    } while (c.fired && n < MOST_ALLOCATIONS);
    CHECK(!c.fired && n > 50);
    CHECK_SAY(forgiven <= n / 20, "%d of %d", forgiven, n);
}

static void at_level_plan(void) {
    fail_each(PLB_LEVEL_PLAN, build);
}

static void at_level_interp(void) {
    fail_each(PLB_LEVEL_INTERP, build);
}

static void at_level_replay(void) {
    fail_each(PLB_LEVEL_REPLAY, build);
}

static void in_regions(void) {
    fail_each(PLB_LEVEL_INTERP, build_loop);
}

static void steps_descend(void) {
    double loss[2] = {0};
    CHECK_OK(all(PLB_LEVEL_PLAN, build, loss));
    CHECK_SAY(loss[1] < loss[0], "%g, then %g", loss[0], loss[1]);
    CHECK_OK(all(PLB_LEVEL_INTERP, build_loop, loss));
    CHECK_NEAR(loss[0], 4 * -3, 1e-3); // i % 7 - 3 over 384 elements sums to -3
}

static const check_test tests[] = {
    {"steps descend", steps_descend},     {"at level plan", at_level_plan},
    {"at level interp", at_level_interp}, {"at level replay", at_level_replay},
    {"in regions", in_regions},
};
CHECK_MAIN(tests)
