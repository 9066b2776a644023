// SPDX-License-Identifier: Apache-2.0
// Convolutions of small images with few channels, as networks for digits have them: all of an image
// fits into the shared memory of one block, and what counts is to be done in two microseconds, not
// arithmetic. Sums are in a fixed order.
#include "engine/device/cuda/kernels/small.h"

#include "engine/device/cuda/kernels/own.cuh"

// The image and the filters of PLB_SMALL_OUT channels, those side by side: [in][tap][channel].
template <int K>
__device__ static void load(const plb_operands &at, const plb_small_params &p, float *image,
                            float *filters) {
    const int pixels = p.in * p.height * p.width, taps = p.in * K * K;
    const float *x = (const float *)at.in[0] + (int64_t)blockIdx.x * pixels;
    const float *w = (const float *)at.in[1];
    for (int i = threadIdx.x; i < pixels; i += blockDim.x) image[i] = x[i];
    for (int i = threadIdx.x; i < taps * PLB_SMALL_OUT; i += blockDim.x) {
        const int c = blockIdx.y * PLB_SMALL_OUT + i % PLB_SMALL_OUT, at_tap = i / PLB_SMALL_OUT;
        const int channel = at_tap / (K * K), tap = at_tap - channel * K * K;
        float value = 0;
        if (c < p.out) {
            value = p.turned ? w[(channel * p.out + c) * K * K + (K * K - 1 - tap)]
                             : w[(c * p.in + channel) * K * K + tap];
        }
        filters[i] = value;
    }
    __syncthreads();
}

// Of every slices-th input channel from `slice` on.
template <int K>
__device__ static float4 sum_of(const plb_small_params &p, const float *image, const float *filters,
                                int pixel, int slice) {
    const int row = pixel / p.columns - p.top, column = pixel % p.columns - p.left;
    float4 sum = {0, 0, 0, 0};
    for (int channel = slice; channel < p.in; channel += p.slices) {
        const float *plane = image + channel * p.height * p.width;
        const float4 *w = (const float4 *)filters + channel * K * K;
#pragma unroll
        for (int r = 0; r < K; r++) {
            if (row + r < 0 || row + r >= p.height) continue;
#pragma unroll
            for (int s = 0; s < K; s++) {
                if (column + s < 0 || column + s >= p.width) continue;
                const float x = plane[(row + r) * p.width + column + s];
                const float4 f = w[r * K + s];
                sum.x += x * f.x, sum.y += x * f.y, sum.z += x * f.z, sum.w += x * f.w;
            }
        }
    }
    return sum;
}

__device__ static void store(const plb_operands &at, const plb_small_params &p, int pixel,
                             float4 sum) {
    const int plane = p.rows * p.columns, first = blockIdx.y * PLB_SMALL_OUT;
    const float *bias = (const float *)at.in[2];
    const float value[PLB_SMALL_OUT] = {sum.x, sum.y, sum.z, sum.w};
    float *to = (float *)at.out[0] + ((int64_t)blockIdx.x * p.out + first) * plane + pixel;
#pragma unroll
    for (int i = 0; i < PLB_SMALL_OUT; i++) {
        if (first + i >= p.out) break;
        float y = value[i] + (bias ? bias[first + i] : 0.0f);
        if (p.clamps) y = y < p.low ? p.low : y > p.high ? p.high : y;
        to[i * plane] = y;
    }
}

// Blocks: x over images, y over groups of output channels.
template <int K>
__device__ static void convolve(const plb_operands &at, const plb_small_params &p) {
    extern __shared__ float4 memory[];
    const int plane = p.rows * p.columns, taps = p.in * K * K;
    float *filters = (float *)memory, *image = filters + taps * PLB_SMALL_OUT;
    load<K>(at, p, image, filters);
    if (p.slices == 1) {
        for (int pixel = threadIdx.x; pixel < plane; pixel += blockDim.x) {
            store(at, p, pixel, sum_of<K>(p, image, filters, pixel, 0));
        }
        return;
    }
    const int slice = threadIdx.x / plane, pixel = threadIdx.x - slice * plane;
    float4 sum = {0, 0, 0, 0};
    if (slice < p.slices) sum = sum_of<K>(p, image, filters, pixel, slice);
    __syncthreads(); // image and filters are done with
    if (slice < p.slices) memory[threadIdx.x] = sum;
    __syncthreads();
    if (slice) return;
    for (int i = 1; i < p.slices; i++) {
        const float4 more = memory[i * plane + pixel];
        sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
    }
    store(at, p, pixel, sum);
}

