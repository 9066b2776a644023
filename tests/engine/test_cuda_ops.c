// SPDX-License-Identifier: Apache-2.0
// Every kernel of the CUDA backend against its op's reference in f64: all samples, float dtypes,
// plain and channels last, TF32 where a kernel knows it; then each op with its gradient as a
// program, at every level, against the CPU's f64. Needs a device and says so where there is none.
// PLB_TEST_OP=word takes ops whose name contains the word; PLB_TEST_SHARD=i/n every n-th op, and of
// convolutions, whose plans are slow to make, every n-th sample, so that several processes share
// the work. PLB_TEST_GAPS=1 lists what no kernel takes, PLB_TEST_TIMES=1 which ops take long.
#include "base/core/clock.h"
#include "device_case.h"
#include "engine/graph/graph.h"
#include "plumb/plumb.h"

static test_device device;
static char missing[256]; // why there is none

static bool heavy(plb_op_id op) {
    return op == PLB_OP_conv || op == PLB_OP_conv_input_grad || op == PLB_OP_conv_weight_grad;
}

static bool sharded(int *part, int *of) {
    const char *shard = getenv("PLB_TEST_SHARD");
    return shard && sscanf(shard, "%d/%d", part, of) == 2 && *of > 0;
}

static bool is_mine(plb_op_id op) {
    const char *only = getenv("PLB_TEST_OP");
    int part, of;
    if (only && !strstr(plb_op_of(op)->name, only)) return false;
    return !sharded(&part, &of) || heavy(op) || (int)op % of == part;
}

static bool sample_is_mine(plb_op_id op, int sample) {
    int part, of;
    return !sharded(&part, &of) || !heavy(op) || (sample + (int)op) % of == part;
}

// Tells ops that took a second or more since `begin_ns`.
static void tell_time(const char *what, plb_op_id op, int64_t begin_ns) {
    double seconds = (double)(plb_now_ns() - begin_ns) / 1e9;
    if (getenv("PLB_TEST_TIMES") && seconds >= 1) {
        printf("time: %s of %s: %.1f s\n", what, plb_op_of(op)->name, seconds);
    }
}

// ---------------------------------------------------------------------------- kernels
typedef struct prepared {
    device_operand in[PLB_SAMPLE_INPUTS], out[PLB_MAX_OUTPUTS];
    plb_tensor ins[PLB_SAMPLE_INPUTS], outs[PLB_MAX_OUTPUTS]; // on the device
    plb_query q;
} prepared;

static plb_status prepare_case(const device_case *c, const plb_tensor *in, prepared *p) {
    const plb_sample *s = c->t.sample;
    *p = (prepared){0};
    for (int k = 0; k < s->n_in; k++) {
        p->ins[k] = (plb_tensor){.dtype = PLB_DTYPE_COUNT};
        if (!in[k].data) continue;
        plb_layout layout = case_layout(&c->t, false, k);
        PLB_TRY(device_operand_new(&device, &c->t.in[k], layout, &p->in[k]));
        PLB_TRY(plb_tensor_copy(&p->in[k].host, &in[k]));
        PLB_TRY(device_operand_send(&device, &p->in[k]));
        p->ins[k] = p->in[k].there;
    }
    for (int k = 0; k < c->t.n_out; k++) {
        plb_layout layout = case_layout(&c->t, true, k);
        PLB_TRY(device_operand_new(&device, &c->t.out[k], layout, &p->out[k]));
        PLB_TRY(device_operand_send(&device, &p->out[k]));
        p->outs[k] = p->out[k].there;
    }
    p->q = (plb_query){.op = c->t.op,
                       .attrs = s->attrs,
                       .n_in = s->n_in,
                       .n_out = c->t.n_out,
                       .in = p->ins,
                       .out = p->outs,
                       .threads = 1,
                       .math = c->math,
                       .device = device.device};
    return PLB_OK;
}

