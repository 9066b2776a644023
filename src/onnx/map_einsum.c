// SPDX-License-Identifier: Apache-2.0
// Einsum: operands are folded into the result one by one; each fold is a matrix product over the
// labels that are summed, with the labels that stay in both as batch.
#include <string.h>

#include "base/core/status.h"
#include "onnx/build.h"
#include "onnx/map.h"

enum { MAX_LABELS = PLB_MAX_RANK, DOTS = 128 }; // the axes of "..." are labelled DOTS + 0, 1, …

typedef struct term {
    plb_value value;
    int n;
    int label[MAX_LABELS];
} term;

static int find(const term *t, int label) {
    for (int i = 0; i < t->n; i++) {
        if (t->label[i] == label) return i;
    }
    return -1;
}

static plb_status add_label(term *t, int label) {
    if (t->n == MAX_LABELS) return plb_onnx_refuse("more than %d axes", MAX_LABELS);
    t->label[t->n++] = label;
    return PLB_OK;
}

// One operand's letters; "..." stands for the axes that the others leave, aligned at the end.
static plb_status parse(const char *text, size_t length, int rank, int dots, term *out) {
    int letters = 0;
    for (size_t i = 0; i < length; i++) letters += text[i] != '.' && text[i] != ' ';
    out->n = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == ' ') continue;
        if (text[i] != '.') {
            PLB_TRY(add_label(out, text[i]));
            continue;
        }
        if (i + 2 >= length || strncmp(text + i, "...", 3) != 0) {
            return plb_fail(PLB_EINVAL, "a lone dot in the equation");
        }
        i += 2;
        int count = rank < 0 ? dots : rank - letters;
        for (int k = 0; k < count; k++) PLB_TRY(add_label(out, DOTS + dots - count + k));
    }
    if (rank >= 0 && out->n != rank) {
        return plb_fail(PLB_EINVAL, "%d labels for an operand of rank %d", out->n, rank);
    }
    return PLB_OK;
}

// A label that stands twice: only the diagonal counts.
static plb_value diagonal(plb_graph *g, term *t, int i, int k) {
    plb_shape s = plb_value_shape(g, t->value), line[2] = {{.rank = s.rank}, {.rank = s.rank}};
    if (s.dim[i] != s.dim[k]) {
        plb_graph_fail(g, plb_fail(PLB_EINVAL, "one label for extents %lld and %lld",
                                   (long long)s.dim[i], (long long)s.dim[k]));
    }
    for (int axis = 0; axis < s.rank; axis++) {
        line[0].dim[axis] = axis == i ? s.dim[axis] : 1;
        line[1].dim[axis] = axis == k ? s.dim[axis] : 1;
    }
    plb_value same =
        plb_eq(g, plb_iota(g, PLB_I64, &line[0], i), plb_iota(g, PLB_I64, &line[1], k));
    plb_value zero = plb_scalar(g, plb_value_type(g, t->value).dtype, 0);
    plb_value kept = plb_where(g, same, t->value, zero);
    for (int axis = k; axis + 1 < t->n; axis++) t->label[axis] = t->label[axis + 1];
    t->n--;
    return plb_sum(g, kept, INT64_C(1) << k, false);
}

static void take_diagonals(plb_graph *g, term *t) {
    for (int i = 0; i < t->n; i++) {
        for (int k = t->n - 1; k > i; k--) {
            if (t->label[i] == t->label[k]) t->value = diagonal(g, t, i, k);
        }
    }
}

// Sums over labels that neither `a` nor `b` has.
static void sum_away(plb_graph *g, term *t, const term *a, const term *b) {
    term kept = {.value = t->value};
    int64_t axes = 0;
    for (int i = 0; i < t->n; i++) {
        bool needed = find(a, t->label[i]) >= 0 || (b && find(b, t->label[i]) >= 0);
        if (needed)
            kept.label[kept.n++] = t->label[i];
        else
            axes |= INT64_C(1) << i;
    }
    if (axes) kept.value = plb_sum(g, t->value, axes, false);
    *t = kept;
}

