// SPDX-License-Identifier: Apache-2.0
#include "engine/device/cuda/fault.h"

#include <string.h>

#include "base/core/status.h"

enum { MAX_DEVICES = 64 };

static plb_fault *faults[MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

plb_status plb_cuda_fault_of(plb_device *device, plb_fault **out) {
    *out = NULL;
    if (device->index < 0 || device->index >= MAX_DEVICES) {
        return plb_fail(PLB_EUNSUPPORTED, "cuda: device %d: at most %d", device->index,
                        MAX_DEVICES);
    }
    pthread_mutex_lock(&lock);
    plb_status status = PLB_OK;
    if (!faults[device->index]) {
        void *memory = NULL;
        status = plb_cuda_host_alloc(device, sizeof(plb_fault), &memory);
        if (!status) {
            memset(memory, 0, sizeof(plb_fault));
            faults[device->index] = memory;
        }
    }
    *out = faults[device->index];
    pthread_mutex_unlock(&lock);
    return status;
}

plb_status plb_cuda_fault_take(plb_device *device) {
    if (device->index < 0 || device->index >= MAX_DEVICES) return PLB_OK;
    volatile plb_fault *fault = faults[device->index];
    if (!fault || !fault->happened) return PLB_OK;
    const plb_fault note = {1, fault->op, fault->place, fault->found, fault->limit};
    fault->happened = 0;
    return plb_fail(PLB_EINVAL, "%s: element %lld: expected 0 to %lld, found %lld",
                    plb_op_of((plb_op_id)note.op)->name, (long long)note.place,
                    (long long)note.limit - 1, (long long)note.found);
}
