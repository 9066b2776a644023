// SPDX-License-Identifier: Apache-2.0
// Convolutions, products, pooling, normalisation, losses.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "onnx/build.h"
#include "onnx/map.h"

// ---------------------------------------------------------------------------- windows
static plb_status spatial_ints(const plb_onnx_node *n, const char *name, int axes, int64_t missing,
                               int64_t *out) {
    int64_t values[PLB_MAX_RANK];
    int count;
    PLB_TRY(plb_onnx_ints(n, name, values, PLB_MAX_RANK, &count));
    if (count && count != axes) {
        return plb_fail(PLB_EINVAL, "attribute %s: %d numbers for %d axes", name, count, axes);
    }
    for (int i = 0; i < axes; i++) {
        out[i] = count ? values[i] : missing;
    }
    return plb_onnx_bounded(name, out, axes, 1);
}

static plb_status window_attrs(const plb_onnx_node *n, int rank, const int64_t *kernel,
                               plb_onnx_window *w) {
    *w = (plb_onnx_window){.axes = rank - 2, .ceil = plb_onnx_int(n, "ceil_mode", 0) != 0};
    if (w->axes < 1 || w->axes > PLB_MAX_SPATIAL) {
        return plb_onnx_refuse("%d spatial axes: 1 to 3 are served", w->axes);
    }
    for (int i = 0; kernel && i < w->axes; i++) w->kernel[i] = kernel[i];
    if (kernel) PLB_TRY(plb_onnx_bounded("extents of the kernel", kernel, w->axes, 0));
    if (!kernel) PLB_TRY(spatial_ints(n, "kernel_shape", w->axes, 1, w->kernel));
    PLB_TRY(spatial_ints(n, "strides", w->axes, 1, w->stride));
    PLB_TRY(spatial_ints(n, "dilations", w->axes, 1, w->dilation));
    int64_t pads[2 * PLB_MAX_RANK];
    int count;
    PLB_TRY(plb_onnx_ints(n, "pads", pads, 2 * PLB_MAX_RANK, &count));
    if (count && count != 2 * w->axes) {
        return plb_fail(PLB_EINVAL, "attribute pads: %d numbers for %d axes", count, w->axes);
    }
    PLB_TRY(plb_onnx_bounded("pads", pads, count, -PLB_ONNX_MAX_EXTENT));
    for (int i = 0; i < w->axes && count; i++) {
        w->begin[i] = pads[i];
        w->end[i] = pads[w->axes + i];
    }
    return PLB_OK;
}

