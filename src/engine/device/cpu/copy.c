// SPDX-License-Identifier: Apache-2.0
// The destination decides the order: its innermost axis is the inner loop. Where the source lies
// densely along another axis, the two are walked in square tiles, so that neither side uses a
// cache line for one element only.
#include "engine/device/cpu/copy.h"

#include <stdlib.h>
#include <string.h>

enum { TILE = 32, FEW = 4 };

typedef struct copier {
    plb_nest nest; // operands: to, from
    char *to;
    const char *from;
    size_t size;
} copier;

// ---------------------------------------------------------------------------- rows
#define STRIDED_ROW(type)                                                                      \
    static void row_##type(char *to, int64_t to_stride, const char *from, int64_t from_stride, \
                           int64_t n) {                                                        \
        type *y = (type *)to;                                                                  \
        const type *x = (const type *)from;                                                    \
        if (to_stride == 1 && from_stride == 0) {                                              \
            const type value = x[0];                                                           \
            for (int64_t i = 0; i < n; i++) y[i] = value;                                      \
        } else if (to_stride == 1) {                                                           \
            for (int64_t i = 0; i < n; i++) y[i] = x[i * from_stride];                         \
        } else {                                                                               \
            for (int64_t i = 0; i < n; i++) y[i * to_stride] = x[i * from_stride];             \
        }                                                                                      \
    }
STRIDED_ROW(uint8_t)
STRIDED_ROW(uint16_t)
STRIDED_ROW(uint32_t)
STRIDED_ROW(uint64_t)
#undef STRIDED_ROW

static void copy_row(const copier *c, char *to, const char *from) {
    const int inner = c->nest.rank - 1;
    const int64_t n = c->nest.dim[inner];
    const int64_t ts = c->nest.stride[0][inner], fs = c->nest.stride[1][inner];
    if (ts == 1 && fs == 1) {
        memcpy(to, from, (size_t)n * c->size);
        return;
    }
    switch (c->size) {
    case 1: row_uint8_t(to, ts, from, fs, n); break;
    case 2: row_uint16_t(to, ts, from, fs, n); break;
    case 4: row_uint32_t(to, ts, from, fs, n); break;
    default: row_uint64_t(to, ts, from, fs, n); break;
    }
}

static void copy_rows(const copier *c, plb_span rows) {
    const int axes = c->nest.rank - 1;
    const int64_t size = (int64_t)c->size;
    const int64_t *dim = c->nest.dim;
    int64_t index[PLB_NEST_RANK] = {0}, rest = rows.begin;
    for (int i = axes - 1; i >= 0; rest /= dim[i], i--) index[i] = rest % dim[i];
    int64_t to = plb_nest_offset(&c->nest, 0, axes, rows.begin);
    int64_t from = plb_nest_offset(&c->nest, 1, axes, rows.begin);
    for (int64_t r = rows.begin; r < rows.end; r++) {
        copy_row(c, c->to + to * size, c->from + from * size);
        for (int i = axes - 1; i >= 0; i--) { // step the outer axes like an odometer
            to += c->nest.stride[0][i], from += c->nest.stride[1][i];
            if (++index[i] < dim[i]) break;
            to -= dim[i] * c->nest.stride[0][i], from -= dim[i] * c->nest.stride[1][i];
            index[i] = 0;
        }
    }
}

// ---------------------------------------------------------------------------- transpositions
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

static inline void transpose_4x4(float *to, int64_t to_stride, const float *from,
                                 int64_t from_stride) {
    four a = *(const four *)from, b = *(const four *)(from + from_stride);
    four c = *(const four *)(from + 2 * from_stride), d = *(const four *)(from + 3 * from_stride);
    four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    four cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    four AB = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    four CD = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(four *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(four *)(to + to_stride) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    *(four *)(to + 2 * to_stride) = __builtin_shufflevector(AB, CD, 0, 1, 4, 5);
    *(four *)(to + 3 * to_stride) = __builtin_shufflevector(AB, CD, 2, 3, 6, 7);
}

// to[i][j] = from[j][i] for i < rows, j < columns; both dense along their last axis.
static void tile_4_bytes(char *to_, int64_t to_stride, const char *from_, int64_t from_stride,
                         int64_t rows, int64_t columns) {
    float *to = (float *)to_;
    const float *from = (const float *)from_;
    int64_t i = 0;
    for (; i + FEW <= rows; i += FEW) {
        int64_t j = 0;
        for (; j + FEW <= columns; j += FEW) {
            transpose_4x4(to + i * to_stride + j, to_stride, from + j * from_stride + i,
                          from_stride);
        }
        for (; j < columns; j++) {
            for (int64_t k = i; k < i + FEW; k++) to[k * to_stride + j] = from[j * from_stride + k];
        }
    }
    for (; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) to[i * to_stride + j] = from[j * from_stride + i];
    }
}

