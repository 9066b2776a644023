// SPDX-License-Identifier: Apache-2.0
// Batch normalisation with given statistics, of f32: a factor and a term for each channel, worked
// out in f64 at each run, and the pointwise program x factor + term (+ residual), activated.
#include <math.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/cpu.h"
#include "engine/ops/fused.h"

extern const plb_kernel plb_cpu_pointwise;

enum { X, GAMMA, BETA, MEAN, VARIANCE, RESIDUAL };

typedef struct affine {
    plb_launch inner;
    plb_tensor in[4]; // x, factor, term, residual
    int n_in;
    int64_t channels;
    double eps;
} affine;

static bool has_residual(const plb_query *q) {
    return q->n_in > RESIDUAL && q->in[RESIDUAL].dtype != PLB_DTYPE_COUNT;
}

static plb_fused_attrs program_of(const plb_query *q) {
    const plb_epilogue *e = &((const plb_norm_attrs *)q->attrs)->epilogue;
    const int n_in = has_residual(q) ? 4 : 3;
    plb_fused_attrs p = {.n_in = n_in, .n_instr = 2, .n_out = 1};
    p.instr[0] = (plb_fused_instr){.op = PLB_OP_mul, .operand = {0, 1}};
    p.instr[1] = (plb_fused_instr){.op = PLB_OP_add, .operand = {n_in, 2}};
    if (n_in == 4) {
        p.instr[2] = (plb_fused_instr){.op = PLB_OP_add, .operand = {n_in + 1, 3}};
        p.n_instr = 3;
    }
    if (e->activation != PLB_ACT_NONE) {
        const bool relu = e->activation == PLB_ACT_RELU;
        p.instr[p.n_instr] = (plb_fused_instr){.op = relu ? PLB_OP_relu : PLB_OP_clamp,
                                               .operand = {n_in + p.n_instr - 1},
                                               .alpha = relu ? 0 : e->alpha,
                                               .beta = relu ? 0 : e->beta};
        p.n_instr++;
    }
    p.out[0] = n_in + p.n_instr - 1;
    return p;
}

static size_t vector_bytes(const affine *s) {
    return ((size_t)s->channels * sizeof(float) + 63) / 64 * 64;
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    affine *s = state;
    char *memory = call->workspace;
    float *factor = (float *)memory, *term = (float *)(memory + vector_bytes(s));
    const float *gamma = call->in[GAMMA].data, *beta = call->in[BETA].data;
    const float *mean = call->in[MEAN].data, *variance = call->in[VARIANCE].data;
    for (int64_t c = 0; c < s->channels; c++) {
        const double scale = (double)gamma[c] / sqrt((double)variance[c] + s->eps);
        factor[c] = (float)scale;
        term[c] = (float)((double)beta[c] - (double)mean[c] * scale);
    }
    plb_tensor in[4] = {s->in[0], s->in[1], s->in[2], s->in[3]};
    in[0].data = call->in[X].data, in[1].data = factor, in[2].data = term;
    if (s->n_in == 4) in[3].data = call->in[RESIDUAL].data;
    plb_call inner = {.n_in = s->n_in,
                      .n_out = 1,
                      .in = in,
                      .out = call->out,
                      .workspace = memory + 2 * vector_bytes(s),
                      .threads = call->threads};
    return s->inner.run(s->inner.state, &inner, stream);
}

static void release(void *state) {
    affine *s = state;
    if (s->inner.release) s->inner.release(s->inner.state);
    plb_free(s);
}

static const char *refuse(const plb_query *q) {
    const plb_epilogue *epilogue = &((const plb_norm_attrs *)q->attrs)->epilogue;
    if (epilogue->activation == PLB_ACT_SILU) return "ReLU and clamp are the only activations";
    for (int k = 0; k < q->n_in; k++) {
        if (q->in[k].dtype == PLB_DTYPE_COUNT) continue;
        if (q->in[k].dtype != PLB_F32) return "f32 only";
        if (q->in[k].layout.kind == PLB_LAYOUT_BLOCKED) return "no blocked layouts";
    }
    return q->out[0].layout.kind == PLB_LAYOUT_BLOCKED ? "no blocked layouts" : NULL;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "affine has one variant, found %s", choice);
    affine *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    const plb_fused_attrs program = program_of(q);
    plb_shape narrow = {.rank = q->in[X].shape.rank - 1};
    for (int i = 0; i < narrow.rank; i++) narrow.dim[i] = i ? 1 : q->in[X].shape.dim[1];
    s->channels = narrow.dim[0];
    s->eps = ((const plb_norm_attrs *)q->attrs)->eps;
    s->n_in = program.n_in;
    s->in[0] = q->in[X];
    s->in[1] = s->in[2] = plb_tensor_dense(NULL, PLB_F32, &narrow, (plb_layout){0});
    if (s->n_in == 4) s->in[3] = q->in[RESIDUAL];
    plb_query inner = {.op = PLB_OP_fused,
                       .attrs = &program,
                       .n_in = s->n_in,
                       .n_out = 1,
                       .in = s->in,
                       .out = q->out,
                       .threads = q->threads};
    plb_status status = plb_cpu_pointwise.prepare(&inner, "", &s->inner);
    if (status) {
        plb_free(s);
        return status;
    }
    *out = (plb_launch){.state = s,
                        .release = release,
                        .run = run,
                        .workspace_bytes = 2 * vector_bytes(s) + s->inner.workspace_bytes,
                        .flops = s->inner.flops,
                        .bytes = s->inner.bytes};
    return PLB_OK;
}

const plb_kernel plb_cpu_batch_norm_infer = {
    .name = "affine", .op = PLB_OP_batch_norm_infer, .refuse = refuse, .prepare = prepare};
