// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/core/status.h"
#include "engine/device/cuda/cuda.h"
#include "engine/device/cuda/kernels/bytes.h"

static CUdeviceptr address(const void *memory) {
    return (CUdeviceptr)(uintptr_t)memory;
}

// Running out is an outcome that people act on: say how much was wanted and how much there is.
static plb_status out_of_memory(plb_device *device, size_t size_bytes) {
    size_t free_bytes = 0, total_bytes = 0;
    cuMemGetInfo(&free_bytes, &total_bytes);
    return plb_fail(PLB_ENOMEM,
                    "cuda:%d: out of memory: %zu bytes planned, %zu of the device's %zu are free",
                    device->index, size_bytes, free_bytes, total_bytes);
}

plb_status plb_cuda_alloc(plb_device *device, size_t size_bytes, void **out) {
    CUdeviceptr memory = 0;
    *out = NULL;
    CUresult code = cuMemAlloc(&memory, size_bytes ? size_bytes : 1);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) { // level interp's pool may hold what nobody uses
        cuMemPoolTrimTo(device->pool, 0);
        code = cuMemAlloc(&memory, size_bytes ? size_bytes : 1);
    }
    if (code == CUDA_ERROR_OUT_OF_MEMORY) return out_of_memory(device, size_bytes);
    PLB_TRY(plb_cuda_check(code, "allocate memory"));
    *out = (void *)(uintptr_t)memory;
    return PLB_OK;
}

void plb_cuda_free(plb_device *device, void *memory) {
    if (memory && plb_cuda_enter(device) == PLB_OK) cuMemFree(address(memory));
}

plb_status plb_cuda_copy(plb_stream *stream, void *to, const void *from, size_t size_bytes) {
    if (!size_bytes) return PLB_OK;
    return plb_cuda_check(cuMemcpyAsync(address(to), address(from), size_bytes, stream->handle),
                          "copy");
}

plb_status plb_cuda_copy_near(plb_stream *stream, void *to, const void *from, size_t size_bytes) {
    plb_device *device = stream->device;
    if (!size_bytes) return PLB_OK;
    if (!device->copy_bytes) {
        PLB_TRY(plb_cuda_function(device, "plb_bytes_copy", &device->copy_bytes));
    }
    plb_bytes_params p = {.to = to, .from = from, .count = (int64_t)size_bytes};
    const int64_t per_block = PLB_BYTES_THREADS * 16;
    const plb_cuda_grid grid = {.blocks = {plb_cuda_blocks(device, p.count, per_block, 8)},
                                .threads = {PLB_BYTES_THREADS}};
    return plb_cuda_launch(stream, device->copy_bytes, &grid, (void *[]){&p});
}

plb_status plb_cuda_clear(plb_stream *stream, void *memory, size_t size_bytes) {
    if (!size_bytes) return PLB_OK;
    return plb_cuda_check(cuMemsetD8Async(address(memory), 0, size_bytes, stream->handle), "clear");
}

plb_status plb_cuda_pool_alloc(plb_stream *stream, size_t size_bytes, void **out) {
    CUdeviceptr memory = 0;
    *out = NULL;
    CUresult code = cuMemAllocFromPoolAsync(&memory, size_bytes ? size_bytes : 1,
                                            stream->device->pool, stream->handle);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) return out_of_memory(stream->device, size_bytes);
    PLB_TRY(plb_cuda_check(code, "allocate memory"));
    *out = (void *)(uintptr_t)memory;
    return PLB_OK;
}

void plb_cuda_pool_free(plb_stream *stream, void *memory) {
    if (memory) cuMemFreeAsync(address(memory), stream->handle);
}

plb_status plb_cuda_host_alloc(plb_device *device, size_t size_bytes, void **out) {
    *out = NULL;
    (void)device;
    CUresult code = cuMemHostAlloc(out, size_bytes ? size_bytes : 1, CU_MEMHOSTALLOC_PORTABLE);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) {
        return plb_fail(PLB_ENOMEM, "out of memory for %zu bytes of pinned host memory",
                        size_bytes);
    }
    return plb_cuda_check(code, "allocate pinned host memory");
}

void plb_cuda_host_free(plb_device *device, void *memory) {
    if (memory && plb_cuda_enter(device) == PLB_OK) cuMemFreeHost(memory);
}

plb_status plb_cuda_memory(plb_device *device, size_t *out_free, size_t *out_total) {
    cuuint64_t reserved = 0, used = 0; // what the pool keeps unused it gives back when asked
    PLB_TRY(plb_cuda_check(cuMemGetInfo(out_free, out_total), "ask for memory"));
    PLB_TRY(plb_cuda_check(
        cuMemPoolGetAttribute(device->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved),
        "ask for a pool's memory"));
    PLB_TRY(
        plb_cuda_check(cuMemPoolGetAttribute(device->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used),
                       "ask for a pool's memory"));
    if (reserved > used) *out_free += (size_t)(reserved - used);
    return PLB_OK;
}
