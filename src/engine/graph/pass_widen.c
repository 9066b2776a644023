// SPDX-License-Identifier: Apache-2.0
// The reference of proofs: the same program with every float computed in f64. Inputs, variables
// and constants keep their dtype and are cast as they come in; an assign casts back; outputs are
// f64. Every op in between is inferred again from its widened operands. Ops that name a dtype in
// their attributes name f64 instead.
#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "engine/ops/pointwise.h"
#include "plumb/ops.h"

static bool is_narrow(plb_dtype dtype) {
    return plb_dtype_is_float(dtype) && dtype != PLB_F64;
}

// Copies the node and casts what it makes.
static void widen_source(plb_rewrite *rw, int index) {
    plb_value out = rw->from->nodes[index].out;
    plb_rewrite_copy(rw, index);
    if (rw->to->status || !is_narrow(rw->from->values[out].type.dtype)) return;
    rw->map[out] = plb_cast(rw->to, rw->map[out], PLB_F64);
}

static void narrow_assign(plb_rewrite *rw, int index) {
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

static void widen_node(plb_rewrite *rw, int index) {
    const plb_node *node = &rw->from->nodes[index];
    plb_graph *to = rw->to;
    plb_value in[MAX_IN];
    own_attrs own;
    if (node->region[0]) {
        plb_graph_fail(to, plb_fail(PLB_EUNSUPPORTED, "%s: not in f64", plb_op_of(node->op)->name));
        return;
    }
    for (int k = 0; k < node->n_in; k++) in[k] = node->in[k] < 0 ? PLB_NONE : rw->map[node->in[k]];
    plb_value made = plb_emit(to, node->op, in, node->n_in, widened_attrs(node, &own));
    for (int k = 0; k < node->n_out && !to->status; k++) {
        plb_value count = rw->from->values[node->out + k].count;
        rw->map[node->out + k] = made + k;
        if (count >= node->out) count = made + (count - node->out);
        to->values[made + k].count = count;
    }
}

plb_status plb_pass_widen(plb_graph **graph, const plb_pass_context *context) {
    plb_rewrite rw;
    PLB_TRY(plb_rewrite_begin(*graph, &rw));
    for (int i = 0; i < (*graph)->n_nodes && !rw.to->status; i++) {
        const plb_node *node = &(*graph)->nodes[i];
        plb_scope_enter(rw.to, node->scope);
        rw.to->differentiating = node->backward; // marks what is appended
        if (node->op == PLB_OP_assign) {
            narrow_assign(&rw, i);
        } else if (plb_op_of(node->op)->flags & PLB_OP_FRAME) {
            widen_source(&rw, i);
        } else {
            widen_node(&rw, i);
        }
        plb_scope_pop(rw.to);
    }
    rw.to->differentiating = false;
    PLB_TRY(plb_pass_commit(&rw, graph));
    plb_strbuf_printf(context->report, "widen: floats are computed in f64\n");
    return PLB_OK;
}
