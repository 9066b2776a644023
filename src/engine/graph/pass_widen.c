// SPDX-License-Identifier: Apache-2.0
// The reference of proofs: the same program with every float computed in f64. Inputs, variables
// and constants keep their dtype and are cast as they come in; an assign casts back; outputs are
// f64. Every op in between is inferred again from its widened operands. Ops that name a dtype in
// their attributes name f64 instead.
//
// With math or autocast the program computes exactly, but on coarse numbers: what products multiply
// is rounded to so many bits, and so is whatever autocast made narrow. That shows what the rounding
// alone does to a result.
#include <math.h>

#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "engine/ops/pointwise.h"
#include "plumb/ops.h"

typedef struct widening {
    plb_rewrite rw;
    int operand_bits; // that products keep of what they multiply; 0: all
    int narrow_bits;  // that values of 16 bits keep; 0: all
} widening;

static bool is_narrow(plb_dtype dtype) {
    return plb_dtype_is_float(dtype) && dtype != PLB_F64;
}

// To the nearest number of so many bits, whatever its size: range is not what is looked at
// (T. J. Dekker: "A floating-point technique for extending the available precision", 1971, 5.7).
static plb_value rounded(plb_graph *graph, plb_value x, int bits) {
    enum { F64_BITS = 53 };
    plb_value far = plb_affine(graph, x, ldexp(1, F64_BITS - bits) + 1, 0);
    return plb_sub(graph, far, plb_sub(graph, far, x));
}

// Copies the node and casts what it makes.
static void widen_source(widening *w, int index) {
    plb_rewrite *rw = &w->rw;
    plb_value out = rw->from->nodes[index].out;
    plb_rewrite_copy(rw, index);
    if (rw->to->status || !is_narrow(rw->from->values[out].type.dtype)) return;
    rw->map[out] = plb_cast(rw->to, rw->map[out], PLB_F64);
}

static void narrow_assign(widening *w, int index) {
    plb_rewrite *rw = &w->rw;
    const plb_node *node = &rw->from->nodes[index];
    plb_dtype dtype = rw->from->values[node->in[0]].type.dtype;
    plb_value value = rw->map[node->in[0]];
    if (is_narrow(dtype)) value = plb_cast(rw->to, value, dtype);
    plb_assign(rw->to, ((const plb_variable_attrs *)node->attrs)->variable, value);
}

typedef union own_attrs {
    plb_cast_attrs cast;
    plb_random_attrs random;
    plb_iota_attrs iota;
} own_attrs;

// The attributes, with f64 for narrower floats; `own` gives room for changed ones.
static const void *widened_attrs(const plb_node *node, own_attrs *own) {
    switch (node->op) {
    case PLB_OP_cast:
        own->cast = *(const plb_cast_attrs *)node->attrs;
        if (is_narrow((plb_dtype)own->cast.dtype)) own->cast.dtype = PLB_F64;
        return own;
    case PLB_OP_random_uniform:
    case PLB_OP_random_normal:
        own->random = *(const plb_random_attrs *)node->attrs;
        if (is_narrow(own->random.type.dtype)) own->random.type.dtype = PLB_F64;
        return own;
    case PLB_OP_iota:
        own->iota = *(const plb_iota_attrs *)node->attrs;
        if (is_narrow(own->iota.type.dtype)) own->iota.type.dtype = PLB_F64;
        return own;
    default: return node->attrs;
    }
}

enum { MAX_IN = 1024 }; // of a concat

// An operand as the node gets it.
static plb_value operand(widening *w, const plb_node *node, int k) {
    if (node->in[k] < 0) return PLB_NONE;
    const plb_value value = w->rw.map[node->in[k]];
    const bool coarse = w->operand_bits && plb_pass_is_product(node->op) && k < 2;
    return coarse ? rounded(w->rw.to, value, w->operand_bits) : value;
}

// Whether autocast made a value narrow that its node does not just pass on.
static bool is_rounded(const widening *w, const plb_node *node, plb_value old) {
    const plb_dtype dtype = w->rw.from->values[old].type.dtype;
    return w->narrow_bits && is_narrow(dtype) && dtype != PLB_F32 &&
           !(plb_op_of(node->op)->flags & PLB_OP_VIEW);
}

static void widen_node(widening *w, int index) {
    plb_rewrite *rw = &w->rw;
    const plb_node *node = &rw->from->nodes[index];
    plb_graph *to = rw->to;
    plb_value in[MAX_IN];
    own_attrs own;
    if (node->region[0]) {
        plb_graph_fail(to, plb_fail(PLB_EUNSUPPORTED, "%s: not in f64", plb_op_of(node->op)->name));
        return;
    }
    for (int k = 0; k < node->n_in; k++) in[k] = operand(w, node, k);
    plb_value made = plb_emit(to, node->op, in, node->n_in, widened_attrs(node, &own));
    for (int k = 0; k < node->n_out && !to->status; k++) {
        plb_value count = rw->from->values[node->out + k].count;
        if (count >= node->out) count = made + (count - node->out);
        to->values[made + k].count = count;
        rw->map[node->out + k] =
            is_rounded(w, node, node->out + k) ? rounded(to, made + k, w->narrow_bits) : made + k;
    }
}

static int significant_bits(plb_dtype dtype) {
    return dtype == PLB_BF16 ? 8 : dtype == PLB_F16 ? 11 : 0;
}

plb_status plb_pass_widen(plb_graph **graph, const plb_pass_context *context) {
    enum { TF32_BITS = 11 };
    widening w = {.operand_bits = context->math == PLB_MATH_TF32 ? TF32_BITS : 0,
                  .narrow_bits = significant_bits(context->autocast)};
    PLB_TRY(plb_rewrite_begin(*graph, &w.rw));
    for (int i = 0; i < (*graph)->n_nodes && !w.rw.to->status; i++) {
        const plb_node *node = &(*graph)->nodes[i];
        plb_scope_enter(w.rw.to, node->scope);
        w.rw.to->differentiating = node->backward; // marks what is appended
        if (node->op == PLB_OP_assign) {
            narrow_assign(&w, i);
        } else if (plb_op_of(node->op)->flags & PLB_OP_FRAME) {
            widen_source(&w, i);
        } else {
            widen_node(&w, i);
        }
        plb_scope_pop(w.rw.to);
    }
    w.rw.to->differentiating = false;
    PLB_TRY(plb_pass_commit(&w.rw, graph));
    plb_strbuf_printf(context->report, "widen: floats are computed in f64%s\n",
                      w.operand_bits || w.narrow_bits ? ", and rounded" : "");
    return PLB_OK;
}
