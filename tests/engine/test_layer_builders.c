// SPDX-License-Identifier: Apache-2.0
// What the samples of single ops cannot show of convolutions, products, norms and pools: builders
// that compose, fused epilogues against the ops that they stand for, and what is refused. Numbers
// without a formula are PyTorch's for the same integers, so they are exact.
#include "engine/graph/graph.h"
#include "small_program.h"

enum { MAX = 64 };

// first, first + 1, … of this shape.
static plb_value counted(small_program *p, const char *name, double first, plb_shape shape) {
    double values[MAX];
    int n = (int)plb_shape_count(&shape);
    for (int i = 0; i < n; i++) values[i] = first + i;
    return plb_reshape(p->graph, small_vector(p, name, n, values), &shape);
}

static void expect(small_program *p, plb_value y, plb_shape shape, const double *expected) {
    CHECK_OK(plb_graph_status(p->graph));
    plb_shape found = plb_value_shape(p->graph, y);
    CHECK(plb_shape_equal(&found, &shape));
    double values[MAX] = {0};
    int n = (int)plb_shape_count(&shape);
    small_run(p, y, n, values);
    for (int i = 0; i < n; i++) {
        CHECK_SAY(values[i] == expected[i], "element %d: expected %g, found %g", i, expected[i],
                  values[i]);
    }
}

// ---------------------------------------------------------------------------- convolution
static const struct {
    int64_t stride, pad, dilation, output_pad;
    bool bias;
    int64_t extent;
    double y[22];
} transposed[] = {
    {2, 1, 1, 1, true, 6, {24, 38, 26, 42, 28, 37, 19, 54, 27, 70, 35, 44}},
    {1, 0, 3, 2, false, 11, {9,  9,  9,  14, 16, 18, 19, 23, 27, 0, 0,
                             24, 30, 36, 29, 37, 45, 34, 44, 54, 0, 0}},
    {2, 3, 3, 2, false, 7, {14, 9, 16, 19, 18, 23, 0, 29, 36, 37, 34, 45, 44, 0}},
    {2, 1, 3, 2, true, 11, {10,  19, 24, 19, 26, 29, 28, 33, 10,  37, 10,
                            -10, 20, 19, 26, 27, 24, 35, 34, -10, 44, -10}},
};

static void transposed_convolution_is_pytorchs(void) {
    for (size_t i = 0; i < sizeof transposed / sizeof *transposed; i++) {
        small_program p = small_program_new();
        plb_value x = counted(&p, "x", 1, plb_shape_of(1, 2, 3));
        plb_value w = counted(&p, "w", -3, plb_shape_of(2, 2, 3)), bias = PLB_NONE;
        if (transposed[i].bias) bias = small_vector(&p, "bias", 2, (double[]){10, -10});
        plb_conv_attrs attrs =
            plb_conv_uniform(1, transposed[i].stride, transposed[i].pad, transposed[i].dilation, 1);
        int64_t more[PLB_MAX_SPATIAL] = {transposed[i].output_pad};
        plb_value y = plb_conv_transpose(p.graph, x, w, bias, &attrs, more);
        expect(&p, y, plb_shape_of(1, 2, transposed[i].extent), transposed[i].y);
        small_program_free(&p);
    }
}

static void transposed_convolution_has_groups(void) {
    small_program p = small_program_new();
    plb_value x = counted(&p, "x", 1, plb_shape_of(1, 4, 2, 2));
    plb_value w = counted(&p, "w", -4, plb_shape_of(4, 2, 2, 1));
    plb_conv_attrs attrs = {.stride = {2}, .pad_begin = {1}, .pad_end = {1}, .groups = 2};
    plb_value y = plb_conv_transpose(p.graph, x, w, PLB_NONE, &attrs, NULL);
    expect(&p, y, plb_shape_of(1, 4, 2, 2),
           (double[]){2, 0, -12, -16, 14, 16, 8, 8, 162, 176, 164, 176, 206, 224, 216, 232});
    small_program_free(&p);
}

