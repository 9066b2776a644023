// SPDX-License-Identifier: Apache-2.0
// The pooling kernels where test_kernels.c has no sample: numbers of channels around the widths of
// vectors, positions that a maximum really has, ties and NaNs, outputs that nobody reads, windows
// as large as the plane, one and several threads. The truth is the op's own reference.
#include "check.h"
#include "engine/device/cpu/cpu.h"
#include "plumb/ops.h"
#include "plumb/plumb.h"

typedef struct pool_case {
    const char *name;
    int64_t n, h, w; // of x
    plb_pool_attrs attrs;
} pool_case;

static const pool_case cases[] = {
    {"2x2", 3, 24, 24, {.kernel = {2, 2}}},
    {"3x3 stride 2 padded",
     2,
     23,
     30,
     {.kernel = {3, 3}, .stride = {2, 2}, .pad_begin = {1, 1}, .pad_end = {1, 1}}},
    {"5x5 stride 1 padded",
     1,
     13,
     9,
     {.kernel = {5, 5},
      .stride = {1, 1},
      .pad_begin = {2, 2},
      .pad_end = {2, 2},
      .count_include_pad = 1}},
    {"gaps between windows", 2, 17, 20, {.kernel = {2, 1}, .stride = {5, 3}}},
    {"ceil mode", 1, 56, 30, {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = 1}},
    {"the whole plane", 5, 7, 7, {.kernel = {7, 7}}},
    {"dilated", 1, 20, 19, {.kernel = {3, 2}, .stride = {1, 2}, .dilation = {2, 3}}},
};
static const int64_t channels[] = {1, 3, 8, 10, 16, 20, 37, 74};

// What one op makes of its operands, by its kernel and by its reference.
typedef struct outcome {
    plb_tensor got[2], want[2];
    int n;
    bool ran;
} outcome;

static plb_tensor tensor_new(const plb_type *type, plb_layout layout) {
    size_t size = plb_layout_bytes(&type->shape, type->dtype, layout);
    void *data = malloc(size + 1);
    memset(data, 0x5a, size + 1); // as f32 a large number
    return plb_tensor_dense(data, type->dtype, &type->shape, layout);
}

static void outcome_free(outcome *o) {
    for (int k = 0; k < o->n; k++) free(o->got[k].data), free(o->want[k].data);
}

static outcome compute(plb_op_id op, const void *attrs, const plb_tensor *in, int n_in, int threads,
                       bool drop_second) {
    outcome o = {0};
    plb_type types[2], out[2];
    for (int k = 0; k < n_in; k++) types[k] = (plb_type){in[k].dtype, in[k].shape};
    plb_signature s = {.attrs = attrs, .n_in = n_in, .n_out = 1, .in = types, .out = out};
    plb_status status = plb_op_of(op)->infer(&s);
    if (status) return o; // the window does not fit, or averages have no dilation
    o.n = s.n_out;
    for (int k = 0; k < o.n; k++) {
        o.got[k] = tensor_new(&out[k], in[0].layout);
        o.want[k] = tensor_new(&out[k], in[0].layout);
    }
    plb_query q = {.op = op,
                   .attrs = attrs,
                   .n_in = n_in,
                   .n_out = o.n,
                   .in = in,
                   .out = o.got,
                   .threads = threads};
    const plb_kernel *kernel = plb_backend_cpu.kernels(op)[0];
    CHECK_SAY(!kernel->refuse(&q), "%s", kernel->refuse(&q));
    plb_launch launch;
    CHECK_OK(kernel->prepare(&q, "", &launch));
    void *workspace = malloc(launch.workspace_bytes + 1), *second = o.got[1].data;
    plb_call call = {.attrs = attrs,
                     .n_in = n_in,
                     .n_out = o.n,
                     .in = in,
                     .out = o.got,
                     .workspace = workspace,
                     .threads = threads};
    if (drop_second) o.got[1].data = NULL;
    CHECK_OK(launch.run(launch.state, &call, NULL));
    o.got[1].data = second;
    launch.release(launch.state);
    free(workspace);
    call.out = o.want;
    CHECK_OK(plb_op_of(op)->ref(&call));
    o.ran = true;
    return o;
}

static void compare(const outcome *o, int k, const char *what, const char *name, int64_t c,
                    double tolerance) {
    int64_t count = plb_shape_count(&o->want[k].shape), wrong = 0;
    for (int64_t i = 0; i < count && o->ran; i++) {
        double got = plb_load_f64(o->got[k].data, o->got[k].dtype, i);
        double want = plb_load_f64(o->want[k].data, o->want[k].dtype, i);
        bool same = got == want || (isnan(got) && isnan(want));
        if (!same && !(fabs(got - want) <= tolerance)) wrong++;
    }
    CHECK_SAY(wrong == 0, "%s, output %d, %s, %d channels: %d of %d", what, k, name, (int)c,
              (int)wrong, (int)count);
}

static uint32_t random_state = 12345;

// Numbers with few values, so that there are ties; NaN and infinities here and there.
static void fill(const plb_tensor *t, bool wild) {
    int64_t count = plb_shape_count(&t->shape);
    for (int64_t i = 0; i < count; i++) {
        random_state = random_state * 1664525 + 1013904223;
        uint32_t r = random_state >> 16;
        float v = (float)(r % 64) / 16 - 2;
        if (wild && r % 97 == 0) v = NAN;
        if (wild && r % 89 == 0) v = r & 1 ? INFINITY : -INFINITY;
        ((float *)t->data)[i] = v;
    }
}

