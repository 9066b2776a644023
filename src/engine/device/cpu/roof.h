// SPDX-License-Identifier: Apache-2.0
// What this processor can do at most: the roof that an op's rate is held against (Williams,
// Waterman, Patterson 2009). Measured on the spot, with the threads that will be used, because
// clocks, neighbours and quotas change what a data sheet says.
#ifndef PLB_ENGINE_DEVICE_CPU_ROOF_H
#define PLB_ENGINE_DEVICE_CPU_ROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"

typedef struct plb_roof {
    int threads;                // that ran: at most as many as there are processors for us
    const char *isa;            // the vectors that were used, "avx2"
    double flops_per_s;         // f32; a fused multiply-add is two
    double cache_bytes_per_s;   // read plus written, copying within the second-level caches
    double memory_bytes_per_s;  // the same, from and to main memory
    size_t cache_bytes;         // what the second-level caches of the threads hold
    size_t memory_buffer_bytes; // what was copied: source and target
} plb_roof;

// Takes well under a second. `stop` (may be NULL) is asked in between; true is PLB_ECANCELLED.
// PLB_ENOMEM without memory for the buffers.
PLB_API PLB_MUST_USE plb_status plb_cpu_roof(int threads, bool (*stop)(void), plb_roof *out);

// The shortest time in seconds for so much arithmetic on a working set of so many bytes, each moved
// once; `in_cache` (may be NULL) tells which bandwidth was taken.
PLB_API double plb_roof_seconds(const plb_roof *roof, double flops, double bytes, bool *in_cache);

// `steps` times 12 independent chains of multiply-adds on whole vectors. The result is for the
// compiler, which must believe that somebody wants it.
typedef struct plb_roof_loop {
    float (*run)(int64_t steps);
    int flops_per_step;
} plb_roof_loop;
extern const plb_roof_loop plb_roof_portable, plb_roof_avx2, plb_roof_avx512;

#endif
