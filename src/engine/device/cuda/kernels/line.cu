// SPDX-License-Identifier: Apache-2.0
// Running sums, and sorting in shared memory.
#include "engine/device/cuda/kernels/line.h"

#include "engine/device/cuda/kernels/own.cuh"

__device__ static int64_t first_of(const plb_line_params &p, int64_t line) {
    const int64_t outer = line / p.inner;
    return outer * p.extent * p.inner + (line - outer * p.inner);
}

// ---------------------------------------------------------------------------- cumsum
struct float_cells {
    typedef double cell;
    __device__ static cell load(const void *data, int dtype, int64_t i) {
        return load_float(data, dtype, i);
    }
    __device__ static void store(void *data, int dtype, int64_t i, cell value) {
        store_float(data, dtype, i, value);
    }
};
struct integer_cells {
    typedef int64_t cell;
    __device__ static cell load(const void *data, int dtype, int64_t i) {
        return load_integer(data, dtype, i);
    }
    __device__ static void store(void *data, int dtype, int64_t i, cell value) {
        store_integer(data, dtype, i, value);
    }
};

// A block a line, as many elements as threads at a time: sums within warps, over warps, and what
// came before.
template <typename Cells>
__device__ static void scan_blocks(const plb_operands &at, const plb_line_params &p) {
    typedef typename Cells::cell A;
    __shared__ A of_warp[PLB_LINE_THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int64_t line = blockIdx.x; line < p.lines; line += gridDim.x) {
        const int64_t first = first_of(p, line);
        A before = 0;
        for (int begin = 0; begin < p.extent; begin += PLB_LINE_THREADS) {
            const int n = begin + threadIdx.x, k = p.reverse ? p.extent - 1 - n : n;
            const int64_t i = first + (int64_t)k * p.inner;
            const A own = n < p.extent ? Cells::load(at.in[0], p.dtype, i) : (A)0;
            A sum = own;
#pragma unroll
            for (int step = 1; step < 32; step *= 2) {
                const A left = __shfl_up_sync(~0u, sum, step);
                if (lane >= step) sum += left;
            }
            if (lane == 31) of_warp[warp] = sum;
            __syncthreads();
            A offset = before;
            for (int w = 0; w < PLB_LINE_THREADS / 32; w++) {
                if (w < warp) offset += of_warp[w];
                before += of_warp[w];
            }
            sum += offset;
            // Not sum - own: that would round, and of infinities make a NaN.
            A left = __shfl_up_sync(~0u, sum, 1);
            if (lane == 0) left = offset;
            if (n < p.extent) Cells::store(at.out[0], p.dtype, i, p.exclusive ? left : sum);
            __syncthreads();
        }
    }
}

// A thread a line, for lines across memory.
template <typename Cells>
__device__ static void scan_threads(const plb_operands &at, const plb_line_params &p) {
    typedef typename Cells::cell A;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t line = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; line < p.lines;
         line += step) {
        const int64_t first = first_of(p, line);
        A before = 0;
        for (int n = 0; n < p.extent; n++) {
            const int64_t i = first + (int64_t)(p.reverse ? p.extent - 1 - n : n) * p.inner;
            const A after = before + Cells::load(at.in[0], p.dtype, i);
            Cells::store(at.out[0], p.dtype, i, p.exclusive ? before : after);
            before = after;
        }
    }
}

#define PLB_SCAN(name, function, Cells)                              \
    PLB_GLOBAL void __launch_bounds__(PLB_LINE_THREADS)              \
        plb_##name(const plb_operands at, const plb_line_params p) { \
        begin();                                                     \
        function<Cells>(at, p);                                      \
    }
PLB_SCAN(cumsum_blocks_float, scan_blocks, float_cells)
PLB_SCAN(cumsum_blocks_integer, scan_blocks, integer_cells)
PLB_SCAN(cumsum_threads_float, scan_threads, float_cells)
PLB_SCAN(cumsum_threads_integer, scan_threads, integer_cells)

// ---------------------------------------------------------------------------- sorting
// A number whose order as u64 is that of the elements: NaN above all, -0 and 0 equal.
__device__ static uint64_t key_of(const void *data, int dtype, int64_t i) {
    if (is_float(dtype)) {
        const double value = load_float(data, dtype, i);
        if (value != value) return UINT64_MAX;
        const uint64_t bits = (uint64_t)__double_as_longlong(value + 0.0);
        return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
    }
    const uint64_t bits = (uint64_t)load_integer(data, dtype, i);
    return dtype == PLB_CODE_U64 ? bits : bits ^ (uint64_t)1 << 63;
}

struct entry {
    uint64_t key;
    uint32_t place;
};
__device__ static bool after(const entry &a, const entry &b) {
    return a.key > b.key || (a.key == b.key && a.place > b.place);
}

__device__ static void copy_element(const plb_operands &at, int dtype, int64_t to, int64_t from) {
    if (is_float(dtype)) {
        switch (dtype) {
        case PLB_CODE_F64: ((double *)at.out[0])[to] = ((const double *)at.in[0])[from]; break;
        case PLB_CODE_F32: ((float *)at.out[0])[to] = ((const float *)at.in[0])[from]; break;
        default: ((uint16_t *)at.out[0])[to] = ((const uint16_t *)at.in[0])[from]; break;
        }
    } else {
        store_integer(at.out[0], dtype, to, load_integer(at.in[0], dtype, from));
    }
}

// Batcher's bitonic sort of keys[padded] and places[padded], a block a line; equal keys keep the
// order of their places. What pads comes last.
PLB_GLOBAL void __launch_bounds__(PLB_SORT_THREADS)
    plb_sort_lines(const plb_operands at, const plb_line_params p) {
    begin();
    extern __shared__ uint64_t keys[];
    uint32_t *places = (uint32_t *)(keys + p.padded);
    const int64_t line = blockIdx.x, first = first_of(p, line);
    for (int i = threadIdx.x; i < p.padded; i += blockDim.x) {
        uint64_t key = UINT64_MAX;
        if (i < p.extent) {
            key = key_of(at.in[0], p.dtype, first + (int64_t)i * p.inner);
            if (p.descending) key = ~key;
        }
        keys[i] = key;
        places[i] = (uint32_t)i; // those of the padding are the greatest
    }
    for (int size = 2; size <= p.padded; size *= 2) {
        for (int step = size / 2; step; step /= 2) {
            __syncthreads();
            for (int i = threadIdx.x; i < p.padded / 2; i += blockDim.x) {
                const int low = i / step * step * 2 + i % step, high = low + step;
                const entry a = {keys[low], places[low]}, b = {keys[high], places[high]};
                const bool up = (low & size) == 0;
                if (after(a, b) != up) continue;
                keys[low] = b.key, places[low] = b.place;
                keys[high] = a.key, places[high] = a.place;
            }
        }
    }
    __syncthreads();
    const int64_t outer = line / p.inner;
    const int64_t to = outer * p.kept * p.inner + (line - outer * p.inner);
    for (int i = threadIdx.x; i < p.kept; i += blockDim.x) {
        const int64_t at_i = to + (int64_t)i * p.inner;
        if (at.out[0]) copy_element(at, p.dtype, at_i, first + (int64_t)places[i] * p.inner);
        if (at.out[1]) ((int64_t *)at.out[1])[at_i] = places[i];
    }
}