static void tile_any(size_t size, char *to, int64_t to_stride, const char *from,
                     int64_t from_stride, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            memcpy(to + (size_t)(i * to_stride + j) * size,
                   from + (size_t)(j * from_stride + i) * size, size);
        }
    }
}

// One tile of the plane that axis `dense` of the source and the innermost axis span.
static void copy_tile(const copier *c, int dense, char *to, const char *from, int64_t i,
                      int64_t j) {
    const int inner = c->nest.rank - 1;
    const int64_t size = (int64_t)c->size;
    const int64_t ts = c->nest.stride[0][dense], fs = c->nest.stride[1][inner];
    const int64_t rows = c->nest.dim[dense] - i < TILE ? c->nest.dim[dense] - i : TILE;
    const int64_t columns = c->nest.dim[inner] - j < TILE ? c->nest.dim[inner] - j : TILE;
    to += (i * ts + j) * size;
    from += (j * fs + i) * size;
    if (c->size == 4) {
        tile_4_bytes(to, ts, from, fs, rows, columns);
    } else {
        tile_any(c->size, to, ts, from, fs, rows, columns);
    }
}

// Planes of the axes other than `dense` and the innermost, cut into bands of TILE rows.
static void copy_bands(const copier *c, int dense, plb_span bands) {
    const int inner = c->nest.rank - 1;
    const int64_t of_plane = (c->nest.dim[dense] + TILE - 1) / TILE, size = (int64_t)c->size;
    plb_nest planes = c->nest;
    planes.dim[dense] = 1;
    for (int64_t band = bands.begin; band < bands.end; band++) {
        const int64_t plane = band / of_plane, i = band % of_plane * TILE;
        char *to = c->to + plb_nest_offset(&planes, 0, inner, plane) * size;
        const char *from = c->from + plb_nest_offset(&planes, 1, inner, plane) * size;
        for (int64_t j = 0; j < c->nest.dim[inner]; j += TILE) copy_tile(c, dense, to, from, i, j);
    }
}

// The axis along which the source is dense, when it is worth tiles; -1: rows will do.
static int dense_axis(const copier *c) {
    const int inner = c->nest.rank - 1;
    if (c->nest.stride[0][inner] != 1 || llabs(c->nest.stride[1][inner]) < FEW) return -1;
    for (int i = 0; i < inner; i++) {
        if (c->nest.stride[1][i] == 1 && c->nest.dim[i] >= FEW) return i;
    }
    return -1;
}

static void run(const copier *c, int threads) {
    const int64_t count = plb_nest_count(&c->nest);
    if (count == 0) return;
    const int inner = c->nest.rank - 1, dense = dense_axis(c);
    int64_t parts = count / c->nest.dim[inner];
    if (dense >= 0) {
        parts = parts / c->nest.dim[dense] * ((c->nest.dim[dense] + TILE - 1) / TILE);
    }
    threads = plb_worth_threads(count, threads);
    if (parts < threads) threads = (int)parts;
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        plb_span span = plb_span_of(parts, i, threads);
        if (dense >= 0) {
            copy_bands(c, dense, span);
        } else {
            copy_rows(c, span);
        }
    }
}

// A single long row is cut in two axes, so that threads find something to share.
static void cut_row(plb_nest *nest) {
    enum { PIECE = 4096 };
    const int64_t n = nest->dim[nest->rank - 1];
    if (nest->rank != 2 || nest->dim[0] != 1 || n % PIECE || n < 2 * PIECE) return;
    nest->dim[0] = n / PIECE, nest->dim[1] = PIECE;
    for (int k = 0; k < nest->n; k++) nest->stride[k][0] = nest->stride[k][1] * PIECE;
}

static void copy_dense(char *to, const char *from, int64_t count, size_t size, int threads) {
    threads = plb_worth_threads(count, threads);
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        plb_span span = plb_span_of(count, i, threads);
        memcpy(to + (size_t)span.begin * size, from + (size_t)span.begin * size,
               (size_t)(span.end - span.begin) * size);
    }
}

void plb_copy_strided(const plb_tensor *to, const plb_tensor *from, int threads) {
    copier c = {.nest = plb_nest_of(&to->shape),
                .to = to->data,
                .from = from->data,
                .size = plb_dtype_size(to->dtype)};
    plb_nest_add(&c.nest, to);
    plb_nest_add(&c.nest, from);
    plb_nest_simplify(&c.nest, 2);
    const int inner = c.nest.rank - 1;
    if (inner == 1 && c.nest.dim[0] == 1 && c.nest.stride[0][1] == 1 && c.nest.stride[1][1] == 1) {
        copy_dense(c.to, c.from, c.nest.dim[1], c.size, threads);
        return;
    }
    cut_row(&c.nest);
    run(&c, threads);
}

void plb_fill_strided(const plb_tensor *to, const void *element, int threads) {
    plb_tensor one = *to;
    one.data = (void *)element; // read only
    for (int i = 0; i < one.shape.rank; i++) one.stride[i] = 0;
    plb_copy_strided(to, &one, threads);
}
