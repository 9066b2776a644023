// SPDX-License-Identifier: Apache-2.0
// What cuDNN has to offer for one convolution with its epilogue: the candidates of all equivalent
// graphs, and their plans. A problem is known by what it computes; nodes that compute the same
// share it, for as long as the process lives. Plans that lost a race go when the next one begins.
//
// A form is one graph that computes the node:
//   'a'  y = act((conv + residual) + bias), bias in the values' own type
//   'b'  y = act((conv + bias) + residual), bias in f32
//   'c'  y = act((conv + residual) + bias), bias in f32
//   'u'  the bare convolution; the epilogue is a kernel of ours behind it
// Engines that were compiled ahead take some of them, those compiled at run time others, and which
// is fastest only time can tell.
#ifndef PLB_ENGINE_DEVICE_CUDA_CONV_PROBLEM_H
#define PLB_ENGINE_DEVICE_CUDA_CONV_PROBLEM_H

#include "engine/device/cuda/convolve.h"
#include "engine/device/cuda/cudnn.h"

enum { PLB_CONV_MAX_CANDIDATES = 64 };
// Names of operands in a plan.
enum { PLB_CONV_X = 1, PLB_CONV_W, PLB_CONV_Y, PLB_CONV_BIAS, PLB_CONV_RESIDUAL };

typedef struct plb_conv_spec {
    plb_op_id op;
    plb_dtype dtype;
    plb_layout_kind layout; // of x, w and y alike
    plb_conv_shape shape;
    bool bias, residual;
    plb_epilogue epilogue;
    bool tf32, deterministic, no_winograd;
} plb_conv_spec;

typedef struct plb_conv_problem plb_conv_problem;

PLB_MUST_USE plb_status plb_conv_spec_of(const plb_query *q, plb_conv_spec *out);
PLB_MUST_USE plb_status plb_conv_problem_of(plb_device *device, const plb_conv_spec *spec,
                                            plb_conv_problem **out);
// Begins to make the plans of all candidates, in the background: for as long as making may take of
// `tune_ms` for the whole program.
void plb_conv_announce(plb_conv_problem *problem, int64_t tune_ms);
// Drops what was announced and not begun, and waits for the rest: before the process ends.
void plb_conv_makers_end(void);
// Texts that name the candidates, best guess first; those whose plans are known to fail are left
// out. With time to tune the plans are made first, in parallel, and what other problems made and
// nobody uses goes; with 0 ms, only the first is sure to work.
int plb_conv_choices(plb_conv_problem *problem, int64_t tune_ms, char out[][PLB_CHOICE_BYTES],
                     int max);

// A candidate's plan in use.
typedef struct plb_conv_plan {
    plb_conv_problem *problem;
    int index;
    char form;
    const plb_cudnn_plan *plan; // borrowed
} plb_conv_plan;

// From memory, from the cache on disk, or made now. PLB_EUNSUPPORTED: no such candidate here.
PLB_MUST_USE plb_status plb_conv_plan_take(plb_conv_problem *problem, const char *choice,
                                           plb_conv_plan *out);
void plb_conv_plan_release(plb_conv_plan *plan);

#endif
