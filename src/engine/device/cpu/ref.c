// SPDX-License-Identifier: Apache-2.0
// The last resort: the op's own definition as a kernel.
#include "base/core/status.h"
#include "engine/device/cpu/cpu.h"

static const char *refuse(const plb_query *q) {
    return plb_op_of(q->op)->ref ? NULL : "the op has no reference: executors run it themselves";
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const plb_op *op = state;
    return op->ref(call);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    (void)choice;
    const plb_op *op = plb_op_of(q->op);
    *out = (plb_launch){.state = (void *)op, .run = run};
    plb_type in[16], outs[PLB_MAX_OUTPUTS];
    plb_signature s = {
        .attrs = q->attrs, .n_in = q->n_in, .n_out = q->n_out, .in = in, .out = outs};
    for (int i = 0; i < q->n_in && i < 16; i++) in[i] = (plb_type){q->in[i].dtype, q->in[i].shape};
    for (int i = 0; i < q->n_out; i++) outs[i] = (plb_type){q->out[i].dtype, q->out[i].shape};
    if (op->flops && q->n_in <= 16) out->flops = op->flops(&s);
    return PLB_OK;
}

const plb_kernel plb_cpu_ref = {
    .name = "ref", .op = PLB_OP_COUNT, .refuse = refuse, .prepare = prepare};
