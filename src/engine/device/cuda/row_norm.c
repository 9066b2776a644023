// SPDX-License-Identifier: Apache-2.0
// Layer normalisation of plain values, group normalisation of any whose spatial axes have no gaps.
#include "base/core/status.h"
#include "engine/device/cuda/kernels/norm.h"
#include "engine/device/cuda/own.h"
#include "engine/ops/norm.h"

enum { WAVES = 32 };

static const char *refuse(const plb_query *q) {
    plb_own_planes planes;
    for (int k = 1; k < q->n_in; k++) {
        if (!plb_own_is_plain(&q->in[k])) return "gamma or beta has gaps";
    }
    if (q->op == PLB_OP_layer_norm) {
        bool plain = plb_own_is_plain(&q->in[0]) && plb_own_is_plain(&q->out[0]);
        return plain ? plb_own_refuse(q) : "plain only";
    }
    bool dense = plb_own_planes_of(&q->in[0], &planes) && plb_own_planes_of(&q->out[0], &planes);
    return dense ? plb_own_refuse(q) : "the spatial axes have gaps";
}

static int dtype_of(const plb_query *q, int k) {
    return k < q->n_in ? (int)q->in[k].dtype : 0;
}

static plb_cuda_grid grid_of(const plb_query *q, int64_t rows, int64_t width) {
    int64_t threads = (width / 4 + 31) / 32 * 32;
    if (threads < 32) threads = 32;
    if (threads > PLB_NORM_PLANE_THREADS) threads = PLB_NORM_PLANE_THREADS;
    return (plb_cuda_grid){.blocks = {plb_cuda_blocks(q->device, rows, 1, WAVES)},
                           .threads = {(unsigned)threads}};
}

// Rows that a warp can hold in registers, 16 bytes at a time.
static plb_status add_warps(const plb_query *q, plb_own *own, const plb_norm_rows_params *p) {
    const int width = 16 / (int)plb_dtype_size(q->in[0].dtype);
    const int vectors = (p->width / width + 31) / 32; // of a lane
    if (p->width % width || vectors > 8) return PLB_OK;
    const char *name = vectors <= 1   ? "layer_norm_warps1"
                       : vectors <= 2 ? "layer_norm_warps2"
                       : vectors <= 4 ? "layer_norm_warps4"
                                      : "layer_norm_warps8";
    const plb_cuda_grid grid = {.blocks = {plb_cuda_blocks(q->device, p->rows, 8, WAVES)},
                                .threads = {32, 8}};
    return plb_own_add(own, &own->aligned, name, q->in[0].dtype, grid);
}

static plb_status prepare_layer(const plb_query *q, const char *choice, plb_launch *out) {
    const plb_norm_attrs *attrs = q->attrs;
    const plb_shape *x = &q->in[0].shape;
    plb_norm_rows_params p = {
        .eps = attrs->eps, .rows = 1, .width = 1, .gamma_type = dtype_of(q, 1)};
    p.beta_type = dtype_of(q, 2);
    for (int i = 0; i < x->rank; i++) {
        if (i < x->rank - attrs->axes) p.rows *= x->dim[i];
        if (i >= x->rank - attrs->axes) p.width *= (int32_t)x->dim[i];
    }
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    out->flops = 7 * (double)plb_shape_count(x);
    if (!plb_shape_count(x)) return PLB_OK;
    plb_status status =
        plb_own_add(own, &own->any, "layer_norm", q->in[0].dtype, grid_of(q, p.rows, p.width));
    return plb_own_end(out, status ? status : add_warps(q, own, &p));
}

static plb_status prepare_group(const plb_query *q, const char *choice, plb_launch *out) {
    const plb_norm_attrs *attrs = q->attrs;
    plb_norm_params p = {.eps = attrs->eps,
                         .gamma_type = dtype_of(q, 1),
                         .beta_type = dtype_of(q, 2),
                         .groups = (int32_t)attrs->groups};
    plb_own_planes x, y;
    if (!plb_own_planes_of(&q->in[0], &x) || !plb_own_planes_of(&q->out[0], &y)) {
        return plb_fail(PLB_EUNSUPPORTED, "group_norm: the spatial axes have gaps");
    }
    for (int i = 0; i < 3; i++) p.stride[0][i] = x.stride[i], p.stride[1][i] = y.stride[i];
    p.n = (int32_t)x.n, p.c = (int32_t)x.c, p.s = (int32_t)x.s;
    p.channel_inner = x.stride[1] == 1;
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    const int64_t count = plb_shape_count(&q->in[0].shape), groups = (int64_t)p.n * p.groups;
    out->flops = 7 * (double)count;
    if (!count) return PLB_OK;
    return plb_own_end(out, plb_own_add(own, &own->any, "group_norm", q->in[0].dtype,
                                        grid_of(q, groups, count / groups)));
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    return (q->op == PLB_OP_layer_norm ? prepare_layer : prepare_group)(q, choice, out);
}

const plb_kernel plb_cuda_kernel_row_norm = {
    .name = "blocks", .op = PLB_OP_layer_norm, .refuse = refuse, .prepare = prepare};
