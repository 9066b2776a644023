// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions of images with channels last, and their gradients. They multiply so
// little that memory alone should bound them: a thread has V neighbouring channels, loaded as one
// vector, and a strip of W columns, so that an element which several outputs need is loaded once
// for all of them; rows that neighbouring strips share come from the cache. The filters of a
// block's channels lie in shared memory as f32.
//
// The gradient of the input with stride 1 is the convolution with its filters turned round. With
// stride 2 only every other tap meets an output: strips begin where the taps' parities are known
// ahead. The gradient of the filters adds up in registers, then over the rows of a block, then over
// blocks, each in a fixed order: the same bits in every run.
#include "engine/device/cuda/kernels/depthwise.h"

#include "engine/device/cuda/kernels/own.cuh"

// Filters of the block's channels as [tap][channel].
template <typename T, int TAPS, int V>
__device__ static void load_filters(const T *w, const plb_depthwise_params &p, float *filters) {
    const int channels = blockDim.x * V, first = blockIdx.x * channels;
    const int threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
    for (int i = thread; i < channels * TAPS; i += threads) {
        const int c = i / TAPS, tap = i - c * TAPS;
        if (first + c >= p.c) break;
        const int at = p.flipped ? TAPS - 1 - tap : tap;
        filters[at * channels + c] = widen(w[(int64_t)first * TAPS + i]);
    }
    __syncthreads();
}

// Strips of W columns of `to`, the first of which begins `before` columns in front of it.
template <int W> struct strips {
    int across, count, patches;
    __device__ explicit strips(const plb_depthwise_params &p, int before = 0) {
        across = (p.to_width + before + W - 1) / W;
        count = p.n * p.to_height * across;
        patches = p.to_height / p.patch;
    }
};

// Where a strip lies.
struct strip {
    int n, row, column; // its number among those of the row
    template <int W> __device__ strip(const plb_depthwise_params &p, const strips<W> &all, int i) {
        const int r = i % p.patch, rest = i / p.patch;
        column = rest % all.across;
        const int lines = rest / all.across;
        row = lines % all.patches * p.patch + r;
        n = lines / all.patches;
    }
};

// N columns of V channels from column `first` on; zeros beside the image.
template <typename T, int V, int N>
__device__ static void load_columns(const T *row, int c, int width, int first,
                                    pack<T, V> (&out)[N]) {
#pragma unroll
    for (int j = 0; j < N; j++) {
        const int column = first + j;
        pack<T, V> value = {};
        if (column >= 0 && column < width) {
            value = *(const pack<T, V> *)(row + (int64_t)column * c);
        }
        out[j] = value;
    }
}

// The taps of one row of the filters.
template <int K, int V>
__device__ static void load_taps(const float *filters, int row, float (&out)[K][V]) {
    const int channels = blockDim.x * V;
    const float *from = filters + row * K * channels + threadIdx.x * V;
#pragma unroll
    for (int k = 0; k < K; k++) {
        enum { EACH = V < 4 ? V : 4 };
#pragma unroll
        for (int i = 0; i < V; i += EACH) {
            const pack<float, EACH> part = *(const pack<float, EACH> *)(from + k * channels + i);
#pragma unroll
            for (int j = 0; j < EACH; j++) out[k][i + j] = part.v[j];
        }
    }
}

template <typename T, int V>
__device__ static void put(const plb_operands &at, const plb_depthwise_params &p, int64_t offset,
                           const float (&bias)[V], float (&sum)[V]) {
    const T *residual = (const T *)at.in[3];
    float other[V] = {};
    if (residual) load_wide<T, V>(residual + offset, other);
#pragma unroll
    for (int i = 0; i < V; i++) sum[i] = activated(p.act, sum[i] + bias[i] + other[i]);
    store_narrow<T, V>((T *)at.out[0] + offset, sum);
}

