// SPDX-License-Identifier: Apache-2.0
// Every kernel of the CPU against the reference of its op in f64: all samples of the op and the
// same with larger extents, float dtypes, layouts, one and two threads, results in fresh memory
// and in an operand's. A kernel that never accepts a sample fails. With --bench [word] it times
// typical shapes instead, one line of JSON a case.
#include <omp.h>
#include <stdint.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "check.h"
#include "engine/device/cpu/cpu.h"
#include "engine/device/cpu/vec.h"
#include "engine/ops/fused.h"
#include "engine/ops/reorder.h"
#include "plumb/plumb.h"

enum { GUARD = 64, MAX_OPERANDS = PLB_SAMPLE_INPUTS + PLB_MAX_OUTPUTS };

// One case: a sample with its final types, and how it is laid out.
typedef struct one_case {
    plb_op_id op;
    const plb_op *table;
    const plb_sample *sample;
    plb_type in[PLB_SAMPLE_INPUTS], out[PLB_MAX_OUTPUTS];
    int n_out;
    bool nhwc, gaps;
    int size;              // 0: as the sample says, 1: larger, 2: enough for several threads
    int threads, in_place; // input whose memory output 0 takes, -1: none
} one_case;

// Memory of one operand with guards around it.
typedef struct operand {
    plb_tensor t;
    uint8_t *memory;
    size_t bytes;
} operand;

// ---------------------------------------------------------------------------- memory
static operand operand_new(const plb_type *type, plb_layout layout, bool gaps) {
    operand o = {0};
    plb_shape wide = type->shape;
    if (gaps && wide.rank) wide.dim[wide.rank - 1] += 3;
    o.bytes = plb_layout_bytes(&wide, type->dtype, layout);
    o.memory = plb_alloc_slab(o.bytes + 2 * GUARD);
    memset(o.memory, 0x5a, o.bytes + 2 * GUARD);
    o.t = plb_tensor_dense(o.memory + GUARD, type->dtype, &wide, layout);
    o.t.shape = type->shape;
    return o;
}

static bool guards_hold(const operand *o) {
    for (size_t i = 0; i < GUARD; i++) {
        if (o->memory[i] != 0x5a || o->memory[GUARD + o->bytes + i] != 0x5a) return false;
    }
    return true;
}

static uint64_t random_state = 1;

static double random_unit(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 11) * 0x1p-53;
}

// Values of input k in row-major order: exact in its dtype.
static void fill(operand *o, const plb_sample *s, int k) {
    double low = s->low[k], high = s->high[k];
    if (low == 0 && high == 0) low = -1, high = 1;
    const bool whole = !plb_dtype_is_float(o->t.dtype), distinct = s->distinct >> k & 1;
    const int64_t count = plb_shape_count(&o->t.shape);
    for (int64_t i = 0; i < count; i++) {
        double u = random_unit();
        if (distinct)
            u = (double)((i * 7919 + 13) % (count % 7919 ? count : count + 1)) / (double)count;
        double x = whole ? floor(low + u * (high - low + 1)) : low + u * (high - low);
        if (whole && x > high) x = high;
        if (whole && distinct) x = low + (double)i;
        if (o->t.dtype == PLB_BOOL) x = u < 0.5;
        plb_store_f64(o->t.data, o->t.dtype, plb_tensor_offset_linear(&o->t, i), x);
    }
}

// ---------------------------------------------------------------------------- the reference
static plb_dtype exact(plb_dtype dtype) {
    return plb_dtype_is_float(dtype) ? PLB_F64 : dtype;
}

