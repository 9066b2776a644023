// SPDX-License-Identifier: Apache-2.0
// Own kernels: found by name in the embedded fat binaries, each of which is loaded when somebody
// first looks into it, once for all devices.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/cuda.h"
#include "engine/device/cuda/embedded.h"

enum { MAX_LIBRARIES = 128 };

// Names are compared here: asking a library for a kernel that it lacks is an error of the driver,
// which tools that watch for errors would report.
typedef struct loaded {
    CUlibrary library;
    CUkernel *kernels;
    unsigned n;
} loaded;

static loaded libraries[MAX_LIBRARIES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static plb_status list_kernels(CUlibrary library, loaded *out) {
    unsigned n = 0;
    PLB_TRY(plb_cuda_check(cuLibraryGetKernelCount(&n, library), "count kernels"));
    CUkernel *kernels = plb_alloc_array(n + 1, sizeof *kernels);
    if (!kernels) return plb_fail(PLB_ENOMEM, "out of memory for %u kernels", n);
    plb_status status =
        plb_cuda_check(cuLibraryEnumerateKernels(kernels, n, library), "list kernels");
    if (status) {
        plb_free(kernels);
        return status;
    }
    *out = (loaded){library, kernels, n};
    return PLB_OK;
}

static plb_status load(int i) { // locked
    if (libraries[i].library) return PLB_OK;
    CUlibrary library = NULL;
    plb_status status = plb_cuda_check(
        cuLibraryLoadData(&library, plb_cuda_embedded_list[i].image, NULL, NULL, 0, NULL, NULL, 0),
        "load kernels");
    if (!status) status = list_kernels(library, &libraries[i]);
    if (status && library) cuLibraryUnload(library);
    return status ? plb_fail_context(status, "%s.cu", plb_cuda_embedded_list[i].name) : PLB_OK;
}

static plb_status find(const char *name, CUkernel *out) { // locked
    for (int i = 0; i < MAX_LIBRARIES && plb_cuda_embedded_list[i].name; i++) {
        PLB_TRY(load(i));
        for (unsigned k = 0; k < libraries[i].n; k++) {
            const char *found = NULL;
            PLB_TRY(plb_cuda_check(cuKernelGetName(&found, libraries[i].kernels[k]), name));
            if (strcmp(found, name) != 0) continue;
            *out = libraries[i].kernels[k];
            return PLB_OK;
        }
    }
    return plb_fail(PLB_EBROKEN, "cuda: no kernel is called %s", name);
}

plb_status plb_cuda_function(plb_device *device, const char *name, CUfunction *out) {
    CUkernel kernel = NULL;
    *out = NULL;
    PLB_TRY(plb_cuda_enter(device));
    pthread_mutex_lock(&lock);
    plb_status status = find(name, &kernel);
    pthread_mutex_unlock(&lock);
    if (status) return status;
    return plb_cuda_check(cuKernelGetFunction(out, kernel), name);
}

static unsigned at_least_one(unsigned n) {
    return n ? n : 1;
}

plb_status plb_cuda_launch(plb_stream *stream, CUfunction function, const plb_cuda_grid *grid,
                           void **params) {
    return plb_cuda_check(
        cuLaunchKernel(function, at_least_one(grid->blocks[0]), at_least_one(grid->blocks[1]),
                       at_least_one(grid->blocks[2]), at_least_one(grid->threads[0]),
                       at_least_one(grid->threads[1]), at_least_one(grid->threads[2]),
                       grid->shared_bytes, stream->handle, params, NULL),
        "launch a kernel");
}

unsigned plb_cuda_blocks(const plb_device *device, int64_t count, int64_t per_block, int waves) {
    int64_t blocks = (count + per_block - 1) / per_block;
    int64_t most = (int64_t)device->sm_count * waves;
    if (blocks > most) blocks = most;
    return blocks < 1 ? 1 : (unsigned)blocks;
}
