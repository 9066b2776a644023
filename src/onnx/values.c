// SPDX-License-Identifier: Apache-2.0
// The encodings of a tensor: raw bytes, which are used where they lie; a list of numbers of some
// wider type, narrowed here; a place in another file; and sparse lists of positions.
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "onnx/dtype.h"
#include "onnx/file.h"

static plb_status shape_of(const int64_t *dims, size_t n, plb_shape *out) {
    if (n > PLB_MAX_RANK) {
        return plb_fail(PLB_EUNSUPPORTED, "%zu axes, more than %d", n, PLB_MAX_RANK);
    }
    *out = (plb_shape){.rank = (int)n};
    for (size_t i = 0; i < n; i++) out->dim[i] = dims[i];
    return plb_shape_check(out);
}

static plb_status expect_count(size_t found, int64_t expected) {
    if ((uint64_t)expected == found) return PLB_OK;
    return plb_fail(PLB_EINVAL, "expected %lld values, found %zu", (long long)expected, found);
}

// The field of numbers that holds values of `dtype`.
static plb_status typed_values(plb_arena *arena, const Onnx__TensorProto *t, plb_onnx_values *out) {
    int64_t count = plb_shape_count(&out->type.shape);
    plb_dtype dtype = out->type.dtype;
    const void *from = t->int32_data;
    size_t found = t->n_int32_data;
    if (dtype == PLB_F32) from = t->float_data, found = t->n_float_data;
    if (dtype == PLB_F64) from = t->double_data, found = t->n_double_data;
    if (dtype == PLB_I64) from = t->int64_data, found = t->n_int64_data;
    if (dtype == PLB_U64 || dtype == PLB_U32) from = t->uint64_data, found = t->n_uint64_data;
    PLB_TRY(expect_count(found, count));
    size_t size = plb_dtype_size(dtype), step = dtype == PLB_F32 ? 4 : 8;
    if (from == t->int32_data) step = 4;
    out->bytes = from;
    if (step == size || count == 0) return PLB_OK;
    char *narrow = plb_arena_alloc(arena, (size_t)count * size);
    if (!narrow) return plb_fail(PLB_ENOMEM, "out of memory for a tensor");
    for (size_t i = 0; i < found; i++) { // the low bytes, as numbers are little-endian
        memcpy(narrow + i * size, (const char *)from + i * step, size);
    }
    out->bytes = narrow;
    return PLB_OK;
}

static const char *entry(const Onnx__TensorProto *t, const char *key) {
    for (size_t i = 0; i < t->n_external_data; i++) {
        const Onnx__StringStringEntryProto *e = t->external_data[i];
        if (strcmp(plb_onnx_string(e->key), key) == 0) return plb_onnx_string(e->value);
    }
    return NULL;
}

static plb_status number_of(const Onnx__TensorProto *t, const char *key, uint64_t missing,
                            uint64_t *out) {
    const char *text = entry(t, key);
    *out = missing;
    if (!text) return PLB_OK;
    char *end;
    *out = strtoull(text, &end, 10);
    if (end != text && !*end && *text != '-') return PLB_OK;
    return plb_fail(PLB_EINVAL, "external data: expected a number of bytes as %s, found '%s'", key,
                    text);
}

static plb_status external_values(plb_onnx *file, const Onnx__TensorProto *t,
                                  plb_onnx_values *out) {
    const char *location = entry(t, "location");
    uint64_t offset, size;
    if (!location) return plb_fail(PLB_EINVAL, "external data without a location");
    PLB_TRY(number_of(t, "offset", 0, &offset));
    PLB_TRY(number_of(t, "length", out->size_bytes, &size));
    if (size != out->size_bytes) {
        return plb_fail(PLB_EINVAL, "external data %s: expected %zu bytes, found a length of %llu",
                        location, out->size_bytes, (unsigned long long)size);
    }
    return plb_onnx_external_data(file, location, offset, out->size_bytes, &out->bytes);
}

static plb_status check_bools(const plb_onnx_values *v) {
    if (v->type.dtype != PLB_BOOL) return PLB_OK;
    for (size_t i = 0; i < v->size_bytes; i++) {
        uint8_t byte = ((const uint8_t *)v->bytes)[i];
        if (byte > 1) return plb_fail(PLB_EINVAL, "expected booleans, found the byte %d", byte);
    }
    return PLB_OK;
}

