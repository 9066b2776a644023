// SPDX-License-Identifier: Apache-2.0
// Insides of the CUDA backend, for its own files. Host code is C against the driver API; the CUDA
// runtime is not used. Calls expect the device's context to be current (plb_cuda_enter), which the
// executors see to: `refuse`, `choices`, `prepare` and `run` of kernels may rely on it.
#ifndef PLB_ENGINE_DEVICE_CUDA_CUDA_H
#define PLB_ENGINE_DEVICE_CUDA_CUDA_H

#include <cuda.h>
#include <pthread.h>

#include "engine/device/device.h"

struct plb_device {
    int index;
    int users; // opens less closes
    CUdevice handle;
    CUcontext context; // the primary one, shared with other libraries of the process
    CUmemoryPool pool;
    CUfunction copy_bytes; // plb_bytes_copy, once it was asked for
    int major, minor;      // compute capability
    int sm_count;
    int shared_bytes; // of a block, opted in
    size_t memory_bytes, l2_bytes;
    char name[96];
    char fingerprint[192];    // part of the key of remembered choices
    char with_libraries[256]; // the same with their versions, once somebody asked
};

struct plb_stream {
    plb_device *device;
    CUstream handle;
    bool capturing;
};

struct plb_event {
    CUevent handle;
    plb_device *device;
};

struct plb_capture {
    CUgraph graph;
    CUgraphExec exec;
};

// PLB_OK, or a failure that says what was tried and what the driver answered. Out of memory is
// PLB_ENOMEM; no device, no driver, no permission and a driver too old are PLB_EMISSING; what
// cannot be captured is PLB_EUNSUPPORTED; errors after which the context is of no use any more, and
// calls that are wrong, are PLB_EBROKEN.
PLB_MUST_USE plb_status plb_cuda_check(CUresult code, const char *what);
PLB_MUST_USE plb_status plb_cuda_enter(plb_device *device);

// ---------------------------------------------------------------------------- own kernels
// A function of the kernels compiled into the module (kernels/*.cu, extern "C").
PLB_MUST_USE plb_status plb_cuda_function(plb_device *device, const char *name, CUfunction *out);
// How many blocks, of how many threads, with how much dynamic shared memory.
typedef struct plb_cuda_grid {
    unsigned blocks[3], threads[3]; // 0 counts as 1
    unsigned shared_bytes;          // above 48 KiB the function must have been opted in
    unsigned cluster; // so many blocks along the last axis share their memory; 0 counts as 1
} plb_cuda_grid;
// `params`: as for cuLaunchKernel. Asynchronous.
PLB_MUST_USE plb_status plb_cuda_launch(plb_stream *stream, CUfunction function,
                                        const plb_cuda_grid *grid, void **params);
// Enough blocks for `count` items of `per_block` each, but no more than fill the device `waves`
// times: for loops that stride over the grid.
unsigned plb_cuda_blocks(const plb_device *device, int64_t count, int64_t per_block, int waves);

// A function of a text that is compiled for the device now, or was before (nvrtc.c).
PLB_MUST_USE plb_status plb_cuda_compile(plb_device *device, const char *source, const char *name,
                                         CUfunction *out);
bool plb_cuda_has_nvrtc(void);
// Only compiles, for tests: needs no device. `*out` is the caller's to plb_free.
PLB_API PLB_MUST_USE plb_status plb_cuda_compile_only(const char *source, int major, int minor,
                                                      void **out, size_t *out_bytes);

// Things kept on disk from process to process, in $XDG_CACHE_HOME/plumb/cuda/NAME; the name holds
// all that the thing depends on (cache.c). `*out` is the caller's to plb_free.
bool plb_cuda_cache_read(const char *name, void **out, size_t *out_bytes);
void plb_cuda_cache_write(const char *name, const void *bytes, size_t size_bytes);

