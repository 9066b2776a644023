// SPDX-License-Identifier: Apache-2.0
// What the windows of convolutions and poolings may be: numbers so bounded that arithmetic with a
// few of them stays within 64 bits, for attributes come from files and callers, and a window that
// wraps around would seem to fit.
#ifndef PLB_ENGINE_OPS_WINDOW_H
#define PLB_ENGINE_OPS_WINDOW_H

#include "engine/ops/op.h"

// Of strides, dilations, pads: as far as kernels that count in 32 bits get.
#define PLB_WINDOW_MOST INT32_MAX
// Of a value along one axis: past it plb_shape_check refuses every shape.
#define PLB_WINDOW_EXTENT_MOST (INT64_C(1) << 59)

// PLB_EINVAL unless `value` is in [low, high]; `what` names it, with its article.
PLB_MUST_USE plb_status plb_window_expect(const char *op, int axis, const char *what, int64_t value,
                                          int64_t low, int64_t high);

// How far `count` elements reach that lie `step` apart: step (count - 1) + 1, or a number that no
// extent reaches. `step` is bounded as above, `count` at least 0.
int64_t plb_window_reach(int64_t count, int64_t step);

#endif
