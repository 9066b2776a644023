// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention (Vaswani et al. 2017), the part of it between the projections:
//
//   y[b,l,h,:] = softmax over s of (scale q[b,h,l,:] . k[b,h,s,:] + mask[b,h,l,s]) v[b,h,s,:]
//
// Inputs q[B,H,L,D], k[B,H,S,D], v[B,H,S,E] and a mask that broadcasts to [B,H,L,S], or none.
// The result y[B,L,H,E] lies as the projection behind it reads it: its last two axes are one.
#include <math.h>

#include "base/core/status.h"
#include "engine/ops/pointwise.h"
#include "engine/ops/spatial.h"

enum { Q, K, V, MASK };

static plb_status check_heads(const plb_signature *s) {
    const plb_shape *q = &s->in[Q].shape, *k = &s->in[K].shape, *v = &s->in[V].shape;
    if (q->rank != 4 || k->rank != 4 || v->rank != 4) {
        return plb_fail(PLB_EINVAL, "attention: expected rank 4, found %d, %d and %d", q->rank,
                        k->rank, v->rank);
    }
    plb_shape want_k = plb_shape_of(q->dim[0], q->dim[1], k->dim[2], q->dim[3]);
    plb_shape want_v = plb_shape_of(q->dim[0], q->dim[1], k->dim[2], v->dim[3]);
    PLB_TRY(plb_expect_shape(&s->in[K], &want_k, "attention", "k"));
    return plb_expect_shape(&s->in[V], &want_v, "attention", "v");
}

static plb_status infer(plb_signature *s) {
    PLB_TRY(plb_expect_floats(s, "attention", 0, 3));
    PLB_TRY(check_heads(s));
    const plb_shape *q = &s->in[Q].shape, *v = &s->in[V].shape;
    if (s->n_in > MASK && !plb_type_absent(&s->in[MASK])) {
        plb_shape scores = plb_shape_of(q->dim[0], q->dim[1], q->dim[2], v->dim[2]), both;
        PLB_TRY(plb_shape_broadcast(&s->in[MASK].shape, &scores, &both));
        if (!plb_shape_equal(&both, &scores)) {
            return plb_fail(PLB_EINVAL, "attention: the mask is wider than the scores");
        }
    }
    s->out[0] =
        (plb_type){s->in[Q].dtype, plb_shape_of(q->dim[0], q->dim[2], q->dim[1], v->dim[3])};
    return PLB_OK;
}

// With scores S and P = softmax(S): dV = P^T dY, dS = softmax's gradient at dY V^T,
// dQ = scale dS K, dK = scale dS^T Q.
static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    const plb_attention_attrs attrs = *(const plb_attention_attrs *)plb_node_attrs(graph, node);
    const double scale = attrs.scale;
    const plb_matmul_attrs plain = {0}, left = {.trans_a = 1}, right = {.trans_b = 1};
    plb_value q = plb_node_in(graph, node, Q), k = plb_node_in(graph, node, K);
    plb_value v = plb_node_in(graph, node, V), mask = plb_node_in(graph, node, MASK);
    plb_value dy = plb_transpose(graph, dout[0], 1, 2);
    plb_value scores = plb_affine(graph, plb_matmul(graph, q, k, &right), scale, 0);
    if (mask != PLB_NONE) scores = plb_add(graph, scores, mask);
    plb_value p = plb_softmax(graph, scores, 3);
    if (attrs.zero_masked) {
        plb_value zero = plb_scalar(graph, plb_value_type(graph, p).dtype, 0);
        p = plb_where(graph, plb_isnan(graph, p), zero, p);
    }
    if (needed[V]) din[V] = plb_matmul(graph, p, dy, &left);
    plb_value dp = plb_matmul(graph, dy, v, &right);
    plb_value ds =
        plb_emit(graph, PLB_OP_softmax_grad, (plb_value[]){dp, p}, 2, &(plb_axis_attrs){.axis = 3});
    if (needed[Q]) din[Q] = plb_affine(graph, plb_matmul(graph, ds, k, &plain), scale, 0);
    if (needed[K]) din[K] = plb_affine(graph, plb_matmul(graph, ds, q, &left), scale, 0);
    if (mask != PLB_NONE && needed[MASK]) {
        plb_shape shape = plb_value_shape(graph, mask);
        din[MASK] = plb_sum_to(graph, ds, &shape);
    }
}

static double flops(const plb_signature *s) {
    const plb_shape *q = &s->in[Q].shape, *v = &s->in[V].shape;
    double scores = (double)(q->dim[0] * q->dim[1] * q->dim[2] * v->dim[2]);
    return scores * (2.0 * (double)(q->dim[3] + v->dim[3]) + 5);
}

