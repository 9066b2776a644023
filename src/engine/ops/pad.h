// SPDX-License-Identifier: Apache-2.0
// What pad and its gradient share.
#ifndef PLB_ENGINE_OPS_PAD_H
#define PLB_ENGINE_OPS_PAD_H

#include "engine/ops/op.h"
#include "plumb/ops.h"

// Padding `x` gives `y`; refuses what the mode cannot do.
plb_status plb_pad_check(const char *op, const plb_pad_attrs *attrs, const plb_shape *x,
                         const plb_shape *y);
// The element of an extent that stands at `position` (counted from the first element) of the
// padded extent; -1: none.
int64_t plb_pad_source(plb_pad_mode mode, int64_t position, int64_t extent);
void plb_pad_describe(const void *attrs, plb_strbuf *text);

#endif
