// SPDX-License-Identifier: Apache-2.0
// Gradients of whole programs: against finite differences to the second order, of values used
// twice, of inputs and of what lies between, and in two programs that train against each other.
#include "check.h"
#include "engine/graph/graph.h"
#include "plumb/plumb.h"

static const plb_plan_options interp = {.level = PLB_LEVEL_INTERP, .threads = 1};

static plb_model *model_new(plb_graph **graph) {
    plb_model *model = plb_model_new();
    if (!model) abort();
    CHECK_OK(plb_model_program(model, "p", graph));
    return model;
}

static plb_plan *plan_of(const plb_graph *graph, const plb_plan_options *options) {
    plb_plan *plan = NULL;
    CHECK_OK(plb_plan_new(graph, options, &plan));
    if (!plan) abort();
    return plan;
}

static double *input_of(plb_plan *plan, const char *name) {
    plb_tensor t;
    CHECK_OK(plb_plan_input(plan, name, &t));
    return t.data;
}

static double output_at(plb_plan *plan, const char *name, int64_t i) {
    plb_tensor t;
    CHECK_OK(plb_plan_output(plan, name, &t));
    return plb_load_f64(t.data, t.dtype, plb_tensor_offset_linear(&t, i));
}

static double scalar_of(plb_plan *plan, const char *name) {
    double value = NAN;
    CHECK_OK(plb_plan_scalar(plan, name, &value));
    return value;
}

static plb_value vector(plb_graph *g, const char *name, int64_t n) {
    return plb_input(g, name, PLB_F64, &plb_shape_of(n));
}

static plb_value gradient(plb_graph *g, plb_value loss, plb_value wrt) {
    plb_value out;
    plb_gradients(g, loss, &wrt, 1, &out);
    return out;
}

static plb_value sum(plb_graph *g, plb_value x) {
    return plb_sum(g, x, 0, false);
}

// ------------------------------------------------------------------------------- single values
// d/dx sum(x exp(x) + x) = exp(x) (1 + x) + 1, x being used three times.
static void value_used_twice(void) {
    plb_graph *g;
    plb_model *model = model_new(&g);
    plb_value x = vector(g, "x", 3);
    plb_value loss = sum(g, plb_add(g, plb_mul(g, x, plb_exp(g, x)), x));
    plb_output(g, "dx", gradient(g, loss, x));
    plb_plan *plan = plan_of(g, &interp);
    const double at[] = {-1, 0, 0.5};
    memcpy(input_of(plan, "x"), at, sizeof at);
    CHECK_OK(plb_plan_run(plan));
    for (int i = 0; i < 3; i++) {
        CHECK_NEAR(output_at(plan, "dx", i), exp(at[i]) * (1 + at[i]) + 1, 1e-12);
    }
    plb_plan_free(plan);
    plb_model_free(model);
}

// loss = sum h^3 with h = 2 x: dloss/dh = 3 h^2, dloss/dx = 2 dloss/dh, dloss/dloss = 1; and twice
// the same value is asked for.
static void value_between(void) {
    plb_graph *g;
    plb_model *model = model_new(&g);
    plb_value x = vector(g, "x", 2), h = plb_affine(g, x, 2, 0);
    plb_value loss = sum(g, plb_mul(g, h, plb_mul(g, h, h)));
    plb_value wrt[] = {h, x, loss, h}, out[4];
    plb_gradients(g, loss, wrt, 4, out);
    CHECK(out[0] == out[3]);
    plb_output(g, "dh", out[0]);
    plb_output(g, "dx", out[1]);
    plb_output(g, "dloss", out[2]);
    plb_plan *plan = plan_of(g, &interp);
    input_of(plan, "x")[0] = 0.5, input_of(plan, "x")[1] = -2;
    CHECK_OK(plb_plan_run(plan));
    CHECK_NEAR(output_at(plan, "dh", 0), 3, 1e-12);
    CHECK_NEAR(output_at(plan, "dh", 1), 48, 1e-12);
    CHECK_NEAR(output_at(plan, "dx", 0), 6, 1e-12);
    CHECK_NEAR(output_at(plan, "dx", 1), 96, 1e-12);
    CHECK_NEAR(scalar_of(plan, "dloss"), 1, 0);
    plb_plan_free(plan);
    plb_model_free(model);
}

