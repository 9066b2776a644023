// SPDX-License-Identifier: Apache-2.0
// take, gather, scatter and their relatives on plain values. An index out of range is left out and
// fails the run when somebody waits for the device.
#include "engine/ops/index.h"

#include <stdio.h>

#include "base/core/status.h"
#include "engine/device/cuda/kernels/index.h"
#include "engine/device/cuda/own.h"

enum { WAVES = 16 };

_Static_assert(PLB_SCATTER_MUL == 2 && PLB_SCATTER_MAX == 3 && PLB_SCATTER_MIN == 4,
               "the kernel knows them by these numbers");

static const char *refuse(const plb_query *q) {
    for (int k = 0; k < q->n_in; k++) {
        if (!plb_own_is_plain(&q->in[k])) return "plain only";
    }
    for (int k = 0; k < q->n_out; k++) {
        if (!plb_own_is_plain(&q->out[k])) return "plain only";
    }
    if (q->op == PLB_OP_take_grad && !plb_dtype_is_float(q->in[0].dtype)) return "floats only";
    return plb_own_refuse(q);
}

// x as [outer, extent, inner] around an axis.
static void set_axis(plb_index_params *p, const plb_shape *x, int64_t axis) {
    p->outer = p->inner = p->extent = 1;
    p->rank = x->rank, p->axis = (int32_t)axis;
    for (int i = 0; i < x->rank; i++) {
        p->x_dim[i] = x->dim[i];
        if (i < axis) p->outer *= x->dim[i];
        if (i == axis) p->extent = x->dim[i];
        if (i > axis) p->inner *= x->dim[i];
    }
}

static plb_index_params params_of(const plb_query *q) {
    const plb_tensor *x =
        q->op == PLB_OP_take_grad || q->op == PLB_OP_iota ? &q->out[0] : &q->in[0];
    plb_index_params p = {.count = plb_shape_count(&q->out[0].shape),
                          .op = (int32_t)q->op,
                          .dtype = (int32_t)x->dtype,
                          .size_bytes = (int32_t)plb_dtype_size(x->dtype)};
    if (q->op == PLB_OP_nonzero) {
        set_axis(&p, &x->shape, -1);
        p.count = plb_shape_count(&x->shape);
    } else if (q->op == PLB_OP_iota) {
        set_axis(&p, &x->shape, ((const plb_iota_attrs *)q->attrs)->axis);
    } else {
        const plb_shape *index = &q->in[1].shape;
        set_axis(&p, &x->shape, ((const plb_index_attrs *)q->attrs)->axis);
        p.indices = plb_shape_count(index);
        for (int i = 0; i < index->rank; i++) p.index_dim[i] = index->dim[i];
        if (q->op == PLB_OP_scatter_reduce) {
            p.how = (int32_t)((const plb_scatter_attrs *)q->attrs)->how;
        }
    }
    return p;
}

static plb_cuda_grid grid_of(const plb_query *q, int64_t threads) {
    return (plb_cuda_grid){
        .blocks = {plb_cuda_blocks(q->device, threads, PLB_INDEX_THREADS, WAVES)},
        .threads = {PLB_INDEX_THREADS}};
}

static plb_status add_sized(const plb_query *q, plb_own *own, plb_own_list *list, const char *stem,
                            int size_bytes, int64_t threads) {
    char name[48];
    snprintf(name, sizeof name, "%s_%d", stem, size_bytes);
    if (threads == 0) return PLB_OK;
    return plb_own_add(own, list, name, PLB_DTYPE_COUNT, grid_of(q, threads));
}

static plb_status add_take(const plb_query *q, plb_own *own, const plb_index_params *p) {
    PLB_TRY(add_sized(q, own, &own->any, "take", p->size_bytes, p->count));
    const int64_t row_bytes = p->inner * p->size_bytes;
    if (row_bytes % 16) return PLB_OK;
    return add_sized(q, own, &own->aligned, "take", 16, p->count * p->size_bytes / 16);
}

static plb_status add_take_grad(const plb_query *q, plb_own *own, const plb_index_params *p) {
    const plb_dtype dtype = q->out[0].dtype;
    if (p->count == 0) return PLB_OK;
    PLB_TRY(plb_own_add(own, &own->any, "take_grad_clear", dtype, grid_of(q, p->count)));
    if (p->indices == 0) return PLB_OK;
    int64_t parts = (p->outer * p->inner + PLB_INDEX_THREADS - 1) / PLB_INDEX_THREADS;
    if (parts > 65535) parts = 65535;
    const plb_cuda_grid grid = {.blocks = {(unsigned)p->indices, (unsigned)parts},
                                .threads = {PLB_INDEX_THREADS}};
    return plb_own_add(own, &own->any, "take_grad", dtype, grid);
}

static plb_status add_scatter(const plb_query *q, plb_own *own, const plb_index_params *p) {
    PLB_TRY(add_sized(q, own, &own->any, "scatter_begin", p->size_bytes, p->count));
    if (p->indices == 0) return PLB_OK;
    PLB_TRY(plb_own_add(own, &own->any, "scatter_choose", PLB_DTYPE_COUNT, grid_of(q, p->indices)));
    return add_sized(q, own, &own->any, "scatter_put", p->size_bytes, p->indices);
}

// scatter_add and scatter_reduce.
static plb_status add_fold(const plb_query *q, plb_own *own, const plb_index_params *p) {
    const bool floats = plb_dtype_is_float(q->out[0].dtype);
    char name[48];
    if (p->count == 0) return PLB_OK;
    snprintf(name, sizeof name, "scatter_%s%s", q->op == PLB_OP_scatter_add ? "add" : "reduce",
             floats ? "" : "_integers");
    return plb_own_add(own, &own->any, name, floats ? q->out[0].dtype : PLB_DTYPE_COUNT,
                       grid_of(q, p->count));
}

static plb_status add_steps(const plb_query *q, plb_own *own, const plb_index_params *p) {
    const plb_cuda_grid one = {.blocks = {1}, .threads = {PLB_NONZERO_THREADS}};
    switch (q->op) {
    case PLB_OP_take: return add_take(q, own, p);
    case PLB_OP_take_grad: return add_take_grad(q, own, p);
    case PLB_OP_gather: return add_sized(q, own, &own->any, "gather", p->size_bytes, p->indices);
    case PLB_OP_scatter: return add_scatter(q, own, p);
    case PLB_OP_scatter_add:
    case PLB_OP_scatter_reduce: return add_fold(q, own, p);
    case PLB_OP_nonzero: return plb_own_add(own, &own->any, "nonzero", PLB_DTYPE_COUNT, one);
    default:
        if (p->count == 0) return PLB_OK;
        return plb_own_add(own, &own->any, "iota", PLB_DTYPE_COUNT, grid_of(q, p->count));
    }
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    const plb_index_params p = params_of(q);
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    if (q->op == PLB_OP_scatter) out->workspace_bytes = (size_t)p.count * sizeof(uint32_t);
    if (q->op == PLB_OP_take_grad || q->op == PLB_OP_scatter_add || q->op == PLB_OP_scatter_reduce)
        out->flops = (double)p.indices;
    return plb_own_end(out, add_steps(q, own, &p));
}

const plb_kernel plb_cuda_kernel_index = {
    .name = "index", .op = PLB_OP_take, .refuse = refuse, .prepare = prepare};
