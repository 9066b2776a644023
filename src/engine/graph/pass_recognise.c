// SPDX-License-Identifier: Apache-2.0
// Inference: what exporters spell out in small ops is put together again, so that it meets the
// kernels that know it: layer norms, GELU, biases and attention. A rule looks at the last node of
// its pattern and appends what replaces it; what led there dies unless others read it.
#include <math.h>

#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "engine/graph/pattern.h"

// Appends what replaces node `index` and maps its output, or leaves everything as it is.
typedef bool (*rule)(plb_rewrite *rw, int index);

static plb_type type_of(const plb_rewrite *rw, plb_value value) {
    return rw->from->values[value].type;
}

static bool near(double value, double expected) {
    return fabs(value - expected) <= 1e-5 * fabs(expected);
}

// ---------------------------------------------------------------------------- layer norm
// The mean over x's last axes, kept; how many, or 0.
static int mean_of_last(const plb_graph *from, plb_value value, plb_value *x) {
    if (!plb_made_by(from, value, PLB_OP_reduce_mean)) return 0;
    const plb_node *node = plb_maker(from, value);
    const plb_reduce_attrs *a = node->attrs;
    *x = node->in[0];
    const int rank = from->values[*x].type.shape.rank;
    int axes = 0;
    while (axes < rank && a->axes >> (rank - 1 - axes) & 1) axes++;
    bool last = a->keep && axes && a->axes == ((INT64_C(1) << axes) - 1) << (rank - axes);
    return last ? axes : 0;
}

// d = x - mean(x) over the last axes.
static int centred(const plb_graph *from, plb_value d, plb_value *x) {
    plb_value of;
    if (!plb_made_by(from, d, PLB_OP_sub)) return 0;
    const plb_node *node = plb_maker(from, d);
    const int axes = mean_of_last(from, node->in[1], &of);
    *x = node->in[0];
    return of == *x ? axes : 0;
}

static bool is_square(const plb_graph *from, plb_value value, plb_value d) {
    const plb_node *node = plb_maker(from, value);
    double power;
    if (node->op == PLB_OP_mul) return node->in[0] == d && node->in[1] == d;
    return node->op == PLB_OP_pow && node->in[0] == d &&
           plb_pattern_number(from, node->in[1], &power) && power == 2;
}

// `value` divides by sqrt(mean(d^2) + eps).
static bool is_deviation(const plb_graph *from, plb_value value, plb_value d, int axes,
                         double *eps) {
    plb_value variance, squares;
    if (!plb_made_by(from, value, PLB_OP_sqrt)) return false;
    if (!plb_pattern_shifted(from, plb_maker(from, value)->in[0], &variance, eps)) return false;
    return mean_of_last(from, variance, &squares) == axes && is_square(from, squares, d);
}

static bool standardised(const plb_graph *from, plb_value value, plb_value *x, int *axes,
                         double *eps) {
    if (!plb_made_by(from, value, PLB_OP_div)) return false;
    const plb_node *node = plb_maker(from, value);
    *axes = centred(from, node->in[0], x);
    return *axes && is_deviation(from, node->in[1], node->in[0], *axes, eps);
}

static bool fits_last(const plb_rewrite *rw, plb_value vector, plb_value x, int axes) {
    plb_shape v = type_of(rw, vector).shape, whole = type_of(rw, x).shape;
    if (v.rank != axes) return false;
    for (int i = 0; i < axes; i++) {
        if (v.dim[i] != whole.dim[whole.rank - axes + i]) return false;
    }
    return true;
}

// (x - mean) / sqrt(variance + eps) gamma + beta
static bool layer_norm(plb_rewrite *rw, int index) {
    const plb_graph *from = rw->from;
    const plb_node *node = &from->nodes[index];
    plb_value product, divided, x = PLB_NONE;
    int axes = 0;
    double eps = 0;
    if (node->op != PLB_OP_add) return false;
    plb_value beta = plb_pattern_beside(from, node, PLB_OP_mul, &product);
    if (beta == PLB_NONE) return false;
    plb_value gamma = plb_pattern_beside(from, plb_maker(from, product), PLB_OP_div, &divided);
    if (gamma == PLB_NONE || !standardised(from, divided, &x, &axes, &eps)) return false;
    if (!fits_last(rw, gamma, x, axes) || !fits_last(rw, beta, x, axes)) return false;
    rw->map[node->out] =
        plb_layer_norm(rw->to, rw->map[x], rw->map[gamma], rw->map[beta], axes, eps);
    return true;
}