// t with its axes in the order of `order`, extent 1 where it has none.
static plb_value arrange(plb_graph *g, const term *t, const term *order) {
    int axes[MAX_LABELS], n = 0;
    plb_shape wide = {.rank = order->n}, s = plb_value_shape(g, t->value);
    for (int i = 0; i < order->n; i++) {
        int at = find(t, order->label[i]);
        wide.dim[i] = at < 0 ? 1 : s.dim[at];
        if (at >= 0) axes[n++] = at;
    }
    if (n != t->n) return plb_graph_fail(g, plb_fail(PLB_EINVAL, "labels do not fit"));
    return plb_reshape(g, plb_permute(g, t->value, axes, n), &wide);
}

typedef struct parts {
    term batch, left, right, summed;
} parts;

static plb_status classify(const term *a, const term *b, const term *keep, parts *p) {
    *p = (parts){0};
    for (int i = 0; i < a->n; i++) {
        bool both = find(b, a->label[i]) >= 0, stays = find(keep, a->label[i]) >= 0;
        PLB_TRY(add_label(!both ? &p->left : stays ? &p->batch : &p->summed, a->label[i]));
    }
    for (int i = 0; i < b->n; i++) {
        if (find(a, b->label[i]) < 0) PLB_TRY(add_label(&p->right, b->label[i]));
    }
    return PLB_OK;
}

static int64_t extent_of(plb_graph *g, const term *t, const term *labels, plb_shape *out) {
    plb_shape s = plb_value_shape(g, t->value);
    int64_t product = 1;
    for (int i = 0; i < labels->n; i++) {
        int at = find(t, labels->label[i]);
        int64_t extent = at < 0 ? 1 : s.dim[at];
        if (out) out->dim[out->rank++] = extent;
        product *= extent;
    }
    return product;
}

// One operand as a matrix for each batch: its batch axes, then `rows`, then `columns` made one.
static plb_status as_matrix(plb_graph *g, const term *t, const parts *p, const term *rows,
                            const term *columns, plb_value *out) {
    term order = p->batch;
    plb_shape shape = {0};
    for (int i = 0; i < rows->n; i++) PLB_TRY(add_label(&order, rows->label[i]));
    for (int i = 0; i < columns->n; i++) PLB_TRY(add_label(&order, columns->label[i]));
    if (p->batch.n + 2 > PLB_MAX_RANK) return plb_onnx_refuse("%d batch axes", p->batch.n);
    extent_of(g, t, &p->batch, &shape);
    shape.dim[shape.rank++] = extent_of(g, t, rows, NULL);
    shape.dim[shape.rank++] = extent_of(g, t, columns, NULL);
    *out = plb_reshape(g, arrange(g, t, &order), &shape);
    return PLB_OK;
}

// a and b made one, with all labels that `keep` (or a later operand) needs.
static plb_status contract(plb_graph *g, term *a, const term *b, const term *keep) {
    parts p;
    plb_value left, right;
    PLB_TRY(classify(a, b, keep, &p));
    PLB_TRY(as_matrix(g, a, &p, &p.left, &p.summed, &left));
    PLB_TRY(as_matrix(g, b, &p, &p.summed, &p.right, &right));
    plb_value y = plb_onnx_matmul(g, left, right);
    plb_shape shape = plb_value_shape(g, y);
    PLB_TRY(plb_graph_status(g));
    shape.rank = p.batch.n;
    extent_of(g, a, &p.left, &shape);
    term joined = p.batch;
    for (int i = 0; i < p.left.n; i++) PLB_TRY(add_label(&joined, p.left.label[i]));
    for (int i = 0; i < p.right.n; i++) PLB_TRY(add_label(&joined, p.right.label[i]));
    extent_of(g, b, &p.right, &shape);
    joined.value = plb_reshape(g, y, &shape);
    *a = joined;
    return PLB_OK;
}

