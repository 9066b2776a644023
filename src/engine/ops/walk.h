// SPDX-License-Identifier: Apache-2.0
// What ops that only move elements share: walking over indices, strided views, axes. A reference
// of such an op is its index map; a map read backwards, with sums where elements meet, is the
// reference of its gradient.
#ifndef PLB_ENGINE_OPS_WALK_H
#define PLB_ENGINE_OPS_WALK_H

#include "engine/ops/op.h"

// Steps `index` to the next one in row-major order; all zeros after the last.
void plb_walk_next(const plb_shape *shape, int64_t *index);

// One element at offset j of `from` to offset i of `to`; one dtype, so it is exact.
void plb_walk_move(const plb_tensor *to, int64_t i, const plb_tensor *from, int64_t j);
// The same, added to what is there: one rounding to the dtype of `to` for each addition.
void plb_walk_add(const plb_tensor *to, int64_t i, const plb_tensor *from, int64_t j);
// Every element of `to` becomes `value`; the padding of a blocked layout becomes zero.
void plb_walk_fill(const plb_tensor *to, double value);

// Where element `to` of output 0 comes from in input 0; false: from nowhere.
typedef bool (*plb_walk_map)(const plb_call *call, const int64_t *to, int64_t *from);
// out[to] = in[map(to)]; elements from nowhere become `fill`.
plb_status plb_walk_gather(const plb_call *call, plb_walk_map map, double fill);
// The transposed map, for gradients: out = 0, then out[map(i)] += in[i] over all i of input 0.
plb_status plb_walk_scatter(const plb_call *call, plb_walk_map map);

// `in` as a plain tensor with strides, the start of a view. False where a blocked layout has no
// such strides.
bool plb_view_strided(const plb_tensor *in, plb_tensor *out);
// Moves the first element; data that is NULL (views asked for before memory is placed) stays so.
void plb_view_shift(plb_tensor *tensor, int64_t elements);

// For builders: an axis that may be negative, made one of 0…rank - 1; records the graph's failure
// and returns -1 when it is out of range.
int plb_axis_of(plb_graph *graph, const char *op, int64_t axis, int rank);
// For infer: attributes hold axes that a builder has made non-negative.
plb_status plb_axis_check(const char *op, int64_t axis, int rank);

// Appends "name":[1,2,3].
void plb_describe_list(plb_strbuf *text, const char *name, const int64_t *values, int n);
// `flops` of ops that compute nothing.
double plb_no_flops(const plb_signature *s);

#endif
