// SPDX-License-Identifier: Apache-2.0
// What the backend stands on, by name and version: for `plumb doctor`, and for the key of
// remembered choices, which another version of a library makes worthless.
#include <stdio.h>
#include <string.h>

#include "engine/device/cuda/cudnn.h"
#include "engine/device/cuda/gemm.h"

static const char *driver_version(void) {
    static char text[24];
    int version = 0;
    if (cuDriverGetVersion(&version) != CUDA_SUCCESS) return NULL;
    snprintf(text, sizeof text, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    return text;
}

// "91400" is 9.14.0.
static const char *cudnn_version(void) {
    static char text[24];
    unsigned version = 0;
    if (plb_cudnn_missing() || sscanf(plb_cudnn_version(), "cudnn%u", &version) != 1) return NULL;
    snprintf(text, sizeof text, "%u.%u.%u", version / 10000, version % 10000 / 100, version % 100);
    return text;
}

// "130100" is 13.1.0.
static const char *cublaslt_version(void) {
    static char text[24];
    unsigned version = 0;
    if (plb_gemm_missing() || sscanf(plb_gemm_version(), "cublaslt%u", &version) != 1) return NULL;
    snprintf(text, sizeof text, "%u.%u.%u", version / 10000, version % 10000 / 100, version % 100);
    return text;
}

bool plb_cuda_library(int index, const char **out_name, const char **out_version) {
    static const struct {
        const char *name;
        const char *(*version)(void);
    } all[] = {{"driver", driver_version},
               {"cudnn", cudnn_version},
               {"cublaslt", cublaslt_version},
               {"nvrtc", plb_nvrtc_version}};
    if (index < 0 || index >= (int)(sizeof all / sizeof *all)) return false;
    *out_name = all[index].name;
    *out_version = all[index].version();
    return true;
}

// Who asks about an op that no library computes need not wait until they are open.
static bool by_libraries(plb_op_id op) {
    return op == PLB_OP_conv || op == PLB_OP_conv_input_grad || op == PLB_OP_conv_weight_grad ||
           op == PLB_OP_matmul;
}

const char *plb_cuda_fingerprint(const plb_query *q) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    plb_device *d = q->device;
    if (!by_libraries(q->op)) return d->fingerprint;
    const char *cudnn = plb_cudnn_version(), *cublaslt = plb_gemm_version();
    pthread_mutex_lock(&lock);
    if (!*d->with_libraries) {
        snprintf(d->with_libraries, sizeof d->with_libraries, "%s:%s:%s", d->fingerprint,
                 cudnn ? cudnn : "", cublaslt ? cublaslt : "");
    }
    pthread_mutex_unlock(&lock);
    return d->with_libraries;
}
