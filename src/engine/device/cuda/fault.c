// SPDX-License-Identifier: Apache-2.0
#include "engine/device/cuda/fault.h"

#include <string.h>

#include "base/core/status.h"

enum { MAX_DEVICES = 64 };

typedef struct fault {
    plb_fault *note;    // pinned host memory
    plb_fault_box *box; // on the device
} fault;

static fault faults[MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static plb_status fault_new(plb_device *device, fault *out) {
    void *note = NULL, *box = NULL;
    PLB_TRY(plb_cuda_host_alloc(device, sizeof(plb_fault), &note));
    memset(note, 0, sizeof(plb_fault));
    const plb_fault_box content = {0, 0, note};
    plb_status status = plb_cuda_alloc(device, sizeof content, &box);
    if (!status) {
        status = plb_cuda_check(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)box, &content, sizeof content),
                                "copy a note");
    }
    if (status) {
        plb_cuda_free(device, box);
        plb_cuda_host_free(device, note);
        return status;
    }
    *out = (fault){note, box};
    return PLB_OK;
}

plb_status plb_cuda_fault_of(plb_device *device, plb_fault_box **out) {
    *out = NULL;
    if (device->index < 0 || device->index >= MAX_DEVICES) {
        return plb_fail(PLB_EUNSUPPORTED, "cuda: device %d: at most %d", device->index,
                        MAX_DEVICES);
    }
    pthread_mutex_lock(&lock);
    fault *f = &faults[device->index];
    plb_status status = f->box ? PLB_OK : fault_new(device, f);
    *out = f->box;
    pthread_mutex_unlock(&lock);
    return status;
}

plb_status plb_cuda_fault_take(plb_device *device) {
    if (device->index < 0 || device->index >= MAX_DEVICES) return PLB_OK;
    const fault *f = &faults[device->index];
    volatile plb_fault *note = f->note;
    if (!note || !note->happened) return PLB_OK;
    const plb_fault read = {1, note->op, note->place, note->found, note->limit};
    note->happened = 0;
    PLB_TRY(
        plb_cuda_check(cuMemsetD32((CUdeviceptr)(uintptr_t)&f->box->lock, 0, 1), "clear a note"));
    return plb_fail(PLB_EINVAL, "%s: element %lld: expected 0 to %lld, found %lld",
                    plb_op_of((plb_op_id)read.op)->name, (long long)read.place,
                    (long long)read.limit - 1, (long long)read.found);
}
