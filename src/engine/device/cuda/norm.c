// SPDX-License-Identifier: Apache-2.0
// Batch normalisation, forward (in training and with given statistics) and gradient. Channels last
// goes by rows, split over the device; other layouts by one block a channel.
#include "engine/device/cuda/kernels/norm.h"
#include "base/core/status.h"
#include "engine/device/cuda/own.h"
#include "engine/ops/norm.h"

// The operands like x: x, the second one, a residual or mask, dx, the masked dy.
typedef struct norm_operands {
    const plb_tensor *t[PLB_NORM_OPERANDS];
} norm_operands;

static norm_operands operands_of(const plb_query *q) {
    norm_operands o = {{&q->in[0]}};
    const bool grad = q->op == PLB_OP_batch_norm_grad;
    const int extra = q->op == PLB_OP_batch_norm ? 3 : 5;
    o.t[1] = grad ? &q->in[1] : &q->out[0];
    if (q->n_in > extra && !plb_own_absent(&q->in[extra])) o.t[2] = &q->in[extra];
    if (grad) o.t[3] = &q->out[0];
    if (grad && q->n_out > 3) o.t[4] = &q->out[3];
    return o;
}

static const char *refuse(const plb_query *q) {
    const char *why = plb_own_refuse(q);
    if (why) return why;
    if (plb_shape_count(&q->in[0].shape) == 0) return "empty";
    const norm_operands o = operands_of(q);
    plb_own_planes planes;
    for (int k = 0; k < PLB_NORM_OPERANDS; k++) {
        if (o.t[k] && !plb_own_planes_of(o.t[k], &planes)) return "the spatial axes have gaps";
    }
    for (int k = 0; k < q->n_in; k++) {
        if (plb_own_absent(&q->in[k]) || q->in[k].shape.rank != 1) continue;
        if (!plb_own_is_plain(&q->in[k])) return "an operand [C] has gaps";
    }
    return NULL;
}

static bool by_rows(const norm_operands *o) {
    for (int k = 0; k < PLB_NORM_OPERANDS; k++) {
        if (o->t[k] && !plb_own_channels_last(o->t[k])) return false;
    }
    return true;
}

static plb_norm_params params_of(const plb_query *q, const norm_operands *o) {
    const plb_norm_attrs *attrs = q->attrs;
    const plb_epilogue *e = &attrs->epilogue;
    const bool grad = q->op == PLB_OP_batch_norm_grad, given = q->op != PLB_OP_batch_norm;
    plb_norm_params p = {.eps = attrs->eps,
                         .act = plb_own_act((int)e->activation, e->alpha, e->beta),
                         .gamma_type = (int)q->in[grad ? 2 : 1].dtype,
                         .beta_type = (int)q->in[2].dtype,
                         .mean_type = given ? (int)q->in[3].dtype : 0,
                         .variance_type = given ? (int)q->in[4].dtype : 0};
    plb_own_planes planes;
    for (int k = 0; k < PLB_NORM_OPERANDS; k++) {
        if (!o->t[k] || !plb_own_planes_of(o->t[k], &planes)) continue;
        for (int i = 0; i < 3; i++) p.stride[k][i] = planes.stride[i];
        p.n = (int32_t)planes.n, p.c = (int32_t)planes.c, p.s = (int32_t)planes.s;
    }
    p.rows = (int64_t)p.n * p.s;
    return p;
}

// Blocks of `columns` x rows threads over vectors of `width` channels. `rows_each`: of a thread, at
// least; `waves`: blocks for each multiprocessor, at most.
static plb_cuda_grid rows_grid(const plb_query *q, const plb_norm_params *p, int width,
                               int rows_each, int waves) {
    const int vectors = (p->c + width - 1) / width;
    const int columns = vectors <= 64 ? vectors : 32;
    const int rows = PLB_NORM_THREADS / columns;
    const int across = (vectors + columns - 1) / columns;
    const int64_t per_block = (int64_t)rows * rows_each;
    int64_t down = (p->rows + per_block - 1) / per_block;
    const int64_t most = (int64_t)q->device->sm_count * waves / across + 1;
    if (down > most) down = most;
    if (down > 65535) down = 65535;
    return (plb_cuda_grid){.blocks = {(unsigned)across, (unsigned)down},
                           .threads = {(unsigned)columns, (unsigned)rows}};
}

enum { SUMS_ROWS = 8, SUMS_WAVES = 4, APPLY_ROWS = 4, APPLY_WAVES = 8 };