static void free_case(const device_case *c, prepared *p) {
    for (int k = 0; k < c->t.sample->n_in; k++) device_operand_free(&device, &p->in[k]);
    for (int k = 0; k < c->t.n_out; k++) device_operand_free(&device, &p->out[k]);
}

static plb_status launch(const plb_launch *l, prepared *p) {
    void *workspace = NULL, *packed = NULL;
    const plb_backend *b = device.backend;
    plb_status status = b->pool_alloc(device.stream, l->workspace_bytes, &workspace);
    if (!status) status = b->pool_alloc(device.stream, l->packed_bytes, &packed);
    plb_call call = {.attrs = p->q.attrs,
                     .n_in = p->q.n_in,
                     .n_out = p->q.n_out,
                     .in = p->ins,
                     .out = p->outs,
                     .workspace = workspace,
                     .packed = packed,
                     .threads = 1};
    if (!status && l->pack) status = l->pack(l->state, &call, packed, device.stream);
    if (!status) status = l->run(l->state, &call, device.stream);
    for (int k = 0; k < p->q.n_out && !status; k++) {
        status = device_operand_fetch(&device, &p->out[k]);
    }
    for (int k = 0; k < p->q.n_in && !status; k++) {
        if (p->in[k].memory) status = device_operand_fetch(&device, &p->in[k]);
    }
    plb_status waited = b->wait(device.stream);
    b->pool_free(device.stream, workspace);
    b->pool_free(device.stream, packed);
    return status ? status : waited;
}

static void compare(const device_case *c, const char *what, const plb_tensor *in, prepared *p,
                    const plb_tensor *want) {
    for (int k = 0; k < c->t.n_out; k++) {
        double got = 0, wanted = 0;
        double tolerance = device_case_tolerance(c, in, &want[k], p->out[k].host.dtype);
        int64_t i = device_differs(&p->out[k].host, &want[k], tolerance, &got, &wanted);
        CHECK_SAY(i < 0, "%s: output %d element %lld: %.9g, expected %.9g within %.2g", what, k,
                  (long long)i, got, wanted, tolerance);
        CHECK_SAY(device_operand_guarded(&p->out[k]), "%s: output %d: past its end", what, k);
    }
    for (int k = 0; k < c->t.sample->n_in; k++) {
        if (p->in[k].memory) {
            CHECK_SAY(device_operand_guarded(&p->in[k]), "%s: input %d: past its end", what, k);
        }
    }
}

// Names of a library's variants begin with a letter for the graph that they are of.
static bool first_of_form(char choices[][PLB_CHOICE_BYTES], int i) {
    return i == 0 || choices[i][0] != choices[i - 1][0];
}

// The kernel's variants, at most `most` and the first of each form; returns how many ran.
static int run_kernel(const device_case *c, const plb_kernel *kernel, const plb_tensor *in,
                      const plb_tensor *want, int most) {
    char choices[PLB_MAX_VARIANTS][PLB_CHOICE_BYTES] = {{0}}, what[512];
    prepared p;
    int n = 1, ran = 0;
    CHECK_OK(prepare_case(c, in, &p));
    if (!kernel->refuse(&p.q)) {
        if (kernel->choices) n = kernel->choices(&p.q, choices, PLB_MAX_VARIANTS);
        for (int i = 0; i < n; i++) {
            plb_launch l = {0};
            if (i >= most && !first_of_form(choices, i)) continue;
            device_case_say(c, kernel, choices[i], what, sizeof what);
            plb_status status = kernel->prepare(&p.q, choices[i], &l);
            if (status == PLB_EUNSUPPORTED && kernel->choices) continue; // a library's own refusal
            if (!status) status = launch(&l, &p);
            CHECK_SAY(status == PLB_OK, "%s: %s", what, plb_error_text());
            if (l.release) l.release(l.state);
            if (status) continue;
            compare(c, what, in, &p, want);
            ran++;
        }
    }
    free_case(c, &p);
    return ran;
}

typedef struct tally {
    int ran[PLB_DTYPE_COUNT], cases[PLB_DTYPE_COUNT]; // by dtype of input 0
    int kernels[16];
    const char *only; // name of the kernel to run; NULL: all
} tally;