static plb_status values_of(plb_onnx *file, plb_arena *arena, const Onnx__TensorProto *t,
                            plb_onnx_values *out) {
    *out = (plb_onnx_values){0};
    PLB_TRY(plb_onnx_dtype(t->data_type, &out->type.dtype));
    PLB_TRY(shape_of(t->dims, t->n_dims, &out->type.shape));
    if (t->segment) return plb_fail(PLB_EUNSUPPORTED, "a tensor in segments");
    out->size_bytes = plb_layout_bytes(&out->type.shape, out->type.dtype, (plb_layout){0});
    if (t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) {
        PLB_TRY(external_values(file, t, out));
    } else if (t->has_raw_data) {
        if (t->raw_data.len != out->size_bytes) {
            return plb_fail(PLB_EINVAL, "expected %zu bytes of values, found %zu", out->size_bytes,
                            t->raw_data.len);
        }
        out->bytes = t->raw_data.data;
    } else {
        PLB_TRY(typed_values(arena, t, out));
    }
    return check_bools(out);
}

plb_status plb_onnx_values_of(plb_onnx *file, plb_arena *arena, const Onnx__TensorProto *tensor,
                              plb_onnx_values *out) {
    plb_status status = values_of(file, arena, tensor, out);
    if (!status) return PLB_OK;
    return plb_fail_context(status, "tensor %s", plb_onnx_string(tensor->name));
}

// ---------------------------------------------------------------------------- sparse
static plb_status position(const plb_onnx_values *index, const plb_shape *shape, int64_t i,
                           int64_t *out) {
    bool linear = index->type.shape.rank == 1;
    int64_t count = plb_shape_count(shape), at = 0, n = linear ? 1 : shape->rank;
    for (int64_t axis = 0; axis < n; axis++) {
        int64_t value;
        memcpy(&value, (const char *)index->bytes + (i * n + axis) * 8, 8);
        int64_t extent = linear ? count : shape->dim[axis];
        if (value < 0 || value >= extent) {
            return plb_fail(PLB_EINVAL, "sparse position %lld is not in [0, %lld)",
                            (long long)value, (long long)extent);
        }
        at = at * extent + value;
    }
    *out = at;
    return PLB_OK;
}

plb_status plb_onnx_values_of_sparse(plb_onnx *file, plb_arena *arena,
                                     const Onnx__SparseTensorProto *sparse, plb_onnx_values *out) {
    plb_onnx_values values, index;
    if (!sparse->values || !sparse->indices) return plb_fail(PLB_EINVAL, "empty sparse tensor");
    PLB_TRY(plb_onnx_values_of(file, arena, sparse->values, &values));
    PLB_TRY(plb_onnx_values_of(file, arena, sparse->indices, &index));
    *out = (plb_onnx_values){.type.dtype = values.type.dtype};
    PLB_TRY(shape_of(sparse->dims, sparse->n_dims, &out->type.shape));
    out->size_bytes = plb_layout_bytes(&out->type.shape, values.type.dtype, (plb_layout){0});
    int64_t n = plb_shape_count(&values.type.shape);
    int64_t width = index.type.shape.rank == 1 ? 1 : out->type.shape.rank;
    if (index.type.dtype != PLB_I64 || index.type.shape.rank > 2 ||
        plb_shape_count(&index.type.shape) != n * width) {
        return plb_fail(PLB_EINVAL, "expected %lld positions of a sparse tensor", (long long)n);
    }
    if (out->size_bytes > (size_t)1 << 32) {
        return plb_fail(PLB_EUNSUPPORTED, "a sparse tensor of %zu bytes", out->size_bytes);
    }
    char *dense = plb_arena_alloc(arena, out->size_bytes);
    if (!dense) return plb_fail(PLB_ENOMEM, "out of memory for a sparse tensor");
    size_t size = plb_dtype_size(values.type.dtype);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;
        PLB_TRY(position(&index, &out->type.shape, i, &at));
        memcpy(dense + (size_t)at * size, (const char *)values.bytes + (size_t)i * size, size);
    }
    out->bytes = dense;
    return PLB_OK;
}
