// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/pattern.h"

#include "engine/ops/pointwise.h"

// Elements of a constant that are looked at, and casts between it and its user.
enum { MOST_ELEMENTS = 65536, MOST_CASTS = 4 };

static bool number_of_constant(const plb_constant_attrs *a, plb_number *out) {
    const int64_t count = plb_shape_count(&a->type.shape);
    if (count == 0 || count > MOST_ELEMENTS) return false;
    *out = plb_number_load(a->data, a->type.dtype, 0);
    for (int64_t i = 1; i < count; i++) {
        plb_number other = plb_number_load(a->data, a->type.dtype, i);
        if (plb_dtype_is_float(a->type.dtype) ? other.f != out->f : other.i != out->i) return false;
    }
    return true;
}

// As a value of `to` holds it.
static plb_number cast(plb_number number, plb_dtype from, plb_dtype to) {
    double place;
    plb_number_store(&place, to, 0, plb_number_cast(number, from, to));
    return plb_number_load(&place, to, 0);
}

bool plb_pattern_number(const plb_graph *graph, plb_value value, double *out) {
    if (value < 0 || !plb_dtype_is_float(graph->values[value].type.dtype)) return false;
    const plb_node *node = plb_maker(graph, value);
    plb_dtype cast_to[MOST_CASTS];
    int n_casts = 0;
    while (node->op == PLB_OP_expand || node->op == PLB_OP_reshape || node->op == PLB_OP_cast) {
        if (node->op == PLB_OP_cast) {
            if (n_casts == MOST_CASTS) return false;
            cast_to[n_casts++] = graph->values[node->out].type.dtype;
        }
        node = plb_maker(graph, node->in[0]);
    }
    plb_number number;
    if (node->op != PLB_OP_constant || !number_of_constant(node->attrs, &number)) return false;
    plb_dtype dtype = ((const plb_constant_attrs *)node->attrs)->type.dtype;
    while (n_casts--) { // the last one found comes first
        number = cast(number, dtype, cast_to[n_casts]);
        dtype = cast_to[n_casts];
    }
    *out = number.f;
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
