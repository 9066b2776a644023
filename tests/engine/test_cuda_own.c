// SPDX-License-Identifier: Apache-2.0
// Own CUDA kernels where op samples do not reach: whole vectors of channels, sums split over many
// blocks, long lines, the fused norms as the planner asks for them; each against the CPU's f64.
// Data that fails a run. With PLB_TEST_BENCH=1 also times the kernels of a large network's shapes
// and prints what share of the memory's bandwidth they reach. Needs a device.
#include "base/core/philox.h"
#include "device_case.h"
#include "engine/graph/graph.h"
#include "plumb/plumb.h"
#include "plumb/step.h"

static test_device device;
static char missing[256]; // why there is none

// ---------------------------------------------------------------------------- programs
typedef struct own_case {
    const char *name;
    void (*build)(plb_graph *g, plb_dtype dtype);
    double factor; // of epsilon and the largest number: what rounding may do
    bool f32_only;
} own_case;

static plb_value input(plb_graph *g, const char *name, plb_dtype dtype, plb_shape shape) {
    return plb_input(g, name, dtype, &shape);
}

// Outputs y and the gradients of sum(y weight) with respect to `wrt`.
static void finish(plb_graph *g, plb_value y, const plb_value *wrt, int n) {
    plb_type type = plb_value_type(g, y);
    plb_value grad[4], weight = plb_input(g, "weight", type.dtype, &type.shape);
    char name[16];
    plb_output(g, "y", y);
    if (n == 0) return;
    plb_value loss = plb_sum(g, plb_cast(g, plb_mul(g, y, weight), PLB_F32), 0, false);
    plb_gradients(g, loss, wrt, n, grad);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "grad%d", i);
        plb_output(g, name, grad[i]);
    }
}

static void build_norm(plb_graph *g, plb_dtype dtype, bool residual, int64_t c, int64_t side) {
    plb_shape shape = plb_shape_of(5, c, side, side);
    plb_value x = input(g, "x", dtype, shape), r = PLB_NONE;
    plb_value gamma = input(g, "gamma", PLB_F32, plb_shape_of(c));
    plb_value beta = input(g, "beta", PLB_F32, plb_shape_of(c));
    plb_value y = plb_batch_norm(g, x, gamma, beta, 1e-5);
    plb_output(g, "mean", y + 1);
    plb_output(g, "inv_std", y + 2);
    if (residual) r = input(g, "r", dtype, shape);
    if (residual) y = plb_add(g, y, r);
    finish(g, plb_relu(g, y), (plb_value[]){x, gamma, beta, r}, residual ? 4 : 3);
}

static void norm_relu(plb_graph *g, plb_dtype dtype) {
    build_norm(g, dtype, false, 64, 17);
}
static void norm_residual(plb_graph *g, plb_dtype dtype) {
    build_norm(g, dtype, true, 512, 7);
}
static void norm_odd(plb_graph *g, plb_dtype dtype) {
    build_norm(g, dtype, true, 37, 9);
}
static void norm_wide(plb_graph *g, plb_dtype dtype) {
    build_norm(g, dtype, false, 2056, 3);
}

static void max_pool(plb_graph *g, plb_dtype dtype) {
    plb_value x = input(g, "x", dtype, plb_shape_of(3, 32, 23, 22));
    plb_pool_attrs attrs = plb_pool_uniform(2, 3, 2, 1);
    plb_value y = plb_max_pool(g, x, &attrs);
    plb_output(g, "index", y + 1);
    finish(g, y, &x, 1);
}
static void avg_pool(plb_graph *g, plb_dtype dtype) {
    plb_value x = input(g, "x", dtype, plb_shape_of(2, 24, 15, 16));
    plb_pool_attrs attrs = plb_pool_uniform(2, 3, 2, 1);
    finish(g, plb_avg_pool(g, x, &attrs), &x, 1);
}
static void global_pool(plb_graph *g, plb_dtype dtype) {
    plb_value x = input(g, "x", dtype, plb_shape_of(4, 520, 7, 7));
    finish(g, plb_global_avg_pool(g, x), &x, 1);
}
static void adaptive_pool(plb_graph *g, plb_dtype dtype) {
    plb_value x = input(g, "x", dtype, plb_shape_of(2, 32, 13, 11));
    finish(g, plb_adaptive_avg_pool(g, x, (int64_t[PLB_MAX_SPATIAL]){6, 6}), &x, 1);
}