// Without "->": the labels that stand once, in the order of the alphabet, behind "...".
static plb_status implied_output(const term *in, int n, int dots, term *out) {
    for (int i = 0; i < dots; i++) PLB_TRY(add_label(out, DOTS + i));
    for (int label = 'A'; label <= 'z'; label++) {
        int seen = 0;
        for (int i = 0; i < n; i++) {
            for (int k = 0; k < in[i].n; k++) seen += in[i].label[k] == label;
        }
        if (seen == 1) PLB_TRY(add_label(out, label));
    }
    return PLB_OK;
}

static plb_status check_output(const term *in, int n, const term *out) {
    for (int i = 0; i < out->n; i++) {
        bool given = false;
        for (int k = 0; k < n && !given; k++) given = find(&in[k], out->label[i]) >= 0;
        if (!given)
            return plb_fail(PLB_EINVAL, "the output's label %c is no input's", out->label[i]);
        if (find(out, out->label[i]) == i) continue;
        return plb_fail(PLB_EINVAL, "the output's label %c stands twice", out->label[i]);
    }
    return PLB_OK;
}

enum { MAX_OPERANDS = 8 };

static plb_status read_equation(const plb_onnx_node *n, term *in, term *out) {
    const Onnx__AttributeProto *a =
        plb_onnx_typed(n, "equation", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    char text[256];
    int dots = 0, count = 0;
    if (!a || !a->has_s || a->s.len >= sizeof text) return plb_fail(PLB_EINVAL, "no equation");
    memcpy(text, a->s.data, a->s.len);
    text[a->s.len] = '\0';
    char *arrow = strstr(text, "->"), *part = text;
    if (arrow) *arrow = '\0';
    for (int pass = 0; pass < 2; pass++) { // first how many axes "..." has at most
        part = text;
        for (count = 0; part && count < n->n_in; count++) {
            char *comma = strchr(part, ',');
            size_t length = comma ? (size_t)(comma - part) : strlen(part);
            int letters = 0, rank = plb_onnx_type(n, count).shape.rank;
            for (size_t i = 0; i < length; i++) letters += part[i] != '.' && part[i] != ' ';
            if (memchr(part, '.', length) && rank - letters > dots) dots = rank - letters;
            if (pass == 1) PLB_TRY(parse(part, length, rank, dots, &in[count]));
            in[count].value = n->in[count];
            part = comma ? comma + 1 : NULL;
        }
    }
    if (count != n->n_in || part)
        return plb_fail(PLB_EINVAL, "the equation has another number of operands");
    if (!arrow) return implied_output(in, count, dots, out);
    PLB_TRY(parse(arrow + 2, strlen(arrow + 2), -1, dots, out));
    return check_output(in, count, out);
}

plb_status plb_onnx_map_einsum(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    term in[MAX_OPERANDS] = {{0}}, out = {0};
    if (n->n_in < 1 || n->n_in > MAX_OPERANDS) return plb_onnx_refuse("%d operands", n->n_in);
    PLB_TRY(read_equation(n, in, &out));
    for (int i = 0; i < n->n_in; i++) take_diagonals(g, &in[i]);
    term sum = in[0];
    for (int i = 1; i < n->n_in; i++) {
        term keep = out; // what is still needed
        for (int k = i + 1; k < n->n_in; k++) {
            for (int l = 0; l < in[k].n; l++) {
                if (find(&keep, in[k].label[l]) < 0) PLB_TRY(add_label(&keep, in[k].label[l]));
            }
        }
        sum_away(g, &sum, &keep, &in[i]);
        sum_away(g, &in[i], &keep, &sum);
        PLB_TRY(contract(g, &sum, &in[i], &keep));
    }
    sum_away(g, &sum, &out, NULL);
    n->out[0] = arrange(g, &sum, &out);
    return PLB_OK;
}
