// SPDX-License-Identifier: Apache-2.0
// Batch normalisation. What counts is memory traffic: forward reads x twice and writes y, with
// residual and activation in the same pass; the gradient reads x and dy twice. With channels last
// a thread owns W neighbouring channels and walks down the rows, so that every load is 16 bytes
// and what belongs to a channel stays in registers. Rows are split over blocks, whose partial sums
// a third kernel adds up in f64, in a fixed order: the same bits in every run.
//
// Sums are taken about the first row of a channel, which keeps the variance of data with a large
// mean. The second pass goes from the last row to the first: what the first pass read last is still
// in the cache.
#include "engine/device/cuda/kernels/norm.h"

#include "engine/device/cuda/kernels/own.cuh"

// Where a thread of a block (columns of W channels) x (rows) works.
template <int W> struct place {
    int channel;
    int64_t row, step;
    bool live;
    __device__ explicit place(const plb_norm_params &p) {
        channel = (int)(blockIdx.x * blockDim.x + threadIdx.x) * W;
        row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
        step = (int64_t)gridDim.y * blockDim.y;
        live = channel < p.c;
    }
};

// Adds up the two sums of W channels over the rows of the block; [splits][2][C] gets them.
template <typename A, int W>
__device__ static void put_partials(const plb_norm_params &p, const A (&first)[W],
                                    const A (&second)[W], A *partials) {
    __shared__ A sums[PLB_NORM_THREADS * 2 * W];
    const int columns = blockDim.x, slots = 2 * W * columns;
#pragma unroll
    for (int i = 0; i < W; i++) {
        sums[threadIdx.y * slots + i * columns + threadIdx.x] = first[i];
        sums[threadIdx.y * slots + (W + i) * columns + threadIdx.x] = second[i];
    }
    __syncthreads();
    const int threads = blockDim.x * blockDim.y;
    for (int slot = threadIdx.y * columns + threadIdx.x; slot < slots; slot += threads) {
        A sum = 0;
        for (int y = 0; y < (int)blockDim.y; y++) sum += sums[y * slots + slot];
        const int i = slot / columns, column = slot - i * columns;
        const int channel = (int)(blockIdx.x * columns + column) * W + i % W;
        if (channel >= p.c) continue;
        partials[((int64_t)blockIdx.y * 2 + i / W) * p.c + channel] = sum;
    }
}

// The two sums of a channel in f64; a block has 32 channels and as many threads for each.
struct pair {
    double first, second;
};
template <typename A>
__device__ static pair total_of(const plb_norm_params &p, const A *partials, int channel) {
    __shared__ double sums[2][PLB_NORM_FINISH][PLB_NORM_FINISH + 1];
    double first = 0, second = 0;
    if (channel < p.c) {
        for (int split = threadIdx.y; split < p.splits; split += PLB_NORM_FINISH) {
            first += (double)partials[(int64_t)split * 2 * p.c + channel];
            second += (double)partials[((int64_t)split * 2 + 1) * p.c + channel];
        }
    }
    sums[0][threadIdx.y][threadIdx.x] = first;
    sums[1][threadIdx.y][threadIdx.x] = second;
    __syncthreads();
    // A warp turns round, so that its lanes hold the sums of one channel.
    pair total = {warp_sum(sums[0][threadIdx.x][threadIdx.y]),
                  warp_sum(sums[1][threadIdx.x][threadIdx.y])};
    __syncthreads();
    if (threadIdx.x == 0) {
        sums[0][0][threadIdx.y] = total.first;
        sums[1][0][threadIdx.y] = total.second;
    }
    __syncthreads();
    return {sums[0][0][threadIdx.x], sums[1][0][threadIdx.x]};
}

// ---------------------------------------------------------------------------- forward
// Workspace: partial sums, then scale[C] and shift[C].
template <typename A> __device__ static A *factors_of(const plb_operands &at, int splits, int c) {
    return (A *)at.workspace + (int64_t)splits * 2 * c;
}

