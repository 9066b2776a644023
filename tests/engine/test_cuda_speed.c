// SPDX-License-Identifier: Apache-2.0
// With PLB_TEST_BENCH=1: times the CUDA kernels of a large network's shapes and prints what share
// of the memory's bandwidth they reach. Needs a device.
#include "device_case.h"

static test_device device;
static char missing[256]; // why there is none

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
    if (!host) return PLB_ENOMEM;
    PLB_TRY(device.backend->alloc(device.device, bytes, &memory));
    *out = plb_tensor_dense(memory, type->dtype, &type->shape, layout);
    plb_tensor some = plb_tensor_dense(host, type->dtype,
                                       &plb_shape_of((int64_t)(part / plb_dtype_size(type->dtype))),
                                       (plb_layout){0});
    device_fill(&some, 1);
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
