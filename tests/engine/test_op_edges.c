// SPDX-License-Identifier: Apache-2.0
// Single points that random samples do not hit: subgradients at corners and ties (those of
// PyTorch 2.15), integers that overflow, NaN, and what builders refuse.
#include "engine/ops/fused.h"
#include "small_program.h"

enum { N = 4 };

// d(sum of y)/dx of a program made by `build`.
static void gradient(plb_value (*build)(plb_graph *g, plb_value x), const double x_data[N],
                     double out[N]) {
    small_program p = small_program_new();
    plb_value x = small_vector(&p, "x", N, x_data), dx;
    plb_gradients(p.graph, plb_sum(p.graph, build(p.graph, x), 0, false), &x, 1, &dx);
    small_run(&p, dx, N, out);
    small_program_free(&p);
}

static plb_value build_clamp(plb_graph *g, plb_value x) {
    return plb_clamp(g, x, -1, 1);
}

static plb_value build_max_0(plb_graph *g, plb_value x) {
    return plb_max(g, x, plb_scalar(g, PLB_F64, 0));
}

static plb_value build_min_0(plb_graph *g, plb_value x) {
    return plb_min(g, x, plb_scalar(g, PLB_F64, 0));
}

static plb_value build_amax(plb_graph *g, plb_value x) {
    return plb_amax(g, x, 0, false);
}

static plb_value build_prod(plb_graph *g, plb_value x) {
    return plb_prod(g, x, 0, false);
}

static plb_value build_norm(plb_graph *g, plb_value x) {
    return plb_norm(g, x, 0, false, 2);
}

static plb_value build_square(plb_graph *g, plb_value x) {
    return plb_pow(g, x, plb_scalar(g, PLB_F64, 2));
}

static plb_value build_elu(plb_graph *g, plb_value x) {
    return plb_elu(g, x, 2);
}

