// SPDX-License-Identifier: Apache-2.0
// Elements from place to place: any strides on both sides, elements of 1 to 16 bytes. Where the
// side that is written runs along another axis than the side that is read, a tile of shared memory
// turns them, so that both sides move whole lines.
#include "engine/device/cuda/kernels/move.h"

struct offsets {
    int64_t to, from;
};

// Indices fit in 32 bits where the count does, and such divisions are several times cheaper.
template <typename Index>
__device__ static offsets offsets_of(const plb_move_params &p, Index i) {
    offsets o = {0, 0};
    for (int axis = p.rank - 1; axis > 0; axis--) {
        Index dim = (Index)p.dim[axis], rest = i / dim, index = i - rest * dim;
        o.to += (int64_t)index * p.to_stride[axis];
        o.from += (int64_t)index * p.from_stride[axis];
        i = rest;
    }
    if (p.rank) {
        o.to += (int64_t)i * p.to_stride[0];
        o.from += (int64_t)i * p.from_stride[0];
    }
    return o;
}

template <typename Element, typename Index>
__device__ static void strided(const plb_move_params &p) {
    Element *to = (Element *)p.to;
    const Element *from = (const Element *)p.from;
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
        offsets o = offsets_of<Index>(p, (Index)i);
        to[o.to] = from[o.from];
    }
}

template <typename Element>
__device__ static void fill(const plb_move_params &p) {
    Element *to = (Element *)p.to, value = (Element)p.value;
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
        to[offsets_of<int64_t>(p, i).to] = value;
    }
}

// Blocks: x over tiles of columns and rows, y over the outer axes.
template <typename Element>
__device__ static void transposed(const plb_move_params &p) {
    __shared__ Element tile[PLB_MOVE_TILE][PLB_MOVE_TILE + 1];
    const int64_t wide = (p.columns + PLB_MOVE_TILE - 1) / PLB_MOVE_TILE;
    const int64_t column0 = blockIdx.x % wide * PLB_MOVE_TILE;
    const int64_t row0 = blockIdx.x / wide * PLB_MOVE_TILE;
    for (int64_t outer = blockIdx.y; outer < p.count; outer += gridDim.y) {
        offsets o = offsets_of<int64_t>(p, outer);
        Element *to = (Element *)p.to + o.to;
        const Element *from = (const Element *)p.from + o.from;
        int64_t row = row0 + threadIdx.x;
        for (int k = threadIdx.y; k < PLB_MOVE_TILE; k += PLB_MOVE_TILE_ROWS) {
            int64_t column = column0 + k;
            if (row < p.rows && column < p.columns) {
                tile[k][threadIdx.x] = from[row + column * p.from_column];
            }
        }
        __syncthreads();
        int64_t column = column0 + threadIdx.x;
        for (int k = threadIdx.y; k < PLB_MOVE_TILE; k += PLB_MOVE_TILE_ROWS) {
            if (row0 + k < p.rows && column < p.columns) {
                to[(row0 + k) * p.to_row + column] = tile[threadIdx.x][k];
            }
        }
        __syncthreads();
    }
}

#define PLB_MOVES(bytes, type)                                                                  \
    extern "C" __global__ void plb_move_strided_##bytes(const plb_move_params p) {              \
        p.count < (int64_t)1 << 31 ? strided<type, uint32_t>(p) : strided<type, int64_t>(p);    \
    }                                                                                           \
    extern "C" __global__ void plb_move_transposed_##bytes(const plb_move_params p) {           \
        transposed<type>(p);                                                                    \
    }
PLB_MOVES(1, uint8_t)
PLB_MOVES(2, uint16_t)
PLB_MOVES(4, uint32_t)
PLB_MOVES(8, uint64_t)

extern "C" __global__ void plb_move_strided_16(const plb_move_params p) {
    p.count < (int64_t)1 << 31 ? strided<uint4, uint32_t>(p) : strided<uint4, int64_t>(p);
}

extern "C" __global__ void plb_fill_1(const plb_move_params p) { fill<uint8_t>(p); }
extern "C" __global__ void plb_fill_2(const plb_move_params p) { fill<uint16_t>(p); }
extern "C" __global__ void plb_fill_4(const plb_move_params p) { fill<uint32_t>(p); }
extern "C" __global__ void plb_fill_8(const plb_move_params p) { fill<uint64_t>(p); }