static void layer_norm(plb_graph *g, plb_dtype dtype) {
    plb_value x = input(g, "x", dtype, plb_shape_of(37, 768));
    plb_value gamma = input(g, "gamma", PLB_F32, plb_shape_of(768));
    plb_value beta = input(g, "beta", PLB_F32, plb_shape_of(768));
    plb_output(g, "y", plb_layer_norm(g, x, gamma, beta, 1, 1e-5));
}
static void group_norm(plb_graph *g, plb_dtype dtype) {
    plb_value x = input(g, "x", dtype, plb_shape_of(3, 64, 14, 14));
    plb_output(g, "y", plb_group_norm(g, x, PLB_NONE, PLB_NONE, 8, 1e-5));
}
static void softmax_long(plb_graph *g, plb_dtype dtype) {
    plb_value x = input(g, "x", dtype, plb_shape_of(11, 3001));
    finish(g, plb_softmax(g, x, 1), &x, 1);
}
static void log_softmax_short(plb_graph *g, plb_dtype dtype) {
    plb_value x = input(g, "x", dtype, plb_shape_of(300, 1000));
    finish(g, plb_log_softmax(g, x, 1), &x, 1);
}

static void reductions(plb_graph *g, plb_dtype dtype) {
    plb_value x = input(g, "x", dtype, plb_shape_of(40, 60, 41));
    plb_output(g, "all", plb_sum(g, x, 0, false));
    plb_output(g, "columns", plb_mean(g, x, 3, false));
    plb_output(g, "rows", plb_var(g, x, 6, false, 1));
    plb_output(g, "middle", plb_logsumexp(g, x, 2, false));
    plb_output(g, "greatest", plb_amax(g, x, 3, false));
    plb_output(g, "norm", plb_norm(g, x, 0, false, 2));
    plb_output(g, "place", plb_arg_max(g, x, 1, false));
}

static void cross_entropy(plb_graph *g, plb_dtype dtype) {
    plb_value x = input(g, "x", dtype, plb_shape_of(130, 1000));
    plb_value t = input(g, "target", PLB_I64, plb_shape_of(130));
    plb_loss_attrs attrs = plb_loss_default();
    attrs.smoothing = 0.1;
    plb_value loss = plb_cross_entropy(g, x, t, PLB_NONE, &attrs), grad;
    plb_gradients(g, plb_cast(g, loss, PLB_F32), &x, 1, &grad);
    plb_output(g, "loss", loss);
    plb_output(g, "grad", grad);
}

static void embedding(plb_graph *g, plb_dtype dtype) {
    plb_value w = input(g, "w", dtype, plb_shape_of(1000, 320));
    plb_value t = input(g, "target", PLB_I64, plb_shape_of(7, 100));
    finish(g, plb_embedding(g, w, t), &w, 1);
}

static void lines(plb_graph *g, plb_dtype dtype) {
    plb_value x = input(g, "x", dtype, plb_shape_of(3, 1025));
    plb_value sorted = plb_sort(g, x, 1, true);
    plb_output(g, "values", sorted);
    plb_output(g, "indices", sorted + 1);
    plb_output(g, "sums", plb_cumsum(g, x, 1, true, false));
    plb_value t = input(g, "target", PLB_I64, plb_shape_of(2, 5000));
    plb_value equal = plb_top_k(g, t, 1, 4321, true);
    plb_output(g, "kept", equal);
    plb_output(g, "places", equal + 1);
}

