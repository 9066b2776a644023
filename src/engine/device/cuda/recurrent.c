// SPDX-License-Identifier: Apache-2.0
// Recurrent layers of plain operands, one launch a layer.
#include "engine/device/cuda/kernels/recurrent.h"

#include "base/core/status.h"
#include "engine/device/cuda/own.h"
#include "plumb/ops.h"

enum { X, R, SHARED_MOST = 96 << 10 };

_Static_assert(PLB_RNN_TANH == 0 && PLB_RNN_RELU == 1 && PLB_GRU == 2 && PLB_GRU_RESET_AFTER == 3 &&
                   PLB_LSTM == 4,
               "the kernel knows layers by these numbers");

// h, c or the reset h, and the products, of so many sequences.
static size_t shared_bytes(const plb_query *q, int sequences) {
    const size_t hidden = (size_t)q->in[R].shape.dim[1], rows = (size_t)q->in[R].shape.dim[0];
    const size_t each = q->in[X].dtype == PLB_F64 ? sizeof(double) : sizeof(float);
    return (size_t)sequences * (2 * hidden + rows) * each;
}

static const char *refuse(const plb_query *q) {
    for (int k = 0; k < q->n_in; k++) {
        if (!plb_own_is_plain(&q->in[k])) return "plain only";
    }
    for (int k = 0; k < q->n_out; k++) {
        if (!plb_own_is_plain(&q->out[k])) return "plain only";
    }
    if (shared_bytes(q, 1) > SHARED_MOST) return "states too large for shared memory";
    return plb_own_refuse(q);
}

static plb_status add_step(const plb_query *q, plb_own *own, const plb_recurrent_params *p) {
    const bool few = p->batch > 1 && shared_bytes(q, PLB_RECURRENT_TOGETHER) <= SHARED_MOST;
    const int each = few ? PLB_RECURRENT_TOGETHER : 1;
    const plb_cuda_grid grid = {.blocks = {(unsigned)((p->batch + each - 1) / each)},
                                .threads = {PLB_RECURRENT_THREADS},
                                .shared_bytes = (unsigned)shared_bytes(q, each)};
    if (p->batch == 0) return PLB_OK;
    return plb_own_add(own, &own->any, few ? "recurrent_few" : "recurrent_one", q->in[X].dtype,
                       grid);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    const plb_recurrent_attrs *attrs = q->attrs;
    const plb_recurrent_params p = {.steps = (int32_t)q->in[X].shape.dim[0],
                                    .batch = (int32_t)q->in[X].shape.dim[1],
                                    .hidden = (int32_t)q->in[R].shape.dim[1],
                                    .gates = plb_recurrent_gates(attrs->kind),
                                    .kind = (int32_t)attrs->kind,
                                    .reverse = attrs->reverse != 0};
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    out->flops = (double)plb_shape_count(&q->in[X].shape) * (2.0 * p.hidden + 8);
    out->optional_outputs = 7;
    return plb_own_end(out, add_step(q, own, &p));
}

const plb_kernel plb_cuda_kernel_recurrent = {
    .name = "one launch", .op = PLB_OP_recurrent, .refuse = refuse, .prepare = prepare};
