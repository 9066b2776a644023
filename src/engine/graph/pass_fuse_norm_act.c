// SPDX-License-Identifier: Apache-2.0
// Backward through a norm with an activation other than ReLU behind it, for devices whose norms
// take it. With u = batch_norm(x) and y = act(u):
//   d = dy act'(u); dx = batch_norm_grad(x, d, …)   ->   batch_norm_grad(x, dy, …, beta) with act
// The activation's slope is computed from x, so neither d nor u need be written, nor u be kept:
// this pass runs before the one that fuses act into batch_norm, which asks that nobody else reads
// u. What act'(u) looks like is what the gradients of clamp and silu append (engine/ops/unary.c).
#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "engine/graph/pattern.h"
#include "engine/ops/pointwise.h"
#include "plumb/ops.h"

enum { X, GAMMA, BETA, RESIDUAL };                                  // of a norm
enum { DY = 1, OF_GAMMA, OF_MEAN, OF_INV, OF_Y, OF_BETA, N_IN_OF }; // of its gradient

// What was found behind a norm's gradient.
typedef struct found {
    const plb_node *norm;
    plb_value dy;
    plb_epilogue epilogue;
} found;

// Whether `value` is the scalar `number`, as such or cast.
static bool is_number(const plb_graph *graph, plb_value value, double number) {
    while (plb_made_by(graph, value, PLB_OP_cast)) value = plb_maker(graph, value)->in[0];
    const plb_node *node = plb_maker_by(graph, value, PLB_OP_constant);
    if (!node) return false;
    const plb_type *type = &graph->values[node->out].type;
    if (plb_shape_count(&type->shape) != 1 || !plb_dtype_is_float(type->dtype)) return false;
    double rounded;
    plb_store_f64(&rounded, type->dtype, 0, number);
    return plb_load_f64(((const plb_constant_attrs *)node->attrs)->data, type->dtype, 0) ==
           plb_load_f64(&rounded, type->dtype, 0);
}

static bool is_affine(const plb_graph *graph, plb_value value, double alpha, double beta,
                      plb_value *of) {
    const plb_node *node = plb_maker_by(graph, value, PLB_OP_affine);
    if (!node) return false;
    const plb_pointwise_attrs *a = node->attrs;
    *of = node->in[0];
    return a->alpha == alpha && a->beta == beta;
}

// The other factor of a product that has `one`; PLB_NONE: `value` is no such product.
static plb_value other_factor(const plb_graph *graph, plb_value value, plb_value one) {
    const plb_node *node = plb_maker_by(graph, value, PLB_OP_mul);
    if (!node) return PLB_NONE;
    if (node->in[0] == one) return node->in[1];
    return node->in[1] == one ? node->in[0] : PLB_NONE;
}

// Whether `slope` is s (1 + u (1 - s)) with s = sigmoid(u); sets u.
static bool is_silu_slope(const plb_graph *graph, plb_value slope, plb_value *u) {
    const plb_node *product = plb_maker_by(graph, slope, PLB_OP_mul);
    for (int k = 0; product && k < 2; k++) {
        const plb_node *s = plb_maker_by(graph, product->in[k], PLB_OP_sigmoid);
        plb_value inner, of;
        if (!s || !is_affine(graph, product->in[1 - k], 1, 1, &inner)) continue;
        *u = s->in[0];
        if (is_affine(graph, other_factor(graph, inner, *u), -1, 1, &of) && of == s->out) {
            return true;
        }
    }
    return false;
}

// d = dy (slope of silu at u), in either order.
static bool match_silu(const plb_graph *graph, plb_value d, found *f, plb_value *u) {
    const plb_node *product = plb_maker_by(graph, d, PLB_OP_mul);
    for (int k = 0; product && k < 2; k++) {
        if (!is_silu_slope(graph, product->in[k], u)) continue;
        f->dy = product->in[1 - k];
        f->epilogue = (plb_epilogue){.activation = PLB_ACT_SILU};
        return true;
    }
    return false;
}

