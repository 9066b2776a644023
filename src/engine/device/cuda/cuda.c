// SPDX-License-Identifier: Apache-2.0
// The table of the CUDA backend, and how the driver's answers become ours.
#include "engine/device/cuda/cuda.h"

#include "base/core/status.h"

// What must not be done while a stream is captured spoils that capture alone: a kernel that does it
// is out of the race, a form that needs it is not taken.
static bool spoils_capture(CUresult code) {
    return code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
           code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

static plb_status status_of(CUresult code) {
    if (spoils_capture(code)) return PLB_EUNSUPPORTED;
    switch (code) {
    case CUDA_ERROR_OUT_OF_MEMORY: return PLB_ENOMEM;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_DEVICE_NOT_LICENSED:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_NOT_PERMITTED: return PLB_EMISSING;
    default: return PLB_EBROKEN;
    }
}

plb_status plb_cuda_check(CUresult code, const char *what) {
    if (code == CUDA_SUCCESS) return PLB_OK;
    const char *name = NULL, *text = NULL;
    cuGetErrorName(code, &name);
    cuGetErrorString(code, &text);
    return plb_fail(status_of(code), "cuda: %s: %s (%s)", what, text ? text : "unknown error",
                    name ? name : "?");
}

const plb_backend plb_backend_cuda = {
    .name = "cuda",
    .device_count = plb_cuda_device_count,
    .open = plb_cuda_open,
    .close = plb_cuda_close,
    .enter = plb_cuda_enter,
    .describe = plb_cuda_describe,
    .library = plb_cuda_library,
    .fingerprint = plb_cuda_fingerprint,
    .alloc = plb_cuda_alloc,
    .free = plb_cuda_free,
    .copy = plb_cuda_copy,
    .copy_near = plb_cuda_copy_near,
    .clear = plb_cuda_clear,
    .pool_alloc = plb_cuda_pool_alloc,
    .pool_free = plb_cuda_pool_free,
    .host_alloc = plb_cuda_host_alloc,
    .host_free = plb_cuda_host_free,
    .memory = plb_cuda_memory,
    .move = plb_cuda_move,
    .stream_new = plb_cuda_stream_new,
    .stream_free = plb_cuda_stream_free,
    .wait = plb_cuda_wait,
    .event_new = plb_cuda_event_new,
    .event_free = plb_cuda_event_free,
    .record = plb_cuda_record,
    .wait_event = plb_cuda_wait_event,
    .wait_for = plb_cuda_wait_for,
    .elapsed_ns = plb_cuda_elapsed_ns,
    .capture_begin = plb_cuda_capture_begin,
    .capture_after = plb_cuda_capture_after,
    .capture_mark = plb_cuda_capture_mark,
    .capture_end = plb_cuda_capture_end,
    .replay = plb_cuda_replay,
    .capture_free = plb_cuda_capture_free,
    .kernels = plb_cuda_kernels,
    .spatial_weights = true,
    .image_channels = 4,
    .spatial_layout = plb_cuda_spatial_layout,
    .transforms_channels_first = true,
    .takes_beta_for_y = true,
    .rich_norms = true,
    .takes_silu = true,
    .launches_are_dear = true,
};