// Runs the op's reference on the same values in f64, everything plain.
static plb_status reference(const one_case *c, const operand *in, operand *out) {
    plb_tensor ins[PLB_SAMPLE_INPUTS], outs[PLB_MAX_OUTPUTS];
    operand copy[PLB_SAMPLE_INPUTS] = {0};
    plb_type types[PLB_SAMPLE_INPUTS], out_types[PLB_MAX_OUTPUTS];
    const plb_sample *s = c->sample;
    for (int k = 0; k < s->n_in; k++) {
        types[k] = c->in[k];
        ins[k] = (plb_tensor){.dtype = PLB_DTYPE_COUNT};
        if (s->absent >> k & 1) continue;
        types[k].dtype = exact(c->in[k].dtype);
        copy[k] = operand_new(&types[k], (plb_layout){0}, false);
        ins[k] = copy[k].t;
        CHECK_OK(plb_tensor_copy(&ins[k], &in[k].t));
    }
    plb_signature sig = {
        .attrs = s->attrs, .n_in = s->n_in, .n_out = 1, .in = types, .out = out_types};
    plb_status status = c->table->infer(&sig);
    for (int k = 0; k < c->n_out; k++) {
        out[k] = operand_new(&out_types[k], (plb_layout){0}, false);
        outs[k] = out[k].t;
    }
    plb_call call = {.attrs = s->attrs,
                     .n_in = s->n_in,
                     .n_out = c->n_out,
                     .in = ins,
                     .out = outs,
                     .threads = 1};
    if (!status) status = c->table->ref(&call);
    for (int k = 0; k < s->n_in; k++) plb_free(copy[k].memory);
    return status;
}

// ---------------------------------------------------------------------------- comparing
static double largest(const plb_tensor *t) {
    double max = 0;
    const int64_t count = plb_shape_count(&t->shape);
    for (int64_t i = 0; i < count; i++) {
        double x = fabs(plb_load_f64(t->data, t->dtype, plb_tensor_offset_linear(t, i)));
        if (x > max && isfinite(x)) max = x;
    }
    return max;
}