static void run_layouts(device_case *c, const plb_tensor *in, const plb_tensor *want, tally *t) {
    const plb_kernel *const *kernels = device.backend->kernels(c->t.op);
    const int most = getenv("PLB_TEST_ALL") ? PLB_MAX_VARIANTS : 4;
    for (int nhwc = 0; nhwc < 2; nhwc++) {
        int ran = 0;
        c->t.nhwc = nhwc;
        c->math = PLB_MATH_F32;
        for (int i = 0; kernels[i]; i++) {
            if (t->only && strcmp(kernels[i]->name, t->only) != 0) continue;
            int mine = run_kernel(c, kernels[i], in, want, most);
            t->kernels[i] += mine;
            ran += mine;
            if (!kernels[i]->tuned || c->t.in[0].dtype != PLB_F32) continue;
            c->math = PLB_MATH_TF32; // of those that use tensor cores
            ran += run_kernel(c, kernels[i], in, want, most);
            c->math = PLB_MATH_F32;
        }
        if (nhwc == 0) {
            t->cases[c->t.in[0].dtype]++;
            t->ran[c->t.in[0].dtype] += ran > 0;
        }
    }
}

static void run_case(device_case *c, tally *t) {
    op_case values;
    plb_tensor want[PLB_MAX_OUTPUTS] = {{0}};
    if (!case_infer(&c->t)) return;
    values = (op_case){.op = c->t.table, .sample = c->t.sample, .n_in = c->t.sample->n_in};
    for (int k = 0; k < c->t.sample->n_in; k++) {
        values.in_type[k] = c->t.in[k];
        values.in[k] = (plb_tensor){.dtype = PLB_DTYPE_COUNT};
        if (c->t.sample->absent >> k & 1) continue;
        values.in[k] = op_case_tensor(&c->t.in[k], 0);
        op_case_fill(&values, k);
    }
    if (device_case_reference(c, values.in, want) == PLB_OK) {
        run_layouts(c, values.in, want, t);
    }
    op_case_close(&values);
    for (int k = 0; k < c->t.n_out; k++) op_case_tensor_free(&want[k]);
}

// Under a sanitizer everything is fifty times slower: own kernels alone, one sample each.
static bool sanitized(void) {
    return getenv("PLB_TEST_SANITIZE") != NULL;
}

static void run_sample(plb_op_id op, const plb_sample *sample, bool grown, tally *t) {
    static const plb_dtype floats[] = {PLB_F32, PLB_BF16, PLB_F16, PLB_F64};
    for (int f = 0; f < 4; f++) {
        device_case c = {.t = {.op = op, .table = plb_op_of(op), .sample = sample}};
        if (!op_case_exists(sample, floats[f]) || (grown && f > 1)) continue;
        for (int k = 0; k < sample->n_in; k++) {
            c.t.in[k] = sample->in[k];
            if (c.t.in[k].dtype == PLB_F32) c.t.in[k].dtype = floats[f];
            if (sample->absent >> k & 1) c.t.in[k] = (plb_type){.dtype = PLB_DTYPE_COUNT};
        }
        if (grown) device_case_grow(&c);
        run_case(&c, t);
    }
}

