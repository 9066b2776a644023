// SPDX-License-Identifier: Apache-2.0
// What the pointwise ops mean, one element at a time. `ref` of all of them and of `fused` comes
// from here; kernels are tested against it.
//
// Floats are computed in f64 and rounded once, when stored. Integers are exact and wrap around
// like two's complement of their own width; a division by zero gives 0, and the least integer
// divided by -1 itself. Bool is 0 or 1.
#ifndef PLB_ENGINE_OPS_POINTWISE_H
#define PLB_ENGINE_OPS_POINTWISE_H

#include "engine/ops/op.h"
#include "plumb/ops.h"

enum { PLB_POINTWISE_MAX_IN = 3 };

// Klambauer et al.: "Self-normalizing neural networks", 2017.
#define PLB_SELU_ALPHA 1.6732632423543772848170429916717
#define PLB_SELU_SCALE 1.0507009873554804934193349852946

// Attributes of cast.
typedef struct plb_cast_attrs {
    int64_t dtype; // plb_dtype of the result
} plb_cast_attrs;

// An element: `f` of a float dtype, `i` of an integer or bool (of u64: the same bits).
typedef union plb_number {
    double f;
    int64_t i;
} plb_number;

// Number of operands; 0 for an op that is not pointwise.
PLB_API int plb_pointwise_arity(plb_op_id op);

// The result's dtype for operands of these dtypes. `target`: of a cast. PLB_EINVAL names the op
// and the dtypes. `alpha` and `beta` must be whole numbers for affine of integers.
PLB_API PLB_MUST_USE plb_status plb_pointwise_dtype(plb_op_id op, const plb_dtype *in, double alpha,
                                                    double beta, plb_dtype target, plb_dtype *out);

// The op on floats; comparisons give 0 or 1. Not for cast and where.
PLB_API double plb_pointwise_f64(plb_op_id op, const double in[3], double alpha, double beta);
// The op on integers or bools of `dtype`, wrapped to it; comparisons give 0 or 1.
PLB_API int64_t plb_pointwise_i64(plb_op_id op, const int64_t in[3], double alpha, double beta,
                                  plb_dtype dtype);
// Any pointwise op, cast and where included. `in_dtype[k]` as plb_pointwise_dtype accepted them.
PLB_API plb_number plb_pointwise_number(plb_op_id op, const plb_number *in,
                                        const plb_dtype *in_dtype, double alpha, double beta,
                                        plb_dtype out_dtype);

PLB_API plb_number plb_number_load(const void *data, plb_dtype dtype, int64_t offset);
PLB_API void plb_number_store(void *data, plb_dtype dtype, int64_t offset, plb_number value);
// C's conversion between integers (wraps); floats to integers truncate and saturate, NaN gives 0;
// anything but 0 gives true.
PLB_API plb_number plb_number_cast(plb_number value, plb_dtype from, plb_dtype to);
// `value` modulo 2^bits of an integer dtype; of bool: value != 0.
PLB_API int64_t plb_wrap_i64(int64_t value, plb_dtype dtype);

// Index of the i-th element in row-major order.
PLB_API void plb_index_of(const plb_shape *shape, int64_t i, int64_t *index);
// Offset in `t` of the element that broadcasting to `shape` shows at `index`.
PLB_API int64_t plb_offset_broadcast(const plb_tensor *t, const plb_shape *shape,
                                     const int64_t *index);

// The parts of a pointwise op's table.
PLB_API PLB_MUST_USE plb_status plb_pointwise_infer(plb_op_id op, plb_signature *s);
PLB_API PLB_MUST_USE plb_status plb_pointwise_ref(plb_op_id op, const plb_call *call);
PLB_API void plb_pointwise_describe(const void *attrs, plb_strbuf *text);

// Appends `"name":value`, after a comma where text has members already; infinities and NaN as
// Python's json module writes them.
PLB_API void plb_describe_f64(plb_strbuf *text, const char *name, double value);
PLB_API void plb_describe_i64(plb_strbuf *text, const char *name, int64_t value);

#endif
