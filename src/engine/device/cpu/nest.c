// SPDX-License-Identifier: Apache-2.0
#include "engine/device/cpu/nest.h"

#include <stdlib.h>
#include <string.h>

enum { ELEMENTS_A_THREAD = 32768 };

plb_nest plb_nest_of(const plb_shape *shape) {
    plb_nest nest = {.rank = shape->rank};
    memcpy(nest.dim, shape->dim, (size_t)shape->rank * sizeof *shape->dim);
    return nest;
}

void plb_nest_add(plb_nest *nest, const plb_tensor *tensor) {
    int64_t *stride = nest->stride[nest->n++];
    const int lead = nest->rank - tensor->shape.rank;
    for (int i = 0; i < nest->rank; i++) {
        bool there = i >= lead && tensor->shape.dim[i - lead] != 1;
        stride[i] = there ? tensor->stride[i - lead] : 0;
    }
}

// Whether axis b belongs outside axis a.
static bool outside(const plb_nest *nest, int a, int b) {
    for (int k = 0; k < nest->n; k++) {
        int64_t sa = llabs(nest->stride[k][a]), sb = llabs(nest->stride[k][b]);
        if (sa != sb) return sb > sa;
    }
    return false;
}

static void swap_axes(plb_nest *nest, int a, int b) {
    int64_t t = nest->dim[a];
    nest->dim[a] = nest->dim[b], nest->dim[b] = t;
    for (int k = 0; k < nest->n; k++) {
        t = nest->stride[k][a];
        nest->stride[k][a] = nest->stride[k][b], nest->stride[k][b] = t;
    }
}

static void move_axis(plb_nest *nest, int to, int from) {
    nest->dim[to] = nest->dim[from];
    for (int k = 0; k < nest->n; k++) nest->stride[k][to] = nest->stride[k][from];
}

static bool joins(const plb_nest *nest, int outer, int inner) {
    for (int k = 0; k < nest->n; k++) {
        if (nest->stride[k][outer] != nest->stride[k][inner] * nest->dim[inner]) return false;
    }
    return true;
}

void plb_nest_simplify(plb_nest *nest, int least) {
    int rank = 0;
    for (int i = 0; i < nest->rank; i++) {
        if (nest->dim[i] != 1) move_axis(nest, rank++, i);
    }
    for (int i = 1; i < rank; i++) { // insertion keeps the order of equals
        for (int j = i; j > 0 && outside(nest, j - 1, j); j--) swap_axes(nest, j - 1, j);
    }
    int last = 0;
    for (int i = 1; i < rank; i++) {
        if (joins(nest, last, i)) {
            int64_t extent = nest->dim[last] * nest->dim[i];
            move_axis(nest, last, i);
            nest->dim[last] = extent;
        } else {
            move_axis(nest, ++last, i);
        }
    }
    nest->rank = rank ? last + 1 : 0;
    for (; nest->rank < least; nest->rank++) {
        for (int i = nest->rank; i > 0; i--) move_axis(nest, i, i - 1);
        nest->dim[0] = 1;
        for (int k = 0; k < nest->n; k++) nest->stride[k][0] = 0;
    }
}

int64_t plb_nest_count(const plb_nest *nest) {
    int64_t count = 1;
    for (int i = 0; i < nest->rank; i++) count *= nest->dim[i];
    return count;
}

int64_t plb_nest_offset(const plb_nest *nest, int k, int axes, int64_t i) {
    int64_t offset = 0;
    for (int axis = axes - 1; axis >= 0; axis--) {
        offset += i % nest->dim[axis] * nest->stride[k][axis];
        i /= nest->dim[axis];
    }
    return offset;
}

int plb_worth_threads(int64_t elements, int threads) {
    int64_t worth = elements / ELEMENTS_A_THREAD;
    return worth < 2 ? 1 : worth < threads ? (int)worth : threads;
}

plb_span plb_span_of(int64_t count, int part, int of) {
    int64_t each = count / of, rest = count % of;
    int64_t begin = part * each + (part < rest ? part : rest);
    return (plb_span){begin, begin + each + (part < rest)};
}