template <typename T, int K, int S, int W, int V>
__device__ static void forward(const plb_operands &at, const plb_depthwise_params &p,
                               float *filters) {
    enum { COLUMNS = (W - 1) * S + K };
    load_filters<T, K * K, V>((const T *)at.in[1], p, filters);
    const int channel = (blockIdx.x * blockDim.x + threadIdx.x) * V;
    if (channel >= p.c) return;
    float bias[V] = {};
    for (int i = 0; i < V && at.in[2]; i++) bias[i] = widen(((const T *)at.in[2])[channel + i]);
    const T *from = (const T *)at.in[0] + channel;
    const int64_t row_size = (int64_t)p.from_width * p.c;
    const strips<W> all(p);
    for (int i = blockIdx.y * blockDim.y + threadIdx.y; i < all.count;
         i += gridDim.y * blockDim.y) {
        const strip here(p, all, i);
        float sum[W][V] = {};
#pragma unroll
        for (int k = 0; k < K; k++) {
            const int row = here.row * S - p.top + k;
            if (row < 0 || row >= p.from_height) continue;
            pack<T, V> value[COLUMNS];
            float tap[K][V];
            load_columns<T, V>(from + ((int64_t)here.n * p.from_height + row) * row_size, p.c,
                               p.from_width, here.column * W * S - p.left, value);
            load_taps<K, V>(filters, k, tap);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
#pragma unroll
                for (int c = 0; c < V; c++) {
                    const float x = widen(value[j].v[c]);
#pragma unroll
                    for (int o = 0; o < W; o++) {
                        const int t = j - o * S;
                        if (t >= 0 && t < K) sum[o][c] = fmaf(x, tap[t < 0 ? 0 : t][c], sum[o][c]);
                    }
                }
            }
        }
        const int64_t line = ((int64_t)here.n * p.to_height + here.row) * p.to_width;
#pragma unroll
        for (int o = 0; o < W; o++) {
            const int column = here.column * W + o;
            if (column < p.to_width) {
                put<T, V>(at, p, (line + column) * p.c + channel, bias, sum[o]);
            }
        }
    }
}

// dx of stride 2: column W s - left % 2 + j of dx meets tap t of the output (W s + left) / 2 +
// (j - t) / 2, where j and t are both even or both odd.
template <typename T, int K, int W, int V>
__device__ static void input_grad_2(const plb_operands &at, const plb_depthwise_params &p,
                                    float *filters) {
    enum { BEFORE = (K - 1) / 2, COLUMNS = BEFORE + W / 2 };
    load_filters<T, K * K, V>((const T *)at.in[1], p, filters);
    const int channel = (blockIdx.x * blockDim.x + threadIdx.x) * V;
    if (channel >= p.c) return;
    const T *from = (const T *)at.in[0] + channel;
    const int64_t row_size = (int64_t)p.from_width * p.c;
    const strips<W> all(p, p.left & 1);
    for (int i = blockIdx.y * blockDim.y + threadIdx.y; i < all.count;
         i += gridDim.y * blockDim.y) {
        const strip here(p, all, i);
        const int first = here.column * W - (p.left & 1), middle = (first + p.left) / 2;
        float sum[W][V] = {};
        for (int k = (here.row + p.top) & 1; k < K; k += 2) {
            const int twice = here.row + p.top - k, row = twice / 2;
            if (twice < 0 || row >= p.from_height) continue;
            pack<T, V> value[COLUMNS];
            float tap[K][V];
            load_columns<T, V>(from + ((int64_t)here.n * p.from_height + row) * row_size, p.c,
                               p.from_width, middle - BEFORE, value);
            load_taps<K, V>(filters, k, tap);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
#pragma unroll
                for (int c = 0; c < V; c++) {
                    const float dy = widen(value[j].v[c]);
#pragma unroll
                    for (int o = 0; o < W; o++) {
                        const int t = o - 2 * (j - BEFORE);
                        if (t >= 0 && t < K) sum[o][c] = fmaf(dy, tap[t < 0 ? 0 : t][c], sum[o][c]);
                    }
                }
            }
        }
        const int64_t line = ((int64_t)here.n * p.to_height + here.row) * p.to_width;
#pragma unroll
        for (int o = 0; o < W; o++) {
            const int column = first + o;
            if (column < 0 || column >= p.to_width) continue;
            store_narrow<T, V>((T *)at.out[0] + (line + column) * p.c + channel, sum[o]);
        }
    }
}

