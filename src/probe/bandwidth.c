// SPDX-License-Identifier: Apache-2.0
#include "probe/bandwidth.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/symbol.h"

enum { BYTES = 64 << 20, TIMES = 5 };

typedef uint64_t address; // CUdeviceptr

typedef struct driver {
    int (*init)(unsigned flags);
    int (*get)(int *device, int ordinal);
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*set_current)(void *context);
    int (*take)(address *at, size_t size_bytes);
    int (*give)(address at);
    int (*take_host)(void **at, size_t size_bytes, unsigned flags);
    int (*give_host)(void *at);
    int (*in)(address to, const void *from, size_t size_bytes);
    int (*out)(void *to, address from, size_t size_bytes);
    int (*inside)(address to, address from, size_t size_bytes);
    int (*wait)(void);
} driver;

// What is copied, and by whom.
typedef struct bench {
    driver d;
    address device[2];
    void *host[2]; // pageable, pinned
} bench;

static bool find_all(void *library, driver *d) {
    return plb_find_symbol(library, "cuInit", &d->init) &&
           plb_find_symbol(library, "cuDeviceGet", &d->get) &&
           plb_find_symbol(library, "cuDevicePrimaryCtxRetain", &d->retain) &&
           plb_find_symbol(library, "cuDevicePrimaryCtxRelease_v2", &d->release) &&
           plb_find_symbol(library, "cuCtxSetCurrent", &d->set_current) &&
           plb_find_symbol(library, "cuMemAlloc_v2", &d->take) &&
           plb_find_symbol(library, "cuMemFree_v2", &d->give) &&
           plb_find_symbol(library, "cuMemHostAlloc", &d->take_host) &&
           plb_find_symbol(library, "cuMemFreeHost", &d->give_host) &&
           plb_find_symbol(library, "cuMemcpyHtoD_v2", &d->in) &&
           plb_find_symbol(library, "cuMemcpyDtoH_v2", &d->out) &&
           plb_find_symbol(library, "cuMemcpyDtoD_v2", &d->inside) &&
           plb_find_symbol(library, "cuCtxSynchronize", &d->wait);
}

static int copy(const bench *b, int direction, int pinned) {
    int code;
    if (direction == PLB_COPY_IN)
        code = b->d.in(b->device[0], b->host[pinned], BYTES);
    else if (direction == PLB_COPY_OUT)
        code = b->d.out(b->host[pinned], b->device[0], BYTES);
    else
        code = b->d.inside(b->device[1], b->device[0], BYTES);
    return code ? code : b->d.wait();
}

// The first of them warms up; 0 where one fails.
static double best(const bench *b, int direction, int pinned) {
    double most = 0;
    for (int i = 0; i <= TIMES; i++) {
        const int64_t begin_ns = plb_now_ns();
        if (copy(b, direction, pinned)) return 0;
        const double speed = (double)BYTES / (double)(plb_now_ns() - begin_ns + 1);
        if (i && speed > most) most = speed;
    }
    return most;
}

static void measure_all(const bench *b, plb_bandwidth *out) {
    memset(b->host[0], 1, BYTES);
    memset(b->host[1], 1, BYTES);
    for (int direction = PLB_COPY_IN; direction <= PLB_COPY_OUT; direction++)
        for (int pinned = 0; pinned < 2; pinned++)
            out->host[direction][pinned] = best(b, direction, pinned);
    out->inside = best(b, PLB_COPY_INSIDE, 0);
    out->known = true;
}

static void measure_in_context(bench *b, plb_bandwidth *out) {
    b->host[0] = plb_alloc_slab(BYTES);
    const bool all = b->host[0] && !b->d.take(&b->device[0], BYTES) &&
                     !b->d.take(&b->device[1], BYTES) && !b->d.take_host(&b->host[1], BYTES, 0);
    if (all)
        measure_all(b, out);
    else
        snprintf(out->reason, sizeof out->reason, "no memory for copies of 64 MiB");
    if (b->host[1]) b->d.give_host(b->host[1]);
    for (int i = 0; i < 2; i++)
        if (b->device[i]) b->d.give(b->device[i]);
    plb_free(b->host[0]);
}

void plb_bandwidth_measure(int device, plb_bandwidth *out) {
    bench b = {0};
    void *context = NULL, *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int handle = 0, code = 0;
    *out = (plb_bandwidth){0};
    if (!library || !find_all(library, &b.d)) {
        snprintf(out->reason, sizeof out->reason, "no driver of CUDA: %s",
                 library ? "it lacks functions" : "libcuda.so.1 cannot be loaded");
        return; // the library stays open, as drivers want it
    }
    code = b.d.init(0);
    if (!code) code = b.d.get(&handle, device);
    if (!code) code = b.d.retain(&context, handle);
    if (code) {
        snprintf(out->reason, sizeof out->reason, "CUDA gives no device %d: error %d", device,
                 code);
        return;
    }
    if (!b.d.set_current(context)) measure_in_context(&b, out);
    b.d.set_current(NULL);
    b.d.release(handle);
}

double plb_bandwidth_of(const plb_bandwidth *b, int kind, int pinned) {
    if (!b->known) return 0;
    return kind <= PLB_COPY_OUT ? b->host[kind][pinned] : kind == PLB_COPY_INSIDE ? b->inside : 0;
}
