// SPDX-License-Identifier: Apache-2.0
// Devices and their contexts. A context is the device's primary one, so that libraries which use
// the CUDA runtime work in it too; it is released when the last user closes the device.
#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "engine/device/cuda/conv_problem.h"
#include "engine/device/cuda/cuda.h"

enum { MAX_DEVICES = 64 };

static struct plb_device devices[MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int plb_cuda_device_count(void) {
    int count = 0;
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&count) != CUDA_SUCCESS) return 0;
    return count < MAX_DEVICES ? count : MAX_DEVICES;
}

static int attribute(CUdevice device, CUdevice_attribute which) {
    int value = 0;
    return cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

// One word: the device, and the driver's version.
static void fill_fingerprint(plb_device *d, int driver) {
    char text[sizeof d->fingerprint];
    snprintf(text, sizeof text, "cuda:%.90s:sm%d%d:%dsm:driver%d", d->name, d->major, d->minor,
             d->sm_count, driver);
    for (char *p = text; *p; p++) {
        if (*p == ' ' || *p == '\t') *p = '-';
    }
    memcpy(d->fingerprint, text, sizeof text);
}

// Freed memory of the pool stays there for the next allocation, as caching allocators do.
static plb_status open_pool(plb_device *d) {
    cuuint64_t keep = UINT64_MAX;
    PLB_TRY(plb_cuda_check(cuDeviceGetDefaultMemPool(&d->pool, d->handle), "memory pool"));
    return plb_cuda_check(cuMemPoolSetAttribute(d->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep),
                          "memory pool");
}

static plb_status read_facts(plb_device *d) {
    int driver = 0;
    PLB_TRY(plb_cuda_check(cuDeviceGetName(d->name, sizeof d->name, d->handle), "device name"));
    PLB_TRY(plb_cuda_check(cuDriverGetVersion(&driver), "driver version"));
    PLB_TRY(plb_cuda_check(cuDeviceTotalMem(&d->memory_bytes, d->handle), "device memory"));
    d->major = attribute(d->handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    d->minor = attribute(d->handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    d->sm_count = attribute(d->handle, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    d->l2_bytes = (size_t)attribute(d->handle, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    d->shared_bytes = attribute(d->handle, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    fill_fingerprint(d, driver);
    return PLB_OK;
}

static plb_status open_first(int index, plb_device *d) {
    *d = (plb_device){.index = index};
    PLB_TRY(plb_cuda_check(cuDeviceGet(&d->handle, index), "open the device"));
    PLB_TRY(plb_cuda_check(cuDevicePrimaryCtxRetain(&d->context, d->handle), "make a context"));
    plb_status status = plb_cuda_enter(d);
    if (!status) status = read_facts(d);
    if (!status) status = open_pool(d);
    if (status) cuDevicePrimaryCtxRelease(d->handle);
    return status;
}

static plb_status open_locked(int index, plb_device **out) {
    int count = 0;
    PLB_TRY(plb_cuda_check(cuInit(0), "start the driver"));
    PLB_TRY(plb_cuda_check(cuDeviceGetCount(&count), "count devices"));
    if (index < 0 || index >= count || index >= MAX_DEVICES) {
        return plb_fail(count ? PLB_EINVAL : PLB_EMISSING, "cuda:%d: this machine has %d CUDA %s",
                        index, count, count == 1 ? "device, cuda:0" : "devices");
    }
    plb_device *d = &devices[index];
    plb_status status = d->users ? plb_cuda_enter(d) : open_first(index, d);
    if (status) return plb_fail_context(status, "cuda:%d", index);
    d->users++;
    *out = d;
    return PLB_OK;
}

plb_status plb_cuda_open(int index, plb_device **out) {
    *out = NULL;
    pthread_mutex_lock(&lock);
    plb_cuda_preload_begin();
    plb_status status = open_locked(index, out);
    plb_cuda_preload_start(*out);
    pthread_mutex_unlock(&lock);
    return status;
}

// The context stays until the process ends: making it anew takes a quarter of a second, and the
// kernels that were loaded belong to it.
void plb_cuda_close(plb_device *device) {
    if (!device) return;
    pthread_mutex_lock(&lock);
    if (device->users > 1) {
        device->users--;
    } else {
        plb_cuda_preload_end();
        plb_conv_makers_end();
    }
    pthread_mutex_unlock(&lock);
}

plb_status plb_cuda_enter(plb_device *device) {
    return plb_cuda_check(cuCtxSetCurrent(device->context), "enter the context");
}

const char *plb_cuda_describe(const plb_device *device) {
    return device->name;
}
