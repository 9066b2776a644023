// SPDX-License-Identifier: Apache-2.0
// Matrix product: y[…,M,N] = act(a[…,M,K] b[…,K,N] + bias[N] + residual[…,M,N]), batch axes
// broadcast. Bias and residual are inputs 2 and 3; the activation and the residual are put there
// by passes, after differentiation.
#include "base/core/status.h"
#include "engine/ops/spatial.h"

// Extents of the matrices once the transpose flags have done their work.
typedef struct matrix_shape {
    plb_shape y;
    int64_t m, n, k;
} matrix_shape;

static plb_status shape_of(const plb_shape *a, const plb_shape *b, const plb_matmul_attrs *attrs,
                           matrix_shape *out) {
    char s[160], t[160];
    plb_shape_format(a, s, sizeof s);
    plb_shape_format(b, t, sizeof t);
    if (a->rank < 2 || b->rank < 2) {
        return plb_fail(PLB_EINVAL,
                        "matmul: expected matrices, found %s and %s; reshape a vector to [1,K] or "
                        "[K,1] first",
                        s, t);
    }
    const int64_t *am = a->dim + a->rank - 2, *bm = b->dim + b->rank - 2;
    int64_t k = am[attrs->trans_a ? 0 : 1];
    if (k != bm[attrs->trans_b ? 1 : 0]) {
        return plb_fail(PLB_EINVAL, "matmul: inner extents differ: %s%s and %s%s", s,
                        attrs->trans_a ? " transposed" : "", t,
                        attrs->trans_b ? " transposed" : "");
    }
    plb_shape batch_a = *a, batch_b = *b, y;
    batch_a.rank -= 2, batch_b.rank -= 2;
    plb_status status = plb_shape_broadcast(&batch_a, &batch_b, &y);
    if (status) return plb_fail_context(status, "matmul: batch axes");
    *out = (matrix_shape){
        .y = y, .m = am[attrs->trans_a ? 1 : 0], .n = bm[attrs->trans_b ? 0 : 1], .k = k};
    out->y.dim[out->y.rank++] = out->m;
    out->y.dim[out->y.rank++] = out->n;
    return PLB_OK;
}

static plb_status matmul_infer(plb_signature *s) {
    const plb_matmul_attrs *attrs = s->attrs;
    matrix_shape shape;
    PLB_TRY(plb_expect_floats(s, "matmul", 0, 3));
    PLB_TRY(plb_expect_epilogue(&attrs->epilogue, "matmul"));
    PLB_TRY(shape_of(&s->in[0].shape, &s->in[1].shape, attrs, &shape));
    if (s->n_in > 2 && !plb_type_absent(&s->in[2])) {
        PLB_TRY(plb_expect_shape(&s->in[2], &plb_shape_of(shape.n), "matmul", "bias"));
    }
    if (s->n_in > 3 && !plb_type_absent(&s->in[3])) {
        PLB_TRY(plb_expect_shape(&s->in[3], &shape.y, "matmul", "residual"));
    }
    s->out[0] = (plb_type){s->in[0].dtype, shape.y};
    return PLB_OK;
}

static plb_value product(plb_graph *graph, plb_value a, plb_value b, bool trans_a, bool trans_b) {
    return plb_matmul(graph, a, b, &(plb_matmul_attrs){.trans_a = trans_a, .trans_b = trans_b});
}

// With A and B the matrices that are multiplied, dA = dy B^T and dB = A^T dy; a transpose flag
// swaps the factors and transposes the result.
static void matmul_grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                        plb_value *din) {
    const plb_matmul_attrs attrs = *(const plb_matmul_attrs *)plb_node_attrs(graph, node);
    plb_value a = plb_node_in(graph, node, 0), b = plb_node_in(graph, node, 1), dy = dout[0];
    plb_shape a_shape = plb_value_shape(graph, a), b_shape = plb_value_shape(graph, b);
    bool ta = attrs.trans_a, tb = attrs.trans_b;
    if (attrs.epilogue.activation != PLB_ACT_NONE) {
        plb_graph_fail(graph, plb_fail(PLB_EUNSUPPORTED, "matmul: gradients come before fusion"));
        return;
    }
    if (needed[0]) {
        din[0] = ta ? product(graph, b, dy, tb, true) : product(graph, dy, b, false, !tb);
        din[0] = plb_sum_to(graph, din[0], &a_shape);
    }
    if (needed[1]) {
        din[1] = tb ? product(graph, dy, a, true, ta) : product(graph, a, dy, !ta, false);
        din[1] = plb_sum_to(graph, din[1], &b_shape);
    }
    plb_value bias = plb_node_in(graph, node, 2);
    if (bias != PLB_NONE && needed[2]) {
        plb_shape bias_shape = plb_value_shape(graph, bias);
        din[2] = plb_sum_to(graph, dy, &bias_shape);
    }
    if (plb_node_in(graph, node, 3) != PLB_NONE && needed[3]) din[3] = dy;
}

