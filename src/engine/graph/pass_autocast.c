// SPDX-License-Identifier: Apache-2.0
// Mixed precision as autocast does it (Micikevicius et al.: "Mixed precision training", 2018), on
// a program that is differentiated already: convolutions and products read and write 16-bit
// floats; what only passes activations on (pointwise ops, pools, norms, moves) keeps the 16 bits
// that it gets; losses, exponentials, and optimizers compute in f32. Variables stay f32, so weights
// are cast where they are read, statistics and scales of norms are f32, and outputs have the types
// of the program.
#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "engine/ops/pointwise.h"
#include "plumb/ops.h"

enum { MAX_IN = 1024 }; // of a concat

typedef struct autocast {
    plb_rewrite rw;
    plb_dtype narrow;
    plb_value *as_narrow, *as_wide; // of each old value: its copies
    int narrowed;                   // nodes
} autocast;

bool plb_pass_is_product(plb_op_id op) {
    return op == PLB_OP_conv || op == PLB_OP_conv_input_grad || op == PLB_OP_conv_weight_grad ||
           op == PLB_OP_matmul;
}

// Ops whose results need more bits than a 16-bit float keeps.
static bool wants_f32(plb_op_id op) {
    switch (op) {
    case PLB_OP_exp:
    case PLB_OP_log:
    case PLB_OP_log1p:
    case PLB_OP_expm1:
    case PLB_OP_pow:
    case PLB_OP_rsqrt:
    case PLB_OP_reciprocal:
    case PLB_OP_softplus:
    case PLB_OP_cast: // says itself what it wants
    case PLB_OP_layer_norm:
    case PLB_OP_group_norm: return true;
    default: return false;
    }
}

static bool follows(plb_op_id op) {
    const unsigned flags = plb_op_of(op)->flags;
    if (wants_f32(op)) return false;
    if (op == PLB_OP_reduce_sum || op == PLB_OP_reduce_mean || op == PLB_OP_reduce_max ||
        op == PLB_OP_reduce_min) {
        return true;
    }
    return flags & (PLB_OP_POINTWISE | PLB_OP_SPATIAL | PLB_OP_FOLLOWS | PLB_OP_VIEW);
}

// Inputs that are statistics or scales: one number a channel, f32 whatever x is.
static bool is_vector(plb_op_id op, int k) {
    switch (op) {
    case PLB_OP_batch_norm: return k == 1 || k == 2;
    case PLB_OP_batch_norm_grad: return k >= 2 && k <= 4;
    case PLB_OP_batch_norm_infer: return k >= 1 && k <= 4;
    default: return false;
    }
}

static bool is_f32(const autocast *a, plb_value old) {
    return old >= 0 && a->rw.from->values[old].type.dtype == PLB_F32;
}

static bool is_narrow(const autocast *a, plb_value old) {
    return is_f32(a, old) && a->rw.to->values[a->rw.map[old]].type.dtype == a->narrow;
}

// An f32 operand of full size that is no constant: narrowing it would lose what others keep.
static bool insists(const autocast *a, const plb_node *node, int k) {
    const plb_graph *from = a->rw.from;
    plb_value old = node->in[k];
    if (!is_f32(a, old) || is_narrow(a, old) || is_vector(node->op, k)) return false;
    if (from->nodes[from->values[old].node].op == PLB_OP_constant) return false;
    return plb_shape_equal(&from->values[old].type.shape, &from->values[node->out].type.shape);
}

static bool goes_narrow(const autocast *a, const plb_node *node) {
    bool any = false;
    if (plb_pass_is_product(node->op)) return is_f32(a, node->in[0]);
    if (!follows(node->op)) return false;
    for (int k = 0; k < node->n_in; k++) {
        if (node->in[k] < 0 || is_vector(node->op, k)) continue;
        any |= is_narrow(a, node->in[k]);
        if (plb_op_of(node->op)->flags & PLB_OP_POINTWISE && insists(a, node, k)) return false;
    }
    return any;
}

