// SPDX-License-Identifier: Apache-2.0
// What slice and its gradient share. `part` and `whole` are the shapes of the slice and of what it
// was cut from.
#ifndef PLB_ENGINE_OPS_SLICE_H
#define PLB_ENGINE_OPS_SLICE_H

#include "engine/ops/op.h"
#include "plumb/ops.h"

static inline int64_t plb_slice_step(const plb_slice_attrs *attrs, int axis) {
    return attrs->step[axis] ? attrs->step[axis] : 1;
}

plb_status plb_slice_check(const char *op, const plb_slice_attrs *attrs, const plb_shape *part,
                           const plb_shape *whole);
// From an index of the slice to that of the whole (plb_walk_map).
bool plb_slice_map(const plb_call *call, const int64_t *to, int64_t *from);
void plb_slice_describe(const void *attrs, plb_strbuf *text);

#endif
