// SPDX-License-Identifier: Apache-2.0
// What a value is made of: element type, extents, and how its elements lie in memory.
#ifndef PLUMB_TENSOR_H
#define PLUMB_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"

enum { PLB_MAX_RANK = 8 };

typedef enum plb_dtype {
    PLB_F64,
    PLB_F32,
    PLB_F16,
    PLB_BF16,
    PLB_I8,
    PLB_I16,
    PLB_I32,
    PLB_I64,
    PLB_U8,
    PLB_U16,
    PLB_U32,
    PLB_U64,
    PLB_BOOL, // one byte, 0 or 1
    // Reserved, so that files which name them can be refused by name: no op accepts them yet.
    PLB_C64,
    PLB_C128,
    PLB_F8_E4M3,
    PLB_F8_E5M2,
    PLB_I4,
    PLB_U4,
    PLB_DTYPE_COUNT,
} plb_dtype;

// "f32". Static.
PLB_API const char *plb_dtype_name(plb_dtype dtype);
// The dtype called `name`, or PLB_DTYPE_COUNT.
PLB_API plb_dtype plb_dtype_from_name(const char *name);
// Bytes of one element; 0 for the reserved types.
PLB_API size_t plb_dtype_size(plb_dtype dtype);
PLB_API bool plb_dtype_is_float(plb_dtype dtype);
PLB_API bool plb_dtype_is_signed(plb_dtype dtype); // floats and i8…i64
// Distance from 1 to the next number (2^-23 for f32); 0 for integers.
PLB_API double plb_dtype_epsilon(plb_dtype dtype);

// Extents, outermost first. Rank 0 is a scalar; an extent may be 0.
typedef struct plb_shape {
    int rank;
    int64_t dim[PLB_MAX_RANK];
} plb_shape;

// plb_shape_of(64, 3, 7, 7)
#define plb_shape_of(...)                                                           \
    ((plb_shape){.rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
                 .dim = {__VA_ARGS__}})
#define plb_scalar_shape ((plb_shape){0})

PLB_API int64_t plb_shape_count(const plb_shape *shape); // product of extents; 1 for a scalar
PLB_API bool plb_shape_equal(const plb_shape *a, const plb_shape *b);
// Refuses a bad rank, a negative extent, and a product past 2^62 bytes at any dtype.
PLB_API PLB_MUST_USE plb_status plb_shape_check(const plb_shape *shape);
// numpy's rules: aligned at the end, extents equal or 1.
PLB_API PLB_MUST_USE plb_status plb_shape_broadcast(const plb_shape *a, const plb_shape *b,
                                                    plb_shape *out);
// Writes "[64, 3, 7, 7]" into `text`; returns `text`.
PLB_API char *plb_shape_format(const plb_shape *shape, char *text, size_t size_bytes);

// The order of elements in memory. Extents keep the logical order [N, C, spatial…] in all of them.
typedef enum plb_layout_kind {
    PLB_LAYOUT_PLAIN,   // row-major in the logical order
    PLB_LAYOUT_NHWC,    // channels (axis 1) innermost; rank 3 to 5
    PLB_LAYOUT_BLOCKED, // [N, C/block, spatial…, block], the last block padded with zeros
} plb_layout_kind;

typedef struct plb_layout {
    plb_layout_kind kind;
    int block; // channels of a block, 8 or 16; 0 unless BLOCKED
} plb_layout;

PLB_API bool plb_layout_equal(plb_layout a, plb_layout b);
// "plain", "nhwc", "blocked16". Static.
PLB_API const char *plb_layout_name(plb_layout layout);
// Bytes that a dense value of this shape and layout takes, padding included.
PLB_API size_t plb_layout_bytes(const plb_shape *shape, plb_dtype dtype, plb_layout layout);

// A view of memory that somebody else owns. Strides count elements; for BLOCKED they are those of
// the first element of a block (stride[1] steps one whole block), and plb_tensor_offset knows the
// rest. A negative or zero stride (expand, flip) is legal for reading.
typedef struct plb_tensor {
    void *data;
    plb_dtype dtype;
    plb_layout layout;
    plb_shape shape;
    int64_t stride[PLB_MAX_RANK];
} plb_tensor;

// A dense view of `data` in `layout`.
PLB_API plb_tensor plb_tensor_dense(void *data, plb_dtype dtype, const plb_shape *shape,
                                    plb_layout layout);
PLB_API bool plb_tensor_is_dense(const plb_tensor *tensor); // no gaps, in its layout's order
// Offset in elements of the element with these indices.
PLB_API int64_t plb_tensor_offset(const plb_tensor *tensor, const int64_t *index);
// Offset of the i-th element in logical row-major order; slow, for references and tests.
PLB_API int64_t plb_tensor_offset_linear(const plb_tensor *tensor, int64_t i);

// One element as a double or an int64, converted: to floats round to nearest even; to integers
// truncate and saturate, NaN gives 0; to bool ask whether it is 0. u64 as int64: the same bits.
PLB_API double plb_load_f64(const void *data, plb_dtype dtype, int64_t offset);
PLB_API void plb_store_f64(void *data, plb_dtype dtype, int64_t offset, double value);
PLB_API int64_t plb_load_i64(const void *data, plb_dtype dtype, int64_t offset);
PLB_API void plb_store_i64(void *data, plb_dtype dtype, int64_t offset, int64_t value);

// Copies every element, converting dtype and layout; shapes must be equal.
PLB_API PLB_MUST_USE plb_status plb_tensor_copy(plb_tensor *to, const plb_tensor *from);

#endif
