// SPDX-License-Identifier: Apache-2.0
// What scatter and scatter_add share: x, index, source -> y like x; index and source have one
// shape, and source[i] goes to y at i with the axis replaced by index[i].
#ifndef PLB_ENGINE_OPS_SCATTER_H
#define PLB_ENGINE_OPS_SCATTER_H

#include "engine/ops/index.h"

plb_status plb_scatter_infer(const char *op, plb_signature *s);
// Copies x to y unless they are one memory, and calls `put` for each element of source in
// row-major order.
plb_status plb_scatter_run(const char *op, const plb_call *call,
                           void (*put)(const plb_tensor *to, int64_t i, const plb_tensor *from,
                                       int64_t j));
plb_value plb_scatter_emit(plb_graph *graph, plb_op_id op, plb_value x, plb_value index,
                           plb_value source, int axis);

#endif