// Depthwise convolutions at sizes that reach whole vectors of channels, tails of strips and several
// blocks, with every padding that the own kernels tell apart.
static void run_depthwise(plb_op_id op, tally *t) {
    static const int64_t channels[] = {40, 264, 12}, sides[] = {13, 8, 7};
    t->only = "depthwise";
    for (int i = 0; i < 24; i++) {
        const int64_t k = i % 2 ? 5 : 3, stride = 1 + i / 2 % 2,
                      pad = i / 4 % 2 ? k / 2 : k / 2 - 1;
        const int64_t c = channels[i / 8], h = sides[i / 8], w = h + 1;
        plb_conv_attrs attrs = plb_conv_uniform(2, stride, pad, 1, c);
        const int64_t oh = (h + 2 * pad - k) / stride + 1, ow = (w + 2 * pad - k) / stride + 1;
        const plb_type x = PLB_T(3, c, h, w), f = PLB_T(c, 1, k, k), y = PLB_T(3, c, oh, ow);
        plb_sample s = {.name = "depthwise", .in = {x, f, PLB_T(c), y}, .n_in = 4, .attrs = &attrs};
        if (op == PLB_OP_conv) {
            attrs.epilogue = (plb_epilogue){PLB_ACT_CLAMP, -1, 2};
        } else {
            const bool input = op == PLB_OP_conv_input_grad;
            s.n_in = 2;
            s.in[0] = input ? y : x, s.in[1] = input ? f : y;
            for (int a = 0; a < 2; a++) attrs.extent[a] = input ? (a ? w : h) : k;
        }
        run_sample(op, &s, false, t);
    }
    t->only = NULL;
}

// First convolutions of networks for images: tiles that reach over the edges, both paddings, with
// and without what an epilogue has.
static void run_images(plb_op_id op, tally *t) {
    if (op != PLB_OP_conv) return;
    t->only = "image";
    for (int i = 0; i < 4; i++) {
        const int64_t h = i % 2 ? 35 : 16, w = i % 2 ? 70 : 37, pad = i % 2 ? 3 : 2;
        plb_conv_attrs attrs = plb_conv_uniform(2, 2, pad, 1, 1);
        if (i < 2) attrs.epilogue.activation = PLB_ACT_RELU;
        plb_sample s = {.name = "image",
                        .in = {PLB_T(2, 3, h, w), PLB_T(64, 3, 7, 7), PLB_T(64)},
                        .n_in = i < 2 ? 3 : 2,
                        .attrs = &attrs};
        run_sample(op, &s, false, t);
    }
    t->only = NULL;
}

// Images whose blocks of pixels become channels, with filters that fill no whole number of blocks.
static void run_stems(plb_op_id op, tally *t) {
    if (op == PLB_OP_conv_input_grad) return;
    t->only = "stem";
    for (int i = 0; i < 2; i++) {
        const int64_t k = i ? 5 : 11, stride = i ? 3 : 4, pad = i ? 1 : 2;
        const int64_t h = i ? 17 : 35, w = h + 2;
        const int64_t oh = (h + 2 * pad - k) / stride + 1, ow = (w + 2 * pad - k) / stride + 1;
        const plb_type x = PLB_T(2, 3, h, w), f = PLB_T(16, 3, k, k), y = PLB_T(2, 16, oh, ow);
        plb_conv_attrs attrs = plb_conv_uniform(2, stride, pad, 1, 1);
        plb_sample s = {.name = "stem", .in = {x, f, PLB_T(16)}, .n_in = 3, .attrs = &attrs};
        if (op == PLB_OP_conv_weight_grad) {
            s.n_in = 2, s.in[1] = y;
            attrs.extent[0] = attrs.extent[1] = k;
        }
        run_sample(op, &s, false, t);
    }
    t->only = NULL;
}

