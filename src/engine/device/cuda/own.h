// SPDX-License-Identifier: Apache-2.0
// The frame of own kernels. `prepare` settles functions, grids and numbers; all that `run` does is
// to fill in the pointers and to launch, so that it costs next to nothing and can be captured.
//
// Legal order in prepare: plb_own_begin, then plb_own_add for each launch, in order.
#ifndef PLB_ENGINE_DEVICE_CUDA_OWN_H
#define PLB_ENGINE_DEVICE_CUDA_OWN_H

#include "engine/device/cuda/cuda.h"
#include "engine/device/cuda/kernels/own.h"

enum { PLB_OWN_STEPS = 6, PLB_OWN_PARAMS = 1536 };

typedef struct plb_own_step {
    CUfunction function;
    plb_cuda_grid grid;
    bool early; // may be launched before the kernel in front of it has ended
} plb_own_step;

typedef struct plb_own_list {
    int n;
    plb_own_step step[PLB_OWN_STEPS];
} plb_own_list;

typedef struct plb_own {
    plb_device *device;
    plb_fault_box *fault;
    // Launches for operands that begin at any element, and those for operands that all begin at a
    // multiple of 16 bytes; where there are none of these, the others serve.
    plb_own_list any, aligned;
    union {
        unsigned char bytes[PLB_OWN_PARAMS];
        double align;
    } params;
} plb_own;

// A launch without steps, and its state, which the launch owns. `choice` must be "". Copies
// `params`. Sets run, release, and bytes from the sizes of all operands.
PLB_MUST_USE plb_status plb_own_begin(const plb_query *q, const char *choice, const void *params,
                                      size_t size_bytes, plb_launch *out, plb_own **own);
// Appends a launch of the function `plb_<name>_<dtype>` (without dtype where it is
// PLB_DTYPE_COUNT). plb_own_end releases the launch after a failure.
PLB_MUST_USE plb_status plb_own_add(plb_own *own, plb_own_list *list, const char *name,
                                    plb_dtype dtype, plb_cuda_grid grid);
// How many blocks of a function (its name as in plb_own_add) the device holds at once: a grid of so
// many that strides over its work has no last, half-empty wave.
PLB_MUST_USE plb_status plb_own_resident(const plb_own *own, const char *name, plb_dtype dtype,
                                         int threads, int64_t *out_blocks);
// For kernels with parameters of their own that begin as own ones do: a step, and its launch.
PLB_MUST_USE plb_status plb_own_step_of(const plb_device *device, CUfunction function,
                                        plb_cuda_grid grid, plb_own_step *out);
PLB_MUST_USE plb_status plb_own_launch(const plb_own_step *step, plb_stream *stream, void **params);
// Ends a prepare: releases the launch where `status` is a failure, and returns `status`.
PLB_MUST_USE plb_status plb_own_end(plb_launch *launch, plb_status status);

// Why an own kernel cannot take the operands whatever it does: blocked layouts, over 2^31
// elements; NULL: it can.
const char *plb_own_refuse(const plb_query *q);
bool plb_own_absent(const plb_tensor *t);
bool plb_own_is_plain(const plb_tensor *t); // plain and dense
plb_act plb_own_act(int activation, double alpha, double beta);

// The strides of x[N,C,…] with all spatial axes as one; false: they have gaps.
typedef struct plb_own_planes {
    int64_t n, c, s; // extents
    int64_t stride[3];
} plb_own_planes;
bool plb_own_planes_of(const plb_tensor *t, plb_own_planes *out);
// Whether t is rows of all channels, one after the other.
bool plb_own_channels_last(const plb_tensor *t);

#endif
