// SPDX-License-Identifier: Apache-2.0
// A driver that knows one device, for what the probe asks of a device: two multiprocessors of
// compute capability 9.0 with 2048 threads each.
#include <stddef.h>
#include <stdio.h>

#define FAKE __attribute__((visibility("default")))
FAKE int cuDeviceGet(int *device, int ordinal);
FAKE int cuDeviceGetName(char *text, int size_bytes, int device);
FAKE int cuDeviceGetAttribute(int *value, int attribute, int device);
FAKE int cuDeviceTotalMem_v2(size_t *size_bytes, int device);

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