static void resampling(plb_graph *g, plb_dtype dtype) {
    plb_value x = input(g, "x", dtype, plb_shape_of(2, 16, 19, 23));
    plb_interpolate_attrs attrs = {.mode = PLB_LINEAR, .extent = {41, 37}};
    finish(g, plb_interpolate(g, x, &attrs), &x, 1);
}

static void conv(plb_graph *g, plb_dtype dtype, plb_shape x_shape, plb_shape w_shape, int64_t pad) {
    plb_value x = input(g, "x", dtype, x_shape), w = input(g, "w", dtype, w_shape);
    plb_value bias = input(g, "beta", dtype, plb_shape_of(w_shape.dim[0]));
    const plb_conv_attrs attrs = {.pad_begin = {pad, pad}, .pad_end = {pad, pad}};
    plb_value y = plb_relu(g, plb_conv(g, x, w, bias, &attrs));
    finish(g, y, (plb_value[]){x, w, bias}, 3);
}
static void conv_digits(plb_graph *g, plb_dtype dtype) {
    conv(g, dtype, plb_shape_of(64, 1, 28, 28), plb_shape_of(10, 1, 5, 5), 0);
}
static void conv_digits_inner(plb_graph *g, plb_dtype dtype) {
    conv(g, dtype, plb_shape_of(64, 10, 12, 12), plb_shape_of(20, 10, 5, 5), 0);
}
static void conv_small_padded(plb_graph *g, plb_dtype dtype) {
    conv(g, dtype, plb_shape_of(17, 7, 9, 11), plb_shape_of(5, 7, 3, 3), 1);
}

static const own_case cases[] = {
    {"convolution of digits", conv_digits, 64, true},
    {"inner convolution of digits", conv_digits_inner, 64, true},
    {"convolution of small images, padded", conv_small_padded, 64, true},
    {"norm and relu", norm_relu, 64, false},
    {"norm, residual and relu", norm_residual, 64, false},
    {"norm, odd channels", norm_odd, 64, false},
    {"norm, many channels", norm_wide, 64, false},
    {"max pool", max_pool, 16, false},
    {"average pool", avg_pool, 16, false},
    {"global pool", global_pool, 16, false},
    {"adaptive pool", adaptive_pool, 16, false},
    {"layer norm", layer_norm, 16, false},
    {"group norm", group_norm, 16, false},
    {"softmax of long lines", softmax_long, 64, false},
    {"log softmax", log_softmax_short, 64, false},
    {"reductions", reductions, 64, false},
    {"cross entropy", cross_entropy, 32, false},
    {"embedding", embedding, 32, true}, // the definition rounds each addition
    {"lines", lines, 64, false},
    {"resampling", resampling, 256, false}, // coordinates are f32, those of the truth f64
};

// Numbers with two decimals in [-1, 1], so that equal ones occur; targets in [0, 999].
static void fill(plb_tensor *t, uint64_t key) {
    const int64_t count = plb_shape_count(&t->shape);
    for (int64_t i = 0; i < count; i++) {
        uint32_t word = plb_philox(key, (uint64_t)i, 0).word[0];
        if (plb_dtype_is_float(t->dtype)) {
            plb_store_f64(t->data, t->dtype, i, (double)(word % 20001) / 10000 - 1);
        } else {
            plb_store_i64(t->data, t->dtype, i, word % 1000);
        }
    }
}

static plb_status run_plan(const plb_graph *g, const plb_plan_options *options, plb_plan **out) {
    static const char *const names[] = {"x", "weight", "gamma", "beta",
                                        "r", "target", "w",     "index"};
    PLB_TRY(plb_plan_new(g, options, out));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        plb_tensor t;
        if (plb_plan_input(*out, names[i], &t) == PLB_OK) fill(&t, i + 1);
    }
    return plb_plan_run(*out);
}

