// SPDX-License-Identifier: Apache-2.0
// The mapping functions, declared from the list, and small pieces that several of them use.
#ifndef PLB_ONNX_MAP_H
#define PLB_ONNX_MAP_H

#include "onnx/build.h"

#define PLB_ONNX_OP(name, since, map, note) plb_status plb_onnx_map_##map(plb_onnx_node *n);
#include "onnx/ops.def"
#undef PLB_ONNX_OP

// 1 along `axis` (of extent 1 in `index`) where the position equals index, 0 elsewhere.
plb_value plb_onnx_one_hot(plb_graph *graph, plb_value index, int axis, int64_t extent,
                           plb_dtype dtype);
// i64 indices of which negative ones count from the end of `extent`, made non-negative.
plb_value plb_onnx_wrap_index(plb_graph *graph, plb_value index, int64_t extent);
// n numbers as a constant of rank 1, or of `shape`.
plb_value plb_onnx_i64(plb_graph *graph, const int64_t *values, int64_t n);
plb_value plb_onnx_f64(plb_graph *graph, plb_dtype dtype, const plb_shape *shape,
                       const double *values);
// x[…] with extent-1 axes put in front or behind until it has `rank`.
plb_value plb_onnx_widen(plb_graph *graph, plb_value x, int rank, int first_axis);
// numpy's matmul, with operands of rank 1, and of integers.
plb_value plb_onnx_matmul(plb_graph *g, plb_value a, plb_value b);
// plb_matmul of integers, wrapping around.
plb_value plb_onnx_integer_product(plb_graph *g, plb_value a, plb_value b,
                                   const plb_matmul_attrs *attrs);
// Pads of x's last axes as auto_pad, pads, strides, kernel and dilations ask. Arrays have `axes`
// elements. `transposed` is served elsewhere.
typedef struct plb_onnx_window {
    int axes;
    int64_t kernel[PLB_MAX_SPATIAL], stride[PLB_MAX_SPATIAL], dilation[PLB_MAX_SPATIAL];
    int64_t begin[PLB_MAX_SPATIAL], end[PLB_MAX_SPATIAL];
    bool ceil;
} plb_onnx_window;
PLB_MUST_USE plb_status plb_onnx_window_of(const plb_onnx_node *n, const plb_shape *x,
                                           const int64_t *kernel, plb_onnx_window *out);
// Attributes of a convolution of these inputs of the node.
PLB_MUST_USE plb_status plb_onnx_conv_attrs(const plb_onnx_node *n, int input, int weights,
                                            plb_conv_attrs *attrs);

#endif
