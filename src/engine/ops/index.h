// SPDX-License-Identifier: Apache-2.0
// Index operands: i64, counted from the first element, never negative; one outside the extent
// fails the run. Kernels promise the same.
#ifndef PLB_ENGINE_OPS_INDEX_H
#define PLB_ENGINE_OPS_INDEX_H

#include "engine/ops/op.h"
#include "plumb/ops.h"

// Refuses the first index that is not in [0, extent), naming its place and value.
plb_status plb_index_check(const char *op, const plb_tensor *index, int64_t extent);
// gather, scatter, scatter_add: one rank, and off the axis no index reaches past x.
plb_status plb_index_fits(const char *op, int64_t axis, const plb_type *x, const plb_type *index);
static inline int64_t plb_index_at(const plb_tensor *index, const int64_t *position) {
    return plb_load_i64(index->data, index->dtype, plb_tensor_offset(index, position));
}
void plb_index_describe(const void *attrs, plb_strbuf *text);

#endif