static void compare_output(const own_case *c, plb_dtype dtype, const char *name, plb_plan *plan,
                           plb_plan *truth) {
    plb_tensor got, want;
    double g = 0, w = 0;
    CHECK_OK(plb_plan_output(plan, name, &got));
    CHECK_OK(plb_plan_output(truth, name, &want));
    const double tolerance =
        c->factor * plb_dtype_epsilon(got.dtype) * fmax(device_largest(&want), 0.1);
    const int64_t i = device_differs(&got, &want, tolerance, &g, &w);
    CHECK_SAY(i < 0, "%s, %s: %s element %lld: %.9g, expected %.9g within %.2g", c->name,
              plb_dtype_name(dtype), name, (long long)i, g, w, tolerance);
}

static void run_case(const own_case *c, plb_dtype dtype, bool deterministic) {
    plb_model *model = plb_model_new();
    plb_graph *g = NULL;
    plb_plan *plan = NULL, *truth = NULL;
    const plb_plan_options f64 = {.f64 = true, .threads = 1, .no_tuning = true};
    const plb_plan_options cuda = {
        .device = "cuda", .threads = 1, .no_tuning = true, .deterministic = deterministic};
    CHECK_OK(plb_model_program(model, "test", &g));
    c->build(g, dtype);
    CHECK_OK(plb_graph_status(g));
    CHECK_OK(run_plan(g, &f64, &truth));
    CHECK_OK(run_plan(g, &cuda, &plan));
    for (int i = 0; i < g->n_outputs && plan && truth; i++) {
        compare_output(c, dtype, g->outputs[i].name, plan, truth);
    }
    plb_plan_free(plan);
    plb_plan_free(truth);
    plb_model_free(model);
}

static void large_cases_agree_with_the_reference(void) {
    static const plb_dtype dtypes[] = {PLB_F32, PLB_BF16, PLB_F16};
    if (!device.device) SKIP(missing);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int d = 0; d < (cases[i].f32_only ? 1 : 3); d++) {
            run_case(&cases[i], dtypes[d], false);
        }
    }
}

// ---------------------------------------------------------------------------- many updates at once
// Parameters of these sizes, whose updates make one launch; 4096 is what a piece of it holds.
static const int64_t sizes[] = {1, 7, 64, 4095, 4096, 4097, 100003};
enum { SIZES = sizeof sizes / sizeof *sizes, UPDATES = 3 };

static void build_updates(plb_model *model, const char *optimizer, plb_graph **out) {
    plb_value loss = PLB_NONE;
    plb_step_options step;
    CHECK_OK(plb_step_options_for(optimizer, &step));
    step.sgd.momentum = 0.9, step.sgd.weight_decay = step.adam.weight_decay = 0.1;
    CHECK_OK(plb_model_program(model, "train", out));
    for (int i = 0; i < SIZES; i++) {
        const plb_type type = {PLB_F32, plb_shape_of(sizes[i])};
        char name[16];
        int variable = -1;
        snprintf(name, sizeof name, "w%d", i);
        CHECK_OK(plb_model_variable(model, name, &type, PLB_ROLE_PARAMETER,
                                    (plb_init){PLB_INIT_NORMAL, 0, 1}, &variable));
        plb_value w = plb_read(*out, variable);
        plb_value term = plb_sum(*out, plb_sin(*out, w), 0, false);
        loss = loss == PLB_NONE ? term : plb_add(*out, loss, term);
    }
    CHECK_OK(plb_train_step(*out, loss, &step));
}

static void run_updates(const char *optimizer, const char *device_name, plb_model *model) {
    plb_graph *g = NULL;
    plb_plan *plan = NULL;
    const plb_plan_options options = {.device = device_name, .threads = 1, .no_tuning = true};
    build_updates(model, optimizer, &g);
    CHECK_OK(plb_model_init(model, 5));
    CHECK_OK(plb_plan_new(g, &options, &plan));
    for (int i = 0; i < UPDATES; i++) CHECK_OK(plb_plan_run(plan));
    if (device_name) {
        CHECK_SAY(strstr(plb_plan_report(plan), "merge: "), "%s", plb_plan_report(plan));
    }
    plb_plan_free(plan);
}