template <typename T, int W>
__device__ static void statistics(const plb_operands &at, const plb_norm_params &p) {
    typedef wide<T> A;
    enum { UNROLL = 4 };
    const place<W> here(p);
    const T *x = (const T *)at.in[0] + here.channel;
    A origin[W], sum[W] = {}, square[W] = {};
    if (here.live) {
        load_wide<T, W>(x, origin);
        int64_t row = here.row;
        for (; row + (UNROLL - 1) * here.step < p.rows; row += UNROLL * here.step) {
            A value[UNROLL][W];
#pragma unroll
            for (int k = 0; k < UNROLL; k++) {
                load_wide<T, W>(x + (row + k * here.step) * p.c, value[k]);
            }
#pragma unroll
            for (int k = 0; k < UNROLL; k++) {
#pragma unroll
                for (int i = 0; i < W; i++) {
                    const A d = value[k][i] - origin[i];
                    sum[i] += d, square[i] += d * d;
                }
            }
        }
        for (; row < p.rows; row += here.step) {
            A value[W];
            load_wide<T, W>(x + row * p.c, value);
#pragma unroll
            for (int i = 0; i < W; i++) {
                const A d = value[i] - origin[i];
                sum[i] += d, square[i] += d * d;
            }
        }
    }
    put_partials<A, W>(p, sum, square, (A *)at.workspace);
}

// y = x scale + shift, from the statistics as they are stored: the gradient, which gets those,
// finds the same y and so the same mask of a ReLU.
template <typename A>
__device__ static void affine_of(double gamma, double beta, A mean, A inv_std, A *scale, A *shift) {
    const double factor = gamma * (double)inv_std;
    *scale = (A)factor;
    *shift = (A)(beta - (double)mean * factor);
}

__device__ static float fused(float a, float b, float c) {
    return fmaf(a, b, c);
}
__device__ static double fused(double a, double b, double c) {
    return fma(a, b, c);
}

// From the sums about `origin` to mean, 1 / std and the two factors of the channel.
template <typename A>
__device__ static void finish_channel(const plb_operands &at, const plb_norm_params &p, int channel,
                                      double origin, pair sums, A *scale, A *shift) {
    const double m = (double)p.rows, d = sums.first / m;
    double variance = sums.second / m - d * d;
    if (variance < 0) variance = 0; // a NaN stays
    const double r = 1 / sqrt(variance + p.eps), mean = origin + d;
    affine_of(load_float(at.in[1], p.gamma_type, channel),
              load_float(at.in[2], p.beta_type, channel), (A)mean, (A)r, scale, shift);
    if (at.out[1]) ((A *)at.out[1])[channel] = (A)mean;
    if (at.out[2]) ((A *)at.out[2])[channel] = (A)r;
}

template <typename T>
__device__ static void finish(const plb_operands &at, const plb_norm_params &p) {
    typedef wide<T> A;
    const int channel = blockIdx.x * PLB_NORM_FINISH + threadIdx.x;
    const pair sums = total_of(p, (const A *)at.workspace, channel);
    if (channel >= p.c || threadIdx.y) return;
    A *factors = factors_of<A>(at, p.splits, p.c);
    const double origin = (double)widen(((const T *)at.in[0])[channel]);
    finish_channel(at, p, channel, origin, sums, factors + channel, factors + p.c + channel);
}

// y = act(x scale + shift + residual) down the rows, two at a time.
template <typename T, int W>
__device__ static void apply_rows(const plb_operands &at, const plb_norm_params &p,
                                  const T *residual, const wide<T> (&scale)[W],
                                  const wide<T> (&shift)[W]) {
    typedef wide<T> A;
    enum { UNROLL = 2 };
    const place<W> here(p);
    if (!here.live) return;
    const T *x = (const T *)at.in[0] + here.channel;
    T *y = (T *)at.out[0] + here.channel;
    if (residual) residual += here.channel;
    for (int64_t row = here.row; row < p.rows; row += UNROLL * here.step) {
        A value[UNROLL][W], other[UNROLL][W] = {};
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            const int64_t offset = (p.rows - 1 - row - k * here.step) * p.c;
            if (row + k * here.step >= p.rows) continue;
            load_wide<T, W>(x + offset, value[k]);
            if (residual) load_wide<T, W>(residual + offset, other[k]);
        }
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            if (row + k * here.step >= p.rows) continue;
            A out[W];
#pragma unroll
            for (int i = 0; i < W; i++) {
                out[i] = activated(p.act, fused(value[k][i], scale[i], shift[i]) + other[k][i]);
            }
            store_narrow<T, W>(y + (p.rows - 1 - row - k * here.step) * p.c, out);
        }
    }
}

