// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum as PyTorch's torch.optim.SGD computes it:
//   g = g + weight_decay w
//   m = momentum m + (1 - dampening) g           (the first step: m = g, as m starts from zero)
//   w = w - lr (nesterov ? g + momentum m : m)
// Inputs w, g, m (or none), lr, and unscale where the loss was scaled: g is multiplied by it first,
// and 0 leaves w and m as they are. Outputs w', m'. A kernel may write them over w and m.
#include "base/core/status.h"
#include "engine/ops/op.h"
#include "plumb/ops.h"

enum { W, G, M, LR, UNSCALE };

static plb_status check_like(const plb_type *w, const plb_type *other, const char *name) {
    if (other->dtype == w->dtype && plb_shape_equal(&other->shape, &w->shape)) return PLB_OK;
    char s[160], t[160];
    return plb_fail(PLB_EINVAL, "sgd: expected %s like w, %s %s, found %s %s", name,
                    plb_dtype_name(w->dtype), plb_shape_format(&w->shape, s, sizeof s),
                    plb_dtype_name(other->dtype), plb_shape_format(&other->shape, t, sizeof t));
}

static plb_status infer(plb_signature *s) {
    const plb_sgd_attrs *a = s->attrs;
    bool momentum = !plb_type_absent(&s->in[M]);
    if (!plb_dtype_is_float(s->in[W].dtype)) return plb_fail(PLB_EINVAL, "sgd: floats only");
    PLB_TRY(check_like(&s->in[W], &s->in[G], "g"));
    if (momentum) PLB_TRY(check_like(&s->in[W], &s->in[M], "m"));
    if (!momentum && a->momentum != 0) return plb_fail(PLB_EINVAL, "sgd: momentum without m");
    if (a->nesterov && (a->momentum <= 0 || a->dampening != 0)) {
        return plb_fail(PLB_EINVAL, "sgd: Nesterov needs momentum and no dampening");
    }
    if (plb_shape_count(&s->in[LR].shape) != 1) return plb_fail(PLB_EINVAL, "sgd: lr: one number");
    if (s->n_in > UNSCALE && plb_shape_count(&s->in[UNSCALE].shape) != 1) {
        return plb_fail(PLB_EINVAL, "sgd: unscale: one number");
    }
    s->out[0] = s->in[W];
    s->out[1] = s->in[W];
    s->n_out = momentum ? 2 : 1;
    return PLB_OK;
}

static double flops(const plb_signature *s) {
    return 6 * (double)plb_shape_count(&s->in[W].shape);
}

static plb_status ref(const plb_call *call) {
    const plb_sgd_attrs *a = call->attrs;
    const plb_tensor *w = &call->in[W], *g = &call->in[G], *m = &call->in[M];
    double lr = plb_load_f64(call->in[LR].data, call->in[LR].dtype, 0);
    double unscale =
        call->n_in > UNSCALE ? plb_load_f64(call->in[UNSCALE].data, call->in[UNSCALE].dtype, 0) : 1;
    int64_t count = plb_shape_count(&w->shape);
    if (unscale == 0) {
        if (m->data) PLB_TRY(plb_tensor_copy(&call->out[1], m));
        return plb_tensor_copy(&call->out[0], w);
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t at = plb_tensor_offset_linear(w, i);
        double old = plb_load_f64(w->data, w->dtype, at);
        double grad = plb_load_f64(g->data, g->dtype, plb_tensor_offset_linear(g, i));
        grad = unscale * grad + a->weight_decay * old;
        double step = grad;
        if (m->data) {
            int64_t place = plb_tensor_offset_linear(m, i);
            double moment =
                a->momentum * plb_load_f64(m->data, m->dtype, place) + (1 - a->dampening) * grad;
            plb_tensor *out = &call->out[1];
            plb_store_f64(out->data, out->dtype, plb_tensor_offset_linear(out, i), moment);
            step = a->nesterov ? grad + a->momentum * moment : moment;
        }
        plb_tensor *out = &call->out[0];
        plb_store_f64(out->data, out->dtype, plb_tensor_offset_linear(out, i), old - lr * step);
    }
    return PLB_OK;
}

static void describe(const void *attrs, plb_strbuf *text) {
    const plb_sgd_attrs *a = attrs;
    plb_strbuf_printf(text,
                      "\"momentum\":%.17g,\"dampening\":%.17g,\"weight_decay\":%.17g,"
                      "\"nesterov\":%s",
                      a->momentum, a->dampening, a->weight_decay, a->nesterov ? "true" : "false");
}

static const plb_sgd_attrs momentum = {.momentum = 0.9, .weight_decay = 1e-2};
static const plb_sgd_attrs dampened = {.momentum = 0.5, .dampening = 0.25};
static const plb_sgd_attrs nesterov = {.momentum = 0.9, .nesterov = 1};
static const plb_sgd_attrs bare = {.weight_decay = 0.1};
#define CASE(title, settings, missing)                                                    \
    {                                                                                     \
        .name = title, .in = {PLB_T(3, 7), PLB_T(3, 7), PLB_T(3, 7), {.dtype = PLB_F32}}, \
        .n_in = 4, .attrs = settings, .absent = missing, .no_gradient = true              \
    }
#define SCALED(title, settings, missing, unscale)                                              \
    {                                                                                          \
        .name = title,                                                                         \
        .in = {PLB_T(3, 7), PLB_T(3, 7), PLB_T(3, 7), {.dtype = PLB_F32}, {.dtype = PLB_F32}}, \
        .n_in = 5, .attrs = settings, .absent = missing, .no_gradient = true,                  \
        .low = {[G] = -100, [UNSCALE] = unscale}, .high = {                                    \
            [G] = 100,                                                                         \
            [UNSCALE] = unscale                                                                \
        }                                                                                      \
    }
static const plb_sample samples[] = {
    CASE("momentum", &momentum, 0),
    CASE("dampened", &dampened, 0),
    CASE("nesterov", &nesterov, 0),
    CASE("bare", &bare, 1u << M),
    SCALED("of a scaled loss", &momentum, 0, 0.01),
    SCALED("of a scaled loss, bare", &bare, 1u << M, 0.01),
    SCALED("left out", &nesterov, 0, 0),
};

const plb_op plb_op_sgd = {.name = "sgd",
                           .flags = PLB_OP_NO_GRAD,
                           .attrs_bytes = sizeof(plb_sgd_attrs),
                           .min_in = 4,
                           .max_in = 5,
                           .overwrites = {{W, 0}, {M, 1}},
                           .n_overwrites = 2,
                           .optional_in = 1u << M,
                           .infer = infer,
                           .flops = flops,
                           .ref = ref,
                           .describe = describe,
                           PLB_SAMPLES(samples)};

plb_value plb_sgd(plb_graph *graph, plb_value w, plb_value g, plb_value m, plb_value lr,
                  const plb_sgd_attrs *attrs) {
    plb_value in[] = {w, g, m, lr};
    return plb_emit(graph, PLB_OP_sgd, in, 4, attrs);
}

plb_value plb_sgd_scaled(plb_graph *graph, plb_value w, plb_value g, plb_value m, plb_value lr,
                         plb_value unscale, const plb_sgd_attrs *attrs) {
    plb_value in[] = {w, g, m, lr, unscale};
    return plb_emit(graph, PLB_OP_sgd, in, 5, attrs);
}
