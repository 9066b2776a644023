// SPDX-License-Identifier: Apache-2.0
// Every measurement is the best of several, in cores as short ones as the clock allows, so that a
// neighbour who takes the processor for a while does not lower the roof. Threads begin each at
// once: one that runs while others have not begun may have a faster clock, or a core to itself.
#include "engine/device/cpu/roof.h"

#include <omp.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/status.h"
#include "base/machine.h"
#include "engine/device/cpu/cpu.h"

enum {
    MIB = 1 << 20,
    MAX_MEMORY_BUFFER = 1024 * MIB,
    DEFAULT_L2 = MIB / 2, // of machines that do not tell
    REPEATS = 40,
    CHAIN_STEPS = 20000,       // a tenth of a millisecond or two
    CACHE_COPY_BYTES = 2 * MIB // the same
};

static bool asked_to_stop(bool (*stop)(void)) {
    return stop && stop();
}

static double measure_flops(int threads) {
    const plb_isa isa = plb_cpu_isa();
    const plb_roof_loop *loop = isa == PLB_ISA_AVX512 ? &plb_roof_avx512
                                : isa == PLB_ISA_AVX2 ? &plb_roof_avx2
                                                      : &plb_roof_portable;
    double sum = 0;
    float sink = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum, sink)
    {
        int64_t best = INT64_MAX;
        for (int repeat = 0; repeat < REPEATS; repeat++) {
#pragma omp barrier
            int64_t begin = plb_now_ns();
            sink += loop->run(CHAIN_STEPS);
            int64_t ns = plb_now_ns() - begin;
            if (ns < best) best = ns;
        }
        sum += (double)CHAIN_STEPS * loop->flops_per_step / (double)best * 1e9;
    }
    return sink == 0 ? 0 : sum; // it is not: the chains run towards 1
}

static void copy_to_and_fro(char *mine, size_t half, int64_t times) {
    for (int64_t i = 0; i < times; i++) {
        memcpy(mine + (i % 2 ? 0 : half), mine + (i % 2 ? half : 0), half);
        __asm__ volatile("" ::: "memory"); // every copy counts
    }
}

// A part of the buffer for each thread: half of it is copied to the other half.
static plb_status buffer_new(size_t bytes, int threads, size_t *out_half, char **out) {
    size_t half = bytes / 2 / (size_t)threads / PLB_CACHE_LINE * PLB_CACHE_LINE;
    if (half < PLB_CACHE_LINE) half = PLB_CACHE_LINE;
    *out_half = half;
    *out = plb_alloc_slab(2 * half * (size_t)threads);
    if (!*out) return plb_fail(PLB_ENOMEM, "out of memory for %zu bytes to copy", bytes);
    char *buffer = *out;
#pragma omp parallel num_threads(threads)
    memset(buffer + (size_t)omp_get_thread_num() * 2 * half, 1, 2 * half);
    return PLB_OK;
}

// Each core has its own second-level cache, so that the threads' best rates add up.
static plb_status measure_cache(size_t bytes, int threads, double *out) {
    size_t half;
    char *buffer;
    PLB_TRY(buffer_new(bytes, threads, &half, &buffer));
    int64_t times = (int64_t)(CACHE_COPY_BYTES / half) + 1;
    double sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    {
        char *mine = buffer + (size_t)omp_get_thread_num() * 2 * half;
        int64_t best = INT64_MAX;
        for (int repeat = 0; repeat < REPEATS; repeat++) {
#pragma omp barrier
            int64_t begin = plb_now_ns();
            copy_to_and_fro(mine, half, times);
            int64_t ns = plb_now_ns() - begin;
            if (ns < best) best = ns;
        }
        sum += 2 * (double)half * (double)times / (double)best * 1e9;
    }
    *out = sum;
    plb_free(buffer);
    return PLB_OK;
}

// Memory is shared: here the time of all threads together counts.
static plb_status measure_memory(size_t bytes, int threads, double *out) {
    size_t half;
    char *buffer;
    PLB_TRY(buffer_new(bytes, threads, &half, &buffer));
    *out = 0;
    for (int repeat = 0; repeat < 4; repeat++) {
        int ran = 0; // the system may give fewer threads than asked for
        int64_t begin = plb_now_ns();
#pragma omp parallel num_threads(threads) reduction(+ : ran)
        {
            copy_to_and_fro(buffer + (size_t)omp_get_thread_num() * 2 * half, half, 1);
            ran += 1;
        }
        double rate = ran * 2.0 * (double)half / (double)(plb_now_ns() - begin) * 1e9;
        if (rate > *out) *out = rate;
    }
    plb_free(buffer);
    return PLB_OK;
}

// Four times the last caches, so that little of it is left there, within reason.
static size_t memory_buffer(const plb_machine *m) {
    const int64_t *total = m->cache_total_bytes;
    int64_t bytes = 4 * (total[2] ? total[2] : total[1]);
    if (bytes < 64 * MIB) bytes = 64 * MIB;
    if (bytes > MAX_MEMORY_BUFFER) bytes = MAX_MEMORY_BUFFER;
    int64_t quarter = m->memory_available_bytes / 4;
    if (m->memory_limit_bytes && m->memory_limit_bytes / 8 < quarter)
        quarter = m->memory_limit_bytes / 8;
    if (quarter > 0 && bytes > quarter) bytes = quarter;
    return (size_t)bytes;
}

plb_status plb_cpu_roof(int threads, bool (*stop)(void), plb_roof *out) {
    plb_machine machine;
    plb_machine_read("", &machine);
    // More than there are processors take turns: each is as fast as if it were alone, not all.
    if (machine.affinity_cpus > 0 && threads > machine.affinity_cpus) {
        threads = machine.affinity_cpus;
    }
    int64_t l2 = machine.cache_bytes[1] ? machine.cache_bytes[1] : DEFAULT_L2;
    int cores = machine.physical_cores > 0 && machine.physical_cores < threads
                    ? machine.physical_cores
                    : threads;
    *out = (plb_roof){.threads = threads,
                      .isa = plb_isa_name(plb_cpu_isa()),
                      .cache_bytes = (size_t)l2 * (size_t)cores,
                      .memory_buffer_bytes = memory_buffer(&machine)};
    out->flops_per_s = measure_flops(threads);
    if (asked_to_stop(stop)) return plb_fail(PLB_ECANCELLED, "interrupted");
    PLB_TRY(measure_cache(out->cache_bytes / 2, threads, &out->cache_bytes_per_s));
    if (asked_to_stop(stop)) return plb_fail(PLB_ECANCELLED, "interrupted");
    PLB_TRY(measure_memory(out->memory_buffer_bytes, threads, &out->memory_bytes_per_s));
    if (asked_to_stop(stop)) return plb_fail(PLB_ECANCELLED, "interrupted");
    return PLB_OK;
}

double plb_roof_seconds(const plb_roof *roof, double flops, double bytes, bool *in_cache) {
    bool fits = bytes <= (double)roof->cache_bytes;
    if (in_cache) *in_cache = fits;
    double arithmetic = flops / roof->flops_per_s;
    double traffic = bytes / (fits ? roof->cache_bytes_per_s : roof->memory_bytes_per_s);
    return arithmetic > traffic ? arithmetic : traffic;
}
