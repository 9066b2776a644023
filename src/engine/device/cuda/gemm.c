// SPDX-License-Identifier: Apache-2.0
// The library is column-major: a row-major d[M,N] is its D[N,M] = B A, so b is its first factor
// and a its second; a bias along N runs along its rows, which is the bias that it knows.
#include "engine/device/cuda/gemm.h"

#include <cublasLt.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/status.h"

// ---------------------------------------------------------------------------- the library
static struct {
    size_t (*get_version)(void);
    cublasStatus_t (*create)(cublasLtHandle_t *);
    cublasStatus_t (*desc_create)(cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType_t);
    cublasStatus_t (*desc_destroy)(cublasLtMatmulDesc_t);
    cublasStatus_t (*desc_set)(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *,
                               size_t);
    cublasStatus_t (*layout_create)(cublasLtMatrixLayout_t *, cudaDataType_t, uint64_t, uint64_t,
                                    int64_t);
    cublasStatus_t (*layout_destroy)(cublasLtMatrixLayout_t);
    cublasStatus_t (*layout_set)(cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t,
                                 const void *, size_t);
    cublasStatus_t (*preference_create)(cublasLtMatmulPreference_t *);
    cublasStatus_t (*preference_destroy)(cublasLtMatmulPreference_t);
    cublasStatus_t (*preference_set)(cublasLtMatmulPreference_t,
                                     cublasLtMatmulPreferenceAttributes_t, const void *, size_t);
    cublasStatus_t (*heuristic)(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
                                cublasLtMatmulHeuristicResult_t *, int *);
    cublasStatus_t (*config)(const cublasLtMatmulAlgo_t *, cublasLtMatmulAlgoConfigAttributes_t,
                             void *, size_t, size_t *);
    cublasStatus_t (*matmul)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *,
                             cublasLtMatrixLayout_t, const void *, cublasLtMatrixLayout_t,
                             const void *, const void *, cublasLtMatrixLayout_t, void *,
                             cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t,
                             cudaStream_t);
} lib;

static const plb_cuda_symbol symbols[] = {
    {"cublasLtGetVersion", &lib.get_version},
    {"cublasLtCreate", &lib.create},
    {"cublasLtMatmulDescCreate", &lib.desc_create},
    {"cublasLtMatmulDescDestroy", &lib.desc_destroy},
    {"cublasLtMatmulDescSetAttribute", &lib.desc_set},
    {"cublasLtMatrixLayoutCreate", &lib.layout_create},
    {"cublasLtMatrixLayoutDestroy", &lib.layout_destroy},
    {"cublasLtMatrixLayoutSetAttribute", &lib.layout_set},
    {"cublasLtMatmulPreferenceCreate", &lib.preference_create},
    {"cublasLtMatmulPreferenceDestroy", &lib.preference_destroy},
    {"cublasLtMatmulPreferenceSetAttribute", &lib.preference_set},
    {"cublasLtMatmulAlgoGetHeuristic", &lib.heuristic},
    {"cublasLtMatmulAlgoConfigGetAttribute", &lib.config},
    {"cublasLtMatmul", &lib.matmul},
};

static const char *missing;
static char version[32] = "no-cublaslt";
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void) {
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    void *library = plb_cuda_open_library(names);
    if (!library) {
        missing = "cuBLASLt (libcublasLt.so.13) was not found";
    } else if (!plb_cuda_symbols(library, symbols, sizeof symbols / sizeof *symbols)) {
        missing = "cuBLASLt lacks a function";
    } else {
        snprintf(version, sizeof version, "cublaslt%zu", lib.get_version());
    }
}

const char *plb_gemm_missing(void) {
    pthread_once(&once, open_library);
    return missing;
}

const char *plb_gemm_version(void) {
    pthread_once(&once, open_library);
    return version;
}

static plb_status check(cublasStatus_t status, const char *what) {
    if (status == CUBLAS_STATUS_SUCCESS) return PLB_OK;
    return plb_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? PLB_ENOMEM : PLB_EUNSUPPORTED,
                    "cuBLASLt: %s: status %d", what, (int)status);
}

