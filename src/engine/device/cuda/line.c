// SPDX-License-Identifier: Apache-2.0
// cumsum, sort and top_k on plain values. Lines are sorted in shared memory, so their length is
// limited.
#include "engine/ops/line.h"

#include "base/core/status.h"
#include "engine/device/cuda/kernels/line.h"
#include "engine/device/cuda/own.h"

enum { WAVES = 16, SORT_ENTRY_BYTES = 12 };

static const char *refuse(const plb_query *q) {
    if (!plb_own_is_plain(&q->in[0])) return "plain only";
    for (int k = 0; k < q->n_out; k++) {
        if (!plb_own_is_plain(&q->out[k])) return "plain only";
    }
    if (q->op == PLB_OP_cumsum) return plb_own_refuse(q);
    const plb_lines lines = plb_lines_of(&q->in[0].shape, ((const plb_axis_attrs *)q->attrs)->axis);
    if (lines.extent > PLB_SORT_MOST) return "lines of over 8192 elements";
    return plb_own_refuse(q);
}

static plb_line_params params_of(const plb_query *q) {
    const plb_axis_attrs *attrs = q->attrs;
    const plb_shape *x = &q->in[0].shape, *y = &q->out[0].shape;
    const plb_lines lines = plb_lines_of(x, attrs->axis);
    plb_line_params p = {.lines = lines.count,
                         .extent = (int32_t)lines.extent,
                         .inner = 1,
                         .dtype = (int32_t)q->in[0].dtype,
                         .reverse = attrs->reverse != 0,
                         .exclusive = attrs->exclusive != 0,
                         .descending = attrs->descending != 0,
                         .padded = 2};
    p.kept = y->rank ? (int32_t)y->dim[attrs->axis] : 1;
    for (int i = (int)attrs->axis + 1; i < x->rank; i++) p.inner *= (int32_t)x->dim[i];
    while (q->op != PLB_OP_cumsum && p.padded < p.extent) p.padded *= 2; // of lines to sort
    return p;
}

static plb_status add_cumsum(const plb_query *q, plb_own *own, const plb_line_params *p) {
    const bool is_float = plb_dtype_is_float(q->in[0].dtype);
    const bool threads = p->inner >= 32;
    const char *name = threads    ? is_float ? "cumsum_threads_float" : "cumsum_threads_integer"
                       : is_float ? "cumsum_blocks_float"
                                  : "cumsum_blocks_integer";
    const unsigned blocks =
        plb_cuda_blocks(q->device, p->lines, threads ? PLB_LINE_THREADS : 1, WAVES);
    const plb_cuda_grid grid = {.blocks = {blocks}, .threads = {PLB_LINE_THREADS}};
    return plb_own_add(own, &own->any, name, PLB_DTYPE_COUNT, grid);
}

static plb_status add_sort(plb_own *own, const plb_line_params *p) {
    const int pairs = p->padded / 2,
              threads = pairs < PLB_SORT_THREADS ? (pairs + 31) / 32 * 32 : PLB_SORT_THREADS;
    const plb_cuda_grid grid = {.blocks = {(unsigned)p->lines},
                                .threads = {(unsigned)threads},
                                .shared_bytes = (unsigned)p->padded * SORT_ENTRY_BYTES};
    return plb_own_add(own, &own->any, "sort_lines", PLB_DTYPE_COUNT, grid);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    const plb_line_params p = params_of(q);
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    out->flops = (double)plb_shape_count(&q->in[0].shape);
    if (q->op != PLB_OP_cumsum) out->optional_outputs = 3;
    if (p.lines == 0 || p.extent == 0) return PLB_OK;
    return plb_own_end(out, q->op == PLB_OP_cumsum ? add_cumsum(q, own, &p) : add_sort(own, &p));
}

const plb_kernel plb_cuda_kernel_line = {
    .name = "lines", .op = PLB_OP_cumsum, .refuse = refuse, .prepare = prepare};
