// SPDX-License-Identifier: Apache-2.0
// What cuDNN has to offer for one convolution with its epilogue: the candidates of all equivalent
// graphs, and their plans. A problem is known by what it computes; nodes that compute the same
// share it, for as long as the process lives. Plans that lost a race go when the next one begins.
#ifndef PLB_ENGINE_DEVICE_CUDA_CONV_PROBLEM_H
#define PLB_ENGINE_DEVICE_CUDA_CONV_PROBLEM_H

#include "engine/device/cuda/conv_form.h"

enum { PLB_CONV_MAX_CANDIDATES = 64 };

typedef struct plb_conv_problem plb_conv_problem;

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