// ---------------------------------------------------------------------------- libraries
// Opens one of NVIDIA's libraries by its names ("libnvrtc.so.13", …), NULL at the end: where
// $PLUMB_CUDA_PATH (folders, ':' between) says, where the loader looks, in the usual folders of
// toolkits, and in those of PyTorch's wheels. NULL when it is nowhere. Stays open.
void *plb_cuda_open_library(const char *const *names);

// Opens NVIDIA's libraries in the background, once a process, and starts them for `device` when
// there is one; NULL: there will be none (preload.c). All three are called with the lock of
// device.c held; `end` waits for what `begin` began.
void plb_cuda_preload_begin(void);
void plb_cuda_preload_start(plb_device *device);
void plb_cuda_preload_end(void);
// The libraries and the driver by number, as plb_backend.library (libraries.c).
bool plb_cuda_library(int index, const char **out_name, const char **out_version);
const char *plb_cuda_fingerprint(const plb_query *q);
// "13.0"; NULL where NVRTC is missing.
const char *plb_nvrtc_version(void);

// Names of what the functions below read: a table of {name, address of the function pointer}.
typedef struct plb_cuda_symbol {
    const char *name;
    void *function; // pointer to a function pointer
} plb_cuda_symbol;
// Whether all were found.
bool plb_cuda_symbols(void *library, const plb_cuda_symbol *symbols, int n);

// ---------------------------------------------------------------------------- pieces
// device.c
int plb_cuda_device_count(void);
plb_status plb_cuda_open(int index, plb_device **out);
void plb_cuda_close(plb_device *device);
const char *plb_cuda_describe(const plb_device *device);
// memory.c
plb_status plb_cuda_alloc(plb_device *device, size_t size_bytes, void **out);
void plb_cuda_free(plb_device *device, void *memory);
plb_status plb_cuda_copy(plb_stream *stream, void *to, const void *from, size_t size_bytes);
plb_status plb_cuda_copy_near(plb_stream *stream, void *to, const void *from, size_t size_bytes);
plb_status plb_cuda_clear(plb_stream *stream, void *memory, size_t size_bytes);
plb_status plb_cuda_pool_alloc(plb_stream *stream, size_t size_bytes, void **out);
void plb_cuda_pool_free(plb_stream *stream, void *memory);
plb_status plb_cuda_host_alloc(plb_device *device, size_t size_bytes, void **out);
void plb_cuda_host_free(plb_device *device, void *memory);
plb_status plb_cuda_memory(plb_device *device, size_t *out_free, size_t *out_total);
// stream.c
plb_status plb_cuda_stream_new(plb_device *device, plb_stream **out);
void plb_cuda_stream_free(plb_stream *stream);
plb_status plb_cuda_wait(plb_stream *stream);
plb_status plb_cuda_event_new(plb_device *device, plb_event **out);
void plb_cuda_event_free(plb_event *event);
plb_status plb_cuda_record(plb_stream *stream, plb_event *event);
plb_status plb_cuda_wait_event(plb_stream *stream, plb_event *event);
plb_status plb_cuda_wait_for(plb_event *event);
plb_status plb_cuda_elapsed_ns(const plb_event *from, const plb_event *to, int64_t *out_ns);
// capture.c
plb_status plb_cuda_capture_begin(plb_stream *stream);
plb_status plb_cuda_capture_after(plb_stream *stream, const plb_mark *marks, int n);
plb_status plb_cuda_capture_mark(plb_stream *stream, plb_mark *out);
plb_status plb_cuda_capture_end(plb_stream *stream, plb_capture **out);
plb_status plb_cuda_replay(plb_stream *stream, plb_capture *capture);
void plb_cuda_capture_free(plb_capture *capture);
// kernels.c
const plb_kernel *const *plb_cuda_kernels(plb_op_id op);
// move.c: any strides, layouts and dtypes
plb_status plb_cuda_move(plb_stream *stream, const plb_tensor *to, const plb_tensor *from);
// The layout in which convolutions, pools and batch norms run best.
plb_layout plb_cuda_spatial_layout(const plb_query *q);

#endif