enum { MAX_DEVICES = 64 };

static plb_status handle_of(plb_device *device, cublasLtHandle_t *out) {
    static cublasLtHandle_t handles[MAX_DEVICES];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const char *reason = plb_gemm_missing();
    *out = NULL;
    if (reason) return plb_fail(PLB_EMISSING, "%s", reason);
    PLB_TRY(plb_cuda_enter(device));
    pthread_mutex_lock(&lock);
    cublasLtHandle_t *handle = &handles[device->index];
    plb_status status = *handle ? PLB_OK : check(lib.create(handle), "start");
    *out = *handle;
    pthread_mutex_unlock(&lock);
    return status;
}

void plb_gemm_preload(plb_device *device) {
    cublasLtHandle_t handle;
    (void)!handle_of(device, &handle);
}

// ---------------------------------------------------------------------------- descriptions
enum { MAX_RESULTS = 32, ALIGNMENT = 16 };
static const size_t workspace_limit_bytes = (size_t)32 << 20;

struct plb_gemm {
    plb_gemm_spec spec;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t first, second, result;
    cublasLtMatmulAlgo_t algorithm, loose; // loose: for operands on any address
    bool has_loose, fused;                 // fused: bias and activation are the library's
    size_t workspace_bytes;
    plb_finish finish; // unless fused
};

static cudaDataType_t type_of(plb_dtype dtype) {
    switch (dtype) {
    case PLB_F64: return CUDA_R_64F;
    case PLB_F16: return CUDA_R_16F;
    case PLB_BF16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
    }
}

