// SPDX-License-Identifier: Apache-2.0
// NVIDIA's libraries take half a second to open and to start. A thread opens them while the driver
// starts and makes a context, and starts them while the first model is still being built; who needs
// one before it is ready waits for it, as for any other.
#include <stdlib.h>
#include <unistd.h>

#include "engine/device/cuda/cudnn.h"
#include "engine/device/cuda/gemm.h"

static pthread_t thread;
static bool running; // not yet joined
static pid_t owner;  // the process that has the thread: a fork of it has not

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of the two below
static pthread_cond_t known = PTHREAD_COND_INITIALIZER;
static bool device_known;
static plb_device *first_device; // NULL: there is none

static plb_device *wait_for_device(void) {
    pthread_mutex_lock(&lock);
    while (!device_known) pthread_cond_wait(&known, &lock);
    plb_device *device = first_device;
    pthread_mutex_unlock(&lock);
    return device;
}

static void *preload(void *context) {
    (void)context;
    (void)plb_gemm_missing();
    (void)plb_cudnn_missing();
    plb_device *device = wait_for_device();
    if (!device) return NULL;
    plb_cudnn_preload(device);
    plb_gemm_preload(device);
    (void)plb_cuda_has_nvrtc();
    return NULL;
}

// A library must not be opened while the process is being taken down. Its own exit handlers, which
// are younger than ours, would run before we could wait: who closes the device waits already.
void plb_cuda_preload_end(void) {
    if (!running || getpid() != owner) return;
    running = false;
    plb_cuda_preload_start(NULL);
    pthread_join(thread, NULL);
}

void plb_cuda_preload_begin(void) {
    static bool begun;
    if (begun) return;
    begun = true;
    owner = getpid();
    if (pthread_create(&thread, NULL, preload, NULL)) return; // opened when they are needed
    running = true;
    if (atexit(plb_cuda_preload_end)) plb_cuda_preload_end();
}

void plb_cuda_preload_start(plb_device *device) {
    pthread_mutex_lock(&lock);
    if (!device_known) first_device = device;
    device_known = true;
    pthread_cond_signal(&known);
    pthread_mutex_unlock(&lock);
}
