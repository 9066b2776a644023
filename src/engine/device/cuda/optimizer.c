// SPDX-License-Identifier: Apache-2.0
// sgd and adam on plain values.
#include "engine/device/cuda/kernels/optimizer.h"
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/own.h"
#include "plumb/ops.h"

enum { WAVES = 16, SGD_LR = 3, SGD_UNSCALE = 4, ADAM_LR = 4, ADAM_STEP = 5, ADAM_UNSCALE = 6 };

// The learning rate lies at its data, so a scalar of any strides will do.
static const char *refuse(const plb_query *q) {
    const int like_w = q->op == PLB_OP_sgd ? SGD_LR : ADAM_LR;
    for (int k = 0; k < like_w; k++) {
        if (!plb_own_is_plain(&q->in[k])) return "plain only";
    }
    for (int k = 0; k < q->n_out; k++) {
        if (!plb_own_is_plain(&q->out[k])) return "plain only";
    }
    for (int k = like_w; k < q->n_in; k++) {
        if (!plb_dtype_is_float(q->in[k].dtype)) return "a float learning rate and step only";
    }
    return plb_own_refuse(q);
}

static plb_optimizer_params params_of(const plb_query *q) {
    plb_optimizer_params p = {.count = plb_shape_count(&q->in[0].shape)};
    if (q->op == PLB_OP_sgd) {
        const plb_sgd_attrs *a = q->attrs;
        p.momentum = a->momentum, p.share = 1 - a->dampening, p.weight_decay = a->weight_decay;
        p.nesterov = a->nesterov != 0;
        p.lr_type = (int32_t)q->in[SGD_LR].dtype;
        if (q->n_in > SGD_UNSCALE) p.scale_type = (int32_t)q->in[SGD_UNSCALE].dtype;
    } else {
        const plb_adam_attrs *a = q->attrs;
        p.beta1 = a->beta1, p.beta2 = a->beta2, p.eps = a->eps, p.weight_decay = a->weight_decay;
        p.decoupled = a->decoupled != 0;
        p.lr_type = (int32_t)q->in[ADAM_LR].dtype;
        p.step_type = (int32_t)q->in[ADAM_STEP].dtype;
        if (q->n_in > ADAM_UNSCALE) p.scale_type = (int32_t)q->in[ADAM_UNSCALE].dtype;
    }
    return p;
}

static plb_cuda_grid grid_of(const plb_query *q, int64_t threads) {
    return (plb_cuda_grid){
        .blocks = {plb_cuda_blocks(q->device, threads, PLB_OPTIMIZER_THREADS, WAVES)},
        .threads = {PLB_OPTIMIZER_THREADS}};
}

static plb_status add_steps(const plb_query *q, plb_own *own, int64_t count) {
    const plb_dtype dtype = q->in[0].dtype;
    const bool sgd = q->op == PLB_OP_sgd;
    const int width = 16 / (int)plb_dtype_size(dtype);
    if (count == 0) return PLB_OK;
    PLB_TRY(plb_own_add(own, &own->any, sgd ? "sgd" : "adam", dtype, grid_of(q, count)));
    if (count % width) return PLB_OK;
    return plb_own_add(own, &own->aligned, sgd ? "sgd_wide" : "adam_wide", dtype,
                       grid_of(q, count / width));
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    const plb_optimizer_params p = params_of(q);
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    out->flops = (q->op == PLB_OP_sgd ? 6 : 14) * (double)p.count;
    return plb_own_end(out, add_steps(q, own, p.count));
}

// ---------------------------------------------------------------------------- many at once
typedef struct many {
    plb_device *device;
    CUfunction function;
    plb_cuda_grid grid;
    void *pieces; // on the device
} many;

static void release_many(void *state) {
    many *m = state;
    plb_cuda_free(m->device, m->pieces);
    plb_free(m);
}

static plb_status run_many(void *state, const plb_call *call, plb_stream *stream) {
    many *m = state;
    (void)call;
    return plb_cuda_launch(stream, m->function, &m->grid, (void *[]){&m->pieces});
}