// The n-th derivative of x^4 by differentiating n times, and none where nothing is left.
static void again_and_again(void) {
    static const double factor[] = {4, 12, 24, 24};
    plb_graph *g;
    plb_model *model = model_new(&g);
    plb_value x = plb_input(g, "x", PLB_F64, &plb_scalar_shape), square = plb_mul(g, x, x);
    plb_value y = plb_mul(g, square, square);
    char name[8];
    for (int n = 0; n < 4; n++) {
        y = gradient(g, y, x);
        snprintf(name, sizeof name, "d%d", n);
        plb_output(g, name, y);
    }
    plb_plan *plan = plan_of(g, &interp);
    *input_of(plan, "x") = 1.5;
    CHECK_OK(plb_plan_run(plan));
    for (int n = 0; n < 4; n++) {
        snprintf(name, sizeof name, "d%d", n);
        CHECK_NEAR(scalar_of(plan, name), factor[n] * pow(1.5, 3 - n), 1e-12);
    }
    plb_plan_free(plan);
    plb_model_free(model);
}

// Nothing flows from what is not used, through integers, from later values, or to PLB_NONE.
static void none_where_independent(void) {
    plb_graph *g;
    plb_model *model = model_new(&g);
    plb_value x = vector(g, "x", 3), unused = vector(g, "unused", 3);
    plb_value rounded = plb_cast(g, plb_cast(g, x, PLB_I64), PLB_F64);
    plb_value y = vector(g, "y", 3);
    plb_value loss = sum(g, plb_mul(g, y, rounded)), later = plb_exp(g, loss);
    plb_value wrt[] = {x, unused, later, PLB_NONE, y}, out[5];
    plb_gradients(g, loss, wrt, 5, out);
    CHECK_OK(plb_graph_status(g));
    CHECK(out[0] == PLB_NONE && out[1] == PLB_NONE && out[2] == PLB_NONE && out[3] == PLB_NONE);
    CHECK(out[4] != PLB_NONE);
    plb_model_free(model);
}

// What a variable is given has no gradient in later reads: a read is where differentiation ends.
static void reads_end_it(void) {
    plb_graph *g;
    plb_model *model = model_new(&g);
    plb_value w =
        plb_param(g, "w", PLB_F64, &plb_shape_of(2), PLB_ROLE_PARAMETER, (plb_init){.a = 3});
    int variable = plb_value_variable(g, w);
    plb_assign(g, variable, plb_mul(g, w, w));
    plb_value now = plb_read(g, variable), loss = sum(g, plb_mul(g, now, now));
    plb_value wrt[] = {w, now}, out[2];
    plb_gradients(g, loss, wrt, 2, out);
    CHECK_OK(plb_graph_status(g));
    CHECK(out[0] == PLB_NONE && out[1] != PLB_NONE);
    plb_model_free(model);
}

static void errors_say_what_is_wrong(void) {
    plb_graph *g;
    plb_model *model = model_new(&g);
    plb_value x = vector(g, "x", 3);
    CHECK(gradient(g, x, x) == PLB_NONE);
    CHECK_FAILS(PLB_EINVAL, "expected a float scalar as loss, found f64 [3]", plb_graph_status(g));
    plb_model_free(model);

    model = model_new(&g);
    x = plb_input(g, "x", PLB_I64, &plb_scalar_shape);
    CHECK(gradient(g, x, x) == PLB_NONE);
    CHECK_FAILS(PLB_EINVAL, "found i64", plb_graph_status(g));
    plb_model_free(model);

    model = model_new(&g);
    x = vector(g, "x", 3);
    CHECK(gradient(g, 1000, x) == PLB_NONE);
    CHECK_FAILS(PLB_EINVAL, "gradients:", plb_graph_status(g));
    plb_model_free(model);

    // The place is where the op was built that refuses: class weights have no gradient.
    model = model_new(&g);
    plb_scope_push(g, "head");
    x = vector(g, "x", 3);
    plb_loss_attrs attrs = plb_loss_default();
    plb_value logits = plb_reshape(g, x, &plb_shape_of(1, 3));
    plb_value target = plb_input(g, "target", PLB_I64, &plb_shape_of(1));
    plb_value loss = plb_cross_entropy(g, logits, target, x, &attrs);
    plb_scope_pop(g);
    gradient(g, loss, x);
    CHECK_FAILS(PLB_EUNSUPPORTED, "head", plb_graph_status(g));
    plb_model_free(model);
}

// ------------------------------------------------------------------------ gradient penalty
// A critic f(x) = w2 · norm(act(x w1 + b1)) per row. Its loss with the penalty of Gulrajani et al.
// 2017 contains its own gradient: mean f(fake) - mean f(real) + 10 mean (|df/dx| - 1)^2.
enum { BATCH = 6, WIDTH = 3, HIDDEN = 8, PARAMETERS = 5 };

typedef struct critic {
    plb_value w1, b1, gamma, beta, w2;
} critic;

static plb_value parameter(plb_graph *g, const char *name, const plb_shape *shape, double low,
                           double high) {
    return plb_param(g, name, PLB_F64, shape, PLB_ROLE_PARAMETER,
                     (plb_init){PLB_INIT_UNIFORM, low, high});
}

