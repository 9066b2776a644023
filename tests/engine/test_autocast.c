// SPDX-License-Identifier: Apache-2.0
// Mixed precision as a pass: which ops go to 16 bits, what stays f32, and that a training step is
// as near to f32 as bf16's eight bits of mantissa allow; and the same rounding in f64.
#include <math.h>

#include "levels.h"
#include "plumb/step.h"

// Convolution, norm, ReLU, pool, a linear layer and a loss, trained by one step.
static void build(plb_graph *graph, const void *context) {
    (void)context;
    const plb_shape x_shape = plb_shape_of(4, 3, 8, 8), y_shape = plb_shape_of(4);
    const plb_init init = {PLB_INIT_UNIFORM, -0.3, 0.3}, one = {PLB_INIT_CONSTANT, 1, 0};
    plb_conv_attrs conv = {.stride = {1, 1}, .pad_begin = {1, 1}, .pad_end = {1, 1}};
    plb_step_options step;
    plb_graph_set_training(graph, true);
    plb_value x = plb_input(graph, "x", PLB_F32, &x_shape);
    plb_value y = plb_input(graph, "y", PLB_I64, &y_shape);
    plb_value w =
        plb_param(graph, "w", PLB_F32, &plb_shape_of(8, 3, 3, 3), PLB_ROLE_PARAMETER, init);
    plb_value gamma = plb_param(graph, "gamma", PLB_F32, &plb_shape_of(8), PLB_ROLE_PARAMETER, one);
    plb_value beta = plb_param(graph, "beta", PLB_F32, &plb_shape_of(8), PLB_ROLE_PARAMETER, init);
    plb_value fc = plb_param(graph, "fc", PLB_F32, &plb_shape_of(5, 8), PLB_ROLE_PARAMETER, init);
    plb_value h = plb_conv(graph, x, w, PLB_NONE, &conv);
    h = plb_relu(graph, plb_batch_norm(graph, h, gamma, beta, 1e-5));
    h = plb_mean(graph, h, 0xc, false); // over height and width
    plb_value logits = plb_linear(graph, h, fc, PLB_NONE);
    plb_value loss =
        plb_cross_entropy(graph, logits, y, PLB_NONE,
                          &(plb_loss_attrs){.reduction = PLB_REDUCE_MEAN, .ignore_index = -100});
    plb_output(graph, "logits", logits);
    plb_output(graph, "loss", loss);
    CHECK_OK(plb_step_options_for("sgd", &step));
    step.lr = 0.1;
    step.sgd.momentum = 0.9; // keeps what the gradients were
    CHECK_OK(plb_train_step(graph, loss, &step));
}

static void a_step_is_near_f32(void) {
    static const plb_autocast casts[] = {PLB_AUTOCAST_BF16, PLB_AUTOCAST_F16};
    static const double tolerances[] = {0.06, 0.01}; // some sixteen units in the last place
    for (int i = 0; i < 2; i++) {
        char text[700];
        const levels_program program = {
            .build = build, .runs = 1, .below = 5, .tolerance = tolerances[i]};
        plb_plan_options options = {.threads = 1, .no_tuning = true};
        levels_trace expected = levels_run(&program, &options);
        options.autocast = casts[i];
        levels_trace found = levels_run(&program, &options);
        bool differ = levels_differ(&program, &expected, &found, NULL, text, sizeof text);
        CHECK_SAY(!differ, "%s", text);
        bool same = !differ && !memcmp(expected.data, found.data, expected.n * sizeof(double));
        CHECK_SAY(!same, "nothing was rounded to 16 bits");
        levels_trace_free(&expected);
        levels_trace_free(&found);
    }
}

static void what_is_16_bits_and_what_is_not(void) {
    plb_model *model = plb_model_new();
    plb_graph *graph = NULL;
    plb_plan *plan = NULL;
    int narrow = 0, wide = 0;
    const plb_plan_options options = {
        .threads = 1, .no_tuning = true, .autocast = PLB_AUTOCAST_BF16};
    CHECK_OK(plb_model_program(model, "p", &graph));
    build(graph, NULL);
    CHECK_OK(plb_plan_new(graph, &options, &plan));
    for (int i = 0; i < plb_plan_op_count(plan); i++) {
        const plb_plan_op op = plb_plan_op_info(plan, i);
        bool matrix = !strncmp(op.op, "conv", 4) || !strcmp(op.op, "matmul");
        bool norm = !strncmp(op.op, "batch_norm", 10);
        bool f32 = !strncmp(op.op, "cross_entropy", 13) || !strcmp(op.op, "sgd");
        if (matrix || norm) CHECK_SAY(op.type.dtype == PLB_BF16, "%s %s", op.scope, op.op);
        if (f32) CHECK_SAY(op.type.dtype == PLB_F32, "%s %s", op.scope, op.op);
        narrow += matrix || norm, wide += f32;
    }
    CHECK(narrow >= 6 && wide >= 5);
    CHECK(strstr(plb_plan_report(plan), "autocast: ") && strstr(plb_plan_report(plan), "in bf16"));
    plb_tensor logits;
    CHECK_OK(plb_plan_output(plan, "logits", &logits));
    CHECK(logits.dtype == PLB_F32);
    plb_plan_free(plan);
    plb_model_free(model);
}

