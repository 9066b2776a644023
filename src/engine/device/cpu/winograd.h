// SPDX-License-Identifier: Apache-2.0
// Winograd convolution F(m x m, 3x3) in f32 for x86 with AVX2 or AVX-512: kernel 3x3, stride 1,
// dilation 1, one group, padding 0 to 2 on all sides. It multiplies 2.25 (m = 2) to 4 (m = 4) and
// more times less than a direct convolution. Source: Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2015; interpolation points as in winograd_points.c.
//
//     forward          y[N,OH,OW,K]  from x[N,H,W,C]    OH = H + 2 pad - 2, OW alike
//     rotate (dgrad)   dx[N,H,W,C]   from dy[N,OH,OW,K]
//
// Activations are dense NHWC, weights w[K,C,3,3] in both directions. A plan holds numbers alone:
// it may be copied and needs no freeing; running it allocates nothing. A result has the same bits
// for every number of threads and every blocking of one variant and instruction set.
#ifndef PLB_ENGINE_DEVICE_CPU_WINOGRAD_H
#define PLB_ENGINE_DEVICE_CPU_WINOGRAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/device/cpu/winograd_points.h"
#include "plumb/status.h"

typedef enum plb_winograd_isa { PLB_WINOGRAD_AVX2, PLB_WINOGRAD_AVX512 } plb_winograd_isa;

// Extents of the forward convolution, also when `rotate` asks for its gradient by data.
typedef struct plb_winograd_shape {
    int64_t n, c, k, h, w;
    int pad;
    bool rotate;
} plb_winograd_shape;

// What a tuner may choose. The packed weights depend on the variant alone.
typedef struct plb_winograd_config {
    int m;             // outputs along a tile's edge: 2, 4 or 5
    int tile_block;    // tiles that are transformed and multiplied at a time
    int channel_block; // output channels between two output transforms
    bool shared;       // threads share transformed inputs and split the output channels;
                       // else each thread does all of a tile block
} plb_winograd_config;

typedef enum plb_winograd_activation {
    PLB_WINOGRAD_LINEAR,
    PLB_WINOGRAD_RELU,
    PLB_WINOGRAD_CLAMP,
} plb_winograd_activation;

// out = activation(convolution + bias + residual). NaN stays NaN.
typedef struct plb_winograd_epilogue {
    const float *bias;     // [output channels], or NULL
    const float *residual; // shape of the output, or NULL; may be the output itself
    plb_winograd_activation activation;
    float low, high; // of PLB_WINOGRAD_CLAMP
} plb_winograd_epilogue;

// Made by plb_winograd_plan_make. The fields from `edge` on are derived and serve the kernels,
// which know an input [n, in_h, in_w, in_c] and an output [n, out_h, out_w, out_c].
typedef struct plb_winograd_plan {
    plb_winograd_shape shape;
    plb_winograd_config config;
    plb_winograd_isa isa;
    int threads;

    int edge, pad; // m + 2; padding as the kernels see it
    int64_t in_h, in_w, in_c, out_h, out_w, out_c;
    int64_t tiles_h, tiles_w, tiles; // a column, a row, in all
    int64_t blocks, block_tiles;     // tile blocks, and the most tiles that one has
    int64_t group;                   // shared: blocks whose inputs are held at a time
    int64_t panels, chunk_panels;    // panels of two vectors of output channels: all, a chunk
    size_t v_stride, v_floats;       // transformed input: one position, one block
    size_t u_stride;                 // transformed weights: one panel and position
    size_t m_stride, m_floats;       // products: one position, all of a chunk
    plb_winograd_points points;
} plb_winograd_plan;

bool plb_winograd_present(plb_winograd_isa isa); // can this processor run it?
const char *plb_winograd_isa_name(plb_winograd_isa isa);

// Why this convolution cannot be done, or NULL if it can. Static.
const char *plb_winograd_refuse(const plb_winograd_shape *shape, plb_winograd_isa isa);

// Writes up to `max` configurations worth timing, the best guess first, and returns how many.
// The shape must not be refused.
int plb_winograd_candidates(const plb_winograd_shape *shape, plb_winograd_isa isa, int threads,
                            plb_winograd_config *out, int max);

// PLB_EUNSUPPORTED with the reason of plb_winograd_refuse; PLB_EINVAL for a bad configuration.
PLB_MUST_USE plb_status plb_winograd_plan_make(const plb_winograd_shape *shape,
                                               plb_winograd_isa isa,
                                               const plb_winograd_config *config, int threads,
                                               plb_winograd_plan *plan);

// Bytes of transformed weights and of scratch memory; both buffers must be aligned to a cache line
// and gain from huge pages. The scratch memory needs no initial contents.
size_t plb_winograd_packed_bytes(const plb_winograd_plan *plan);
size_t plb_winograd_workspace_bytes(const plb_winograd_plan *plan);

// Floating-point operations that a run executes, a multiply-add counted as two, as is every
// instruction of a transform. Packing is not in it.
double plb_winograd_flops(const plb_winograd_plan *plan);

// Transforms w[K,C,3,3] into `packed`, in parallel.
void plb_winograd_pack(const plb_winograd_plan *plan, const float *w, float *packed);

// `epilogue` may be NULL. x and y need no alignment beyond a float's and must not overlap.
void plb_winograd_run(const plb_winograd_plan *plan, const float *x, const float *packed,
                      const plb_winograd_epilogue *epilogue, float *y, void *workspace);

// "winograd f4 private tb=48 kc=64", and back; parsing fails with PLB_EINVAL.
enum { PLB_WINOGRAD_TEXT_BYTES = 80 };
char *plb_winograd_config_format(const plb_winograd_config *config,
                                 char text[PLB_WINOGRAD_TEXT_BYTES]);
PLB_MUST_USE plb_status plb_winograd_config_parse(const char *text, plb_winograd_config *config);

#endif
