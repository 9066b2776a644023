// SPDX-License-Identifier: Apache-2.0
// Sampling at positions that are computed: GridSample and the grids that go with it.
#include <math.h>

#include "base/core/status.h"
#include "onnx/build.h"
#include "onnx/map.h"

typedef enum grid_pad { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION } grid_pad;

typedef struct grid {
    plb_onnx_node *n;
    plb_graph *g;
    plb_dtype dtype; // of positions
    int axes;
    grid_pad pad;
    bool corners, cubic, linear;
    int64_t extent[PLB_MAX_SPATIAL];
} grid;

// One tap along an axis: integral positions (of a float type), weights, and where it lies inside.
typedef struct tap {
    plb_value at, weight, inside; // weight, inside: PLB_NONE for 1, everywhere
} tap;

static plb_value number(const grid *s, double value) {
    return plb_scalar(s->g, s->dtype, value);
}

// Mirrored at the borders, as often as it takes.
static plb_value reflect(const grid *s, plb_value x, int axis) {
    plb_graph *g = s->g;
    double low = s->corners ? 0 : -0.5, high = (double)s->extent[axis] - (s->corners ? 1 : 0.5);
    double span = high - low;
    if (span <= 0) return plb_affine(g, x, 0, 0);
    plb_value away = plb_abs(g, plb_affine(g, x, 1, -low));
    plb_value turns = plb_floor(g, plb_affine(g, away, 1 / span, 0));
    plb_value rest = plb_sub(g, away, plb_affine(g, turns, span, 0));
    plb_value odd = plb_ne(g, plb_remainder(g, turns, number(s, 2)), number(s, 0));
    return plb_where(g, odd, plb_affine(g, rest, -1, high), plb_affine(g, rest, 1, low));
}

static plb_value padded(const grid *s, plb_value x, int axis) {
    if (s->pad == GRID_ZEROS) return x;
    if (s->pad == GRID_REFLECTION) x = reflect(s, x, axis);
    return plb_clamp(s->g, x, 0, (double)(s->extent[axis] - 1));
}

static tap tap_at(const grid *s, plb_value at, plb_value weight, int axis) {
    plb_graph *g = s->g;
    double last = (double)(s->extent[axis] - 1);
    tap t = {.at = at, .weight = weight, .inside = PLB_NONE};
    if (s->pad == GRID_ZEROS) {
        t.inside = plb_and(g, plb_ge(g, at, number(s, 0)), plb_le(g, at, number(s, last)));
    }
    t.at = plb_clamp(g, at, 0, last);
    return t;
}

// Keys' kernel with a = -0.75 at distance d from the tap, for |d| <= 1 and beyond.
static plb_value cubic_weight(const grid *s, plb_value d, bool inner) {
    plb_graph *g = s->g;
    const double a = -0.75;
    plb_value y;
    if (inner) { // ((a + 2) d - (a + 3)) d^2 + 1
        y = plb_mul(g, plb_affine(g, d, a + 2, -(a + 3)), plb_mul(g, d, d));
        return plb_affine(g, y, 1, 1);
    }
    y = plb_affine(g, plb_mul(g, plb_affine(g, d, a, -5 * a), d), 1, 8 * a);
    return plb_affine(g, plb_mul(g, y, d), 1, -4 * a);
}

