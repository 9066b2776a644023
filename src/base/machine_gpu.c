// SPDX-License-Identifier: Apache-2.0
// NVIDIA's cards. NVML is loaded at run time, since a machine without a card has none, and its few
// functions are declared here, since some toolkits come without nvml.h.
#include "base/machine_gpu.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/symbol.h"

typedef struct nvml_memory {
    unsigned long long total, free, used; // bytes
} nvml_memory;

typedef struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*driver)(char *text, unsigned size);
    int (*count)(unsigned *count);
    int (*handle)(unsigned index, void **device);
    int (*name)(void *device, char *text, unsigned size);
    int (*memory)(void *device, nvml_memory *memory);
    int (*capability)(void *device, int *major, int *minor);
} nvml;

static bool find_all(void *library, nvml *n) {
    return plb_find_symbol(library, "nvmlInit_v2", &n->init) &&
           plb_find_symbol(library, "nvmlShutdown", &n->shutdown) &&
           plb_find_symbol(library, "nvmlSystemGetDriverVersion", &n->driver) &&
           plb_find_symbol(library, "nvmlDeviceGetCount_v2", &n->count) &&
           plb_find_symbol(library, "nvmlDeviceGetHandleByIndex_v2", &n->handle) &&
           plb_find_symbol(library, "nvmlDeviceGetName", &n->name) &&
           plb_find_symbol(library, "nvmlDeviceGetMemoryInfo", &n->memory) &&
           plb_find_symbol(library, "nvmlDeviceGetCudaComputeCapability", &n->capability);
}

static void read_card(const nvml *n, unsigned index, plb_gpu *gpu) {
    void *device;
    nvml_memory memory;
    if (n->handle(index, &device) != 0) return;
    if (n->name(device, gpu->name, sizeof gpu->name) != 0) gpu->name[0] = '\0';
    if (n->memory(device, &memory) == 0) gpu->memory_bytes = (int64_t)memory.total;
    n->capability(device, &gpu->capability_major, &gpu->capability_minor);
}

static bool read_nvml(plb_machine *out) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    nvml n;
    unsigned count = 0;
    bool known = false;
    if (!library) return false;
    if (find_all(library, &n) && n.init() == 0) {
        known = n.count(&count) == 0;
        if (n.driver(out->gpu_driver, sizeof out->gpu_driver) != 0) out->gpu_driver[0] = '\0';
        if (count > PLB_MACHINE_MAX_GPUS) count = PLB_MACHINE_MAX_GPUS;
        for (unsigned i = 0; i < count; i++) read_card(&n, i, &out->gpu[i]);
        out->gpu_count = (int)count;
        n.shutdown();
    }
    dlclose(library);
    return known;
}

static void read_card_file(const char *path, plb_gpu *gpu) {
    FILE *file = fopen(path, "re");
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "Model:", 6) != 0) continue;
        const char *model = line + 6 + strspn(line + 6, " \t");
        snprintf(gpu->name, sizeof gpu->name, "%.*s", (int)strcspn(model, "\n"), model);
    }
    if (file) fclose(file);
}

static void read_driver_files(const char *root, plb_machine *out) {
    char folder[2048], path[4096];
    snprintf(folder, sizeof folder, "%s/proc/driver/nvidia/gpus", root);
    DIR *cards = opendir(folder);
    if (!cards) return;
    const struct dirent *card;
    while (out->gpu_count < PLB_MACHINE_MAX_GPUS && (card = readdir(cards))) {
        if (card->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s/information", folder, card->d_name);
        read_card_file(path, &out->gpu[out->gpu_count++]);
    }
    closedir(cards);
}

void plb_machine_read_gpus(const char *root, plb_machine *out) {
    bool here = root[0] == '\0';
    if (!here || !read_nvml(out)) read_driver_files(root, out);
    void *driver = here ? dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) : NULL;
    out->gpu_usable = driver != NULL;
    if (driver) dlclose(driver);
}

// ---------------------------------------------------------------------------- state
typedef struct nvml_state {
    int (*temperature)(void *device, int sensor, unsigned *celsius);
    int (*clock)(void *device, int type, unsigned *mhz);
    int (*reasons)(void *device, unsigned long long *bits);
    int (*clock_max)(void *device, int type, unsigned *mhz);
    int (*power)(void *device, unsigned *milliwatt);
    int (*power_limit)(void *device, unsigned *milliwatt);
} nvml_state;

const char *plb_machine_throttle_reason(int bit) {
    static const char *const names[] = {"idle",
                                        "clocks set by the user",
                                        "power limit",
                                        "hardware slowdown",
                                        "in step with other cards",
                                        "temperature, by software",
                                        "temperature, by hardware",
                                        "power brake of the machine",
                                        "clocks set for displays"};
    return bit >= 0 && bit < (int)(sizeof names / sizeof *names) ? names[bit] : NULL;
}

