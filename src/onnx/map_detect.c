// SPDX-License-Identifier: Apache-2.0
// Ops of detectors: choosing boxes, pooling regions, convolutions whose taps move. Regions and
// moved taps are sampled by gathers of the four neighbours of each position, so that they have
// gradients.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "onnx/build.h"
#include "onnx/map.h"

plb_status plb_onnx_map_nms(plb_onnx_node *n) {
    double limits[3] = {0, 0, -INFINITY}; // boxes a class, overlap, score
    for (int i = 0; i < 3; i++) {
        if (plb_onnx_given_in(n, 2 + i)) PLB_TRY(plb_onnx_known_number(n, 2 + i, &limits[i]));
    }
    const plb_nms_attrs attrs = {.centred = plb_onnx_int(n, "center_point_box", 0) != 0,
                                 .most = (int64_t)fmin(fmax(limits[0], 0), 1e9),
                                 .most_overlap = limits[1],
                                 .least_score = limits[2]};
    n->out[0] = plb_nms(n->graph, n->in[0], n->in[1], &attrs);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- sampling
// Two taps along an axis of `extent`: positions inside it, and weights.
typedef struct taps {
    plb_value at[2], weight[2];
} taps;

// Positions clamped to the extent; those more than 1 outside count for nothing.
static taps clamped_taps(plb_graph *g, plb_value x, int64_t extent) {
    plb_dtype dtype = plb_value_type(g, x).dtype;
    double last = (double)(extent - 1);
    plb_value near = plb_and(g, plb_ge(g, x, plb_scalar(g, dtype, -1)),
                             plb_le(g, x, plb_scalar(g, dtype, last + 1)));
    plb_value p = plb_clamp(g, x, 0, last), low = plb_floor(g, p), d = plb_sub(g, p, low);
    plb_value inside = plb_cast(g, near, dtype);
    return (taps){{low, plb_clamp(g, plb_affine(g, low, 1, 1), 0, last)},
                  {plb_mul(g, plb_affine(g, d, -1, 1), inside), plb_mul(g, d, inside)}};
}

// Zeros around the extent: a tap outside has no weight.
static taps zero_taps(plb_graph *g, plb_value x, int64_t extent) {
    plb_dtype dtype = plb_value_type(g, x).dtype;
    plb_value last = plb_scalar(g, dtype, (double)(extent - 1)), zero = plb_scalar(g, dtype, 0);
    plb_value low = plb_floor(g, x), d = plb_sub(g, x, low);
    taps t = {{low, plb_affine(g, low, 1, 1)}, {plb_affine(g, d, -1, 1), d}};
    for (int i = 0; i < 2; i++) {
        plb_value inside = plb_and(g, plb_ge(g, t.at[i], zero), plb_le(g, t.at[i], last));
        t.weight[i] = plb_mul(g, t.weight[i], plb_cast(g, inside, dtype));
        t.at[i] = plb_clamp(g, t.at[i], 0, (double)(extent - 1));
    }
    return t;
}

// ---------------------------------------------------------------------------- RoiAlign
enum { MAX_SAMPLES = 64 }; // of a bin along an axis

typedef struct region_axis {
    int64_t extent, bins, samples; // of x; of the output; of a bin, at most
    plb_value position, used;      // [R, bins, samples]; used: PLB_NONE for all
    plb_value count;               // [R, 1, 1]: samples of a bin, PLB_NONE: `samples`
} region_axis;

static plb_value numbers(plb_graph *g, plb_dtype dtype, int64_t count, int rank, int axis) {
    plb_shape line = {.rank = rank};
    for (int i = 0; i < rank; i++) line.dim[i] = i == axis ? count : 1;
    return plb_iota(g, dtype, &line, axis);
}

// begin + (bin + (i + 0.5) / samples) * size / bins
static void place_samples(plb_graph *g, region_axis *a, plb_value begin, plb_value size,
                          int64_t samples, int64_t regions) {
    plb_dtype dtype = plb_value_type(g, begin).dtype;
    plb_shape column = plb_shape_of(regions, 1, 1);
    plb_value bin = plb_affine(g, plb_reshape(g, size, &column), 1 / (double)a->bins, 0);
    plb_value i = numbers(g, dtype, a->samples, 3, 2), step;
    a->used = a->count = PLB_NONE;
    if (samples) {
        step = plb_affine(g, plb_affine(g, i, 1, 0.5), 1 / (double)samples, 0);
    } else { // as many as the bin is long
        plb_value longest = plb_scalar(g, dtype, (double)a->samples);
        plb_value count =
            plb_min(g, plb_max(g, plb_ceil(g, bin), plb_scalar(g, dtype, 0)), longest);
        plb_shape all = plb_shape_of(regions, a->bins, a->samples);
        a->used = plb_expand(g, plb_lt(g, i, count), &all);
        a->count = plb_max(g, count, plb_scalar(g, dtype, 1));
        step = plb_div(g, plb_affine(g, i, 1, 0.5), a->count);
    }
    plb_value at = plb_add(g, numbers(g, dtype, a->bins, 3, 1), step);
    a->position = plb_add(g, plb_reshape(g, begin, &column), plb_mul(g, at, bin));
}

static plb_status read_regions(plb_onnx_node *n, region_axis axes[2], int64_t *regions) {
    plb_graph *g = n->graph;
    plb_type x = plb_onnx_type(n, 0), r = plb_onnx_type(n, 1);
    if (x.shape.rank != 4 || r.shape.rank != 2 || r.shape.dim[1] != 4) {
        return plb_fail(PLB_EINVAL, "expected x of rank 4 and regions [R, 4]");
    }
    *regions = r.shape.dim[0];
    bool half = n->opset >= 16 &&
                plb_onnx_is(n, "coordinate_transformation_mode", "half_pixel", "half_pixel");
    double scale = plb_onnx_float(n, "spatial_scale", 1), shift = half ? -0.5 : 0;
    int64_t samples = plb_onnx_int(n, "sampling_ratio", 0);
    for (int i = 0; i < 2; i++) { // regions are {x, y, x, y}
        region_axis *a = &axes[i];
        a->extent = x.shape.dim[2 + i];
        a->bins = plb_onnx_int(n, i ? "output_width" : "output_height", 1);
        PLB_TRY(plb_onnx_bounded("output extent", &a->bins, 1, 1));
        a->samples = samples ? samples : (a->extent + a->bins - 1) / a->bins + 1;
        if (a->samples < 1 || a->samples > MAX_SAMPLES) {
            return plb_onnx_refuse("%lld samples of a bin, more than %d", (long long)a->samples,
                                   MAX_SAMPLES);
        }
        plb_value begin = plb_slice_axis(g, n->in[1], 1, 1 - i, 2 - i);
        plb_value end = plb_slice_axis(g, n->in[1], 1, 3 - i, 4 - i);
        begin = plb_affine(g, begin, scale, shift);
        plb_value size = plb_sub(g, plb_affine(g, end, scale, shift), begin);
        if (!half) size = plb_max(g, size, plb_scalar(g, r.dtype, 1));
        place_samples(g, a, begin, size, samples, *regions);
    }
    return PLB_OK;
}

// x as [C, N H W]; a position of a region of batch b is (b H + y) W + x.
typedef struct sampler {
    plb_onnx_node *n;
    plb_value flat, batch; // batch: [R, 1, 1, 1, 1]
    plb_shape wide;        // [C, R, bins, samples, bins, samples]
    const region_axis *axes;
} sampler;

static plb_value along(plb_graph *g, plb_value x, const region_axis *a, int64_t regions, int axis) {
    plb_shape shape = axis ? plb_shape_of(regions, 1, 1, a->bins, a->samples)
                           : plb_shape_of(regions, a->bins, a->samples, 1, 1);
    return plb_reshape(g, x, &shape);
}

static plb_value corner(const sampler *s, const taps t[2], int i, int k) {
    plb_graph *g = s->n->graph;
    const region_axis *a = s->axes;
    int64_t r = s->wide.dim[1];
    // As integers before they are combined: floats have too few bits for places in large pictures.
    plb_value y = plb_cast(g, along(g, t[0].at[i], &a[0], r, 0), PLB_I64);
    plb_value x = plb_cast(g, along(g, t[1].at[k], &a[1], r, 1), PLB_I64);
    plb_value row = plb_add(g, plb_affine(g, s->batch, (double)a[0].extent, 0), y);
    plb_value at = plb_add(g, plb_affine(g, row, (double)a[1].extent, 0), x);
    plb_shape all = plb_value_shape(g, at);
    plb_value index = plb_reshape(g, at, &plb_shape_of(plb_shape_count(&all)));
    plb_value value = plb_reshape(g, plb_take(g, s->flat, index, 1), &s->wide);
    plb_value weight =
        plb_mul(g, along(g, t[0].weight[i], &a[0], r, 0), along(g, t[1].weight[k], &a[1], r, 1));
    return plb_mul(g, value, weight);
}

// The largest weighted neighbour of all samples, or the mean of what they make together.
static plb_value pool_samples(const sampler *s, const plb_value part[4], bool largest) {
    plb_graph *g = s->n->graph;
    const region_axis *a = s->axes;
    plb_dtype dtype = plb_value_type(g, part[0]).dtype;
    int64_t set = plb_axes(6, 2, (int[]){3, 5}), r = s->wide.dim[1];
    plb_value y = part[0];
    for (int i = 1; i < 4; i++) y = largest ? plb_max(g, y, part[i]) : plb_add(g, y, part[i]);
    if (a[0].used != PLB_NONE) {
        plb_value used =
            plb_and(g, along(g, a[0].used, &a[0], r, 0), along(g, a[1].used, &a[1], r, 1));
        y = plb_where(g, used, y, plb_scalar(g, dtype, largest ? -INFINITY : 0));
    }
    if (largest) return plb_amax(g, y, set, false);
    if (a[0].used == PLB_NONE) return plb_mean(g, y, set, false);
    plb_shape column = plb_shape_of(r, 1, 1);
    plb_value count = plb_mul(g, a[0].count, a[1].count);
    return plb_div(g, plb_sum(g, y, set, false), plb_reshape(g, count, &column));
}

plb_status plb_onnx_map_roi_align(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    region_axis axes[2];
    int64_t r = 0;
    PLB_TRY(read_regions(n, axes, &r));
    plb_shape x = plb_onnx_type(n, 0).shape;
    const int order[] = {1, 0, 2, 3};
    plb_value batch = plb_cast(g, plb_reshape(g, n->in[2], &plb_shape_of(r, 1, 1, 1, 1)), PLB_I64);
    sampler s = {.n = n,
                 .batch = batch,
                 .axes = axes,
                 .wide = plb_shape_of(x.dim[1], r, axes[0].bins, axes[0].samples, axes[1].bins,
                                      axes[1].samples)};
    PLB_TRY(plb_shape_check(&s.wide));
    s.flat = plb_reshape(g, plb_permute(g, n->in[0], order, 4),
                         &plb_shape_of(x.dim[1], x.dim[0] * x.dim[2] * x.dim[3]));
    taps t[2] = {clamped_taps(g, axes[0].position, axes[0].extent),
                 clamped_taps(g, axes[1].position, axes[1].extent)};
    plb_value part[4];
    for (int i = 0; i < 4; i++) part[i] = corner(&s, t, i / 2, i % 2);
    plb_value y = pool_samples(&s, part, plb_onnx_is(n, "mode", "avg", "max")); // [C, R, h, w]
    n->out[0] = plb_permute(g, y, order, 4);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- DeformConv
enum { MAX_POINTS = 1 << 26 }; // taps times positions

typedef struct moved {
    plb_onnx_node *n;
    plb_conv_attrs conv;
    int64_t kernel[2], out[2], taps, groups; // groups: of offsets
} moved;

// Where the taps of axis i would be: [taps, oh, ow].
static plb_value resting(const moved *m, int i, plb_dtype dtype) {
    plb_shape shape = plb_shape_of(m->taps, m->out[0], m->out[1]);
    int64_t count = plb_shape_count(&shape), plane = m->out[0] * m->out[1];
    double *at = plb_arena_alloc(m->n->scope->b->arena, (size_t)count * sizeof *at + 1);
    if (!at) return plb_graph_fail(m->n->graph, plb_fail(PLB_ENOMEM, "out of memory for taps"));
    for (int64_t k = 0; k < count; k++) {
        int64_t tap = k / plane, o = k % plane;
        tap = i ? tap % m->kernel[1] : tap / m->kernel[1];
        o = i ? o % m->out[1] : o / m->out[1];
        at[k] = (double)(o * m->conv.stride[i] - m->conv.pad_begin[i] + tap * m->conv.dilation[i]);
    }
    return plb_onnx_f64(m->n->graph, dtype, &shape, at);
}

static plb_status read_moved(plb_onnx_node *n, moved *m) {
    plb_shape x = plb_onnx_type(n, 0).shape, w = plb_onnx_type(n, 1).shape;
    *m = (moved){.n = n, .groups = plb_onnx_int(n, "offset_group", 1)};
    if (x.rank != 4) return plb_onnx_refuse("%d spatial axes: 2 are served", x.rank - 2);
    PLB_TRY(plb_onnx_conv_attrs(n, 0, 1, &m->conv));
    if (m->groups < 1 || m->conv.groups < 1 || x.dim[1] % m->groups || x.dim[1] % m->conv.groups ||
        w.dim[0] % m->conv.groups) {
        return plb_fail(PLB_EINVAL, "channels that the groups do not divide");
    }
    for (int i = 0; i < 2; i++) {
        m->kernel[i] = w.dim[2 + i];
        int64_t reach = m->conv.dilation[i] * (m->kernel[i] - 1) + 1;
        int64_t room = x.dim[2 + i] + m->conv.pad_begin[i] + m->conv.pad_end[i] - reach;
        if (room < 0) return plb_fail(PLB_EINVAL, "a kernel larger than its input");
        m->out[i] = room / m->conv.stride[i] + 1;
    }
    m->taps = m->kernel[0] * m->kernel[1];
    plb_shape all = plb_shape_of(m->taps, m->out[0], m->out[1]);
    PLB_TRY(plb_shape_check(&all));
    if (plb_shape_count(&all) <= MAX_POINTS) return PLB_OK;
    return plb_onnx_refuse("%lld taps in all", (long long)plb_shape_count(&all));
}

// All taps' values, as [N groups, C / groups, taps * oh * ow].
static plb_value moved_columns(const moved *m) {
    plb_onnx_node *n = m->n;
    plb_graph *g = n->graph;
    plb_type x = plb_onnx_type(n, 0);
    int64_t batch = x.shape.dim[0], rows = batch * m->groups, c = x.shape.dim[1] / m->groups;
    int64_t h = x.shape.dim[2], w = x.shape.dim[3], points = m->taps * m->out[0] * m->out[1];
    plb_shape split = plb_shape_of(rows, m->taps, 2, m->out[0], m->out[1]);
    plb_shape taps_shape = plb_shape_of(rows, m->taps, m->out[0], m->out[1]);
    plb_value offset = plb_reshape(g, n->in[2], &split), sum = PLB_NONE;
    taps t[2];
    for (int i = 0; i < 2; i++) {
        plb_value one = plb_reshape(g, plb_slice_axis(g, offset, 2, i, i + 1), &taps_shape);
        t[i] = zero_taps(g, plb_add(g, one, resting(m, i, x.dtype)), i ? w : h);
    }
    plb_value flat = plb_reshape(g, n->in[0], &plb_shape_of(rows, c, h * w));
    plb_shape line = plb_shape_of(rows, 1, points), wide = plb_shape_of(rows, c, points);
    for (int k = 0; k < 4; k++) {
        plb_value row = plb_cast(g, t[0].at[k / 2], PLB_I64);
        plb_value column = plb_cast(g, t[1].at[k % 2], PLB_I64);
        plb_value at = plb_add(g, plb_affine(g, row, (double)w, 0), column);
        plb_value index = plb_reshape(g, at, &line);
        plb_value weight = plb_mul(g, t[0].weight[k / 2], t[1].weight[k % 2]);
        plb_value part = plb_mul(g, plb_gather(g, flat, plb_expand(g, index, &wide), 2),
                                 plb_reshape(g, weight, &line));
        sum = sum == PLB_NONE ? part : plb_add(g, sum, part);
    }
    if (plb_onnx_given_in(n, 4)) sum = plb_mul(g, sum, plb_reshape(g, n->in[4], &line));
    return sum;
}

plb_status plb_onnx_map_deform_conv(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    moved m;
    PLB_TRY(read_moved(n, &m));
    plb_shape x = plb_onnx_type(n, 0).shape, w = plb_onnx_type(n, 1).shape;
    int64_t groups = m.conv.groups, plane = m.out[0] * m.out[1], k = x.dim[1] / groups * m.taps;
    plb_value columns =
        plb_reshape(g, moved_columns(&m), &plb_shape_of(x.dim[0], groups, k, plane));
    plb_value weights = plb_reshape(g, n->in[1], &plb_shape_of(1, groups, w.dim[0] / groups, k));
    plb_value y = plb_matmul(g, weights, columns, NULL);
    y = plb_reshape(g, y, &plb_shape_of(x.dim[0], w.dim[0], m.out[0], m.out[1]));
    if (plb_onnx_given_in(n, 3)) {
        y = plb_add(g, y, plb_reshape(g, n->in[3], &plb_shape_of(w.dim[0], 1, 1)));
    }
    n->out[0] = y;
    return PLB_OK;
}
