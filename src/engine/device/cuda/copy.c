// SPDX-License-Identifier: Apache-2.0
// Which copy serves: the driver's where both sides are one piece, the turning kernel where they run
// along different axes, else the strided one on the widest elements that strides and addresses
// allow.
#include "engine/device/cuda/copy.h"

#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "engine/device/cpu/nest.h"
#include "engine/device/cuda/kernels/move.h"

enum { THREADS = 256, WAVES = 16, WORTH_TURNING = 16 };

static plb_move_params params_of(const plb_nest *nest, void *to, const void *from) {
    plb_move_params p = {.to = to, .from = from, .count = plb_nest_count(nest), .rank = nest->rank};
    for (int i = 0; i < nest->rank; i++) {
        p.dim[i] = nest->dim[i];
        p.to_stride[i] = nest->stride[0][i];
        if (nest->n > 1) p.from_stride[i] = nest->stride[1][i];
    }
    return p;
}

static plb_status launch(plb_stream *stream, const char *kind, size_t size_bytes,
                         plb_cuda_grid grid, plb_move_params *p) {
    char name[32];
    CUfunction function;
    snprintf(name, sizeof name, "%s_%zu", kind, size_bytes);
    PLB_TRY(plb_cuda_function(stream->device, name, &function));
    return plb_cuda_launch(stream, function, &grid, (void *[]){p});
}

// Whether pairs of elements can be moved as one of twice the size.
static bool can_widen(const plb_move_params *p, size_t size_bytes) {
    int last = p->rank - 1;
    uintptr_t wide = 2 * size_bytes;
    if (wide > 16 || last < 0 || p->dim[last] % 2) return false;
    if (p->to_stride[last] != 1 || p->from_stride[last] != 1) return false;
    if ((uintptr_t)p->to % wide || (uintptr_t)p->from % wide) return false;
    for (int i = 0; i < last; i++) {
        if (p->to_stride[i] % 2 || p->from_stride[i] % 2) return false;
    }
    return true;
}

static void widen(plb_move_params *p) {
    int last = p->rank - 1;
    p->dim[last] /= 2;
    p->count /= 2;
    for (int i = 0; i < last; i++) {
        p->to_stride[i] /= 2;
        p->from_stride[i] /= 2;
    }
}

static plb_status copy_strided(plb_stream *stream, plb_move_params *p, size_t size_bytes) {
    while (can_widen(p, size_bytes)) {
        widen(p);
        size_bytes *= 2;
    }
    plb_cuda_grid grid = {.blocks = {plb_cuda_blocks(stream->device, p->count, THREADS, WAVES)},
                          .threads = {THREADS}};
    return launch(stream, "plb_move_strided", size_bytes, grid, p);
}

// The axis along which `from` is contiguous, when that is not the last one and turning pays.
static int turned_axis(const plb_move_params *p, size_t size_bytes) {
    int last = p->rank - 1;
    if (size_bytes > 8 || last < 1 || p->to_stride[last] != 1 || p->from_stride[last] == 1) {
        return -1;
    }
    if (p->dim[last] < WORTH_TURNING) return -1;
    for (int i = 0; i < last; i++) {
        if (p->from_stride[i] == 1 && p->dim[i] >= WORTH_TURNING) return i;
    }
    return -1;
}

static plb_status copy_turned(plb_stream *stream, plb_move_params *p, size_t size_bytes, int axis) {
    int last = p->rank - 1, n = 0;
    p->rows = p->dim[axis];
    p->to_row = p->to_stride[axis];
    p->columns = p->dim[last];
    p->from_column = p->from_stride[last];
    p->count = 1;
    for (int i = 0; i < last; i++) {
        if (i == axis) continue;
        p->dim[n] = p->dim[i];
        p->to_stride[n] = p->to_stride[i];
        p->from_stride[n++] = p->from_stride[i];
        p->count *= p->dim[n - 1];
    }
    p->rank = n;
    int64_t tiles = ((p->rows + PLB_MOVE_TILE - 1) / PLB_MOVE_TILE) *
                    ((p->columns + PLB_MOVE_TILE - 1) / PLB_MOVE_TILE);
    plb_cuda_grid grid = {
        .blocks = {(unsigned)tiles, (unsigned)(p->count < 65535 ? p->count : 65535)},
        .threads = {PLB_MOVE_TILE, PLB_MOVE_TILE_ROWS}};
    return launch(stream, "plb_move_transposed", size_bytes, grid, p);
}

plb_status plb_cuda_copy_strided(plb_stream *stream, const plb_tensor *to, const plb_tensor *from) {
    size_t size = plb_dtype_size(to->dtype);
    if (plb_shape_count(&to->shape) == 0) return PLB_OK;
    plb_nest nest = plb_nest_of(&to->shape);
    plb_nest_add(&nest, to);
    plb_nest_add(&nest, from);
    plb_nest_simplify(&nest, 0);
    plb_move_params p = params_of(&nest, to->data, from->data);
    bool whole = p.rank == 0 || (p.rank == 1 && p.to_stride[0] == 1 && p.from_stride[0] == 1);
    if (whole) return plb_cuda_copy(stream, to->data, from->data, (size_t)p.count * size);
    int axis = turned_axis(&p, size);
    if (axis >= 0) return copy_turned(stream, &p, size, axis);
    return copy_strided(stream, &p, size);
}

plb_status plb_cuda_fill_strided(plb_stream *stream, const plb_tensor *to, const void *element) {
    size_t size = plb_dtype_size(to->dtype);
    if (plb_shape_count(&to->shape) == 0) return PLB_OK;
    plb_nest nest = plb_nest_of(&to->shape);
    plb_nest_add(&nest, to);
    plb_nest_simplify(&nest, 0);
    plb_move_params p = params_of(&nest, to->data, NULL);
    memcpy(&p.value, element, size);
    plb_cuda_grid grid = {.blocks = {plb_cuda_blocks(stream->device, p.count, THREADS, WAVES)},
                          .threads = {THREADS}};
    return launch(stream, "plb_fill", size, grid, &p);
}
