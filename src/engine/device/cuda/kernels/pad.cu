// SPDX-License-Identifier: Apache-2.0
// pad: an element of y is the one of x that the mode names. pad_grad: an element of dx adds up the
// elements of dy that were copied from it, in row-major order. Both whatever strides they have.
#include "engine/device/cuda/kernels/pad.h"

#include "engine/device/cuda/kernels/own.cuh"

// The element of an axis that stands at `position` of the padded axis.
__device__ static int64_t source_of(const plb_pad_params &p, int axis, int64_t position) {
    const int64_t place = position - p.before[axis], last = p.dim[axis] - 1;
    if (place >= 0 && place <= last) return place;
    if (p.edge) return place < 0 ? 0 : last;
    return place < 0 ? -place : 2 * last - place;
}

// The first position from `position` on that was copied from element i; -1: none. Of those that
// lie within the axis only i itself was.
__device__ static int64_t position_of(const plb_pad_params &p, int axis, int64_t i,
                                      int64_t position) {
    const int64_t own = i + p.before[axis];
    for (; position < p.before[axis]; position++) {
        if (source_of(p, axis, position) == i) return position;
    }
    if (position <= own) return own;
    const int64_t begin = p.before[axis] + p.dim[axis], end = begin + p.after[axis];
    for (position = position < begin ? begin : position; position < end; position++) {
        if (source_of(p, axis, position) == i) return position;
    }
    return -1;
}

template <typename T>
__device__ static void pad_grad(const plb_operands &at, const plb_pad_params &p) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; n < p.count; n += step) {
        int64_t index[PLB_PAD_RANK], position[PLB_PAD_RANK], left = n, to = 0, from = 0;
        for (int axis = p.rank - 1; axis >= 0; axis--) {
            index[axis] = left % p.dim[axis];
            left /= p.dim[axis];
            position[axis] = position_of(p, axis, index[axis], 0);
            to += index[axis] * p.to[axis];
            from += position[axis] * p.from[axis];
        }
        wide<T> sum = 0;
        for (int axis = p.rank; axis >= 0;) {
            sum += widen(((const T *)at.in[0])[from]);
            for (axis = p.rank - 1; axis >= 0; axis--) { // the next place of dy
                const int64_t old = position[axis];
                int64_t next = position_of(p, axis, index[axis], old + 1);
                const bool moved = next >= 0;
                if (!moved) next = position_of(p, axis, index[axis], 0);
                position[axis] = next;
                from += (next - old) * p.from[axis];
                if (moved) break;
            }
        }
        ((T *)at.out[0])[to] = narrow<T>(sum);
    }
}

// In units of so many bytes.
template <typename Unit>
__device__ static void pad(const plb_operands &at, const plb_pad_params &p) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; n < p.count; n += step) {
        int64_t left = n, to = 0, from = 0;
        for (int axis = p.rank - 1; axis >= 0; axis--) {
            const int64_t extent = p.before[axis] + p.dim[axis] + p.after[axis];
            const int64_t position = left % extent;
            left /= extent;
            from += source_of(p, axis, position) * p.from[axis];
            to += position * p.to[axis];
        }
        ((Unit *)at.out[0])[to] = ((const Unit *)at.in[0])[from];
    }
}

#define PLB_PAD_UNIT(bytes, Unit)                                        \
    PLB_GLOBAL void __launch_bounds__(PLB_PAD_THREADS)                   \
        plb_pad_##bytes(const plb_operands at, const plb_pad_params p) { \
        begin();                                                         \
        pad<Unit>(at, p);                                                \
    }
PLB_PAD_UNIT(1, uint8_t)
PLB_PAD_UNIT(2, uint16_t)
PLB_PAD_UNIT(4, uint32_t)
PLB_PAD_UNIT(8, uint64_t)

#define PLB_PAD(T, dtype)                                                     \
    PLB_GLOBAL void __launch_bounds__(PLB_PAD_THREADS)                        \
        plb_pad_grad_##dtype(const plb_operands at, const plb_pad_params p) { \
        begin();                                                              \
        pad_grad<T>(at, p);                                                   \
    }
PLB_EACH_FLOAT(PLB_PAD)
