// SPDX-License-Identifier: Apache-2.0
// Inputs of a node whose values must be known while the graph is built: shapes, axes, pads.
#include <stdarg.h>
#include <stdio.h>

#include "base/core/status.h"
#include "onnx/build.h"

plb_status plb_onnx_refuse(const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return plb_fail(PLB_EUNSUPPORTED, "%s", text);
}

plb_status plb_onnx_try_known(const plb_onnx_node *n, int i, bool *known, plb_tensor *out) {
    *known = false;
    PLB_TRY(plb_graph_status(n->graph));
    if (!plb_onnx_given_in(n, i)) return PLB_OK;
    return plb_evaluate(n->scope->evaluator, n->in[i], known, out);
}

plb_status plb_onnx_known(const plb_onnx_node *n, int i, plb_tensor *out) {
    bool known;
    PLB_TRY(plb_onnx_try_known(n, i, &known, out));
    if (known) return PLB_OK;
    const char *name = i < n->n_in ? plb_onnx_string(n->proto->input[i]) : "";
    return plb_onnx_refuse("input %d (%s) depends on data, but a plan needs its value", i, name);
}

plb_status plb_onnx_known_ints(const plb_onnx_node *n, int i, int64_t *out, int max, int *count) {
    plb_tensor t;
    PLB_TRY(plb_onnx_known(n, i, &t));
    int64_t found = plb_shape_count(&t.shape);
    if (found > max || t.shape.rank > 1) {
        return plb_fail(PLB_EINVAL, "input %d: expected at most %d numbers, found %lld", i, max,
                        (long long)found);
    }
    for (int64_t k = 0; k < found; k++) out[k] = plb_load_i64(t.data, t.dtype, k);
    *count = (int)found;
    return PLB_OK;
}

plb_status plb_onnx_known_number(const plb_onnx_node *n, int i, double *out) {
    plb_tensor t;
    PLB_TRY(plb_onnx_known(n, i, &t));
    int64_t found = plb_shape_count(&t.shape);
    if (found != 1) {
        return plb_fail(PLB_EINVAL, "input %d: expected one number, found %lld", i,
                        (long long)found);
    }
    *out = plb_load_f64(t.data, t.dtype, 0);
    return PLB_OK;
}

plb_status plb_onnx_known_int(const plb_onnx_node *n, int i, int64_t low, int64_t high,
                              int64_t *out) {
    double value = 0;
    PLB_TRY(plb_onnx_known_number(n, i, &value));
    if (!(value >= (double)low && value <= (double)high)) {
        return plb_fail(PLB_EINVAL, "input %d: expected %lld to %lld, found %g", i, (long long)low,
                        (long long)high, value);
    }
    *out = (int64_t)value;
    return PLB_OK;
}

plb_status plb_onnx_try_int(const plb_onnx_node *n, int i, bool *known, int64_t *out) {
    plb_tensor t;
    PLB_TRY(plb_onnx_try_known(n, i, known, &t));
    if (!*known) return PLB_OK;
    int64_t found = plb_shape_count(&t.shape);
    if (found != 1) {
        return plb_fail(PLB_EINVAL, "input %d: expected one value, found %lld", i,
                        (long long)found);
    }
    *out = plb_load_i64(t.data, t.dtype, 0);
    return PLB_OK;
}

plb_status plb_onnx_ints_or_input(const plb_onnx_node *n, const char *name, int i, int64_t *out,
                                  int max, int *count) {
    *count = -1;
    if (plb_onnx_has(n, name)) return plb_onnx_ints(n, name, out, max, count);
    if (!plb_onnx_given_in(n, i)) return PLB_OK;
    return plb_onnx_known_ints(n, i, out, max, count);
}

plb_status plb_onnx_bounded(const char *what, const int64_t *values, int n, int64_t low) {
    for (int i = 0; i < n; i++) {
        if (values[i] >= low && values[i] <= PLB_ONNX_MAX_EXTENT) continue;
        return plb_fail(PLB_EINVAL, "%s: expected %lld to %d, found %lld", what, (long long)low,
                        PLB_ONNX_MAX_EXTENT, (long long)values[i]);
    }
    return PLB_OK;
}

plb_status plb_onnx_rank(const plb_onnx_node *n, int i, int low, int high) {
    int rank = plb_onnx_type(n, i).shape.rank;
    if (!plb_onnx_given_in(n, i)) return plb_fail(PLB_EINVAL, "input %d is missing", i);
    if (rank >= low && rank <= high) return PLB_OK;
    if (low == high) {
        return plb_fail(PLB_EINVAL, "input %d: expected rank %d, found %d", i, low, rank);
    }
    return plb_fail(PLB_EINVAL, "input %d: expected rank %d to %d, found %d", i, low, high, rank);
}

plb_status plb_onnx_optional_rank(const plb_onnx_node *n, int i, int low, int high) {
    return plb_onnx_given_in(n, i) ? plb_onnx_rank(n, i, low, high) : PLB_OK;
}

plb_status plb_onnx_axis(int64_t axis, int rank, int *out) {
    int64_t wrapped = axis < 0 ? axis + rank : axis;
    *out = (int)wrapped;
    if (wrapped >= 0 && wrapped < rank) return PLB_OK;
    *out = 0;
    return plb_fail(PLB_EINVAL, "axis %lld of a value of rank %d", (long long)axis, rank);
}

plb_status plb_onnx_axis_set(const int64_t *axes, int n, int rank, int64_t *out) {
    *out = 0;
    for (int i = 0; i < n; i++) {
        int axis;
        PLB_TRY(plb_onnx_axis(axes[i], rank, &axis));
        *out |= INT64_C(1) << axis;
    }
    return PLB_OK;
}