typedef struct names {
    const char *sums, *finish, *apply; // sums NULL: nothing to sum up
} names;

static plb_status add_steps(const plb_query *q, plb_own *own, plb_own_list *list,
                            const plb_norm_params *p, int width, const names *n) {
    const plb_dtype dtype = q->in[0].dtype;
    if (n->sums) {
        plb_cuda_grid sums = rows_grid(q, p, width, SUMS_ROWS, SUMS_WAVES);
        sums.blocks[1] = (unsigned)p->splits;
        PLB_TRY(plb_own_add(own, list, n->sums, dtype, sums));
        const unsigned blocks = (unsigned)((p->c + PLB_NORM_FINISH - 1) / PLB_NORM_FINISH);
        plb_cuda_grid finish = {.blocks = {blocks}, .threads = {PLB_NORM_FINISH, PLB_NORM_FINISH}};
        PLB_TRY(plb_own_add(own, list, n->finish, dtype, finish));
    }
    return plb_own_add(own, list, n->apply, dtype, rows_grid(q, p, width, APPLY_ROWS, APPLY_WAVES));
}

static plb_status prepare_rows(const plb_query *q, plb_own *own, const plb_norm_params *p) {
    static const names wide[] = {
        {"norm_sums_wide", "norm_finish", "norm_apply_wide"},
        {"norm_grad_sums_wide", "norm_grad_finish", "norm_grad_apply_wide"},
        {NULL, NULL, "norm_infer_wide"},
    };
    static const names any[] = {
        {"norm_sums", "norm_finish", "norm_apply"},
        {"norm_grad_sums", "norm_grad_finish", "norm_grad_apply"},
        {NULL, NULL, "norm_infer"},
    };
    const int kind = q->op == PLB_OP_batch_norm ? 0 : q->op == PLB_OP_batch_norm_grad ? 1 : 2;
    const int width = 16 / (int)plb_dtype_size(q->in[0].dtype);
    PLB_TRY(add_steps(q, own, &own->any, p, 1, &any[kind]));
    return p->c % width ? PLB_OK : add_steps(q, own, &own->aligned, p, width, &wide[kind]);
}

static plb_status prepare_planes(const plb_query *q, plb_own *own, const plb_norm_params *p) {
    const char *name = q->op == PLB_OP_batch_norm        ? "norm_plane"
                       : q->op == PLB_OP_batch_norm_grad ? "norm_grad_plane"
                                                         : "norm_infer_plane";
    const int threads =
        p->rows < PLB_NORM_PLANE_THREADS ? (int)(p->rows + 31) / 32 * 32 : PLB_NORM_PLANE_THREADS;
    plb_cuda_grid grid = {.blocks = {(unsigned)p->c}, .threads = {(unsigned)threads}};
    return plb_own_add(own, &own->any, name, q->in[0].dtype, grid);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    const norm_operands o = operands_of(q);
    plb_norm_params p = params_of(q, &o);
    const bool rows = by_rows(&o);
    const int width = 16 / (int)plb_dtype_size(q->in[0].dtype);
    const plb_cuda_grid sums = rows_grid(q, &p, p.c % width ? 1 : width, SUMS_ROWS, SUMS_WAVES);
    if (rows) p.splits = (int32_t)sums.blocks[1];
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    const double count = (double)plb_shape_count(&q->in[0].shape);
    const double size = (double)plb_dtype_size(q->in[0].dtype);
    out->flops = (q->op == PLB_OP_batch_norm        ? 7
                  : q->op == PLB_OP_batch_norm_grad ? 11
                                                    : 4) *
                 count;
    if (rows && q->op != PLB_OP_batch_norm_infer) {
        const size_t vectors = 2 * (size_t)p.splits + 4;
        const size_t wide = q->in[0].dtype == PLB_F64 ? 8 : 4;
        out->workspace_bytes = vectors * (size_t)p.c * wide;
    }
    // What the second pass reads again.
    if (q->op == PLB_OP_batch_norm) out->bytes += count * size;
    if (q->op == PLB_OP_batch_norm_grad) out->bytes += (q->n_in > 5 ? 3 : 2) * count * size;
    return plb_own_end(out, rows ? prepare_rows(q, own, &p) : prepare_planes(q, own, &p));
}

const plb_kernel plb_cuda_kernel_norm = {
    .name = "rows", .op = PLB_OP_batch_norm, .refuse = refuse, .prepare = prepare};
