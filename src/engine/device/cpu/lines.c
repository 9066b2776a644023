// SPDX-License-Identifier: Apache-2.0
#include "engine/device/cpu/lines.h"

plb_line_set plb_line_set_of(const plb_tensor *const *operands, int n, int64_t axis) {
    const plb_shape *shape = &operands[0]->shape;
    plb_line_set set = {.extent = shape->rank ? shape->dim[axis] : 1};
    plb_shape others = *shape;
    if (others.rank) others.dim[axis] = 1;
    set.nest = plb_nest_of(&others);
    set.rows = true;
    for (int k = 0; k < n; k++) {
        plb_tensor lines = *operands[k];
        set.stride[k] = shape->rank ? lines.stride[axis] : 1;
        lines.shape = others;
        plb_nest_add(&set.nest, &lines);
    }
    plb_nest_simplify(&set.nest, 1);
    set.count = plb_nest_count(&set.nest);
    for (int k = 0; k < n; k++) {
        bool steps = set.nest.rank == 1 && (set.count == 1 || set.nest.stride[k][0] == set.extent);
        set.rows &= steps && (set.extent == 1 || set.stride[k] == 1);
    }
    set.group = set.extent ? PLB_LINES_ELEMENTS / set.extent : 1;
    // Lines side by side share cache lines: never fewer than a cache line's worth.
    if (!set.rows && set.group < 16) set.group = 16;
    if (set.group < 1) set.group = 1;
    if (set.group > set.count) set.group = set.count;
    return set;
}

size_t plb_lines_bytes(const plb_line_set *set) {
    size_t bytes = (size_t)(set->group * set->extent) * sizeof(float);
    return (bytes + 63) / 64 * 64;
}

const float *plb_lines_get(const plb_line_set *set, int k, const float *data, int64_t first,
                           int64_t n, float *rows) {
    if (set->rows) return data + first * set->extent;
    const int64_t stride = set->stride[k];
    for (int64_t c = 0; c < n;) { // lines of one run of the innermost axis
        const int inner = set->nest.rank - 1;
        int64_t run = set->nest.dim[inner] - (first + c) % set->nest.dim[inner];
        if (run > n - c) run = n - c;
        const int64_t step = set->nest.stride[k][inner];
        const float *from = data + plb_nest_offset(&set->nest, k, inner + 1, first + c);
        for (int64_t i = 0; i < set->extent; i++) {
            for (int64_t j = 0; j < run; j++) {
                rows[(c + j) * set->extent + i] = from[i * stride + j * step];
            }
        }
        c += run;
    }
    return rows;
}

float *plb_lines_place(const plb_line_set *set, float *data, int64_t first, float *rows) {
    return set->rows ? data + first * set->extent : rows;
}

void plb_lines_put(const plb_line_set *set, int k, float *data, int64_t first, int64_t n,
                   const float *rows) {
    if (set->rows) return;
    const int64_t stride = set->stride[k];
    for (int64_t c = 0; c < n;) {
        const int inner = set->nest.rank - 1;
        int64_t run = set->nest.dim[inner] - (first + c) % set->nest.dim[inner];
        if (run > n - c) run = n - c;
        const int64_t step = set->nest.stride[k][inner];
        float *to = data + plb_nest_offset(&set->nest, k, inner + 1, first + c);
        for (int64_t i = 0; i < set->extent; i++) {
            for (int64_t j = 0; j < run; j++) {
                to[i * stride + j * step] = rows[(c + j) * set->extent + i];
            }
        }
        c += run;
    }
}
