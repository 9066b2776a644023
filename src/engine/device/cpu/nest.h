// SPDX-License-Identifier: Apache-2.0
// Loop nests over strided operands: the axes of a shape in the order in which operand 0 lies in
// memory, as few as describe it. Layouts are gone here: channels-last is an order of strides.
#ifndef PLB_ENGINE_DEVICE_CPU_NEST_H
#define PLB_ENGINE_DEVICE_CPU_NEST_H

#include "engine/device/device.h"

enum { PLB_NEST_OPERANDS = 12, PLB_NEST_RANK = PLB_MAX_RANK + 1 };

typedef struct plb_nest {
    int rank, n;                // axes, outermost first; operands
    int64_t dim[PLB_NEST_RANK]; // extents
    int64_t stride[PLB_NEST_OPERANDS][PLB_NEST_RANK];
} plb_nest;

// A nest over `shape` without operands.
plb_nest plb_nest_of(const plb_shape *shape);
// Adds an operand, broadcast to the nest's shape. Not of a blocked layout.
void plb_nest_add(plb_nest *nest, const plb_tensor *tensor);
// Drops axes of extent 1, orders the others by the strides of operand 0, then operand 1 and so
// on, and joins neighbours that all operands step through alike. The rank stays at least `least`:
// axes of extent 1 are put in front.
void plb_nest_simplify(plb_nest *nest, int least);
int64_t plb_nest_count(const plb_nest *nest); // product of extents
// Offset of operand k for the i-th combination of the outer axes [0, axes), in row-major order.
int64_t plb_nest_offset(const plb_nest *nest, int k, int axes, int64_t i);

// Threads worth having for so many elements: never more than `threads`, and one for work that takes
// less time than to wake another. A kernel deals its work to that many of the plan's team, and runs
// alone if that is one: `#pragma omp parallel for schedule(static, 1) if (n > 1)`. It asks for no
// team of that size (num_threads): GCC's runtime ends the threads that a smaller team leaves out
// and starts others for the next larger one, 17 to 33 us each (two cores, teams of 8, 4 and 2).
int plb_worth_threads(int64_t elements, int threads);
// The part of [0, count) that belongs to one of `of` threads.
typedef struct plb_span {
    int64_t begin, end;
} plb_span;
plb_span plb_span_of(int64_t count, int part, int of);

#endif
