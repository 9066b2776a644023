// SPDX-License-Identifier: Apache-2.0
// A driver that knows one device, for what the probe asks of a device: two multiprocessors of
// compute capability 9.0 with 2048 threads each. Copies take 16 ms to or from pageable memory, 8 ms
// to or from pinned, 4 ms inside.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define FAKE __attribute__((visibility("default")))
FAKE int cuDeviceGet(int *device, int ordinal);
FAKE int cuDeviceGetName(char *text, int size_bytes, int device);
FAKE int cuDeviceGetAttribute(int *value, int attribute, int device);
FAKE int cuDeviceTotalMem_v2(size_t *size_bytes, int device);

FAKE int cuInit(unsigned flags);
FAKE int cuDevicePrimaryCtxRetain(void **context, int device);
FAKE int cuDevicePrimaryCtxRelease_v2(int device);
FAKE int cuCtxSetCurrent(void *context);
FAKE int cuCtxSynchronize(void);
FAKE int cuMemAlloc_v2(uint64_t *at, size_t size_bytes);
FAKE int cuMemFree_v2(uint64_t at);
FAKE int cuMemHostAlloc(void **at, size_t size_bytes, unsigned flags);
FAKE int cuMemFreeHost(void *at);
FAKE int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size_bytes);
FAKE int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size_bytes);
FAKE int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t size_bytes);

enum { INVALID = 1, ONLY = 7 };

int cuDeviceGet(int *device, int ordinal) {
    *device = ONLY;
    return ordinal == 0 ? 0 : INVALID;
}

int cuDeviceGetName(char *text, int size_bytes, int device) {
    snprintf(text, (size_t)size_bytes, "Made-up 9000");
    return device == ONLY ? 0 : INVALID;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 16: *value = 2; break; // multiprocessors
    case 39: *value = 2048; break;
    case 75: *value = 9; break;
    case 76: *value = 0; break;
    default: return INVALID;
    }
    return device == ONLY ? 0 : INVALID;
}

int cuDeviceTotalMem_v2(size_t *size_bytes, int device) {
    *size_bytes = (size_t)1 << 30;
    return device == ONLY ? 0 : INVALID;
}

static void *pinned, *current;

int cuInit(unsigned flags) {
    return flags ? INVALID : 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = &current;
    return device == ONLY ? 0 : INVALID;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    return device == ONLY ? 0 : INVALID;
}

int cuCtxSetCurrent(void *context) {
    current = context;
    return 0;
}

int cuCtxSynchronize(void) {
    return current ? 0 : INVALID;
}

int cuMemAlloc_v2(uint64_t *at, size_t size_bytes) {
    static uint64_t next = 4096;
    *at = next, next += size_bytes;
    return current ? 0 : INVALID;
}

int cuMemFree_v2(uint64_t at) {
    return at ? 0 : INVALID;
}

int cuMemHostAlloc(void **at, size_t size_bytes, unsigned flags) {
    *at = pinned = malloc(size_bytes);
    return flags || !pinned ? INVALID : 0;
}

int cuMemFreeHost(void *at) {
    free(at);
    return 0;
}

static int take_ms(long ms) {
    const struct timespec time = {.tv_nsec = ms * 1000000};
    nanosleep(&time, NULL);
    return current ? 0 : INVALID;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size_bytes) {
    return to && size_bytes ? take_ms(from == pinned ? 8 : 16) : INVALID;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size_bytes) {
    return from && size_bytes ? take_ms(to == pinned ? 8 : 16) : INVALID;
}

int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t size_bytes) {
    return to && from && size_bytes ? take_ms(4) : INVALID;
}