static plb_status layout_of(plb_dtype dtype, int64_t rows, int64_t columns, int64_t batch,
                            int64_t step, cublasLtMatrixLayout_t *out) {
    const int32_t count = (int32_t)batch;
    PLB_TRY(check(lib.layout_create(out, type_of(dtype), (uint64_t)rows, (uint64_t)columns, rows),
                  "a matrix"));
    if (batch == 1) return PLB_OK;
    PLB_TRY(check(lib.layout_set(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
                  "a batch"));
    return check(
        lib.layout_set(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step),
        "a batch");
}

static plb_status set_product(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t name,
                              const void *value, size_t size) {
    return check(lib.desc_set(product, name, value, size), "a product");
}

static bool has_epilogue(const plb_gemm_spec *s) {
    return s->bias || s->epilogue.activation != PLB_ACT_NONE;
}

static cublasLtEpilogue_t epilogue_of(const plb_gemm_spec *s) {
    if (s->epilogue.activation == PLB_ACT_RELU) {
        return s->bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    }
    return s->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static plb_status describe(plb_gemm *lt) {
    const plb_gemm_spec *s = &lt->spec;
    const cublasOperation_t first = s->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = s->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasComputeType_t compute = s->dtype == PLB_F64 ? CUBLAS_COMPUTE_64F
                                        : s->tf32           ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                            : CUBLAS_COMPUTE_32F;
    PLB_TRY(
        check(lib.desc_create(&lt->product, compute, s->dtype == PLB_F64 ? CUDA_R_64F : CUDA_R_32F),
              "a product"));
    PLB_TRY(set_product(lt->product, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    PLB_TRY(set_product(lt->product, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    if (lt->fused) {
        const cublasLtEpilogue_t epilogue = epilogue_of(s);
        PLB_TRY(
            set_product(lt->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    }
    PLB_TRY(layout_of(s->dtype, s->trans_b ? s->k : s->n, s->trans_b ? s->n : s->k, s->batch,
                      s->b_step, &lt->first));
    PLB_TRY(layout_of(s->dtype, s->trans_a ? s->m : s->k, s->trans_a ? s->k : s->m, s->batch,
                      s->a_step, &lt->second));
    return layout_of(s->dtype, s->n, s->m, s->batch, s->d_step, &lt->result);
}

// What the library proposes for operands on multiples of `alignment` bytes.
static int propose(const plb_gemm *lt, uint32_t alignment, cublasLtMatmulHeuristicResult_t *out,
                   int max) {
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasLtMatmulPreference_t preference = NULL;
    int n = 0;
    if (lib.preference_create(&preference)) return 0;
    cublasStatus_t status =
        lib.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                           &workspace_limit_bytes, sizeof workspace_limit_bytes);
    for (int i = 0; i < 4 && !status; i++) {
        status = lib.preference_set(preference, aligned[i], &alignment, sizeof alignment);
    }
    if (!status) {
        status = lib.heuristic(lt->handle, lt->product, lt->first, lt->second, lt->result,
                               lt->result, preference, max, out, &n);
    }
    lib.preference_destroy(preference);
    return status ? 0 : n;
}

// By what an algorithm is set to: its bytes differ from call to call.
static void name_of(bool fused, const cublasLtMatmulAlgo_t *algorithm, char *text) {
    static const cublasLtMatmulAlgoConfigAttributes_t settings[] = {
        CUBLASLT_ALGO_CONFIG_ID,
        CUBLASLT_ALGO_CONFIG_TILE_ID,
        CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
        CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
        CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING,
        CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION,
        CUBLASLT_ALGO_CONFIG_STAGES_ID,
        CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID,
        CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID,
    };
    uint64_t hash = PLB_HASH_SEED;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        uint32_t value = 0; // the narrow ones leave the rest as it is
        size_t written = 0;
        bool narrow = settings[i] == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID ||
                      settings[i] == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
        lib.config(algorithm, settings[i], &value, narrow ? sizeof(uint16_t) : sizeof value,
                   &written);
        hash = plb_hash_bytes(hash, &value, sizeof value);
    }
    snprintf(text, PLB_CHOICE_BYTES, "%c%08x", fused ? 'e' : 'f', (unsigned)(hash ^ hash >> 32));
}

void plb_gemm_free(plb_gemm *lt) {
    if (!lt) return;
    if (lt->product) lib.desc_destroy(lt->product);
    if (lt->first) lib.layout_destroy(lt->first);
    if (lt->second) lib.layout_destroy(lt->second);
    if (lt->result) lib.layout_destroy(lt->result);
    plb_free(lt);
}

static plb_status described(plb_device *device, const plb_gemm_spec *spec, bool fused,
                            plb_gemm **out) {
    *out = plb_alloc(sizeof **out);
    if (!*out) return plb_fail(PLB_ENOMEM, "out of memory for a product");
    (*out)->spec = *spec;
    (*out)->fused = fused;
    plb_status status = handle_of(device, &(*out)->handle);
    if (!status) status = describe(*out);
    if (!status) return PLB_OK;
    plb_gemm_free(*out);
    *out = NULL;
    return status;
}

// Bias and ReLU can be the library's own; other activations never, and in f64 nothing.
static bool may_fuse(const plb_gemm_spec *s) {
    return s->epilogue.activation <= PLB_ACT_RELU && s->dtype != PLB_F64;
}

static int choices_of(plb_device *device, const plb_gemm_spec *spec, bool fused,
                      char out[][PLB_CHOICE_BYTES], int max) {
    cublasLtMatmulHeuristicResult_t found[MAX_RESULTS];
    plb_gemm *lt;
    if (described(device, spec, fused, &lt)) return 0;
    int n = propose(lt, ALIGNMENT, found, max < MAX_RESULTS ? max : MAX_RESULTS);
    for (int i = 0; i < n; i++) name_of(fused, &found[i].algo, out[i]);
    plb_gemm_free(lt);
    return n;
}

int plb_gemm_choices(plb_device *device, const plb_gemm_spec *spec, char out[][PLB_CHOICE_BYTES],
                     int max) {
    int n = may_fuse(spec) ? choices_of(device, spec, true, out, max) : 0;
    if (n == 0) n = choices_of(device, spec, false, out, max);
    return n;
}

static plb_status find(plb_gemm *lt, const char *choice) {
    cublasLtMatmulHeuristicResult_t found[MAX_RESULTS];
    char text[PLB_CHOICE_BYTES];
    int n = propose(lt, ALIGNMENT, found, MAX_RESULTS);
    for (int i = 0; i < n; i++) {
        name_of(lt->fused, &found[i].algo, text);
        if (*choice && strcmp(text, choice) != 0) continue;
        lt->algorithm = found[i].algo;
        lt->workspace_bytes = found[i].workspaceSize;
        n = propose(lt, (uint32_t)plb_dtype_size(lt->spec.dtype), found, 1);
        lt->has_loose = n > 0;
        if (!n) return PLB_OK;
        lt->loose = found[0].algo;
        if (found[0].workspaceSize > lt->workspace_bytes) {
            lt->workspace_bytes = found[0].workspaceSize;
        }
        return PLB_OK;
    }
    return plb_fail(PLB_EUNSUPPORTED, "cuBLASLt: no algorithm %s for this product", choice);
}

static plb_status prepare_finish(plb_device *device, plb_gemm *lt) {
    const plb_gemm_spec *s = &lt->spec;
    if (lt->fused || !has_epilogue(s)) return PLB_OK;
    plb_shape shape = plb_shape_of(s->batch * s->m, s->n);
    plb_tensor d = plb_tensor_dense(NULL, s->dtype, &shape, (plb_layout){0});
    return plb_finish_prepare(device, &d, 1, &s->epilogue, &lt->finish);
}

plb_status plb_gemm_new(plb_device *device, const plb_gemm_spec *spec, const char *choice,
                        plb_gemm **out) {
    bool fused = *choice ? *choice == 'e' : may_fuse(spec);
    plb_gemm *lt;
    *out = NULL;
    PLB_TRY(described(device, spec, fused, &lt));
    plb_status status = find(lt, choice);
    if (!status) status = prepare_finish(device, lt);
    if (status) {
        plb_gemm_free(lt);
        return status;
    }
    *out = lt;
    return PLB_OK;
}

size_t plb_gemm_workspace_bytes(const plb_gemm *lt) {
    return lt->workspace_bytes;
}

// ---------------------------------------------------------------------------- running
static bool is_aligned(const plb_gemm_args *a) {
    uintptr_t all = (uintptr_t)a->a | (uintptr_t)a->b | (uintptr_t)a->d | (uintptr_t)a->bias |
                    (uintptr_t)a->residual;
    return all % ALIGNMENT == 0;
}

plb_status plb_gemm_run(plb_gemm *lt, const plb_gemm_args *args, plb_stream *stream) {
    const plb_gemm_spec *s = &lt->spec;
    const double one = 1, more = s->residual ? 1 : 0;
    const float one_f = 1, more_f = s->residual ? 1 : 0;
    const bool wide = s->dtype == PLB_F64;
    const cublasLtMatmulAlgo_t *algorithm = &lt->algorithm;
    if (!is_aligned(args)) {
        if (!lt->has_loose) return plb_fail(PLB_EUNSUPPORTED, "cuBLASLt: an unaligned operand");
        algorithm = &lt->loose;
    }
    if (lt->fused && s->bias) {
        PLB_TRY(set_product(lt->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &args->bias,
                            sizeof args->bias));
    }
    PLB_TRY(
        check(lib.matmul(lt->handle, lt->product, wide ? (const void *)&one : &one_f, args->b,
                         lt->first, args->a, lt->second, wide ? (const void *)&more : &more_f,
                         s->residual ? args->residual : args->d, lt->result, args->d, lt->result,
                         algorithm, args->workspace, lt->workspace_bytes, stream->handle),
              "run"));
    if (lt->fused || !has_epilogue(s)) return PLB_OK;
    return plb_finish_run(stream, &lt->finish, args->d, args->bias, NULL, args->d);
}