static double matmul_flops(const plb_signature *s) {
    matrix_shape shape;
    if (shape_of(&s->in[0].shape, &s->in[1].shape, s->attrs, &shape)) return 0;
    return 2.0 * (double)plb_shape_count(&shape.y) * (double)shape.k;
}

// Offset of the element (row, column) of the matrix that meets y's batch index.
static int64_t matrix_offset(const plb_tensor *x, const int64_t *y_index, int y_rank, bool trans,
                             int64_t row, int64_t column) {
    int64_t index[PLB_MAX_RANK];
    int rank = x->shape.rank;
    for (int i = 0; i < rank - 2; i++) {
        index[i] = x->shape.dim[i] == 1 ? 0 : y_index[y_rank - rank + i];
    }
    index[rank - 2] = trans ? column : row;
    index[rank - 1] = trans ? row : column;
    return plb_tensor_offset(x, index);
}

static plb_status matmul_ref(const plb_call *call) {
    const plb_matmul_attrs *attrs = call->attrs;
    const plb_tensor *a = &call->in[0], *b = &call->in[1], *y = &call->out[0];
    const plb_tensor *bias = call->n_in > 2 && call->in[2].data ? &call->in[2] : NULL;
    const plb_tensor *residual = call->n_in > 3 && call->in[3].data ? &call->in[3] : NULL;
    matrix_shape s;
    PLB_TRY(shape_of(&a->shape, &b->shape, attrs, &s));
    if (plb_shape_count(&s.y) == 0) return PLB_OK;
    int64_t index[PLB_MAX_RANK] = {0};
    do {
        int64_t row = index[s.y.rank - 2], column = index[s.y.rank - 1];
        double sum = 0;
        for (int64_t k = 0; k < s.k; k++) {
            int64_t i = matrix_offset(a, index, s.y.rank, attrs->trans_a, row, k);
            int64_t j = matrix_offset(b, index, s.y.rank, attrs->trans_b, k, column);
            sum += plb_load_f64(a->data, a->dtype, i) * plb_load_f64(b->data, b->dtype, j);
        }
        if (bias) sum += plb_tensor_load(bias, &column);
        if (residual) sum += plb_tensor_load(residual, index);
        plb_tensor_store(y, index, plb_activate(&attrs->epilogue, sum));
    } while (plb_index_next(index, s.y.dim, s.y.rank));
    return PLB_OK;
}

static void matmul_describe(const void *attrs, plb_strbuf *text) {
    const plb_matmul_attrs *a = attrs;
    plb_describe_number(text, "trans_a", a->trans_a != 0);
    plb_describe_number(text, "trans_b", a->trans_b != 0);
    plb_describe_epilogue(text, &a->epilogue);
}

// ---------------------------------------------------------------------------- builders
// Rows of all batches form one matrix when every batch meets the same b: one large product is
// faster than many small ones, and so are its gradients.
static plb_value emit_flat(plb_graph *graph, plb_value a, plb_value b, plb_value bias,
                           const plb_matmul_attrs *attrs) {
    plb_shape a_shape = plb_value_shape(graph, a), b_shape = plb_value_shape(graph, b);
    bool flat = b_shape.rank == 2 && a_shape.rank != 2 && a_shape.rank > 0 && !attrs->trans_a;
    if (flat) {
        int64_t k = a_shape.dim[a_shape.rank - 1], rows = 1;
        for (int i = 0; i < a_shape.rank - 1; i++) rows *= a_shape.dim[i];
        a = plb_reshape(graph, a, &plb_shape_of(rows, k));
    }
    plb_value y =
        plb_emit(graph, PLB_OP_matmul, (plb_value[]){a, b, bias}, bias == PLB_NONE ? 2 : 3, attrs);
    if (!flat || y == PLB_NONE) return y;
    plb_shape y_shape = a_shape;
    y_shape.dim[y_shape.rank - 1] = plb_value_shape(graph, y).dim[1];
    return plb_reshape(graph, y, &y_shape);
}

