// SPDX-License-Identifier: Apache-2.0
// Matrix products of f64, and what conv_blas.c needs for convolutions.
#include "engine/device/cpu/blas.h"

#include <limits.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/nest.h"
#include "engine/ops/spatial.h"
#ifdef PLB_HAVE_BLAS
#include <cblas.h>
#endif

enum { BIAS = 2, RESIDUAL = 3, MAX_EXTENT = INT_MAX / 2 };

void plb_gemm_run(const plb_gemm *g) {
#ifdef PLB_HAVE_BLAS
    cblas_dgemm(CblasRowMajor, g->trans_a ? CblasTrans : CblasNoTrans,
                g->trans_b ? CblasTrans : CblasNoTrans, (int)g->m, (int)g->n, (int)g->k, 1, g->a,
                (int)g->lda, g->b, (int)g->ldb, g->beta, g->c, (int)g->ldc);
#else
    (void)g; // plb_blas_refuse lets nobody come here
#endif
}

const char *plb_blas_refuse(const plb_query *q) {
#ifndef PLB_HAVE_BLAS
    return "built without a BLAS";
#endif
    for (int k = 0; k < q->n_in + q->n_out; k++) {
        const plb_tensor *t = k < q->n_in ? &q->in[k] : &q->out[k - q->n_in];
        if (t->dtype == PLB_DTYPE_COUNT) continue;
        if (t->dtype != PLB_F64) return "f64 only";
        if (t->layout.kind != PLB_LAYOUT_PLAIN) return "plain only";
        if (!plb_tensor_is_dense(t)) return "an operand has gaps";
        int64_t count = plb_shape_count(&t->shape);
        if (count == 0) return "an operand is empty";
        if (count > MAX_EXTENT) return "too large for the library's integers";
    }
    return NULL;
}

void plb_blas_finish(double *y, int64_t count, const double *bias, int64_t bias_step,
                     const double *residual, const plb_epilogue *epilogue) {
    for (int64_t i = 0; i < count; i++) {
        double value = y[i];
        if (bias) value += bias[i * bias_step];
        if (residual) value += residual[i];
        y[i] = plb_activate(epilogue, value);
    }
}

// ---------------------------------------------------------------------------- matmul
typedef struct product {
    plb_matmul_attrs attrs;
    int64_t m, n, k, batches;
    int64_t parts; // rows of each product are cut into so many
    plb_shape y;
} product;

static product product_of(const plb_query *q) {
    const plb_shape *a = &q->in[0].shape, *y = &q->out[0].shape;
    product p = {.attrs = *(const plb_matmul_attrs *)q->attrs, .y = *y};
    p.m = y->dim[y->rank - 2], p.n = y->dim[y->rank - 1];
    p.k = a->dim[a->rank - (p.attrs.trans_a ? 2 : 1)];
    p.batches = plb_shape_count(y) / (p.m * p.n);
    p.parts = p.batches < q->threads ? q->threads : 1;
    if (p.parts > p.m) p.parts = p.m;
    return p;
}

// Where the matrix of an operand begins that meets batch `batch` of y.
static const double *matrix_of(const product *p, const plb_tensor *x, int64_t batch) {
    int64_t offset = 0;
    for (int i = p->y.rank - 3, j = x->shape.rank - 3; i >= 0; i--, j--) {
        int64_t index = batch % p->y.dim[i];
        batch /= p->y.dim[i];
        if (j >= 0 && x->shape.dim[j] > 1) offset += index * x->stride[j];
    }
    return (const double *)x->data + offset;
}

static const double *data_of(const plb_call *call, int k) {
    return k < call->n_in ? call->in[k].data : NULL;
}

// Part `part` of the rows of one product.
static void run_rows(const product *p, const plb_call *call, int64_t batch, int64_t part) {
    const int64_t first = p->m * part / p->parts, rows = p->m * (part + 1) / p->parts - first;
    const bool ta = p->attrs.trans_a, tb = p->attrs.trans_b;
    const double *bias = data_of(call, BIAS), *residual = data_of(call, RESIDUAL);
    const int64_t at = (batch * p->m + first) * p->n;
    double *y = (double *)call->out[0].data + at;
    plb_gemm g = {.trans_a = ta,
                  .trans_b = tb,
                  .m = rows,
                  .n = p->n,
                  .k = p->k,
                  .lda = ta ? p->m : p->k,
                  .ldb = tb ? p->k : p->n,
                  .ldc = p->n,
                  .c = y};
    g.a = matrix_of(p, &call->in[0], batch) + first * (ta ? 1 : p->k);
    g.b = matrix_of(p, &call->in[1], batch);
    if (residual) { // may be y itself: the product is added to it
        if (residual + at != y) {
            for (int64_t i = 0; i < rows * p->n; i++) y[i] = residual[at + i];
        }
        g.beta = 1;
    }
    plb_gemm_run(&g);
    for (int64_t r = 0; r < rows; r++) {
        plb_blas_finish(y + r * p->n, p->n, bias, 1, NULL, &p->attrs.epilogue);
    }
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const product *p = state;
#pragma omp parallel for if (call->threads > 1)
    for (int64_t i = 0; i < p->batches * p->parts; i++) {
        run_rows(p, call, i / p->parts, i % p->parts);
    }
    return PLB_OK;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "blas has one variant, found %s", choice);
    product *p = plb_alloc(sizeof *p);
    if (!p) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    *p = product_of(q);
    *out = (plb_launch){.state = p,
                        .release = plb_free,
                        .run = run,
                        .flops = 2.0 * (double)plb_shape_count(&p->y) * (double)p->k};
    return PLB_OK;
}

const plb_kernel plb_cpu_matmul_blas = {
    .name = "blas", .op = PLB_OP_matmul, .refuse = plb_blas_refuse, .prepare = prepare};