template <typename T, int W>
__device__ static void apply(const plb_operands &at, const plb_norm_params &p) {
    typedef wide<T> A;
    const place<W> here(p);
    const A *factors = factors_of<A>(at, p.splits, p.c);
    A scale[W] = {}, shift[W] = {};
    if (here.live) {
        load_vector<A, W>(factors, PLB_CODE_F32, here.channel, scale);
        load_vector<A, W>(factors + p.c, PLB_CODE_F32, here.channel, shift);
    }
    apply_rows<T, W>(at, p, (const T *)at.in[3], scale, shift);
}

// With statistics that are given: (x - mean) / sqrt(variance + eps) gamma + beta.
template <typename A>
__device__ static void given_factors(const plb_operands &at, const plb_norm_params &p, int channel,
                                     A *scale, A *shift) {
    const double mean = load_float(at.in[3], p.mean_type, channel);
    const double variance = load_float(at.in[4], p.variance_type, channel);
    const double gamma = load_float(at.in[1], p.gamma_type, channel);
    const double factor = gamma / sqrt(variance + p.eps);
    *scale = (A)factor;
    *shift = (A)(load_float(at.in[2], p.beta_type, channel) - mean * factor);
}

template <typename T, int W>
__device__ static void infer(const plb_operands &at, const plb_norm_params &p) {
    typedef wide<T> A;
    const place<W> here(p);
    A scale[W] = {}, shift[W] = {};
    for (int i = 0; i < W && here.live; i++) {
        given_factors<A>(at, p, here.channel + i, &scale[i], &shift[i]);
    }
    apply_rows<T, W>(at, p, (const T *)at.in[5], scale, shift);
}

// ---------------------------------------------------------------------------- gradient
// dy is multiplied by the slope of what was fused behind: of a ReLU by y, or, where beta is given,
// by what the activation was given, x scale + shift.
enum { MASK_NONE, MASK_Y, MASK_X, MASK_CLAMP, MASK_SILU };

template <int Mask, typename A>
__device__ static A through(const plb_act &act, A dy, A u) {
    if (Mask == MASK_Y || Mask == MASK_X) return u > 0 ? dy : (A)0;
    if (Mask == MASK_CLAMP) return u > (A)act.alpha && u < (A)act.beta ? dy : (A)0;
    if (Mask != MASK_SILU) return dy;
    const A s = sigmoid(u);
    return dy * (s * (1 + u * (1 - s)));
}

// Scale and shift of W channels.
template <typename T, int W>
__device__ static void mask_factors(const plb_operands &at, const plb_norm_params &p, int channel,
                                    wide<T> (&scale)[W], wide<T> (&shift)[W]) {
    wide<T> gamma[W], beta[W], mean[W], inv_std[W];
    load_vector<T, W>(at.in[2], p.gamma_type, channel, gamma);
    load_vector<T, W>(at.in[6], p.beta_type, channel, beta);
    load_vector<T, W>(at.in[3], p.mean_type, channel, mean);
    load_vector<T, W>(at.in[4], p.variance_type, channel, inv_std);
#pragma unroll
    for (int i = 0; i < W; i++) {
        affine_of((double)gamma[i], (double)beta[i], mean[i], inv_std[i], &scale[i], &shift[i]);
    }
}

