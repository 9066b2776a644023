// SPDX-License-Identifier: Apache-2.0
// How threads walk through a Winograd convolution. Which thread does a block is left to chance:
// the arithmetic of an output does not depend on it.
#include "engine/device/cpu/winograd.h"

#include <math.h>
#include <omp.h>

#include "engine/device/cpu/winograd_isa.h"

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

void plb_winograd_pack(const plb_winograd_plan *plan, const float *w, float *packed) {
    enum { PART = 32 }; // input channels
    const plb_winograd_kernels *isa = plb_winograd_kernels_of(plan->isa);
    int64_t parts = (plan->in_c + PART - 1) / PART;
#pragma omp parallel for num_threads(plan->threads) schedule(static)
    for (int64_t i = 0; i < plan->panels * parts; i++) {
        int64_t c = i % parts * PART;
        isa->pack(plan, w, i / parts, c, min64(c + PART, plan->in_c), packed);
    }
}

static plb_winograd_job job_of(const float *x, const float *packed,
                               const plb_winograd_epilogue *end, float *y) {
    plb_winograd_job job = {.x = x, .packed = packed, .low = -INFINITY, .high = INFINITY, .y = y};
    if (!end) return job;
    job.bias = end->bias, job.residual = end->residual;
    if (end->activation == PLB_WINOGRAD_RELU) job.low = 0;
    if (end->activation == PLB_WINOGRAD_CLAMP) job.low = end->low, job.high = end->high;
    return job;
}

static void set_block(const plb_winograd_plan *plan, int64_t block, plb_winograd_job *job) {
    job->first = plan->tiles * block / plan->blocks;
    job->count = plan->tiles * (block + 1) / plan->blocks - job->first;
}

// The block that this thread probably does next, so that its input is fetched in time.
static void set_next(const plb_winograd_plan *plan, int64_t block, plb_winograd_job *job) {
    job->next_count = 0;
    if (block >= plan->blocks) return;
    job->next_first = plan->tiles * block / plan->blocks;
    job->next_count = plan->tiles * (block + 1) / plan->blocks - job->next_first;
}

static void do_chunk(const plb_winograd_plan *plan, const plb_winograd_kernels *isa, int64_t chunk,
                     plb_winograd_job *job) {
    job->panel_begin = chunk * plan->chunk_panels;
    job->panel_end = min64(job->panel_begin + plan->chunk_panels, plan->panels);
    isa->multiply(plan, job);
    isa->output(plan, job);
}

// Each thread owns the blocks it does: U is read once a block, V stays in the thread's cache.
static void run_private(const plb_winograd_plan *plan, const plb_winograd_kernels *isa,
                        const plb_winograd_job *common, float *v, float *m) {
    const int64_t chunks = (plan->panels + plan->chunk_panels - 1) / plan->chunk_panels;
#pragma omp parallel num_threads(plan->threads)
    {
        plb_winograd_job job = *common;
        job.v = v + plan->v_floats * (size_t)omp_get_thread_num();
        job.m = m + plan->m_floats * (size_t)omp_get_thread_num();
#pragma omp for schedule(dynamic)
        for (int64_t block = 0; block < plan->blocks; block++) {
            set_block(plan, block, &job);
            set_next(plan, block + omp_get_num_threads(), &job);
            isa->input(plan, &job, 0, plan->in_c);
            for (int64_t chunk = 0; chunk < chunks; chunk++) do_chunk(plan, isa, chunk, &job);
        }
    }
}

// The threads share the V of a group of blocks and split the output channels: U is read about
// once. For many channels and few tiles.
static void run_shared(const plb_winograd_plan *plan, const plb_winograd_kernels *isa,
                       const plb_winograd_job *common, float *v, float *m) {
    enum { PART = 64 }; // channels of an input transform
    const int64_t chunks = (plan->panels + plan->chunk_panels - 1) / plan->chunk_panels;
    const int64_t parts = (plan->in_c + PART - 1) / PART;
#pragma omp parallel num_threads(plan->threads)
    {
        plb_winograd_job job = *common;
        job.m = m + plan->m_floats * (size_t)omp_get_thread_num();
        for (int64_t first = 0; first < plan->blocks; first += plan->group) {
            const int64_t group = min64(plan->group, plan->blocks - first);
#pragma omp for schedule(dynamic)
            for (int64_t i = 0; i < group * parts; i++) {
                int64_t c = i % parts * PART;
                set_block(plan, first + i / parts, &job);
                job.v = v + plan->v_floats * (size_t)(i / parts);
                isa->input(plan, &job, c, min64(c + PART, plan->in_c));
            }
#pragma omp for schedule(dynamic)
            for (int64_t i = 0; i < group * chunks; i++) {
                set_block(plan, first + i % group, &job);
                job.v = v + plan->v_floats * (size_t)(i % group);
                do_chunk(plan, isa, i / group, &job);
            }
        }
    }
}

void plb_winograd_run(const plb_winograd_plan *plan, const float *x, const float *packed,
                      const plb_winograd_epilogue *epilogue, float *y, void *workspace) {
    const plb_winograd_kernels *isa = plb_winograd_kernels_of(plan->isa);
    const plb_winograd_job job = job_of(x, packed, epilogue, y);
    const size_t inputs = (size_t)(plan->config.shared ? plan->group : plan->threads);
    float *v = workspace, *m = v + inputs * plan->v_floats;
    if (plan->config.shared) {
        run_shared(plan, isa, &job, v, m);
    } else {
        run_private(plan, isa, &job, v, m);
    }
}
