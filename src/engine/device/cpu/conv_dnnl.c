// SPDX-License-Identifier: Apache-2.0
// Convolutions and matrix products of f32 by oneDNN.
#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "engine/device/cpu/cpu.h"
#include "engine/device/cpu/dnnl.h"

enum { BIAS = 2, RESIDUAL = 3 };

static bool present(const plb_query *q, int k) {
    return k < q->n_in && q->in[k].dtype != PLB_DTYPE_COUNT;
}

static const char *refuse_common(const plb_query *q) {
#ifndef PLB_HAVE_DNNL
    return "built without oneDNN";
#endif
    for (int k = 0; k < q->n_in; k++) {
        if (!present(q, k)) continue;
        if (q->in[k].dtype != PLB_F32) return "f32 only";
        if (!plb_tensor_is_dense(&q->in[k])) return "an operand has gaps";
        if (q->in[k].layout.kind == PLB_LAYOUT_BLOCKED) return "plain or channels-last only";
        if (plb_shape_count(&q->in[k].shape) == 0) return "an operand is empty";
    }
    if (q->out[0].dtype != PLB_F32) return "f32 only";
    if (plb_shape_count(&q->out[0].shape) == 0) return "the result is empty";
    return NULL;
}

static void spec_of(const plb_query *q, plb_dnnl_spec *s) {
    *s = (plb_dnnl_spec){.first = &q->in[0],
                         .second = &q->in[1],
                         .result = &q->out[0],
                         .residual = present(q, RESIDUAL),
                         .pack = true};
    if (present(q, BIAS)) s->bias = &q->in[BIAS];
    switch (q->op) {
    case PLB_OP_conv: s->kind = PLB_DNNL_CONV; break;
    case PLB_OP_conv_input_grad: s->kind = PLB_DNNL_INPUT_GRAD; break;
    case PLB_OP_conv_weight_grad: s->kind = PLB_DNNL_WEIGHT_GRAD, s->pack = false; break;
    default: s->kind = PLB_DNNL_MATMUL; break;
    }
    if (s->kind == PLB_DNNL_MATMUL) {
        s->matmul = q->attrs;
        s->epilogue = s->matmul->epilogue;
        s->pack = q->constant >> 1 & 1u; // packing pays only when it is done once
    } else {
        s->conv = q->attrs;
        s->epilogue = s->conv->epilogue;
    }
}

// oneDNN 2.6 goes wrong with a residual where a row of the result has nothing but padding under its
// window: it leaves the bias out there, and with an activation it runs into nowhere.
static bool has_bare_rows(const plb_query *q) {
    const plb_conv_attrs *a = q->attrs;
    const plb_shape *x = &q->in[0].shape, *w = &q->in[1].shape, *y = &q->out[0].shape;
    for (int i = 0; i + 2 < y->rank; i++) {
        for (int64_t o = 0; o < y->dim[2 + i]; o++) {
            bool met = false;
            for (int64_t k = 0; k < w->dim[2 + i] && !met; k++) {
                const int64_t at = o * a->stride[i] - a->pad_begin[i] + k * a->dilation[i];
                met = at >= 0 && at < x->dim[2 + i];
            }
            if (!met) return true;
        }
    }
    return false;
}

// The library says what it cannot do when a primitive is made, so it is asked here. Where memory
// was short it is no refusal: `prepare` tries again and tells.
static const char *refuse(const plb_query *q) {
    const char *reason = refuse_common(q);
    if (reason) return reason;
    if (q->op == PLB_OP_matmul && q->in[0].shape.rank != q->in[1].shape.rank) {
        return "batch axes of different rank";
    }
    if (q->op == PLB_OP_matmul && q->in[0].shape.rank > 5) return "more than five axes";
    plb_dnnl_spec spec;
    plb_dnnl *p;
    spec_of(q, &spec);
    if (q->op == PLB_OP_conv && spec.residual && has_bare_rows(q))
        return "a row of padding, with a residual";
    plb_status status = plb_dnnl_new(&spec, &p);
    plb_dnnl_free(p);
    return status == PLB_EUNSUPPORTED ? "oneDNN has no implementation" : NULL;
}

static plb_status pack(void *state, const plb_call *call, void *packed, plb_stream *stream) {
    (void)stream;
    return plb_dnnl_pack(state, call->in[1].data, packed);
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    plb_dnnl *p = state;
    const plb_tensor *y = &call->out[0];
    bool residual = call->n_in > RESIDUAL && call->in[RESIDUAL].data;
    if (residual && call->in[RESIDUAL].data != y->data) {
        memcpy(y->data, call->in[RESIDUAL].data, plb_layout_bytes(&y->shape, y->dtype, y->layout));
    }
    plb_dnnl_args args = {
        .first = call->in[0].data, .result = y->data, .workspace = call->workspace};
    args.second = plb_dnnl_packed_bytes(p) ? call->packed : call->in[1].data;
    if (call->n_in > BIAS) args.bias = call->in[BIAS].data;
    return plb_dnnl_run(p, &args);
}

static void release(void *state) {
    plb_dnnl_free(state);
}

static double flops_of(const plb_query *q) {
    plb_type in[4], out = {q->out[0].dtype, q->out[0].shape};
    for (int k = 0; k < q->n_in && k < 4; k++) in[k] = (plb_type){q->in[k].dtype, q->in[k].shape};
    plb_signature s = {.attrs = q->attrs, .n_in = q->n_in, .n_out = 1, .in = in, .out = &out};
    return plb_op_of(q->op)->flops(&s);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "oneDNN has one variant, found %s", choice);
    plb_dnnl_spec spec;
    plb_dnnl *p;
    spec_of(q, &spec);
    PLB_TRY(plb_dnnl_new(&spec, &p));
    *out = (plb_launch){.state = p,
                        .release = release,
                        .run = run,
                        .workspace_bytes = plb_dnnl_workspace_bytes(p),
                        .packed_bytes = plb_dnnl_packed_bytes(p),
                        .flops = flops_of(q)};
    if (out->packed_bytes) {
        out->pack = pack;
        out->packed_inputs = 1u << 1;
    }
    return PLB_OK;
}

const plb_kernel plb_cpu_conv_dnnl = {
    .name = "onednn", .op = PLB_OP_conv, .refuse = refuse, .prepare = prepare};
