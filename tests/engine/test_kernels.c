// SPDX-License-Identifier: Apache-2.0
// Every kernel of the CPU against the reference of its op in f64: all samples of the op and the
// same with larger extents, float dtypes, layouts, one and two threads, results in fresh memory
// and in an operand's. A kernel that never accepts a sample fails. With --bench it times typical
// shapes instead, one line of JSON a case.
#include <omp.h>

#include "kernel_bench.h"
#include "kernel_case.h"

// ---------------------------------------------------------------------------- the reference
static plb_dtype exact(plb_dtype dtype) {
    return plb_dtype_is_float(dtype) ? PLB_F64 : dtype;
}

// Runs the op's reference on the same values in f64, everything plain.
static plb_status reference(const one_case *c, const operand *in, operand *out) {
    plb_tensor ins[PLB_SAMPLE_INPUTS], outs[PLB_MAX_OUTPUTS];
    operand copy[PLB_SAMPLE_INPUTS] = {0};
    plb_type types[PLB_SAMPLE_INPUTS], out_types[PLB_MAX_OUTPUTS];
    const plb_sample *s = c->t.sample;
    for (int k = 0; k < s->n_in; k++) {
        types[k] = c->t.in[k];
        ins[k] = (plb_tensor){.dtype = PLB_DTYPE_COUNT};
        if (s->absent >> k & 1) continue;
        types[k].dtype = exact(c->t.in[k].dtype);
        copy[k] = operand_new(&types[k], (plb_layout){0}, false);
        ins[k] = copy[k].t;
        CHECK_OK(plb_tensor_copy(&ins[k], &in[k].t));
    }
    plb_signature sig = {
        .attrs = s->attrs, .n_in = s->n_in, .n_out = 1, .in = types, .out = out_types};
    plb_status status = c->t.table->infer(&sig);
    for (int k = 0; k < c->t.n_out; k++) {
        out[k] = operand_new(&out_types[k], (plb_layout){0}, false);
        outs[k] = out[k].t;
    }
    plb_call call = {.attrs = s->attrs,
                     .n_in = s->n_in,
                     .n_out = c->t.n_out,
                     .in = ins,
                     .out = outs,
                     .threads = 1};
    if (!status) status = c->t.table->ref(&call);
    for (int k = 0; k < s->n_in; k++) plb_free(copy[k].memory);
    return status;
}

// ---------------------------------------------------------------------------- comparing
// Whether elements lie in row-major order, one behind the other: most do, and need no index.
static bool is_plain(const plb_tensor *t) {
    return t->layout.kind == PLB_LAYOUT_PLAIN && plb_tensor_is_dense(t);
}

static double value(const plb_tensor *t, bool plain, int64_t i) {
    return plb_load_f64(t->data, t->dtype, plain ? i : plb_tensor_offset_linear(t, i));
}

static double largest(const plb_tensor *t) {
    double max = 0;
    const bool plain = is_plain(t);
    const int64_t count = plb_shape_count(&t->shape);
    for (int64_t i = 0; i < count; i++) {
        double x = fabs(value(t, plain, i));
        if (x > max && isfinite(x)) max = x;
    }
    return max;
}

static void say(const one_case *c, const plb_kernel *kernel, char *text, size_t size) {
    char shape[160];
    snprintf(text, size, "%s by %s, %s %s %s%s%s%s threads %d in place %d", c->t.table->name,
             kernel->name, c->t.sample->name, plb_dtype_name(c->t.in[0].dtype),
             plb_shape_format(&c->t.in[0].shape, shape, sizeof shape), c->t.nhwc ? " nhwc" : "",
             c->gaps ? " gaps" : "", c->size ? " grown" : "", c->threads, c->in_place);
}

static double rms(const plb_tensor *t) {
    double sum = 0;
    const int64_t count = plb_shape_count(&t->shape);
    for (int64_t i = 0; i < count; i++) {
        double x = plb_load_f64(t->data, t->dtype, plb_tensor_offset_linear(t, i));
        sum += x * x;
    }
    return count ? sqrt(sum / (double)count) : 0;
}

// What is too large for the dtype is infinite. The smallest of the ranges is that of f16.
static double in_range_of(plb_dtype dtype, double w) {
    if (!(fabs(w) > 65504)) return w;
    uint64_t rounded;
    plb_store_f64(&rounded, dtype, 0, w);
    return isinf(plb_load_f64(&rounded, dtype, 0)) ? copysign(INFINITY, w) : w;
}