// ---------------------------------------------------------------------------- weight gradients
// Blocks: x over input channels and groups of output channels, y over chunks of the images. Each
// thread adds up all taps of its pixels; the block's threads then theirs.
template <int K>
__device__ static void weight_grad(const plb_operands &at, const plb_small_params &p) {
    __shared__ float part[PLB_SMALL_GRAD_THREADS / 32][PLB_SMALL_GRAD_OUT * K * K];
    const int channel = blockIdx.x % p.in, first = blockIdx.x / p.in * PLB_SMALL_GRAD_OUT;
    const int plane = p.rows * p.columns, pixels = p.height * p.width;
    const int each = (p.n + p.chunks - 1) / p.chunks, begin = blockIdx.y * each;
    const int images = begin >= p.n ? 0 : p.n - begin < each ? p.n - begin : each;
    const float *x = (const float *)at.in[0], *dy = (const float *)at.in[1];
    float sum[PLB_SMALL_GRAD_OUT][K * K] = {};
    for (int i = threadIdx.x; i < images * plane; i += blockDim.x) {
        const int n = begin + i / plane, pixel = i % plane;
        const int row = pixel / p.columns - p.top, column = pixel % p.columns - p.left;
        const float *from = x + ((int64_t)n * p.in + channel) * pixels;
        float d[PLB_SMALL_GRAD_OUT];
#pragma unroll
        for (int k = 0; k < PLB_SMALL_GRAD_OUT; k++) {
            d[k] = first + k < p.out ? dy[((int64_t)n * p.out + first + k) * plane + pixel] : 0.0f;
        }
#pragma unroll
        for (int r = 0; r < K; r++) {
#pragma unroll
            for (int s = 0; s < K; s++) {
                const bool inside =
                    row + r >= 0 && row + r < p.height && column + s >= 0 && column + s < p.width;
                const float value = inside ? from[(row + r) * p.width + column + s] : 0.0f;
#pragma unroll
                for (int k = 0; k < PLB_SMALL_GRAD_OUT; k++) sum[k][r * K + s] += value * d[k];
            }
        }
    }
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int k = 0; k < PLB_SMALL_GRAD_OUT; k++) {
#pragma unroll
        for (int t = 0; t < K * K; t++) {
            float value = sum[k][t];
            for (int step = 16; step; step /= 2) value += __shfl_down_sync(~0u, value, step);
            if (lane == 0) part[warp][k * K * K + t] = value;
        }
    }
    __syncthreads();
    float *to = (float *)(p.chunks > 1 ? at.workspace : at.out[0]);
    to += (int64_t)blockIdx.y * p.out * p.in * K * K;
    for (int i = threadIdx.x; i < PLB_SMALL_GRAD_OUT * K * K; i += blockDim.x) {
        const int k = i / (K * K), tap = i - k * K * K;
        float value = 0;
        for (int w = 0; w < PLB_SMALL_GRAD_THREADS / 32; w++) value += part[w][i];
        if (first + k < p.out) to[((first + k) * p.in + channel) * K * K + tap] = value;
    }
}

// The chunks' sums, in order.
template <int K> __device__ static void fold(const plb_operands &at, const plb_small_params &p) {
    const int count = p.out * p.in * K * K, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float *from = (const float *)at.workspace + i;
    float sum = 0;
    for (int chunk = 0; chunk < p.chunks; chunk++) sum += from[(int64_t)chunk * count];
    ((float *)at.out[0])[i] = sum;
}

#define PLB_SMALL(K)                                                                       \
    PLB_GLOBAL void __launch_bounds__(PLB_SMALL_THREADS)                                   \
        plb_small_conv_k##K(const plb_operands at, const plb_small_params p) {             \
        begin();                                                                           \
        convolve<K>(at, p);                                                                \
    }                                                                                      \
    PLB_GLOBAL void __launch_bounds__(PLB_SMALL_GRAD_THREADS)                              \
        plb_small_weight_grad_k##K(const plb_operands at, const plb_small_params p) {      \
        begin();                                                                           \
        weight_grad<K>(at, p);                                                             \
    }                                                                                      \
    PLB_GLOBAL void plb_small_fold_k##K(const plb_operands at, const plb_small_params p) { \
        begin();                                                                           \
        fold<K>(at, p);                                                                    \
    }
PLB_SMALL(3)
PLB_SMALL(5)