// Convolutions of few pixels: chunks of several taps, tiles that reach over the edges, sums that
// are split over clusters, and deeper than what is under way at a time.
static void run_tiles(plb_op_id op, tally *t) {
    static const struct {
        int64_t n, c, side, k, kernel, stride, pad, dilation;
    } shapes[] = {{1, 40, 9, 36, 3, 1, 1, 1},   {2, 16, 11, 64, 3, 2, 1, 1},
                  {1, 512, 7, 132, 1, 1, 0, 1}, {1, 264, 7, 40, 3, 1, 1, 1},
                  {3, 24, 20, 100, 3, 1, 2, 2}, {1, 8, 40, 260, 1, 2, 0, 1}};
    if (op != PLB_OP_conv) return;
    t->only = "tile";
    for (int i = 0; i < 6; i++) {
        plb_conv_attrs attrs =
            plb_conv_uniform(2, shapes[i].stride, shapes[i].pad, shapes[i].dilation, 1);
        const int64_t k = shapes[i].kernel, side = shapes[i].side;
        const int64_t out =
            (side + 2 * shapes[i].pad - shapes[i].dilation * (k - 1) - 1) / shapes[i].stride + 1;
        if (i % 3) attrs.epilogue = (plb_epilogue){i % 3 == 1 ? PLB_ACT_RELU : PLB_ACT_SILU, 0, 0};
        plb_sample s = {.name = "tile",
                        .in = {PLB_T(shapes[i].n, shapes[i].c, side, side),
                               PLB_T(shapes[i].k, shapes[i].c, k, k), PLB_T(shapes[i].k),
                               PLB_T(shapes[i].n, shapes[i].k, out, out)},
                        .n_in = i == 0  ? 2
                                : i < 3 ? 3
                                        : 4,
                        .attrs = &attrs};
        run_sample(op, &s, false, t);
    }
    t->only = NULL;
}

static void tell_gaps(plb_op_id op, const tally *t) {
    for (int d = 0; d < PLB_DTYPE_COUNT && getenv("PLB_TEST_GAPS"); d++) {
        if (t->cases[d] == t->ran[d]) continue;
        const plb_kernel *const *kernels = device.backend->kernels(op);
        printf("gap: %s %s: %d of %d samples have a kernel%s\n", plb_op_of(op)->name,
               plb_dtype_name((plb_dtype)d), t->ran[d], t->cases[d],
               kernels[0] ? "" : ", none is listed");
    }
}

static void kernels_agree_with_references(void) {
    if (!device.device) SKIP(missing);
    for (int op = 0; op < PLB_OP_COUNT; op++) {
        const plb_op *table = plb_op_of((plb_op_id)op);
        tally t = {0};
        if (!table || table->flags & PLB_OP_FRAME || !table->ref || !is_mine((plb_op_id)op))
            continue;
        if (sanitized()) {
            const plb_kernel *const *own = device.backend->kernels((plb_op_id)op);
            if (table->n_samples && own[0] && !own[0]->choices) {
                run_sample((plb_op_id)op, &table->samples[0], false, &t);
            }
            run_tiles((plb_op_id)op, &t);
            continue;
        }
        const int64_t begin_ns = plb_now_ns();
        int part, of;
        for (int i = 0; i < table->n_samples; i++) {
            if (!sample_is_mine((plb_op_id)op, i)) continue;
            run_sample((plb_op_id)op, &table->samples[i], false, &t);
            if (!heavy((plb_op_id)op) && i < 2) {
                run_sample((plb_op_id)op, &table->samples[i], true, &t);
            }
        }
        tell_time("kernels", (plb_op_id)op, begin_ns);
        if (heavy((plb_op_id)op) && sample_is_mine((plb_op_id)op, table->n_samples)) {
            run_depthwise((plb_op_id)op, &t);
            run_images((plb_op_id)op, &t);
            run_stems((plb_op_id)op, &t);
            run_tiles((plb_op_id)op, &t);
        }
        if (heavy((plb_op_id)op) && sharded(&part, &of)) continue; // the others' samples count too
        tell_gaps((plb_op_id)op, &t);
        const plb_kernel *const *kernels = device.backend->kernels((plb_op_id)op);
        for (int i = 0; kernels[i]; i++) {
            CHECK_SAY(t.kernels[i] > 0, "%s: %s took no sample", table->name, kernels[i]->name);
        }
    }
}

// ---------------------------------------------------------------------------- programs
enum { STREAM_WEIGHT = 100 };

// An op between inputs and a weighted sum of its outputs, with the gradients of its inputs.
typedef struct op_program {
    op_case c;
    plb_model *model;
    plb_graph *graph;
} op_program;