static void say(const one_case *c, const plb_kernel *kernel, char *text, size_t size) {
    char shape[160];
    snprintf(text, size, "%s by %s, %s %s %s%s%s%s threads %d in place %d", c->table->name,
             kernel->name, c->sample->name, plb_dtype_name(c->in[0].dtype),
             plb_shape_format(&c->in[0].shape, shape, sizeof shape), c->nhwc ? " nhwc" : "",
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

static void compare(const one_case *c, const plb_kernel *kernel, int k, const plb_tensor *got,
                    const plb_tensor *want, double magnitude) {
    const bool real = plb_dtype_is_float(got->dtype);
    double scale = fmax(largest(want), magnitude);
    double tolerance = real ? 12 * plb_dtype_epsilon(got->dtype) * scale : 0;
    // Winograd's transforms amplify rounding: the bound that test_winograd.c holds it to.
    if (strcmp(kernel->name, "winograd") == 0) tolerance = 2e-5 * rms(want);
    // Positions on the grid are f32 where values are, so that a tap's weight is as wrong as the
    // position of the last element.
    if (c->op == PLB_OP_interpolate || c->op == PLB_OP_interpolate_grad) {
        const int64_t extent = c->in[0].shape.dim[c->in[0].shape.rank - 1];
        tolerance += 2 * (double)extent * plb_dtype_epsilon(got->dtype) * scale;
    }
    const int64_t count = plb_shape_count(&got->shape);
    CHECK(plb_shape_equal(&got->shape, &want->shape));
    for (int64_t i = 0; i < count; i++) {
        double g = plb_load_f64(got->data, got->dtype, plb_tensor_offset_linear(got, i));
        double w = plb_load_f64(want->data, want->dtype, plb_tensor_offset_linear(want, i));
        uint64_t rounded; // what is too large for the dtype is infinite
        plb_store_f64(&rounded, got->dtype, 0, w);
        if (real && isinf(plb_load_f64(&rounded, got->dtype, 0))) w = copysign(INFINITY, w);
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
static plb_layout layout_of(const one_case *c, const plb_type *type, bool output, int k) {
    const int rank = type->shape.rank;
    plb_layout plain = {0};
    if (rank < 3 || rank > 5) return plain;
    if (c->op == PLB_OP_reorder && output) {
        return ((const plb_reorder_attrs *)c->sample->attrs)->target;
    }
    if (!c->nhwc) return plain;
    const unsigned flags = c->table->flags;
    bool fits = rank == c->out[0].shape.rank;
    if (flags & PLB_OP_SPATIAL) {
        bool given = c->table->spatial_in || c->table->spatial_out;
        unsigned in = given ? c->table->spatial_in : 1u, out = given ? c->table->spatial_out : ~0u;
        fits = (output ? out : in) >> k & 1;
    } else if (flags & (PLB_OP_STRIDED | PLB_OP_VIEW)) {
        fits = !output || (flags & PLB_OP_FOLLOWS);
    } else if (!(flags & (PLB_OP_POINTWISE | PLB_OP_FOLLOWS))) {
        fits = c->op == PLB_OP_reorder;
    }
    return fits ? (plb_layout){PLB_LAYOUT_NHWC, 0} : plain;
}

static bool may_take(const one_case *c, const plb_tensor *in, const plb_tensor *out) {
    const plb_op *op = c->table;
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
                      const operand *want, double magnitude) {
    operand mine[PLB_SAMPLE_INPUTS] = {0}, out[PLB_MAX_OUTPUTS] = {0};
    plb_tensor ins[PLB_SAMPLE_INPUTS], outs[PLB_MAX_OUTPUTS];
    const plb_sample *s = c->sample;
    int ran = 0;
    void *workspace = NULL, *packed = NULL;
    plb_launch launch = {0};
    for (int k = 0; k < s->n_in; k++) {
        ins[k] = (plb_tensor){.dtype = PLB_DTYPE_COUNT};
        if (s->absent >> k & 1) continue;
        mine[k] = operand_new(&c->in[k], layout_of(c, &c->in[k], false, k), c->gaps && k == 0);
        CHECK_OK(plb_tensor_copy(&mine[k].t, &in[k].t));
        ins[k] = mine[k].t;
    }
    for (int k = 0; k < c->n_out; k++) {
        out[k] = operand_new(&c->out[k], layout_of(c, &c->out[k], true, k), false);
        outs[k] = out[k].t;
    }
    if (c->in_place >= 0) {
        if (!may_take(c, &ins[c->in_place], &outs[0])) goto out;
        outs[0].data = ins[c->in_place].data;
    }
    plb_query q = {.op = c->op,
                   .attrs = s->attrs,
                   .n_in = s->n_in,
                   .n_out = c->n_out,
                   .in = ins,
                   .out = outs,
                   .threads = c->threads};
    if (kernel->refuse(&q)) goto out;
    char choice[32][PLB_CHOICE_BYTES] = {{0}};
    if (kernel->choices) kernel->choices(&q, choice, 32);
    CHECK_OK(kernel->prepare(&q, choice[0], &launch));
    workspace = plb_alloc_slab(launch.workspace_bytes + GUARD);
    packed = plb_alloc_slab(launch.packed_bytes + GUARD);
    memset((char *)workspace + launch.workspace_bytes, 0x5a, GUARD);
    plb_call call = {.attrs = s->attrs,
                     .n_in = s->n_in,
                     .n_out = c->n_out,
                     .in = ins,
                     .out = outs,
                     .workspace = workspace,
                     .packed = packed,
                     .threads = c->threads};
    if (launch.pack) CHECK_OK(launch.pack(launch.state, &call, packed, NULL));
    CHECK_OK(launch.run(launch.state, &call, NULL));
    for (int k = 0; k < c->n_out; k++) compare(c, kernel, k, &outs[k], &want[k].t, magnitude);
    char text[512];
    say(c, kernel, text, sizeof text);
    if (c->in_place < 0) CHECK_SAY(repeats(&launch, &call, out), "%s: other bits", text);
    for (int i = 0; i < GUARD; i++) {
        bool kept = ((char *)workspace)[launch.workspace_bytes + (size_t)i] == 0x5a;
        if (!kept) CHECK_SAY(kept, "%s writes past its workspace", text);
        if (!kept) break;
    }
    for (int k = 0; k < c->n_out; k++) CHECK_SAY(guards_hold(&out[k]), "%s", text);
    for (int k = 0; k < s->n_in; k++) {
        if (mine[k].memory) CHECK_SAY(guards_hold(&mine[k]), "%s", text);
    }
    ran = 1;
out:
    if (launch.release) launch.release(launch.state);
    plb_free(workspace);
    plb_free(packed);
    for (int k = 0; k < s->n_in; k++) plb_free(mine[k].memory);
    for (int k = 0; k < c->n_out; k++) plb_free(out[k].memory);
    return ran;
}

// Kernels of the op that are not the reference itself, in all layouts of one case.
static void run_layouts(one_case *c, const operand *in, const operand *want, double magnitude,
                        int *ran) {
    const plb_kernel *const *kernels = plb_backend_cpu.kernels(c->op);
    for (int i = 0; kernels[i] && kernels[i]->op != PLB_OP_COUNT; i++) {
        for (int v = 0; v < 8; v++) {
            c->nhwc = v & 1, c->threads = v & 2 ? 2 : 1, c->gaps = v & 4;
            if (c->size == 1 && c->threads == 2) continue;
            bool strides = c->table->flags &
                           (PLB_OP_POINTWISE | PLB_OP_FOLLOWS | PLB_OP_STRIDED | PLB_OP_VIEW);
            if (c->gaps && !strides) continue;
            for (c->in_place = -1; c->in_place < c->sample->n_in; c->in_place++) {
                ran[i] += run_kernel(c, kernels[i], in, want, magnitude);
            }
        }
    }
}

// 0: the op does not take these types.
static bool infer_types(one_case *c) {
    plb_signature sig = {
        .attrs = c->sample->attrs, .n_in = c->sample->n_in, .n_out = 1, .in = c->in, .out = c->out};
    if (c->table->infer(&sig)) return false;
    c->n_out = sig.n_out;
    return true;
}

static void run_case(one_case *c, int *ran) {
    operand in[PLB_SAMPLE_INPUTS] = {0}, want[PLB_MAX_OUTPUTS] = {0};
    const plb_sample *s = c->sample;
    double magnitude = 0;
    if (!infer_types(c)) return;
    for (int k = 0; k < s->n_in; k++) {
        if (s->absent >> k & 1) continue;
        in[k] = operand_new(&c->in[k], (plb_layout){0}, false);
        fill(&in[k], s, k);
        if (plb_dtype_is_float(c->in[k].dtype)) magnitude = fmax(magnitude, largest(&in[k].t));
    }
    // Sums err with the magnitudes of their terms, of which many cancel: by the root of their
    // number where roundings are independent (Higham: "The accuracy of floating point
    // summation", 1993).
    int64_t outputs = plb_shape_count(&c->out[0].shape);
    int64_t terms = outputs ? plb_shape_count(&c->in[0].shape) / outputs : 0;
    for (int i = 0; i < c->in[0].shape.rank; i++) {
        if (c->in[0].shape.dim[i] > terms) terms = c->in[0].shape.dim[i];
    }
    if (!(c->table->flags & PLB_OP_POINTWISE) && terms > 16) magnitude *= sqrt((double)terms) / 2;
    if (reference(c, in, want) == PLB_OK) run_layouts(c, in, want, magnitude, ran);
    for (int k = 0; k < s->n_in; k++) plb_free(in[k].memory);
    for (int k = 0; k < c->n_out; k++) plb_free(want[k].memory);
}

// ---------------------------------------------------------------------------- cases
static bool heavy(plb_op_id op) {
    return op == PLB_OP_conv || op == PLB_OP_conv_input_grad || op == PLB_OP_conv_weight_grad ||
           op == PLB_OP_matmul;
}

// Larger extents for all operands alike, so that vector bodies, tails and threads are reached.
static void grow(one_case *c, int size) {
    static const int64_t factors[2][9] = {{1, 200, 14, 6, 3, 2, 1, 1, 1},
                                          {1, 6500, 62, 14, 5, 3, 2, 1, 1}};
    const int64_t *factor = factors[size - 1];
    int rank = 0;
    for (int k = 0; k < c->sample->n_in; k++) {
        if (c->in[k].shape.rank > rank) rank = c->in[k].shape.rank;
    }
    for (int k = 0; k < c->sample->n_in; k++) {
        for (int i = 0; i < c->in[k].shape.rank; i++) {
            int64_t *extent = &c->in[k].shape.dim[i];
            if (*extent > 1) *extent = *extent * factor[rank] + 1;
        }
    }
    c->size = size;
}

static void run_sample(plb_op_id op, const plb_sample *sample, int largest_size, int *ran) {
    static const plb_dtype floats[] = {PLB_F32, PLB_F64, PLB_BF16, PLB_F16};
    for (int size = 0; size <= largest_size; size++) {
        for (int f = 0; f < 4; f++) {
            one_case c = {.op = op, .table = plb_op_of(op), .sample = sample};
            bool any = false;
            for (int k = 0; k < sample->n_in; k++) {
                c.in[k] = sample->in[k];
                any |= c.in[k].dtype == PLB_F32;
                if (c.in[k].dtype == PLB_F32) c.in[k].dtype = floats[f];
                if (sample->absent >> k & 1) c.in[k] = (plb_type){.dtype = PLB_DTYPE_COUNT};
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
            int most = heavy((plb_op_id)op) ? 0 : i == 0 ? 2 : 1;
            run_sample((plb_op_id)op, &table->samples[i], most, ran);
        }
        for (int i = 0; kernels[i] && kernels[i]->op != PLB_OP_COUNT; i++) {
            if (heavy((plb_op_id)op)) continue; // Winograd wants more channels: test_winograd.c
            CHECK_SAY(ran[i] > 0, "%s: %s took no sample", table->name, kernels[i]->name);
        }
    }
}

// ---------------------------------------------------------------------------- accuracy
typedef struct range {
    plb_op_id op;
    double low, high;
    double ulps; // allowed, beside 1e-6 of the value where `loose`
} range;

// The worst distance from the f64 value over a dense walk, in units in the last place.
static double worst(const range *r, double *at) {
    enum { N = 200000, BLOCK = 1000 };
    static float x[BLOCK], y[BLOCK];
    const plb_vec *vec = plb_vec_of(plb_cpu_isa());
    double most = 0;
    for (int i = 0; i < N; i += BLOCK) {
        for (int j = 0; j < BLOCK; j++) x[j] = (float)(r->low + (r->high - r->low) * (i + j) / N);
        plb_vec_args v = {.a = x, .b = x, .c = x, .y = y, .n = BLOCK, .alpha = 1, .beta = 20};
        vec->op[r->op](&v);
        for (int j = 0; j < BLOCK; j++) {
            double in[3] = {(double)x[j]}, want = plb_pointwise_f64(r->op, in, 1, 20);
            double ulp = fmax(ldexp(1, ilogb(want) - 23), 0x1p-149);
            double error =
                want == 0 ? ((double)y[j] == 0 ? 0 : INFINITY) : fabs((double)y[j] - want) / ulp;
            if (error > most) most = error, *at = (double)x[j];
        }
    }
    return most;
}

static void functions_are_accurate(void) {
    static const range ranges[] = {
        {PLB_OP_exp, -87, 88.7, 3},     {PLB_OP_exp, -1, 1, 2},
        {PLB_OP_log, 1e-6, 3, 3},       {PLB_OP_log, 1, 1e30, 3},
        {PLB_OP_log, 1e-40, 1e-37, 3},  {PLB_OP_log1p, -0.9999, 3, 3},
        {PLB_OP_log1p, -1e-3, 1e-3, 3}, {PLB_OP_expm1, -1, 1, 3},
        {PLB_OP_expm1, -30, 88, 3},     {PLB_OP_tanh, -12, 12, 4},
        {PLB_OP_tanh, -0.01, 0.01, 4},  {PLB_OP_sigmoid, -80, 80, 4},
        {PLB_OP_erf, -5, 5, 4},         {PLB_OP_erf, -0.01, 0.01, 4},
        {PLB_OP_gelu, -4, 6, 24},       {PLB_OP_gelu_tanh, -3, 6, 24},
        {PLB_OP_silu, -20, 20, 5},      {PLB_OP_mish, -18, 30, 8},
        {PLB_OP_softplus, -80, 19, 5},  {PLB_OP_sin, -3, 3, 3},
        {PLB_OP_sin, -60000, 60000, 3}, {PLB_OP_cos, -60000, 60000, 3},
        {PLB_OP_selu, -10, 3, 5},       {PLB_OP_celu, -10, 3, 4},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        double at = 0, error = worst(&ranges[i], &at);
        CHECK_SAY(error <= ranges[i].ulps, "%s on [%g, %g]: %.2f ulp at %.9g",
                  plb_op_of(ranges[i].op)->name, ranges[i].low, ranges[i].high, error, at);
        if (getenv("PLB_TEST_VERBOSE")) {
            fprintf(stderr, "%s on [%g, %g]: %.2f ulp at %.9g\n", plb_op_of(ranges[i].op)->name,
                    ranges[i].low, ranges[i].high, error, at);
        }
    }
}

static void edges_of_functions(void) {
    static const plb_op_id ops[] = {PLB_OP_exp,   PLB_OP_log,     PLB_OP_log1p,    PLB_OP_expm1,
                                    PLB_OP_tanh,  PLB_OP_sigmoid, PLB_OP_softplus, PLB_OP_erf,
                                    PLB_OP_sin,   PLB_OP_cos,     PLB_OP_relu,     PLB_OP_clamp,
                                    PLB_OP_isnan, PLB_OP_round,   PLB_OP_rsqrt,    PLB_OP_elu};
    const float in[] = {0,   -0.0f, INFINITY, -INFINITY, NAN,   1,      -1,   1e-42f, 3e38f,
                        200, -200,  0.5f,     1.5f,      -2.5f, 1e-20f, 1e6f, 89,     -104};
    enum { N = sizeof in / sizeof *in };
    const plb_vec *vec = plb_vec_of(plb_cpu_isa());
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        float y[N];
        plb_vec_args v = {.a = in, .b = in, .c = in, .y = y, .n = N, .alpha = 1, .beta = 20};
        vec->op[ops[i]](&v);
        for (int j = 0; j < N; j++) {
            double x[3] = {(double)in[j]};
            float want = (float)plb_pointwise_f64(ops[i], x, 1, 20);
            bool same = y[j] == want || (y[j] != y[j] && want != want) ||
                        fabsf(y[j] - want) <= 1e-6f * fabsf(want) + 0x1p-140f;
            CHECK_SAY(same, "%s(%g): %g, expected %g", plb_op_of(ops[i])->name, (double)in[j],
                      (double)y[j], (double)want);
        }
    }
}

static const check_test tests[] = {
    {"kernels agree with references", kernels_agree_with_references},
    {"functions are accurate", functions_are_accurate},
    {"edges of functions", edges_of_functions},
};

// ---------------------------------------------------------------------------- timing
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
    one_case c = {.op = b->op,
                  .table = plb_op_of(b->op),
                  .sample = &sample,
                  .nhwc = b->nhwc,
                  .threads = threads};
    operand in[PLB_SAMPLE_INPUTS], out[PLB_MAX_OUTPUTS];
    plb_tensor ins[PLB_SAMPLE_INPUTS], outs[PLB_MAX_OUTPUTS];
    double bytes = 0;
    memcpy(c.in, b->in, sizeof c.in);
    if (!infer_types(&c)) return;
    for (int k = 0; k < b->n_in; k++) {
        in[k] = operand_new(&c.in[k], layout_of(&c, &c.in[k], false, k), false);
        memset(in[k].t.data, 0, in[k].bytes);
        if (c.in[k].dtype == PLB_F32) {
            float *x = in[k].t.data;
            for (size_t i = 0; i < in[k].bytes / 4; i++) x[i] = (float)random_unit() + 0.5f;
        }
        ins[k] = in[k].t, bytes += (double)in[k].bytes;
    }
    for (int k = 0; k < c.n_out; k++) {
        out[k] = operand_new(&c.out[k], layout_of(&c, &c.out[k], true, k), false);
        outs[k] = out[k].t, bytes += (double)out[k].bytes;
    }
    plb_query q = {.op = c.op,
                   .attrs = b->attrs,
                   .n_in = b->n_in,
                   .n_out = c.n_out,
                   .in = ins,
                   .out = outs,
                   .threads = threads};
    const plb_kernel *kernel = plb_backend_cpu.kernels(c.op)[0];
    plb_launch launch = {0};
    if (!kernel->refuse(&q) && !kernel->prepare(&q, "", &launch)) {
        void *workspace = plb_alloc_slab(launch.workspace_bytes + 64);
        plb_call call = {.attrs = b->attrs,
                         .n_in = b->n_in,
                         .n_out = c.n_out,
                         .in = ins,
                         .out = outs,
                         .workspace = workspace,
                         .threads = threads};
        print_row(b->name, kernel->name, &c.in[0].shape, b->nhwc, threads,
                  least_ns(&launch, &call, bytes), bytes);
        if (launch.release) launch.release(launch.state);
        plb_free(workspace);
    }
    for (int k = 0; k < b->n_in; k++) plb_free(in[k].memory);
    for (int k = 0; k < c.n_out; k++) plb_free(out[k].memory);
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

// Working sets of about 32 MB and 256 KB: n is the batch.
static void bench_size(int64_t n, int threads) {
    static const plb_axis_attrs axis1 = {.axis = 1};
    static const plb_reduce_attrs all = {0}, channels = {.axes = 13}, planes = {.axes = 12};
    static const plb_reorder_attrs nhwc = {{PLB_LAYOUT_NHWC, 0}}, plain = {{PLB_LAYOUT_PLAIN, 0}};
    static const plb_loss_attrs mean = {.ignore_index = -100};
    static const plb_sgd_attrs sgd = {.momentum = 0.9, .weight_decay = 1e-4};
    static const plb_adam_attrs adam = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    static const plb_random_attrs half = {.p = 0.5};
    static const plb_index_attrs rows = {0, 1000};
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
        {"arg max 10", PLB_OP_arg_max, {PLB_T(n * 1600, 10)}, 1, &axis1, false},
        {"sgd", PLB_OP_sgd, {IMAGES, IMAGES, IMAGES, SCALAR}, 4, &sgd, false},
        {"adam", PLB_OP_adam, {IMAGES, IMAGES, IMAGES, IMAGES, SCALAR, SCALAR}, 6, &adam, false},
        {"dropout", PLB_OP_dropout, {IMAGES, PLB_TYPE_OF(PLB_U64, 2)}, 2, &half, false},
        {"embedding", PLB_OP_take, {PLB_T(1000, 128), PLB_TI(n * 128)}, 2, &rows, false},
    };
    bench_memcpy((size_t)n * 64 * 16 * 16 * 8);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) bench(&cases[i], threads);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) {
        for (int threads = 1; threads <= 2; threads++)
            bench_size(256, threads), bench_size(2, threads);
        return 0;
    }
    return check_main(tests, sizeof tests / sizeof *tests);
}