static void updates_together_are_those_one_by_one(void) {
    static const char *const optimizers[] = {"sgd", "adam", "adamw"};
    if (!device.device) SKIP(missing);
    for (int o = 0; o < 3; o++) {
        plb_model *here = plb_model_new(), *there = plb_model_new();
        run_updates(optimizers[o], NULL, here);
        run_updates(optimizers[o], "cuda", there);
        for (int v = 0; v < plb_model_variable_count(here); v++) {
            const plb_variable_info info = plb_model_variable_info(here, v);
            const float *x = plb_variable_data(here, v), *y = plb_variable_data(there, v);
            double most = 0;
            for (int64_t i = 0; i < plb_shape_count(&info.type.shape); i++) {
                most = fmax(most, fabs((double)x[i] - (double)y[i]) / (1 + fabs((double)x[i])));
            }
            CHECK_SAY(most < 1e-5, "%s: %s differs by %.2g", optimizers[o], info.name, most);
        }
        plb_model_free(here);
        plb_model_free(there);
    }
}

// ---------------------------------------------------------------------------- faults
static void bad_index_fails_the_run(void) {
    if (!device.device) SKIP(missing);
    plb_model *model = plb_model_new();
    plb_graph *g = NULL;
    plb_plan *plan = NULL;
    plb_tensor t;
    const plb_plan_options cuda = {.device = "cuda", .threads = 1, .no_tuning = true};
    CHECK_OK(plb_model_program(model, "test", &g));
    plb_value w = input(g, "w", PLB_F32, plb_shape_of(1000, 4));
    plb_value index = input(g, "index", PLB_I64, plb_shape_of(9));
    plb_output(g, "y", plb_embedding(g, w, index));
    CHECK_OK(run_plan(g, &cuda, &plan));
    CHECK_OK(plb_plan_input(plan, "index", &t));
    ((int64_t *)t.data)[5] = 1000;
    CHECK_FAILS(PLB_EINVAL, "take: element 5: expected 0 to 999, found 1000", plb_plan_run(plan));
    ((int64_t *)t.data)[5] = -1;
    CHECK_FAILS(PLB_EINVAL, "found -1", plb_plan_run(plan));
    ((int64_t *)t.data)[5] = 999;
    CHECK_OK(plb_plan_run(plan));
    plb_plan_free(plan);
    plb_model_free(model);
}

// ---------------------------------------------------------------------------- speed
enum { BENCH_MAX = 7, BENCH_REPEATS = 20 };

typedef struct bench_case {
    const char *name;
    plb_op_id op;
    int n_in, n_out;
    plb_type in[BENCH_MAX], out[4];
    const void *attrs;
    double passes; // bytes that its kernels move, in bytes of input 0
} bench_case;

#define ABSENT \
    { .dtype = PLB_DTYPE_COUNT }
#define B16(...) PLB_TYPE_OF(PLB_BF16, __VA_ARGS__)
#define NORM(n, c, h, w, residual, title)                                  \
    {                                                                      \
        title, PLB_OP_batch_norm, residual ? 4 : 3, 3,                     \
            {B16(n, c, h, w), PLB_T(c), PLB_T(c), B16(n, c, h, w)},        \
            {B16(n, c, h, w), PLB_T(c), PLB_T(c)}, &relu, residual ? 4 : 3 \
    }
#define NORM_GRAD(n, c, h, w, title)                                                            \
    {                                                                                           \
        title, PLB_OP_batch_norm_grad, 7, 3,                                                    \
            {B16(n, c, h, w), B16(n, c, h, w), PLB_T(c), PLB_T(c), PLB_T(c), ABSENT, PLB_T(c)}, \
            {B16(n, c, h, w), PLB_T(c), PLB_T(c)}, &plain, 5                                    \
    }
#define NORM_GRAD_MASKED(n, c, h, w, title)                                                    \
    {                                                                                          \
        title, PLB_OP_batch_norm_grad, 6, 4,                                                   \
            {B16(n, c, h, w), B16(n, c, h, w), PLB_T(c), PLB_T(c), PLB_T(c), B16(n, c, h, w)}, \
            {B16(n, c, h, w), PLB_T(c), PLB_T(c), B16(n, c, h, w)}, &masked, 7                 \
    }