// With d = dy where y > 0: sums of d and of d (x - mean). Writes d where others need it.
template <typename T, int W, int Mask>
__device__ static void grad_sums(const plb_operands &at, const plb_norm_params &p) {
    typedef wide<T> A;
    enum { UNROLL = 2 };
    const place<W> here(p);
    const T *x = (const T *)at.in[0] + here.channel, *dy = (const T *)at.in[1] + here.channel;
    const T *y = (const T *)at.in[5] + here.channel;
    const T *more = at.in[7] ? (const T *)at.in[7] + here.channel : nullptr;
    T *masked = at.out[3] ? (T *)at.out[3] + here.channel : nullptr;
    A mean[W] = {}, sum[W] = {}, product[W] = {};
    A scale[W] = {}, shift[W] = {};
    if (here.live) {
        load_vector<T, W>(at.in[3], p.mean_type, here.channel, mean);
        if (Mask >= MASK_X) mask_factors<T, W>(at, p, here.channel, scale, shift);
    }
    for (int64_t row = here.row; row < p.rows && here.live; row += UNROLL * here.step) {
        A value[UNROLL][W] = {}, d[UNROLL][W] = {}, mask[UNROLL][W] = {}, other[UNROLL][W] = {};
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            const int64_t offset = (row + k * here.step) * p.c;
            if (row + k * here.step >= p.rows) continue;
            if (more) load_wide<T, W>(more + offset, other[k]);
            load_wide<T, W>(x + offset, value[k]);
            load_wide<T, W>(dy + offset, d[k]);
            if (Mask == MASK_Y) load_wide<T, W>(y + offset, mask[k]);
        }
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            if (row + k * here.step >= p.rows) continue;
#pragma unroll
            for (int i = 0; i < W; i++) {
                if (Mask >= MASK_X) mask[k][i] = fused(value[k][i], scale[i], shift[i]);
                d[k][i] = through<Mask>(p.act, d[k][i] + other[k][i], mask[k][i]);
                sum[i] += d[k][i];
                product[i] += d[k][i] * (value[k][i] - mean[i]);
            }
            if (masked) store_narrow<T, W>(masked + (row + k * here.step) * p.c, d[k]);
        }
    }
    put_partials<A, W>(p, sum, product, (A *)at.workspace);
}

// dx = a d + b (x - mean) + e with a = gamma r, b = -a r dgamma / m, e = -a dbeta / m.
template <typename A>
__device__ static void finish_grad_channel(const plb_operands &at, const plb_norm_params &p,
                                           int channel, pair sums, A (&factor)[4]) {
    const double r = load_float(at.in[4], p.variance_type, channel), m = (double)p.rows;
    const double a = load_float(at.in[2], p.gamma_type, channel) * r, dgamma = sums.second * r;
    factor[0] = (A)a;
    factor[1] = (A)(-a * r * dgamma / m);
    factor[2] = (A)(-a * sums.first / m);
    factor[3] = (A)load_float(at.in[3], p.mean_type, channel);
    if (at.out[1]) store_float(at.out[1], p.gamma_type, channel, dgamma);
    if (at.out[2]) store_float(at.out[2], p.gamma_type, channel, sums.first);
}

template <typename T>
__device__ static void finish_grad(const plb_operands &at, const plb_norm_params &p) {
    typedef wide<T> A;
    const int channel = blockIdx.x * PLB_NORM_FINISH + threadIdx.x;
    const pair sums = total_of(p, (const A *)at.workspace, channel);
    if (channel >= p.c || threadIdx.y) return;
    A *factors = factors_of<A>(at, p.splits, p.c), factor[4];
    finish_grad_channel(at, p, channel, sums, factor);
    for (int i = 0; i < 4; i++) factors[i * p.c + channel] = factor[i];
}

template <typename T, int W, int Mask>
__device__ static void grad_apply(const plb_operands &at, const plb_norm_params &p) {
    typedef wide<T> A;
    enum { UNROLL = 2 };
    const place<W> here(p);
    if (!here.live || !at.out[0]) return;
    const T *x = (const T *)at.in[0] + here.channel;
    // What grad_sums masked needs no mask any more.
    const T *dy = (const T *)(at.out[3] ? at.out[3] : at.in[1]) + here.channel;
    const T *y = (const T *)at.in[5] + here.channel;
    T *dx = (T *)at.out[0] + here.channel;
    const A *factors = factors_of<A>(at, p.splits, p.c);
    A factor[4][W];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        load_vector<A, W>(factors + (int64_t)k * p.c, PLB_CODE_F32, here.channel, factor[k]);
    }
    A scale[W] = {}, shift[W] = {};
    if (Mask >= MASK_X) mask_factors<T, W>(at, p, here.channel, scale, shift);
    for (int64_t row = here.row; row < p.rows; row += UNROLL * here.step) {
        A value[UNROLL][W] = {}, d[UNROLL][W] = {}, mask[UNROLL][W] = {};
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            const int64_t offset = (p.rows - 1 - row - k * here.step) * p.c;
            if (row + k * here.step >= p.rows) continue;
            load_wide<T, W>(x + offset, value[k]);
            load_wide<T, W>(dy + offset, d[k]);
            if (Mask == MASK_Y) load_wide<T, W>(y + offset, mask[k]);
        }
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            if (row + k * here.step >= p.rows) continue;
            A out[W];
