// SPDX-License-Identifier: Apache-2.0
// Small questions that passes which look for patterns ask of a graph.
#ifndef PLB_ENGINE_GRAPH_PATTERN_H
#define PLB_ENGINE_GRAPH_PATTERN_H

#include "engine/graph/graph.h"
#include "plumb/ops.h"

// The node that makes a value.
static inline const plb_node *plb_maker(const plb_graph *graph, plb_value value) {
    return &graph->nodes[graph->values[value].node];
}

static inline bool plb_made_by(const plb_graph *graph, plb_value value, plb_op_id op) {
    return value >= 0 && plb_maker(graph, value)->op == op;
}

// The node that makes a value where that is an `op`; else NULL.
static inline const plb_node *plb_maker_by(const plb_graph *graph, plb_value value, plb_op_id op) {
    return plb_made_by(graph, value, op) ? plb_maker(graph, value) : NULL;
}

static inline bool plb_same_type(const plb_graph *graph, plb_value a, plb_value b) {
    const plb_type *x = &graph->values[a].type, *y = &graph->values[b].type;
    return x->dtype == y->dtype && plb_shape_equal(&x->shape, &y->shape);
}

// The number that every element of a float value is, where it is made of a constant by nothing but
// expand, reshape and cast.
bool plb_pattern_number(const plb_graph *graph, plb_value value, double *out);
// value = x * *factor, by a number: through mul, div, neg and affine without a shift, any number of
// them. Returns x; value itself with factor 1 where there are none.
plb_value plb_pattern_scaled(const plb_graph *graph, plb_value value, double *factor);
// One operand of a node of two inputs is made by `op`: the other one; PLB_NONE where none is. Of
// two the first is taken.
plb_value plb_pattern_beside(const plb_graph *graph, const plb_node *node, plb_op_id op,
                             plb_value *found);
// value = x + *number or x - *number.
bool plb_pattern_shifted(const plb_graph *graph, plb_value value, plb_value *x, double *number);

#endif
