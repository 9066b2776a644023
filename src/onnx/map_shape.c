// SPDX-License-Identifier: Apache-2.0
// Ops that make, rearrange and cut values. Extents are numbers here, so that Shape and Size are
// constants, and whatever shapes are computed from them is known.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "onnx/build.h"
#include "onnx/dtype.h"
#include "onnx/map.h"

enum { MAX_RANGE = 1000000000 }; // elements

plb_value plb_onnx_i64(plb_graph *graph, const int64_t *values, int64_t n) {
    return plb_constant(graph, PLB_I64, &plb_shape_of(n), n ? values : (const int64_t[]){0});
}

plb_value plb_onnx_f64(plb_graph *graph, plb_dtype dtype, const plb_shape *shape,
                       const double *values) {
    return plb_cast(graph, plb_constant(graph, PLB_F64, shape, values), dtype);
}

plb_value plb_onnx_widen(plb_graph *graph, plb_value x, int rank, int first_axis) {
    plb_shape shape = plb_value_shape(graph, x), wide = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        int from = i - first_axis;
        wide.dim[i] = from >= 0 && from < shape.rank ? shape.dim[from] : 1;
    }
    return plb_reshape(graph, x, &wide);
}

// ---------------------------------------------------------------------------- makers
static plb_status constant_list(plb_onnx_node *n, const Onnx__AttributeProto *a) {
    plb_graph *g = n->graph;
    if (a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS) {
        n->out[0] = plb_constant(g, PLB_F32, &plb_shape_of((int64_t)a->n_floats),
                                 a->n_floats ? a->floats : (float[]){0});
    } else {
        n->out[0] = plb_onnx_i64(g, a->ints, (int64_t)a->n_ints);
    }
    return PLB_OK;
}

plb_status plb_onnx_map_constant(plb_onnx_node *n) {
    const Onnx__AttributeProto *a;
    plb_graph *g = n->graph;
    if ((a = plb_onnx_attr(n, "value")) && a->t) {
        return plb_onnx_tensor_constant(n->scope, a->t, &n->out[0]);
    }
    if ((a = plb_onnx_attr(n, "value_float"))) {
        n->out[0] = plb_scalar(g, PLB_F32, (double)a->f);
    } else if ((a = plb_onnx_attr(n, "value_int"))) {
        n->out[0] = plb_constant(g, PLB_I64, &plb_scalar_shape, &a->i);
    } else if ((a = plb_onnx_attr(n, "value_floats")) || (a = plb_onnx_attr(n, "value_ints"))) {
        return constant_list(n, a);
    } else if ((a = plb_onnx_attr(n, "sparse_value")) && a->sparse_tensor) {
        plb_onnx_values v;
        PLB_TRY(
            plb_onnx_values_of_sparse(n->scope->b->file, n->scope->b->arena, a->sparse_tensor, &v));
        n->out[0] = plb_constant(g, v.type.dtype, &v.type.shape, v.bytes);
    } else {
        return plb_onnx_refuse("a constant of strings, or of no value");
    }
    return PLB_OK;
}

static plb_status known_shape(const plb_onnx_node *n, int i, plb_shape *out) {
    int rank;
    PLB_TRY(plb_onnx_known_ints(n, i, out->dim, PLB_MAX_RANK, &rank));
    out->rank = rank;
    return PLB_OK;
}

plb_status plb_onnx_map_constant_of_shape(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    const Onnx__AttributeProto *a = plb_onnx_attr(n, "value");
    plb_shape shape = {0};
    plb_value value = plb_scalar(g, PLB_F32, 0);
    PLB_TRY(known_shape(n, 0, &shape));
    PLB_TRY(plb_shape_check(&shape));
    if (a && a->t) PLB_TRY(plb_onnx_tensor_constant(n->scope, a->t, &value));
    n->out[0] = plb_expand(g, plb_reshape(g, value, &plb_scalar_shape), &shape);
    return PLB_OK;
}

