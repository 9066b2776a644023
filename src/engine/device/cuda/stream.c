// SPDX-License-Identifier: Apache-2.0
// Streams and events. Streams do not wait for the default stream of others.
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/cuda.h"
#include "engine/device/cuda/fault.h"

plb_status plb_cuda_stream_new(plb_device *device, plb_stream **out) {
    *out = NULL;
    plb_stream *stream = plb_alloc(sizeof *stream);
    if (!stream) return plb_fail(PLB_ENOMEM, "out of memory for a stream");
    stream->device = device;
    plb_status status =
        plb_cuda_check(cuStreamCreate(&stream->handle, CU_STREAM_NON_BLOCKING), "make a stream");
    if (status) {
        plb_free(stream);
        return status;
    }
    *out = stream;
    return PLB_OK;
}

void plb_cuda_stream_free(plb_stream *stream) {
    if (!stream) return;
    if (plb_cuda_enter(stream->device) == PLB_OK) {
        cuStreamSynchronize(stream->handle);
        cuStreamDestroy(stream->handle);
    }
    plb_free(stream);
}

plb_status plb_cuda_wait(plb_stream *stream) {
    PLB_TRY(plb_cuda_check(cuStreamSynchronize(stream->handle), "wait for the device"));
    return plb_cuda_fault_take(stream->device);
}

plb_status plb_cuda_event_new(plb_device *device, plb_event **out) {
    *out = NULL;
    plb_event *event = plb_alloc(sizeof *event);
    if (!event) return plb_fail(PLB_ENOMEM, "out of memory for an event");
    event->device = device;
    plb_status status =
        plb_cuda_check(cuEventCreate(&event->handle, CU_EVENT_DEFAULT), "make an event");
    if (status) {
        plb_free(event);
        return status;
    }
    *out = event;
    return PLB_OK;
}

void plb_cuda_event_free(plb_event *event) {
    if (!event) return;
    cuEventDestroy(event->handle);
    plb_free(event);
}

plb_status plb_cuda_record(plb_stream *stream, plb_event *event) {
    return plb_cuda_check(cuEventRecord(event->handle, stream->handle), "record an event");
}

plb_status plb_cuda_wait_event(plb_stream *stream, plb_event *event) {
    return plb_cuda_check(cuStreamWaitEvent(stream->handle, event->handle, 0), "wait for an event");
}

plb_status plb_cuda_wait_for(plb_event *event) {
    PLB_TRY(plb_cuda_check(cuEventSynchronize(event->handle), "wait for the device"));
    return plb_cuda_fault_take(event->device);
}

plb_status plb_cuda_elapsed_ns(const plb_event *from, const plb_event *to, int64_t *out_ns) {
    float ms = 0;
    *out_ns = 0;
    PLB_TRY(plb_cuda_check(cuEventSynchronize(to->handle), "wait for an event"));
    PLB_TRY(plb_cuda_check(cuEventElapsedTime(&ms, from->handle, to->handle), "read a time"));
    *out_ns = (int64_t)((double)ms * 1e6 + 0.5);
    return PLB_OK;
}