static void read_state(const nvml *n, const nvml_state *s, unsigned index, plb_gpu_state *out) {
    enum { SENSOR_GPU = 0, CLOCK_SM = 1, CLOCK_MEMORY = 2 };
    enum { IDLE = 1, USER_SET = 2 }; // reasons that are none
    void *device;
    unsigned value;
    unsigned long long bits;
    *out = (plb_gpu_state){-1, -1, -1, -1, -1, -1, -1, -1};
    if (n->handle(index, &device) != 0) return;
    if (s->temperature(device, SENSOR_GPU, &value) == 0) out->temperature_c = (int)value;
    if (s->clock(device, CLOCK_SM, &value) == 0) out->clock_mhz = (int)value;
    if (s->clock(device, CLOCK_MEMORY, &value) == 0) out->memory_clock_mhz = (int)value;
    if (s->clock_max(device, CLOCK_SM, &value) == 0) out->clock_max_mhz = (int)value;
    if (s->clock_max(device, CLOCK_MEMORY, &value) == 0) out->memory_clock_max_mhz = (int)value;
    if (s->power(device, &value) == 0) out->power_w = value / 1e3;
    if (s->power_limit(device, &value) == 0) out->power_limit_w = value / 1e3;
    if (s->reasons(device, &bits) == 0)
        out->throttle_reasons = (int64_t)(bits & ~(unsigned long long)(IDLE | USER_SET));
}

static bool find_state(void *library, nvml_state *s) {
    return plb_find_symbol(library, "nvmlDeviceGetTemperature", &s->temperature) &&
           plb_find_symbol(library, "nvmlDeviceGetClockInfo", &s->clock) &&
           plb_find_symbol(library, "nvmlDeviceGetCurrentClocksThrottleReasons", &s->reasons) &&
           plb_find_symbol(library, "nvmlDeviceGetMaxClockInfo", &s->clock_max) &&
           plb_find_symbol(library, "nvmlDeviceGetPowerUsage", &s->power) &&
           plb_find_symbol(library, "nvmlDeviceGetEnforcedPowerLimit", &s->power_limit);
}

int plb_machine_gpu_states(plb_gpu_state *states) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    nvml n;
    nvml_state s;
    unsigned count = 0;
    if (!library) return 0;
    if (find_all(library, &n) && find_state(library, &s) && n.init() == 0) {
        if (n.count(&count) != 0) count = 0;
        if (count > PLB_MACHINE_MAX_GPUS) count = PLB_MACHINE_MAX_GPUS;
        for (unsigned i = 0; i < count; i++) read_state(&n, &s, i, &states[i]);
        n.shutdown();
    }
    dlclose(library);
    return (int)count;
}

// ---------------------------------------------------------------------------- how busy
typedef struct nvml_utilization {
    unsigned gpu, memory; // per cent
} nvml_utilization;

// The card that CUDA numbers `device`, in NVML's numbers, which know no CUDA_VISIBLE_DEVICES. Cards
// of different models CUDA sorts by speed unless CUDA_DEVICE_ORDER says otherwise.
static bool find_device(const nvml *n, void *library, int device, void **out) {
    int (*by_uuid)(const char *uuid, void **device);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char uuid[96], *end;
    if (!visible) return n->handle((unsigned)device, out) == 0;
    for (int i = 0; i < device && visible; i++) {
        visible = strchr(visible, ',');
        if (visible) visible++;
    }
    if (!visible) return false;
    const long index = strtol(visible, &end, 10);
    if (end != visible) return index >= 0 && n->handle((unsigned)index, out) == 0;
    snprintf(uuid, sizeof uuid, "%.*s", (int)strcspn(visible, ","), visible);
    return plb_find_symbol(library, "nvmlDeviceGetHandleByUUID", &by_uuid) &&
           by_uuid(uuid, out) == 0;
}

double plb_machine_gpu_busy(int cuda_device) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), *device;
    nvml n;
    nvml_utilization found;
    int (*utilization)(void *device, nvml_utilization *utilization);
    double busy = -1;
    if (!library) return busy;
    if (find_all(library, &n) &&
        plb_find_symbol(library, "nvmlDeviceGetUtilizationRates", &utilization) && n.init() == 0) {
        if (find_device(&n, library, cuda_device, &device) && utilization(device, &found) == 0)
            busy = found.gpu / 100.0;
        n.shutdown();
    }
    dlclose(library);
    return busy;
}