// scale: the largest value that was expected, or that of the inputs.
static void compare(const one_case *c, const plb_kernel *kernel, int k, const plb_tensor *got,
                    const plb_tensor *want, double scale) {
    const bool real = plb_dtype_is_float(got->dtype);
    const bool got_plain = is_plain(got), want_plain = is_plain(want);
    double tolerance = real ? 12 * plb_dtype_epsilon(got->dtype) * scale : 0;
    // Winograd's transforms amplify rounding: the bound that test_winograd.c holds it to.
    if (strcmp(kernel->name, "winograd") == 0) tolerance = 2e-5 * rms(want);
    // Positions on the grid are f32 where values are, so that a tap's weight is as wrong as the
    // position of the last element.
    if (c->t.op == PLB_OP_interpolate || c->t.op == PLB_OP_interpolate_grad) {
        const int64_t extent = c->t.in[0].shape.dim[c->t.in[0].shape.rank - 1];
        tolerance += 2 * (double)extent * plb_dtype_epsilon(got->dtype) * scale;
    }
    // What lies between two integers in f64 may lie beside the middle in f32.
    if (c->t.op == PLB_OP_int8_conv || c->t.op == PLB_OP_int8_matmul)
        tolerance = fmax(tolerance, 1);
    const int64_t count = plb_shape_count(&got->shape);
    CHECK(plb_shape_equal(&got->shape, &want->shape));
    for (int64_t i = 0; i < count; i++) {
        const double g = value(got, got_plain, i);
        double w = value(want, want_plain, i);
        if (real) w = in_range_of(got->dtype, w);
        bool same = g == w || (isnan(g) && isnan(w)) || fabs(g - w) <= tolerance;
        if (same) continue;
        char text[512];
        say(c, kernel, text, sizeof text);
        CHECK_SAY(same, "%s: output %d element %lld: %.9g, expected %.9g", text, k, (long long)i, g,
                  w);
        return;
    }
}

// ---------------------------------------------------------------------------- running

static bool may_take(const one_case *c, const plb_tensor *in, const plb_tensor *out) {
    const plb_op *op = c->t.table;
    bool allowed = op->flags & PLB_OP_POINTWISE;
    for (int i = 0; i < op->n_overwrites; i++) {
        allowed |= op->overwrites[i].input == c->in_place && op->overwrites[i].output == 0;
    }
    return allowed && in->dtype == out->dtype && plb_shape_equal(&in->shape, &out->shape) &&
           plb_layout_equal(in->layout, out->layout) && plb_tensor_is_dense(in);
}

// The same bits again, whatever the threads did meanwhile.
static bool repeats(const plb_launch *launch, const plb_call *call, const operand *out) {
    bool same = true;
    for (int k = 0; k < call->n_out && same; k++) {
        uint8_t *before = plb_alloc(out[k].bytes + 1);
        memcpy(before, out[k].t.data, out[k].bytes);
        same = launch->run(launch->state, call, NULL) == PLB_OK &&
               memcmp(before, out[k].t.data, out[k].bytes) == 0;
        plb_free(before);
    }
    return same;
}

