// SPDX-License-Identifier: Apache-2.0
// Preloaded into a worker of bench, makes it seem to use a device: each millisecond it reports a
// kernel that ran for half a millisecond. Where no probe is asked for it does nothing.
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cupti.h"

enum { MS = 1000000 };

static void *work(void *unused) {
    const int64_t zero = 1700000000000000000;
    (void)unused;
    for (int64_t i = 0;; i++) {
        const fake_kernel k = {.start_ns = zero + i * MS,
                               .end_ns = zero + i * MS + MS / 2,
                               .name = "step",
                               .grid = {1, 1, 1},
                               .block = {1, 1, 1}};
        if (!fake_is_enabled()) i--; // what is recorded has no gaps
        fake_add_kernel(&k);
        usleep(1000);
    }
    return NULL;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    int (*inject)(void) = NULL;
    pthread_t thread;
    void *symbol = library ? dlsym(library, "InitializeInjection") : NULL;
    memcpy(&inject, &symbol, sizeof symbol);
    if (inject && inject() == 1) pthread_create(&thread, NULL, work, NULL);
}