// ---------------------------------------------------------------------------- gradient of filters
// A thread has one row of the taps: threadIdx.z. Strips are of dy (`to`), around which x is read.
// The workspace gets [splits][taps][C].
template <typename T, int K, int S, int W, int V>
__device__ static void weight_grad(const plb_operands &at, const plb_depthwise_params &p,
                                   float *sums) {
    enum { COLUMNS = (W - 1) * S + K };
    const int channel = (blockIdx.x * blockDim.x + threadIdx.x) * V, k = threadIdx.z;
    const bool live = channel < p.c;
    const T *x = (const T *)at.in[0] + channel, *dy = (const T *)at.in[1] + channel;
    float sum[K][V] = {};
    const strips<W> all(p);
    for (int i = blockIdx.y * blockDim.y + threadIdx.y; live && i < all.count;
         i += gridDim.y * blockDim.y) {
        const strip here(p, all, i);
        const int row = here.row * S - p.top + k;
        if (row < 0 || row >= p.from_height) continue;
        pack<T, V> value[COLUMNS], d[W];
        load_columns<T, V>(x + ((int64_t)here.n * p.from_height + row) * p.from_width * p.c, p.c,
                           p.from_width, here.column * W * S - p.left, value);
        load_columns<T, V>(dy + ((int64_t)here.n * p.to_height + here.row) * p.to_width * p.c, p.c,
                           p.to_width, here.column * W, d);
#pragma unroll
        for (int c = 0; c < V; c++) {
            float wide_d[W];
#pragma unroll
            for (int o = 0; o < W; o++) wide_d[o] = widen(d[o].v[c]);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                const float wide_x = widen(value[j].v[c]);
#pragma unroll
                for (int o = 0; o < W; o++) {
                    const int t = j - o * S;
                    if (t >= 0 && t < K) {
                        sum[t < 0 ? 0 : t][c] = fmaf(wide_x, wide_d[o], sum[t < 0 ? 0 : t][c]);
                    }
                }
            }
        }
    }
    // [rows of threads][taps][channels]
    const int channels = blockDim.x * V, slots = K * K * channels;
    float *mine = sums + (threadIdx.y * K * K + k * K) * channels + threadIdx.x;
#pragma unroll
    for (int t = 0; t < K; t++) {
#pragma unroll
        for (int c = 0; c < V; c++) mine[t * channels + c * blockDim.x] = sum[t][c];
    }
    __syncthreads();
    const int threads = blockDim.x * blockDim.y * blockDim.z;
    const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    for (int slot = thread; slot < slots; slot += threads) {
        float total = 0;
        for (int y = 0; y < (int)blockDim.y; y++) total += sums[y * slots + slot];
        const int tap = slot / channels, rest = slot - tap * channels;
        const int c = rest / blockDim.x, column = rest - c * blockDim.x;
        const int to = (blockIdx.x * blockDim.x + column) * V + c;
        if (to >= p.c) continue;
        ((float *)at.workspace)[((int64_t)blockIdx.y * K * K + tap) * p.c + to] = total;
    }
}

