// SPDX-License-Identifier: Apache-2.0
// Products of f64 matrices by a BLAS, for the reference of proofs. Threads are ours: each calls
// the library for its own part of the result, so that no two add to one element and the result
// does not depend on how many there are.
#ifndef PLB_ENGINE_DEVICE_CPU_BLAS_H
#define PLB_ENGINE_DEVICE_CPU_BLAS_H

#include "engine/device/device.h"
#include "plumb/ops.h"

// c[m,n] = a[m,k] b[k,n] + beta c, row-major; lda, ldb, ldc elements from row to row as stored,
// trans_a: a is stored as [k,m], trans_b: b as [n,k].
typedef struct plb_gemm {
    bool trans_a, trans_b;
    int64_t m, n, k, lda, ldb, ldc;
    const double *a, *b;
    double *c;
    double beta;
} plb_gemm;

void plb_gemm_run(const plb_gemm *g);

// Why the operands of a product cannot be given to the library, or NULL.
const char *plb_blas_refuse(const plb_query *q);
// y[…] += bias + residual, then the activation, for `count` elements in a row. `bias` is the first
// of as many numbers, `bias_step` elements apart (0: one for all), or NULL; residual may be NULL or
// be y.
void plb_blas_finish(double *y, int64_t count, const double *bias, int64_t bias_step,
                     const double *residual, const plb_epilogue *epilogue);

#endif