static const plb_norm_attrs relu = {.eps = 1e-5, .epilogue = {.activation = PLB_ACT_RELU}};
static const plb_norm_attrs masked = {.eps = 1e-5, .masked = 1}, plain = {.eps = 1e-5};
static const plb_norm_attrs one_axis = {.eps = 1e-5, .axes = 1};
static const plb_pool_attrs pool = {.kernel = {3, 3},
                                    .stride = {2, 2},
                                    .pad_begin = {1, 1},
                                    .pad_end = {1, 1},
                                    .dilation = {1, 1},
                                    .extent = {112, 112}};
static const plb_pool_attrs global = {.extent = {1, 1}}, spread = {.extent = {7, 7}};
static const plb_axis_attrs second = {.axis = 1};
static const plb_reduce_attrs first_axes = {.axes = 1}, last_axis = {.axes = 2};
static const plb_loss_attrs mean = {.reduction = PLB_REDUCE_MEAN, .ignore_index = -100};
static const plb_sgd_attrs momentum = {.momentum = 0.9, .weight_decay = 1e-4};
static const plb_adam_attrs adam = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
static const plb_random_attrs half = {.p = 0.5, .id = 1};

static const bench_case benches[] = {
    NORM(256, 64, 112, 112, false, "norm relu 64@112"),
    NORM(256, 256, 56, 56, true, "norm residual relu 256@56"),
    NORM(256, 64, 56, 56, false, "norm relu 64@56"),
    NORM(256, 512, 28, 28, true, "norm residual relu 512@28"),
    NORM(256, 2048, 7, 7, true, "norm residual relu 2048@7"),
    NORM(32, 256, 14, 14, false, "norm relu 256@14 b32"),
    NORM_GRAD(256, 64, 112, 112, "norm grad 64@112"),
    NORM_GRAD_MASKED(256, 256, 56, 56, "norm grad masked 256@56"),
    NORM_GRAD(256, 64, 56, 56, "norm grad 64@56"),
    NORM_GRAD_MASKED(256, 512, 28, 28, "norm grad masked 512@28"),
    NORM_GRAD_MASKED(256, 2048, 7, 7, "norm grad masked 2048@7"),
    NORM_GRAD(32, 256, 14, 14, "norm grad 256@14 b32"),
    {"max pool 64@112",
     PLB_OP_max_pool,
     1,
     2,
     {B16(256, 64, 112, 112)},
     {B16(256, 64, 56, 56), PLB_TYPE_OF(PLB_I32, 256, 64, 56, 56)},
     &pool,
     1.75},
    {"max pool grad 64@112",
     PLB_OP_max_pool_grad,
     2,
     1,
     {PLB_TYPE_OF(PLB_I32, 256, 64, 56, 56), B16(256, 64, 56, 56)},
     {B16(256, 64, 112, 112)},
     &pool,
     3.5},
    {"global pool 2048@7",
     PLB_OP_adaptive_avg_pool,
     1,
     1,
     {B16(256, 2048, 7, 7)},
     {B16(256, 2048, 1, 1)},
     &global,
     1.02},
    {"global pool grad 2048@7",
     PLB_OP_adaptive_avg_pool_grad,
     1,
     1,
     {B16(256, 2048, 1, 1)},
     {B16(256, 2048, 7, 7)},
     &spread,
     50},
    {"layer norm 768",
     PLB_OP_layer_norm,
     3,
     1,
     {B16(65536, 768), PLB_T(768), PLB_T(768)},
     {B16(65536, 768)},
     &one_axis,
     2},
    {"softmax 512", PLB_OP_softmax, 1, 1, {B16(98304, 512)}, {B16(98304, 512)}, &second, 2},
    {"softmax grad 512",
     PLB_OP_softmax_grad,
     2,
     1,
     {B16(98304, 512), B16(98304, 512)},
     {B16(98304, 512)},
     &second,
     3},
    {"sum of columns", PLB_OP_reduce_sum, 1, 1, {B16(262144, 256)}, {B16(256)}, &first_axes, 1},
    {"sum of rows", PLB_OP_reduce_sum, 1, 1, {B16(262144, 256)}, {B16(262144)}, &last_axis, 1},
    {"cross entropy 256x1000",
     PLB_OP_cross_entropy,
     2,
     1,
     {PLB_T(256, 1000), PLB_TI(256)},
     {{.dtype = PLB_F32}},
     &mean,
     1},
    {"sgd 25M",
     PLB_OP_sgd,
     4,
     2,
     {PLB_T(25000000), PLB_T(25000000), PLB_T(25000000), PLB_T(1)},
     {PLB_T(25000000), PLB_T(25000000)},
     &momentum,
     5},
    {"adam 25M",
     PLB_OP_adam,
     6,
     3,
     {PLB_T(25000000), PLB_T(25000000), PLB_T(25000000), PLB_T(25000000), PLB_T(1), PLB_T(1)},
     {PLB_T(25000000), PLB_T(25000000), PLB_T(25000000)},
     &adam,
     7},
    {"dropout 256@28",
     PLB_OP_dropout,
     2,
     1,
     {B16(256, 256, 28, 28), PLB_TYPE_OF(PLB_U64, 2)},
     {B16(256, 256, 28, 28)},
     &half,
     2},
};