static void linear_takes_any_rank(void) {
    small_program p = small_program_new();
    plb_value w = counted(&p, "w", -3, plb_shape_of(2, 3));
    plb_value bias = small_vector(&p, "bias", 2, (double[]){10, -10});
    plb_value x = counted(&p, "x", 1, plb_shape_of(2, 2, 3));
    plb_value y = plb_linear(p.graph, x, w, bias);
    plb_value flat = plb_flatten(p.graph, y, 0);
    plb_value one = plb_linear(p.graph, counted(&p, "row", 1, plb_shape_of(3)), w, bias);
    expect(&p, plb_concat(p.graph, (plb_value[]){flat, one}, 2, 0), plb_shape_of(10),
           (double[]){0, -2, -18, 7, -36, 16, -54, 25, 0, -2});
    plb_shape found = plb_value_shape(p.graph, y);
    CHECK(plb_shape_equal(&found, &plb_shape_of(2, 2, 2)));
    small_program_free(&p);
}

// ---------------------------------------------------------------------------- pooling
static void maximum_prefers_nan_and_the_first(void) {
    const double row[] = {1, NAN, 3, 5, 5, 2, -INFINITY, -INFINITY, -INFINITY};
    small_program p = small_program_new();
    plb_value x = small_vector(&p, "x", 9, row);
    x = plb_reshape(p.graph, x, &plb_shape_of(1, 1, 9));
    plb_pool_attrs attrs = plb_pool_uniform(1, 3, 0, 0);
    plb_value y = plb_max_pool(p.graph, x, &attrs);
    plb_value index = plb_cast(p.graph, y + 1, PLB_F64);
    plb_value both = plb_concat(p.graph, (plb_value[]){y, index}, 2, 0);
    double found[6] = {0};
    CHECK_OK(plb_graph_status(p.graph));
    small_run(&p, both, 6, found);
    CHECK(isnan(found[0]) && found[1] == 5 && found[2] == -INFINITY);
    CHECK(found[3] == 1 && found[4] == 3 && found[5] == 6);
    small_program_free(&p);
}

static void adaptive_pools_of_whole_windows(void) {
    small_program p = small_program_new();
    plb_value x = counted(&p, "x", 0, plb_shape_of(1, 1, 4, 6));
    plb_value max = plb_adaptive_max_pool(p.graph, x, (int64_t[]){2, 3, 0});
    plb_value mean = plb_global_avg_pool(p.graph, x);
    plb_value parts[] = {plb_flatten(p.graph, max, 0), plb_flatten(p.graph, mean, 0)};
    expect(&p, plb_concat(p.graph, parts, 2, 0), plb_shape_of(7),
           (double[]){7, 9, 11, 19, 21, 23, 11.5});
    CHECK(plb_adaptive_max_pool(p.graph, x, (int64_t[]){3, 3, 0}) == PLB_NONE);
    CHECK_FAILS(PLB_EUNSUPPORTED, "no multiple of 3", plb_graph_status(p.graph));
    small_program_free(&p);
}

// ---------------------------------------------------------------------------- fused epilogues
enum { N = 2, C = 2, L = 5, COUNT = N * C * L };

// Gradients of x, gamma, beta and the residual in a row, with the epilogue fused or composed.
static void norm_gradients(bool fused, double *out) {
    small_program p = small_program_new();
    double values[COUNT], other[COUNT], weights[COUNT];
    for (int i = 0; i < COUNT; i++) {
        values[i] = sin(3 * i + 1), other[i] = sin(5 * i + 2), weights[i] = cos(7 * i);
    }
    const plb_shape shape = plb_shape_of(N, C, L);
    plb_graph *g = p.graph;
    plb_value in[] = {plb_reshape(g, small_vector(&p, "x", COUNT, values), &shape),
                      small_vector(&p, "gamma", C, (double[]){0.7, -1.3}),
                      small_vector(&p, "beta", C, (double[]){0.1, 0.2}),
                      plb_reshape(g, small_vector(&p, "residual", COUNT, other), &shape)};
    plb_norm_attrs attrs = {.eps = 1e-3, .epilogue = {.activation = PLB_ACT_RELU}};
    plb_value y;
    if (fused) {
        y = plb_emit(g, PLB_OP_batch_norm, in, 4, &attrs);
    } else {
        y = plb_relu(g, plb_add(g, plb_batch_norm(g, in[0], in[1], in[2], attrs.eps), in[3]));
    }
    plb_value weight = plb_reshape(g, small_vector(&p, "weight", COUNT, weights), &shape), d[4];
    plb_gradients(g, plb_sum(g, plb_mul(g, y, weight), 0, false), in, 4, d);
    CHECK_OK(plb_graph_status(g));
    for (int i = 0; i < 4; i++) d[i] = plb_flatten(g, d[i], 0);
    small_run(&p, plb_concat(g, d, 4, 0), 2 * COUNT + 2 * C, out);
    small_program_free(&p);
}

