// SPDX-License-Identifier: Apache-2.0
// Times kernels on typical shapes, for test_kernels --bench.
#ifndef PLB_TESTS_KERNEL_BENCH_H
#define PLB_TESTS_KERNEL_BENCH_H

#include "base/core/clock.h"
#include "engine/ops/fused.h"
#include "engine/ops/reorder.h"
#include "kernel_case.h"

// Operands of one benchmark, by the size of its first.
typedef struct bench_case {
    const char *name;
    plb_op_id op;
    plb_type in[PLB_SAMPLE_INPUTS];
    int n_in;
    const void *attrs;
    bool nhwc;
} bench_case;

static double least_ns(const plb_launch *launch, const plb_call *call, double bytes) {
    int64_t best = INT64_MAX;
    const int repeats = bytes > 4e6 ? 15 : 300;
    for (int i = 0; i < repeats; i++) {
        int64_t begin = plb_now_ns();
        if (launch) {
            if (launch->run(launch->state, call, NULL)) return -1;
        } else {
            memcpy(call->out[0].data, call->in[0].data, (size_t)bytes);
        }
        int64_t time = plb_now_ns() - begin;
        if (time < best) best = time;
    }
    return (double)best;
}

static void print_row(const char *name, const char *kernel, const plb_shape *shape, bool nhwc,
                      int threads, double ns, double bytes) {
    char text[160];
    printf("{\"case\":\"%s\",\"kernel\":\"%s\",\"shape\":%s,\"layout\":\"%s\",\"threads\":%d,"
           "\"ns\":%.0f,\"gb_s\":%.2f}\n",
           name, kernel, plb_shape_format(shape, text, sizeof text), nhwc ? "nhwc" : "plain",
           threads, ns, bytes / ns);
}

// Bytes are those of all operands, each counted once.
static void bench(const bench_case *b, int threads) {
    const plb_sample sample = {.name = b->name, .n_in = b->n_in, .attrs = b->attrs};
    one_case c = {.t = {.op = b->op, .table = plb_op_of(b->op), .sample = &sample, .nhwc = b->nhwc},
                  .threads = threads};
    operand in[PLB_SAMPLE_INPUTS], out[PLB_MAX_OUTPUTS];
    plb_tensor ins[PLB_SAMPLE_INPUTS], outs[PLB_MAX_OUTPUTS];
    double bytes = 0;
    memcpy(c.t.in, b->in, sizeof c.t.in);
    if (!case_infer(&c.t)) return;
    for (int k = 0; k < b->n_in; k++) {
        in[k] = operand_new(&c.t.in[k], case_layout(&c.t, false, k), false);
        memset(in[k].t.data, 0, in[k].bytes);
        if (c.t.in[k].dtype == PLB_F32) {
            float *x = in[k].t.data;
            for (size_t i = 0; i < in[k].bytes / 4; i++) x[i] = (float)random_unit() + 0.5f;
        }
        ins[k] = in[k].t, bytes += (double)in[k].bytes;
    }
    for (int k = 0; k < c.t.n_out; k++) {
        out[k] = operand_new(&c.t.out[k], case_layout(&c.t, true, k), false);
        outs[k] = out[k].t, bytes += (double)out[k].bytes;
    }
    plb_query q = {.op = c.t.op,
                   .attrs = b->attrs,
                   .n_in = b->n_in,
                   .n_out = c.t.n_out,
                   .in = ins,
                   .out = outs,
                   .threads = threads};
    const plb_kernel *kernel = plb_backend_cpu.kernels(c.t.op)[0];
    plb_launch launch = {0};
    if (!kernel->refuse(&q) && !kernel->prepare(&q, "", &launch)) {
        void *workspace = plb_alloc_slab(launch.workspace_bytes + 64);
        plb_call call = {.attrs = b->attrs,
                         .n_in = b->n_in,
                         .n_out = c.t.n_out,
                         .in = ins,
                         .out = outs,
                         .workspace = workspace,
                         .threads = threads};
        print_row(b->name, kernel->name, &c.t.in[0].shape, b->nhwc, threads,
                  least_ns(&launch, &call, bytes), bytes);
        if (launch.release) launch.release(launch.state);
        plb_free(workspace);
    }
    for (int k = 0; k < b->n_in; k++) plb_free(in[k].memory);
    for (int k = 0; k < c.t.n_out; k++) plb_free(out[k].memory);
}