static const struct {
    const char *name;
    plb_value (*build)(plb_graph *g, plb_value x);
    double x[N], dx[N];
} corners[] = {
    {"abs", plb_abs, {-2, 0, -0.0, 2}, {-1, 0, 0, 1}},
    {"relu", plb_relu, {-2, 0, -0.0, 2}, {0, 0, 0, 1}},
    {"relu6", plb_relu6, {0, 3, 6, 7}, {0, 1, 0, 0}},
    {"clamp", build_clamp, {-1, 1, -1.5, 1.5}, {0, 0, 0, 0}},
    {"max", build_max_0, {-1, 0, 1, -0.0}, {0, 0.5, 1, 0.5}},
    {"min", build_min_0, {-1, 0, 1, -0.0}, {1, 0.5, 0, 0.5}},
    {"amax", build_amax, {3, 1, 3, 2}, {0.5, 0, 0.5, 0}},
    {"prod without zeros", build_prod, {2, 3, -1, 4}, {-12, -8, 24, -6}},
    {"prod with one zero", build_prod, {2, 0, -1, 4}, {0, -8, 0, 0}},
    {"prod with two zeros", build_prod, {2, 0, 0, 4}, {0, 0, 0, 0}},
    {"norm of zeros", build_norm, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {"square at zero", build_square, {0, -2, 3, -0.0}, {0, -4, 6, 0}},
    {"hardswish", plb_hardswish, {-3, 3, -4, 4}, {0, 1, 0, 1}},
    {"elu far out", build_elu, {-1e4, 1e4, 0, 1e300}, {0, 1, 2, 1}},
};

static void corners_have_pytorchs_gradients(void) {
    for (size_t i = 0; i < sizeof corners / sizeof *corners; i++) {
        double found[N] = {NAN, NAN, NAN, NAN};
        gradient(corners[i].build, corners[i].x, found);
        for (int k = 0; k < N; k++) {
            CHECK_SAY(found[k] == corners[i].dx[k], "%s at %g: expected %g, found %g",
                      corners[i].name, corners[i].x[k], corners[i].dx[k], found[k]);
        }
    }
}

// The gradient of a where whose other branch is infinite must not become NaN, twice.
static void untaken_branches_stay_out(void) {
    const double far[N] = {800, 1000, -1, 2};
    small_program p = small_program_new();
    plb_value x = small_vector(&p, "x", N, far), dx, ddx;
    plb_value y = plb_sum(p.graph, plb_celu(p.graph, x, 1), 0, false);
    plb_gradients(p.graph, y, &x, 1, &dx);
    plb_value slope = plb_sum(p.graph, plb_mul(p.graph, dx, dx), 0, false);
    plb_gradients(p.graph, slope, &x, 1, &ddx);
    double found[N] = {NAN, NAN, NAN, NAN};
    small_run(&p, ddx, N, found);
    CHECK(found[0] == 0 && found[1] == 0 && found[3] == 0);
    CHECK_NEAR(found[2], 2 * exp(-2), 1e-14); // d/dx e^(2x)
    small_program_free(&p);
}

static int64_t on_integers(plb_op_id op, int64_t a, int64_t b, plb_dtype dtype) {
    return plb_pointwise_i64(op, (int64_t[]){a, b, 0}, 0, 0, dtype);
}

static void integers_wrap_and_never_trap(void) {
    CHECK(on_integers(PLB_OP_add, 127, 1, PLB_I8) == -128);
    CHECK(on_integers(PLB_OP_sub, 0, 1, PLB_U8) == 255);
    CHECK(on_integers(PLB_OP_mul, INT64_MAX, 2, PLB_I64) == -2);
    CHECK(on_integers(PLB_OP_neg, INT64_MIN, 0, PLB_I64) == INT64_MIN);
    CHECK(on_integers(PLB_OP_div, INT64_MIN, -1, PLB_I64) == INT64_MIN);
    CHECK(on_integers(PLB_OP_div, -128, -1, PLB_I8) == -128);
    CHECK(on_integers(PLB_OP_div, 7, 0, PLB_I32) == 0);
    CHECK(on_integers(PLB_OP_remainder, 7, 0, PLB_U64) == 0);
    CHECK(on_integers(PLB_OP_remainder, INT64_MIN, -1, PLB_I64) == 0);
    CHECK(on_integers(PLB_OP_div, -7, 2, PLB_I32) == -3);
    CHECK(on_integers(PLB_OP_remainder, -7, 2, PLB_I32) == 1);
    CHECK(on_integers(PLB_OP_remainder, 7, -2, PLB_I32) == -1);
    CHECK(on_integers(PLB_OP_pow, 3, 5, PLB_U8) == 243 % 256);
    CHECK(on_integers(PLB_OP_pow, -1, -3, PLB_I32) == -1);
    // -1 is the greatest u64.
    CHECK(on_integers(PLB_OP_gt, -1, 1, PLB_U64) && !on_integers(PLB_OP_gt, -1, 1, PLB_I64));
    CHECK(on_integers(PLB_OP_max, -1, 1, PLB_U64) == -1);
    CHECK(on_integers(PLB_OP_div, -1, 2, PLB_U64) == INT64_MAX);
}

static void casts_are_defined_everywhere(void) {
    const struct {
        double from;
        plb_dtype to;
        int64_t expected;
    } cases[] = {{1e30, PLB_I32, INT32_MAX}, {-1e30, PLB_I8, -128}, {-3, PLB_U8, 0},
                 {NAN, PLB_I64, 0},          {-2.9, PLB_I16, -2},   {NAN, PLB_BOOL, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plb_number from = {.f = cases[i].from};
        CHECK(plb_number_cast(from, PLB_F64, cases[i].to).i == cases[i].expected);
    }
    CHECK(plb_number_cast((plb_number){.i = 300}, PLB_I64, PLB_U8).i == 44);
    CHECK(plb_number_cast((plb_number){.i = -1}, PLB_U64, PLB_F64).f == 0x1p64);
    CHECK(plb_number_cast((plb_number){.i = 2}, PLB_I64, PLB_BOOL).i == 1);
    CHECK((float)plb_number_cast((plb_number){.i = INT64_MIN + (INT64_C(1) << 39) + 1}, PLB_U64,
                                 PLB_F32)
              .f == 0x1.000002p63f); // above a tie: once, by f64, it fell on it
}

static void nan_goes_through(void) {
    const plb_op_id keep[] = {PLB_OP_relu, PLB_OP_clamp, PLB_OP_min, PLB_OP_max, PLB_OP_neg};
    for (size_t i = 0; i < sizeof keep / sizeof *keep; i++) {
        CHECK(isnan(plb_pointwise_f64(keep[i], (double[]){NAN, 1, 0}, -1, 1)));
    }
    CHECK(isnan(plb_pointwise_f64(PLB_OP_min, (double[]){1, NAN, 0}, 0, 0)));
    CHECK(isnan(plb_pointwise_f64(PLB_OP_max, (double[]){1, NAN, 0}, 0, 0)));
    CHECK(plb_pointwise_f64(PLB_OP_eq, (double[]){NAN, NAN, 0}, 0, 0) == 0);
    CHECK(plb_pointwise_f64(PLB_OP_ne, (double[]){NAN, NAN, 0}, 0, 0) == 1);
    const double data[N] = {1, NAN, 3, NAN};
    small_program p = small_program_new();
    plb_value x = small_vector(&p, "x", N, data);
    plb_value parts[4] = {plb_amax(p.graph, x, 0, true), plb_amin(p.graph, x, 0, true),
                          plb_cast(p.graph, plb_arg_max(p.graph, x, 0, true), PLB_F64),
                          plb_cast(p.graph, plb_arg_min(p.graph, x, -1, true), PLB_F64)};
    double found[4] = {0};
    small_run(&p, plb_concat(p.graph, parts, 4, 0), 4, found);
    CHECK(isnan(found[0]) && isnan(found[1]) && found[2] == 1 && found[3] == 1);
    small_program_free(&p);
}

// Each builder fails its graph with these words.
#define REFUSES(words, expression)                                     \
    do {                                                               \
        small_program p = small_program_new();                         \
        plb_graph *g = p.graph;                                        \
        plb_value f = plb_input(g, "f", PLB_F32, &plb_shape_of(2, 3)); \
        plb_value i = plb_input(g, "i", PLB_I32, &plb_shape_of(2, 3)); \
        plb_value b = plb_input(g, "b", PLB_BOOL, &plb_shape_of(3));   \
        plb_value s = plb_input(g, "s", PLB_F32, &plb_shape_of(2));    \
        (void)f, (void)i, (void)b, (void)s;                            \
        CHECK((expression) == PLB_NONE);                               \
        CHECK_FAILS(PLB_EINVAL, words, plb_graph_status(g));           \
        small_program_free(&p);                                        \
    } while (0)

static void builders_name_what_is_wrong(void) {
    REFUSES("add: expected operands of one dtype, found f32 and i32", plb_add(g, f, i));
    REFUSES("mul: shapes [2, 3] and [2] do not broadcast", plb_mul(g, f, s));
    REFUSES("exp: expected floats, found i32", plb_exp(g, i));
    REFUSES("neg: expected numbers, found bool", plb_neg(g, b));
    REFUSES("and: expected bool, found f32", plb_and(g, f, f));
    REFUSES("where: expected a bool condition, found f32", plb_where(g, f, f, f));
    REFUSES("affine: expected whole numbers for i32", plb_affine(g, i, 0.5, 0));
    REFUSES("reduce_sum: expected axes of a value of rank 2",
            plb_sum(g, f, plb_axes(2, 1, (int[]){2}), false));
    REFUSES("reduce_mean: expected floats, found i32", plb_mean(g, i, 0, false));
    REFUSES("softmax: expected an axis of a value of rank 2, found -3", plb_softmax(g, f, -3));
    REFUSES("top_k: expected 0 to 3 elements, found 4", plb_top_k(g, f, 1, 4, true));
    REFUSES("do not broadcast", plb_sum_to(g, f, &plb_shape_of(2)));
    REFUSES("sum_to: [2] is no broadcast of [3, 2]", plb_sum_to(g, s, &plb_shape_of(3, 2)));
    REFUSES("fused: instruction 0 reads value 3 before it is there",
            plb_emit(g, PLB_OP_fused, &f, 1,
                     &(plb_fused_attrs){.n_in = 1,
                                        .n_instr = 1,
                                        .n_out = 1,
                                        .out = {1},
                                        .instr = {{.op = PLB_OP_neg, .operand = {3}}}}));
    REFUSES("fused: output 0 is value 0, no instruction's result",
            plb_emit(g, PLB_OP_fused, &f, 1,
                     &(plb_fused_attrs){.n_in = 1,
                                        .n_instr = 1,
                                        .n_out = 1,
                                        .instr = {{.op = PLB_OP_neg, .operand = {0}}}}));
    REFUSES(
        "fused: instruction 0 is not pointwise",
        plb_emit(
            g, PLB_OP_fused, &f, 1,
            &(plb_fused_attrs){
                .n_in = 1, .n_instr = 1, .n_out = 1, .out = {1}, .instr = {{.op = PLB_OP_sort}}}));
}

static void prelu_takes_a_slope_a_channel(void) {
    small_program p = small_program_new();
    plb_value x = small_vector(&p, "x", N, (double[]){-1, -1, -1, -1});
    plb_value slope = small_vector(&p, "slope", 2, (double[]){0.5, 0.25});
    plb_value planes = plb_reshape(p.graph, x, &plb_shape_of(1, 2, 2));
    double found[N] = {0};
    small_run(&p, plb_prelu(p.graph, planes, slope), N, found);
    CHECK(found[0] == -0.5 && found[1] == -0.5 && found[2] == -0.25 && found[3] == -0.25);
    small_program_free(&p);
}

static const check_test tests[] = {
    {"corners have PyTorch's gradients", corners_have_pytorchs_gradients},
    {"untaken branches stay out", untaken_branches_stay_out},
    {"integers wrap and never trap", integers_wrap_and_never_trap},
    {"casts are defined everywhere", casts_are_defined_everywhere},
    {"NaN goes through", nan_goes_through},
    {"builders name what is wrong", builders_name_what_is_wrong},
    {"prelu takes a slope a channel", prelu_takes_a_slope_a_channel},
};
CHECK_MAIN(tests)
