// SPDX-License-Identifier: Apache-2.0
// Plumb's view of oneDNN: convolutions, matrix products and reorders made ready once, run with
// bare pointers. Weights may be packed ahead into whatever order the library likes.
#ifndef PLB_ENGINE_DEVICE_CPU_DNNL_H
#define PLB_ENGINE_DEVICE_CPU_DNNL_H

#include "engine/device/device.h"
#include "plumb/ops.h"

typedef struct plb_dnnl plb_dnnl;

typedef enum plb_dnnl_kind {
    PLB_DNNL_CONV,        // first x, second w, result y
    PLB_DNNL_INPUT_GRAD,  // first dy, second w, result dx
    PLB_DNNL_WEIGHT_GRAD, // first x, second dy, result dw
    PLB_DNNL_MATMUL,      // first a, second b, result c
} plb_dnnl_kind;

typedef struct plb_dnnl_spec {
    plb_dnnl_kind kind;
    const plb_tensor *first, *second, *result; // shapes, f32, plain or NHWC
    const plb_tensor *bias;                    // NULL or absent: none
    const plb_conv_attrs *conv;                // of the three convolutions
    const plb_matmul_attrs *matmul;
    plb_epilogue epilogue;
    // Of integers: u8 or i8 times i8; scale[K] are the multipliers, 1 for all where it is NULL.
    const plb_int8_attrs *int8;
    const float *scale;
    bool residual; // the result is added to what it held before
    bool pack;     // the second operand comes packed (not WEIGHT_GRAD)
} plb_dnnl_spec;

typedef struct plb_dnnl_args {
    const void *first, *second, *bias;
    void *result, *workspace;
} plb_dnnl_args;

// Whether this processor multiplies 8-bit integers without overflow, and faster than floats.
bool plb_dnnl_has_int8(void);
// PLB_EUNSUPPORTED where the library has no implementation. Several threads may make primitives,
// one at a time runs one.
PLB_MUST_USE plb_status plb_dnnl_new(const plb_dnnl_spec *spec, plb_dnnl **out);
void plb_dnnl_free(plb_dnnl *p);
size_t plb_dnnl_workspace_bytes(const plb_dnnl *p);
size_t plb_dnnl_packed_bytes(const plb_dnnl *p); // 0: the plain order is the best
const char *plb_dnnl_implementation(const plb_dnnl *p);
PLB_MUST_USE plb_status plb_dnnl_pack(plb_dnnl *p, const void *plain, void *packed);
PLB_MUST_USE plb_status plb_dnnl_run(plb_dnnl *p, const plb_dnnl_args *args);

// c[m,n] = alpha a b, row-major, for products too small for a primitive; any thread may call it.
// Without oneDNN plain loops do it.
typedef struct plb_dnnl_gemm {
    bool trans_a, trans_b; // a is [k,m], b is [n,k] in memory
    int64_t m, n, k;
    float alpha, beta; // beta c is added
    const float *a, *b;
    int64_t lda, ldb, ldc; // elements from row to row
    float *c;
    bool alone; // by the calling thread: what is short, or one of several at a time
} plb_dnnl_gemm;
PLB_MUST_USE plb_status plb_dnnl_product(const plb_dnnl_gemm *g);

#endif