plb_status plb_onnx_map_shape(plb_onnx_node *n) {
    plb_shape shape = plb_onnx_type(n, 0).shape;
    int64_t begin = plb_onnx_int(n, "start", 0), end = plb_onnx_int(n, "end", shape.rank);
    if (begin < 0) begin += shape.rank;
    if (end < 0) end += shape.rank;
    begin = begin < 0 ? 0 : begin > shape.rank ? shape.rank : begin;
    end = end < begin ? begin : end > shape.rank ? shape.rank : end;
    n->out[0] = plb_onnx_i64(n->graph, shape.dim + begin, end - begin);
    return PLB_OK;
}

plb_status plb_onnx_map_size(plb_onnx_node *n) {
    plb_shape shape = plb_onnx_type(n, 0).shape;
    int64_t count = plb_shape_count(&shape);
    n->out[0] = plb_constant(n->graph, PLB_I64, &plb_scalar_shape, &count);
    return PLB_OK;
}

// Without a double between, which does not hold large integers.
static plb_status integer_range(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    int64_t v[3]; // from, to, step
    for (int i = 0; i < 3; i++) {
        int found;
        PLB_TRY(plb_onnx_known_ints(n, i, &v[i], 1, &found));
        if (!found) return plb_fail(PLB_EINVAL, "input %d: expected one number", i);
    }
    if (v[2] == 0) return plb_fail(PLB_EINVAL, "a step of 0");
    const uint64_t from = (uint64_t)v[0], to = (uint64_t)v[1], step = (uint64_t)v[2];
    uint64_t count = 0;
    if (v[2] > 0 && v[0] < v[1]) count = (to - from - 1) / step + 1;
    if (v[2] < 0 && v[0] > v[1]) count = (from - to - 1) / -step + 1;
    if (count > MAX_RANGE) {
        return plb_fail(PLB_EINVAL, "a range of %llu elements", (unsigned long long)count);
    }
    plb_value i = plb_iota(g, PLB_I64, &plb_shape_of((int64_t)count), 0);
    plb_value first = plb_constant(g, PLB_I64, &plb_scalar_shape, &v[0]);
    i = plb_mul(g, i, plb_constant(g, PLB_I64, &plb_scalar_shape, &v[2]));
    n->out[0] = plb_cast(g, plb_add(g, i, first), plb_onnx_type(n, 0).dtype);
    return PLB_OK;
}

plb_status plb_onnx_map_range(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    double v[3];
    plb_dtype dtype = plb_onnx_type(n, 0).dtype;
    if (!plb_dtype_is_float(dtype)) return integer_range(n);
    for (int i = 0; i < 3; i++) PLB_TRY(plb_onnx_known_number(n, i, &v[i]));
    double count = ceil((v[1] - v[0]) / v[2]);
    if (!(count >= 0)) count = 0;
    if (count > MAX_RANGE) return plb_fail(PLB_EINVAL, "a range of %g elements", count);
    plb_value i = plb_iota(g, PLB_F64, &plb_shape_of((int64_t)count), 0);
    n->out[0] = plb_cast(g, plb_affine(g, i, v[2], v[0]), dtype);
    return PLB_OK;
}

