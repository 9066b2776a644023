// SPDX-License-Identifier: Apache-2.0
// softmax, log_softmax and their gradients on plain values, along any axis.
#include <stdio.h>

#include "base/core/status.h"
#include "engine/device/cuda/kernels/softmax.h"
#include "engine/device/cuda/own.h"
#include "engine/ops/line.h"

enum { LONG = 1024, WARPS = PLB_SOFTMAX_THREADS / 32, WAVES = 16 };

static const char *refuse(const plb_query *q) {
    for (int k = 0; k < q->n_in; k++) {
        if (!plb_own_is_plain(&q->in[k])) return "plain only";
    }
    if (!plb_own_is_plain(&q->out[0])) return "plain only";
    return plb_own_refuse(q);
}

// Lines that a warp can hold in registers, 16 bytes at a time.
static plb_status add_registers(const plb_query *q, plb_own *own, const plb_softmax_params *p) {
    const int width = 16 / (int)plb_dtype_size(q->out[0].dtype);
    const int vectors = (p->extent / width + 31) / 32; // of a lane
    if (p->inner > 1 || p->extent % width || vectors > 4) return PLB_OK;
    char name[64];
    snprintf(name, sizeof name, "%s_registers%d", plb_op_of(q->op)->name,
             vectors > 2 ? 4 : vectors);
    const plb_cuda_grid grid = {.blocks = {plb_cuda_blocks(q->device, p->lines, WARPS, WAVES)},
                                .threads = {32, WARPS}};
    return plb_own_add(own, &own->aligned, name, q->out[0].dtype, grid);
}

static plb_status add_step(const plb_query *q, plb_own *own, const plb_softmax_params *p) {
    if (p->lines == 0 || p->extent == 0) return PLB_OK;
    const char *how = p->inner > 1 ? "threads" : p->extent > LONG ? "blocks" : "warps";
    plb_cuda_grid grid = {.threads = {PLB_SOFTMAX_THREADS}};
    int64_t lines_each = PLB_SOFTMAX_THREADS;
    if (p->inner == 1 && p->extent > LONG) lines_each = 1;
    if (p->inner == 1 && p->extent <= LONG) {
        grid.threads[0] = 32, grid.threads[1] = WARPS;
        lines_each = WARPS;
    }
    grid.blocks[0] = plb_cuda_blocks(q->device, p->lines, lines_each, WAVES);
    char name[64];
    snprintf(name, sizeof name, "%s_%s", plb_op_of(q->op)->name, how);
    PLB_TRY(plb_own_add(own, &own->any, name, q->out[0].dtype, grid));
    return add_registers(q, own, p);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    const plb_shape *shape = &q->in[0].shape;
    const int64_t axis = ((const plb_axis_attrs *)q->attrs)->axis;
    const plb_lines lines = plb_lines_of(shape, axis);
    plb_softmax_params p = {.lines = lines.count, .extent = (int32_t)lines.extent, .inner = 1};
    for (int i = (int)axis + 1; i < shape->rank; i++) p.inner *= (int32_t)shape->dim[i];
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    out->flops = 5 * (double)plb_shape_count(shape);
    return plb_own_end(out, add_step(q, own, &p));
}

const plb_kernel plb_cuda_kernel_softmax = {
    .name = "lines", .op = PLB_OP_softmax, .refuse = refuse, .prepare = prepare};