// Adds the splits up; dw is [C][taps]. A block has 32 sums and as many threads for each.
template <typename T, int TAPS>
__device__ static void finish(const plb_operands &at, const plb_depthwise_params &p) {
    __shared__ float sums[PLB_DEPTHWISE_FINISH][PLB_DEPTHWISE_FINISH + 1];
    const int slot = blockIdx.x * PLB_DEPTHWISE_FINISH + threadIdx.x, slots = TAPS * p.c;
    const float *partials = (const float *)at.workspace;
    float sum = 0;
    for (int split = threadIdx.y; split < p.splits && slot < slots; split += PLB_DEPTHWISE_FINISH) {
        sum += partials[(int64_t)split * slots + slot];
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    // A warp turns round, so that its lanes hold the parts of one sum.
    const float total = warp_sum(sums[threadIdx.x][threadIdx.y]);
    const int of = blockIdx.x * PLB_DEPTHWISE_FINISH + threadIdx.y;
    if (threadIdx.x || of >= slots) return;
    const int tap = of / p.c, channel = of - tap * p.c;
    ((T *)at.out[0])[(int64_t)channel * TAPS + tap] = narrow<T>(total);
}

// ---------------------------------------------------------------------------- functions
#define PLB_DEPTHWISE_BODY(name, ...)                                  \
    PLB_GLOBAL void __launch_bounds__(PLB_DEPTHWISE_THREADS)           \
        name(const plb_operands at, const plb_depthwise_params p) {    \
        extern __shared__ float shared[];                              \
        begin();                                                       \
        __VA_ARGS__(at, p, shared);                                    \
    }
// Kernels of K x K, strips of W columns, vectors of V channels.
#define PLB_DEPTHWISE_STRIPS(K, W, V, T, dtype)                                                   \
    PLB_DEPTHWISE_BODY(plb_depthwise_k##K##s1w##W##v##V##_##dtype, forward<T, K, 1, W, V>)        \
    PLB_DEPTHWISE_BODY(plb_depthwise_k##K##s2w##W##v##V##_##dtype, forward<T, K, 2, W, V>)
#define PLB_DEPTHWISE_GRADS(K, W, V, T, dtype)                                                    \
    PLB_DEPTHWISE_BODY(plb_depthwise_dx_k##K##s2w##W##v##V##_##dtype, input_grad_2<T, K, W, V>)   \
    PLB_DEPTHWISE_BODY(plb_depthwise_dw_k##K##s1w##W##v##V##_##dtype, weight_grad<T, K, 1, W, V>) \
    PLB_DEPTHWISE_BODY(plb_depthwise_dw_k##K##s2w##W##v##V##_##dtype, weight_grad<T, K, 2, W, V>)
#define PLB_DEPTHWISE_FINISH_OF(K, T, dtype)                                         \
    PLB_GLOBAL void __launch_bounds__(1024) plb_depthwise_dw_finish_k##K##_##dtype(  \
        const plb_operands at, const plb_depthwise_params p) {                       \
        begin();                                                                     \
        finish<T, K * K>(at, p);                                                     \
    }
#define PLB_DEPTHWISE_ANY(K, T, dtype)          \
    PLB_DEPTHWISE_STRIPS(K, 1, 1, T, dtype)     \
    PLB_DEPTHWISE_GRADS(K, 2, 1, T, dtype)      \
    PLB_DEPTHWISE_FINISH_OF(K, T, dtype)
#define PLB_DEPTHWISE_16(K, T, dtype)           \
    PLB_DEPTHWISE_ANY(K, T, dtype)              \
    PLB_DEPTHWISE_STRIPS(K, 4, 8, T, dtype)     \
    PLB_DEPTHWISE_STRIPS(K, 2, 8, T, dtype)     \
    PLB_DEPTHWISE_STRIPS(K, 4, 4, T, dtype)     \
    PLB_DEPTHWISE_STRIPS(K, 1, 4, T, dtype)     \
    PLB_DEPTHWISE_GRADS(K, 4, 8, T, dtype)      \
    PLB_DEPTHWISE_GRADS(K, 2, 8, T, dtype)      \
    PLB_DEPTHWISE_GRADS(K, 4, 4, T, dtype)
#define PLB_DEPTHWISE_32(K, T, dtype)           \
    PLB_DEPTHWISE_ANY(K, T, dtype)              \
    PLB_DEPTHWISE_STRIPS(K, 4, 4, T, dtype)     \
    PLB_DEPTHWISE_STRIPS(K, 2, 4, T, dtype)     \
    PLB_DEPTHWISE_STRIPS(K, 1, 4, T, dtype)     \
    PLB_DEPTHWISE_GRADS(K, 4, 4, T, dtype)      \
    PLB_DEPTHWISE_GRADS(K, 2, 4, T, dtype)
PLB_DEPTHWISE_16(3, __nv_bfloat16, bf16)
PLB_DEPTHWISE_16(5, __nv_bfloat16, bf16)
PLB_DEPTHWISE_16(3, __half, f16)
PLB_DEPTHWISE_16(5, __half, f16)
PLB_DEPTHWISE_32(3, float, f32)
PLB_DEPTHWISE_32(5, float, f32)