static plb_value weighted_sum(op_program *p, plb_value y, int k) {
    plb_type type = plb_value_type(p->graph, y);
    int64_t n = plb_shape_count(&type.shape);
    double *numbers = plb_alloc_array((size_t)n + 1, sizeof *numbers);
    for (int64_t i = 0; i < n; i++) {
        double u = op_case_uniform(op_case_key(&p->c), (uint64_t)(STREAM_WEIGHT + k), i);
        plb_store_f64(numbers, type.dtype, i, 2 * u - 1);
    }
    plb_value weight = plb_constant(p->graph, type.dtype, &type.shape, numbers);
    plb_free(numbers);
    return plb_sum(p->graph, plb_cast(p->graph, plb_mul(p->graph, y, weight), PLB_F32), 0, false);
}

static void add_outputs(op_program *p, plb_value first, const plb_value *in) {
    plb_value loss = PLB_NONE, wrt[PLB_SAMPLE_INPUTS], grad[PLB_SAMPLE_INPUTS];
    char name[16];
    int n = 0;
    for (int k = 0; k < p->c.n_out; k++) {
        snprintf(name, sizeof name, "out%d", k);
        plb_output(p->graph, name, first + k);
        if (!plb_dtype_is_float(p->c.out_type[k].dtype)) continue;
        plb_value term = weighted_sum(p, first + k, k);
        loss = loss == PLB_NONE ? term : plb_add(p->graph, loss, term);
    }
    if (p->c.sample->no_gradient || p->c.op->flags & PLB_OP_NO_GRAD || loss == PLB_NONE) return;
    for (int k = 0; k < p->c.n_in; k++) {
        bool refused = p->c.sample->no_gradient_of >> k & 1;
        bool real = p->c.in[k].data && plb_dtype_is_float(p->c.in_type[k].dtype);
        if (real && !refused) wrt[n++] = in[k];
    }
    if (n) plb_gradients(p->graph, loss, wrt, n, grad);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "grad%d", i);
        if (grad[i] != PLB_NONE) plb_output(p->graph, name, grad[i]);
    }
}

static plb_status build_program(op_program *p) {
    plb_value in[PLB_SAMPLE_INPUTS];
    char name[16];
    p->model = plb_model_new();
    PLB_TRY(plb_model_program(p->model, "test", &p->graph));
    for (int k = 0; k < p->c.n_in; k++) {
        snprintf(name, sizeof name, "in%d", k);
        in[k] = p->c.in[k].data
                    ? plb_input(p->graph, name, p->c.in_type[k].dtype, &p->c.in_type[k].shape)
                    : PLB_NONE;
    }
    plb_value first = plb_emit(p->graph, p->c.id, in, p->c.n_in, p->c.sample->attrs);
    if (first != PLB_NONE) add_outputs(p, first, in);
    return plb_graph_status(p->graph);
}

static plb_status run_program(const op_program *p, const plb_plan_options *options,
                              plb_plan **out) {
    char name[16];
    PLB_TRY(plb_plan_new(p->graph, options, out));
    for (int k = 0; k < p->c.n_in; k++) {
        plb_tensor t;
        if (!p->c.in[k].data) continue;
        snprintf(name, sizeof name, "in%d", k);
        PLB_TRY(plb_plan_input(*out, name, &t));
        PLB_TRY(plb_tensor_copy(&t, &p->c.in[k]));
    }
    return plb_plan_run(*out);
}

static void compare_program(const op_program *p, const char *level, plb_plan *plan,
                            plb_plan *truth) {
    device_case c = {.t = {.op = p->c.id, .table = p->c.op, .sample = p->c.sample}};
    memcpy(c.t.in, p->c.in_type, sizeof c.t.in);
    memcpy(c.t.out, p->c.out_type, sizeof c.t.out);
    for (int i = 0; i < p->graph->n_outputs; i++) {
        const char *name = p->graph->outputs[i].name;
        plb_tensor got, want;
        double g = 0, w = 0;
        CHECK_OK(plb_plan_output(plan, name, &got));
        CHECK_OK(plb_plan_output(truth, name, &want));
        double tolerance = 4 * device_case_tolerance(&c, p->c.in, &want, got.dtype);
        int64_t at = device_differs(&got, &want, tolerance, &g, &w);
        CHECK_SAY(at < 0, "%s, %s, %s, level %s: %s element %lld: %.9g, expected %.9g within %.2g",
                  p->c.op->name, p->c.sample->name, plb_dtype_name(p->c.dtype), level, name,
                  (long long)at, g, w, tolerance);
    }
}

