// SPDX-License-Identifier: Apache-2.0
// Batch normalisation, forward (in training and with given statistics) and gradient. Channels last
// goes by rows, split over the device; other layouts by one block a channel.
#include "engine/device/cuda/kernels/norm.h"
#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "engine/device/cuda/own.h"
#include "engine/ops/norm.h"

// The operands like x: x, the second one, a residual or mask, dx, the masked dy, a second dy.
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
    if (grad && q->n_in > 7 && !plb_own_absent(&q->in[7])) o.t[5] = &q->in[7];
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
    const plb_tensor *beta = &q->in[grad && q->n_in > 6 ? 6 : 2];
    plb_norm_params p = {.eps = attrs->eps,
                         .act = plb_own_act((int)e->activation, e->alpha, e->beta),
                         .gamma_type = (int)q->in[grad ? 2 : 1].dtype,
                         .beta_type = (int)beta->dtype,
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

// Blocks of `columns` x rows threads over vectors of `width` channels; down the rows as many as
// `resident` blocks allow, with `rows_each` for a thread at least.
static plb_cuda_grid rows_grid(const plb_norm_params *p, int width, int rows_each,
                               int64_t resident) {
    const int vectors = (p->c + width - 1) / width;
    const int columns = vectors <= 64 ? vectors : 32;
    const int rows = PLB_NORM_THREADS / columns;
    const int across = (vectors + columns - 1) / columns;
    const int64_t per_block = (int64_t)rows * rows_each;
    int64_t down = (p->rows + per_block - 1) / per_block;
    if (down > resident / across) down = resident / across;
    if (down > 65535) down = 65535;
    if (down < 1) down = 1;
    return (plb_cuda_grid){.blocks = {(unsigned)across, (unsigned)down},
                           .threads = {(unsigned)columns, (unsigned)rows}};
}

enum { SUMS_ROWS = 4, APPLY_ROWS = 2 };

// The functions of the two passes, and of what adds up between them.
typedef struct names {
    char sums[40], finish[40], apply[40]; // sums "": nothing to sum up
} names;

static bool given(const plb_query *q, int k) {
    return k < q->n_in && !plb_own_absent(&q->in[k]);
}

static names names_of(const plb_query *q, bool wide) {
    names n = {"", "norm_finish", "norm_infer"};
    if (q->op == PLB_OP_batch_norm) {
        snprintf(n.sums, sizeof n.sums, "norm_sums");
        snprintf(n.apply, sizeof n.apply, "norm_apply");
    } else if (q->op == PLB_OP_batch_norm_grad) {
        static const char *const by_x[] = {"_by_x", "_by_x", "_clamp", "_silu"};
        const plb_norm_attrs *attrs = q->attrs;
        const char *mask = given(q, 5)   ? "_by_y"
                           : given(q, 6) ? by_x[attrs->epilogue.activation]
                                         : "";
        snprintf(n.sums, sizeof n.sums, "norm_grad_sums%s", mask);
        snprintf(n.finish, sizeof n.finish, "norm_grad_finish");
        snprintf(n.apply, sizeof n.apply, "norm_grad_apply%s", q->n_out > 3 ? "" : mask);
    }
    if (wide && *n.sums) strcat(n.sums, "_wide");
    if (wide) strcat(n.apply, "_wide");
    return n;
}

static plb_status add_steps(const plb_query *q, plb_own *own, plb_own_list *list,
                            const plb_norm_params *p, bool wide) {
    const plb_dtype dtype = q->in[0].dtype;
    const int width = wide ? 16 / (int)plb_dtype_size(dtype) : 1;
    const names n = names_of(q, wide);
    int64_t resident;
    if (*n.sums) {
        plb_cuda_grid sums = rows_grid(p, width, SUMS_ROWS, 1);
        sums.blocks[1] = (unsigned)p->splits;
        PLB_TRY(plb_own_add(own, list, n.sums, dtype, sums));
        const unsigned blocks = (unsigned)((p->c + PLB_NORM_FINISH - 1) / PLB_NORM_FINISH);
        plb_cuda_grid finish = {.blocks = {blocks}, .threads = {PLB_NORM_FINISH, PLB_NORM_FINISH}};
        PLB_TRY(plb_own_add(own, list, n.finish, dtype, finish));
    }
    PLB_TRY(plb_own_resident(own, n.apply, dtype, PLB_NORM_THREADS, &resident));
    return plb_own_add(own, list, n.apply, dtype, rows_grid(p, width, APPLY_ROWS, resident));
}

// Both lists split the rows alike, as the better one likes it.
static plb_status set_splits(const plb_query *q, plb_own *own, plb_norm_params *p, bool wide,
                             plb_launch *out) {
    const plb_dtype dtype = q->in[0].dtype;
    const names n = names_of(q, wide);
    int64_t resident;
    if (!*n.sums) return PLB_OK;
    PLB_TRY(plb_own_resident(own, n.sums, dtype, PLB_NORM_THREADS, &resident));
    const int width = wide ? 16 / (int)plb_dtype_size(dtype) : 1;
    p->splits = (int32_t)rows_grid(p, width, SUMS_ROWS, resident).blocks[1];
    memcpy(own->params.bytes, p, sizeof *p);
    const size_t size = dtype == PLB_F64 ? sizeof(double) : sizeof(float);
    out->workspace_bytes = (2 * (size_t)p->splits + 4) * (size_t)p->c * size;
    return PLB_OK;
}

static plb_status prepare_rows(const plb_query *q, plb_own *own, plb_norm_params *p,
                               plb_launch *out) {
    const bool wide = p->c % (16 / (int)plb_dtype_size(q->in[0].dtype)) == 0;
    PLB_TRY(set_splits(q, own, p, wide, out));
    PLB_TRY(add_steps(q, own, &own->any, p, false));
    return wide ? add_steps(q, own, &own->aligned, p, true) : PLB_OK;
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
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    const double count = (double)plb_shape_count(&q->in[0].shape);
    const double size = (double)plb_dtype_size(q->in[0].dtype);
    const bool grad = q->op == PLB_OP_batch_norm_grad;
    out->flops = (grad ? 11 : q->op == PLB_OP_batch_norm ? 7 : 4) * count;
    // What the second pass reads again.
    if (q->op == PLB_OP_batch_norm) out->bytes += count * size;
    if (grad) out->bytes += (given(q, 5) && q->n_out < 4 ? 3 : 2) * count * size;
    return plb_own_end(out,
                       by_rows(&o) ? prepare_rows(q, own, &p, out) : prepare_planes(q, own, &p));
}

const plb_kernel plb_cuda_kernel_norm = {
    .name = "rows", .op = PLB_OP_batch_norm, .refuse = refuse, .prepare = prepare};