// d = where(y > low and y < high, dy, 0) with y = clamp(u, low, high).
static bool match_clamp(const plb_graph *graph, plb_value d, found *f, plb_value *u) {
    const plb_node *where = plb_maker_by(graph, d, PLB_OP_where);
    const plb_node *both = where ? plb_maker_by(graph, where->in[0], PLB_OP_and) : NULL;
    const plb_node *gt = both ? plb_maker_by(graph, both->in[0], PLB_OP_gt) : NULL;
    const plb_node *lt = both ? plb_maker_by(graph, both->in[1], PLB_OP_lt) : NULL;
    if (!gt || !lt || gt->in[0] != lt->in[0] || !is_number(graph, where->in[2], 0)) return false;
    const plb_node *clamp = plb_maker_by(graph, gt->in[0], PLB_OP_clamp);
    if (!clamp) return false;
    const plb_pointwise_attrs *a = clamp->attrs;
    if (!is_number(graph, gt->in[1], a->alpha) || !is_number(graph, lt->in[1], a->beta)) {
        return false;
    }
    *u = clamp->in[0];
    f->dy = where->in[1];
    f->epilogue = (plb_epilogue){PLB_ACT_CLAMP, a->alpha, a->beta};
    return true;
}

// Whether node `index` is the gradient of a bare norm behind such an activation, and nobody else
// reads the slope's product.
static bool match(const plb_rewrite *rw, int index, found *f) {
    const plb_graph *graph = rw->from;
    const plb_node *node = &graph->nodes[index];
    plb_value u = PLB_NONE;
    if (node->op != PLB_OP_batch_norm_grad || node->n_in > OF_Y || rw->uses[node->in[DY]] != 1) {
        return false;
    }
    const plb_value d = node->in[DY];
    if (!match_silu(graph, d, f, &u) && !match_clamp(graph, d, f, &u)) return false;
    const plb_node *norm = f->norm = plb_maker_by(graph, u, PLB_OP_batch_norm);
    if (!norm || norm->out != u || (norm->n_in > RESIDUAL && norm->in[RESIDUAL] >= 0)) return false;
    const plb_norm_attrs *attrs = norm->attrs;
    if (attrs->epilogue.activation != PLB_ACT_NONE) return false;
    return plb_same_type(graph, f->dy, d) && node->in[X] == norm->in[X] &&
           node->in[OF_GAMMA] == norm->in[GAMMA] && node->in[OF_MEAN] == norm->out + 1 &&
           node->in[OF_INV] == norm->out + 2;
}

static void emit(plb_rewrite *rw, int index, const found *f) {
    plb_node node = rw->from->nodes[index];
    plb_norm_attrs attrs = *(const plb_norm_attrs *)node.attrs;
    plb_value in[N_IN_OF];
    for (int k = 0; k < OF_Y; k++) in[k] = rw->map[node.in[k]];
    in[DY] = rw->map[f->dy];
    in[OF_Y] = PLB_NONE;
    in[OF_BETA] = rw->map[f->norm->in[BETA]];
    attrs.epilogue = f->epilogue;
    node.in = in;
    node.n_in = N_IN_OF;
    node.attrs = &attrs;
    plb_rewrite_replace(rw, index, &node);
}

plb_status plb_pass_fuse_norm_act(plb_graph **graph, const plb_pass_context *context) {
    plb_rewrite rw;
    int n_found = 0;
    if (!context->backend->rich_norms) return PLB_OK;
    PLB_TRY(plb_rewrite_begin(*graph, &rw));
    for (int i = 0; i < (*graph)->n_nodes && !rw.to->status; i++) {
        found f;
        if (match(&rw, i, &f)) {
            emit(&rw, i, &f);
            n_found++;
        } else {
            plb_rewrite_copy(&rw, i);
        }
    }
    PLB_TRY(plb_pass_commit(&rw, graph));
    if (!n_found) return PLB_OK;
    plb_strbuf_printf(context->report, "fuse norm act: %d slopes of activations\n", n_found);
    return plb_pass_clean(graph, context); // what nobody reads any more would count as a reader
}
