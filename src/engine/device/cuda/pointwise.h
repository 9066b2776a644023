// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels are written for the node at hand: its program becomes text that NVRTC
// compiles. Extents and strides are arguments, so that one text serves all sizes of a shape's form.
#ifndef PLB_ENGINE_DEVICE_CUDA_POINTWISE_H
#define PLB_ENGINE_DEVICE_CUDA_POINTWISE_H

#include "engine/device/cpu/nest.h"
#include "engine/ops/fused.h"

enum { PLB_POINTWISE_OPERANDS = PLB_FUSED_MAX_IN + PLB_FUSED_MAX_OUT };

// How an operand lies along the innermost axis.
typedef enum plb_pointwise_step {
    PLB_STEP_ONE,    // contiguous: read and written as vectors
    PLB_STEP_SAME,   // the same element all along
    PLB_STEP_STRIDE, // anything else
} plb_pointwise_step;

typedef struct plb_pointwise_form {
    plb_fused_attrs program;
    plb_dtype dtype[PLB_FUSED_MAX_VALUES];
    bool wide;     // reals are f64
    plb_nest nest; // operands: outputs, then inputs; rank at least 1
    int vector;    // elements that a thread takes at once
    bool large;    // indices need 64 bits
    plb_pointwise_step step[PLB_POINTWISE_OPERANDS];
} plb_pointwise_form;

// What the kernel is given: extents (the innermost in vectors), strides in elements, addresses.
typedef struct plb_pointwise_params {
    int64_t groups; // vectors in all
    int64_t dim[PLB_NEST_RANK];
    int64_t stride[PLB_POINTWISE_OPERANDS][PLB_NEST_RANK];
    void *data[PLB_POINTWISE_OPERANDS];
} plb_pointwise_params;

// pointwise_source.c. The form of a node; a reason why there is none, or NULL.
const char *plb_pointwise_form_of(const plb_query *q, plb_pointwise_form *out);
// Appends the kernel's text: functions "plb_pointwise" (vectors of form->vector) and
// "plb_pointwise_1" (elements one by one, for addresses that vectors do not fit), and
// "plb_pointwise_many" (the same for many nodes: params are a table in memory, one a row of
// blocks). `language` is the text of kernels/pointwise.cuh.
void plb_pointwise_source(const plb_pointwise_form *form, const char *language, plb_strbuf *text);

// pointwise_many.c: one launch for small nodes of one program and form; `params` of each, with
// addresses, for elements one by one.
plb_status plb_cuda_pointwise_many(plb_device *device, const char *source,
                                   const plb_pointwise_params *params, int n, plb_launch *out);
// cast_many.c: one launch for casts from one dtype to another, f32 and a 16-bit float.
plb_status plb_cuda_cast_many(plb_device *device, const plb_part *parts, int n, plb_launch *out);

#endif
