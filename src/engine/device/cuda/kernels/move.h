// SPDX-License-Identifier: Apache-2.0
// What host and device share of the kernels that move elements: strides in elements, axes
// outermost first.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_MOVE_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_MOVE_H

#include <stdint.h>

enum { PLB_MOVE_RANK = 9, PLB_MOVE_TILE = 32, PLB_MOVE_TILE_ROWS = 8 };

// to[index · to_stride] = from[index · from_stride] over all indices of the extents. A transposing
// move has two more axes, the innermost: `rows` steps by one in `from`, `columns` by one in `to`.
typedef struct plb_move_params {
    void *to;
    const void *from;
    int64_t count; // product of dim
    int32_t rank, zero;
    int64_t dim[PLB_MOVE_RANK], to_stride[PLB_MOVE_RANK], from_stride[PLB_MOVE_RANK];
    int64_t rows, columns, to_row, from_column;
    uint64_t value; // of a fill: the element's bits
} plb_move_params;

#endif