// ---------------------------------------------------------------------------- GELU
// x (1 + erf(x / sqrt 2)) / 2, the factor anywhere.
static bool gelu(plb_rewrite *rw, int index) {
    const plb_graph *from = rw->from;
    const plb_node *node = &from->nodes[index];
    double outer, inner, one, root;
    if (node->op != PLB_OP_mul && node->op != PLB_OP_affine && node->op != PLB_OP_div) return false;
    plb_value product = plb_pattern_scaled(from, node->out, &outer);
    if (!plb_made_by(from, product, PLB_OP_mul)) return false;
    for (int k = 0; k < 2; k++) {
        const plb_node *mul = plb_maker(from, product);
        plb_value erf, x = plb_pattern_scaled(from, mul->in[k], &inner);
        if (!plb_pattern_shifted(from, mul->in[1 - k], &erf, &one) || one != 1) continue;
        if (!plb_made_by(from, erf, PLB_OP_erf)) continue;
        plb_value argument = plb_pattern_scaled(from, plb_maker(from, erf)->in[0], &root);
        if (argument != x || !near(root, M_SQRT1_2) || !near(outer * inner, 0.5)) continue;
        rw->map[node->out] = plb_gelu(rw->to, rw->map[x]);
        return true;
    }
    return false;
}

// ---------------------------------------------------------------------------- products
// A matrix product that nobody else reads, perhaps seen with other extents.
static const plb_node *product_behind(const plb_rewrite *rw, plb_value value, bool *reshaped) {
    *reshaped = plb_made_by(rw->from, value, PLB_OP_reshape);
    if (rw->uses[value] != 1) return NULL;
    if (*reshaped) value = plb_maker(rw->from, value)->in[0];
    const plb_node *node = plb_maker(rw->from, value);
    const plb_matmul_attrs *a = node->attrs;
    bool bare = node->op == PLB_OP_matmul && rw->uses[value] == 1 && node->n_in <= 3;
    return bare && a->epilogue.activation == PLB_ACT_NONE ? node : NULL;
}

// Whether b adds one number to each column of y.
static bool is_bias(const plb_rewrite *rw, plb_value b, plb_value y) {
    plb_type bias = type_of(rw, b), out = type_of(rw, y);
    const int last = bias.shape.rank - 1;
    if (last < 0 || bias.dtype != out.dtype) return false;
    int64_t n = out.shape.dim[out.shape.rank - 1];
    return bias.shape.dim[last] == n && plb_shape_count(&bias.shape) == n;
}

// product + bias, each column's own -> the product's bias
static bool linear(plb_rewrite *rw, int index) {
    const plb_node *node = &rw->from->nodes[index];
    if (node->op != PLB_OP_add) return false;
    for (int k = 0; k < 2; k++) {
        bool reshaped;
        const plb_node *product = product_behind(rw, node->in[k], &reshaped);
        plb_shape y = type_of(rw, node->out).shape;
        if (!product || product->n_in > 2 || !is_bias(rw, node->in[1 - k], node->out)) continue;
        plb_shape made = type_of(rw, product->out).shape, seen = type_of(rw, node->in[k]).shape;
        if (!plb_shape_equal(&seen, &y) || made.dim[made.rank - 1] != y.dim[y.rank - 1]) continue;
        plb_value in[3] = {rw->map[product->in[0]], rw->map[product->in[1]]};
        in[2] =
            plb_reshape(rw->to, rw->map[node->in[1 - k]], &plb_shape_of(made.dim[made.rank - 1]));
        plb_value z = plb_emit(rw->to, PLB_OP_matmul, in, 3, product->attrs);
        rw->map[node->out] = reshaped ? plb_reshape(rw->to, z, &y) : z;
        return true;
    }
    return false;
}

// A residual or activation behind a reshape of a product moves before it, where it can join.
static bool sink(plb_rewrite *rw, int index) {
    const plb_node *node = &rw->from->nodes[index];
    const plb_pointwise_attrs *a = node->attrs;
    bool add = node->op == PLB_OP_add;
    if (!add && node->op != PLB_OP_relu && node->op != PLB_OP_clamp) return false;
    plb_shape y = type_of(rw, node->out).shape;
    for (int k = 0; k < node->n_in; k++) {
        bool reshaped;
        const plb_node *product = product_behind(rw, node->in[k], &reshaped);
        plb_shape seen = type_of(rw, node->in[k]).shape;
        if (!product || !reshaped || !plb_shape_equal(&seen, &y)) continue;
        plb_value x = rw->map[product->out], z;
        plb_shape made = type_of(rw, product->out).shape;
        if (add) {
            plb_shape other = type_of(rw, node->in[1 - k]).shape;
            if (!plb_shape_equal(&other, &y)) continue;
            z = plb_add(rw->to, x, plb_reshape(rw->to, rw->map[node->in[1 - k]], &made));
        } else {
            z = node->op == PLB_OP_relu ? plb_relu(rw->to, x)
                                        : plb_clamp(rw->to, x, a->alpha, a->beta);
        }
        rw->map[node->out] = plb_reshape(rw->to, z, &y);
        return true;
    }
    return false;
}

