// SPDX-License-Identifier: Apache-2.0
// Loss scaling: a power of two that is multiplied in and divided out changes no bit; a step whose
// gradients overflow is left out; the scale follows the rule of PyTorch's GradScaler. With a device
// also there, where gradients in f16 vanish without it.
#include "check.h"
#include "engine/device/backend.h"
#include "plumb/plumb.h"
#include "plumb/step.h"

enum { N = 4, ROWS = 8 };

typedef struct trained {
    plb_model *model;
    plb_plan *plan;
} trained;

// Least squares of x[8,4] w[4] against y[8], times `factor`.
static void build(trained *t, const char *optimizer, double scale, int64_t growth, double factor,
                  const plb_plan_options *options) {
    plb_graph *g = NULL;
    plb_step_options step;
    const plb_type type = {PLB_F32, plb_shape_of(N, 1)};
    int w;
    *t = (trained){.model = plb_model_new()};
    CHECK_OK(plb_model_program(t->model, "step", &g));
    CHECK_OK(plb_model_variable(t->model, "w", &type, PLB_ROLE_PARAMETER,
                                (plb_init){PLB_INIT_CONSTANT, 0.25, 0}, &w));
    plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(ROWS, N));
    plb_value y = plb_input(g, "y", PLB_F32, &plb_shape_of(ROWS, 1));
    plb_value off = plb_sub(g, plb_matmul(g, x, plb_read(g, w), &(plb_matmul_attrs){0}), y);
    plb_value loss = plb_affine(g, plb_mean(g, plb_mul(g, off, off), 0, false), factor, 0);
    CHECK_OK(plb_step_options_for(optimizer, &step));
    step.lr = 0.05, step.sgd.momentum = step.optimizer == PLB_OPTIMIZER_SGD ? 0.9 : 0;
    step.loss_scale = scale, step.scale_growth = growth;
    CHECK_OK(plb_train_step(g, loss, &step));
    CHECK_OK(plb_model_init(t->model, 1));
    CHECK_OK(plb_plan_new(g, options, &t->plan));
}

static void run_on(trained *t, int steps, float first) {
    for (int i = 0; i < steps && t->plan; i++) {
        plb_tensor x, y;
        CHECK_OK(plb_plan_input(t->plan, "x", &x));
        CHECK_OK(plb_plan_input(t->plan, "y", &y));
        for (int k = 0; k < ROWS * N; k++) ((float *)x.data)[k] = (float)((k * 7 + i) % 11) / 11;
        for (int k = 0; k < ROWS; k++) ((float *)y.data)[k] = (float)(k % 3) - 0.5f;
        ((float *)x.data)[0] += first;
        CHECK_OK(plb_plan_run(t->plan));
    }
}

static void run(trained *t, int steps) {
    run_on(t, steps, 0);
}

static double value(trained *t, const char *name, int element) {
    float numbers[N] = {0};
    const int v = plb_model_find_variable(t->model, name);
    CHECK_SAY(v >= 0, "no variable %s", name);
    if (v < 0) return NAN;
    const plb_variable_info info = plb_model_variable_info(t->model, v);
    plb_tensor to = plb_tensor_dense(numbers, PLB_F32, &info.type.shape, (plb_layout){0});
    CHECK_OK(plb_variable_read(t->model, v, &to));
    return (double)numbers[element];
}

static void end(trained *t) {
    plb_plan_free(t->plan);
    plb_model_free(t->model);
}

static const plb_plan_options here[] = {
    {.threads = 1, .no_tuning = true},
    {.level = PLB_LEVEL_INTERP, .threads = 1},
};

static void scaling_changes_no_bit(void) {
    static const char *const optimizers[] = {"sgd", "adam", "adamw"};
    for (int i = 0; i < 6; i++) {
        trained bare, scaled;
        build(&bare, optimizers[i / 2], 0, 0, 1, &here[i % 2]);
        build(&scaled, optimizers[i / 2], 1024, 0, 1, &here[i % 2]);
        run(&bare, 5);
        run(&scaled, 5);
        for (int k = 0; k < N; k++) {
            // Adam's kernels round in another order than its definition.
            CHECK_NEAR(value(&scaled, "w", k), value(&bare, "w", k), i < 2 ? 0 : 1e-6);
        }
        CHECK(value(&scaled, "w", 0) != 0.25);
        CHECK_NEAR(value(&scaled, "step", 0), 5, 0);
        end(&bare);
        end(&scaled);
    }
}

