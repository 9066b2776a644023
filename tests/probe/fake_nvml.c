// SPDX-License-Identifier: Apache-2.0
// An NVML with as many cards as FAKE_CARDS says, of which it tells what a watcher of cards asks:
// card i draws 100 + i watts and is busy for 20 + i hundredths of the time.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;

typedef struct nvml_utilization {
    unsigned gpu, memory;
} nvml_utilization;

#define SHOWN __attribute__((visibility("default")))

SHOWN int nvmlInit_v2(void);
SHOWN int nvmlShutdown(void);
SHOWN int nvmlDeviceGetCount_v2(unsigned *count);
SHOWN int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
SHOWN int nvmlDeviceGetName(void *device, char *text, unsigned size);
SHOWN int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
SHOWN int nvmlDeviceGetMemoryInfo(void *device, nvml_memory *memory);
SHOWN int nvmlSystemGetDriverVersion(char *text, unsigned size);
SHOWN int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor);
SHOWN int nvmlDeviceGetUtilizationRates(void *device, nvml_utilization *utilization);

static unsigned cards[16];

int nvmlInit_v2(void) {
    return 0;
}

int nvmlShutdown(void) {
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    const char *said = getenv("FAKE_CARDS");
    *count = said ? (unsigned)atoi(said) : 1;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    unsigned count;
    if (nvmlDeviceGetCount_v2(&count) || index >= count) return 2;
    cards[index] = index;
    *device = &cards[index];
    return 0;
}

int nvmlDeviceGetName(void *device, char *text, unsigned size) {
    snprintf(text, size, "fake card %u", *(unsigned *)device);
    return 0;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    *milliwatts = 100000 + 1000 * *(unsigned *)device;
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, nvml_memory *memory) {
    *memory = (nvml_memory){.total = 1 << 20, .used = 1000 + *(unsigned *)device};
    return 0;
}

int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    snprintf(text, size, "1.0");
    return 0;
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    (void)device;
    *major = 9, *minor = 0;
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *device, nvml_utilization *utilization) {
    *utilization = (nvml_utilization){.gpu = 20 + *(unsigned *)device};
    return 0;
}
