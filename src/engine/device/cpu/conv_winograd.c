// SPDX-License-Identifier: Apache-2.0
// Winograd as a kernel of conv and of conv_input_grad. Which variant and blocking is fastest
// depends on shape and machine, so they are timed against each other and against oneDNN.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/cpu.h"
#include "engine/device/cpu/winograd.h"
#include "engine/ops/conv_shape.h"
#include "plumb/ops.h"

enum { BIAS = 2, RESIDUAL = 3 };

static plb_winograd_isa isa(void) {
    return plb_cpu_isa() == PLB_ISA_AVX512 ? PLB_WINOGRAD_AVX512 : PLB_WINOGRAD_AVX2;
}

static bool plain_geometry(const plb_conv_shape *s) {
    for (int i = 1; i < 3; i++) { // height, width
        if (s->kernel[i] != 3 || s->stride[i] != 1 || s->dilation[i] != 1) return false;
        if (s->pad[i] != s->pad_end[i]) return false;
    }
    return s->axes == 2 && s->groups == 1 && s->pad[1] == s->pad[2];
}

static const char *shape_of(const plb_query *q, plb_winograd_shape *out) {
    plb_conv_shape s;
    if (q->in[0].shape.rank != 4) return "two spatial axes only";
    if (plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s) != PLB_OK) {
        return "shapes do not fit";
    }
    if (!plain_geometry(&s)) {
        return "kernel 3x3, stride 1, dilation 1, one group, equal padding only";
    }
    *out = (plb_winograd_shape){.n = s.n,
                                .c = s.c,
                                .k = s.k,
                                .h = s.in[1],
                                .w = s.in[2],
                                .pad = (int)s.pad[1],
                                .rotate = q->op == PLB_OP_conv_input_grad};
    return NULL;
}

static const char *refuse(const plb_query *q) {
    if (q->no_winograd) return "--no-winograd";
    if (plb_cpu_isa() == PLB_ISA_PORTABLE) return "no AVX2";
    for (int k = 0; k < q->n_in; k++) {
        const plb_tensor *t = &q->in[k];
        if (t->dtype == PLB_DTYPE_COUNT) continue;
        if (t->dtype != PLB_F32) return "f32 only";
        if (!plb_tensor_is_dense(t)) return "an operand has gaps";
    }
    if (q->in[0].layout.kind != PLB_LAYOUT_NHWC) return "channels-last only";
    if (q->op == PLB_OP_conv &&
        ((const plb_conv_attrs *)q->attrs)->epilogue.activation == PLB_ACT_SILU) {
        return "activations that are no bounds";
    }
    plb_winograd_shape shape;
    const char *reason = shape_of(q, &shape);
    return reason ? reason : plb_winograd_refuse(&shape, isa());
}

static int choices(const plb_query *q, char out[][PLB_CHOICE_BYTES], int max) {
    plb_winograd_shape shape;
    plb_winograd_config configs[16];
    if (shape_of(q, &shape)) return 0;
    int n = plb_winograd_candidates(&shape, isa(), q->threads, configs, max < 16 ? max : 16);
    for (int i = 0; i < n; i++) {
        char text[PLB_WINOGRAD_TEXT_BYTES];
        plb_winograd_config_format(&configs[i], text);
        size_t length = strlen(text);
        if (length >= PLB_CHOICE_BYTES) return i;
        memcpy(out[i], text, length + 1);
    }
    return n;
}

static plb_status pack(void *state, const plb_call *call, void *packed, plb_stream *stream) {
    (void)stream;
    plb_winograd_pack(state, call->in[1].data, packed);
    return PLB_OK;
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const plb_epilogue *e = &((const plb_conv_attrs *)call->attrs)->epilogue;
    plb_winograd_epilogue epilogue = {.low = (float)e->alpha, .high = (float)e->beta};
    if (call->n_in > BIAS) epilogue.bias = call->in[BIAS].data;
    if (call->n_in > RESIDUAL) epilogue.residual = call->in[RESIDUAL].data;
    if (e->activation == PLB_ACT_RELU) epilogue.activation = PLB_WINOGRAD_RELU;
    if (e->activation == PLB_ACT_CLAMP) epilogue.activation = PLB_WINOGRAD_CLAMP;
    plb_winograd_run(state, call->in[0].data, call->packed, &epilogue, call->out[0].data,
                     call->workspace);
    return PLB_OK;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    plb_winograd_shape shape;
    plb_winograd_config config;
    const char *reason = shape_of(q, &shape);
    if (reason) return plb_fail(PLB_EUNSUPPORTED, "winograd: %s", reason);
    if (plb_winograd_config_parse(choice, &config) != PLB_OK) return PLB_EUNSUPPORTED;
    plb_winograd_plan *plan = plb_alloc(sizeof *plan);
    if (!plan) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    plb_status status = plb_winograd_plan_make(&shape, isa(), &config, q->threads, plan);
    if (status) {
        plb_free(plan);
        return status == PLB_EINVAL ? PLB_EUNSUPPORTED : status;
    }
    *out = (plb_launch){.state = plan,
                        .release = plb_free,
                        .pack = pack,
                        .run = run,
                        .workspace_bytes = plb_winograd_workspace_bytes(plan),
                        .packed_bytes = plb_winograd_packed_bytes(plan),
                        .packed_inputs = 1u << 1,
                        .flops = plb_winograd_flops(plan)};
    return PLB_OK;
}

const plb_kernel plb_cpu_conv_winograd = {.name = "winograd",
                                          .op = PLB_OP_conv,
                                          .refuse = refuse,
                                          .choices = choices,
                                          .prepare = prepare,
                                          .tuned = true};
