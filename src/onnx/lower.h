// SPDX-License-Identifier: Apache-2.0
#ifndef PLB_ONNX_LOWER_H
#define PLB_ONNX_LOWER_H

#include "engine/graph/graph.h"

// *out is what `graph` computes, in ops that ONNX has; the caller frees it. Ops that no rule knows
// are left as they are.
PLB_MUST_USE plb_status plb_onnx_lower(const plb_graph *graph, plb_graph **out);

#endif