// Whether a permutation swaps the last two axes and nothing else.
static bool swaps_last(const plb_rewrite *rw, plb_value value) {
    if (!plb_made_by(rw->from, value, PLB_OP_permute)) return false;
    const int64_t *axes = ((const plb_permute_attrs *)plb_maker(rw->from, value)->attrs)->axes;
    const int rank = type_of(rw, value).shape.rank;
    for (int i = 0; i < rank; i++) {
        int64_t expected = i < rank - 2 ? i : 2 * rank - 3 - i;
        if (axes[i] != expected) return false;
    }
    return rank >= 2;
}

// An operand that is transposed for the product alone.
static bool transposed_operand(plb_rewrite *rw, int index) {
    const plb_node *node = &rw->from->nodes[index];
    if (node->op != PLB_OP_matmul) return false;
    bool swap[2] = {swaps_last(rw, node->in[0]), swaps_last(rw, node->in[1])};
    if (!swap[0] && !swap[1]) return false;
    plb_matmul_attrs attrs = *(const plb_matmul_attrs *)node->attrs;
    plb_value in[4];
    for (int k = 0; k < node->n_in; k++) {
        plb_value old = node->in[k];
        if (k < 2 && swap[k]) old = plb_maker(rw->from, old)->in[0];
        in[k] = old < 0 ? PLB_NONE : rw->map[old];
    }
    if (swap[0]) attrs.trans_a = !attrs.trans_a;
    if (swap[1]) attrs.trans_b = !attrs.trans_b;
    plb_node copy = *node;
    copy.in = in;
    copy.attrs = &attrs;
    plb_rewrite_replace(rw, index, &copy);
    return true;
}

// ---------------------------------------------------------------------------- attention
typedef struct attention {
    plb_value q, k, v, mask; // old values; k as the product reads it
    bool k_transposed;       // k is [B,H,D,S]
    bool zero_masked;
    double scale;
} attention;

// p of where(isnan(p), 0, p), which is how exporters have queries that see nothing give zeros.
static plb_value without_nans(const plb_graph *from, plb_value value) {
    double zero;
    if (!plb_made_by(from, value, PLB_OP_where)) return PLB_NONE;
    const plb_node *node = plb_maker(from, value);
    plb_value p = node->in[2];
    if (!plb_made_by(from, node->in[0], PLB_OP_isnan)) return PLB_NONE;
    if (plb_maker(from, node->in[0])->in[0] != p) return PLB_NONE;
    bool found = plb_pattern_number(from, node->in[1], &zero) && zero == 0;
    return found ? p : PLB_NONE;
}

static bool is_softmax_of_last(const plb_graph *from, plb_value value) {
    if (!plb_made_by(from, value, PLB_OP_softmax)) return false;
    return ((const plb_axis_attrs *)plb_maker(from, value)->attrs)->axis == 3;
}

static bool is_plain_product(const plb_rewrite *rw, plb_value value) {
    if (!plb_made_by(rw->from, value, PLB_OP_matmul)) return false;
    const plb_node *node = plb_maker(rw->from, value);
    const plb_matmul_attrs *a = node->attrs;
    if (node->n_in != 2 || a->trans_a || a->epilogue.activation != PLB_ACT_NONE) return false;
    for (int k = 0; k < 2; k++) {
        if (type_of(rw, node->in[k]).shape.rank != 4) return false;
    }
    return type_of(rw, node->in[0]).dtype == PLB_F32;
}

// scores = scale q k^T [+ mask]
static bool match_scores(const plb_rewrite *rw, plb_value scores, attention *a) {
    const plb_graph *from = rw->from;
    double of_product, of_q, of_k;
    a->mask = PLB_NONE;
    plb_value product = plb_pattern_scaled(from, scores, &of_product);
    if (product == scores && plb_made_by(from, scores, PLB_OP_add)) {
        const plb_node *add = plb_maker(from, scores);
        for (int k = 0; k < 2 && a->mask == PLB_NONE; k++) {
            product = plb_pattern_scaled(from, add->in[k], &of_product);
            if (is_plain_product(rw, product)) a->mask = add->in[1 - k];
        }
    }
    if (!is_plain_product(rw, product)) return false;
    const plb_node *node = plb_maker(from, product);
    a->q = plb_pattern_scaled(from, node->in[0], &of_q);
    a->k = plb_pattern_scaled(from, node->in[1], &of_k);
    a->k_transposed = !((const plb_matmul_attrs *)node->attrs)->trans_b;
    a->scale = of_product * of_q * of_k;
    return true;
}