static critic critic_of(plb_graph *g) {
    return (critic){
        .w1 = parameter(g, "critic.w1", &plb_shape_of(WIDTH, HIDDEN), -0.8, 0.8),
        .b1 = parameter(g, "critic.b1", &plb_shape_of(HIDDEN), -0.5, 0.5),
        .gamma = parameter(g, "critic.gamma", &plb_shape_of(HIDDEN), 0.5, 1.5),
        .beta = parameter(g, "critic.beta", &plb_shape_of(HIDDEN), -0.5, 0.5),
        .w2 = parameter(g, "critic.w2", &plb_shape_of(HIDDEN, 1), -0.8, 0.8),
    };
}

static plb_value judge(plb_graph *g, const critic *c, plb_value x) {
    plb_value h = plb_tanh(g, plb_add(g, plb_matmul(g, x, c->w1, NULL), c->b1));
    h = plb_layer_norm(g, h, c->gamma, c->beta, 1, 1e-3);
    return plb_matmul(g, plb_silu(g, h), c->w2, NULL);
}

static plb_value penalty(plb_graph *g, const critic *c, plb_value x) {
    plb_value dx = gradient(g, sum(g, judge(g, c, x)), x);
    plb_value length =
        plb_sqrt(g, plb_affine(g, plb_sum(g, plb_mul(g, dx, dx), 2, false), 1, 1e-9));
    plb_value off = plb_affine(g, length, 1, -1);
    return plb_mean(g, plb_mul(g, off, off), 0, false);
}

static plb_value critic_loss(plb_graph *g, const critic *c, plb_value real, plb_value fake) {
    plb_value apart = plb_sub(g, plb_mean(g, judge(g, c, fake), 0, false),
                              plb_mean(g, judge(g, c, real), 0, false));
    plb_value middle = plb_affine(g, plb_add(g, real, fake), 0.5, 0);
    return plb_add(g, apart, plb_affine(g, penalty(g, c, middle), 10, 0));
}

static void fill(double *x, int n, double phase) {
    for (int i = 0; i < n; i++) x[i] = sin(1.7 * i + phase) * 1.2;
}

// Against central differences of the loss in each parameter.
static void penalty_agrees_with_differences(void) {
    plb_graph *g;
    plb_model *model = model_new(&g);
    critic c = critic_of(g);
    plb_value real = plb_input(g, "real", PLB_F64, &plb_shape_of(BATCH, WIDTH));
    plb_value fake = plb_input(g, "fake", PLB_F64, &plb_shape_of(BATCH, WIDTH));
    plb_value loss = critic_loss(g, &c, real, fake);
    plb_value wrt[PARAMETERS] = {c.w1, c.b1, c.gamma, c.beta, c.w2}, grads[PARAMETERS];
    plb_gradients(g, loss, wrt, PARAMETERS, grads);
    plb_output(g, "loss", loss);
    for (int k = 0; k < PARAMETERS; k++) {
        char name[16];
        snprintf(name, sizeof name, "g%d", k);
        plb_output(g, name, grads[k]);
    }
    plb_plan *plans[] = {plan_of(g, &interp), plan_of(g, &(plb_plan_options){.threads = 1})};
    for (int level = 0; level < 2; level++) {
        plb_plan *plan = plans[level];
        fill(input_of(plan, "real"), BATCH * WIDTH, 0.3);
        fill(input_of(plan, "fake"), BATCH * WIDTH, 2.1);
        for (int k = 0; k < PARAMETERS; k++) {
            int variable = plb_value_variable(g, wrt[k]);
            double *w = plb_variable_data(model, variable);
            plb_shape shape = plb_value_shape(g, wrt[k]);
            char name[16];
            snprintf(name, sizeof name, "g%d", k);
            for (int64_t i = 0; i < plb_shape_count(&shape); i += 3) {
                const double before = w[i], step = 1e-5;
                double side[2];
                for (int s = 0; s < 2; s++) {
                    w[i] = before + (s ? step : -step);
                    plb_model_touch(model);
                    CHECK_OK(plb_plan_run(plan));
                    side[s] = scalar_of(plan, "loss");
                }
                w[i] = before;
                plb_model_touch(model);
                CHECK_OK(plb_plan_run(plan));
                double slope = (side[1] - side[0]) / (2 * step);
                CHECK_NEAR(output_at(plan, name, i), slope, 1e-6 * (1 + fabs(slope)));
            }
        }
        plb_plan_free(plan);
    }
    plb_model_free(model);
}

static void descend(plb_graph *g, plb_value loss, const plb_value *wrt, int n, double lr) {
    plb_value grads[16], rate = plb_scalar(g, PLB_F32, lr);
    plb_gradients(g, loss, wrt, n, grads);
    for (int k = 0; k < n; k++) {
        plb_value next = plb_sgd(g, wrt[k], grads[k], PLB_NONE, rate, &(plb_sgd_attrs){0});
        plb_assign(g, plb_value_variable(g, wrt[k]), next);
    }
}

