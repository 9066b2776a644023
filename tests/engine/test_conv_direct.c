// SPDX-License-Identifier: Apache-2.0
// Direct convolutions and their gradients against plain loops in f64, for shapes of small networks
// and odd ones. Operands end at guards, memory that is written starts as NaN. With --bench the
// shapes are timed instead, by each kernel that takes them, one line of JSON each.
#include <omp.h>
#include <stdint.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "check.h"
#include "engine/device/cpu/cpu.h"
#include "engine/ops/conv_shape.h"
#include "plumb/plumb.h"

enum { GUARD = 64 };
static const unsigned char guard_byte = 0xff; // in floats: NaN

typedef struct geometry {
    const char *name;
    int64_t n, c, k, in[2], kernel[2];
    int64_t stride[2], pad[2], pad_end[2], dilation[2];
} geometry;

static const geometry shapes[] = {
    {"mnist_cnn conv1", 64, 1, 10, {28, 28}, {5, 5}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    {"mnist_cnn conv2", 64, 10, 20, {12, 12}, {5, 5}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    {"lenet5 conv1", 64, 1, 6, {28, 28}, {5, 5}, {1, 1}, {2, 2}, {2, 2}, {1, 1}},
    {"lenet5 conv2", 64, 6, 16, {14, 14}, {5, 5}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    {"3 to 32, 3x3 stride 2", 16, 3, 32, {32, 32}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {"3 to 64, 7x7 stride 2", 8, 3, 64, {32, 32}, {7, 7}, {2, 2}, {3, 3}, {3, 3}, {1, 1}},
    {"16 to 16, 3x3", 32, 16, 16, {16, 16}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"32 to 32, 3x3", 32, 32, 32, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    // From here on for correctness alone.
    {"one of everything", 8, 1, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    {"1x1", 17, 7, 13, {3, 5}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    {"1x1 that skips", 9, 3, 25, {7, 8}, {1, 1}, {2, 3}, {0, 0}, {0, 0}, {1, 1}},
    {"odd strides and padding", 19, 5, 11, {9, 13}, {3, 4}, {2, 3}, {1, 2}, {2, 1}, {1, 1}},
    {"dilated", 33, 4, 9, {11, 12}, {3, 3}, {1, 1}, {2, 3}, {2, 1}, {2, 3}},
    {"dilated and strided", 12, 2, 6, {15, 14}, {3, 2}, {3, 2}, {2, 1}, {4, 0}, {3, 2}},
    {"kernel larger than x", 10, 2, 12, {3, 2}, {5, 4}, {1, 1}, {2, 2}, {2, 2}, {1, 1}},
    {"padding larger than the kernel", 8, 3, 4, {4, 3}, {2, 2}, {1, 1}, {3, 4}, {4, 3}, {1, 1}},
    {"24 channels", 20, 24, 24, {6, 7}, {2, 3}, {1, 1}, {1, 1}, {0, 1}, {1, 1}},
    {"a wide row", 16, 1, 3, {2, 301}, {1, 9}, {1, 1}, {0, 4}, {0, 4}, {1, 1}},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, N_TIMED = 8 };

static uint64_t random_state = 1;

// Near enough to normal: the sum of four uniform numbers, of variance 1.
static float random_value(void) {
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(random_state >> 33) / 2147483648.0 - 0.5;
    }
    return (float)(sum * 1.7320508075688772);
}

// ---------------------------------------------------------------------------- a problem
// x[N,H,W,C], w[K,C,taps] and y[N,OH,OW,K], of which an op reads two and writes one.
enum { X, W, Y, BIAS, RESIDUAL, N_BUFFERS };

typedef struct problem {
    plb_op_id op;
    plb_conv_attrs attrs;
    plb_conv_shape s;
    plb_shape shape[N_BUFFERS];
    float *data[N_BUFFERS]; // with a guard behind
    int result;
    double *expected, rms; // without the epilogue
} problem;

static size_t bytes_of(const problem *p, int buffer) {
    return (size_t)plb_shape_count(&p->shape[buffer]) * sizeof(float);
}

static void *guarded(size_t bytes) {
    unsigned char *memory = plb_alloc_slab(bytes + GUARD);
    if (!memory) exit(1);
    memset(memory, guard_byte, bytes + GUARD);
    return memory;
}

static bool guard_holds(const void *memory, size_t bytes) {
    for (size_t i = 0; i < GUARD; i++) {
        if (((const unsigned char *)memory)[bytes + i] != guard_byte) return false;
    }
    return true;
}

// All three ops go through the products of (output pixel, tap, input pixel).
static void reference(problem *p) {
    const plb_conv_shape *s = &p->s;
    int64_t out[3] = {0}, tap[3], in[3];
    const int64_t taps = s->kernel[1] * s->kernel[2];
    do {
        memset(tap, 0, sizeof tap);
        do {
            if (!plb_conv_in_at(s, out, tap, in)) continue;
            const int64_t t = tap[1] * s->kernel[2] + tap[2];
            for (int64_t n = 0; n < s->n; n++) {
                const int64_t x = ((n * s->in[1] + in[1]) * s->in[2] + in[2]) * s->c;
                const int64_t y = ((n * s->out[1] + out[1]) * s->out[2] + out[2]) * s->k;
                for (int64_t k = 0; k < s->k; k++) {
                    for (int64_t c = 0; c < s->c; c++) {
                        const int64_t at[3] = {x + c, (k * s->c + c) * taps + t, y + k};
                        double product = 1;
                        for (int b = X; b <= Y; b++) {
                            if (b != p->result) product *= (double)p->data[b][at[b]];
                        }
                        p->expected[at[p->result]] += product;
                    }
                }
            }
        } while (plb_index_next(tap, s->kernel, 3));
    } while (plb_index_next(out, s->out, 3));
    double square = 0;
    const int64_t count = plb_shape_count(&p->shape[p->result]);
    for (int64_t i = 0; i < count; i++) square += p->expected[i] * p->expected[i];
    p->rms = sqrt(square / (double)count);
}

// False where the op has no such case (an empty result).
static bool problem_new(plb_op_id op, const geometry *g, bool with_reference, problem *p) {
    *p = (problem){.op = op,
                   .result = op == PLB_OP_conv              ? Y
                             : op == PLB_OP_conv_input_grad ? X
                                                            : W};
    for (int i = 0; i < 2; i++) {
        p->attrs.stride[i] = g->stride[i], p->attrs.dilation[i] = g->dilation[i];
        p->attrs.pad_begin[i] = g->pad[i], p->attrs.pad_end[i] = g->pad_end[i];
        if (op == PLB_OP_conv_input_grad) p->attrs.extent[i] = g->in[i];
        if (op == PLB_OP_conv_weight_grad) p->attrs.extent[i] = g->kernel[i];
    }
    p->attrs.groups = 1;
    plb_conv_attrs forward = p->attrs;
    memset(forward.extent, 0, sizeof forward.extent);
    const plb_shape x = plb_shape_of(g->n, g->c, g->in[0], g->in[1]);
    const plb_shape w = plb_shape_of(g->k, g->c, g->kernel[0], g->kernel[1]);
    if (plb_conv_shape_of(PLB_OP_conv, &x, &w, &forward, &p->s) != PLB_OK) return false;
    p->shape[X] = x, p->shape[W] = w, p->shape[Y] = p->shape[RESIDUAL] = plb_conv_y_shape(&p->s);
    p->shape[BIAS] = plb_shape_of(g->k);
    for (int b = 0; b < N_BUFFERS; b++) {
        p->data[b] = guarded(bytes_of(p, b));
        const int64_t count = b == p->result ? 0 : plb_shape_count(&p->shape[b]);
        for (int64_t i = 0; i < count; i++) p->data[b][i] = random_value();
    }
    if (!with_reference) return true;
    p->expected = plb_alloc_array((size_t)plb_shape_count(&p->shape[p->result]), sizeof(double));
    if (!p->expected) exit(1);
    reference(p);
    return true;
}

static void problem_free(problem *p) {
    for (int b = 0; b < N_BUFFERS; b++) plb_free(p->data[b]);
    plb_free(p->expected);
}

// ---------------------------------------------------------------------------- running a kernel
typedef struct prepared {
    plb_tensor in[4], out;
    plb_query q;
    plb_call call;
    plb_launch launch;
    void *workspace, *packed;
} prepared;

static plb_tensor tensor_of(const problem *p, int buffer) {
    const bool spatial = buffer == X || buffer == Y || buffer == RESIDUAL;
    const plb_layout layout = {spatial ? PLB_LAYOUT_NHWC : PLB_LAYOUT_PLAIN, 0};
    return plb_tensor_dense(p->data[buffer], PLB_F32, &p->shape[buffer], layout);
}

// False when the kernel refuses, or when the op has fewer inputs.
static bool prepared_new(const problem *p, const plb_kernel *kernel, const char *choice, int n_in,
                         int threads, prepared *r) {
    *r = (prepared){.out = tensor_of(p, p->result)};
    int k = 0;
    for (int b = X; b <= Y; b++) {
        if (b != p->result) r->in[k++] = tensor_of(p, b);
    }
    if (p->op == PLB_OP_conv_input_grad) { // dy comes first
        const plb_tensor w = r->in[0];
        r->in[0] = r->in[1], r->in[1] = w;
    }
    r->in[2] = tensor_of(p, BIAS), r->in[3] = tensor_of(p, RESIDUAL);
    r->q = (plb_query){.op = p->op,
                       .attrs = &p->attrs,
                       .n_in = n_in,
                       .n_out = 1,
                       .in = r->in,
                       .out = &r->out,
                       .threads = threads};
    if (kernel->refuse(&r->q)) return false;
    if (kernel->prepare(&r->q, choice, &r->launch) != PLB_OK) return false;
    r->workspace = guarded(r->launch.workspace_bytes);
    r->packed = guarded(r->launch.packed_bytes);
    r->call = (plb_call){.attrs = &p->attrs,
                         .n_in = n_in,
                         .n_out = 1,
                         .in = r->in,
                         .out = &r->out,
                         .workspace = r->workspace,
                         .packed = r->packed,
                         .threads = threads};
    if (r->launch.pack) CHECK_OK(r->launch.pack(r->launch.state, &r->call, r->packed, NULL));
    return true;
}

static void prepared_free(prepared *r) {
    if (r->launch.release) r->launch.release(r->launch.state);
    plb_free(r->workspace);
    plb_free(r->packed);
}

static const plb_kernel *direct_of(plb_op_id op) {
    const plb_kernel *const *kernels = plb_backend_cpu.kernels(op);
    while (*kernels && strcmp((*kernels)->name, "direct") != 0) kernels++;
    return *kernels;
}

// Largest error over the RMS of the convolution; NaN if any element is NaN.
static double error_of(const problem *p, int n_in) {
    const plb_epilogue *e = &p->attrs.epilogue;
    const int64_t count = plb_shape_count(&p->shape[p->result]);
    double worst = 0;
    for (int64_t i = 0; i < count; i++) {
        double want = p->expected[i];
        if (n_in > 2) want += (double)p->data[BIAS][i % p->s.k];
        if (n_in > 3) want += (double)p->data[RESIDUAL][i];
        const double d = fabs(plb_activate(e, want) - (double)p->data[p->result][i]);
        if (!(d <= worst)) worst = d;
    }
    return p->rms > 0 ? worst / p->rms : worst;
}

// Runs it twice: right, within its bounds, and the same bits again.
static void check_once(problem *p, const char *name, int n_in, int threads) {
    prepared r;
    const size_t bytes = bytes_of(p, p->result);
    const char *op = plb_op_of(p->op)->name;
    const bool taken = prepared_new(p, direct_of(p->op), "", n_in, threads, &r);
    CHECK_SAY(taken, "%s, %s: refused", op, name);
    if (!taken) return;
    void *before = guarded(bytes);
    const uint64_t allocations = plb_alloc_count();
    CHECK_OK(r.launch.run(r.launch.state, &r.call, NULL));
    CHECK(plb_alloc_count() == allocations);
    memcpy(before, p->data[p->result], bytes);
    const double error = error_of(p, n_in);
    CHECK_SAY(error <= 2e-5, "%s, %s, %d inputs, %d threads: error %.2e of RMS", op, name, n_in,
              threads, error);
    if (getenv("PLB_TEST_VERBOSE")) fprintf(stderr, "%s, %s: %.2e\n", op, name, error);
    memset(p->data[p->result], guard_byte, bytes);
    CHECK_OK(r.launch.run(r.launch.state, &r.call, NULL));
    CHECK_SAY(memcmp(before, p->data[p->result], bytes) == 0, "%s, %s: other bits", op, name);
    bool held = guard_holds(r.workspace, r.launch.workspace_bytes) &&
                guard_holds(r.packed, r.launch.packed_bytes);
    for (int b = 0; b < N_BUFFERS; b++) held &= guard_holds(p->data[b], bytes_of(p, b));
    CHECK_SAY(held, "%s, %s, %d threads: wrote past an end", op, name, threads);
    plb_free(before);
    prepared_free(&r);
}

static void check_op(plb_op_id op) {
    if (plb_cpu_isa() == PLB_ISA_PORTABLE) SKIP("no AVX2");
    for (int i = 0; i < N_SHAPES; i++) {
        problem p;
        if (!problem_new(op, &shapes[i], true, &p)) continue;
        for (int threads = 1; threads <= 3; threads++) check_once(&p, shapes[i].name, 2, threads);
        problem_free(&p);
    }
}

static void forward(void) {
    check_op(PLB_OP_conv);
}

static void input_gradient(void) {
    check_op(PLB_OP_conv_input_grad);
}

static void weight_gradient(void) {
    check_op(PLB_OP_conv_weight_grad);
}

static void epilogues(void) {
    static const plb_epilogue ends[] = {
        {PLB_ACT_NONE, 0, 0}, {PLB_ACT_RELU, 0, 0}, {PLB_ACT_CLAMP, -0.5, 0.75}};
    if (plb_cpu_isa() == PLB_ISA_PORTABLE) SKIP("no AVX2");
    for (int i = 0; i < N_SHAPES; i++) {
        problem p;
        if (i < N_TIMED || !problem_new(PLB_OP_conv, &shapes[i], true, &p)) continue;
        for (int e = 0; e < 3; e++) {
            p.attrs.epilogue = ends[e];
            for (int n_in = 2; n_in <= 4; n_in++) check_once(&p, shapes[i].name, n_in, 2);
        }
        problem_free(&p);
    }
}

// ---------------------------------------------------------------------------- timing
static double least_ms(prepared *r) {
    int64_t best = INT64_MAX, begin = plb_now_ns();
    for (int i = 0; i < 2000 && (i < 20 || plb_now_ns() - begin < 400000000); i++) {
        const int64_t start = plb_now_ns();
        if (r->launch.pack) CHECK_OK(r->launch.pack(r->launch.state, &r->call, r->packed, NULL));
        CHECK_OK(r->launch.run(r->launch.state, &r->call, NULL));
        const int64_t time = plb_now_ns() - start;
        if (time < best) best = time;
    }
    return (double)best / 1e6;
}

static void bench(plb_op_id op, const geometry *g, int threads) {
    problem p;
    if (!problem_new(op, g, false, &p)) return;
    const plb_kernel *const *kernels = plb_backend_cpu.kernels(op);
    for (; *kernels && (*kernels)->op != PLB_OP_COUNT; kernels++) {
        prepared r;
        if (!prepared_new(&p, *kernels, "", 2, threads, &r)) continue;
        const double ms = least_ms(&r);
        printf("{\"op\":\"%s\",\"shape\":\"%s\",\"batch\":%d,\"threads\":%d,\"kernel\":\"%s\","
               "\"ms\":%.4f,\"gflops\":%.1f}\n",
               plb_op_of(op)->name, g->name, (int)g->n, threads, (*kernels)->name, ms,
               plb_conv_flops(&p.s) / ms / 1e6);
        prepared_free(&r);
    }
    problem_free(&p);
}

static const check_test tests[] = {
    {"forward", forward},
    {"input gradient", input_gradient},
    {"weight gradient", weight_gradient},
    {"epilogues", epilogues},
};

int main(int argc, char **argv) {
    if (argc < 2 || strcmp(argv[1], "--bench") != 0) {
        return check_main(tests, sizeof tests / sizeof *tests);
    }
    const int threads = argc > 2 ? atoi(argv[2]) : 1;
    omp_set_num_threads(threads); // oneDNN takes what there are
    for (int i = 0; i < N_TIMED; i++) {
        bench(PLB_OP_conv, &shapes[i], threads);
        bench(PLB_OP_conv_input_grad, &shapes[i], threads);
        bench(PLB_OP_conv_weight_grad, &shapes[i], threads);
    }
    return 0;
}
