// SPDX-License-Identifier: Apache-2.0
// Reductions, arg_max and arg_min on any strides. The kept and the reduced axes are each joined to
// as few as describe them; who runs along memory and how far cells are split over blocks follows
// from the strides and the counts.
#include <stdio.h>
#include <stdlib.h>

#include "base/core/status.h"
#include "engine/device/cpu/nest.h"
#include "engine/device/cuda/kernels/reduce.h"
#include "engine/device/cuda/own.h"
#include "engine/ops/line.h"

static bool is_arg(plb_op_id op) {
    return op == PLB_OP_arg_max || op == PLB_OP_arg_min;
}

static int64_t axes_of(const plb_query *q) {
    const int rank = q->in[0].shape.rank;
    if (is_arg(q->op)) return rank ? (int64_t)1 << ((const plb_axis_attrs *)q->attrs)->axis : 0;
    const int64_t axes = ((const plb_reduce_attrs *)q->attrs)->axes;
    return axes ? axes : ((int64_t)1 << rank) - 1;
}

static plb_fold fold_of(plb_op_id op) {
    switch (op) {
    case PLB_OP_reduce_sum: return PLB_FOLD_SUM;
    case PLB_OP_reduce_mean: return PLB_FOLD_MEAN;
    case PLB_OP_reduce_prod: return PLB_FOLD_PROD;
    case PLB_OP_reduce_max: return PLB_FOLD_MAX;
    case PLB_OP_reduce_min: return PLB_FOLD_MIN;
    case PLB_OP_reduce_any: return PLB_FOLD_ANY;
    case PLB_OP_reduce_all: return PLB_FOLD_ALL;
    case PLB_OP_reduce_var: return PLB_FOLD_VAR;
    case PLB_OP_reduce_norm: return PLB_FOLD_NORM;
    case PLB_OP_reduce_logsumexp: return PLB_FOLD_LOGSUMEXP;
    case PLB_OP_arg_max: return PLB_FOLD_ARG_MAX;
    default: return PLB_FOLD_ARG_MIN;
    }
}

static const char *stem_of(plb_fold fold) {
    switch (fold) {
    case PLB_FOLD_SUM:
    case PLB_FOLD_MEAN: return "reduce_sum";
    case PLB_FOLD_PROD: return "reduce_prod";
    case PLB_FOLD_MAX:
    case PLB_FOLD_MIN: return "reduce_extreme";
    case PLB_FOLD_ANY:
    case PLB_FOLD_ALL: return "reduce_logic";
    case PLB_FOLD_VAR: return "reduce_var";
    case PLB_FOLD_NORM: return "reduce_norm";
    case PLB_FOLD_LOGSUMEXP: return "reduce_logsumexp";
    default: return "arg";
    }
}

// A nest over the axes of x that are in `axes`, with x and, of the kept ones, y. The order of the
// cells is memory's but for the arg ops, which reduce one axis.
static plb_nest nest_of(const plb_query *q, int64_t axes, bool kept) {
    const plb_tensor *x = &q->in[0], *y = &q->out[0];
    plb_tensor part = {.dtype = x->dtype}, result = {.dtype = y->dtype};
    const bool keeps = y->shape.rank == x->shape.rank;
    for (int i = 0, k = 0; i < x->shape.rank; i++) {
        const bool reduced = axes >> i & 1;
        if (reduced != kept) {
            const int at = part.shape.rank++;
            part.shape.dim[at] = x->shape.dim[i];
            part.stride[at] = x->stride[i];
            result.stride[at] = kept ? y->stride[k] : 0;
        }
        k += !reduced || keeps;
    }
    result.shape = part.shape;
    plb_nest nest = plb_nest_of(&part.shape);
    plb_nest_add(&nest, &part);
    if (kept) plb_nest_add(&nest, &result);
    plb_nest_simplify(&nest, 1);
    return nest;
}

