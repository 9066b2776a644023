// SPDX-License-Identifier: Apache-2.0
// A program that seems to use a device: it loads what CUDA_INJECTION64_PATH names, as CUDA's driver
// does, and lets the fake CUPTI report a scenario.   guest SCENARIO
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_cupti.h"

enum { MS = 1000000 };
static const int64_t zero = 1700000000000000000;

static void inject(void) {
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    int (*begin)(void) = NULL;
    void *symbol = library ? dlsym(library, "InitializeInjection") : NULL;
    memcpy(&begin, &symbol, sizeof symbol);
    if (begin && begin() != 1) exit(99);
}

static void kernel(int64_t start_ns, int64_t end_ns, uint32_t device, uint32_t stream,
                   const char *name) {
    const fake_kernel k = {.start_ns = zero + start_ns,
                           .end_ns = zero + end_ns,
                           .device = device,
                           .stream = stream,
                           .name = name,
                           .grid = {4, 2, 1},
                           .block = {128, 1, 1},
                           .registers = 32,
                           .shared_bytes = 1024};
    fake_add_kernel(&k);
}

static void copy(int64_t start_ns, int64_t end_ns, int kind, int pinned, uint64_t bytes) {
    fake_add_copy(zero + start_ns, zero + end_ns, 0, kind, pinned, bytes);
}

static void call(int64_t start_ns, int64_t end_ns, const char *name) {
    fake_add_call(zero + start_ns, zero + end_ns, name);
}

// 100 ms: kernels 0-10, 20-40 with 30-50 on another stream, a copy 45-60, a memset 60-65, a copy
// out 90-100; in between the host synchronises 65-80, allocates 80-85, then is in its own code.
static void known(void) {
    kernel(20 * MS, 40 * MS, 0, 7, "_Z4gemmPf");
    kernel(0, 10 * MS, 0, 7, "_Z4gemmPf");
    kernel(30 * MS, 50 * MS, 0, 9, "relu");
    copy(45 * MS, 60 * MS, 1, 1, 1 << 20);
    fake_add_set(zero + 60 * MS, zero + 65 * MS, 0, 4096);
    copy(90 * MS, 100 * MS, 2, 0, 12);
    call(65 * MS, 80 * MS, "cudaDeviceSynchronize_v3020");
    call(80 * MS, 85 * MS, "cudaMalloc_v3020");
    call(10 * MS, 11 * MS, "cudaLaunchKernel_v7000"); // only under --api
    fake_add_memory(zero, 0, 1 << 20, 0);
    fake_add_memory(zero + 5, 0, 3 << 20, 0);
    fake_add_memory(zero + 9, 0, 1 << 20, 1);
    fake_add_range(zero, zero + 50 * MS, 3, "forward");
}

static void *many_of(void *stream) {
    for (int64_t i = 0; i < 250000; i++)
        kernel(i * 10000, i * 10000 + 4000, 0, (uint32_t)(size_t)stream, "step");
    return NULL;
}

// A million kernels from four threads, of which each quarter covers the same time.
static void threads(void) {
    pthread_t thread[4];
    for (size_t i = 0; i < 4; i++) pthread_create(&thread[i], NULL, many_of, (void *)i);
    for (size_t i = 0; i < 4; i++) pthread_join(thread[i], NULL);
}

// More names than the probe's table has rows.
static void names(void) {
    enum { COUNT = 20000, BYTES = 32 };
    char *text = malloc((size_t)COUNT * BYTES);
    for (int64_t i = 0; i < COUNT; i++) {
        snprintf(text + i * BYTES, BYTES, "kernel_%d", (int)i);
        kernel(i * MS, i * MS + 1000, 0, 7, text + i * BYTES);
    }
}

static void forking(void) {
    kernel(0, MS, 0, 7, "before");
    pid_t pid = fork();
    if (pid == 0) {
        kernel(0, 50 * MS, 0, 7, "in_child");
        exit(3); // runs what atexit knows
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 3) exit(98);
    kernel(2 * MS, 3 * MS, 0, 7, "after");
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "known";
    if (strncmp(what, "fail=", 5) == 0) fake_fail(what + 5);
    inject();
    if (strcmp(what, "threads") == 0) {
        threads();
    } else if (strcmp(what, "names") == 0) {
        names();
    } else if (strcmp(what, "fork") == 0) {
        forking();
    } else {
        known();
    }
    if (strcmp(what, "dropped") == 0) fake_drop(5);
    if (strcmp(what, "kill") == 0) {
        usleep(1200000); // longer than the probe leaves between two looks
        raise(SIGKILL);
    }
    if (strcmp(what, "_exit") == 0) usleep(1200000), _exit(4);
    if (strcmp(what, "abort") == 0) abort();
    if (strcmp(what, "exec") == 0) execl(argv[0], argv[0], "known", (char *)NULL);
    return strcmp(what, "code") == 0 ? 42 : 0;
}
