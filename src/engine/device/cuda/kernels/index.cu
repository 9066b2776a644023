// SPDX-License-Identifier: Apache-2.0
// Ops that pick or place elements by i64 indices, on plain values. Nothing depends on the order in
// which threads come: sums are made by the thread that owns the result, in row-major order. An
// index out of range is noted and left out.
#include "engine/device/cuda/kernels/index.h"

#include "engine/device/cuda/kernels/own.cuh"

#define PLB_STRIDE_LOOP(i, n)                                        \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, \
                 step_ = (int64_t)gridDim.x * blockDim.x;            \
         i < (n); i += step_)

// The index number `place`, or -1 and a note.
__device__ static int64_t index_at(const plb_operands &at, const plb_index_params &p,
                                   const int64_t *index, int64_t place) {
    const int64_t found = index[place];
    if (found >= 0 && found < p.extent) return found;
    note_fault(at.fault, p.op, place, found, p.extent);
    return -1;
}

// ---------------------------------------------------------------------------- take
// y[outer, i, inner] = x[outer, index[i], inner], in units of one element or of 16 bytes.
template <typename Unit>
__device__ static void take(const plb_operands &at, const plb_index_params &p) {
    const int64_t inner = p.inner * p.size_bytes / (int64_t)sizeof(Unit);
    const int64_t count = p.outer * p.indices * inner;
    const Unit *x = (const Unit *)at.in[0];
    PLB_STRIDE_LOOP(n, count) {
        const uint32_t row = (uint32_t)n / (uint32_t)inner,
                       column = (uint32_t)n - row * (uint32_t)inner;
        const uint32_t outer = row / (uint32_t)p.indices, i = row - outer * (uint32_t)p.indices;
        const int64_t from = index_at(at, p, (const int64_t *)at.in[1], i);
        Unit value = {};
        if (from >= 0) value = x[(outer * p.extent + from) * inner + column];
        ((Unit *)at.out[0])[n] = value;
    }
}

template <typename T>
__device__ static void take_grad_clear(const plb_operands &at, const plb_index_params &p) {
    PLB_STRIDE_LOOP(i, p.count)((T *)at.out[0])[i] = narrow<T>((wide<T>)0);
}

// Whether an index before number i is the same.
__device__ static bool came_before(const int64_t *index, int i, int64_t value) {
    for (int begin = 0; begin < i; begin += PLB_INDEX_THREADS) {
        const int j = begin + threadIdx.x;
        if (__syncthreads_or(j < i && index[j] == value)) return true;
    }
    return false;
}

// The block of the first index of a row of dx sums all rows of dy that were taken from it. Blocks:
// x over indices, y over parts of [outer, inner].
template <typename T>
__device__ static void take_grad(const plb_operands &at, const plb_index_params &p) {
    typedef wide<T> A;
    __shared__ bool matches[PLB_INDEX_THREADS];
    const int64_t *index = (const int64_t *)at.in[1];
    const T *dy = (const T *)at.in[0];
    const int i = blockIdx.x, n = (int)p.indices;
    const int64_t row = index[i];
    if (row < 0 || row >= p.extent) {
        if (threadIdx.x == 0) note_fault(at.fault, p.op, i, row, p.extent);
        return;
    }
    if (came_before(index, i, row)) return;
    const int64_t columns = p.outer * p.inner;
    for (int64_t first = (int64_t)blockIdx.y * PLB_INDEX_THREADS; first < columns;
         first += (int64_t)gridDim.y * PLB_INDEX_THREADS) {
        const int64_t column = first + threadIdx.x, outer = column / p.inner;
        const int64_t inner = column - outer * p.inner;
        const bool live = column < columns;
        const T *from = dy + outer * n * p.inner + inner;
        A sum = live ? widen(from[i * p.inner]) : (A)0;
        for (int begin = i + 1; begin < n; begin += PLB_INDEX_THREADS) {
            const int j = begin + threadIdx.x;
            const bool same = j < n && index[j] == row;
            matches[threadIdx.x] = same;
            if (!__syncthreads_or(same)) continue;
            for (int k = 0; k < PLB_INDEX_THREADS && live; k++) {
                if (matches[k]) sum += widen(from[(begin + k) * p.inner]);
            }
            __syncthreads();
        }
        if (live) ((T *)at.out[0])[(outer * p.extent + row) * p.inner + inner] = narrow<T>(sum);
    }
}

// ---------------------------------------------------------------------------- gather, scatter
// Offset in x of the element that index element n speaks of, with `place` along the axis.
__device__ static int64_t offset_in_x(const plb_index_params &p, int64_t n, int64_t place) {
    int64_t offset = 0, stride = 1;
    uint32_t left = (uint32_t)n;
    for (int axis = p.rank - 1; axis >= 0; axis--) {
        const uint32_t extent = (uint32_t)p.index_dim[axis], rest = left / extent;
        const int64_t own = axis == p.axis ? place : (int64_t)(left - rest * extent);
        offset += own * stride;
        stride *= p.x_dim[axis];
        left = rest;
    }
    return offset;
}

