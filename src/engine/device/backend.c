// SPDX-License-Identifier: Apache-2.0
// The CUDA module is looked for where $PLUMB_CUDA_MODULE says, beside the file that this code is
// in (the program, or libplumb.so), in ../lib of it, and where the loader looks.
#include "engine/device/backend.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/inventory.h"
#include "engine/device/module.h"
#include "plumb/version.h"

static const char module_name[] = "libplumb_cuda.so";

static const plb_host host = {.version = PLUMB_VERSION,
                              .backend_bytes = sizeof(plb_backend),
                              .query_bytes = sizeof(plb_query),
                              .launch_bytes = sizeof(plb_launch),
                              .alloc = plb_alloc,
                              .realloc_array = plb_realloc_array,
                              .alloc_slab = plb_alloc_slab,
                              .free = plb_free,
                              .fail = plb_fail,
                              .error_text = plb_error_text,
                              .log_line = plb_log_line};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const plb_backend *cuda; // NULL until it was opened

// A module that is there but does not load says why; one that is not there says nothing.
static void *open_at(const char *folder, const char *below, char *reason, size_t reason_bytes) {
    char path[4200];
    int n = snprintf(path, sizeof path, "%s/%s%s", folder, below, module_name);
    if (n < 0 || (size_t)n >= sizeof path || access(path, R_OK) != 0) return NULL;
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module) snprintf(reason, reason_bytes, "%s", dlerror());
    return module;
}

static void *open_module(char *reason, size_t reason_bytes) {
    const char *given = getenv("PLUMB_CUDA_MODULE");
    Dl_info info;
    char folder[4096];
    void *module;
    if (given && *given) {
        module = dlopen(given, RTLD_NOW | RTLD_LOCAL);
        if (!module) snprintf(reason, reason_bytes, "%s", dlerror());
        return module;
    }
    if (dladdr((const void *)&host, &info) && realpath(info.dli_fname, folder)) {
        char *slash = strrchr(folder, '/');
        if (slash) *slash = '\0';
        module = open_at(folder, "", reason, reason_bytes);
        if (!module) module = open_at(folder, "../lib/", reason, reason_bytes);
        if (module || *reason) return module;
    }
    module = dlopen(module_name, RTLD_NOW | RTLD_LOCAL);
    if (!module) snprintf(reason, reason_bytes, "%s", dlerror());
    return module;
}

static plb_status open_cuda(void) { // locked
    char reason[512] = "";
    // The module itself needs the driver: say so in plainer words than the loader would.
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver) {
        return plb_fail(PLB_EMISSING,
                        "cuda: no NVIDIA driver here (libcuda.so.1 was not found): install it, or "
                        "use the CPU");
    }
    void *module = open_module(reason, sizeof reason);
    if (!module) {
        dlclose(driver);
        return plb_fail(PLB_EMISSING, "cuda: %s could not be opened: %s", module_name, reason);
    }
    plb_module_open open_backend;
    void *symbol = dlsym(module, PLB_MODULE_OPEN);
    memcpy(&open_backend, &symbol, sizeof symbol);
    cuda = symbol ? open_backend(&host) : NULL;
    if (cuda) return PLB_OK; // driver and module stay open
    dlclose(module);
    dlclose(driver);
    return plb_fail(PLB_EMISSING,
                    "cuda: %s is of another version than this program, " PLUMB_VERSION,
                    module_name);
}

plb_status plb_backend_find(const char *name, const plb_backend **out) {
    *out = NULL;
    if (strcmp(name, "cpu") == 0) {
        *out = &plb_backend_cpu;
        return PLB_OK;
    }
    if (strcmp(name, "cuda") != 0) {
        return plb_fail(PLB_EINVAL, "device %s: expected cpu or cuda, cuda:0, cuda:1, ...", name);
    }
    pthread_mutex_lock(&lock);
    plb_status status = cuda ? PLB_OK : open_cuda();
    *out = cuda;
    pthread_mutex_unlock(&lock);
    return status;
}

plb_status plb_device_find(const char *name, const plb_backend **out_backend, int *out_index) {
    char kind[16];
    const char *colon = name ? strchr(name, ':') : NULL;
    *out_backend = NULL;
    *out_index = 0;
    if (!name) return plb_backend_find("cpu", out_backend);
    size_t length = colon ? (size_t)(colon - name) : strlen(name);
    long index = 0;
    char *end = NULL;
    if (colon) index = strtol(colon + 1, &end, 10);
    if (length >= sizeof kind ||
        (colon && (end == colon + 1 || *end || index < 0 || index > 255))) {
        return plb_fail(PLB_EINVAL, "device %s: expected cpu or cuda, cuda:0, cuda:1, ...", name);
    }
    memcpy(kind, name, length);
    kind[length] = '\0';
    if (colon && strcmp(kind, "cpu") == 0)
        return plb_fail(PLB_EINVAL, "device %s: there is one cpu, without a number", name);
    *out_index = (int)index;
    return plb_backend_find(kind, out_backend);
}

plb_status plb_device_check(const char *name) {
    const plb_backend *backend;
    int index;
    return plb_device_find(name, &backend, &index);
}

plb_status plb_backend_inventory(const char *backend, plb_inventory *out) {
    const plb_backend *b = NULL;
    *out = (plb_inventory){0};
    PLB_TRY(plb_backend_find(backend, &b));
    while (b->library && out->n < PLB_INVENTORY_MAX &&
           b->library(out->n, &out->name[out->n], &out->version[out->n])) {
        out->n++;
    }
    return PLB_OK;
}
