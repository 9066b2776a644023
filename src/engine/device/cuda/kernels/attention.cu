// SPDX-License-Identifier: Apache-2.0
// Attention in one pass over keys and values (Milakov, Gimelshein: "Online normalizer calculation
// for softmax", 2018; Dao et al.: "FlashAttention", 2022): what is summed so far is scaled down
// whenever a larger score comes, so that no score is kept.
#include "engine/device/cuda/kernels/attention.h"

#include "engine/device/cuda/kernels/own.cuh"

template <typename A> __device__ static A largest_of_warp(A value) {
#pragma unroll
    for (int step = 16; step; step >>= 1) value = fmax(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

// Rows [first, first + n) of a head's [*, width] to rows of `pitch` numbers in shared memory.
template <typename T>
__device__ static void fetch(wide<T> *to, int pitch, const T *from, const int64_t *stride, int n,
                             int width) {
    for (int i = threadIdx.x; i < n * width; i += blockDim.x) {
        const int row = i / width, column = i - row * width;
        to[row * pitch + column] = widen(from[row * stride[2] + column * stride[3]]);
    }
}

// The score of key `lane` of a tile, minus infinity past the last key.
template <typename T>
__device__ static wide<T> score_of(const plb_operands &at, const plb_attention_params &p,
                                   const wide<T> *q, const wide<T> *k, int64_t mask, int key) {
    typedef wide<T> A;
    if (key >= p.keys) return -(A)INFINITY;
    A sum = 0;
    for (int d = 0; d < p.depth; d++) sum += q[d] * k[d];
    sum *= (A)p.scale;
    if (at.in[3]) sum += (A)load_float(at.in[3], p.mask_dtype, mask + key * p.mask[3]);
    return sum;
}

template <typename T>
__device__ static void attend(const plb_operands &at, const plb_attention_params &p) {
    typedef wide<T> A;
    enum { EACH = PLB_ATTENTION_FEATURES / 32 };
    extern __shared__ double memory[];
    const int pitch = p.depth + 1, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    A *keys = (A *)memory, *values = keys + PLB_ATTENTION_KEYS * pitch;
    A *queries = values + PLB_ATTENTION_KEYS * p.features, *q = queries + warp * p.depth;
    const int tiles = (p.queries + PLB_ATTENTION_QUERIES - 1) / PLB_ATTENTION_QUERIES;
    const int head = blockIdx.x / tiles, b = head / p.heads, h = head - b * p.heads;
    const int first = (blockIdx.x - head * tiles) * PLB_ATTENTION_QUERIES, l = first + warp;
    const int rows = min(PLB_ATTENTION_QUERIES, p.queries - first);
    const T *of_q = (const T *)at.in[0] + b * p.q[0] + h * p.q[1] + first * p.q[2];
    const T *of_k = (const T *)at.in[1] + b * p.k[0] + h * p.k[1];
    const T *of_v = (const T *)at.in[2] + b * p.v[0] + h * p.v[1];
    const int64_t mask = b * p.mask[0] + h * p.mask[1] + l * p.mask[2];
    A sums[EACH] = {}, most = -(A)INFINITY, total = 0;
    fetch(queries, p.depth, of_q, p.q, rows, p.depth);
    for (int s = 0; s < p.keys; s += PLB_ATTENTION_KEYS) {
        const int n = min(PLB_ATTENTION_KEYS, p.keys - s);
        __syncthreads();
        fetch(keys, pitch, of_k + s * p.k[2], p.k, n, p.depth);
        fetch(values, p.features, of_v + s * p.v[2], p.v, n, p.features);
        __syncthreads();
        if (l >= p.queries) continue; // it helps to fetch
        const A score = score_of<T>(at, p, q, keys + lane * pitch, mask, s + lane);
        const A now = fmax(most, largest_of_warp(score));
        // Scores that are all minus infinity weigh nothing yet; one that is no number weighs NaN.
        const bool none = now == -(A)INFINITY && score == score;
        const A weight = none ? (A)0 : exp(score - now);
        const A keep = now == most ? (A)1 : exp(most - now);
        total = total * keep + warp_sum(weight);
        most = now;
#pragma unroll
        for (int i = 0; i < EACH; i++) sums[i] *= keep;
        for (int j = 0; j < n; j++) {
            const A w = __shfl_sync(~0u, weight, j);
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                const int e = lane + 32 * i;
                if (e < p.features) sums[i] += w * values[j * p.features + e];
            }
        }
    }
    if (l >= p.queries) return;
    const bool unseen = p.keys > 0 && !(total > 0); // masked, or no number
    T *y = (T *)at.out[0] + b * p.y[0] + l * p.y[1] + h * p.y[2];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int e = lane + 32 * i;
        if (e >= p.features) continue;
        A value = p.keys ? sums[i] / total : (A)0;
        if (unseen) value = p.zero_masked ? (A)0 : (A)NAN;
        y[e * p.y[3]] = narrow<T>(value);
    }
}

#define PLB_ATTENTION(T, dtype)                                                      \
    PLB_GLOBAL void __launch_bounds__(32 * PLB_ATTENTION_QUERIES)                    \
        plb_attention_##dtype(const plb_operands at, const plb_attention_params p) { \
        begin();                                                                     \
        attend<T>(at, p);                                                            \
    }
PLB_EACH_FLOAT(PLB_ATTENTION)
