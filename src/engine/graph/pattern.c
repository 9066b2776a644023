// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/pattern.h"

enum { MOST_ELEMENTS = 65536 }; // that are looked at

bool plb_pattern_number(const plb_graph *graph, plb_value value, double *out) {
    if (value < 0) return false;
    const plb_node *node = plb_maker(graph, value);
    while (node->op == PLB_OP_expand || node->op == PLB_OP_reshape || node->op == PLB_OP_cast) {
        node = plb_maker(graph, node->in[0]);
    }
    if (node->op != PLB_OP_constant) return false;
    const plb_constant_attrs *a = node->attrs;
    int64_t count = plb_shape_count(&a->type.shape);
    if (!plb_dtype_is_float(graph->values[value].type.dtype) || count == 0) return false;
    if (count > MOST_ELEMENTS) return false;
    *out = plb_load_f64(a->data, a->type.dtype, 0);
    for (int64_t i = 1; i < count; i++) {
        if (plb_load_f64(a->data, a->type.dtype, i) != *out) return false;
    }
    return true;
}

// The number keeps the shape of what it scales.
static bool same_shape(const plb_graph *graph, plb_value a, plb_value b) {
    return plb_shape_equal(&graph->values[a].type.shape, &graph->values[b].type.shape);
}

plb_value plb_pattern_scaled(const plb_graph *graph, plb_value value, double *factor) {
    *factor = 1;
    for (;;) {
        const plb_node *node = plb_maker(graph, value);
        const plb_pointwise_attrs *a = node->attrs;
        plb_value x = node->n_in ? node->in[0] : PLB_NONE;
        double number = 1;
        if (node->op == PLB_OP_affine && a->beta == 0) {
            number = a->alpha;
        } else if (node->op == PLB_OP_neg) {
            number = -1;
        } else if (node->op == PLB_OP_mul && plb_pattern_number(graph, node->in[1], &number)) {
        } else if (node->op == PLB_OP_mul && plb_pattern_number(graph, node->in[0], &number)) {
            x = node->in[1];
        } else if (node->op == PLB_OP_div && plb_pattern_number(graph, node->in[1], &number)) {
            number = 1 / number;
        } else {
            return value;
        }
        if (!same_shape(graph, x, value)) return value;
        *factor *= number;
        value = x;
    }
}

plb_value plb_pattern_beside(const plb_graph *graph, const plb_node *node, plb_op_id op,
                             plb_value *found) {
    for (int k = 0; k < 2; k++) {
        *found = node->in[k];
        if (plb_made_by(graph, node->in[k], op)) return node->in[1 - k];
    }
    return PLB_NONE;
}

bool plb_pattern_shifted(const plb_graph *graph, plb_value value, plb_value *x, double *number) {
    const plb_node *node = plb_maker(graph, value);
    const plb_pointwise_attrs *a = node->attrs;
    *x = node->n_in ? node->in[0] : PLB_NONE;
    if (node->op == PLB_OP_affine && a->alpha == 1) {
        *number = a->beta;
        return true;
    }
    if (node->op == PLB_OP_sub && plb_pattern_number(graph, node->in[1], number)) {
        *number = -*number;
        return true;
    }
    if (node->op != PLB_OP_add) return false;
    if (plb_pattern_number(graph, node->in[1], number)) return true;
    *x = node->in[1];
    return plb_pattern_number(graph, node->in[0], number);
}