static plb_reduce_params params_of(const plb_query *q) {
    const int64_t axes = axes_of(q);
    const plb_nest kept = nest_of(q, axes, true), cells = nest_of(q, axes, false);
    plb_reduce_params p = {.outputs = plb_nest_count(&kept),
                           .cells = plb_nest_count(&cells),
                           .fold = (int)fold_of(q->op),
                           .dtype = (int)q->in[0].dtype,
                           .splits = 1,
                           .kept_rank = kept.rank,
                           .cell_rank = cells.rank};
    if (!is_arg(q->op)) p.p = ((const plb_reduce_attrs *)q->attrs)->p;
    for (int i = 0; i < kept.rank; i++) {
        p.kept_dim[i] = kept.dim[i];
        p.kept_in[i] = kept.stride[0][i], p.kept_out[i] = kept.stride[1][i];
    }
    for (int i = 0; i < cells.rank; i++) {
        p.cell_dim[i] = cells.dim[i], p.cell_in[i] = cells.stride[0][i];
    }
    const int64_t along_cells = p.cell_in[cells.rank - 1], along_kept = p.kept_in[kept.rank - 1];
    p.cells_inner = p.outputs == 1 || llabs(along_cells) <= llabs(along_kept) || !along_kept;
    return p;
}

static int power_up_to(int64_t n, int most) {
    int power = 1;
    while (power * 2 <= n && power < most) power *= 2;
    return power;
}

// Threads along cells: a power of two. Few outputs want their cells split over blocks, as many as
// fill the device.
static plb_cuda_grid grid_of(const plb_query *q, plb_reduce_params *p) {
    enum { WAVES = 8, CELLS_EACH = 4 };
    const int64_t worth = p->cells / CELLS_EACH;
    int lanes = power_up_to(worth < 1 ? 1 : worth, PLB_REDUCE_THREADS);
    if (!p->cells_inner) {
        const int rows = p->outputs >= 32 ? 32 : power_up_to(p->outputs, 32);
        if (lanes > PLB_REDUCE_THREADS / rows) lanes = PLB_REDUCE_THREADS / rows;
    }
    const int rows = PLB_REDUCE_THREADS / lanes;
    const int64_t across = (p->outputs + rows - 1) / rows;
    const int64_t room = (int64_t)q->device->sm_count * WAVES / (across ? across : 1);
    int64_t splits = p->cells / ((int64_t)lanes * CELLS_EACH * 4);
    if (splits > room) splits = room;
    if (splits > 1024) splits = 1024;
    p->splits = splits < 1 ? 1 : (int32_t)splits;
    const unsigned blocks = plb_cuda_blocks(q->device, across, 1, 4 * WAVES);
    return (plb_cuda_grid){.blocks = {blocks, (unsigned)p->splits},
                           .threads = {(unsigned)(p->cells_inner ? lanes : rows),
                                       (unsigned)(p->cells_inner ? rows : lanes)}};
}

static const char *refuse(const plb_query *q) {
    return plb_own_refuse(q);
}

static plb_status add_steps(const plb_query *q, plb_own *own, const plb_reduce_params *p,
                            plb_cuda_grid grid) {
    if (p->outputs == 0) return PLB_OK;
    char name[64], splits[80];
    const bool integers = !plb_dtype_is_float(q->in[0].dtype);
    snprintf(name, sizeof name, "%s_%s", stem_of((plb_fold)p->fold),
             integers ? "integers" : plb_dtype_name(q->in[0].dtype));
    snprintf(splits, sizeof splits, "splits_of_%s", name);
    PLB_TRY(plb_own_add(own, &own->any, name, PLB_DTYPE_COUNT, grid));
    if (p->splits == 1) return PLB_OK;
    const unsigned blocks = plb_cuda_blocks(q->device, p->outputs, PLB_REDUCE_THREADS, 4);
    const plb_cuda_grid second = {.blocks = {blocks}, .threads = {PLB_REDUCE_THREADS}};
    return plb_own_add(own, &own->any, splits, PLB_DTYPE_COUNT, second);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    plb_reduce_params p = params_of(q);
    const plb_cuda_grid grid = grid_of(q, &p);
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    out->flops = (double)plb_shape_count(&q->in[0].shape);
    if (p.splits > 1) out->workspace_bytes = (size_t)p.splits * (size_t)p.outputs * 16;
    return plb_own_end(out, add_steps(q, own, &p, grid));
}

const plb_kernel plb_cuda_kernel_reduce = {
    .name = "fold", .op = PLB_OP_reduce_sum, .refuse = refuse, .prepare = prepare};
