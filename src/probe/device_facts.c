// SPDX-License-Identifier: Apache-2.0
// The driver's few functions are found in the process, where it is already: the probe links none.
#include "probe/device_facts.h"

#include <dlfcn.h>
#include <string.h>

#include "base/core/symbol.h"

typedef struct driver {
    int (*get)(int *device, int ordinal);
    int (*name)(char *text, int size_bytes, int device);
    int (*attribute)(int *value, int attribute, int device);
    int (*memory)(size_t *size_bytes, int device);
} driver;

void plb_probe_tell_device(plb_sum *sum, uint32_t device) {
    enum { SM_COUNT = 16, THREADS_PER_SM = 39, MAJOR = 75, MINOR = 76 }; // CUdevice_attribute
    enum { WARP = 32 };
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    driver d;
    char name[128] = "";
    int handle, sm_count = 0, threads = 0, major = 0, minor = 0;
    size_t memory_bytes = 0;
    if (!library) return;
    if (plb_find_symbol(library, "cuDeviceGet", &d.get) &&
        plb_find_symbol(library, "cuDeviceGetName", &d.name) &&
        plb_find_symbol(library, "cuDeviceGetAttribute", &d.attribute) &&
        plb_find_symbol(library, "cuDeviceTotalMem_v2", &d.memory) &&
        d.get(&handle, (int)device) == 0 && d.name(name, sizeof name, handle) == 0 &&
        d.attribute(&sm_count, SM_COUNT, handle) == 0 &&
        d.attribute(&threads, THREADS_PER_SM, handle) == 0 &&
        d.attribute(&major, MAJOR, handle) == 0 && d.attribute(&minor, MINOR, handle) == 0 &&
        d.memory(&memory_bytes, handle) == 0)
        plb_sum_device(sum, device, name, sm_count, threads / WARP, 10 * major + minor,
                       (int64_t)memory_bytes);
    dlclose(library);
}
