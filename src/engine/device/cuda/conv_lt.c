// SPDX-License-Identifier: Apache-2.0
// A convolution of 1x1 with stride 1, channels last, is a matrix product over the pixels:
//   y[P,K] = x[P,C] w[K,C]^T      dx[P,C] = dy[P,K] w[K,C]      dw[K,C] = dy[P,K]^T x[P,C]
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/gemm.h"

typedef struct pointwise {
    plb_gemm_spec spec;
    plb_gemm *lt;
    plb_op_id op;
} pointwise;

// Whether the bytes of a value are those of [N, spatial…, C].
static bool channels_last(const plb_tensor *t) {
    plb_tensor same = *t;
    same.layout = (plb_layout){PLB_LAYOUT_NHWC, 0};
    return plb_tensor_is_dense(&same);
}

static plb_status read_query(const plb_query *q, pointwise *p) {
    const plb_conv_attrs *attrs = q->attrs;
    plb_conv_shape s;
    PLB_TRY(plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, attrs, &s));
    int64_t pixels = s.n * s.in[0] * s.in[1] * s.in[2];
    if (!plb_conv_is_product(&s)) return plb_fail(PLB_EUNSUPPORTED, "1x1 with stride 1 only");
    p->op = q->op;
    p->spec = (plb_gemm_spec){.dtype = q->out[0].dtype,
                              .m = pixels,
                              .n = s.k,
                              .k = s.c,
                              .trans_b = true,
                              .batch = 1,
                              .tf32 = q->math == PLB_MATH_TF32 && q->out[0].dtype == PLB_F32,
                              .deterministic = q->deterministic};
    if (q->op == PLB_OP_conv) {
        p->spec.bias = plb_operand_given(q, PLB_IN_BIAS);
        p->spec.residual = plb_operand_given(q, PLB_IN_RESIDUAL);
        p->spec.epilogue = attrs->epilogue;
    } else if (q->op == PLB_OP_conv_input_grad) {
        p->spec.n = s.c, p->spec.k = s.k, p->spec.trans_b = false;
    } else {
        p->spec.m = s.k, p->spec.n = s.c, p->spec.k = pixels;
        p->spec.trans_a = true, p->spec.trans_b = false;
    }
    return PLB_OK;
}

static const char *refuse(const plb_query *q) {
    const char *reason = plb_gemm_missing();
    if (!reason) reason = plb_operands_refuse(q);
    if (reason) return reason;
    pointwise p;
    if (read_query(q, &p)) return "1x1 with stride 1 only";
    for (int k = 0; k < q->n_in; k++) {
        bool wide = k != PLB_IN_BIAS && plb_operand_given(q, k);
        if (wide && !channels_last(&q->in[k])) return "channels last only";
    }
    return channels_last(&q->out[0]) ? NULL : "channels last only";
}

static int choices(const plb_query *q, char out[][PLB_CHOICE_BYTES], int max) {
    pointwise p;
    return read_query(q, &p) ? 0 : plb_gemm_choices(q->device, &p.spec, out, max);
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    pointwise *p = state;
    const bool swapped = p->op == PLB_OP_conv_weight_grad; // dy is input 1 and comes first
    plb_gemm_args args = {.a = call->in[swapped ? 1 : 0].data,
                          .b = call->in[swapped ? 0 : 1].data,
                          .bias = p->spec.bias ? call->in[PLB_IN_BIAS].data : NULL,
                          .residual = p->spec.residual ? call->in[PLB_IN_RESIDUAL].data : NULL,
                          .d = call->out[0].data,
                          .workspace = call->workspace};
    return plb_gemm_run(p->lt, &args, stream);
}

static void release(void *state) {
    pointwise *p = state;
    plb_gemm_free(p->lt);
    plb_free(p);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    pointwise *p = plb_alloc(sizeof *p);
    if (!p) return plb_fail(PLB_ENOMEM, "out of memory for a convolution");
    plb_status status = read_query(q, p);
    if (!status) status = plb_gemm_new(q->device, &p->spec, choice, &p->lt);
    if (status) {
        release(p);
        return status;
    }
    *out = (plb_launch){.state = p,
                        .release = release,
                        .run = run,
                        .workspace_bytes = plb_gemm_workspace_bytes(p->lt),
                        .flops = plb_operands_flops(q),
                        .bytes = plb_operands_bytes(q)};
    return PLB_OK;
}

const plb_kernel plb_cuda_kernel_conv_lt = {.name = "cublaslt",
                                            .op = PLB_OP_conv,
                                            .refuse = refuse,
                                            .choices = choices,
                                            .prepare = prepare,
                                            .tuned = true};
