// SPDX-License-Identifier: Apache-2.0
// The passes, in the order in which a plan applies them. Each reads *graph, puts a better graph in
// its place (the old one is freed), and appends one line to the report.
#ifndef PLB_ENGINE_GRAPH_PASS_H
#define PLB_ENGINE_GRAPH_PASS_H

#include "engine/device/device.h"
#include "engine/graph/graph.h"
#include "engine/graph/rewrite.h"

typedef struct plb_pass_context {
    const plb_backend *backend;
    int threads;
    plb_strbuf *report;
    plb_dtype autocast; // PLB_F32: none
    plb_math math;
} plb_pass_context;

typedef plb_status (*plb_pass)(plb_graph **graph, const plb_pass_context *context);

// For options.f64: every float value in f64.
PLB_MUST_USE plb_status plb_pass_widen(plb_graph **graph, const plb_pass_context *context);
// For options.autocast: matrix ops and what lies between them in 16 bits.
PLB_MUST_USE plb_status plb_pass_autocast(plb_graph **graph, const plb_pass_context *context);
// Merges equal nodes, then drops what no output and no effect needs.
PLB_MUST_USE plb_status plb_pass_clean(plb_graph **graph, const plb_pass_context *context);
// Small nodes of constants become constants.
PLB_MUST_USE plb_status plb_pass_fold_constants(plb_graph **graph, const plb_pass_context *context);
// The same for whoever wants other bounds: nodes of constants of up to `most_elements` become
// constants, but no large expand and nothing whose extent is counted. *folded: how many.
PLB_MUST_USE plb_status plb_fold_constants(plb_graph **graph, int64_t most_elements, int *folded);
// Inference: convolutions and products between dequantised values become those of integers.
PLB_MUST_USE plb_status plb_pass_int8(plb_graph **graph, const plb_pass_context *context);
// Inference: layer norms, GELUs, biases and attention that are spelt out in small ops.
PLB_MUST_USE plb_status plb_pass_recognise(plb_graph **graph, const plb_pass_context *context);
// Inference: permutations move towards others and cancel.
PLB_MUST_USE plb_status plb_pass_permute(plb_graph **graph, const plb_pass_context *context);
// Copies what a variable held where that is still needed after the variable is assigned.
PLB_MUST_USE plb_status plb_pass_keep_old(plb_graph **graph, const plb_pass_context *context);
// Inference: batch_norm_infer behind a convolution becomes part of its weights and bias.
PLB_MUST_USE plb_status plb_pass_fold_norm(plb_graph **graph, const plb_pass_context *context);
// ReLU behind a pooling or dropout moves to the convolution in front of them.
PLB_MUST_USE plb_status plb_pass_early_relu(plb_graph **graph, const plb_pass_context *context);
// Bias, residual and activation move into the convolution, product or norm before them.
PLB_MUST_USE plb_status plb_pass_fuse_epilogue(plb_graph **graph, const plb_pass_context *context);
// The slope of another activation moves into the gradient of the batch norm before it.
PLB_MUST_USE plb_status plb_pass_fuse_norm_act(plb_graph **graph, const plb_pass_context *context);
// The mask of a ReLU moves into the gradient of the batch norm before it.
PLB_MUST_USE plb_status plb_pass_fuse_norm_grad(plb_graph **graph, const plb_pass_context *context);
// Where the gradient that such a norm masks is a sum, the norm adds up.
PLB_MUST_USE plb_status plb_pass_fuse_norm_sum(plb_graph **graph, const plb_pass_context *context);
// Sums over planes move before the gradient of a pooling.
PLB_MUST_USE plb_status plb_pass_sum_early(plb_graph **graph, const plb_pass_context *context);
// The gradient of a batch norm with ReLU gets beta, which tells y's sign, in place of y.
PLB_MUST_USE plb_status plb_pass_use_signs(plb_graph **graph, const plb_pass_context *context);
// What a batch norm made is computed again for backward instead of being kept.
PLB_MUST_USE plb_status plb_pass_recompute(plb_graph **graph, const plb_pass_context *context);
// Pointwise nodes with one consumer become one `fused` node with it.
PLB_MUST_USE plb_status plb_pass_fuse_chain(plb_graph **graph, const plb_pass_context *context);
// Gives every value a layout and inserts reorders where they meet.
PLB_MUST_USE plb_status plb_pass_layout(plb_graph **graph, const plb_pass_context *context);

// For passes: whether the op multiplies matrices, a convolution and its gradients among them.
bool plb_pass_is_product(plb_op_id op);
// For passes: hands the rewritten graph over in place of *graph.
PLB_MUST_USE plb_status plb_pass_commit(plb_rewrite *rw, plb_graph **graph);

#endif
