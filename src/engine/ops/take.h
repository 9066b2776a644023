// SPDX-License-Identifier: Apache-2.0
// The index arithmetic of take and its gradient.
#ifndef PLB_ENGINE_OPS_TAKE_H
#define PLB_ENGINE_OPS_TAKE_H

#include "engine/ops/index.h"

// `y` is an index of [… I… …], the axes of `index` standing at `axis` in place of x's axis; gives
// the index in x.
static inline void plb_take_source(int axis, const plb_tensor *index, const int64_t *y, int y_rank,
                                   int64_t *x) {
    const int width = index->shape.rank;
    for (int i = 0; i < axis; i++) x[i] = y[i];
    x[axis] = plb_index_at(index, y + axis);
    for (int i = axis + width; i < y_rank; i++) x[i - width + 1] = y[i];
}

#endif