// 1: ran, 0: the kernel refused, or the case makes no sense.
static int run_kernel(const one_case *c, const plb_kernel *kernel, const operand *in,
                      const operand *want, const double *scale) {
    operand mine[PLB_SAMPLE_INPUTS] = {0}, out[PLB_MAX_OUTPUTS] = {0};
    plb_tensor ins[PLB_SAMPLE_INPUTS], outs[PLB_MAX_OUTPUTS];
    const plb_sample *s = c->t.sample;
    int ran = 0;
    void *workspace = NULL, *packed = NULL;
    plb_launch launch = {0};
    for (int k = 0; k < s->n_in; k++) {
        ins[k] = (plb_tensor){.dtype = PLB_DTYPE_COUNT};
        if (s->absent >> k & 1) continue;
        mine[k] = operand_new(&c->t.in[k], case_layout(&c->t, false, k), c->gaps && k == 0);
        CHECK_OK(plb_tensor_copy(&mine[k].t, &in[k].t));
        ins[k] = mine[k].t;
    }
    for (int k = 0; k < c->t.n_out; k++) {
        out[k] = operand_new(&c->t.out[k], case_layout(&c->t, true, k), false);
        outs[k] = out[k].t;
    }
    if (c->in_place >= 0) {
        if (!may_take(c, &ins[c->in_place], &outs[0])) goto out;
        outs[0].data = ins[c->in_place].data;
    }
    plb_query q = {.op = c->t.op,
                   .attrs = s->attrs,
                   .n_in = s->n_in,
                   .n_out = c->t.n_out,
                   .in = ins,
                   .out = outs,
                   .threads = c->threads};
    // What is made ahead of a run from weights must be constant for these kernels.
    if (c->t.op == PLB_OP_int8_conv || c->t.op == PLB_OP_int8_matmul) q.constant = ~1u;
    if (kernel->refuse(&q)) goto out;
    char choice[32][PLB_CHOICE_BYTES] = {{0}};
    if (kernel->choices) kernel->choices(&q, choice, 32);
    CHECK_OK(kernel->prepare(&q, choice[0], &launch));
    workspace = plb_alloc_slab(launch.workspace_bytes + GUARD);
    packed = plb_alloc_slab(launch.packed_bytes + GUARD);
    memset((char *)workspace + launch.workspace_bytes, 0x5a, GUARD);
    plb_call call = {.attrs = s->attrs,
                     .n_in = s->n_in,
                     .n_out = c->t.n_out,
                     .in = ins,
                     .out = outs,
                     .workspace = workspace,
                     .packed = packed,
                     .threads = c->threads};
    if (launch.pack) CHECK_OK(launch.pack(launch.state, &call, packed, NULL));
    CHECK_OK(launch.run(launch.state, &call, NULL));
    for (int k = 0; k < c->t.n_out; k++) compare(c, kernel, k, &outs[k], &want[k].t, scale[k]);
    char text[512];
    say(c, kernel, text, sizeof text);
    if (c->in_place < 0) CHECK_SAY(repeats(&launch, &call, out), "%s: other bits", text);
    for (int i = 0; i < GUARD; i++) {
        bool kept = ((char *)workspace)[launch.workspace_bytes + (size_t)i] == 0x5a;
        if (!kept) CHECK_SAY(kept, "%s writes past its workspace", text);
        if (!kept) break;
    }
    for (int k = 0; k < c->t.n_out; k++) CHECK_SAY(guards_hold(&out[k]), "%s", text);
    for (int k = 0; k < s->n_in; k++) {
        if (mine[k].memory) CHECK_SAY(guards_hold(&mine[k]), "%s", text);
    }
    ran = 1;
out:
    if (launch.release) launch.release(launch.state);
    plb_free(workspace);
    plb_free(packed);
    for (int k = 0; k < s->n_in; k++) plb_free(mine[k].memory);
    for (int k = 0; k < c->t.n_out; k++) plb_free(out[k].memory);
    return ran;
}

// Work grows with the cube of the extents: the first larger size has enough for several threads.
static bool product(plb_op_id op) {
    return op == PLB_OP_int8_conv || op == PLB_OP_int8_matmul;
}

// Kernels of the op that are not the reference itself, in all layouts of one case.
static void run_layouts(one_case *c, const operand *in, const operand *want, double magnitude,
                        int *ran) {
    double scale[PLB_MAX_OUTPUTS];
    for (int k = 0; k < c->t.n_out; k++) scale[k] = fmax(largest(&want[k].t), magnitude);
    const plb_kernel *const *kernels = plb_backend_cpu.kernels(c->t.op);
    for (int i = 0; kernels[i] && kernels[i]->op != PLB_OP_COUNT; i++) {
        for (int v = 0; v < 8; v++) {
            c->t.nhwc = v & 1, c->threads = v & 2 ? 2 : 1, c->gaps = v & 4;
            if (c->size == 1 && c->threads == 2 && !product(c->t.op)) continue;
            bool strides = c->t.table->flags &
                           (PLB_OP_POINTWISE | PLB_OP_FOLLOWS | PLB_OP_STRIDED | PLB_OP_VIEW);
            if (c->gaps && !strides) continue;
            for (c->in_place = -1; c->in_place < c->t.sample->n_in; c->in_place++) {
                ran[i] += run_kernel(c, kernels[i], in, want, scale);
            }
        }
    }
}

static void run_case(one_case *c, int *ran) {
    operand in[PLB_SAMPLE_INPUTS] = {0}, want[PLB_MAX_OUTPUTS] = {0};
    const plb_sample *s = c->t.sample;
    double magnitude = 0;
    if (!case_infer(&c->t)) return;
    for (int k = 0; k < s->n_in; k++) {
        if (s->absent >> k & 1) continue;
        in[k] = operand_new(&c->t.in[k], (plb_layout){0}, false);
        fill(&in[k], s, k);
        if (plb_dtype_is_float(c->t.in[k].dtype)) magnitude = fmax(magnitude, largest(&in[k].t));
    }
    // Sums err with the magnitudes of their terms, of which many cancel: by the root of their
    // number where roundings are independent (Higham: "The accuracy of floating point
    // summation", 1993).
    int64_t outputs = plb_shape_count(&c->t.out[0].shape);
    int64_t terms = outputs ? plb_shape_count(&c->t.in[0].shape) / outputs : 0;
    for (int i = 0; i < c->t.in[0].shape.rank; i++) {
        if (c->t.in[0].shape.dim[i] > terms) terms = c->t.in[0].shape.dim[i];
    }
    if (!(c->t.table->flags & PLB_OP_POINTWISE) && terms > 16) magnitude *= sqrt((double)terms) / 2;
    // One after the other in the result's own type: each errs with the sum so far, which grows.
    if (c->t.op == PLB_OP_scatter_add && terms > 256) magnitude *= sqrt((double)terms) / 16;
    if (reference(c, in, want) == PLB_OK) run_layouts(c, in, want, magnitude, ran);
    for (int k = 0; k < s->n_in; k++) plb_free(in[k].memory);
    for (int k = 0; k < c->t.n_out; k++) plb_free(want[k].memory);
}

