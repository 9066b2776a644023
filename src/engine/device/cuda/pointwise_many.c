// SPDX-License-Identifier: Apache-2.0
// The merged form of small pointwise nodes, the updates of running statistics and counters of all
// norms of a network: their arguments are a table on the device, a row of blocks for each.
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/cuda.h"
#include "engine/device/cuda/pointwise.h"

enum { THREADS = 256, BLOCKS_MAX = 64 };

typedef struct pointwise_many {
    plb_device *device;
    CUfunction function;
    plb_cuda_grid grid;
    void *params; // on the device
} pointwise_many;

static void release(void *state) {
    pointwise_many *m = state;
    plb_cuda_free(m->device, m->params);
    plb_free(m);
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    pointwise_many *m = state;
    (void)call;
    return plb_cuda_launch(stream, m->function, &m->grid, (void *[]){&m->params});
}

static plb_cuda_grid grid_of(const plb_pointwise_params *params, int n) {
    int64_t most = 1;
    for (int i = 0; i < n; i++) most = params[i].groups > most ? params[i].groups : most;
    int64_t blocks = (most + THREADS - 1) / THREADS;
    if (blocks > BLOCKS_MAX) blocks = BLOCKS_MAX;
    return (plb_cuda_grid){.blocks = {(unsigned)blocks, (unsigned)n}, .threads = {THREADS}};
}

plb_status plb_cuda_pointwise_many(plb_device *device, const char *source,
                                   const plb_pointwise_params *params, int n, plb_launch *out) {
    size_t bytes = (size_t)n * sizeof *params;
    pointwise_many *m = plb_alloc(sizeof *m);
    if (!m) return plb_fail(PLB_ENOMEM, "out of memory for a launch");
    *m = (pointwise_many){.device = device, .grid = grid_of(params, n)};
    plb_status status = plb_cuda_compile(device, source, "plb_pointwise_many", &m->function);
    if (!status) status = plb_cuda_alloc(device, bytes, &m->params);
    if (!status) {
        status = plb_cuda_check(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)m->params, params, bytes),
                                "copy a table");
    }
    if (status) {
        release(m);
        return status;
    }
    *out = (plb_launch){.state = m, .release = release, .run = run};
    return PLB_OK;
}