// Taps along one axis of positions g in [-1, 1]; returns how many.
static int taps_of(const grid *s, plb_value position, int axis, tap *out) {
    plb_graph *g = s->g;
    double extent = (double)s->extent[axis];
    plb_value x = s->corners ? plb_affine(g, position, (extent - 1) / 2, (extent - 1) / 2)
                             : plb_affine(g, position, extent / 2, (extent - 1) / 2);
    if (!s->cubic) x = padded(s, x, axis);
    if (!s->cubic && !s->linear) {
        out[0] = tap_at(s, plb_round(g, x), PLB_NONE, axis);
        return 1;
    }
    plb_value base = plb_floor(g, x), d = plb_sub(g, x, base);
    if (s->linear) {
        out[0] = tap_at(s, base, plb_affine(g, d, -1, 1), axis);
        out[1] = tap_at(s, plb_affine(g, base, 1, 1), d, axis);
        return 2;
    }
    for (int k = 0; k < 4; k++) { // at base - 1 … base + 2
        plb_value distance = k < 2 ? plb_affine(g, d, 1, 1 - k) : plb_affine(g, d, -1, k - 1);
        plb_value at = padded(s, plb_affine(g, base, 1, k - 1), axis);
        if (s->pad == GRID_REFLECTION) at = plb_round(g, at);
        out[k] = tap_at(s, at, cubic_weight(s, distance, k == 1 || k == 2), axis);
    }
    return 4;
}

static plb_status read_grid(plb_onnx_node *n, grid *s) {
    plb_type x = plb_onnx_type(n, 0), positions = plb_onnx_type(n, 1);
    *s = (grid){.n = n, .g = n->graph, .dtype = positions.dtype, .axes = x.shape.rank - 2};
    if (s->axes < 1 || s->axes > PLB_MAX_SPATIAL || positions.shape.rank != x.shape.rank ||
        positions.shape.dim[x.shape.rank - 1] != s->axes) {
        return plb_fail(PLB_EINVAL, "a grid of rank %d on a value of rank %d", positions.shape.rank,
                        x.shape.rank);
    }
    for (int i = 0; i < s->axes; i++) s->extent[i] = x.shape.dim[2 + i];
    s->corners = plb_onnx_int(n, "align_corners", 0) != 0;
    const char *missing = n->opset < 20 ? "bilinear" : "linear";
    s->linear =
        plb_onnx_is(n, "mode", missing, "linear") || plb_onnx_is(n, "mode", missing, "bilinear");
    s->cubic =
        plb_onnx_is(n, "mode", missing, "cubic") || plb_onnx_is(n, "mode", missing, "bicubic");
    if (plb_onnx_is(n, "padding_mode", "zeros", "border")) s->pad = GRID_BORDER;
    if (plb_onnx_is(n, "padding_mode", "zeros", "reflection")) s->pad = GRID_REFLECTION;
    return PLB_OK;
}

// x[N,C,L] at flat positions[N,P]: [N,C,P].
static plb_value pick(const grid *s, plb_value x, plb_value at) {
    plb_graph *g = s->g;
    plb_shape t = plb_value_shape(g, x), p = plb_value_shape(g, at);
    plb_value index = plb_reshape(g, at, &plb_shape_of(p.dim[0], 1, p.dim[1]));
    return plb_gather(g, x, plb_expand(g, index, &plb_shape_of(t.dim[0], t.dim[1], p.dim[1])), 2);
}

// One corner of the cell: the taps taps[axis][which[axis]] together.
static plb_value corner(const grid *s, plb_value x, tap taps[PLB_MAX_SPATIAL][4],
                        const int *which) {
    plb_graph *g = s->g;
    plb_dtype dtype = plb_value_type(g, x).dtype;
    plb_value at = PLB_NONE, weight = PLB_NONE, inside = PLB_NONE;
    for (int i = 0; i < s->axes; i++) {
        const tap *t = &taps[i][which[i]];
        plb_value here = plb_cast(g, t->at, PLB_I64); // floats have too few bits for large pictures
        at = at == PLB_NONE ? here : plb_add(g, plb_affine(g, at, (double)s->extent[i], 0), here);
        if (t->weight != PLB_NONE)
            weight = weight == PLB_NONE ? t->weight : plb_mul(g, weight, t->weight);
        if (t->inside != PLB_NONE)
            inside = inside == PLB_NONE ? t->inside : plb_and(g, inside, t->inside);
    }
    plb_shape p = plb_value_shape(g, at), wide = plb_shape_of(p.dim[0], 1, p.dim[1]);
    plb_value y = pick(s, x, at);
    if (inside != PLB_NONE) {
        y = plb_where(g, plb_reshape(g, inside, &wide), y, plb_scalar(g, dtype, 0));
    }
    if (weight == PLB_NONE) return y;
    return plb_mul(g, y, plb_cast(g, plb_reshape(g, weight, &wide), dtype));
}