// 1: ran at all levels; 0: refused by name.
static int run_levels(const op_program *p, plb_plan *truth) {
    static const char *const names[] = {
        [PLB_LEVEL_PLAN] = "plan", [PLB_LEVEL_INTERP] = "interp", [PLB_LEVEL_REPLAY] = "replay"};
    int ran = 1;
    for (int level = 0; level < 3; level++) {
        plb_plan_options options = {
            .level = (plb_level)level, .device = "cuda", .no_tuning = true, .threads = 1};
        plb_plan *plan = NULL;
        plb_status status = run_program(p, &options, &plan);
        if (status == PLB_EUNSUPPORTED) {
            if (getenv("PLB_TEST_GAPS")) {
                printf("gap: %s, %s, %s, level %s: %s\n", p->c.op->name, p->c.sample->name,
                       plb_dtype_name(p->c.dtype), names[level], plb_error_text());
            }
            ran = 0;
        } else {
            CHECK_SAY(status == PLB_OK, "%s, %s, %s, level %s: %s", p->c.op->name,
                      p->c.sample->name, plb_dtype_name(p->c.dtype), names[level],
                      plb_error_text());
        }
        if (!status) compare_program(p, names[level], plan, truth);
        plb_plan_free(plan);
    }
    return ran;
}

static int run_program_case(plb_op_id op, const plb_sample *sample, plb_dtype dtype) {
    op_program p = {0};
    plb_plan *truth = NULL;
    const plb_plan_options f64 = {.f64 = true, .threads = 1, .no_tuning = true};
    int ran = 0;
    if (!op_case_exists(sample, dtype)) return 0;
    if (op_case_open(&p.c, op, sample, dtype, 0) == PLB_OK && build_program(&p) == PLB_OK &&
        run_program(&p, &f64, &truth) == PLB_OK) {
        ran = run_levels(&p, truth);
    }
    plb_plan_free(truth);
    plb_model_free(p.model);
    op_case_close(&p.c);
    return ran;
}

static void programs_agree_at_every_level(void) {
    int ran = 0;
    if (!device.device) SKIP(missing);
    if (sanitized()) SKIP("under a sanitizer kernels alone");
    for (int op = 0; op < PLB_OP_COUNT; op++) {
        const plb_op *table = plb_op_of((plb_op_id)op);
        if (!table || table->flags & (PLB_OP_FRAME | PLB_OP_RANDOM) || !table->ref) continue;
        if (op == PLB_OP_fused || op == PLB_OP_reorder || !is_mine((plb_op_id)op)) continue;
        const int64_t begin_ns = plb_now_ns();
        for (int i = 0; i < table->n_samples; i++) {
            if (!sample_is_mine((plb_op_id)op, i)) continue;
            ran += run_program_case((plb_op_id)op, &table->samples[i], PLB_F32);
            if (i == 0) ran += run_program_case((plb_op_id)op, &table->samples[0], PLB_BF16);
        }
        tell_time("programs", (plb_op_id)op, begin_ns);
    }
    CHECK(ran > 0 || getenv("PLB_TEST_OP") || getenv("PLB_TEST_SHARD"));
}

int main(void) {
    static const check_test tests[] = {
        {"kernels agree with references", kernels_agree_with_references},
        {"programs agree at every level", programs_agree_at_every_level},
    };
    if (test_device_open("cuda:0", &device) != PLB_OK) {
        snprintf(missing, sizeof missing, "%s", plb_error_text());
        device.device = NULL;
    }
    int failed = check_main(tests, sizeof tests / sizeof *tests);
    test_device_close(&device);
    return failed;
}
