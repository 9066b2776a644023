// SPDX-License-Identifier: Apache-2.0
// Convolutions and products of 8-bit integers by oneDNN. The library builds multipliers into a
// primitive, so that the one which runs is made when weights are packed: once, as both are
// constant. y's zero point joins the bias, bias + y_zero / multiplier, and costs nothing.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/cpu.h"
#include "engine/device/cpu/dnnl.h"
#include "engine/ops/int8.h"

typedef struct int8_state {
    plb_dnnl *primitive;
    plb_dnnl_spec spec;
    plb_int8_attrs attrs;
    plb_tensor first, second, result, bias; // what the spec points to
    int64_t channels;
    size_t workspace_bytes, weights_bytes; // weights: packed, rounded up; the bias stands behind
} int8_state;

static const char *refuse_operands(const plb_query *q) {
    const plb_layout_kind kind = q->in[PLB_INT8_X].layout.kind;
    if (!plb_dnnl_has_int8()) return "no instructions for products of 8 bits, or no oneDNN";
    const unsigned folded = 1u << PLB_INT8_W | 1u << PLB_INT8_MULTIPLIER | 1u << PLB_INT8_BIAS;
    if ((q->constant & folded) != folded) return "weights and scales that change";
    for (int k = 0; k < q->n_in; k++) {
        if (!plb_tensor_is_dense(&q->in[k])) return "an operand has gaps";
        if (k && q->in[k].layout.kind != PLB_LAYOUT_PLAIN) return "plain weights only";
        if (plb_shape_count(&q->in[k].shape) == 0) return "an operand is empty";
        if (k > PLB_INT8_W && q->in[k].dtype != PLB_F32) return "multipliers in f32 only";
    }
    if (!plb_layout_equal(q->in[PLB_INT8_X].layout, q->out[0].layout)) return "layouts differ";
    if (!plb_tensor_is_dense(&q->out[0])) return "the result has gaps";
    bool last = kind == PLB_LAYOUT_NHWC || q->in[PLB_INT8_X].shape.rank < 3;
    return last ? NULL : "channels last only";
}

static void fill(const plb_query *q, int8_state *s) {
    s->attrs = *(const plb_int8_attrs *)q->attrs;
    s->first = q->in[PLB_INT8_X], s->second = q->in[PLB_INT8_W];
    s->bias = q->in[PLB_INT8_BIAS], s->result = q->out[0];
    s->channels = q->in[PLB_INT8_BIAS].shape.dim[0];
    s->spec = (plb_dnnl_spec){.kind = q->op == PLB_OP_int8_conv ? PLB_DNNL_CONV : PLB_DNNL_MATMUL,
                              .first = &s->first,
                              .second = &s->second,
                              .result = &s->result,
                              .bias = &s->bias,
                              .conv = &s->attrs.conv,
                              .int8 = &s->attrs,
                              .pack = true};
}

// A primitive with the multipliers of `scale`, or with any.
static plb_status make(int8_state *s, const float *scale, plb_dnnl **out) {
    s->spec.scale = scale;
    return plb_dnnl_new(&s->spec, out);
}

static plb_status make_any(int8_state *s, plb_dnnl **out) {
    float *ones = plb_alloc_array((size_t)s->channels, sizeof *ones);
    if (!ones) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    for (int64_t i = 0; i < s->channels; i++) ones[i] = 1;
    plb_status status = make(s, ones, out);
    plb_free(ones);
    return status;
}

// oneDNN 2.6 packs the weights of its convolutions by gemm (of groups; others have better ones) by
// a transposition. That of 8 x 8 elements is a path of its own, which forgets to sum them up for
// the zero point, and for the offset that makes i8 values u8.
static bool packs_wrongly(const int8_state *s, const plb_dnnl *p) {
    const bool compensated = s->first.dtype == PLB_I8 || s->attrs.x_zero != 0;
    const bool square = s->second.shape.dim[0] == 8 && plb_shape_count(&s->second.shape) == 64;
    const char *implementation = plb_dnnl_implementation(p), gemm[] = "x64:gemm_s8";
    return compensated && square && s->spec.kind == PLB_DNNL_CONV &&
           strncmp(implementation, gemm, sizeof gemm - 1) == 0;
}