plb_status plb_onnx_map_grid_sample(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    grid s;
    tap taps[PLB_MAX_SPATIAL][4];
    int count = 0, which[PLB_MAX_SPATIAL] = {0};
    PLB_TRY(read_grid(n, &s));
    plb_shape x = plb_onnx_type(n, 0).shape, p = plb_onnx_type(n, 1).shape, out = x;
    int64_t length = 1, points = 1;
    for (int i = 0; i < s.axes; i++) {
        length *= x.dim[2 + i];
        points *= p.dim[1 + i];
        out.dim[2 + i] = p.dim[1 + i];
    }
    plb_value positions = plb_reshape(g, n->in[1], &plb_shape_of(p.dim[0], points, s.axes));
    for (int i = 0; i < s.axes; i++) { // the grid's last axis runs from the last axis of x
        plb_value one = plb_slice_axis(g, positions, 2, s.axes - 1 - i, s.axes - i);
        count = taps_of(&s, plb_reshape(g, one, &plb_shape_of(p.dim[0], points)), i, taps[i]);
    }
    plb_value flat = plb_reshape(g, n->in[0], &plb_shape_of(x.dim[0], x.dim[1], length));
    plb_value sum = PLB_NONE;
    int all = 1;
    for (int i = 0; i < s.axes; i++) all *= count;
    for (int c = 0; c < all; c++) {
        for (int i = 0, rest = c; i < s.axes; i++, rest /= count) which[i] = rest % count;
        plb_value part = corner(&s, flat, taps, which);
        sum = sum == PLB_NONE ? part : plb_add(g, sum, part);
        PLB_TRY(plb_graph_status(g));
    }
    n->out[0] = plb_reshape(g, sum, &out);
    return PLB_OK;
}

// Where theta[N, d, d + 1] takes the points of a regular grid.
plb_status plb_onnx_map_affine_grid(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_dtype dtype = plb_onnx_type(n, 0).dtype;
    int64_t size[PLB_MAX_RANK], points;
    int rank;
    PLB_TRY(plb_onnx_known_ints(n, 1, size, PLB_MAX_RANK, &rank));
    if (rank < 4 || rank > 5) return plb_fail(PLB_EINVAL, "a size of %d numbers", rank);
    PLB_TRY(plb_onnx_bounded("size", size, rank, 1));
    PLB_TRY(plb_onnx_rank(n, 0, 3, 3));
    int axes = rank - 2;
    bool corners = plb_onnx_int(n, "align_corners", 0) != 0;
    plb_shape space = {.rank = axes}, out = {.rank = rank};
    for (int i = 0; i < axes; i++) space.dim[i] = out.dim[1 + i] = size[2 + i];
    out.dim[0] = size[0], out.dim[rank - 1] = axes;
    PLB_TRY(plb_shape_check(&out));
    points = plb_shape_count(&space);
    plb_value columns[PLB_MAX_SPATIAL + 1];
    for (int i = 0; i < axes; i++) { // x first
        int axis = axes - 1 - i;
        double extent = (double)space.dim[axis];
        double step = corners ? (extent > 1 ? 2 / (extent - 1) : 0) : 2 / extent;
        plb_value c = plb_iota(g, dtype, &space, axis);
        c = plb_affine(g, c, step, corners ? -1 : -1 + 1 / extent);
        columns[i] = plb_reshape(g, c, &plb_shape_of(points, 1));
    }
    columns[axes] = plb_expand(g, plb_scalar(g, dtype, 1), &plb_shape_of(points, 1));
    plb_value base = plb_concat(g, columns, axes + 1, 1);
    plb_value y = plb_matmul(g, base, n->in[0], &(plb_matmul_attrs){.trans_b = 1});
    n->out[0] = plb_reshape(g, y, &out);
    return PLB_OK;
}