#pragma unroll
            for (int i = 0; i < W; i++) {
                if (Mask >= MASK_X) mask[k][i] = fused(value[k][i], scale[i], shift[i]);
                const A on = through<Mask>(p.act, d[k][i], mask[k][i]);
                const A centred = value[k][i] - factor[3][i];
                out[i] = factor[0][i] * on + (factor[1][i] * centred + factor[2][i]);
            }
            store_narrow<T, W>(dx + (p.rows - 1 - row - k * here.step) * p.c, out);
        }
    }
}

// ---------------------------------------------------------------------------- any strides
// One block a channel: for layouts in which channels are not innermost.
struct walk {
    int sample, pixel;
    __device__ walk(const plb_norm_params &p, int i) : sample(i / p.s), pixel(i - sample * p.s) {}
    __device__ int64_t offset(const plb_norm_params &p, int operand, int channel) const {
        const int64_t *stride = p.stride[operand];
        return sample * stride[0] + channel * stride[1] + pixel * stride[2];
    }
};

template <typename T>
__device__ static void apply_plane(const plb_operands &at, const plb_norm_params &p, const T *z,
                                   wide<T> scale, wide<T> shift) {
    typedef wide<T> A;
    const int channel = blockIdx.x;
    for (int i = threadIdx.x; i < p.rows; i += blockDim.x) {
        const walk w(p, i);
        A value = fused(widen(((const T *)at.in[0])[w.offset(p, 0, channel)]), scale, shift);
        if (z) value += widen(z[w.offset(p, 2, channel)]);
        ((T *)at.out[0])[w.offset(p, 1, channel)] = narrow<T>(activated(p.act, value));
    }
}

template <typename T>
__device__ static void forward_plane(const plb_operands &at, const plb_norm_params &p) {
    typedef wide<T> A;
    const int channel = blockIdx.x;
    const T *x = (const T *)at.in[0];
    const A origin = widen(x[channel * p.stride[0][1]]);
    double sum = 0, square = 0;
    for (int i = threadIdx.x; i < p.rows; i += blockDim.x) {
        const A d = widen(x[walk(p, i).offset(p, 0, channel)]) - origin;
        sum += (double)d, square += (double)(d * d);
    }
    const pair sums = {block_sum(sum), block_sum(square)};
    __shared__ A factor[2];
    if (threadIdx.x == 0) {
        finish_channel(at, p, channel, (double)origin, sums, &factor[0], &factor[1]);
    }
    __syncthreads();
    apply_plane<T>(at, p, (const T *)at.in[3], factor[0], factor[1]);
}

template <typename T>
__device__ static void infer_plane(const plb_operands &at, const plb_norm_params &p) {
    wide<T> scale, shift;
    given_factors<wide<T>>(at, p, blockIdx.x, &scale, &shift);
    apply_plane<T>(at, p, (const T *)at.in[5], scale, shift);
}

template <typename T>
__device__ static wide<T> masked_at(const plb_operands &at, const plb_norm_params &p, const walk &w,
                                    wide<T> value, wide<T> scale, wide<T> shift) {
    const int channel = blockIdx.x;
    const T *y = (const T *)at.in[5];
    wide<T> dy = widen(((const T *)at.in[1])[w.offset(p, 1, channel)]);
    if (at.in[7]) dy += widen(((const T *)at.in[7])[w.offset(p, 5, channel)]);
    if (y && !(widen(y[w.offset(p, 2, channel)]) > 0)) return 0;
    if (!at.in[6]) return dy;
    const wide<T> u = fused(value, scale, shift);
    if (p.act.kind == 2) return through<MASK_CLAMP>(p.act, dy, u);
    return p.act.kind == 3 ? through<MASK_SILU>(p.act, dy, u) : through<MASK_X>(p.act, dy, u);
}