plb_status plb_onnx_window_of(const plb_onnx_node *n, const plb_shape *x, const int64_t *kernel,
                              plb_onnx_window *out) {
    PLB_TRY(window_attrs(n, x->rank, kernel, out));
    PLB_TRY(plb_onnx_bounded("extents", x->dim + 2, out->axes, 0));
    bool upper = plb_onnx_is(n, "auto_pad", "NOTSET", "SAME_UPPER");
    bool lower = plb_onnx_is(n, "auto_pad", "NOTSET", "SAME_LOWER");
    bool valid = plb_onnx_is(n, "auto_pad", "NOTSET", "VALID");
    for (int i = 0; i < out->axes; i++) {
        if (valid) out->begin[i] = out->end[i] = 0;
        if (!upper && !lower) continue;
        int64_t extent = x->dim[2 + i];
        int64_t y = (extent + out->stride[i] - 1) / out->stride[i];
        int64_t all =
            (y - 1) * out->stride[i] + (out->kernel[i] - 1) * out->dilation[i] + 1 - extent;
        if (all < 0) all = 0;
        out->begin[i] = upper ? all / 2 : all - all / 2;
        out->end[i] = all - out->begin[i];
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- convolution
plb_status plb_onnx_conv_attrs(const plb_onnx_node *n, int input, int weights,
                               plb_conv_attrs *attrs) {
    plb_shape x = plb_onnx_type(n, input).shape, w = plb_onnx_type(n, weights).shape;
    plb_onnx_window window;
    if (w.rank != x.rank || x.rank < 3) {
        return plb_fail(PLB_EINVAL, "weights of rank %d on a value of rank %d", w.rank, x.rank);
    }
    PLB_TRY(plb_onnx_window_of(n, &x, w.dim + 2, &window));
    *attrs = (plb_conv_attrs){.groups = plb_onnx_int(n, "group", 1)};
    for (int i = 0; i < window.axes; i++) {
        attrs->stride[i] = window.stride[i];
        attrs->dilation[i] = window.dilation[i];
        attrs->pad_begin[i] = window.begin[i];
        attrs->pad_end[i] = window.end[i];
    }
    return PLB_OK;
}

plb_status plb_onnx_map_conv(plb_onnx_node *n) {
    plb_conv_attrs attrs;
    PLB_TRY(plb_onnx_conv_attrs(n, 0, 1, &attrs));
    n->out[0] = plb_conv(n->graph, n->in[0], n->in[1], plb_onnx_in(n, 2), &attrs);
    return PLB_OK;
}

// The pads of a transposed convolution from the extents that are asked for.
static plb_status transposed_pads(const plb_onnx_node *n, const plb_conv_attrs *a, int axes,
                                  int64_t *output_pad, int64_t *begin, int64_t *end) {
    plb_shape x = plb_onnx_type(n, 0).shape, w = plb_onnx_type(n, 1).shape;
    int64_t shape[PLB_MAX_RANK];
    int n_shape, n_pad;
    PLB_TRY(plb_onnx_ints(n, "output_shape", shape, PLB_MAX_RANK, &n_shape));
    PLB_TRY(plb_onnx_ints(n, "output_padding", output_pad, PLB_MAX_SPATIAL, &n_pad));
    if ((n_shape && n_shape != axes && n_shape != axes + 2) || (n_pad && n_pad != axes)) {
        return plb_fail(PLB_EINVAL, "%d output extents, %d output pads of %d axes", n_shape, n_pad,
                        axes);
    }
    PLB_TRY(plb_onnx_bounded("output_shape", shape, n_shape, 0));
    PLB_TRY(plb_onnx_bounded("output_padding", output_pad, n_pad, 0));
    for (int i = n_pad; i < PLB_MAX_SPATIAL; i++) output_pad[i] = 0;
    bool upper = plb_onnx_is(n, "auto_pad", "NOTSET", "SAME_UPPER");
    bool lower = plb_onnx_is(n, "auto_pad", "NOTSET", "SAME_LOWER");
    const int64_t *asked = n_shape == axes + 2 ? shape + 2 : shape;
    for (int i = 0; i < axes; i++) {
        begin[i] = a->pad_begin[i], end[i] = a->pad_end[i];
        if (!n_shape && !upper && !lower) continue;
        int64_t whole = a->stride[i] * (x.dim[2 + i] - 1) + output_pad[i] +
                        (w.dim[2 + i] - 1) * a->dilation[i] + 1;
        int64_t all = whole - (n_shape ? asked[i] : x.dim[2 + i] * a->stride[i]);
        if (n_shape && all < 0) output_pad[i] -= all, all = 0; // zeros past the end
        if (all < 0) all = 0;
        begin[i] = upper ? all / 2 : all - all / 2;
        end[i] = all - begin[i];
    }
    return PLB_OK;
}

// Where the engine wants no negative pad, zeros are appended to y, and what is cut, is cut behind.
plb_status plb_onnx_map_conv_transpose(plb_onnx_node *n) {
    plb_conv_attrs attrs;
    plb_shape x = plb_onnx_type(n, 0).shape;
    int64_t output_pad[PLB_MAX_SPATIAL] = {0};
    PLB_TRY(plb_onnx_conv_attrs(n, 0, 1, &attrs));
    int axes = x.rank - 2;
    int64_t begin[PLB_MAX_SPATIAL] = {0}, end[PLB_MAX_SPATIAL] = {0};
    PLB_TRY(transposed_pads(n, &attrs, axes, output_pad, begin, end));
    plb_pad_attrs pad = {.mode = PLB_PAD_CONSTANT};
    for (int i = 0; i < axes; i++) {
        attrs.pad_begin[i] = attrs.pad_end[i] = 0;
        pad.before[2 + i] = -begin[i];
        pad.after[2 + i] = output_pad[i] - end[i];
        if (output_pad[i] < end[i] || output_pad[i] == 0) { // the engine's own pads reach
            attrs.pad_begin[i] = begin[i];
            attrs.pad_end[i] = end[i] - output_pad[i];
            pad.before[2 + i] = pad.after[2 + i] = 0;
        }
    }
    const int64_t none[PLB_MAX_SPATIAL] = {0};
    plb_value bias = plb_onnx_in(n, 2);
    bool outside = false;
    for (int i = 0; i < axes; i++) outside |= pad.before[2 + i] || pad.after[2 + i];
    plb_value y =
        plb_conv_transpose(n->graph, n->in[0], n->in[1], outside ? PLB_NONE : bias, &attrs, none);
    if (outside) y = plb_pad(n->graph, y, &pad);
    if (outside && bias != PLB_NONE) {
        y = plb_add(n->graph, y, plb_onnx_widen(n->graph, bias, x.rank - 1, 0));
    }
    n->out[0] = y;
    return PLB_OK;
}

// Columns x[N, C * window, positions] summed up into an image: a transposed convolution whose
// weights put element j of a column to place j of the window.
plb_status plb_onnx_map_col2im(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_type type = plb_onnx_type(n, 0);
    int64_t image[PLB_MAX_SPATIAL], block[PLB_MAX_SPATIAL], size = 1, output_pad[PLB_MAX_SPATIAL];
    int axes, n_block;
    plb_onnx_window w;
    PLB_TRY(plb_onnx_known_ints(n, 1, image, PLB_MAX_SPATIAL, &axes));
    PLB_TRY(plb_onnx_known_ints(n, 2, block, PLB_MAX_SPATIAL, &n_block));
    if (axes < 1 || axes != n_block || type.shape.rank != 3) {
        return plb_fail(PLB_EINVAL, "%d extents, windows of %d", axes, n_block);
    }
    PLB_TRY(plb_onnx_bounded("image_shape", image, axes, 1));
    PLB_TRY(window_attrs(n, axes + 2, block, &w));
    for (int i = 0; i < axes; i++) {
        if (block[i] > 1 << 16 || size > 1 << 16) return plb_onnx_refuse("such a large window");
        size *= block[i];
    }
    if (size < 1 || size > 1 << 16) return plb_onnx_refuse("a window of %lld", (long long)size);
    const int64_t c = type.shape.dim[1] / size;
    plb_conv_attrs attrs = {.groups = c};
    plb_shape x = {.rank = axes + 2, .dim = {type.shape.dim[0], c * size}};
    plb_shape weights = {.rank = axes + 2, .dim = {c * size, 1}};
    for (int i = 0; i < axes; i++) {
        int64_t room = image[i] + w.begin[i] + w.end[i] - (w.dilation[i] * (block[i] - 1) + 1);
        if (room < 0) return plb_fail(PLB_EINVAL, "a window larger than the image");
        attrs.stride[i] = w.stride[i], attrs.dilation[i] = w.dilation[i];
        attrs.pad_begin[i] = w.begin[i], attrs.pad_end[i] = w.end[i];
        x.dim[2 + i] = room / w.stride[i] + 1;
        output_pad[i] = room % w.stride[i];
        weights.dim[2 + i] = block[i];
    }
    plb_shape square = plb_shape_of(size, size), all = plb_shape_of(c, size, size);
    plb_value unit = plb_eq(g, plb_iota(g, PLB_I64, &square, 0), plb_iota(g, PLB_I64, &square, 1));
    unit = plb_reshape(g, plb_expand(g, plb_cast(g, unit, type.dtype), &all), &weights);
    plb_value columns = plb_reshape(g, n->in[0], &x);
    n->out[0] = plb_conv_transpose(g, columns, unit, PLB_NONE, &attrs, output_pad);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- products
static plb_value product(plb_graph *g, plb_value a, plb_value b, const plb_matmul_attrs *attrs) {
    bool floats = plb_dtype_is_float(plb_value_type(g, a).dtype);
    return floats ? plb_matmul(g, a, b, attrs) : plb_onnx_integer_product(g, a, b, attrs);
}

plb_value plb_onnx_matmul(plb_graph *g, plb_value a, plb_value b) {
    plb_shape s = plb_value_shape(g, a), t = plb_value_shape(g, b);
    bool row = s.rank == 1, column = t.rank == 1;
    if (row) a = plb_reshape(g, a, &plb_shape_of(1, s.dim[0]));
    if (column) b = plb_reshape(g, b, &plb_shape_of(t.dim[0], 1));
    plb_value y = product(g, a, b, &(plb_matmul_attrs){0});
    plb_shape whole = plb_value_shape(g, y), thin = {0};
    if (!row && !column) return y;
    for (int i = 0; i < whole.rank; i++) {
        bool drop = (row && i == whole.rank - 2) || (column && i == whole.rank - 1);
        if (!drop) thin.dim[thin.rank++] = whole.dim[i];
    }
    return plb_reshape(g, y, &thin);
}

plb_status plb_onnx_map_matmul(plb_onnx_node *n) {
    n->out[0] = plb_onnx_matmul(n->graph, n->in[0], n->in[1]);
    return PLB_OK;
}

static plb_value scaled(plb_graph *g, plb_value x, double scale) {
    return scale == 1 ? x : plb_affine(g, x, scale, 0);
}

plb_status plb_onnx_map_gemm(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_matmul_attrs attrs = {.trans_a = plb_onnx_int(n, "transA", 0) != 0,
                              .trans_b = plb_onnx_int(n, "transB", 0) != 0};
    double alpha = plb_onnx_float(n, "alpha", 1), beta = plb_onnx_float(n, "beta", 1);
    plb_shape w = plb_onnx_type(n, 1).shape, c = plb_onnx_type(n, 2).shape;
    bool bias = plb_onnx_given_in(n, 2) && alpha == 1 && beta == 1 && w.rank == 2 && c.rank == 1 &&
                c.dim[0] == w.dim[attrs.trans_b ? 0 : 1] &&
                plb_dtype_is_float(plb_onnx_type(n, 0).dtype);
    if (bias) {
        n->out[0] = plb_emit(g, PLB_OP_matmul, n->in, 3, &attrs);
        return PLB_OK;
    }
    plb_value y = scaled(g, product(g, n->in[0], n->in[1], &attrs), alpha);
    if (plb_onnx_given_in(n, 2)) y = plb_add(g, y, scaled(g, n->in[2], beta));
    n->out[0] = y;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- pooling
static plb_status pool_attrs(const plb_onnx_node *n, plb_onnx_window *w, plb_pool_attrs *attrs) {
    plb_shape x = plb_onnx_type(n, 0).shape;
    PLB_TRY(plb_onnx_window_of(n, &x, NULL, w));
    *attrs = (plb_pool_attrs){.ceil_mode = w->ceil,
                              .count_include_pad = plb_onnx_int(n, "count_include_pad", 0)};
    for (int i = 0; i < w->axes; i++) {
        attrs->kernel[i] = w->kernel[i];
        attrs->stride[i] = w->stride[i];
        attrs->dilation[i] = w->dilation[i];
        attrs->pad_begin[i] = w->begin[i];
        attrs->pad_end[i] = w->end[i];
    }
    return PLB_OK;
}

// How far the last window of ceil mode sticks out behind the pads; it must begin before them.
static int64_t overhang(const plb_onnx_window *w, const plb_shape *x, int i) {
    int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
    int64_t room = x->dim[2 + i] + w->begin[i] + w->end[i] - reach, rest = room % w->stride[i];
    bool more = w->ceil && rest && room + w->stride[i] - rest < x->dim[2 + i] + w->begin[i];
    return more ? w->stride[i] - rest : 0;
}

// Sums over the windows of x[N,C,...], with zeros around it: a convolution of each channel by ones.
static plb_value window_sums(plb_graph *g, plb_value x, const plb_onnx_window *w) {
    plb_type type = plb_value_type(g, x);
    int64_t c = type.shape.rank > 1 ? type.shape.dim[1] : 1;
    plb_shape kernel = {.rank = type.shape.rank, .dim = {c, 1}};
    plb_conv_attrs attrs = {.groups = c};
    for (int i = 0; i < w->axes; i++) {
        kernel.dim[2 + i] = w->kernel[i];
        attrs.stride[i] = w->stride[i];
        attrs.dilation[i] = w->dilation[i];
        attrs.pad_begin[i] = w->begin[i];
        attrs.pad_end[i] = w->end[i] + overhang(w, &type.shape, i);
    }
    plb_value ones = plb_expand(g, plb_scalar(g, type.dtype, 1), &kernel);
    return plb_conv(g, x, ones, PLB_NONE, &attrs);
}

// The engine's pooling knows no dilation: a mean is the sum over a window by how much it covers.
static void dilated_average(plb_onnx_node *n, const plb_onnx_window *w) {
    plb_graph *g = n->graph;
    plb_type type = plb_onnx_type(n, 0);
    plb_shape plane = type.shape;
    plb_onnx_window over = *w;
    plane.dim[0] = plane.dim[1] = 1;
    for (int i = 0; i < w->axes && plb_onnx_int(n, "count_include_pad", 0); i++) {
        plane.dim[2 + i] += w->begin[i] + w->end[i];
        over.begin[i] = over.end[i] = 0;
    }
    plb_value ones = plb_expand(g, plb_scalar(g, type.dtype, 1), &plane);
    plb_value count = window_sums(g, ones, &over);
    n->out[0] = plb_div(g, window_sums(g, n->in[0], w), count);
}

plb_status plb_onnx_map_average_pool(plb_onnx_node *n) {
    plb_pool_attrs attrs;
    plb_onnx_window w;
    PLB_TRY(pool_attrs(n, &w, &attrs));
    for (int i = 0; i < w.axes; i++) {
        if (w.dilation[i] == 1) continue;
        dilated_average(n, &w);
        return PLB_OK;
    }
    n->out[0] = plb_avg_pool(n->graph, n->in[0], &attrs);
    return PLB_OK;
}

// Positions in planes of the extents dim[2…], counted along the last axis first, become such
// counted along the first: digits come off at the end, the last axis' before the others'.
static plb_value first_axis_first(plb_graph *g, plb_value at, const plb_shape *x) {
    plb_value found = plb_scalar(g, PLB_I64, 0);
    for (int i = x->rank - 1; i >= 2; i--) {
        plb_value extent = plb_scalar(g, PLB_I64, (double)x->dim[i]);
        found = plb_add(g, plb_mul(g, found, extent), plb_remainder(g, at, extent));
        at = plb_div(g, at, extent);
    }
    return found;
}

// Positions in x's planes become positions in all of x; column by column where told so.
static plb_value whole_positions(plb_onnx_node *n, plb_value index) {
    plb_graph *g = n->graph;
    plb_shape x = plb_onnx_type(n, 0).shape;
    int64_t plane = 1;
    for (int i = 2; i < x.rank; i++) plane *= x.dim[i];
    plb_value at = plb_cast(g, index, PLB_I64);
    if (plb_onnx_int(n, "storage_order", 0)) at = first_axis_first(g, at, &x);
    plb_shape lead = {.rank = x.rank};
    for (int i = 0; i < x.rank; i++) lead.dim[i] = i < 2 ? x.dim[i] : 1;
    plb_value nc = plb_iota(g, PLB_I64, &plb_shape_of(x.dim[0] * x.dim[1]), 0);
    return plb_add(g, at, plb_affine(g, plb_reshape(g, nc, &lead), (double)plane, 0));
}

plb_status plb_onnx_map_max_pool(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_dtype dtype = plb_onnx_type(n, 0).dtype;
    plb_pool_attrs attrs;
    plb_onnx_window w;
    PLB_TRY(pool_attrs(n, &w, &attrs));
    attrs.count_include_pad = 0;
    bool integers = !plb_dtype_is_float(dtype); // of 8 bits, so exact in f32
    plb_value x = integers ? plb_cast(g, n->in[0], PLB_F32) : n->in[0];
    plb_value y = plb_max_pool(g, x, &attrs);
    n->out[0] = integers ? plb_cast(g, y, dtype) : y;
    if (n->n_out > 1 && y != PLB_NONE) n->out[1] = whole_positions(n, y + 1);
    return PLB_OK;
}

static int64_t spatial_axes(int rank) {
    return ((INT64_C(1) << rank) - 1) & ~INT64_C(3);
}

static double norm_of(const plb_onnx_node *n) { // a float in the first version
    return n->opset < 2 ? plb_onnx_float(n, "p", 2) : (double)plb_onnx_int(n, "p", 2);
}

plb_status plb_onnx_map_global_pool(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    int rank = plb_onnx_type(n, 0).shape.rank;
    if (rank < 3) return plb_fail(PLB_EINVAL, "expected spatial axes");
    double p = strcmp(n->op, "GlobalLpPool") == 0 ? norm_of(n) : 2;
    plb_value x = n->in[0];
    if (strcmp(n->op, "GlobalMaxPool") == 0)
        n->out[0] = plb_amax(g, x, spatial_axes(rank), true);
    else if (strcmp(n->op, "GlobalLpPool") == 0) {
        n->out[0] = plb_norm(g, x, spatial_axes(rank), true, p);
    } else if (rank <= 5)
        n->out[0] = plb_global_avg_pool(g, x);
    else
        n->out[0] = plb_mean(g, x, spatial_axes(rank), true);
    return PLB_OK;
}

// (sum |x|^p)^(1/p)
plb_status plb_onnx_map_lp_pool(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_dtype dtype = plb_onnx_type(n, 0).dtype;
    plb_pool_attrs attrs;
    plb_onnx_window w;
    PLB_TRY(pool_attrs(n, &w, &attrs));
    double p = norm_of(n);
    plb_value power = plb_scalar(g, dtype, p), root = plb_scalar(g, dtype, 1 / p);
    plb_value y = plb_abs(g, n->in[0]);
    y = p == 2 ? plb_mul(g, y, y) : p == 1 ? y : plb_pow(g, y, power);
    y = window_sums(g, y, &w);
    n->out[0] = p == 2 ? plb_sqrt(g, y) : p == 1 ? y : plb_pow(g, y, root);
    return PLB_OK;
}

// Each element goes back to where MaxPool found it.
plb_status plb_onnx_map_max_unpool(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_type type = plb_onnx_type(n, 0);
    plb_shape x = type.shape, y = x;
    plb_onnx_window w;
    PLB_TRY(window_attrs(n, x.rank, NULL, &w));
    PLB_TRY(plb_onnx_bounded("extents", x.dim + 2, w.axes, 1));
    for (int i = 0; i < w.axes; i++) {
        y.dim[2 + i] = (x.dim[2 + i] - 1) * w.stride[i] - w.begin[i] - w.end[i] + w.kernel[i];
    }
    PLB_TRY(plb_shape_check(&y));
    plb_shape found = y;
    if (plb_onnx_given_in(n, 2)) {
        PLB_TRY(plb_onnx_known_ints(n, 2, found.dim, PLB_MAX_RANK, &found.rank));
        PLB_TRY(plb_shape_check(&found));
    }
    // Indices count in an output of the natural extents; more than that is filled with zeros.
    plb_shape flat = plb_shape_of(plb_shape_count(&y)), all = plb_shape_of(plb_shape_count(&x));
    plb_value zeros = plb_expand(g, plb_scalar(g, type.dtype, 0), &flat);
    plb_value put =
        plb_scatter(g, zeros, plb_reshape(g, n->in[1], &all), plb_reshape(g, n->in[0], &all), 0);
    plb_pad_attrs pad = {.mode = PLB_PAD_CONSTANT};
    if (found.rank != y.rank) return plb_fail(PLB_EINVAL, "output_shape of another rank");
    for (int i = 0; i < y.rank; i++) pad.after[i] = found.dim[i] - y.dim[i];
    n->out[0] = plb_pad(g, plb_reshape(g, put, &y), &pad);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- normalisation
static plb_status batch_norm_training(plb_onnx_node *n, double eps) {
    plb_graph *g = n->graph;
    plb_type type = plb_onnx_type(n, 0);
    double momentum = plb_onnx_float(n, "momentum", 0.9);
    int64_t axes = ((INT64_C(1) << type.shape.rank) - 1) & ~INT64_C(2);
    plb_value x = n->in[0];
    n->out[0] = plb_batch_norm(g, x, n->in[1], n->in[2], eps);
    plb_value fresh[2] = {plb_mean(g, x, axes, false), plb_var(g, x, axes, false, 0)};
    for (int i = 0; i < 2; i++) {
        plb_value old = plb_affine(g, n->in[3 + i], momentum, 0);
        fresh[i] = plb_cast(g, fresh[i], plb_onnx_type(n, 3 + i).dtype);
        n->out[1 + i] = plb_add(g, old, plb_affine(g, fresh[i], 1 - momentum, 0));
        int variable = plb_value_variable(g, n->in[3 + i]);
        if (n->scope->b->options->mode == PLB_ONNX_TRAIN && variable >= 0) {
            plb_assign(g, variable, n->out[1 + i]);
        }
    }
    return PLB_OK;
}

plb_status plb_onnx_map_batch_norm(plb_onnx_node *n) {
    double eps = plb_onnx_float(n, "epsilon", 1e-5);
    bool training = plb_onnx_int(n, "training_mode", 0) != 0;
    if (training && n->scope->b->options->mode != PLB_ONNX_EVAL) {
        return batch_norm_training(n, eps);
    }
    if (n->opset < 9 && !plb_onnx_int(n, "spatial", 1)) {
        return plb_onnx_refuse("statistics of each position (spatial = 0)");
    }
    plb_dtype dtype = plb_onnx_type(n, 0).dtype;
    plb_value in[5];
    for (int i = 0; i < 5; i++) {
        bool narrow = i && plb_onnx_type(n, i).dtype != dtype && n->in[i] != PLB_NONE;
        in[i] = narrow ? plb_cast(n->graph, n->in[i], dtype) : n->in[i];
    }
    n->out[0] = plb_batch_norm_infer(n->graph, in[0], in[1], in[2], in[3], in[4], eps);
    for (int i = 1; i < n->n_out && i < 5; i++) n->out[i] = n->in[i < 3 ? i + 2 : i];
    return PLB_OK;
}

plb_status plb_onnx_map_instance_norm(plb_onnx_node *n) {
    double eps = plb_onnx_float(n, "epsilon", 1e-5);
    n->out[0] = plb_instance_norm(n->graph, n->in[0], n->in[1], n->in[2], eps);
    return PLB_OK;
}

// Version 18 had a scale and shift for each group, version 21 has one for each channel.
plb_status plb_onnx_map_group_norm(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_shape x = plb_onnx_type(n, 0).shape;
    int64_t groups = plb_onnx_int(n, "num_groups", 1), c = x.dim[1];
    plb_value affine[2] = {n->in[1], n->in[2]};
    if (groups < 1 || c % groups) return plb_fail(PLB_EINVAL, "%lld groups", (long long)groups);
    for (int i = 0; i < 2 && n->opset < 21; i++) {
        plb_value wide = plb_reshape(g, affine[i], &plb_shape_of(groups, 1));
        wide = plb_expand(g, wide, &plb_shape_of(groups, c / groups));
        affine[i] = plb_reshape(g, wide, &plb_shape_of(c));
    }
    double eps = plb_onnx_float(n, "epsilon", 1e-5);
    n->out[0] = plb_group_norm(g, n->in[0], affine[0], affine[1], groups, eps);
    return PLB_OK;
}

static plb_status norm_axes(const plb_onnx_node *n, int *first, int64_t *set, plb_shape *tail) {
    plb_shape x = plb_onnx_type(n, 0).shape;
    PLB_TRY(plb_onnx_axis(plb_onnx_int(n, "axis", -1), x.rank, first));
    *set = 0;
    *tail = (plb_shape){0};
    for (int i = *first; i < x.rank; i++) {
        *set |= INT64_C(1) << i;
        tail->dim[tail->rank++] = x.dim[i];
    }
    return PLB_OK;
}

plb_status plb_onnx_map_layer_norm(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_type type = plb_onnx_type(n, 0);
    int first;
    int64_t set;
    plb_shape tail;
    double eps = plb_onnx_float(n, "epsilon", 1e-5);
    PLB_TRY(norm_axes(n, &first, &set, &tail));
    plb_value affine[2] = {n->in[1], plb_onnx_in(n, 2)};
    for (int i = 0; i < 2; i++) {
        if (affine[i] == PLB_NONE) continue;
        plb_shape shape = plb_value_shape(g, affine[i]);
        if (!plb_shape_equal(&shape, &tail)) affine[i] = plb_expand(g, affine[i], &tail);
    }
    n->out[0] = plb_layer_norm(g, n->in[0], affine[0], affine[1], tail.rank, eps);
    if (n->n_out < 2) return PLB_OK;
    plb_value x = type.dtype == PLB_F64 ? n->in[0] : plb_cast(g, n->in[0], PLB_F32);
    n->out[1] = plb_mean(g, x, set, true);
    n->out[2] = plb_rsqrt(g, plb_affine(g, plb_var(g, x, set, true, 0), 1, eps));
    return PLB_OK;
}

plb_status plb_onnx_map_rms_norm(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_dtype dtype = plb_onnx_type(n, 0).dtype;
    int first;
    int64_t set;
    plb_shape tail;
    PLB_TRY(norm_axes(n, &first, &set, &tail));
    plb_value x = dtype == PLB_F64 ? n->in[0] : plb_cast(g, n->in[0], PLB_F32);
    plb_value mean = plb_mean(g, plb_mul(g, x, x), set, true);
    plb_value scale = plb_rsqrt(g, plb_affine(g, mean, 1, plb_onnx_float(n, "epsilon", 1e-5)));
    plb_value y = plb_cast(g, plb_mul(g, x, scale), plb_onnx_type(n, 1).dtype);
    n->out[0] = plb_mul(g, y, n->in[1]);
    return PLB_OK;
}

plb_status plb_onnx_map_mean_variance(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    int64_t axes[PLB_MAX_RANK] = {0, 2, 3}, set;
    int count, rank = plb_onnx_type(n, 0).shape.rank;
    PLB_TRY(plb_onnx_ints(n, "axes", axes, PLB_MAX_RANK, &count));
    PLB_TRY(plb_onnx_axis_set(axes, plb_onnx_has(n, "axes") ? count : 3, rank, &set));
    plb_value x = n->in[0], centred = plb_sub(g, x, plb_mean(g, x, set, true));
    plb_value deviation = plb_sqrt(g, plb_var(g, x, set, true, 0));
    n->out[0] = plb_div(g, centred, plb_affine(g, deviation, 1, 1e-9));
    return PLB_OK;
}

// x / (bias + alpha / size * sum of squares over neighbouring channels)^beta
plb_status plb_onnx_map_lrn(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_type type = plb_onnx_type(n, 0);
    int64_t size = plb_onnx_int(n, "size", 1), c = type.shape.rank > 1 ? type.shape.dim[1] : 0;
    if (size < 1 || size > 1024 || !c) return plb_fail(PLB_EINVAL, "size %lld", (long long)size);
    plb_value x = n->in[0], sum = PLB_NONE;
    plb_pad_attrs pad = {.mode = PLB_PAD_CONSTANT};
    pad.before[1] = (size - 1) / 2;
    pad.after[1] = size - 1 - pad.before[1];
    plb_value squares = plb_pad(g, plb_mul(g, x, x), &pad);
    for (int64_t i = 0; i < size; i++) {
        plb_value part = plb_slice_axis(g, squares, 1, i, i + c);
        sum = sum == PLB_NONE ? part : plb_add(g, sum, part);
    }
    double alpha = plb_onnx_float(n, "alpha", 1e-4), beta = plb_onnx_float(n, "beta", 0.75);
    plb_value base = plb_affine(g, sum, alpha / (double)size, plb_onnx_float(n, "bias", 1));
    n->out[0] = plb_mul(g, x, plb_pow(g, base, plb_scalar(g, type.dtype, -beta)));
    return PLB_OK;
}

// ---------------------------------------------------------------------------- losses
static plb_loss_attrs loss_attrs(const plb_onnx_node *n) {
    plb_loss_attrs attrs = plb_loss_default();
    attrs.reduction = plb_onnx_is(n, "reduction", "mean", "sum")    ? PLB_REDUCE_SUM
                      : plb_onnx_is(n, "reduction", "mean", "none") ? PLB_REDUCE_NONE
                                                                    : PLB_REDUCE_MEAN;
    attrs.ignore_index = plb_onnx_int(n, "ignore_index", INT32_MIN);
    return attrs;
}

plb_status plb_onnx_map_nll(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_loss_attrs attrs = loss_attrs(n);
    n->out[0] = plb_nll(g, n->in[0], plb_cast(g, n->in[1], PLB_I64), plb_onnx_in(n, 2), &attrs);
    return PLB_OK;
}

plb_status plb_onnx_map_cross_entropy(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_loss_attrs attrs = loss_attrs(n);
    plb_value target = plb_cast(g, n->in[1], PLB_I64);
    n->out[0] = plb_cross_entropy(g, n->in[0], target, plb_onnx_in(n, 2), &attrs);
    if (n->n_out > 1) n->out[1] = plb_log_softmax(g, n->in[0], 1);
    return PLB_OK;
}
