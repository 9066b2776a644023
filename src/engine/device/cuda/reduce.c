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

// Few outputs want their cells split over blocks, as many as fill the device. `each`: cells that a
// block should have at least.
static int splits_of(const plb_query *q, const plb_reduce_params *p, int64_t across, int64_t each) {
    enum { WAVES = 8 };
    int64_t splits = p->cells / each;
    const int64_t room = (int64_t)q->device->sm_count * WAVES / (across ? across : 1);
    if (splits > room) splits = room;
    if (splits > PLB_REDUCE_SPLITS) splits = PLB_REDUCE_SPLITS;
    return splits < 1 ? 1 : (int)splits;
}

// A table of `lanes` threads for each output, a power of two.
static plb_cuda_grid grid_of(const plb_query *q, plb_reduce_params *p) {
    enum { WAVES = 32, CELLS_EACH = 4 };
    const int64_t worth = p->cells / CELLS_EACH;
    int lanes = power_up_to(worth < 1 ? 1 : worth, PLB_REDUCE_THREADS);
    if (!p->cells_inner) {
        const int rows = p->outputs >= 32 ? 32 : power_up_to(p->outputs, 32);
        if (lanes > PLB_REDUCE_THREADS / rows) lanes = PLB_REDUCE_THREADS / rows;
    }
    const int rows = PLB_REDUCE_THREADS / lanes;
    const int64_t across = (p->outputs + rows - 1) / rows;
    p->splits = splits_of(q, p, across, (int64_t)lanes * CELLS_EACH * 4);
    const unsigned blocks = plb_cuda_blocks(q->device, across, 1, WAVES);
    return (plb_cuda_grid){.blocks = {blocks, (unsigned)p->splits},
                           .threads = {(unsigned)(p->cells_inner ? lanes : rows),
                                       (unsigned)(p->cells_inner ? rows : lanes)}};
}

static int width_of(const plb_query *q) {
    return 16 / (int)plb_dtype_size(q->in[0].dtype);
}

// Whether sums can take 16 bytes at once: of the cells of an output, or of outputs side by side.
static bool is_wide(const plb_query *q, const plb_reduce_params *p) {
    const bool sum = p->fold == PLB_FOLD_SUM || p->fold == PLB_FOLD_MEAN;
    if (!sum || !plb_dtype_is_float(q->in[0].dtype) || p->cell_rank != 1) return false;
    const int width = width_of(q), last = p->kept_rank - 1;
    if (p->cells_inner) {
        for (int i = 0; i <= last; i++) {
            if (p->kept_in[i] % width) return false;
        }
        return p->cell_in[0] == 1 && p->cells % width == 0;
    }
    for (int i = 0; i < last; i++) {
        if (p->kept_in[i] % width) return false;
    }
    return p->kept_in[last] == 1 && p->kept_dim[last] % width == 0 && p->cell_in[0] % width == 0;
}

static plb_cuda_grid wide_grid(const plb_query *q, plb_reduce_params *p) {
    enum { WAVES = 32 };
    const int width = width_of(q);
    if (p->cells_inner) {
        const int64_t vectors = p->cells / width;
        const int lanes = power_up_to(vectors < 4 ? 1 : vectors / 2, PLB_REDUCE_THREADS);
        const int rows = PLB_REDUCE_THREADS / lanes;
        const int64_t across = (p->outputs + rows - 1) / rows;
        p->splits = splits_of(q, p, across, (int64_t)lanes * width * 4);
        const unsigned blocks = plb_cuda_blocks(q->device, across, 1, WAVES);
        return (plb_cuda_grid){.blocks = {blocks, (unsigned)p->splits},
                               .threads = {(unsigned)lanes, (unsigned)rows}};
    }
    const int64_t vectors = p->outputs / width;
    const int columns = vectors < 32 ? (int)vectors : 32, rows = PLB_REDUCE_THREADS / columns;
    const int64_t across = (vectors + columns - 1) / columns;
    p->splits = splits_of(q, p, across, (int64_t)rows * 4);
    return (plb_cuda_grid){.blocks = {(unsigned)across, (unsigned)p->splits},
                           .threads = {(unsigned)columns, (unsigned)rows}};
}

static const char *refuse(const plb_query *q) {
    return plb_own_refuse(q);
}

static plb_status add_list(const plb_query *q, plb_own *own, plb_own_list *list,
                           const plb_reduce_params *p, const char *name, plb_cuda_grid grid) {
    char splits[96];
    const bool integers = !plb_dtype_is_float(q->in[0].dtype);
    PLB_TRY(plb_own_add(own, list, name, PLB_DTYPE_COUNT, grid));
    if (p->splits == 1) return PLB_OK;
    snprintf(splits, sizeof splits, "splits_of_%s_%s", stem_of((plb_fold)p->fold),
             integers ? "integers" : plb_dtype_name(q->in[0].dtype));
    const int64_t rows = PLB_REDUCE_THREADS / PLB_REDUCE_SPLIT_LANES;
    const plb_cuda_grid second = {.blocks = {(unsigned)((p->outputs + rows - 1) / rows)},
                                  .threads = {(unsigned)rows, PLB_REDUCE_SPLIT_LANES}};
    return plb_own_add(own, list, splits, PLB_DTYPE_COUNT, second);
}

static plb_status add_steps(const plb_query *q, plb_own *own, const plb_reduce_params *p,
                            plb_cuda_grid narrow, plb_cuda_grid wide) {
    char name[64];
    const bool integers = !plb_dtype_is_float(q->in[0].dtype);
    if (p->outputs == 0) return PLB_OK;
    narrow.blocks[1] = (unsigned)p->splits;
    snprintf(name, sizeof name, "%s_%s", stem_of((plb_fold)p->fold),
             integers ? "integers" : plb_dtype_name(q->in[0].dtype));
    PLB_TRY(add_list(q, own, &own->any, p, name, narrow));
    if (!wide.blocks[0]) return PLB_OK;
    snprintf(name, sizeof name, "%s_%s", p->cells_inner ? "sum_rows" : "sum_columns",
             plb_dtype_name(q->in[0].dtype));
    return add_list(q, own, &own->aligned, p, name, wide);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    plb_reduce_params p = params_of(q);
    const plb_cuda_grid narrow = grid_of(q, &p);
    const plb_cuda_grid wide = is_wide(q, &p) && p.outputs ? wide_grid(q, &p) : (plb_cuda_grid){0};
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    out->flops = (double)plb_shape_count(&q->in[0].shape);
    if (p.splits > 1) out->workspace_bytes = (size_t)p.splits * (size_t)p.outputs * 16;
    return plb_own_end(out, add_steps(q, own, &p, narrow, wide));
}

const plb_kernel plb_cuda_kernel_reduce = {
    .name = "fold", .op = PLB_OP_reduce_sum, .refuse = refuse, .prepare = prepare};
