// SPDX-License-Identifier: Apache-2.0
// Adam (Kingma, Ba: "Adam: A Method for Stochastic Optimization", 2015) and, decoupled, AdamW
// (Loshchilov, Hutter 2019), as PyTorch's torch.optim computes them:
//   coupled: g = g + weight_decay w              decoupled: w = w - lr weight_decay w
//   m = m + (1 - beta1) (g - m)                  v = beta2 v + (1 - beta2) g g
//   w = w - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// Inputs w, g, m, v, lr, t, and unscale where the loss was scaled: g is multiplied by it first, and
// 0 leaves w, m and v as they are. Outputs w', m', v'. t counts from 1.
#include <math.h>

#include "base/core/status.h"
#include "engine/ops/op.h"
#include "plumb/ops.h"

enum { W, G, M, V, LR, STEP, UNSCALE };

static plb_status infer(plb_signature *s) {
    static const char *const names[] = {"w", "g", "m", "v"};
    if (!plb_dtype_is_float(s->in[W].dtype)) return plb_fail(PLB_EINVAL, "adam: floats only");
    for (int i = G; i <= V; i++) {
        const plb_type *t = &s->in[i];
        if (t->dtype == s->in[W].dtype && plb_shape_equal(&t->shape, &s->in[W].shape)) continue;
        return plb_fail(PLB_EINVAL, "adam: expected %s like w", names[i]);
    }
    for (int i = LR; i < s->n_in; i++) {
        static const char *const scalars[] = {"lr", "step", "unscale"};
        if (plb_shape_count(&s->in[i].shape) == 1) continue;
        return plb_fail(PLB_EINVAL, "adam: %s: one number", scalars[i - LR]);
    }
    for (int i = 0; i < 3; i++) s->out[i] = s->in[W];
    s->n_out = 3;
    return PLB_OK;
}

static double flops(const plb_signature *s) {
    return 14 * (double)plb_shape_count(&s->in[W].shape);
}

typedef struct scalars {
    double decay, step_size, root_scale; // root_scale: sqrt(1 - beta2^t)
} scalars;

static scalars scalars_of(const plb_call *call) {
    const plb_adam_attrs *a = call->attrs;
    double lr = plb_load_f64(call->in[LR].data, call->in[LR].dtype, 0);
    double t = plb_load_f64(call->in[STEP].data, call->in[STEP].dtype, 0);
    return (scalars){.decay = a->decoupled ? 1 - lr * a->weight_decay : 1,
                     .step_size = lr / (1 - pow(a->beta1, t)),
                     .root_scale = sqrt(1 - pow(a->beta2, t))};
}

static double at(const plb_tensor *t, int64_t i) {
    return plb_load_f64(t->data, t->dtype, plb_tensor_offset_linear(t, i));
}

static void put(const plb_tensor *t, int64_t i, double value) {
    plb_store_f64(t->data, t->dtype, plb_tensor_offset_linear(t, i), value);
}

static plb_status ref(const plb_call *call) {
    const plb_adam_attrs *a = call->attrs;
    const scalars s = scalars_of(call);
    const double unscale = call->n_in > UNSCALE ? at(&call->in[UNSCALE], 0) : 1;
    for (int k = 0; k < 3 && unscale == 0; k++) {
        static const int kept[] = {W, M, V};
        PLB_TRY(plb_tensor_copy(&call->out[k], &call->in[kept[k]]));
    }
    if (unscale == 0) return PLB_OK;
    int64_t count = plb_shape_count(&call->in[W].shape);
    for (int64_t i = 0; i < count; i++) {
        double w = at(&call->in[W], i), g = unscale * at(&call->in[G], i);
        if (a->decoupled) {
            w *= s.decay;
        } else {
            g += a->weight_decay * w;
        }
        double m = at(&call->in[M], i), v = at(&call->in[V], i);
        m += (1 - a->beta1) * (g - m);
        v = a->beta2 * v + (1 - a->beta2) * g * g;
        w -= s.step_size * (m / (sqrt(v) / s.root_scale + a->eps));
        put(&call->out[0], i, w);
        put(&call->out[1], i, m);
        put(&call->out[2], i, v);
    }
    return PLB_OK;
}

static void describe(const void *attrs, plb_strbuf *text) {
    const plb_adam_attrs *a = attrs;
    plb_strbuf_printf(text,
                      "\"beta1\":%.17g,\"beta2\":%.17g,\"eps\":%.17g,\"weight_decay\":%.17g,"
                      "\"decoupled\":%s",
                      a->beta1, a->beta2, a->eps, a->weight_decay, a->decoupled ? "true" : "false");
}

static const plb_adam_attrs adam = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
static const plb_adam_attrs decayed = {
    .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1};
static const plb_adam_attrs adamw = {
    .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01, .decoupled = 1};
#define CASE(title, settings)                                                       \
    {                                                                               \
        .name = title, .in = {PLB_T(3, 7), PLB_T(3, 7),        PLB_T(3, 7),         \
                              PLB_T(3, 7), {.dtype = PLB_F32}, {.dtype = PLB_F32}}, \
        .n_in = 6, .attrs = settings, .low = {[V] = 0, [LR] = 1e-3, [STEP] = 1},    \
        .high = {[V] = 1, [LR] = 1e-1, [STEP] = 5}, .no_gradient = true             \
    }
#define SCALED(title, settings, unscale)                                                      \
    {                                                                                         \
        .name = title,                                                                        \
        .in = {PLB_T(3, 7),        PLB_T(3, 7),        PLB_T(3, 7),       PLB_T(3, 7),        \
               {.dtype = PLB_F32}, {.dtype = PLB_F32}, {.dtype = PLB_F32}},                   \
        .n_in = 7, .attrs = settings, .no_gradient = true,                                    \
        .low = {[G] = -100, [V] = 0, [LR] = 1e-3, [STEP] = 1, [UNSCALE] = unscale}, .high = { \
            [G] = 100,                                                                        \
            [V] = 1,                                                                          \
            [LR] = 1e-1,                                                                      \
            [STEP] = 5,                                                                       \
            [UNSCALE] = unscale                                                               \
        }                                                                                     \
    }
static const plb_sample samples[] = {
    CASE("adam", &adam),           CASE("decayed", &decayed),
    CASE("adamw", &adamw),         SCALED("of a scaled loss", &decayed, 0.01),
    SCALED("left out", &adamw, 0),
};

const plb_op plb_op_adam = {.name = "adam",
                            .flags = PLB_OP_NO_GRAD,
                            .attrs_bytes = sizeof(plb_adam_attrs),
                            .min_in = 6,
                            .max_in = 7,
                            .overwrites = {{W, 0}, {M, 1}, {V, 2}},
                            .n_overwrites = 3,
                            .infer = infer,
                            .flops = flops,
                            .ref = ref,
                            .describe = describe,
                            PLB_SAMPLES(samples)};

plb_value plb_adam(plb_graph *graph, plb_value w, plb_value g, plb_value m, plb_value v,
                   plb_value lr, plb_value step, const plb_adam_attrs *attrs) {
    plb_value in[] = {w, g, m, v, lr, step};
    return plb_emit(graph, PLB_OP_adam, in, 6, attrs);
}

plb_value plb_adam_scaled(plb_graph *graph, plb_value w, plb_value g, plb_value m, plb_value v,
                          plb_value lr, plb_value step, plb_value unscale,
                          const plb_adam_attrs *attrs) {
    plb_value in[] = {w, g, m, v, lr, step, unscale};
    return plb_emit(graph, PLB_OP_adam, in, 7, attrs);
}
