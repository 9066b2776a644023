// SPDX-License-Identifier: Apache-2.0
// Dropout and random numbers: the words of Philox 4x32-10 (base/core/philox.h), of which element i
// of the logical order has word i % 4 of block i / 4. So the numbers are the CPU's.
#include "engine/device/cuda/kernels/random.h"

#include "engine/device/cuda/kernels/own.cuh"

__device__ static void draw(uint64_t key, uint64_t block, uint64_t step, uint32_t (&word)[4]) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32);
    uint32_t c2 = (uint32_t)step, c3 = (uint32_t)(step >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint32_t high0 = __umulhi(c0, 0xD2511F53u), low0 = c0 * 0xD2511F53u;
        const uint32_t high1 = __umulhi(c2, 0xCD9E8D57u), low1 = c2 * 0xCD9E8D57u;
        c0 = high1 ^ c1 ^ k0, c2 = high0 ^ c3 ^ k1;
        c1 = low1, c3 = low0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    word[0] = c0, word[1] = c1, word[2] = c2, word[3] = c3;
}

__device__ static float uniform_of(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}
__device__ static double open_of(uint32_t word) {
    return ((double)word + 1.0) * 0x1p-32;
}

template <typename A> __device__ static A dropped(const plb_random_params &p, uint32_t word, A x) {
    const A scale = (A)(p.p < 1 ? 1 / (1 - p.p) : 0);
    return (double)uniform_of(word) >= p.p ? x * scale : (A)0;
}

// Any order: each element has its word drawn for it alone.
template <typename T>
__device__ static void dropout(const plb_operands &at, const plb_random_params &p) {
    const uint64_t *state = (const uint64_t *)at.in[1];
    const uint64_t key = state[0] ^ p.mix, step_of = state[1];
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
        int64_t x = 0, y = 0, logical = 0;
        uint32_t left = (uint32_t)i;
        for (int axis = p.rank - 1; axis >= 0; axis--) {
            const uint32_t extent = (uint32_t)p.dim[axis], rest = left / extent;
            const int64_t index = left - rest * extent;
            x += index * p.x[axis], y += index * p.y[axis], logical += index * p.logical[axis];
            left = rest;
        }
        const uint64_t number = (uint64_t)logical / (uint32_t)p.of_channel;
        uint32_t word[4];
        draw(key, number / 4, step_of, word);
        const uint32_t low = number & 1 ? word[1] : word[0], high = number & 1 ? word[3] : word[2];
        const wide<T> value = widen(((const T *)at.in[0])[x]);
        ((T *)at.out[0])[y] = narrow<T>(dropped(p, number & 2 ? high : low, value));
    }
}

// Dense in logical order: a thread has the four elements of a block.
template <typename T>
__device__ static void dropout_plain(const plb_operands &at, const plb_random_params &p) {
    const uint64_t *state = (const uint64_t *)at.in[1];
    const uint64_t key = state[0] ^ p.mix, step_of = state[1];
    const T *x = (const T *)at.in[0];
    T *y = (T *)at.out[0];
    const int64_t blocks = (p.count + 3) / 4, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t b = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; b < blocks; b += step) {
        uint32_t word[4];
        draw(key, (uint64_t)b, step_of, word);
        if (b * 4 + 4 <= p.count) {
            enum { EACH = sizeof(T) == 8 ? 2 : 4 }; // 16 bytes at most
#pragma unroll
            for (int k = 0; k < 4; k += EACH) {
                wide<T> value[EACH];
                load_wide<T, EACH>(x + b * 4 + k, value);
#pragma unroll
                for (int j = 0; j < EACH; j++) value[j] = dropped(p, word[k + j], value[j]);
                store_narrow<T, EACH>(y + b * 4 + k, value);
            }
            continue;
        }
        for (int64_t i = b * 4; i < p.count; i++) {
            y[i] = narrow<T>(dropped(p, word[i - b * 4], widen(x[i])));
        }
    }
}

template <typename T> struct random_bits {
    enum { value = 24 };
};
template <> struct random_bits<__half> {
    enum { value = 11 };
};
template <> struct random_bits<__nv_bfloat16> {
    enum { value = 8 };
};

// As many bits of a uniform number as the dtype keeps; Box and Muller's pairs for normal ones.
template <typename T>
__device__ static double number_of(const plb_random_params &p, const uint32_t (&word)[4], int k) {
    if (p.kind == 0) {
        const int cut = 32 - random_bits<T>::value;
        const uint32_t kept = word[k] >> cut << cut;
        const double value = p.low + (p.high - p.low) * (double)uniform_of(kept);
        return value > p.most ? p.most : value;
    }
    const double radius = sqrt(-2 * log(open_of(word[k & 2])));
    const double angle = 6.283185307179586 * open_of(word[(k & 2) + 1]);
    return p.low + p.high * (radius * (k & 1 ? sin(angle) : cos(angle)));
}

template <typename T>
__device__ static void numbers(const plb_operands &at, const plb_random_params &p) {
    const uint64_t *state = (const uint64_t *)at.in[0];
    const uint64_t key = state[0] ^ p.mix, step_of = state[1];
    T *y = (T *)at.out[0];
    const int64_t blocks = (p.count + 3) / 4, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t b = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; b < blocks; b += step) {
        uint32_t word[4];
        draw(key, (uint64_t)b, step_of, word);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (b * 4 + k < p.count) y[b * 4 + k] = narrow<T>((wide<T>)number_of<T>(p, word, k));
        }
    }
}

#define PLB_RANDOM_KERNEL(name, body)                                  \
    PLB_GLOBAL void __launch_bounds__(PLB_RANDOM_THREADS)              \
        plb_##name(const plb_operands at, const plb_random_params p) { \
        begin();                                                       \
        body;                                                          \
    }
#define PLB_RANDOM(T, dtype)                                          \
    PLB_RANDOM_KERNEL(dropout_##dtype, dropout<T>(at, p))             \
    PLB_RANDOM_KERNEL(dropout_plain_##dtype, dropout_plain<T>(at, p)) \
    PLB_RANDOM_KERNEL(random_##dtype, numbers<T>(at, p))
PLB_EACH_FLOAT(PLB_RANDOM)