static plb_status bench_operand(const plb_type *type, plb_tensor *out) {
    const int rank = type->shape.rank;
    *out = (plb_tensor){.dtype = PLB_DTYPE_COUNT};
    if (type->dtype == PLB_DTYPE_COUNT) return PLB_OK;
    const plb_layout layout = {rank >= 3 && rank <= 5 ? PLB_LAYOUT_NHWC : PLB_LAYOUT_PLAIN, 0};
    const size_t bytes = plb_layout_bytes(&type->shape, type->dtype, layout);
    const size_t part = bytes < (1 << 20) ? bytes : 1 << 20;
    void *memory = NULL, *host = plb_alloc_slab(part);
    PLB_TRY(device.backend->alloc(device.device, bytes, &memory));
    *out = plb_tensor_dense(memory, type->dtype, &type->shape, layout);
    plb_tensor some = plb_tensor_dense(host, type->dtype,
                                       &plb_shape_of((int64_t)(part / plb_dtype_size(type->dtype))),
                                       (plb_layout){0});
    fill(&some, 1);
    for (size_t at = 0; at < bytes; at += part) {
        const size_t n = bytes - at < part ? bytes - at : part;
        PLB_TRY(device.backend->copy(device.stream, (char *)memory + at, host, n));
    }
    PLB_TRY(device.backend->wait(device.stream));
    plb_free(host);
    return PLB_OK;
}

// As a captured graph of several launches, as a replayed plan runs them.
static plb_status bench_time(const plb_launch *l, const plb_call *call, double *out_us) {
    const plb_backend *b = device.backend;
    plb_capture *capture = NULL;
    plb_event *from = NULL, *to = NULL;
    int64_t ns = 0, best = INT64_MAX;
    PLB_TRY(b->event_new(device.device, &from));
    PLB_TRY(b->event_new(device.device, &to));
    PLB_TRY(b->capture_begin(device.stream));
    for (int i = 0; i < BENCH_REPEATS; i++) PLB_TRY(l->run(l->state, call, device.stream));
    PLB_TRY(b->capture_end(device.stream, &capture));
    for (int i = 0; i < 4; i++) {
        PLB_TRY(b->record(device.stream, from));
        PLB_TRY(b->replay(device.stream, capture));
        PLB_TRY(b->record(device.stream, to));
        PLB_TRY(b->wait(device.stream));
        PLB_TRY(b->elapsed_ns(from, to, &ns));
        if (ns < best) best = ns;
    }
    b->capture_free(capture);
    b->event_free(from);
    b->event_free(to);
    *out_us = (double)best / BENCH_REPEATS / 1e3;
    return PLB_OK;
}