static const char *refuse(const plb_query *q) {
    const char *reason = refuse_operands(q);
    if (reason) return reason;
    int8_state s = {0};
    plb_dnnl *p = NULL;
    fill(q, &s);
    plb_status status = make_any(&s, &p);
    const bool wrong = !status && packs_wrongly(&s, p);
    plb_dnnl_free(p);
    if (wrong) return "oneDNN packs 8 x 8 weights wrongly";
    return status == PLB_EUNSUPPORTED ? "oneDNN has no implementation" : NULL;
}

static plb_status pack(void *state, const plb_call *call, void *packed, plb_stream *stream) {
    (void)stream;
    int8_state *s = state;
    const float *scale = call->in[PLB_INT8_MULTIPLIER].data;
    const float *bias = call->in[PLB_INT8_BIAS].data;
    float *to = (float *)((char *)packed + s->weights_bytes);
    const double shift = s->attrs.dtype == PLB_F32 ? 0 : (double)s->attrs.y_zero;
    for (int64_t k = 0; k < s->channels; k++) {
        to[k] = (float)((double)bias[k] + shift / (double)scale[k]);
    }
    plb_dnnl *fresh = NULL;
    PLB_TRY(make(s, scale, &fresh));
    const bool fits = plb_dnnl_packed_bytes(fresh) == plb_dnnl_packed_bytes(s->primitive) &&
                      plb_dnnl_workspace_bytes(fresh) <= s->workspace_bytes;
    plb_dnnl_free(s->primitive);
    s->primitive = fresh;
    if (!fits) return plb_fail(PLB_EBROKEN, "oneDNN: other sizes with other scales");
    if (!plb_dnnl_packed_bytes(fresh)) return PLB_OK; // their own order is the best
    return plb_dnnl_pack(fresh, call->in[PLB_INT8_W].data, packed);
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const int8_state *s = state;
    bool packed = plb_dnnl_packed_bytes(s->primitive) > 0;
    plb_dnnl_args args = {.first = call->in[PLB_INT8_X].data,
                          .second = packed ? call->packed : call->in[PLB_INT8_W].data,
                          .bias = (const char *)call->packed + s->weights_bytes,
                          .result = call->out[0].data,
                          .workspace = call->workspace};
    return plb_dnnl_run(s->primitive, &args);
}

static void release(void *state) {
    int8_state *s = state;
    plb_dnnl_free(s->primitive);
    plb_free(s);
}

static double flops_of(const plb_query *q) {
    plb_type in[4], out = {q->out[0].dtype, q->out[0].shape};
    for (int k = 0; k < 4; k++) in[k] = (plb_type){q->in[k].dtype, q->in[k].shape};
    plb_signature s = {.attrs = q->attrs, .n_in = 4, .n_out = 1, .in = in, .out = &out};
    return plb_op_of(q->op)->flops(&s);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "oneDNN has one variant, found %s", choice);
    int8_state *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    *s = (int8_state){0};
    fill(q, s);
    plb_status status = make_any(s, &s->primitive);
    if (status) {
        release(s);
        return status;
    }
    s->weights_bytes = (plb_dnnl_packed_bytes(s->primitive) + 63) & ~(size_t)63;
    s->workspace_bytes = plb_dnnl_workspace_bytes(s->primitive);
    *out = (plb_launch){.state = s,
                        .release = release,
                        .pack = pack,
                        .run = run,
                        .workspace_bytes = s->workspace_bytes,
                        .packed_bytes = s->weights_bytes + (size_t)s->channels * sizeof(float),
                        .packed_inputs = 1u << PLB_INT8_MULTIPLIER | 1u << PLB_INT8_BIAS,
                        .flops = flops_of(q)};
    if (s->weights_bytes) out->packed_inputs |= 1u << PLB_INT8_W;
    return PLB_OK;
}

const plb_kernel plb_cpu_int8_dnnl = {
    .name = "onednn", .op = PLB_OP_int8_conv, .refuse = refuse, .prepare = prepare};