plb_status plb_onnx_map_eye_like(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_type type = plb_onnx_type(n, 0);
    if (plb_onnx_has(n, "dtype")) PLB_TRY(plb_onnx_dtype(plb_onnx_int(n, "dtype", 0), &type.dtype));
    if (type.shape.rank != 2) return plb_fail(PLB_EINVAL, "expected a matrix");
    plb_value row = plb_iota(g, PLB_I64, &type.shape, 0),
              column = plb_iota(g, PLB_I64, &type.shape, 1);
    plb_value diagonal = plb_affine(g, row, 1, (double)plb_onnx_int(n, "k", 0));
    n->out[0] = plb_cast(g, plb_eq(g, column, diagonal), type.dtype);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- reshaping
plb_status plb_onnx_map_reshape(plb_onnx_node *n) {
    plb_shape x = plb_onnx_type(n, 0).shape, to = {0};
    if (n->opset < 5) {
        PLB_TRY(plb_onnx_ints(n, "shape", to.dim, PLB_MAX_RANK, &to.rank));
    } else {
        PLB_TRY(known_shape(n, 1, &to));
    }
    bool copies = !plb_onnx_int(n, "allowzero", 0);
    for (int i = 0; i < to.rank; i++) {
        if (to.dim[i] < -1) {
            return plb_fail(PLB_EINVAL, "extent %d is %lld", i, (long long)to.dim[i]);
        }
    }
    int64_t count = plb_shape_count(&x), rest = 1;
    int open = -1;
    for (int i = 0; i < to.rank; i++) {
        if (to.dim[i] == 0 && copies) {
            if (i >= x.rank) return plb_fail(PLB_EINVAL, "extent %d is copied from no axis", i);
            to.dim[i] = x.dim[i];
        }
        if (to.dim[i] == -1) {
            if (open >= 0) return plb_fail(PLB_EINVAL, "extents %d and %d are both -1", open, i);
            open = i;
        } else if (__builtin_mul_overflow(rest, to.dim[i], &rest)) {
            return plb_fail(PLB_EINVAL, "the product of the extents is too large");
        }
    }
    if (open >= 0 && rest > 0) to.dim[open] = count / rest;
    if (open >= 0 && rest == 0) to.dim[open] = 0;
    n->out[0] = plb_reshape(n->graph, n->in[0], &to);
    return PLB_OK;
}

plb_status plb_onnx_map_flatten(plb_onnx_node *n) {
    plb_shape x = plb_onnx_type(n, 0).shape, to = {.rank = 2, .dim = {1, 1}};
    int64_t axis = plb_onnx_int(n, "axis", 1);
    if (axis < 0) axis += x.rank;
    if (axis < 0 || axis > x.rank) return plb_fail(PLB_EINVAL, "axis %lld", (long long)axis);
    for (int i = 0; i < x.rank; i++) to.dim[i >= axis] *= x.dim[i];
    n->out[0] = plb_reshape(n->graph, n->in[0], &to);
    return PLB_OK;
}

plb_status plb_onnx_map_squeeze(plb_onnx_node *n) {
    plb_shape x = plb_onnx_type(n, 0).shape, to = {0};
    int64_t axes[PLB_MAX_RANK], set = 0;
    int count;
    PLB_TRY(plb_onnx_ints_or_input(n, "axes", 1, axes, PLB_MAX_RANK, &count));
    PLB_TRY(plb_onnx_axis_set(axes, count, x.rank, &set));
    for (int i = 0; i < x.rank; i++) {
        bool drop = count >= 0 ? set >> i & 1 : x.dim[i] == 1;
        if (drop && x.dim[i] != 1) return plb_fail(PLB_EINVAL, "axis %d has not extent 1", i);
        if (!drop) to.dim[to.rank++] = x.dim[i];
    }
    n->out[0] = plb_reshape(n->graph, n->in[0], &to);
    return PLB_OK;
}

plb_status plb_onnx_map_unsqueeze(plb_onnx_node *n) {
    plb_shape x = plb_onnx_type(n, 0).shape, to = {0};
    int64_t axes[PLB_MAX_RANK], set = 0;
    int count;
    PLB_TRY(plb_onnx_ints_or_input(n, "axes", 1, axes, PLB_MAX_RANK, &count));
    if (count < 0 || x.rank + count > PLB_MAX_RANK) {
        return plb_onnx_refuse("rank %d with %d axes more", x.rank, count);
    }
    to.rank = x.rank + count;
    PLB_TRY(plb_onnx_axis_set(axes, count, to.rank, &set));
    for (int i = 0, from = 0; i < to.rank; i++) {
        to.dim[i] = set >> i & 1 || from == x.rank ? 1 : x.dim[from++];
    }
    n->out[0] = plb_reshape(n->graph, n->in[0], &to);
    return PLB_OK;
}

plb_status plb_onnx_map_transpose(plb_onnx_node *n) {
    int64_t order[PLB_MAX_RANK];
    int axes[PLB_MAX_RANK], count, rank = plb_onnx_type(n, 0).shape.rank;
    PLB_TRY(plb_onnx_ints(n, "perm", order, PLB_MAX_RANK, &count));
    if (count && count != rank) return plb_fail(PLB_EINVAL, "perm has %d axes of %d", count, rank);
    for (int i = 0; i < rank; i++) {
        axes[i] = rank - 1 - i;
        if (count) PLB_TRY(plb_onnx_axis(order[i], rank, &axes[i]));
    }
    n->out[0] = plb_permute(n->graph, n->in[0], axes, rank);
    return PLB_OK;
}

plb_status plb_onnx_map_expand(plb_onnx_node *n) {
    plb_shape to = {0}, wide, x = plb_onnx_type(n, 0).shape;
    PLB_TRY(known_shape(n, 1, &to));
    PLB_TRY(plb_shape_broadcast(&x, &to, &wide));
    n->out[0] = plb_expand(n->graph, n->in[0], &wide);
    return PLB_OK;
}

// Each axis [d] as [1, d], expanded to [times, d], and both made one again.
plb_status plb_onnx_map_tile(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_shape x = plb_onnx_type(n, 0).shape;
    int64_t times[PLB_MAX_RANK];
    int count;
    PLB_TRY(plb_onnx_known_ints(n, 1, times, PLB_MAX_RANK, &count));
    if (count != x.rank) return plb_fail(PLB_EINVAL, "%d repeats of %d axes", count, x.rank);
    PLB_TRY(plb_onnx_bounded("repeats", times, count, 0));
    plb_value y = n->in[0];
    for (int i = 0; i < x.rank; i++) {
        if (times[i] == 1) continue;
        if (x.rank == PLB_MAX_RANK) return plb_onnx_refuse("rank %d", x.rank);
        plb_shape split = {.rank = x.rank + 1}, joined = plb_value_shape(g, y);
        for (int k = 0; k < split.rank; k++) split.dim[k] = joined.dim[k <= i ? k : k - 1];
        split.dim[i] = 1;
        y = plb_reshape(g, y, &split);
        split.dim[i] = times[i];
        if (__builtin_mul_overflow(joined.dim[i], times[i], &joined.dim[i])) {
            return plb_fail(PLB_EINVAL, "%lld repeats", (long long)times[i]);
        }
        y = plb_reshape(g, plb_expand(g, y, &split), &joined);
        PLB_TRY(plb_graph_status(g));
    }
    n->out[0] = y;
    return PLB_OK;
}

static plb_status blocks_of(plb_onnx_node *n, plb_shape *x, int64_t *block) {
    *x = plb_onnx_type(n, 0).shape;
    *block = plb_onnx_int(n, "blocksize", 0);
    PLB_TRY(plb_onnx_bounded("extents", x->dim, x->rank, 0));
    if (x->rank == 4 && *block > 0 && *block <= 1 << 15) return PLB_OK;
    return plb_fail(PLB_EINVAL, "expected rank 4 and a block size");
}

plb_status plb_onnx_map_depth_to_space(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_shape x;
    int64_t b;
    PLB_TRY(blocks_of(n, &x, &b));
    const int64_t c = x.dim[1] / (b * b), h = x.dim[2], w = x.dim[3];
    bool crd = plb_onnx_is(n, "mode", "DCR", "CRD");
    plb_shape split =
        crd ? plb_shape_of(x.dim[0], c, b, b, h, w) : plb_shape_of(x.dim[0], b, b, c, h, w);
    const int dcr_axes[] = {0, 3, 4, 1, 5, 2}, crd_axes[] = {0, 1, 4, 2, 5, 3};
    plb_value y = plb_permute(g, plb_reshape(g, n->in[0], &split), crd ? crd_axes : dcr_axes, 6);
    n->out[0] = plb_reshape(g, y, &plb_shape_of(x.dim[0], c, h * b, w * b));
    return PLB_OK;
}

plb_status plb_onnx_map_space_to_depth(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_shape x;
    int64_t b;
    PLB_TRY(blocks_of(n, &x, &b));
    const int64_t c = x.dim[1], h = x.dim[2] / b, w = x.dim[3] / b;
    plb_shape split = plb_shape_of(x.dim[0], c, h, b, w, b);
    plb_value y = plb_permute(g, plb_reshape(g, n->in[0], &split), (int[]){0, 3, 5, 1, 2, 4}, 6);
    n->out[0] = plb_reshape(g, y, &plb_shape_of(x.dim[0], c * b * b, h, w));
    return PLB_OK;
}

// ---------------------------------------------------------------------------- cutting, joining
plb_status plb_onnx_map_concat(plb_onnx_node *n) {
    int axis;
    PLB_TRY(plb_onnx_axis(plb_onnx_int(n, "axis", n->opset < 4 ? 1 : 0),
                          plb_onnx_type(n, 0).shape.rank, &axis));
    n->out[0] = n->n_in == 1 ? n->in[0] : plb_concat(n->graph, n->in, n->n_in, axis);
    return PLB_OK;
}

plb_status plb_onnx_map_split(plb_onnx_node *n) {
    plb_shape x = plb_onnx_type(n, 0).shape;
    int axis, count;
    int64_t extents[PLB_ONNX_MAX_OUT];
    PLB_TRY(plb_onnx_axis(plb_onnx_int(n, "axis", 0), x.rank, &axis));
    PLB_TRY(plb_onnx_ints_or_input(n, "split", 1, extents, PLB_ONNX_MAX_OUT, &count));
    if (count < 0) { // equal parts, but for a smaller last one
        count = n->n_out;
        int64_t part = (x.dim[axis] + count - 1) / (count ? count : 1), left = x.dim[axis];
        for (int i = 0; i < count; i++) {
            extents[i] = left < part ? left : part;
            left -= extents[i];
        }
    }
    if (count != n->n_out) return plb_fail(PLB_EINVAL, "%d parts, %d outputs", count, n->n_out);
    plb_split(n->graph, n->in[0], axis, count, extents, n->out);
    return PLB_OK;
}

// Numpy's slices, their ends cut to the extent.
static void slice_axis(int64_t extent, int64_t begin, int64_t end, int64_t step, int64_t *first,
                       int64_t *count) {
    if (begin < 0) begin += extent;
    if (end < 0 && end != INT64_MIN) end = end + extent < 0 ? -1 : end + extent;
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
    begin = begin < low ? low : begin > high ? high : begin;
    end = end < low ? low : end > high ? high : end;
    int64_t span = step > 0 ? end - begin : begin - end;
    int64_t stride = step > 0 ? step : step == INT64_MIN ? INT64_MAX : -step;
    *count = span <= 0 ? 0 : (span - 1) / stride + 1;
    *first = *count ? begin : 0;
}

plb_status plb_onnx_map_slice(plb_onnx_node *n) {
    plb_shape x = plb_onnx_type(n, 0).shape;
    int64_t begin[PLB_MAX_RANK], end[PLB_MAX_RANK], axes[PLB_MAX_RANK], step[PLB_MAX_RANK];
    int n_begin, n_end, n_axes, n_step = -1;
    PLB_TRY(plb_onnx_ints_or_input(n, "starts", 1, begin, PLB_MAX_RANK, &n_begin));
    PLB_TRY(plb_onnx_ints_or_input(n, "ends", 2, end, PLB_MAX_RANK, &n_end));
    PLB_TRY(plb_onnx_ints_or_input(n, "axes", 3, axes, PLB_MAX_RANK, &n_axes));
    if (n->opset >= 10) PLB_TRY(plb_onnx_ints_or_input(n, "steps", 4, step, PLB_MAX_RANK, &n_step));
    if (n_begin < 0 || n_end != n_begin || (n_axes >= 0 && n_axes != n_begin) ||
        (n_step >= 0 && n_step != n_begin)) {
        return plb_fail(PLB_EINVAL, "starts, ends, axes and steps differ in number");
    }
    plb_slice_attrs attrs = {.shape = x};
    for (int i = 0; i < n_begin; i++) {
        int axis;
        PLB_TRY(plb_onnx_axis(n_axes >= 0 ? axes[i] : i, x.rank, &axis));
        int64_t stride = n_step >= 0 ? step[i] : 1;
        if (stride == 0) return plb_fail(PLB_EINVAL, "a step of 0");
        slice_axis(x.dim[axis], begin[i], end[i], stride, &attrs.begin[axis],
                   &attrs.shape.dim[axis]);
        attrs.step[axis] = attrs.shape.dim[axis] > 1 ? stride : 1;
    }
    n->out[0] = plb_slice(n->graph, n->in[0], &attrs);
    return PLB_OK;
}

// Around the end, as often as it takes: by positions along each axis.
static plb_value pad_wrap(plb_graph *g, plb_value x, const int64_t *before, const int64_t *after) {
    plb_shape shape = plb_value_shape(g, x);
    for (int axis = 0; axis < shape.rank; axis++) {
        if (!before[axis] && !after[axis]) continue;
        int64_t extent = before[axis] + shape.dim[axis] + after[axis];
        plb_value i = plb_iota(g, PLB_I64, &plb_shape_of(extent), 0);
        i = plb_affine(g, i, 1, (double)-before[axis]);
        i = plb_remainder(g, i, plb_scalar(g, PLB_I64, (double)shape.dim[axis]));
        x = plb_take(g, x, i, axis);
    }
    return x;
}

// Whether a double holds the number.
static bool is_exact(const plb_tensor *t) {
    const int64_t most = INT64_C(1) << 53, v = plb_load_i64(t->data, t->dtype, 0);
    if (t->dtype == PLB_U64) return v >= 0 && v <= most;
    return t->dtype != PLB_I64 || (v >= -most && v <= most);
}

// What is put around x: attrs->value, or, where no double holds it, *large in its place.
static plb_status pad_value(plb_onnx_node *n, plb_pad_attrs *attrs, plb_value *large) {
    plb_tensor t;
    attrs->value = plb_onnx_float(n, "value", 0);
    *large = PLB_NONE;
    if (n->opset < 11 || !plb_onnx_given_in(n, 2)) return PLB_OK;
    PLB_TRY(plb_onnx_known_number(n, 2, &attrs->value));
    PLB_TRY(plb_onnx_known(n, 2, &t));
    if (is_exact(&t)) return PLB_OK;
    attrs->value = 0;
    *large = plb_constant(n->graph, t.dtype, &plb_scalar_shape, t.data);
    return PLB_OK;
}

// Zeros around x, and there, where zeros have ones around them, `value` is added.
static plb_value pad_large(plb_graph *g, plb_value x, const plb_pad_attrs *attrs, plb_value value) {
    plb_type type = plb_value_type(g, x);
    plb_pad_attrs ones = *attrs;
    ones.value = 1;
    plb_value inside = plb_expand(g, plb_scalar(g, type.dtype, 0), &type.shape);
    plb_value outside = plb_pad(g, inside, &ones);
    return plb_add(g, plb_pad(g, x, attrs), plb_mul(g, outside, value));
}

// What is repeated around x is that which negative pads leave of it: they are done first.
static plb_status crop(plb_graph *g, plb_value *x, plb_pad_attrs *attrs) {
    const plb_shape shape = plb_value_shape(g, *x);
    for (int i = 0; i < shape.rank; i++) {
        const int64_t first = attrs->before[i] < 0 ? -attrs->before[i] : 0;
        const int64_t end = shape.dim[i] + (attrs->after[i] < 0 ? attrs->after[i] : 0);
        if (first == 0 && end == shape.dim[i]) continue;
        if (first > end) {
            return plb_fail(PLB_EINVAL, "axis %d: pads of %lld and %lld leave nothing of %lld", i,
                            (long long)attrs->before[i], (long long)attrs->after[i],
                            (long long)shape.dim[i]);
        }
        *x = plb_slice_axis(g, *x, i, first, end);
        if (first) attrs->before[i] = 0;
        if (end != shape.dim[i]) attrs->after[i] = 0;
    }
    return PLB_OK;
}

plb_status plb_onnx_map_pad(plb_onnx_node *n) {
    plb_shape x = plb_onnx_type(n, 0).shape;
    int64_t pads[2 * PLB_MAX_RANK], axes[PLB_MAX_RANK];
    int count, n_axes = -1;
    const char *name = n->opset < 2 ? "paddings" : "pads";
    if (n->opset < 11)
        PLB_TRY(plb_onnx_ints(n, name, pads, 2 * PLB_MAX_RANK, &count));
    else
        PLB_TRY(plb_onnx_known_ints(n, 1, pads, 2 * PLB_MAX_RANK, &count));
    if (plb_onnx_given_in(n, 3)) PLB_TRY(plb_onnx_known_ints(n, 3, axes, PLB_MAX_RANK, &n_axes));
    int served = n_axes >= 0 ? n_axes : x.rank;
    if (count != 2 * served) return plb_fail(PLB_EINVAL, "%d pads of %d axes", count, served);
    plb_pad_attrs attrs = {.mode = PLB_PAD_CONSTANT};
    PLB_TRY(plb_onnx_bounded("pads", pads, count, -PLB_ONNX_MAX_EXTENT));
    plb_value large;
    PLB_TRY(pad_value(n, &attrs, &large));
    for (int i = 0; i < served; i++) {
        int axis;
        PLB_TRY(plb_onnx_axis(n_axes >= 0 ? axes[i] : i, x.rank, &axis));
        attrs.before[axis] = pads[i];
        attrs.after[axis] = pads[i + served];
    }
    if (plb_onnx_is(n, "mode", "constant", "reflect")) attrs.mode = PLB_PAD_REFLECT;
    if (plb_onnx_is(n, "mode", "constant", "edge")) attrs.mode = PLB_PAD_EDGE;
    bool wrap = plb_onnx_is(n, "mode", "constant", "wrap");
    bool constant = attrs.mode == PLB_PAD_CONSTANT && !wrap;
    plb_value from = n->in[0];
    if (!constant) PLB_TRY(crop(n->graph, &from, &attrs));
    n->out[0] = wrap ? pad_wrap(n->graph, from, attrs.before, attrs.after)
                : constant && large != PLB_NONE ? pad_large(n->graph, from, &attrs, large)
                                                : plb_pad(n->graph, from, &attrs);
    return PLB_OK;
}

plb_status plb_onnx_map_center_crop_pad(plb_onnx_node *n) {
    plb_shape x = plb_onnx_type(n, 0).shape;
    int64_t axes[PLB_MAX_RANK], extents[PLB_MAX_RANK];
    int n_axes, count;
    PLB_TRY(plb_onnx_ints(n, "axes", axes, PLB_MAX_RANK, &n_axes));
    PLB_TRY(plb_onnx_known_ints(n, 1, extents, PLB_MAX_RANK, &count));
    PLB_TRY(plb_onnx_bounded("extents", extents, count, 0));
    if (count != (n_axes ? n_axes : x.rank)) {
        return plb_fail(PLB_EINVAL, "%d extents of %d axes", count, n_axes ? n_axes : x.rank);
    }
    plb_pad_attrs attrs = {.mode = PLB_PAD_CONSTANT};
    for (int i = 0; i < count; i++) {
        int axis;
        PLB_TRY(plb_onnx_axis(n_axes ? axes[i] : i, x.rank, &axis));
        int64_t more = extents[i] - x.dim[axis];
        attrs.before[axis] = more >= 0 ? more / 2 : -(-more / 2);
        attrs.after[axis] = more - attrs.before[axis];
    }
    n->out[0] = plb_pad(n->graph, n->in[0], &attrs);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- triangles
plb_status plb_onnx_map_trilu(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_type type = plb_onnx_type(n, 0);
    plb_shape s = type.shape;
    if (s.rank < 2) return plb_fail(PLB_EINVAL, "expected matrices");
    plb_shape m = plb_shape_of(s.dim[s.rank - 2], s.dim[s.rank - 1]);
    plb_value row = plb_iota(g, PLB_I64, &m, 0), column = plb_iota(g, PLB_I64, &m, 1);
    plb_value k = plb_onnx_given_in(n, 1) ? plb_reshape(g, n->in[1], &plb_scalar_shape)
                                          : plb_scalar(g, PLB_I64, 0);
    plb_value edge = plb_add(g, row, k);
    bool upper = plb_onnx_int(n, "upper", 1) != 0;
    plb_value keep = upper ? plb_ge(g, column, edge) : plb_le(g, column, edge);
    n->out[0] = plb_where(g, keep, n->in[0], plb_scalar(g, type.dtype, 0));
    return PLB_OK;
}