plb_value plb_matmul(plb_graph *graph, plb_value a, plb_value b, const plb_matmul_attrs *attrs) {
    plb_matmul_attrs final = attrs ? *attrs : (plb_matmul_attrs){0};
    final.trans_a = final.trans_a != 0, final.trans_b = final.trans_b != 0;
    bool vector = plb_value_shape(graph, a).rank < 2;
    if (vector) return plb_emit(graph, PLB_OP_matmul, (plb_value[]){a, b}, 2, &final); // refused
    return emit_flat(graph, a, b, PLB_NONE, &final);
}

plb_value plb_linear(plb_graph *graph, plb_value x, plb_value w, plb_value bias) {
    plb_matmul_attrs attrs = {.trans_b = 1};
    return emit_flat(graph, x, w, bias, &attrs);
}

// ---------------------------------------------------------------------------- samples
#define ATTRS(...)              \
    &(const plb_matmul_attrs) { \
        __VA_ARGS__             \
    }
static const plb_sample samples[] = {
    {.name = "plain", .in = {PLB_T(5, 7), PLB_T(7, 3)}, .n_in = 2, .attrs = ATTRS(0)},
    {.name = "a transposed",
     .in = {PLB_T(7, 5), PLB_T(7, 3)},
     .n_in = 2,
     .attrs = ATTRS(.trans_a = 1)},
    {.name = "b transposed, bias",
     .in = {PLB_T(5, 7), PLB_T(3, 7), PLB_T(3)},
     .n_in = 3,
     .attrs = ATTRS(.trans_b = 1)},
    {.name = "both transposed",
     .in = {PLB_T(7, 5), PLB_T(3, 7)},
     .n_in = 2,
     .attrs = ATTRS(.trans_a = 1, .trans_b = 1)},
    {.name = "one row", .in = {PLB_T(1, 9), PLB_T(9, 4)}, .n_in = 2, .attrs = ATTRS(0)},
    {.name = "batches", .in = {PLB_T(2, 3, 4, 5), PLB_T(2, 3, 5, 2)}, .n_in = 2, .attrs = ATTRS(0)},
    {.name = "batches, b transposed",
     .in = {PLB_T(3, 4, 5), PLB_T(3, 2, 5)},
     .n_in = 2,
     .attrs = ATTRS(.trans_b = 1)},
    {.name = "batches, both transposed, broadcast",
     .in = {PLB_T(2, 1, 5, 4), PLB_T(3, 2, 5)},
     .n_in = 2,
     .attrs = ATTRS(.trans_a = 1, .trans_b = 1)},
    {.name = "batches of a alone",
     .in = {PLB_T(2, 3, 4, 5), PLB_T(5, 3)},
     .n_in = 2,
     .attrs = ATTRS(0)},
    {.name = "batches of b alone",
     .in = {PLB_T(4, 5), PLB_T(3, 5, 2)},
     .n_in = 2,
     .attrs = ATTRS(0)},
    {.name = "residual and relu",
     .no_gradient = true,
     .in = {PLB_T(4, 6), PLB_T(6, 5), PLB_T(5), PLB_T(4, 5)},
     .n_in = 4,
     .attrs = ATTRS(.epilogue = {.activation = PLB_ACT_RELU})},
    {.name = "batches, residual without bias",
     .absent = 1 << 2,
     .in = {PLB_T(2, 3, 4), PLB_T(2, 4, 3), PLB_T(3), PLB_T(2, 3, 3)},
     .n_in = 4,
     .attrs = ATTRS(0)},
    {.name = "nothing to sum",
     .in = {PLB_T(2, 0), PLB_T(0, 3)},
     .n_in = 2,
     .attrs = ATTRS(0),
     .no_gradient = true},
};

const plb_op plb_op_matmul = {.name = "matmul",
                              .overwrites = {{3, 0}},
                              .n_overwrites = 1,
                              .attrs_bytes = sizeof(plb_matmul_attrs),
                              .min_in = 2,
                              .max_in = 4,
                              .infer = matmul_infer,
                              .grad = matmul_grad,
                              .flops = matmul_flops,
                              .ref = matmul_ref,
                              .describe = matmul_describe,
                              PLB_SAMPLES(samples)};
