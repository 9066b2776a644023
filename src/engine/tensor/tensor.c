// SPDX-License-Identifier: Apache-2.0
// Shapes, layouts and views. Everything here is exact and slow where it may be; kernels walk
// memory on their own.
#include "plumb/tensor.h"

#include <stdio.h>
#include <string.h>

#include "base/core/status.h"

int64_t plb_shape_count(const plb_shape *shape) {
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++) count *= shape->dim[i];
    return count;
}

// Those that there are, whatever the rank says.
static int axes_of(const plb_shape *shape) {
    return shape->rank < 0 ? 0 : shape->rank > PLB_MAX_RANK ? PLB_MAX_RANK : shape->rank;
}

bool plb_shape_equal(const plb_shape *a, const plb_shape *b) {
    const size_t rank = (size_t)axes_of(a);
    return a->rank == b->rank && memcmp(a->dim, b->dim, rank * sizeof *a->dim) == 0;
}

static plb_status check_rank(const plb_shape *shape) {
    if (shape->rank == axes_of(shape)) return PLB_OK;
    return plb_fail(PLB_EINVAL, "rank: expected 0 to %d, found %d", PLB_MAX_RANK, shape->rank);
}

plb_status plb_shape_check(const plb_shape *shape) {
    PLB_TRY(check_rank(shape));
    int64_t count = 8; // bytes at the widest dtype; a zero extent does not excuse the others
    for (int i = 0; i < shape->rank; i++) {
        int64_t extent = shape->dim[i];
        if (extent < 0) {
            return plb_fail(PLB_EINVAL, "extent %d of a shape: expected 0 or more, found %lld", i,
                            (long long)extent);
        }
        if (__builtin_mul_overflow(count, extent ? extent : 1, &count) || count > INT64_MAX / 2) {
            char text[160];
            return plb_fail(PLB_EINVAL, "shape %s is too large",
                            plb_shape_format(shape, text, sizeof text));
        }
    }
    return PLB_OK;
}

plb_status plb_shape_broadcast(const plb_shape *a, const plb_shape *b, plb_shape *out) {
    PLB_TRY(check_rank(a));
    PLB_TRY(check_rank(b));
    const plb_shape *longer = a->rank >= b->rank ? a : b, *shorter = a->rank >= b->rank ? b : a;
    plb_shape result = *longer;
    int lead = longer->rank - shorter->rank;
    for (int i = 0; i < shorter->rank; i++) {
        int64_t x = longer->dim[lead + i], y = shorter->dim[i];
        if (x != y && x != 1 && y != 1) {
            char s[160], t[160];
            return plb_fail(PLB_EINVAL, "shapes %s and %s do not broadcast",
                            plb_shape_format(a, s, sizeof s), plb_shape_format(b, t, sizeof t));
        }
        result.dim[lead + i] = x == 1 ? y : x;
    }
    *out = result;
    return PLB_OK;
}

char *plb_shape_format(const plb_shape *shape, char *text, size_t size_bytes) {
    const int axes = axes_of(shape);
    size_t used = 0;
    for (int i = 0; i < axes && used < size_bytes; i++) {
        used += (size_t)snprintf(text + used, size_bytes - used, "%s%lld", i ? ", " : "[",
                                 (long long)shape->dim[i]);
    }
    const char *end = axes < shape->rank ? ", ...]" : axes ? "]" : "[]";
    if (used < size_bytes) snprintf(text + used, size_bytes - used, "%s", end);
    return text;
}

bool plb_layout_equal(plb_layout a, plb_layout b) {
    return a.kind == b.kind && a.block == b.block;
}

const char *plb_layout_name(plb_layout layout) {
    switch (layout.kind) {
    case PLB_LAYOUT_PLAIN: return "plain";
    case PLB_LAYOUT_NHWC: return "nhwc";
    case PLB_LAYOUT_BLOCKED: return layout.block == 8 ? "blocked8" : "blocked16";
    }
    return "unknown layout";
}

static int64_t blocks_of(int64_t channels, int block) {
    return (channels + block - 1) / block;
}

size_t plb_layout_bytes(const plb_shape *shape, plb_dtype dtype, plb_layout layout) {
    int64_t count = plb_shape_count(shape);
    if (layout.kind == PLB_LAYOUT_BLOCKED && shape->dim[1]) {
        count = count / shape->dim[1] * blocks_of(shape->dim[1], layout.block) * layout.block;
    }
    return (size_t)count * plb_dtype_size(dtype);
}

