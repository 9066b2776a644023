// SPDX-License-Identifier: Apache-2.0
// What the definitions of ops on x[N,C,spatial…] share: loads and stores at an index, stepping
// through an index space, checks of types, and attributes as text. Spatial axes are always three
// here, depth, height, width; those that a value lacks have extent 1 and come first.
#ifndef PLB_ENGINE_OPS_SPATIAL_H
#define PLB_ENGINE_OPS_SPATIAL_H

#include <math.h>

#include "engine/ops/op.h"
#include "plumb/ops.h"

// Offset of x[n, c, at…]; only the last rank - 2 numbers of `at` count.
static inline int64_t plb_spatial_offset(const plb_tensor *x, int64_t n, int64_t c,
                                         const int64_t at[PLB_MAX_SPATIAL]) {
    int64_t index[2 + PLB_MAX_SPATIAL] = {n, c};
    int axes = x->shape.rank - 2;
    for (int i = 0; i < axes; i++) index[2 + i] = at[PLB_MAX_SPATIAL - axes + i];
    return plb_tensor_offset(x, index);
}

static inline double plb_spatial_load(const plb_tensor *x, int64_t n, int64_t c,
                                      const int64_t at[PLB_MAX_SPATIAL]) {
    return plb_load_f64(x->data, x->dtype, plb_spatial_offset(x, n, c, at));
}

static inline void plb_spatial_store(const plb_tensor *x, int64_t n, int64_t c,
                                     const int64_t at[PLB_MAX_SPATIAL], double value) {
    plb_store_f64(x->data, x->dtype, plb_spatial_offset(x, n, c, at), value);
}

static inline double plb_tensor_load(const plb_tensor *x, const int64_t *index) {
    return plb_load_f64(x->data, x->dtype, plb_tensor_offset(x, index));
}

static inline void plb_tensor_store(const plb_tensor *x, const int64_t *index, double value) {
    plb_store_f64(x->data, x->dtype, plb_tensor_offset(x, index), value);
}

// The next index in row-major order; false (and all zeros) after the last.
static inline bool plb_index_next(int64_t *index, const int64_t *extent, int rank) {
    for (int i = rank - 1; i >= 0; i--) {
        if (++index[i] < extent[i]) return true;
        index[i] = 0;
    }
    return false;
}

// Spatial extents of x[N,C,…], missing ones 1.
static inline void plb_spatial_extents(const plb_shape *x, int64_t out[PLB_MAX_SPATIAL]) {
    int axes = x->rank - 2;
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        int axis = i - (PLB_MAX_SPATIAL - axes);
        out[i] = axis < 0 ? 1 : x->dim[2 + axis];
    }
}

// y = act(value) of an epilogue; NaN stays NaN.
static inline double plb_activate(const plb_epilogue *epilogue, double value) {
    switch (epilogue->activation) {
    case PLB_ACT_NONE: return value;
    case PLB_ACT_RELU: return value < 0 ? 0 : value;
    case PLB_ACT_CLAMP:
        return value < epilogue->alpha  ? epilogue->alpha
               : value > epilogue->beta ? epilogue->beta
                                        : value;
    case PLB_ACT_SILU: return value / (1 + exp(-value));
    }
    return value;
}

// d act(u) / du, of the kinks 0: what ReLU and clamp have at their ends.
static inline double plb_activate_slope(const plb_epilogue *epilogue, double u) {
    const double s = 1 / (1 + exp(-u));
    switch (epilogue->activation) {
    case PLB_ACT_NONE: return 1;
    case PLB_ACT_RELU: return u > 0;
    case PLB_ACT_CLAMP: return u > epilogue->alpha && u < epilogue->beta;
    case PLB_ACT_SILU: return s * (1 + u * (1 - s));
    }
    return 1;
}

// Refuses inputs `first` to `last` unless those present are floats of one dtype.
PLB_MUST_USE plb_status plb_expect_floats(const plb_signature *s, const char *op, int first,
                                          int last);
// Refuses a type whose shape is not `shape`. `what` names the input.
PLB_MUST_USE plb_status plb_expect_shape(const plb_type *type, const plb_shape *shape,
                                         const char *op, const char *what);
// Refuses x unless it is [N,C,…] with one to three spatial axes.
PLB_MUST_USE plb_status plb_expect_spatial(const plb_type *x, const char *op);
// Refuses an activation that does not exist.
PLB_MUST_USE plb_status plb_expect_epilogue(const plb_epilogue *epilogue, const char *op);

// Statistics of low-precision values are kept in f32.
static inline plb_dtype plb_statistics_dtype(plb_dtype dtype) {
    return dtype == PLB_F64 ? PLB_F64 : PLB_F32;
}

// Attributes as JSON members: "name":[1,2]. Members of a
// JSON object follow one another with a comma, which plb_describe_comma appends where needed.
void plb_describe_comma(plb_strbuf *text);
void plb_describe_axes(plb_strbuf *text, const char *name, const int64_t *values, int n);
void plb_describe_number(plb_strbuf *text, const char *name, double value);
void plb_describe_epilogue(plb_strbuf *text, const plb_epilogue *epilogue);

// For grad functions: x as `dtype` (x itself when it is so), and v[C] as [C,1,…] to broadcast
// along axis 1 of a value of rank `rank`.
plb_value plb_as_dtype(plb_graph *graph, plb_value x, plb_dtype dtype);
plb_value plb_along_channels(plb_graph *graph, plb_value v, int rank);
// Bit set of all axes of rank `rank` but axis 1.
static inline int64_t plb_axes_but_channels(int rank) {
    return ((INT64_C(1) << rank) - 1) & ~INT64_C(2);
}

#endif