static void check_max(const pool_case *p, const plb_tensor *x, int threads, bool wild) {
    const int64_t c = x->shape.dim[1];
    outcome y = compute(PLB_OP_max_pool, &p->attrs, x, 1, threads, false);
    compare(&y, 0, "max_pool", p->name, c, 0);
    compare(&y, 1, "max_pool", p->name, c, 0);
    outcome alone = compute(PLB_OP_max_pool, &p->attrs, x, 1, threads, true);
    compare(&alone, 0, "max_pool without positions", p->name, c, 0);
    plb_tensor in[2] = {y.want[1], y.want[0]};
    plb_pool_attrs attrs = p->attrs;
    for (int i = 0; i < 2; i++) attrs.extent[i] = x->shape.dim[2 + i];
    if (y.ran && !wild) {
        outcome dx = compute(PLB_OP_max_pool_grad, &attrs, in, 2, threads, false);
        compare(&dx, 0, "max_pool_grad", p->name, c, 1e-4);
        outcome_free(&dx);
        in[1] = *x;
        outcome v = compute(PLB_OP_max_pool_take, &p->attrs, in, 2, threads, false);
        compare(&v, 0, "max_pool_take", p->name, c, 0);
        outcome_free(&v);
    }
    outcome_free(&y);
    outcome_free(&alone);
}

static void check_mean(const pool_case *p, const plb_tensor *x, int threads) {
    const int64_t c = x->shape.dim[1];
    plb_pool_attrs attrs = p->attrs;
    for (int i = 0; i < 2; i++) attrs.extent[i] = x->shape.dim[2 + i];
    outcome y = compute(PLB_OP_avg_pool, &p->attrs, x, 1, threads, false);
    compare(&y, 0, "avg_pool", p->name, c, 3e-6);
    if (y.ran) {
        outcome dx = compute(PLB_OP_avg_pool_grad, &attrs, y.want, 1, threads, false);
        compare(&dx, 0, "avg_pool_grad", p->name, c, 3e-6);
        outcome_free(&dx);
    }
    outcome_free(&y);
}

static void check_adaptive(const pool_case *p, const plb_tensor *x, int threads) {
    const int64_t c = x->shape.dim[1];
    const plb_pool_attrs to[] = {{.extent = {1, 1}}, {.extent = {3, 5}}, {.extent = {7, 2}}};
    plb_pool_attrs back = {.extent = {x->shape.dim[2], x->shape.dim[3]}};
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
        outcome y = compute(PLB_OP_adaptive_avg_pool, &to[i], x, 1, threads, false);
        compare(&y, 0, "adaptive_avg_pool", p->name, c, 3e-6);
        outcome dx = compute(PLB_OP_adaptive_avg_pool_grad, &back, y.want, 1, threads, false);
        compare(&dx, 0, "adaptive_avg_pool_grad", p->name, c, 3e-6);
        outcome_free(&y);
        outcome_free(&dx);
    }
}

static void kernels_agree_with_references(void) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t k = 0; k < 2 * sizeof channels / sizeof *channels; k++) {
            const pool_case *p = &cases[i];
            plb_layout layout = {k & 1 ? PLB_LAYOUT_NHWC : PLB_LAYOUT_PLAIN, 0};
            plb_type type = {PLB_F32, plb_shape_of(p->n, channels[k / 2], p->h, p->w)};
            plb_tensor x = tensor_new(&type, layout);
            fill(&x, true);
            check_max(p, &x, 1, true);
            fill(&x, false);
            check_max(p, &x, 3, false); // small ones stay on one thread
            check_mean(p, &x, 3);
            check_adaptive(p, &x, 3);
            free(x.data);
        }
    }
}

// Positions that are an output of the program stay although no node reads them.
static void unread_positions(void) {
    for (int kept = 0; kept < 2; kept++) {
        plb_model *model = plb_model_new();
        plb_graph *g;
        plb_plan *plan;
        plb_tensor t;
        CHECK_OK(plb_model_program(model, "p", &g));
        plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(1, 1, 2, 4));
        plb_pool_attrs attrs = {.kernel = {2, 2}};
        plb_value y = plb_max_pool(g, x, &attrs);
        plb_output(g, "y", y);
        if (kept) plb_output(g, "positions", y + 1);
        CHECK_OK(plb_plan_new(g, &(plb_plan_options){.threads = 1}, &plan));
        CHECK_OK(plb_plan_input(plan, "x", &t));
        memcpy(t.data, (float[]){1, 2, 8, 7, 4, 3, 5, 6}, 32);
        CHECK_OK(plb_plan_run(plan));
        CHECK_OK(plb_plan_output(plan, "y", &t));
        CHECK(((float *)t.data)[0] == 4 && ((float *)t.data)[1] == 8);
        if (kept) {
            CHECK_OK(plb_plan_output(plan, "positions", &t));
            CHECK(t.data && ((int32_t *)t.data)[0] == 4 && ((int32_t *)t.data)[1] == 2);
        }
        plb_plan_free(plan);
        plb_model_free(model);
    }
}

static const check_test tests[] = {
    {"kernels agree with references", kernels_agree_with_references},
    {"unread positions", unread_positions},
};
CHECK_MAIN(tests)