static void strides_plain(plb_tensor *t) {
    int64_t step = 1;
    for (int i = t->shape.rank - 1; i >= 0; i--) {
        t->stride[i] = step;
        step *= t->shape.dim[i];
    }
}

// Channels innermost (NHWC), or the channels of a block innermost (BLOCKED).
static void strides_channels_last(plb_tensor *t) {
    bool blocked = t->layout.kind == PLB_LAYOUT_BLOCKED;
    int64_t step = blocked ? t->layout.block : t->shape.dim[1];
    for (int i = t->shape.rank - 1; i >= 2; i--) {
        t->stride[i] = step;
        step *= t->shape.dim[i];
    }
    t->stride[1] = blocked ? step : 1;
    t->stride[0] = blocked ? step * blocks_of(t->shape.dim[1], t->layout.block) : step;
}

plb_tensor plb_tensor_dense(void *data, plb_dtype dtype, const plb_shape *shape,
                            plb_layout layout) {
    plb_tensor t = {.data = data, .dtype = dtype, .layout = layout, .shape = *shape};
    if (layout.kind == PLB_LAYOUT_PLAIN) {
        strides_plain(&t);
    } else {
        strides_channels_last(&t);
    }
    return t;
}

bool plb_tensor_is_dense(const plb_tensor *tensor) {
    plb_tensor dense = plb_tensor_dense(NULL, tensor->dtype, &tensor->shape, tensor->layout);
    for (int i = 0; i < tensor->shape.rank; i++) {
        bool steps = tensor->shape.dim[i] > 1; // the stride of a single element means nothing
        if (steps && tensor->stride[i] != dense.stride[i]) return false;
    }
    return true;
}

int64_t plb_tensor_offset(const plb_tensor *tensor, const int64_t *index) {
    int64_t offset = 0;
    for (int i = 0; i < tensor->shape.rank; i++) {
        if (i == 1 && tensor->layout.kind == PLB_LAYOUT_BLOCKED) {
            int64_t block = tensor->layout.block;
            offset += index[1] / block * tensor->stride[1] + index[1] % block;
        } else {
            offset += index[i] * tensor->stride[i];
        }
    }
    return offset;
}

int64_t plb_tensor_offset_linear(const plb_tensor *tensor, int64_t i) {
    int64_t index[PLB_MAX_RANK];
    for (int axis = tensor->shape.rank - 1; axis >= 0; axis--) {
        index[axis] = i % tensor->shape.dim[axis];
        i /= tensor->shape.dim[axis];
    }
    return plb_tensor_offset(tensor, index);
}

static void copy_element(plb_tensor *to, int64_t i, const plb_tensor *from, int64_t j) {
    if (plb_dtype_is_float(from->dtype) || from->dtype == PLB_U64) {
        plb_store_f64(to->data, to->dtype, i, plb_load_f64(from->data, from->dtype, j));
    } else {
        plb_store_i64(to->data, to->dtype, i, plb_load_i64(from->data, from->dtype, j));
    }
}

plb_status plb_tensor_copy(plb_tensor *to, const plb_tensor *from) {
    if (!plb_shape_equal(&to->shape, &from->shape)) {
        char s[160], t[160];
        return plb_fail(PLB_EINVAL, "copy of %s into %s: shapes differ",
                        plb_shape_format(&from->shape, s, sizeof s),
                        plb_shape_format(&to->shape, t, sizeof t));
    }
    size_t size = plb_layout_bytes(&to->shape, to->dtype, to->layout);
    bool same = to->dtype == from->dtype && plb_layout_equal(to->layout, from->layout);
    if (same && plb_tensor_is_dense(to) && plb_tensor_is_dense(from)) {
        if (size) memcpy(to->data, from->data, size);
        return PLB_OK;
    }
    if (to->layout.kind == PLB_LAYOUT_BLOCKED) memset(to->data, 0, size); // zeros as padding
    int64_t count = plb_shape_count(&to->shape);
    for (int64_t i = 0; i < count; i++) {
        copy_element(to, plb_tensor_offset_linear(to, i), from, plb_tensor_offset_linear(from, i));
    }
    return PLB_OK;
}