// ---------------------------------------------------------------------------- cases
static bool heavy(plb_op_id op) {
    return op == PLB_OP_conv || op == PLB_OP_conv_input_grad || op == PLB_OP_conv_weight_grad ||
           op == PLB_OP_matmul;
}

// The definition takes the square of a line's length: samples are as long as they may be.
static bool quadratic(plb_op_id op) {
    return op == PLB_OP_sort || op == PLB_OP_top_k;
}

// Larger extents for all operands alike, so that vector bodies, tails and threads are reached.
static void grow(one_case *c, int size) {
    static const int64_t factors[2][9] = {{1, 200, 14, 6, 3, 2, 1, 1, 1},
                                          {1, 6500, 62, 14, 5, 3, 2, 1, 1}};
    const int64_t *factor = factors[size - 1];
    int rank = 0;
    for (int k = 0; k < c->t.sample->n_in; k++) {
        if (c->t.in[k].shape.rank > rank) rank = c->t.in[k].shape.rank;
    }
    for (int k = 0; k < c->t.sample->n_in; k++) {
        for (int i = 0; i < c->t.in[k].shape.rank; i++) {
            int64_t *extent = &c->t.in[k].shape.dim[i];
            if (*extent > 1) *extent = *extent * factor[rank] + 1;
        }
    }
    c->size = size;
}

static void run_sample(plb_op_id op, const plb_sample *sample, int largest_size, int *ran) {
    static const plb_dtype floats[] = {PLB_F32, PLB_F64, PLB_BF16, PLB_F16};
    for (int size = 0; size <= largest_size; size++) {
        for (int f = 0; f < 4; f++) {
            one_case c = {.t = {.op = op, .table = plb_op_of(op), .sample = sample}};
            bool any = false;
            for (int k = 0; k < sample->n_in; k++) {
                c.t.in[k] = sample->in[k];
                any |= c.t.in[k].dtype == PLB_F32;
                if (c.t.in[k].dtype == PLB_F32) c.t.in[k].dtype = floats[f];
                if (sample->absent >> k & 1) c.t.in[k] = (plb_type){.dtype = PLB_DTYPE_COUNT};
            }
            if (f > 0 && (!any || sample->f32_only || size == 2)) continue;
            if (size == 1 && largest_size == 1 && f > 0) continue; // one sample of the op will do
            if (size) grow(&c, size);
            run_case(&c, ran);
        }
    }
}

static void kernels_agree_with_references(void) {
    for (int op = 0; op < PLB_OP_COUNT; op++) {
        const plb_op *table = plb_op_of((plb_op_id)op);
        const plb_kernel *const *kernels = plb_backend_cpu.kernels((plb_op_id)op);
        const char *only = getenv("PLB_TEST_OP");
        if (!table || kernels[0]->op == PLB_OP_COUNT) continue;
        if (only && !strstr(table->name, only)) continue;
        int ran[16] = {0};
        for (int i = 0; i < table->n_samples; i++) {
            bool small = heavy((plb_op_id)op) || quadratic((plb_op_id)op);
            int most = small ? 0 : i == 0 && !product((plb_op_id)op) ? 2 : 1;
            run_sample((plb_op_id)op, &table->samples[i], most, ran);
        }
        for (int i = 0; kernels[i] && kernels[i]->op != PLB_OP_COUNT; i++) {
            if (heavy((plb_op_id)op)) continue; // Winograd wants more channels: test_winograd.c
            CHECK_SAY(ran[i] > 0, "%s: %s took no sample", table->name, kernels[i]->name);
        }
    }
}

static const check_test tests[] = {
    {"kernels agree with references", kernels_agree_with_references},
};

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) {
        for (int threads = 1; threads <= 2; threads++)
            bench_size(256, threads), bench_size(2, threads);
        return 0;
    }
    return check_main(tests, sizeof tests / sizeof *tests);
}