static void bench_memcpy(size_t bytes) {
    plb_type type = {PLB_F32, plb_shape_of((int64_t)bytes / 8)};
    operand a = operand_new(&type, (plb_layout){0}, false);
    operand b = operand_new(&type, (plb_layout){0}, false);
    memset(a.t.data, 0, a.bytes), memset(b.t.data, 0, b.bytes);
    plb_call call = {.in = &a.t, .out = &b.t};
    double ns = least_ns(NULL, &call, (double)bytes / 2);
    print_row("memcpy", "libc", &type.shape, false, 1, ns, (double)bytes);
    plb_free(a.memory);
    plb_free(b.memory);
}

static const plb_fused_attrs scale_shift_relu_add = {
    .n_in = 4,
    .n_instr = 4,
    .n_out = 1,
    .out = {7},
    .instr = {{.op = PLB_OP_mul, .operand = {0, 1}},
              {.op = PLB_OP_add, .operand = {4, 2}},
              {.op = PLB_OP_add, .operand = {5, 3}},
              {.op = PLB_OP_relu, .operand = {6}}}};

// What orders, scans and finds elements.
static void bench_order(int64_t n, int threads) {
    static const plb_axis_attrs axis1 = {.axis = 1};
    static const plb_axis_attrs five = {.axis = 1, .k = 5, .descending = 1};
    static const plb_nms_attrs boxes = {.most = 100, .most_overlap = 0.5, .least_score = 0.6};
    static const plb_pad_attrs mirror = {PLB_PAD_REFLECT, {0, 0, 1, 1}, {0, 0, 1, 1}, 0};
    const plb_iota_attrs count = {{PLB_I64, plb_shape_of(n * 16384)}, 0};
    const bench_case cases[] = {
        {"cumsum 1000", PLB_OP_cumsum, {PLB_T(n * 16, 1000)}, 1, &axis1, false},
        {"cumsum of planes", PLB_OP_cumsum, {PLB_T(n, 64, 16, 16)}, 1, &axis1, false},
        {"sort 1000", PLB_OP_sort, {PLB_T(n * 16, 1000)}, 1, &axis1, false},
        {"sort long", PLB_OP_sort, {PLB_T(1, n * 16000)}, 1, &axis1, false},
        {"top 5 of 1000", PLB_OP_top_k, {PLB_T(n * 16, 1000)}, 1, &five, false},
        {"nonzero", PLB_OP_nonzero, {PLB_T(n, 64, 16, 16)}, 1, NULL, false},
        {"iota", PLB_OP_iota, {{.dtype = PLB_F32}}, 0, &count, false},
        {"reflect back", PLB_OP_pad_grad, {PLB_T(n, 64, 18, 18)}, 1, &mirror, false},
        {"nms", PLB_OP_nms, {PLB_T(1, n * 40, 4), PLB_T(1, 80, n * 40)}, 2, &boxes, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) bench(&cases[i], threads);
}

// Working sets of about 32 MB and 256 KB: n is the batch.
static void bench_size(int64_t n, int threads) {
    static const plb_axis_attrs axis1 = {.axis = 1};
    static const plb_reduce_attrs all = {0}, channels = {.axes = 13}, planes = {.axes = 12},
                                  second = {.axes = 2};
    static const plb_reorder_attrs nhwc = {{PLB_LAYOUT_NHWC, 0}}, plain = {{PLB_LAYOUT_PLAIN, 0}};
    static const plb_loss_attrs mean = {.ignore_index = -100};
    static const plb_sgd_attrs sgd = {.momentum = 0.9, .weight_decay = 1e-4};
    static const plb_adam_attrs adam = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    static const plb_random_attrs half = {.p = 0.5};
    static const plb_index_attrs rows = {0, 1000};
    static const plb_index_attrs last = {1, 0};
    static const plb_interpolate_attrs twice = {.mode = PLB_LINEAR, .extent = {32, 32}},
                                       half_size = {.mode = PLB_LINEAR, .extent = {16, 16}};
    static const plb_pad_attrs one = {PLB_PAD_CONSTANT, {0, 0, 1, 1}, {0, 0, 1, 1}, 0};
#define IMAGES PLB_T(n, 64, 16, 16)
#define VECTOR PLB_T(64, 1, 1)
#define SCALAR \
    { .dtype = PLB_F32 }
    const bench_case cases[] = {
        {"relu", PLB_OP_relu, {IMAGES}, 1, NULL, true},
        {"add", PLB_OP_add, {IMAGES, IMAGES}, 2, NULL, true},
        {"add channels", PLB_OP_add, {IMAGES, VECTOR}, 2, NULL, true},
        {"add channels", PLB_OP_add, {IMAGES, VECTOR}, 2, NULL, false},
        {"fused 4", PLB_OP_fused, {IMAGES, VECTOR, VECTOR, IMAGES}, 4, &scale_shift_relu_add, true},
        {"exp", PLB_OP_exp, {IMAGES}, 1, NULL, true},
        {"gelu", PLB_OP_gelu, {IMAGES}, 1, NULL, true},
        {"sigmoid", PLB_OP_sigmoid, {IMAGES}, 1, NULL, true},
        {"tanh", PLB_OP_tanh, {IMAGES}, 1, NULL, true},
        {"to nhwc", PLB_OP_reorder, {IMAGES}, 1, &nhwc, false},
        {"to plain", PLB_OP_reorder, {IMAGES}, 1, &plain, true},
        {"concat", PLB_OP_concat, {IMAGES, IMAGES}, 2, &axis1, true},
        {"pad 1", PLB_OP_pad, {IMAGES}, 1, &one, true},
        {"softmax 10", PLB_OP_softmax, {PLB_T(n * 1600, 10)}, 1, &axis1, false},
        {"softmax 1000", PLB_OP_softmax, {PLB_T(n * 16, 1000)}, 1, &axis1, false},
        {"cross entropy 1000",
         PLB_OP_cross_entropy,
         {PLB_T(n * 16, 1000), PLB_TI(n * 16)},
         2,
         &mean,
         false},
        {"cross entropy grad 10",
         PLB_OP_cross_entropy_grad,
         {SCALAR, PLB_T(n * 1600, 10), PLB_TI(n * 1600)},
         3,
         &mean,
         false},
        {"sum all", PLB_OP_reduce_sum, {IMAGES}, 1, &all, true},
        {"sum to channels", PLB_OP_reduce_sum, {IMAGES}, 1, &channels, true},
        {"sum to channels", PLB_OP_reduce_sum, {IMAGES}, 1, &channels, false},
        {"mean of planes", PLB_OP_reduce_mean, {IMAGES}, 1, &planes, true},
        {"variance of channels", PLB_OP_reduce_var, {IMAGES}, 1, &channels, true},
        {"logsumexp 1000", PLB_OP_reduce_logsumexp, {PLB_T(n * 16, 1000)}, 1, &second, false},
        {"linear, twice", PLB_OP_interpolate, {IMAGES}, 1, &twice, true},
        {"linear, twice", PLB_OP_interpolate, {IMAGES}, 1, &twice, false},
        {"linear back", PLB_OP_interpolate_grad, {PLB_T(n, 64, 32, 32)}, 1, &half_size, true},
        {"gather", PLB_OP_gather, {PLB_T(n * 128, 64), PLB_TI(n * 128, 64)}, 2, &last, false},
        {"arg max 10", PLB_OP_arg_max, {PLB_T(n * 1600, 10)}, 1, &axis1, false},
        {"sgd", PLB_OP_sgd, {IMAGES, IMAGES, IMAGES, SCALAR}, 4, &sgd, false},
        {"adam", PLB_OP_adam, {IMAGES, IMAGES, IMAGES, IMAGES, SCALAR, SCALAR}, 6, &adam, false},
        {"dropout", PLB_OP_dropout, {IMAGES, PLB_TYPE_OF(PLB_U64, 2)}, 2, &half, false},
        {"embedding", PLB_OP_take, {PLB_T(1000, 128), PLB_TI(n * 128)}, 2, &rows, false},
    };
    bench_memcpy((size_t)n * 64 * 16 * 16 * 8);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) bench(&cases[i], threads);
    bench_order(n, threads);
}

#endif