template <typename Unit>
__device__ static void gather(const plb_operands &at, const plb_index_params &p) {
    PLB_STRIDE_LOOP(n, p.indices) {
        const int64_t from = index_at(at, p, (const int64_t *)at.in[1], n);
        Unit value = {};
        if (from >= 0) value = ((const Unit *)at.in[0])[offset_in_x(p, n, from)];
        ((Unit *)at.out[0])[n] = value;
    }
}

// y = x, and nobody has won a place of it yet.
template <typename Unit>
__device__ static void scatter_begin(const plb_operands &at, const plb_index_params &p) {
    PLB_STRIDE_LOOP(i, p.count) {
        if (at.out[0] != at.in[0]) ((Unit *)at.out[0])[i] = ((const Unit *)at.in[0])[i];
        ((uint32_t *)at.workspace)[i] = 0;
    }
}

// The last element in row-major order wins the place that it goes to.
PLB_GLOBAL void plb_scatter_choose(const plb_operands at, const plb_index_params p) {
    begin();
    PLB_STRIDE_LOOP(n, p.indices) {
        const int64_t to = index_at(at, p, (const int64_t *)at.in[1], n);
        if (to < 0) continue;
        atomicMax((uint32_t *)at.workspace + offset_in_x(p, n, to), (uint32_t)n + 1);
    }
}

template <typename Unit>
__device__ static void scatter_put(const plb_operands &at, const plb_index_params &p) {
    PLB_STRIDE_LOOP(n, p.indices) {
        const int64_t to = ((const int64_t *)at.in[1])[n];
        if (to < 0 || to >= p.extent) continue;
        const int64_t place = offset_in_x(p, n, to);
        if (((const uint32_t *)at.workspace)[place] != (uint32_t)n + 1) continue;
        ((Unit *)at.out[0])[place] = ((const Unit *)at.in[2])[n];
    }
}

// Where the index elements of the line of element i of x begin; -1: the index has no such line.
// `pitch`: from one of them to the next.
__device__ static int64_t line_of(const plb_index_params &p, int64_t i, int64_t *pitch,
                                  int64_t *place) {
    int64_t offset = 0, stride = 1;
    uint32_t left = (uint32_t)i;
    for (int axis = p.rank - 1; axis >= 0; axis--) {
        const uint32_t extent = (uint32_t)p.x_dim[axis], rest = left / extent;
        const int64_t own = left - rest * extent;
        if (axis == p.axis) {
            *pitch = stride;
            *place = own;
        } else {
            if (own >= p.index_dim[axis]) return -1;
            offset += own * stride;
        }
        stride *= p.index_dim[axis];
        left = rest;
    }
    return offset;
}

// An element of y takes up what goes to it, in row-major order.
template <typename A, typename Load, typename Store, typename Take>
__device__ static void scatter_fold(const plb_operands &at, const plb_index_params &p, Load load,
                                    Store store, Take take) {
    const int64_t *index = (const int64_t *)at.in[1];
    PLB_STRIDE_LOOP(i, p.count) {
        int64_t pitch = 0, place = 0;
        const int64_t line = line_of(p, i, &pitch, &place);
        A sum = load(at.in[0], i);
        for (int64_t k = 0; k < p.index_dim[p.axis] && line >= 0; k++) {
            const int64_t n = line + k * pitch, to = index_at(at, p, index, n);
            if (to == place) sum = take(sum, load(at.in[2], n));
        }
        store(at.out[0], i, sum);
    }
}

// Of two numbers the product, the larger or the smaller; what is no number wins. `before`: the
// order of the dtype.
enum { SCATTER_MUL = 2, SCATTER_MAX, SCATTER_MIN }; // plb_scatter_how; index.c checks it
template <typename A, typename Before> __device__ static A taken(int how, A a, A b, Before before) {
    if (how == SCATTER_MUL) return a * b;
    if (a != a || b != b) return a != a ? a : b;
    return before(a, b) == (how == SCATTER_MIN) ? a : b;
}

template <typename T>
__device__ static void scatter_add_floats(const plb_operands &at, const plb_index_params &p) {
    typedef wide<T> A;
    scatter_fold<A>(
        at, p, [](const void *data, int64_t i) { return widen(((const T *)data)[i]); },
        [](void *data, int64_t i, A value) { ((T *)data)[i] = narrow<T>(value); },
        [](A a, A b) { return a + b; });
}

template <typename T>
__device__ static void scatter_reduce_floats(const plb_operands &at, const plb_index_params &p) {
    typedef wide<T> A;
    const int how = p.how;
    scatter_fold<A>(
        at, p, [](const void *data, int64_t i) { return widen(((const T *)data)[i]); },
        [](void *data, int64_t i, A value) { ((T *)data)[i] = narrow<T>(value); },
        [=](A a, A b) { return taken(how, a, b, [](A x, A y) { return x < y; }); });
}