static void refuses_where_it_makes_no_sense(void) {
    plb_model *model = plb_model_new();
    plb_graph *graph = NULL;
    plb_plan *plan = NULL;
    plb_plan_options options = {.level = PLB_LEVEL_INTERP, .autocast = PLB_AUTOCAST_BF16};
    CHECK_OK(plb_model_program(model, "p", &graph));
    build(graph, NULL);
    CHECK_FAILS(PLB_EUNSUPPORTED, "no autocast", plb_plan_new(graph, &options, &plan));
    plb_model_free(model);
}

// ---------------------------------------------------------------------------- rounded f64
enum { ROWS = 3, DEPTH = 20, COLUMNS = 4 };

static void build_product(plb_graph *graph, const void *context) {
    (void)context;
    const plb_shape a = plb_shape_of(ROWS, DEPTH), b = plb_shape_of(COLUMNS, DEPTH);
    plb_output(graph, "y",
               plb_linear(graph, plb_input(graph, "a", PLB_F32, &a),
                          plb_input(graph, "b", PLB_F32, &b), PLB_NONE));
}

// To the nearest number of so many significant bits, even ones at halves.
static double to_bits(double x, int bits) {
    int exponent;
    frexp(x, &exponent);
    return ldexp(nearbyint(ldexp(x, bits - exponent)), exponent - bits);
}

static const levels_part *part_named(const levels_trace *t, const char *name) {
    for (int i = 0; i < t->n_parts; i++) {
        if (strstr(t->parts[i].name, name)) return &t->parts[i];
    }
    return NULL;
}

// The product of rounded factors in f64, rounded to `bits_out` if that is not 0.
static void check_product(const plb_plan_options *options, int bits_in, int bits_out) {
    const levels_program program = {.build = build_product, .runs = 1};
    const plb_shape shapes[] = {plb_shape_of(ROWS, DEPTH), plb_shape_of(COLUMNS, DEPTH)};
    float a[ROWS * DEPTH], b[COLUMNS * DEPTH];
    const plb_tensor left = plb_tensor_dense(a, PLB_F32, &shapes[0], (plb_layout){0});
    const plb_tensor right = plb_tensor_dense(b, PLB_F32, &shapes[1], (plb_layout){0});
    levels_fill(&program, &left, "a", 0);
    levels_fill(&program, &right, "b", 0);
    levels_trace found = levels_run(&program, options);
    const levels_part *y = part_named(&found, "y");
    CHECK_SAY(found.status == PLB_OK && y && y->n == ROWS * COLUMNS, "%s", found.error);
    for (int i = 0; y && i < ROWS * COLUMNS; i++) {
        double sum = 0;
        for (int k = 0; k < DEPTH; k++) {
            sum += to_bits(a[i / COLUMNS * DEPTH + k], bits_in) *
                   to_bits(b[i % COLUMNS * DEPTH + k], bits_in);
        }
        double expected = bits_out ? to_bits(sum, bits_out) : sum;
        double value = found.data[y->first + (size_t)i];
        CHECK_SAY(fabs(value - expected) <= 1e-14 * fabs(expected), "%d: %.17g, expected %.17g", i,
                  value, expected);
    }
    levels_trace_free(&found);
}

static void f64_rounds_as_it_is_told(void) {
    check_product(&(plb_plan_options){.f64 = true, .math = PLB_MATH_TF32}, 11, 0);
    check_product(&(plb_plan_options){.f64 = true, .autocast = PLB_AUTOCAST_F16}, 11, 11);
    check_product(&(plb_plan_options){.f64 = true, .autocast = PLB_AUTOCAST_BF16}, 8, 8);
    check_product(&(plb_plan_options){.f64 = true}, 24, 0);
}

static double distance(const levels_trace *a, const levels_trace *b) {
    double sum = 0;
    for (size_t i = 0; i < a->n; i++) sum += (a->data[i] - b->data[i]) * (a->data[i] - b->data[i]);
    return sqrt(sum);
}

// A step in 16 bits is that of f64 with the same rounding, far more than it is that of f64.
static void a_step_is_nearer_to_rounded_f64(void) {
    static const plb_autocast casts[] = {PLB_AUTOCAST_BF16, PLB_AUTOCAST_F16};
    const levels_program program = {.build = build, .runs = 1, .below = 5};
    for (int i = 0; i < 2; i++) {
        plb_plan_options options = {.threads = 1, .no_tuning = true, .f64 = true};
        levels_trace exact = levels_run(&program, &options);
        options.autocast = casts[i];
        levels_trace rounded = levels_run(&program, &options);
        options.f64 = false;
        levels_trace found = levels_run(&program, &options);
        CHECK(found.n > 0 && found.n == exact.n && found.n == rounded.n);
        double far = distance(&found, &exact), near = distance(&found, &rounded);
        CHECK_SAY(near < far / 3, "%g from rounded f64, %g from f64", near, far);
        levels_trace_free(&exact);
        levels_trace_free(&rounded);
        levels_trace_free(&found);
    }
}

static const check_test tests[] = {
    {"f64 rounds as it is told", f64_rounds_as_it_is_told},
    {"a step is nearer to rounded f64", a_step_is_nearer_to_rounded_f64},
    {"a step is near f32", a_step_is_near_f32},
    {"what is 16 bits and what is not", what_is_16_bits_and_what_is_not},
    {"refuses where it makes no sense", refuses_where_it_makes_no_sense},
};
CHECK_MAIN(tests)