// The new value of `old` in the dtype that is wanted, cast once.
static plb_value in_dtype(autocast *a, plb_value old, bool narrow) {
    if (old < 0) return PLB_NONE;
    plb_value now = a->rw.map[old];
    if (!is_f32(a, old) || is_narrow(a, old) == narrow) return now;
    plb_value *kept = narrow ? &a->as_narrow[old] : &a->as_wide[old];
    if (*kept == PLB_NONE) *kept = plb_cast(a->rw.to, now, narrow ? a->narrow : PLB_F32);
    return *kept;
}

static void place_node(autocast *a, int index) {
    const plb_node *node = &a->rw.from->nodes[index];
    plb_graph *to = a->rw.to;
    plb_value in[MAX_IN];
    const bool narrow = goes_narrow(a, node);
    if (node->n_in > MAX_IN || node->region[0]) {
        plb_graph_fail(
            to, plb_fail(PLB_EUNSUPPORTED, "%s: no mixed precision", plb_op_of(node->op)->name));
        return;
    }
    for (int k = 0; k < node->n_in; k++) {
        in[k] = in_dtype(a, node->in[k], narrow && !is_vector(node->op, k));
    }
    plb_value made = plb_emit(to, node->op, in, node->n_in, node->attrs);
    for (int k = 0; k < node->n_out && !to->status; k++) {
        plb_value count = a->rw.from->values[node->out + k].count;
        a->rw.map[node->out + k] = made + k;
        if (count >= node->out) count = made + (count - node->out);
        to->values[made + k].count = count;
    }
    a->narrowed += narrow;
}

static void place_assign(autocast *a, int index) {
    const plb_node *node = &a->rw.from->nodes[index];
    plb_value value = in_dtype(a, node->in[0], false);
    plb_assign(a->rw.to, ((const plb_variable_attrs *)node->attrs)->variable, value);
}

// Outputs keep the types of the program.
static void widen_outputs(autocast *a) {
    const plb_graph *from = a->rw.from;
    for (int i = 0; i < from->n_outputs && !a->rw.to->status; i++) {
        plb_value old = from->outputs[i].value;
        a->rw.map[old] = in_dtype(a, old, false);
    }
}

plb_status plb_pass_autocast(plb_graph **graph, const plb_pass_context *context) {
    autocast a = {.narrow = context->autocast};
    const size_t n = (size_t)(*graph)->n_values + 1;
    PLB_TRY(plb_rewrite_begin(*graph, &a.rw));
    a.as_narrow = plb_arena_alloc(a.rw.to->arena, n * sizeof *a.as_narrow);
    a.as_wide = plb_arena_alloc(a.rw.to->arena, n * sizeof *a.as_wide);
    if (!a.as_narrow || !a.as_wide) {
        plb_rewrite_abort(&a.rw);
        return plb_fail(PLB_ENOMEM, "out of memory for a pass");
    }
    for (size_t v = 0; v < n; v++) a.as_narrow[v] = a.as_wide[v] = PLB_NONE;
    for (int i = 0; i < (*graph)->n_nodes && !a.rw.to->status; i++) {
        const plb_node *node = &(*graph)->nodes[i];
        plb_scope_enter(a.rw.to, node->scope);
        a.rw.to->differentiating = node->backward; // marks what is appended
        if (node->op == PLB_OP_assign) {
            place_assign(&a, i);
        } else if (plb_op_of(node->op)->flags & PLB_OP_FRAME) {
            plb_rewrite_copy(&a.rw, i);
        } else {
            place_node(&a, i);
        }
        plb_scope_pop(a.rw.to);
    }
    widen_outputs(&a);
    a.rw.to->differentiating = false;
    PLB_TRY(plb_pass_commit(&a.rw, graph));
    plb_strbuf_printf(context->report, "autocast: %d ops in %s\n", a.narrowed,
                      plb_dtype_name(context->autocast));
    return PLB_OK;
}
