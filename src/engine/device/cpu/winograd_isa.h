// SPDX-License-Identifier: Apache-2.0
// The stages of a Winograd convolution that are compiled once an instruction set, and the layouts
// that they share. L is the lanes of a vector, R the tiles of a panel of the micro-kernel.
//
//   V  transformed input    [position][panel of R tiles][in_c / L][R][L]   one block of tiles
//   U  transformed weights  [panel of 2 L channels][position][in_c][2 L]   packed
//   M  products             [panel of 2 L channels][position][tile][2 L]   a block, a chunk
//
// The last panel of U and M has one vector instead of two where out_c asks for it. Positions are
// edge * edge; their strides are odd multiples of a cache line, so that no two share an L1 set.
#ifndef PLB_ENGINE_DEVICE_CPU_WINOGRAD_ISA_H
#define PLB_ENGINE_DEVICE_CPU_WINOGRAD_ISA_H

#include "engine/device/cpu/winograd.h"

// One tile block and a chunk of output channels.
typedef struct plb_winograd_job {
    const float *x, *packed, *bias, *residual; // bias and residual may be NULL
    float low, high;                           // bounds of the activation, infinite if none
    float *y;
    int64_t first;                  // tile
    int64_t count;                  // tiles
    int64_t panel_begin, panel_end; // output channels, in panels
    int64_t next_first, next_count; // tiles whose input is fetched meanwhile; count 0: none
    float *v, *m;
} plb_winograd_job;

typedef struct plb_winograd_kernels {
    int lanes, rows; // L and R
    // w[K,C,3,3] to U, input channels c_begin .. c_end of one panel.
    void (*pack)(const plb_winograd_plan *plan, const float *w, int64_t panel, int64_t c_begin,
                 int64_t c_end, float *packed);
    // x to V, channels c_begin .. c_end of the job's tiles.
    void (*input)(const plb_winograd_plan *plan, const plb_winograd_job *job, int64_t c_begin,
                  int64_t c_end);
    // M = V U for the job's panels; fetches what the job's output and the next input need.
    void (*multiply)(const plb_winograd_plan *plan, const plb_winograd_job *job);
    // M to y.
    void (*output)(const plb_winograd_plan *plan, const plb_winograd_job *job);
} plb_winograd_kernels;

extern const plb_winograd_kernels plb_winograd_kernels_avx2, plb_winograd_kernels_avx512;

const plb_winograd_kernels *plb_winograd_kernels_of(plb_winograd_isa isa);

#endif
