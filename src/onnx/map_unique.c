// SPDX-License-Identifier: Apache-2.0
// Unique: how many there are must be known when the plan is made, and so must the values. What the
// op gives is then a choice of rows, and constants.
#include <math.h>
#include <stdlib.h>

#include "base/core/status.h"
#include "onnx/build.h"
#include "onnx/map.h"

// Slices of t along an axis of `extent`: element (o, i) of slice s is (o * extent + s) * inner + i.
typedef struct pile {
    plb_tensor t;
    int64_t outer, extent, inner;
} pile;

typedef struct slice {
    const pile *of;
    int64_t index;
} slice;

// Equal slices are a group; groups are numbered in the order of their values at first.
typedef struct groups {
    int64_t n;
    int64_t *of;           // of each slice
    int64_t *first, *size; // of each group: its first slice, how many it has
} groups;

static int order_of(const plb_tensor *t, int64_t i, int64_t k) {
    if (plb_dtype_is_float(t->dtype)) {
        double a = plb_load_f64(t->data, t->dtype, i), b = plb_load_f64(t->data, t->dtype, k);
        if (isnan(a) || isnan(b)) return (isnan(a) != 0) - (isnan(b) != 0); // last, and all equal
        return (a > b) - (a < b);
    }
    int64_t a = plb_load_i64(t->data, t->dtype, i), b = plb_load_i64(t->data, t->dtype, k);
    if (t->dtype == PLB_U64) return ((uint64_t)a > (uint64_t)b) - ((uint64_t)a < (uint64_t)b);
    return (a > b) - (a < b);
}

static int by_values(const slice *a, const slice *b) {
    const pile *p = a->of;
    for (int64_t o = 0; o < p->outer; o++) {
        int64_t x = (o * p->extent + a->index) * p->inner,
                y = (o * p->extent + b->index) * p->inner;
        for (int64_t i = 0; i < p->inner; i++) {
            int order = order_of(&p->t, x + i, y + i);
            if (order) return order;
        }
    }
    return 0;
}

static int compare(const void *left, const void *right) {
    const slice *a = left, *b = right;
    int order = by_values(a, b);
    return order ? order : (a->index > b->index) - (a->index < b->index);
}

static plb_status group_slices(const pile *p, plb_arena *arena, groups *out) {
    size_t n = (size_t)p->extent + 1;
    slice *sorted = plb_arena_alloc(arena, n * sizeof *sorted);
    *out = (groups){.of = plb_arena_alloc(arena, n * sizeof *out->of),
                    .first = plb_arena_alloc(arena, n * sizeof *out->first),
                    .size = plb_arena_alloc(arena, n * sizeof *out->size)};
    if (!sorted || !out->of || !out->first || !out->size) {
        return plb_fail(PLB_ENOMEM, "out of memory for values to compare");
    }
    for (int64_t i = 0; i < p->extent; i++) sorted[i] = (slice){p, i};
    qsort(sorted, (size_t)p->extent, sizeof *sorted, compare);
    for (int64_t i = 0; i < p->extent; i++) {
        bool fresh = i == 0 || by_values(&sorted[i - 1], &sorted[i]) != 0;
        if (fresh) out->first[out->n++] = sorted[i].index;
        out->of[sorted[i].index] = out->n - 1;
        out->size[out->n - 1]++;
    }
    return PLB_OK;
}

// The groups numbered in the order in which they first appear.
static plb_status by_appearance(plb_arena *arena, int64_t extent, groups *g) {
    size_t n = (size_t)g->n + 1;
    int64_t *number = plb_arena_alloc(arena, n * sizeof *number), next = 0;
    groups fresh = {.n = g->n,
                    .of = g->of,
                    .first = plb_arena_alloc(arena, n * sizeof *fresh.first),
                    .size = plb_arena_alloc(arena, n * sizeof *fresh.size)};
    if (!number || !fresh.first || !fresh.size) {
        return plb_fail(PLB_ENOMEM, "out of memory for values to compare");
    }
    for (int64_t i = 0; i < extent; i++) {
        int64_t old = g->of[i];
        if (g->first[old] == i) {
            number[old] = next;
            fresh.first[next] = i, fresh.size[next] = g->size[old];
            next++;
        }
        g->of[i] = number[old];
    }
    *g = fresh;
    return PLB_OK;
}

plb_status plb_onnx_map_unique(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_arena *arena = n->scope->b->arena;
    plb_shape x = plb_onnx_type(n, 0).shape;
    plb_value from = n->in[0];
    pile p = {.outer = 1, .inner = 1};
    groups found;
    int axis = 0;
    PLB_TRY(plb_onnx_known(n, 0, &p.t));
    if (plb_onnx_has(n, "axis")) {
        PLB_TRY(plb_onnx_axis(plb_onnx_int(n, "axis", 0), x.rank, &axis));
    } else {
        x = plb_shape_of(plb_shape_count(&x));
        from = plb_reshape(g, from, &x);
    }
    for (int i = 0; i < axis; i++) p.outer *= x.dim[i];
    for (int i = axis + 1; i < x.rank; i++) p.inner *= x.dim[i];
    p.extent = x.dim[axis];
    PLB_TRY(group_slices(&p, arena, &found));
    if (!plb_onnx_int(n, "sorted", 1)) PLB_TRY(by_appearance(arena, p.extent, &found));
    n->out[0] = plb_take(g, from, plb_onnx_i64(g, found.first, found.n), axis);
    n->out[1] = plb_onnx_i64(g, found.first, found.n);
    n->out[2] = plb_onnx_i64(g, found.of, p.extent);
    n->out[3] = plb_onnx_i64(g, found.size, found.n);
    return PLB_OK;
}