// Positions as max_pool makes them.
static plb_status make_index(const bench_case *c, const plb_tensor *x, plb_tensor *index,
                             plb_tensor *y) {
    const plb_kernel *kernel = device.backend->kernels(PLB_OP_max_pool)[0];
    plb_tensor out[2] = {*y, *index};
    plb_launch l = {0};
    const plb_query q = {.op = PLB_OP_max_pool,
                         .attrs = c->attrs,
                         .n_in = 1,
                         .n_out = 2,
                         .in = x,
                         .out = out,
                         .threads = 1,
                         .device = device.device};
    const plb_call call = {
        .attrs = c->attrs, .n_in = 1, .n_out = 2, .in = x, .out = out, .threads = 1};
    PLB_TRY(kernel->prepare(&q, "", &l));
    plb_status status = l.run(l.state, &call, device.stream);
    l.release(l.state);
    return status;
}

static plb_status bench(const bench_case *c) {
    plb_tensor in[BENCH_MAX], out[4];
    const plb_kernel *const *kernels = device.backend->kernels(c->op);
    for (int k = 0; k < c->n_in; k++) PLB_TRY(bench_operand(&c->in[k], &in[k]));
    for (int k = 0; k < c->n_out; k++) PLB_TRY(bench_operand(&c->out[k], &out[k]));
    if (c->op == PLB_OP_max_pool_grad) PLB_TRY(make_index(c, &out[0], &in[0], &in[1]));
    const plb_query q = {.op = c->op,
                         .attrs = c->attrs,
                         .n_in = c->n_in,
                         .n_out = c->n_out,
                         .in = in,
                         .out = out,
                         .threads = 1,
                         .device = device.device};
    for (int i = 0; kernels[i]; i++) {
        plb_launch l = {0};
        void *workspace = NULL;
        double us = 0;
        if (kernels[i]->refuse(&q)) continue;
        PLB_TRY(kernels[i]->prepare(&q, "", &l));
        PLB_TRY(device.backend->alloc(device.device, l.workspace_bytes + 256, &workspace));
        const plb_call call = {.attrs = c->attrs,
                               .n_in = c->n_in,
                               .n_out = c->n_out,
                               .in = in,
                               .out = out,
                               .workspace = workspace,
                               .threads = 1};
        PLB_TRY(bench_time(&l, &call, &us));
        const plb_type *x = &c->in[0];
        const double bytes =
            c->passes * (double)plb_shape_count(&x->shape) * (double)plb_dtype_size(x->dtype);
        printf("%-28s %-10s %9.1f us %7.0f GB/s\n", c->name, kernels[i]->name, us,
               bytes / us / 1e3);
        device.backend->free(device.device, workspace);
        if (l.release) l.release(l.state);
    }
    for (int k = 0; k < c->n_in; k++) device.backend->free(device.device, in[k].data);
    for (int k = 0; k < c->n_out; k++) device.backend->free(device.device, out[k].data);
    return PLB_OK;
}

static void kernels_of_a_large_network(void) {
    if (!device.device) SKIP(missing);
    if (!getenv("PLB_TEST_BENCH")) SKIP("PLB_TEST_BENCH=1 times kernels");
    for (size_t i = 0; i < sizeof benches / sizeof *benches; i++) CHECK_OK(bench(&benches[i]));
}

int main(void) {
    static const check_test tests[] = {
        {"large cases agree with the reference", large_cases_agree_with_the_reference},
        {"updates together are those one by one", updates_together_are_those_one_by_one},
        {"a bad index fails the run", bad_index_fails_the_run},
        {"speed of the kernels of a large network", kernels_of_a_large_network},
    };
    if (test_device_open("cuda:0", &device) != PLB_OK) {
        snprintf(missing, sizeof missing, "%s", plb_error_text());
        device.device = NULL;
    }
    int failed = check_main(tests, sizeof tests / sizeof *tests);
    test_device_close(&device);
    return failed;
}
