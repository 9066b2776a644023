// SPDX-License-Identifier: Apache-2.0
// For kernels over lines of f32 along one axis (softmax, class losses, arg_max): brings a group of
// lines into contiguous rows and back, whatever the axis' stride is.
#ifndef PLB_ENGINE_DEVICE_CPU_LINES_H
#define PLB_ENGINE_DEVICE_CPU_LINES_H

#include "engine/device/cpu/nest.h"

enum { PLB_LINES_ELEMENTS = 2048 }; // of a group, unless one line is longer

// All lines of operands of one shape along `axis`; a scalar is one line of one element.
typedef struct plb_line_set {
    plb_nest nest;                     // the other axes; operands as added
    int64_t extent;                    // of the axis
    int64_t stride[PLB_NEST_OPERANDS]; // of the axis
    int64_t count;                     // lines
    int64_t group;                     // lines that are treated together
    bool rows;                         // every operand's lines are dense, one behind the other
} plb_line_set;

// `operands` have one shape, no blocked layouts.
plb_line_set plb_line_set_of(const plb_tensor *const *operands, int n, int64_t axis);
// Lines [first, first + n) of operand k with these data as rows: where they are, or in `rows`.
const float *plb_lines_get(const plb_line_set *set, int k, const float *data, int64_t first,
                           int64_t n, float *rows);
// Where to put rows for operand k: in place, or `rows`, which plb_lines_put then takes home.
float *plb_lines_place(const plb_line_set *set, float *data, int64_t first, float *rows);
void plb_lines_put(const plb_line_set *set, int k, float *data, int64_t first, int64_t n,
                   const float *rows);
// Bytes of one group's rows.
size_t plb_lines_bytes(const plb_line_set *set);

#endif