// The score of query l and key s of a head.
static double score(const plb_call *call, int64_t b, int64_t h, int64_t l, int64_t s) {
    const plb_tensor *q = &call->in[Q], *k = &call->in[K];
    double sum = 0;
    for (int64_t d = 0; d < q->shape.dim[3]; d++) {
        sum += plb_tensor_load(q, (int64_t[]){b, h, l, d}) *
               plb_tensor_load(k, (int64_t[]){b, h, s, d});
    }
    sum *= ((const plb_attention_attrs *)call->attrs)->scale;
    if (call->n_in <= MASK || !call->in[MASK].data) return sum;
    const plb_tensor *mask = &call->in[MASK];
    plb_shape all =
        plb_shape_of(q->shape.dim[0], q->shape.dim[1], q->shape.dim[2], k->shape.dim[2]);
    int64_t at = plb_offset_broadcast(mask, &all, (int64_t[]){b, h, l, s});
    return sum + plb_load_f64(mask->data, mask->dtype, at);
}

// One row of y: all scores are taken three times, as nothing is kept.
static void attend(const plb_call *call, int64_t b, int64_t h, int64_t l) {
    const plb_tensor *v = &call->in[V];
    const int64_t keys = v->shape.dim[2];
    double max = -INFINITY, sum = 0;
    for (int64_t s = 0; s < keys; s++) max = fmax(max, score(call, b, h, l, s));
    for (int64_t s = 0; s < keys; s++) sum += exp(score(call, b, h, l, s) - max);
    const plb_attention_attrs *attrs = call->attrs;
    const int64_t seen = attrs->zero_masked && isnan(sum) ? 0 : keys;
    for (int64_t e = 0; e < v->shape.dim[3]; e++) {
        double y = 0;
        for (int64_t s = 0; s < seen; s++) {
            y += exp(score(call, b, h, l, s) - max) / sum *
                 plb_tensor_load(v, (int64_t[]){b, h, s, e});
        }
        plb_tensor_store(&call->out[0], (int64_t[]){b, l, h, e}, y);
    }
}

static plb_status ref(const plb_call *call) {
    const int64_t *y = call->out[0].shape.dim;
    for (int64_t i = 0; i < y[0] * y[1] * y[2]; i++) {
        attend(call, i / (y[1] * y[2]), i % y[2], i / y[2] % y[1]);
    }
    return PLB_OK;
}

static void describe(const void *attrs, plb_strbuf *text) {
    const plb_attention_attrs *a = attrs;
    plb_describe_number(text, "scale", a->scale);
    plb_describe_number(text, "zero_masked", (double)a->zero_masked);
}

plb_value plb_attention(plb_graph *graph, plb_value q, plb_value k, plb_value v, plb_value mask,
                        const plb_attention_attrs *attrs) {
    return plb_emit(graph, PLB_OP_attention, (plb_value[]){q, k, v, mask}, mask == PLB_NONE ? 3 : 4,
                    attrs);
}

static const plb_attention_attrs half = {0.5, 0}, third = {1.0 / 3, 1};
static const plb_sample samples[] = {
    {.name = "self",
     .in = {PLB_T(2, 3, 4, 5), PLB_T(2, 3, 4, 5), PLB_T(2, 3, 4, 5)},
     .n_in = 3,
     .attrs = &half},
    {.name = "other keys, a mask of keys",
     .in = {PLB_T(2, 2, 3, 4), PLB_T(2, 2, 5, 4), PLB_T(2, 2, 5, 3), PLB_T(2, 1, 1, 5)},
     .n_in = 4,
     .attrs = &third},
    {.name = "a mask of pairs",
     .in = {PLB_T(1, 2, 4, 3), PLB_T(1, 2, 4, 3), PLB_T(1, 2, 4, 3), PLB_T(4, 4)},
     .n_in = 4,
     .attrs = &half},
    {.name = "one query",
     .in = {PLB_T(1, 2, 1, 8), PLB_T(1, 2, 7, 8), PLB_T(1, 2, 7, 8), PLB_T(1, 2, 1, 7)},
     .n_in = 4,
     .attrs = &third},
};

const plb_op plb_op_attention = {.name = "attention",
                                 .flags = PLB_OP_STRIDED,
                                 .attrs_bytes = sizeof(plb_attention_attrs),
                                 .min_in = 3,
                                 .max_in = 4,
                                 .infer = infer,
                                 .grad = grad,
                                 .flops = flops,
                                 .ref = ref,
                                 .describe = describe,
                                 PLB_SAMPLES(samples)};
