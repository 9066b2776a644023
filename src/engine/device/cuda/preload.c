// SPDX-License-Identifier: Apache-2.0
// NVIDIA's libraries take half a second to open and to start. A thread does that while the first
// model is still being built; who needs one before it is ready waits for it, as for any other.
#include <stdlib.h>
#include <unistd.h>

#include "engine/device/cuda/cudnn.h"
#include "engine/device/cuda/gemm.h"

static pthread_t thread;
static bool running; // not yet joined
static pid_t owner;  // the process that has the thread: a fork of it has not

static void *preload(void *context) {
    plb_device *device = context;
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
    pthread_join(thread, NULL);
}

void plb_cuda_preload(plb_device *device) {
    static bool begun;
    if (begun) return;
    begun = true;
    owner = getpid();
    if (pthread_create(&thread, NULL, preload, device)) return; // opened when they are needed
    running = true;
    if (atexit(plb_cuda_preload_end)) plb_cuda_preload_end();
}