static int64_t count_of(const plb_part *part) {
    return plb_shape_count(&part->call->in[0].shape);
}

static plb_optimizer_piece piece_of(const plb_part *part, int like_w, int64_t begin) {
    const plb_call *call = part->call;
    const plb_own *own = part->launch->state;
    const int64_t size = (int64_t)plb_dtype_size(call->in[0].dtype), left = count_of(part) - begin;
    plb_optimizer_piece piece = {{.fault = NULL}, {0}, 1, 0};
    memcpy(&piece.p, own->params.bytes, sizeof piece.p);
    piece.p.count = left < PLB_OPTIMIZER_CHUNK ? left : PLB_OPTIMIZER_CHUNK;
    for (int k = 0; k < call->n_in; k++) {
        const char *data = call->in[k].data;
        piece.at.in[k] = data && k < like_w ? data + begin * size : data;
        if (k < like_w) piece.aligned &= (uintptr_t)piece.at.in[k] % 16 == 0;
    }
    for (int k = 0; k < call->n_out; k++) {
        piece.at.out[k] = (char *)call->out[k].data + begin * size;
        piece.aligned &= (uintptr_t)piece.at.out[k] % 16 == 0;
    }
    return piece;
}

static plb_status send_pieces(many *m, const plb_part *parts, int n, int like_w, int64_t n_pieces) {
    const size_t bytes = (size_t)n_pieces * sizeof(plb_optimizer_piece);
    plb_optimizer_piece *pieces = plb_alloc(bytes);
    if (!pieces) return plb_fail(PLB_ENOMEM, "out of memory for optimizer steps");
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        for (int64_t begin = 0; begin < count_of(&parts[i]); begin += PLB_OPTIMIZER_CHUNK) {
            pieces[at++] = piece_of(&parts[i], like_w, begin);
        }
    }
    plb_status status = plb_cuda_alloc(m->device, bytes, &m->pieces);
    if (!status) {
        status = plb_cuda_check(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)m->pieces, pieces, bytes),
                                "copy a table");
    }
    plb_free(pieces);
    return status;
}

// One launch for the updates of all variables of a network.
static plb_status merge(plb_device *device, const plb_part *parts, int n, plb_launch *out) {
    const plb_dtype dtype = parts[0].call->in[0].dtype;
    const int n_in = parts[0].call->n_in;
    const bool is_adam = n_in > SGD_UNSCALE + 1;
    int64_t n_pieces = 0;
    for (int i = 0; i < n; i++) {
        if (parts[i].call->in[0].dtype != dtype || parts[i].call->n_in != n_in) {
            return plb_fail(PLB_EUNSUPPORTED, "cuda: optimizer steps of several kinds");
        }
        n_pieces += (count_of(&parts[i]) + PLB_OPTIMIZER_CHUNK - 1) / PLB_OPTIMIZER_CHUNK;
    }
    if (!n_pieces) return plb_fail(PLB_EUNSUPPORTED, "cuda: nothing to update");
    char name[48];
    snprintf(name, sizeof name, "plb_%s_many_%s", is_adam ? "adam" : "sgd", plb_dtype_name(dtype));
    many *m = plb_alloc(sizeof *m);
    if (!m) return plb_fail(PLB_ENOMEM, "out of memory for optimizer steps");
    *m = (many){.device = device,
                .grid = {.blocks = {(unsigned)n_pieces}, .threads = {PLB_OPTIMIZER_THREADS}}};
    plb_status status = plb_cuda_function(device, name, &m->function);
    if (!status) status = send_pieces(m, parts, n, is_adam ? ADAM_LR : SGD_LR, n_pieces);
    if (status) {
        release_many(m);
        return status;
    }
    *out = (plb_launch){.state = m, .release = release_many, .run = run_many};
    return PLB_OK;
}

const plb_kernel plb_cuda_kernel_optimizer = {
    .name = "step", .op = PLB_OP_sgd, .refuse = refuse, .prepare = prepare, .merge = merge};
