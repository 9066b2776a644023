// SPDX-License-Identifier: Apache-2.0
// Own CUDA kernels where op samples do not reach: whole vectors of channels, sums split over many
// blocks, long lines, the fused norms as the planner asks for them; each against the CPU's f64.
// Data that fails a run. Needs a device.
#include "device_case.h"
#include "engine/graph/graph.h"
#include "engine/graph/slots.h"
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

// An infinity less itself is no number, whoever computes it.
static void softmax_infinite(plb_graph *g, plb_dtype dtype) {
    double far[33] = {[7] = INFINITY};
    const plb_shape line = plb_shape_of(33);
    const plb_value added = plb_cast(g, plb_constant(g, PLB_F64, &line, far), dtype);
    const plb_value x = plb_add(g, input(g, "x", dtype, plb_shape_of(5, 33)), added);
    plb_output(g, "y", plb_softmax(g, x, 1));
    plb_output(g, "logarithms", plb_log_softmax(g, x, 1));
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

static void attention(plb_graph *g, plb_dtype dtype) {
    const plb_attention_attrs attrs = {.scale = 0.125};
    plb_value q = input(g, "x", dtype, plb_shape_of(2, 3, 70, 64));
    plb_value k = input(g, "w", dtype, plb_shape_of(2, 3, 133, 64));
    plb_value v = input(g, "r", dtype, plb_shape_of(2, 3, 133, 40));
    plb_value mask = input(g, "beta", dtype, plb_shape_of(2, 1, 1, 133));
    finish(g, plb_attention(g, q, k, v, mask, &attrs), (plb_value[]){q, k, v}, 3);
}
// Keys and queries as projections leave them, heads behind positions.
static void attention_of_views(plb_graph *g, plb_dtype dtype) {
    const plb_attention_attrs attrs = {.scale = 0.25};
    plb_value q = plb_transpose(g, input(g, "x", dtype, plb_shape_of(1, 9, 4, 256)), 1, 2);
    plb_value k = plb_transpose(g, input(g, "w", dtype, plb_shape_of(1, 40, 4, 256)), 1, 2);
    plb_value v = plb_transpose(g, input(g, "r", dtype, plb_shape_of(1, 40, 4, 256)), 1, 2);
    plb_output(g, "y", plb_attention(g, q, k, v, PLB_NONE, &attrs));
}
static void recurrent(plb_graph *g, plb_dtype dtype, plb_recurrent_kind kind, int64_t batch,
                      int64_t hidden) {
    const plb_recurrent_attrs attrs = {.kind = kind, .reverse = kind == PLB_GRU};
    const int64_t rows = plb_recurrent_gates(kind) * hidden;
    plb_value x = input(g, "x", dtype, plb_shape_of(5, batch, rows)), c = PLB_NONE;
    plb_value r = plb_affine(g, input(g, "w", dtype, plb_shape_of(rows, hidden)), 0.0625, 0);
    plb_value h = input(g, "r", dtype, plb_shape_of(batch, hidden));
    plb_value bias = input(g, "beta", dtype, plb_shape_of(rows));
    if (kind == PLB_LSTM) c = input(g, "gamma", dtype, plb_shape_of(batch, hidden));
    plb_value y = plb_recurrent(g, x, r, h, c, bias, &attrs);
    for (int i = 0; i < (kind == PLB_LSTM ? 3 : 2); i++) {
        plb_output(g, (const char *[]){"y", "last", "cell"}[i], y + i);
    }
}
static void lstm(plb_graph *g, plb_dtype dtype) {
    recurrent(g, dtype, PLB_LSTM, 6, 100);
}
static void gru(plb_graph *g, plb_dtype dtype) {
    recurrent(g, dtype, PLB_GRU, 5, 65);
}
static void gru_wide(plb_graph *g, plb_dtype dtype) {
    recurrent(g, dtype, PLB_GRU_RESET_AFTER, 1, 600);
}
// One kernel at two sizes, both above the shared memory that a function has unasked: the layer that
// is made ready last needs less of it.
static void lstms_of_two_sizes(plb_graph *g, plb_dtype dtype) {
    const int64_t hidden[] = {900, 600};
    const plb_recurrent_attrs attrs = {.kind = PLB_LSTM};
    for (int i = 0; i < 2; i++) {
        const plb_shape rows = plb_shape_of(2, 3, 4 * hidden[i]);
        const plb_shape weights = plb_shape_of(4 * hidden[i], hidden[i]);
        const plb_shape state = plb_shape_of(3, hidden[i]);
        plb_value x = input(g, i ? "x" : "weight", dtype, rows);
        plb_value r = plb_affine(g, input(g, i ? "w" : "index", dtype, weights), 0.0625, 0);
        plb_value h = input(g, i ? "r" : "gamma", dtype, state);
        plb_value y = plb_recurrent(g, x, r, h, h, PLB_NONE, &attrs);
        plb_output(g, i ? "small" : "large", y);
    }
}
static void padded_edges(plb_graph *g, plb_dtype dtype) {
    const plb_pad_attrs mirror = {PLB_PAD_REFLECT, {0, 0, 5, 7}, {0, 0, 6, 3}, 0};
    plb_value x = input(g, "x", dtype, plb_shape_of(2, 16, 19, 23));
    finish(g, plb_pad(g, x, &mirror), &x, 1);
}
static void scattered(plb_graph *g, plb_dtype dtype) {
    plb_value x = input(g, "x", dtype, plb_shape_of(1000, 7));
    plb_value t = input(g, "target", PLB_I64, plb_shape_of(900, 7));
    plb_value source = input(g, "w", dtype, plb_shape_of(900, 7));
    plb_output(g, "largest", plb_scatter_reduce(g, x, t, source, 0, PLB_SCATTER_MAX));
    plb_output(g, "smallest", plb_scatter_reduce(g, x, t, source, 0, PLB_SCATTER_MIN));
}
static void boxes(plb_graph *g, plb_dtype dtype) {
    const plb_nms_attrs attrs = {.most = 50, .most_overlap = 0.4, .least_score = -0.5};
    plb_value corners = input(g, "x", dtype, plb_shape_of(2, 700, 4));
    plb_value scores = input(g, "w", dtype, plb_shape_of(2, 90, 700));
    plb_value rows = plb_nms(g, corners, scores, &attrs);
    plb_output(g, "rows", rows);
    plb_output(g, "count", rows + 1);
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
// Filters that begin between 16 bytes, in a dense view.
static void conv_of_view(plb_graph *g, plb_dtype dtype) {
    const plb_shape filters = plb_shape_of(32, 64, 1, 1);
    const plb_value x = input(g, "x", dtype, plb_shape_of(2, 64, 5, 5));
    const plb_value flat = plb_relu(g, input(g, "w", dtype, plb_shape_of(2 + 32 * 64)));
    const plb_value w = plb_reshape(g, plb_slice_axis(g, flat, 0, 1, 1 + 32 * 64), &filters);
    const plb_conv_attrs attrs = {0};
    plb_output(g, "y", plb_conv(g, x, w, PLB_NONE, &attrs));
}
static void conv_small_padded(plb_graph *g, plb_dtype dtype) {
    conv(g, dtype, plb_shape_of(17, 7, 9, 11), plb_shape_of(5, 7, 3, 3), 1);
}

static const own_case cases[] = {
    {"convolution of digits", conv_digits, 64, true},
    {"inner convolution of digits", conv_digits_inner, 64, true},
    {"convolution of small images, padded", conv_small_padded, 64, true},
    {"convolution of a view between 16 bytes", conv_of_view, 64, false},
    {"attention", attention, 64, false},
    {"attention of views", attention_of_views, 64, false},
    {"lstm", lstm, 64, false},
    {"gru", gru, 64, false},
    {"gru, reset after", gru_wide, 64, false},
    {"lstms of two sizes", lstms_of_two_sizes, 64, false},
    {"padding that repeats", padded_edges, 64, false},
    {"scattered", scattered, 1, false},
    {"boxes", boxes, 1, true},
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
    {"softmax of an infinity", softmax_infinite, 64, false},
    {"reductions", reductions, 64, false},
    {"cross entropy", cross_entropy, 32, false},
    {"embedding", embedding, 32, true}, // the definition rounds each addition
    {"lines", lines, 64, false},
    {"resampling", resampling, 256, false}, // coordinates are f32, those of the truth f64
};

static plb_status run_plan(const plb_graph *g, const plb_plan_options *options, plb_plan **out) {
    static const char *const names[] = {"x", "weight", "gamma", "beta",
                                        "r", "target", "w",     "index"};
    PLB_TRY(plb_plan_new(g, options, out));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        plb_tensor t;
        if (plb_plan_input(*out, names[i], &t) == PLB_OK) device_fill(&t, i + 1);
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

static void build_updates(plb_model *model, const char *optimizer, double scale, plb_graph **out) {
    plb_value loss = PLB_NONE;
    plb_step_options step;
    CHECK_OK(plb_step_options_for(optimizer, &step));
    step.sgd.momentum = 0.9, step.sgd.weight_decay = step.adam.weight_decay = 0.1;
    step.loss_scale = scale;
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

static void run_updates(const char *optimizer, double scale, const char *device_name,
                        plb_model *model) {
    plb_graph *g = NULL;
    plb_plan *plan = NULL;
    const plb_plan_options options = {.device = device_name, .threads = 1, .no_tuning = true};
    build_updates(model, optimizer, scale, &g);
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
    for (int i = 0; i < 6; i++) {
        const int o = i / 2;
        const double scale = i % 2 ? 1024 : 0;
        plb_model *here = plb_model_new(), *there = plb_model_new();
        run_updates(optimizers[o], scale, NULL, here);
        run_updates(optimizers[o], scale, "cuda", there);
        for (int v = 0; v < plb_model_variable_count(here); v++) {
            const plb_variable_info info = plb_model_variable_info(here, v);
            const float *x = plb_variable_data(here, v), *y = plb_variable_data(there, v);
            double most = 0;
            for (int64_t k = 0; k < plb_shape_count(&info.type.shape); k++) {
                most = fmax(most, fabs((double)x[k] - (double)y[k]) / (1 + fabs((double)x[k])));
            }
            CHECK_SAY(most < 1e-5, "%s: %s differs by %.2g", optimizers[o], info.name, most);
        }
        plb_model_free(here);
        plb_model_free(there);
    }
}

// ---------------------------------------------------------------------------- runs in flight
enum { SLOTS = 3, RUNS = 20 };

// Inputs that were sent once, for runs that follow each other with no word from the host.
static void run_slots(plb_level level) {
    static const char *const results[] = {"sum"};
    plb_model *model = plb_model_new();
    plb_graph *g = NULL;
    plb_plan *plan = NULL;
    plb_slots *slots = NULL;
    plb_tensor t;
    double sum = 0;
    CHECK_OK(plb_model_program(model, "test", &g));
    plb_value x = input(g, "x", PLB_F32, plb_shape_of(1000));
    plb_value y = input(g, "y", PLB_F32, plb_shape_of(1));
    plb_output(g, "sum", plb_sum(g, plb_add(g, x, y), 0, false));
    CHECK_OK(plb_plan_new(g, &(plb_plan_options){.device = "cuda", .level = level}, &plan));
    CHECK_OK(plb_plan_settle(plan));
    CHECK_OK(plb_slots_new(plan, SLOTS, results, 1, &slots));
    for (int i = 0; i < SLOTS; i++) {
        CHECK_OK(plb_slots_input(slots, i, "x", &t));
        for (int k = 0; k < 1000; k++) ((float *)t.data)[k] = (float)(i + k % 2);
        CHECK_OK(plb_slots_input(slots, i, "y", &t));
        *(float *)t.data = (float)(10 * i);
        CHECK_OK(plb_slots_send(slots, i));
    }
    CHECK_OK(plb_slots_arrived(slots));
    for (int run = 0; run < RUNS; run++) CHECK_OK(plb_slots_run(slots, run % SLOTS));
    for (int i = 0; i < SLOTS; i++) {
        CHECK_OK(plb_slots_wait(slots, i, &sum));
        CHECK_SAY(sum == 11000 * i + 500, "slot %d: %g", i, sum);
    }
    plb_slots_free(slots);
    plb_plan_free(plan);
    plb_model_free(model);
}

static void slots_serve_several_runs(void) {
    if (!device.device) SKIP(missing);
    run_slots(PLB_LEVEL_PLAN);
    run_slots(PLB_LEVEL_REPLAY);
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
    plb_scope_push(g, "words");
    plb_output(g, "y", plb_embedding(g, w, index));
    plb_scope_pop(g);
    CHECK_OK(run_plan(g, &cuda, &plan));
    CHECK_OK(plb_plan_input(plan, "index", &t));
    ((int64_t *)t.data)[5] = 1000;
    CHECK_FAILS(PLB_EINVAL, "take: element 5: expected 0 to 999, found 1000", plb_plan_run(plan));
    ((int64_t *)t.data)[5] = -1;
    CHECK_FAILS(PLB_EINVAL, "found -1", plb_plan_run(plan));
    ((int64_t *)t.data)[5] = 999;
    CHECK_OK(plb_plan_run(plan));
    plb_plan_free(plan);
    CHECK_OK(run_plan(g, &(plb_plan_options){.device = "cuda", .sync = true}, &plan));
    CHECK_OK(plb_plan_input(plan, "index", &t));
    ((int64_t *)t.data)[0] = 2000;
    CHECK_FAILS(PLB_EINVAL, "words: take", plb_plan_run(plan)); // the node's name
    plb_plan_free(plan);
    plb_model_free(model);
}

// 2 TB for one value: the plan says what it wants and what there is, before it times anything.
static void no_room_is_an_outcome(void) {
    if (!device.device) SKIP(missing);
    plb_model *model = plb_model_new();
    plb_graph *g = NULL;
    plb_plan *plan = NULL;
    CHECK_OK(plb_model_program(model, "test", &g));
    plb_value x = input(g, "x", PLB_F32, plb_shape_of(1, 1 << 20));
    plb_value y = input(g, "y", PLB_F32, plb_shape_of(1 << 19, 1));
    plb_value large = plb_matmul(g, y, x, &(plb_matmul_attrs){0});
    plb_output(g, "sum", plb_sum(g, plb_softmax(g, large, 1), 0, false));
    CHECK_OK(plb_graph_status(g));
    CHECK_FAILS(PLB_ENOMEM, "bytes planned",
                plb_plan_new(g, &(plb_plan_options){.device = "cuda"}, &plan));
    CHECK_FAILS(PLB_ENOMEM, "are free",
                plb_plan_new(g, &(plb_plan_options){.device = "cuda"}, &plan));
    plb_model_free(model);
}

int main(void) {
    static const check_test tests[] = {
        {"large cases agree with the reference", large_cases_agree_with_the_reference},
        {"updates together are those one by one", updates_together_are_those_one_by_one},
        {"slots serve several runs", slots_serve_several_runs},
        {"a bad index fails the run", bad_index_fails_the_run},
        {"no room is an outcome", no_room_is_an_outcome},
    };
    if (test_device_open("cuda:0", &device) != PLB_OK) {
        snprintf(missing, sizeof missing, "%s", plb_error_text());
        device.device = NULL;
    }
    int failed = check_main(tests, sizeof tests / sizeof *tests);
    test_device_close(&device);
    return failed;
}