static void fused_norm_has_the_same_gradients(void) {
    double fused[2 * COUNT + 2 * C] = {0}, composed[2 * COUNT + 2 * C] = {0}, size = 0;
    norm_gradients(true, fused);
    norm_gradients(false, composed);
    for (int i = 0; i < 2 * COUNT + 2 * C; i++) {
        CHECK_NEAR(fused[i], composed[i], 1e-13);
        size += fabs(composed[i]);
    }
    CHECK(size > 1);
}

// ---------------------------------------------------------------------------- refusals
static plb_value wrong_channels(plb_graph *g, plb_value x) {
    plb_value w = plb_input(g, "w", PLB_F32, &plb_shape_of(4, 3, 3, 3));
    plb_conv_attrs attrs = plb_conv_uniform(2, 1, 1, 1, 2);
    return plb_conv(g, x, w, PLB_NONE, &attrs);
}

static plb_value kernel_too_large(plb_graph *g, plb_value x) {
    plb_value w = plb_input(g, "w", PLB_F32, &plb_shape_of(4, 4, 3, 9));
    plb_conv_attrs attrs = plb_conv_uniform(2, 1, 1, 1, 1);
    return plb_conv(g, x, w, PLB_NONE, &attrs);
}

static plb_value mixed_dtypes(plb_graph *g, plb_value x) {
    plb_value w = plb_input(g, "w", PLB_F16, &plb_shape_of(4, 4, 3, 3));
    plb_conv_attrs attrs = plb_conv_uniform(2, 1, 1, 1, 1);
    return plb_conv(g, x, w, PLB_NONE, &attrs);
}

static plb_value product_of_a_vector(plb_graph *g, plb_value x) {
    return plb_matmul(g, x, plb_input(g, "v", PLB_F32, &plb_shape_of(6)), NULL);
}

static plb_value too_much_padding(plb_graph *g, plb_value x) {
    plb_pool_attrs attrs = plb_pool_uniform(2, 2, 2, 2);
    return plb_max_pool(g, x, &attrs);
}

// dilation (kernel - 1) + 1 is 1 modulo 2^64: the window would seem to fit.
enum { TAPS = 5 };
#define WRAPS (INT64_C(1) << 62)

static plb_value convolution_that_wraps(plb_graph *g, plb_value x) {
    plb_value w = plb_input(g, "w", PLB_F32, &plb_shape_of(4, 4, 1, TAPS));
    return plb_conv(g, x, w, PLB_NONE, &(plb_conv_attrs){.dilation = {1, WRAPS}});
}

static plb_value transposed_that_wraps(plb_graph *g, plb_value x) {
    plb_value w = plb_input(g, "w", PLB_F32, &plb_shape_of(4, 4, 1, TAPS));
    return plb_conv_transpose(g, x, w, PLB_NONE, &(plb_conv_attrs){.dilation = {1, WRAPS}}, NULL);
}

static plb_value transposed_padding_that_wraps(plb_graph *g, plb_value x) {
    plb_value w = plb_input(g, "w", PLB_F32, &plb_shape_of(4, 4, 1, TAPS));
    const int64_t more[PLB_MAX_SPATIAL] = {INT64_MAX};
    return plb_conv_transpose(g, x, w, PLB_NONE, &(plb_conv_attrs){0}, more);
}

// Both within bounds, and yet their product is not.
static plb_value transposed_past_64_bits(plb_graph *g, plb_value x) {
    plb_value w = plb_input(g, "w", PLB_F32, &plb_shape_of(4, 4, 1, INT64_C(1) << 40));
    plb_conv_attrs attrs = {.dilation = {1, INT32_MAX}};
    return plb_conv_transpose(g, x, w, PLB_NONE, &attrs, NULL);
}

static plb_value extent_that_wraps(plb_graph *g, plb_value x) {
    plb_value w = plb_input(g, "w", PLB_F32, &plb_shape_of(4, 4, 1, 1));
    plb_conv_attrs attrs = {.extent = {5, INT64_MAX}, .pad_end = {0, 1}};
    return plb_conv_input_grad(g, x, w, &attrs);
}

static plb_value groups_that_wrap(plb_graph *g, plb_value x) {
    plb_value w = plb_input(g, "w", PLB_F32, &plb_shape_of(4, 4, 1, 1));
    plb_conv_attrs attrs = {.extent = {5, 6}, .groups = WRAPS + 1};
    return plb_conv_input_grad(g, x, w, &attrs);
}