static void scale_grows_after_so_many_steps(void) {
    for (int i = 0; i < 2; i++) {
        trained t;
        build(&t, "sgd", 8, 3, 1, &here[i]);
        static const double scales[] = {8, 8, 16, 16, 16, 32, 32};
        for (int k = 0; k < 7; k++) {
            run(&t, 1);
            CHECK_NEAR(value(&t, "loss_scale", 0), scales[k], 0);
        }
        CHECK_NEAR(value(&t, "loss_scale.steps", 0), 1, 0);
        end(&t);
    }
}

// The loss is of size 2^6, so that 2^124 times its gradient overflows, and 2^110 times does not.
static void steps_that_overflow_are_left_out(void) {
    for (int i = 0; i < 4; i++) {
        trained t;
        build(&t, i < 2 ? "sgd" : "adam", 0x1p124, 0, 64, &here[i % 2]);
        run(&t, 2);
        CHECK_NEAR(value(&t, "w", 0), 0.25, 0);
        CHECK_NEAR(value(&t, "step", 0), 0, 0);
        CHECK_NEAR(value(&t, "loss_scale", 0), 0x1p122, 0);
        CHECK_NEAR(value(&t, i < 2 ? "sgd.momentum.w" : "adam.square.w", 0), 0, 0);
        run(&t, 12);
        CHECK(value(&t, "w", 0) != 0.25 && isfinite(value(&t, "w", 0)));
        CHECK(value(&t, "step", 0) > 0 && value(&t, "step", 0) < 14);
        CHECK(value(&t, "loss_scale", 0) < 0x1p122);
        end(&t);
    }
}

// However many steps are left out, the scale stays a number that can be divided out again.
static void many_steps_may_be_left_out(void) {
    for (int i = 0; i < 2; i++) {
        trained t;
        build(&t, "sgd", 65536, 0, 1, &here[i]);
        run_on(&t, 300, NAN);
        CHECK_NEAR(value(&t, "w", 0), 0.25, 0);
        CHECK_NEAR(value(&t, "loss_scale", 0), 0x1p-126, 0);
        run(&t, 1);
        CHECK(isfinite(value(&t, "w", 0)) && value(&t, "w", 0) != 0.25);
        end(&t);
    }
}

// Gradients of about 1e-9, which f16 takes for zero, move the weights only when they are scaled.
static void gradients_in_f16_survive(void) {
    const plb_backend *backend = NULL;
    plb_device *device = NULL;
    int index = 0;
    if (plb_device_find("cuda", &backend, &index) || backend->open(index, &device)) {
        SKIP("needs a device");
    }
    const plb_plan_options f16 = {
        .device = "cuda", .autocast = PLB_AUTOCAST_F16, .threads = 1, .no_tuning = true};
    trained lost, kept, truth;
    build(&lost, "sgd", 0, 0, 1e-8, &f16);
    build(&kept, "sgd", 65536, 0, 1e-8, &f16);
    build(&truth, "sgd", 0, 0, 1e-8, &here[0]);
    run(&lost, 3);
    run(&kept, 3);
    run(&truth, 3);
    for (int k = 0; k < N; k++) {
        const double moved = value(&truth, "sgd.momentum.w", k);
        CHECK_NEAR(value(&lost, "sgd.momentum.w", k), 0, 0);
        CHECK_NEAR(value(&kept, "sgd.momentum.w", k), moved, 0.02 * fabs(moved));
    }
    end(&lost);
    end(&kept);
    end(&truth);
    backend->close(device);
}

int main(void) {
    static const check_test tests[] = {
        {"scaling changes no bit", scaling_changes_no_bit},
        {"the scale grows after so many steps", scale_grows_after_so_many_steps},
        {"steps that overflow are left out", steps_that_overflow_are_left_out},
        {"many steps may be left out", many_steps_may_be_left_out},
        {"gradients in f16 survive", gradients_in_f16_survive},
    };
    return check_main(tests, sizeof tests / sizeof *tests);
}