template <typename Take>
__device__ static void scatter_integers(const plb_operands &at, const plb_index_params &p,
                                        Take take) {
    const int dtype = p.dtype;
    scatter_fold<int64_t>(
        at, p, [=](const void *data, int64_t i) { return load_integer(data, dtype, i); },
        [=](void *data, int64_t i, int64_t value) { store_integer(data, dtype, i, value); }, take);
}

PLB_GLOBAL void plb_scatter_add_integers(const plb_operands at, const plb_index_params p) {
    begin();
    scatter_integers(at, p, [](int64_t a, int64_t b) { return a + b; });
}

PLB_GLOBAL void plb_scatter_reduce_integers(const plb_operands at, const plb_index_params p) {
    begin();
    const int how = p.how;
    const bool top = p.dtype == PLB_CODE_U64; // the highest bit is no sign
    scatter_integers(at, p, [=](int64_t a, int64_t b) {
        return taken(how, a, b,
                     [=](int64_t x, int64_t y) { return top ? (uint64_t)x < (uint64_t)y : x < y; });
    });
}

// ---------------------------------------------------------------------------- nonzero, iota
__device__ static bool is_zero(const void *data, int dtype, int64_t i) {
    return is_float(dtype) ? load_float(data, dtype, i) == 0 : load_integer(data, dtype, i) == 0;
}

// One block counts its way through x.
PLB_GLOBAL void __launch_bounds__(PLB_NONZERO_THREADS)
    plb_nonzero(const plb_operands at, const plb_index_params p) {
    begin();
    __shared__ int of_warp[PLB_NONZERO_THREADS / 32];
    int64_t *rows = (int64_t *)at.out[0];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t found = 0;
    for (int64_t begin = 0; begin < p.count; begin += PLB_NONZERO_THREADS) {
        const int64_t i = begin + threadIdx.x;
        const bool counts = i < p.count && !is_zero(at.in[0], p.dtype, i);
        const unsigned votes = __ballot_sync(~0u, counts);
        if (lane == 0) of_warp[warp] = __popc(votes);
        __syncthreads();
        int64_t to = found + __popc(votes & ((1u << lane) - 1));
        for (int w = 0; w < PLB_NONZERO_THREADS / 32; w++) {
            if (w < warp) to += of_warp[w];
            found += of_warp[w];
        }
        int64_t left = i;
        for (int axis = p.rank - 1; axis >= 0 && counts; axis--) {
            rows[to * p.rank + axis] = left % p.x_dim[axis];
            left /= p.x_dim[axis];
        }
        __syncthreads();
    }
    for (int64_t i = found * p.rank + threadIdx.x; i < p.count * p.rank; i += blockDim.x) {
        rows[i] = 0;
    }
    if (threadIdx.x == 0) *(int64_t *)at.out[1] = found;
}

PLB_GLOBAL void plb_iota(const plb_operands at, const plb_index_params p) {
    begin();
    PLB_STRIDE_LOOP(i, p.count) {
        const int64_t value = i / p.inner % p.extent;
        if (is_float(p.dtype)) {
            store_float(at.out[0], p.dtype, i, (double)value);
        } else {
            store_integer(at.out[0], p.dtype, i, value);
        }
    }
}

#define PLB_INDEX_KERNEL(name, body)                                  \
    PLB_GLOBAL void __launch_bounds__(PLB_INDEX_THREADS)              \
        plb_##name(const plb_operands at, const plb_index_params p) { \
        begin();                                                      \
        body;                                                         \
    }
#define PLB_UNITS(bytes, Unit)                                          \
    PLB_INDEX_KERNEL(take_##bytes, take<Unit>(at, p))                   \
    PLB_INDEX_KERNEL(gather_##bytes, gather<Unit>(at, p))               \
    PLB_INDEX_KERNEL(scatter_begin_##bytes, scatter_begin<Unit>(at, p)) \
    PLB_INDEX_KERNEL(scatter_put_##bytes, scatter_put<Unit>(at, p))
PLB_UNITS(1, uint8_t)
PLB_UNITS(2, uint16_t)
PLB_UNITS(4, uint32_t)
PLB_UNITS(8, uint64_t)
PLB_INDEX_KERNEL(take_16, take<uint4>(at, p))
#define PLB_INDEX_FLOATS(T, dtype)                                       \
    PLB_INDEX_KERNEL(take_grad_clear_##dtype, take_grad_clear<T>(at, p)) \
    PLB_INDEX_KERNEL(take_grad_##dtype, take_grad<T>(at, p))             \
    PLB_INDEX_KERNEL(scatter_add_##dtype, scatter_add_floats<T>(at, p))  \
    PLB_INDEX_KERNEL(scatter_reduce_##dtype, scatter_reduce_floats<T>(at, p))
PLB_EACH_FLOAT(PLB_INDEX_FLOATS)
