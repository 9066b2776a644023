// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/line.h"

#include "base/core/status.h"

plb_lines plb_lines_of(const plb_shape *shape, int64_t axis) {
    plb_lines lines = {.axis = (int)axis, .extent = 1, .count = 1};
    for (int i = 0; i < shape->rank; i++) {
        if (i == axis) {
            lines.extent = shape->dim[i];
        } else {
            lines.count *= shape->dim[i];
        }
    }
    return lines;
}

void plb_line_index(const plb_shape *shape, const plb_lines *lines, int64_t i, int64_t *index) {
    plb_shape others = *shape;
    if (others.rank) others.dim[lines->axis] = 1;
    plb_index_of(&others, i, index);
}

int64_t plb_line_offset(const plb_tensor *t, const plb_lines *lines, int64_t *index, int64_t k) {
    if (t->shape.rank) index[lines->axis] = k;
    return plb_tensor_offset(t, index);
}

plb_status plb_line_axis(const char *op, int rank, int64_t *axis) {
    int64_t extent = rank ? rank : 1, given = *axis;
    if (given < -extent || given >= extent) {
        return plb_fail(PLB_EINVAL, "%s: expected an axis of a value of rank %d, found %lld", op,
                        rank, (long long)given);
    }
    *axis = given < 0 ? given + extent : given;
    return PLB_OK;
}

plb_value plb_line_emit(plb_graph *graph, plb_op_id op, const plb_value *in, int n_in,
                        plb_axis_attrs attrs) {
    if (in[0] != PLB_NONE) {
        plb_shape shape = plb_value_shape(graph, in[0]);
        plb_status status = plb_line_axis(plb_op_of(op)->name, shape.rank, &attrs.axis);
        if (status) return plb_graph_fail(graph, status);
    }
    return plb_emit(graph, op, in, n_in, &attrs);
}
