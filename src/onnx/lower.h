// SPDX-License-Identifier: Apache-2.0
#ifndef PLB_ONNX_LOWER_H
#define PLB_ONNX_LOWER_H

#include "base/core/hash.h"
#include "engine/graph/graph.h"

// *out is what `graph` computes, in ops that ONNX has; the caller frees it. Ops that no rule knows
// are left as they are.
PLB_MUST_USE plb_status plb_onnx_lower(const plb_graph *graph, plb_graph **out);

// `hash` with what a node says beside its op and inputs: attributes, the name of an input or a
// variable, the values of a constant. Without memory for that *failed is set.
uint64_t plb_onnx_hash_content(const plb_graph *graph, const plb_node *node, uint64_t hash,
                               bool *failed);

#endif
