// SPDX-License-Identifier: Apache-2.0
// Facts about the machine that runs this process, for `plumb doctor`, for the fingerprint that a
// measurement is stored with, and for the default number of threads. Linux; everything is read from
// /proc and /sys, so that tests can show it another machine. What cannot be found out is 0 or "".
#ifndef PLB_BASE_MACHINE_H
#define PLB_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "plumb/status.h"

enum { PLB_MACHINE_MAX_GPUS = 16 };

typedef struct plb_gpu {
    char name[96];
    int64_t memory_bytes;
    int capability_major, capability_minor;
} plb_gpu;

typedef struct plb_machine {
    char system[96];       // "Debian GNU/Linux 12 (bookworm)"
    char kernel[96];       // "6.1.0-18-amd64"
    char architecture[32]; // "x86_64"

    char cpu_model[96];
    int logical_cpus;             // online
    int physical_cores;           // without their second threads
    int affinity_cpus;            // that this process may run on
    double quota_cpus;            // of the control groups, in CPUs; 0: none
    char simd[256];               // instruction sets that matter to kernels: "sse4_2 avx avx2 fma"
    char governor[32];            // of frequency scaling
    double load_1min;             // runnable processes, averaged; below 0: unknown
    int64_t cache_bytes[3];       // of the first core: L1 data, L2, L3
    int64_t cache_total_bytes[3]; // of all cores, if they are like the first

    int64_t memory_bytes;
    int64_t memory_available_bytes;
    int64_t memory_limit_bytes; // of the control groups; 0: none
    int64_t memory_left_bytes;  // that their limits leave, where they have some; at least a page

    char gpu_driver[32]; // NVIDIA's, "580.65.06"
    bool gpu_usable;     // the driver's library libcuda.so.1 can be loaded
    int gpu_count;
    plb_gpu gpu[PLB_MACHINE_MAX_GPUS];
} plb_machine;

// Reads all of it. `root` is put before every path, "" for the machine itself; with another root
// no library is loaded, and affinity, kernel and architecture are still this process's.
PLB_API void plb_machine_read(const char *root, plb_machine *out);

// Threads to use where nobody said how many: as many as the affinity has CPUs, but no more than
// the quota's whole CPUs, and at least 1. Threads beyond the quota would only wait, at every
// barrier, for the one that was throttled.
PLB_API int plb_machine_threads(void);
PLB_API int plb_machine_threads_of(const plb_machine *machine);

#endif