static plb_value maximum_that_wraps(plb_graph *g, plb_value x) {
    return plb_max_pool(g, x, &(plb_pool_attrs){.kernel = {1, TAPS}, .dilation = {1, WRAPS}});
}

static plb_value mean_that_wraps(plb_graph *g, plb_value x) {
    return plb_avg_pool(g, x, &(plb_pool_attrs){.kernel = {1, INT64_MAX}, .pad_end = {0, 6}});
}

static plb_value groups_that_do_not_divide(plb_graph *g, plb_value x) {
    return plb_group_norm(g, x, PLB_NONE, PLB_NONE, 3, 1e-5);
}

static plb_value cubic_along_one_axis(plb_graph *g, plb_value x) {
    x = plb_reshape(g, x, &plb_shape_of(2, 4, 30));
    return plb_interpolate(g, x, &(plb_interpolate_attrs){.mode = PLB_CUBIC, .extent = {60}});
}

static plb_value gradient_after_fusion(plb_graph *g, plb_value x) {
    plb_value w = plb_input(g, "w", PLB_F32, &plb_shape_of(4, 4, 1, 1)), dx;
    plb_conv_attrs attrs = plb_conv_uniform(2, 1, 0, 1, 1);
    attrs.epilogue.activation = PLB_ACT_RELU;
    plb_value y = plb_conv(g, x, w, PLB_NONE, &attrs);
    plb_gradients(g, plb_sum(g, y, 0, false), &x, 1, &dx);
    return dx;
}

static const struct {
    plb_value (*build)(plb_graph *g, plb_value x);
    plb_status status;
    const char *words;
} refusals[] = {
    {wrong_channels, PLB_EINVAL, "x with 4 channels"},
    {kernel_too_large, PLB_EINVAL, "axis 1: a kernel that reaches over 9 does not fit"},
    {mixed_dtypes, PLB_EINVAL, "input 1: expected f32 as input 0, found f16"},
    {product_of_a_vector, PLB_EINVAL, "reshape a vector"},
    {too_much_padding, PLB_EINVAL, "padding below the window's reach of 2"},
    {convolution_that_wraps, PLB_EINVAL,
     "conv: axis 1: expected a dilation of 1 to 2147483647, found 4611686018427387904"},
    {transposed_that_wraps, PLB_EINVAL, "axis 1: expected a dilation of 1 to 2147483647"},
    {transposed_padding_that_wraps, PLB_EINVAL, "axis 0: expected output padding of 0 to"},
    {transposed_past_64_bits, PLB_EINVAL, "axis 1: expected an extent of 1 to"},
    {extent_that_wraps, PLB_EINVAL, "axis 1: expected an extent of 1 to"},
    {groups_that_wrap, PLB_EINVAL, "do not fit"},
    {maximum_that_wraps, PLB_EINVAL, "axis 1: expected a dilation of 1 to 2147483647"},
    {mean_that_wraps, PLB_EINVAL, "axis 1: expected a kernel of 1 to 2147483647"},
    {groups_that_do_not_divide, PLB_EINVAL, "4 channels do not split into 3 groups"},
    {cubic_along_one_axis, PLB_EUNSUPPORTED, "2 spatial axes"},
    {gradient_after_fusion, PLB_EUNSUPPORTED, "gradients come before fusion"},
};

static void what_does_not_fit_is_refused(void) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        small_program p = small_program_new();
        plb_value x = plb_input(p.graph, "x", PLB_F32, &plb_shape_of(2, 4, 5, 6));
        CHECK(refusals[i].build(p.graph, x) == PLB_NONE);
        CHECK_FAILS(refusals[i].status, refusals[i].words, plb_graph_status(p.graph));
        small_program_free(&p);
    }
}

int main(void) {
    static const check_test tests[] = {
        {"transposed convolution is PyTorch's", transposed_convolution_is_pytorchs},
        {"transposed convolution has groups", transposed_convolution_has_groups},
        {"linear takes any rank", linear_takes_any_rank},
        {"maximum prefers NaN and the first", maximum_prefers_nan_and_the_first},
        {"adaptive pools of whole windows", adaptive_pools_of_whole_windows},
        {"fused norm has the same gradients", fused_norm_has_the_same_gradients},
        {"what does not fit is refused", what_does_not_fit_is_refused},
    };
    return check_main(tests, sizeof tests / sizeof *tests);
}