template <typename T>
__device__ static void grad_plane(const plb_operands &at, const plb_norm_params &p) {
    typedef wide<T> A;
    const int channel = blockIdx.x;
    const T *x = (const T *)at.in[0];
    const A mean = (A)load_float(at.in[3], p.mean_type, channel);
    A scale[1] = {}, shift[1] = {};
    if (at.in[6]) mask_factors<T, 1>(at, p, channel, scale, shift);
    double sum = 0, product = 0;
    for (int i = threadIdx.x; i < p.rows; i += blockDim.x) {
        const walk w(p, i);
        const A value = widen(x[w.offset(p, 0, channel)]),
                d = masked_at<T>(at, p, w, value, scale[0], shift[0]);
        sum += (double)d, product += (double)(d * (value - mean));
    }
    const pair sums = {block_sum(sum), block_sum(product)};
    __shared__ A factor[4];
    if (threadIdx.x == 0) finish_grad_channel(at, p, channel, sums, factor);
    __syncthreads();
    for (int i = threadIdx.x; i < p.rows; i += blockDim.x) {
        const walk w(p, i);
        const A value = widen(x[w.offset(p, 0, channel)]),
                d = masked_at<T>(at, p, w, value, scale[0], shift[0]);
        const A out = factor[0] * d + (factor[1] * (value - mean) + factor[2]);
        if (at.out[0]) ((T *)at.out[0])[w.offset(p, 3, channel)] = narrow<T>(out);
        if (at.out[3]) ((T *)at.out[3])[w.offset(p, 4, channel)] = narrow<T>(d);
    }
}

// ---------------------------------------------------------------------------- functions
#define PLB_NORM_KERNEL(name, body)                                  \
    PLB_GLOBAL void __launch_bounds__(1024)                          \
        plb_##name(const plb_operands at, const plb_norm_params p) { \
        begin();                                                     \
        body;                                                        \
    }
#define PLB_NORM_ROWS(name, dtype, wide_function, function)                         \
    PLB_GLOBAL void __launch_bounds__(PLB_NORM_THREADS)                             \
        plb_##name##_wide_##dtype(const plb_operands at, const plb_norm_params p) { \
        begin();                                                                    \
        wide_function(at, p);                                                       \
    }                                                                               \
    PLB_GLOBAL void __launch_bounds__(PLB_NORM_THREADS)                             \
        plb_##name##_##dtype(const plb_operands at, const plb_norm_params p) {      \
        begin();                                                                    \
        function(at, p);                                                            \
    }
#define PLB_NORM_GRADS(suffix, mask, T, dtype)                                               \
    PLB_NORM_ROWS(norm_grad_sums##suffix, dtype, (grad_sums<T, width_of<T>::value, mask>),   \
                  (grad_sums<T, 1, mask>))                                                   \
    PLB_NORM_ROWS(norm_grad_apply##suffix, dtype, (grad_apply<T, width_of<T>::value, mask>), \
                  (grad_apply<T, 1, mask>))
#define PLB_NORM(T, dtype)                                                                   \
    PLB_NORM_ROWS(norm_sums, dtype, (statistics<T, width_of<T>::value>), (statistics<T, 1>)) \
    PLB_NORM_ROWS(norm_apply, dtype, (apply<T, width_of<T>::value>), (apply<T, 1>))          \
    PLB_NORM_ROWS(norm_infer, dtype, (infer<T, width_of<T>::value>), (infer<T, 1>))          \
    PLB_NORM_GRADS(, MASK_NONE, T, dtype)                                                    \
    PLB_NORM_GRADS(_by_y, MASK_Y, T, dtype)                                                  \
    PLB_NORM_GRADS(_by_x, MASK_X, T, dtype)                                                  \
    PLB_NORM_GRADS(_clamp, MASK_CLAMP, T, dtype)                                             \
    PLB_NORM_GRADS(_silu, MASK_SILU, T, dtype)                                               \
    PLB_NORM_KERNEL(norm_finish_##dtype, finish<T>(at, p))                                   \
    PLB_NORM_KERNEL(norm_grad_finish_##dtype, finish_grad<T>(at, p))                         \
    PLB_NORM_KERNEL(norm_plane_##dtype, forward_plane<T>(at, p))                             \
    PLB_NORM_KERNEL(norm_infer_plane_##dtype, infer_plane<T>(at, p))                         \
    PLB_NORM_KERNEL(norm_grad_plane_##dtype, grad_plane<T>(at, p))
PLB_EACH_FLOAT(PLB_NORM)
