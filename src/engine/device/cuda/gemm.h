// SPDX-License-Identifier: Apache-2.0
// The one place that talks to cuBLASLt: batches of matrix products with an epilogue. The library
// is opened at run time; its absence is a reason to refuse.
//
// Matrices are row-major here:  d[M,N] = act(a[M,K] b[K,N] + bias[N] + residual[M,N]).
#ifndef PLB_ENGINE_DEVICE_CUDA_GEMM_H
#define PLB_ENGINE_DEVICE_CUDA_GEMM_H

#include "engine/device/cuda/convolve.h"

// NULL when the library can be used, else why not.
const char *plb_gemm_missing(void);
// Makes the handle of `device` now, if the library is there.
void plb_gemm_preload(plb_device *device);
const char *plb_gemm_version(void); // "cublaslt130100", or "no-cublaslt"

typedef struct plb_gemm_spec {
    plb_dtype dtype;
    int64_t m, n, k;
    bool trans_a, trans_b;          // a is stored [K,M], b is stored [N,K]
    int64_t batch;                  // products of one launch, at least 1
    int64_t a_step, b_step, d_step; // elements from one to the next
    bool bias, residual;
    plb_epilogue epilogue;
    bool tf32, deterministic;
} plb_gemm_spec;

typedef struct plb_gemm plb_gemm;

// Texts that name the algorithms, best guess first.
int plb_gemm_choices(plb_device *device, const plb_gemm_spec *spec, char out[][PLB_CHOICE_BYTES],
                     int max);
// "": the best guess. PLB_EUNSUPPORTED: no such algorithm.
PLB_MUST_USE plb_status plb_gemm_new(plb_device *device, const plb_gemm_spec *spec,
                                     const char *choice, plb_gemm **out);
void plb_gemm_free(plb_gemm *lt);
size_t plb_gemm_workspace_bytes(const plb_gemm *lt);

typedef struct plb_gemm_args {
    const void *a, *b, *bias, *residual; // the residual may be d
    void *d, *workspace;
} plb_gemm_args;

PLB_MUST_USE plb_status plb_gemm_run(plb_gemm *lt, const plb_gemm_args *args, plb_stream *stream);

#endif