// Nothing is broadcast but the mask.
static bool heads_fit(const plb_rewrite *rw, const attention *a) {
    plb_shape q = type_of(rw, a->q).shape, k = type_of(rw, a->k).shape;
    plb_shape v = type_of(rw, a->v).shape;
    if (a->mask != PLB_NONE) {
        const plb_shape mask = type_of(rw, a->mask).shape;
        const int64_t scores[] = {q.dim[0], q.dim[1], q.dim[2], k.dim[a->k_transposed ? 3 : 2]};
        for (int i = 1; i <= mask.rank; i++)
            if (i > 4 || (mask.dim[mask.rank - i] != 1 && mask.dim[mask.rank - i] != scores[4 - i]))
                return false;
    }
    bool same = q.dim[0] == k.dim[0] && q.dim[1] == k.dim[1];
    return same && v.dim[0] == q.dim[0] && v.dim[1] == q.dim[1];
}

// softmax(scale q k^T + mask) v
static bool attention_of(plb_rewrite *rw, int index) {
    const plb_graph *from = rw->from;
    plb_graph *to = rw->to;
    const plb_node *node = &from->nodes[index];
    attention a = {0};
    if (node->op != PLB_OP_matmul || !is_plain_product(rw, node->out)) return false;
    if (((const plb_matmul_attrs *)node->attrs)->trans_b) return false;
    plb_value p = without_nans(from, node->in[0]);
    a.zero_masked = p != PLB_NONE;
    if (p == PLB_NONE) p = node->in[0];
    if (!is_softmax_of_last(from, p)) return false;
    a.v = node->in[1];
    if (rw->uses[node->in[0]] != 1) return false; // others see the weights: they are made anyway
    if (!match_scores(rw, plb_maker(from, p)->in[0], &a) || !heads_fit(rw, &a)) {
        return false;
    }
    plb_value k = rw->map[a.k], mask = a.mask == PLB_NONE ? PLB_NONE : rw->map[a.mask];
    if (a.k_transposed) k = plb_transpose(to, k, 2, 3);
    plb_value y = plb_attention(to, rw->map[a.q], k, rw->map[a.v], mask,
                                &(plb_attention_attrs){a.scale, a.zero_masked});
    rw->map[node->out] = plb_transpose(to, y, 1, 2);
    return true;
}

// ---------------------------------------------------------------------------- numbers
// A product with a number, or a sum with one, needs no second operand.
static bool by_number(plb_rewrite *rw, int index) {
    const plb_node *node = &rw->from->nodes[index];
    double number;
    if (node->op != PLB_OP_mul && node->op != PLB_OP_add && node->op != PLB_OP_sub) return false;
    if (type_of(rw, node->out).dtype != PLB_F32) return false;
    for (int k = 1; k >= (node->op == PLB_OP_sub); k--) {
        plb_shape x = type_of(rw, node->in[1 - k]).shape, y = type_of(rw, node->out).shape;
        if (!plb_pattern_number(rw->from, node->in[k], &number)) continue;
        if (!plb_shape_equal(&x, &y)) continue;
        if (node->op == PLB_OP_sub) number = -number;
        bool product = node->op == PLB_OP_mul;
        rw->map[node->out] = plb_affine(rw->to, rw->map[node->in[1 - k]], product ? number : 1,
                                        product ? 0 : number);
        return true;
    }
    return false;
}

// ---------------------------------------------------------------------------- the pass
typedef struct stage {
    const char *what;
    rule rules[4];
} stage;

// What a stage makes, the next one reads.
static const stage stages[] = {
    {"layer norms and GELUs", {layer_norm, gelu}}, {"attentions", {attention_of}},
    {"transposed operands", {transposed_operand}}, {"biases", {linear}},
    {"residuals before reshapes", {sink}},         {"operations with a number", {by_number}},
};

static plb_status run_stage(plb_graph **graph, const stage *s, int *found) {
    plb_rewrite rw;
    *found = 0;
    PLB_TRY(plb_rewrite_begin(*graph, &rw));
    for (int i = 0; i < (*graph)->n_nodes && !rw.to->status; i++) {
        const plb_node *node = &(*graph)->nodes[i];
        bool done = false, exact = node->n_out == 1 && (*graph)->values[node->out].count < 0;
        plb_scope_enter(rw.to, node->scope);
        for (int k = 0; exact && k < 4 && s->rules[k] && !done; k++)
            done = s->rules[k](&rw, i) && plb_rewrite_keeps_shape(&rw, node->out);
        plb_scope_pop(rw.to);
        if (!done) plb_rewrite_copy(&rw, i);
        *found += done;
    }
    return plb_pass_commit(&rw, graph);
}

plb_status plb_pass_recognise(plb_graph **graph, const plb_pass_context *context) {
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        int found;
        PLB_TRY(run_stage(graph, &stages[i], &found));
        if (!found) continue;
        plb_strbuf_printf(context->report, "recognise: %d %s\n", found, stages[i].what);
    }
    return plb_pass_clean(graph, context);
}
