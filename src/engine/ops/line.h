// SPDX-License-Identifier: Apache-2.0
// For ops that treat each line of elements along one axis alone: softmax, scans, sorting.
#ifndef PLB_ENGINE_OPS_LINE_H
#define PLB_ENGINE_OPS_LINE_H

#include "engine/ops/pointwise.h"

// Lines of a value along an axis: `count` of them, `extent` elements each. A scalar is one line
// of one element.
typedef struct plb_lines {
    int axis;
    int64_t extent, count;
} plb_lines;

PLB_API plb_lines plb_lines_of(const plb_shape *shape, int64_t axis);
// Index of the first element of line i, as in any value that differs along the axis alone.
PLB_API void plb_line_index(const plb_shape *shape, const plb_lines *lines, int64_t i,
                            int64_t *index);
// Offset in `t` of element k of the line that begins at `index`.
PLB_API int64_t plb_line_offset(const plb_tensor *t, const plb_lines *lines, int64_t *index,
                                int64_t k);

// Attributes with the axis made non-negative; PLB_EINVAL when there is no such axis. A scalar
// has the axes 0 and -1.
PLB_API PLB_MUST_USE plb_status plb_line_axis(const char *op, int rank, int64_t *axis);
// Appends a node of an op whose attributes are plb_axis_attrs, after plb_line_axis.
PLB_API plb_value plb_line_emit(plb_graph *graph, plb_op_id op, const plb_value *in, int n_in,
                                plb_axis_attrs attrs);

#endif