// The penalty alone, trained: slopes come to lie near 1.
static void penalty_converges(void) {
    plb_graph *g;
    plb_model *model = model_new(&g);
    critic c = critic_of(g);
    plb_value x = plb_input(g, "x", PLB_F64, &plb_shape_of(BATCH, WIDTH));
    plb_value loss = penalty(g, &c, x);
    plb_output(g, "loss", loss);
    descend(g, loss, (plb_value[]){c.w1, c.b1, c.gamma, c.beta, c.w2}, PARAMETERS, 0.05);
    plb_plan *plan = plan_of(g, &(plb_plan_options){.threads = 1});
    fill(input_of(plan, "x"), BATCH * WIDTH, 0.3);
    double first = NAN, last = NAN;
    for (int i = 0; i < 400; i++) {
        CHECK_OK(plb_plan_run(plan));
        last = scalar_of(plan, "loss");
        if (i == 0) first = last;
    }
    CHECK_SAY(first > 0.05 && last < 0.02 * first, "penalty %g, then %g", first, last);
    plb_plan_free(plan);
    plb_model_free(model);
}

// ------------------------------------------------------------------------ two programs
// A generator z + shift learns where the real numbers lie (mean 3) from a critic a x, whose
// slope is pulled to 1 or -1 by a penalty: they share variables and run in turn.
static plb_value generate(plb_graph *g, plb_value *shift) {
    *shift = plb_param(g, "generator.shift", PLB_F64, &plb_scalar_shape, PLB_ROLE_PARAMETER,
                       (plb_init){.a = 0});
    return plb_add(g, plb_input(g, "z", PLB_F64, &plb_shape_of(8)), *shift);
}

static plb_value slope_of(plb_graph *g) {
    return plb_param(g, "critic.slope", PLB_F64, &plb_scalar_shape, PLB_ROLE_PARAMETER,
                     (plb_init){.a = 0.1});
}

static void build_critic(plb_graph *g) {
    plb_value shift, fake = generate(g, &shift), real = vector(g, "real", 8), a = slope_of(g);
    plb_value score = plb_sub(g, plb_mean(g, plb_mul(g, fake, a), 0, false),
                              plb_mean(g, plb_mul(g, real, a), 0, false));
    plb_value dx = gradient(g, sum(g, plb_mul(g, fake, a)), fake); // a, eight times
    plb_value square = plb_mean(g, plb_mul(g, dx, dx), 0, false);
    plb_value loss = plb_add(g, score, plb_affine(g, square, 1, 0));
    descend(g, loss, &a, 1, 0.2);
    plb_output(g, "distance", plb_neg(g, score));
}

static void build_generator(plb_graph *g) {
    plb_value shift, fake = generate(g, &shift);
    plb_value loss = plb_neg(g, plb_mean(g, plb_mul(g, fake, slope_of(g)), 0, false));
    descend(g, loss, &shift, 1, 0.2);
    plb_output(g, "shift", plb_read(g, plb_value_variable(g, shift)));
}

static void adversaries_meet(void) {
    for (int level = 0; level < 3; level++) {
        plb_graph *first, *second;
        plb_model *model = model_new(&first);
        CHECK_OK(plb_model_program(model, "generator", &second));
        build_critic(first);
        build_generator(second);
        plb_plan_options options = {.level = (plb_level)level, .threads = 1};
        plb_plan *judging = plan_of(first, &options), *making = plan_of(second, &options);
        for (int i = 0; i < 8; i++) {
            double z = (i - 3.5) / 4;
            input_of(judging, "z")[i] = input_of(making, "z")[i] = z;
            input_of(judging, "real")[i] = 3 + z;
        }
        double shift = NAN;
        for (int turn = 0; turn < 200; turn++) {
            CHECK_OK(plb_plan_run(judging));
            CHECK_OK(plb_plan_run(making));
            shift = scalar_of(making, "shift");
        }
        CHECK_NEAR(shift, 3, 1e-3);
        CHECK_NEAR(scalar_of(judging, "distance"), 0, 1e-3);
        CHECK(plb_model_variable_count(model) == 2);
        plb_plan_free(judging);
        plb_plan_free(making);
        plb_model_free(model);
    }
}

static const check_test tests[] = {
    {"value used twice", value_used_twice},
    {"value between", value_between},
    {"again and again", again_and_again},
    {"none where independent", none_where_independent},
    {"reads end it", reads_end_it},
    {"errors say what is wrong", errors_say_what_is_wrong},
    {"gradient penalty agrees with differences", penalty_agrees_with_differences},
    {"gradient penalty converges", penalty_converges},
    {"adversaries meet", adversaries_meet},
};
CHECK_MAIN(tests)
