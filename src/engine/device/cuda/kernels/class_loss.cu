// SPDX-License-Identifier: Apache-2.0
// Losses whose target is a class, and their gradients. A position's scores are read by a warp where
// they lie along memory, else by one thread. Sums over positions are made by one block, in a fixed
// order, from what the positions left in the workspace: losses[positions], weights[positions], both
// f64, then the total weight.
#include "engine/device/cuda/kernels/class_loss.h"

#include "engine/device/cuda/kernels/own.cuh"

// A position, its target, the class weights.
template <typename T> struct position {
    typedef wide<T> A;
    int64_t base; // of the scores of class 0
    int64_t pitch;
    int target; // -1: ignored
    const T *weights;

    __device__ position(const plb_operands &at, const plb_loss_params &p, int64_t i) {
        const int64_t sample = i / p.inner;
        base = sample * p.classes * p.inner + (i - sample * p.inner);
        pitch = p.inner;
        weights = (const T *)at.in[p.target_at + 1];
        const int64_t found = ((const int64_t *)at.in[p.target_at])[i];
        const bool legal = found >= 0 && found < p.classes;
        target = legal && found != p.ignore_index ? (int)found : -1;
        if (!legal && found != p.ignore_index) {
            note_fault(at.fault, p.op, i, found, p.classes);
        }
    }
    __device__ A weight(int c) const { return weights ? widen(weights[c]) : (A)1; }
    __device__ A score(const T *x, int c) const { return widen(x[base + c * pitch]); }
};

// Sums and maxima over the threads that share a position: a warp, or one alone.
template <bool Warp, typename A> __device__ static A shared_sum(A value) {
    return Warp ? warp_sum(value) : value;
}
template <bool Warp, typename A> __device__ static A shared_max(A value) {
    if constexpr (Warp) {
#pragma unroll
        for (int step = 16; step; step >>= 1) {
            const A other = __shfl_xor_sync(~0u, value, step);
            value = other > value || other != other ? other : value;
        }
    }
    return value;
}

template <bool Warp> struct share {
    int lane, lanes;
    int64_t first, step; // positions
    __device__ share() {
        lane = Warp ? threadIdx.x % 32 : 0;
        lanes = Warp ? 32 : 1;
        const int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
        first = thread / lanes;
        step = (int64_t)gridDim.x * blockDim.x / lanes;
    }
};

template <typename T, bool Warp>
__device__ static wide<T> greatest_of(const plb_loss_params &p, const position<T> &here,
                                      const share<Warp> &s, const T *x) {
    typedef wide<T> A;
    A greatest = (A)-INFINITY;
    for (int c = s.lane; c < p.classes; c += s.lanes) {
        const A score = here.score(x, c);
        if (score > greatest || score != score) greatest = score;
    }
    return shared_max<Warp>(greatest);
}

template <typename T, bool Warp>
__device__ static wide<T> exponentials_of(const plb_loss_params &p, const position<T> &here,
                                          const share<Warp> &s, const T *x, wide<T> greatest) {
    wide<T> sum = 0;
    for (int c = s.lane; c < p.classes; c += s.lanes) sum += exp(here.score(x, c) - greatest);
    return shared_sum<Warp>(sum);
}

template <typename T>
__device__ static void leave(const plb_operands &at, const plb_loss_params &p, int64_t i,
                             double loss, double weight) {
    if (p.reduction == 2) {
        ((T *)at.out[0])[i] = narrow<T>((wide<T>)loss);
    } else {
        ((double *)at.workspace)[i] = loss;
        ((double *)at.workspace)[p.positions + i] = weight;
    }
}

template <typename T, bool Warp>
__device__ static void cross_entropy(const plb_operands &at, const plb_loss_params &p) {
    typedef wide<T> A;
    const share<Warp> s;
    const T *x = (const T *)at.in[0];
    for (int64_t i = s.first; i < p.positions; i += s.step) {
        const position<T> here(at, p, i);
        double loss = 0, weight = 0;
        if (here.target >= 0) {
            const A greatest = greatest_of<T, Warp>(p, here, s, x);
            const A log_sum = log(exponentials_of<T, Warp>(p, here, s, x, greatest));
            weight = (double)here.weight(here.target);
            // Differences first: they are small where scores are large.
            loss = weight * (double)(greatest - here.score(x, here.target) + log_sum);
            if (p.smoothing != 0) {
                A soft = 0;
                for (int c = s.lane; c < p.classes; c += s.lanes) {
                    soft += here.weight(c) * (greatest - here.score(x, c) + log_sum);
                }
                soft = shared_sum<Warp>(soft);
                loss = (1 - p.smoothing) * loss + p.smoothing / p.classes * (double)soft;
            }
        }
        if (s.lane == 0) leave<T>(at, p, i, loss, weight);
    }
}

template <typename T> __device__ static void nll(const plb_operands &at, const plb_loss_params &p) {
    const share<false> s;
    for (int64_t i = s.first; i < p.positions; i += s.step) {
        const position<T> here(at, p, i);
        double loss = 0, weight = 0;
        if (here.target >= 0) {
            weight = (double)here.weight(here.target);
            loss = -weight * (double)here.score((const T *)at.in[0], here.target);
        }
        leave<T>(at, p, i, loss, weight);
    }
}

// The sum, or mean, of what the positions left.
template <typename T>
__device__ static void loss_sum(const plb_operands &at, const plb_loss_params &p) {
    double loss = 0, weight = 0;
    for (int64_t i = threadIdx.x; i < p.positions; i += blockDim.x) {
        loss += ((const double *)at.workspace)[i];
        weight += ((const double *)at.workspace)[p.positions + i];
    }
    loss = block_sum(loss);
    weight = block_sum(weight);
    if (threadIdx.x) return;
    *(T *)at.out[0] = narrow<T>((wide<T>)(p.reduction == 0 ? loss / weight : loss));
}

// The weight of all positions, which a mean is divided by.
template <typename T>
__device__ static void total_weight(const plb_operands &at, const plb_loss_params &p) {
    double weight = 0;
    for (int64_t i = threadIdx.x; i < p.positions; i += blockDim.x) {
        const position<T> here(at, p, i);
        if (here.target >= 0) weight += (double)here.weight(here.target);
    }
    weight = block_sum(weight);
    if (threadIdx.x == 0) *(double *)at.workspace = weight;
}

template <typename T>
__device__ static double slope_of(const plb_operands &at, const plb_loss_params &p, int64_t i) {
    const T *dy = (const T *)at.in[0];
    if (p.reduction == 2) return (double)widen(dy[i]);
    const double slope = (double)widen(dy[0]);
    return p.reduction == 0 ? slope / *(const double *)at.workspace : slope;
}

// dx[c] = g (S p[c] - (1 - e) w[t] [c = t] - e/C w[c]).
template <typename T, bool Warp>
__device__ static void cross_entropy_grad(const plb_operands &at, const plb_loss_params &p) {
    typedef wide<T> A;
    const share<Warp> s;
    const T *x = (const T *)at.in[1];
    T *dx = (T *)at.out[0];
    const A each = (A)(p.smoothing / p.classes);
    for (int64_t i = s.first; i < p.positions; i += s.step) {
        const position<T> here(at, p, i);
        if (here.target < 0) {
            for (int c = s.lane; c < p.classes; c += s.lanes) {
                dx[here.base + c * here.pitch] = narrow<T>((A)0);
            }
            continue;
        }
        const A g = (A)slope_of<T>(at, p, i);
        const A hard = (A)(1 - p.smoothing) * here.weight(here.target);
        const A greatest = greatest_of<T, Warp>(p, here, s, x);
        const A sum = exponentials_of<T, Warp>(p, here, s, x, greatest);
        A weights = 0;
        for (int c = s.lane; c < p.classes && each != 0; c += s.lanes) weights += here.weight(c);
        weights = shared_sum<Warp>(weights);
        const A scale = (hard + each * weights) / sum;
        for (int c = s.lane; c < p.classes; c += s.lanes) {
            A d = scale * exp(here.score(x, c) - greatest);
            d -= each * here.weight(c) + (c == here.target ? hard : (A)0);
            dx[here.base + c * here.pitch] = narrow<T>(g * d);
        }
    }
}

// -g w[t] at the target, else zero; a thread an element.
template <typename T>
__device__ static void nll_grad(const plb_operands &at, const plb_loss_params &p) {
    typedef wide<T> A;
    const int64_t count = p.positions * p.classes, step = (int64_t)gridDim.x * blockDim.x;
    const int64_t whole = (int64_t)p.classes * p.inner;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const int64_t sample = i / whole, rest = i - sample * whole;
        const int c = (int)(rest / p.inner);
        const int64_t place = sample * p.inner + rest % p.inner;
        const position<T> here(at, p, place);
        A value = 0;
        if (here.target == c) value = (A)-slope_of<T>(at, p, place) * here.weight(c);
        ((T *)at.out[0])[i] = narrow<T>(value);
    }
}

#define PLB_LOSS_KERNEL(name, threads, body)                         \
    PLB_GLOBAL void __launch_bounds__(threads)                       \
        plb_##name(const plb_operands at, const plb_loss_params p) { \
        begin();                                                     \
        body;                                                        \
    }
#define PLB_LOSS(T, dtype)                                                      \
    PLB_LOSS_KERNEL(cross_entropy_warps_##dtype, PLB_LOSS_THREADS,              \
                    (cross_entropy<T, true>(at, p)))                            \
    PLB_LOSS_KERNEL(cross_entropy_threads_##dtype, PLB_LOSS_THREADS,            \
                    (cross_entropy<T, false>(at, p)))                           \
    PLB_LOSS_KERNEL(cross_entropy_grad_warps_##dtype, PLB_LOSS_THREADS,         \
                    (cross_entropy_grad<T, true>(at, p)))                       \
    PLB_LOSS_KERNEL(cross_entropy_grad_threads_##dtype, PLB_LOSS_THREADS,       \
                    (cross_entropy_grad<T, false>(at, p)))                      \
    PLB_LOSS_KERNEL(nll_##dtype, PLB_LOSS_THREADS, nll<T>(at, p))               \
    PLB_LOSS_KERNEL(nll_grad_##dtype, PLB_LOSS_THREADS, nll_grad<T>(at, p))     \
    PLB_LOSS_KERNEL(loss_sum_##dtype, PLB_LOSS_SUM_THREADS, loss_sum<T>(at, p)) \
    PLB_LOSS_KERNEL(loss_weight_##dtype, PLB_LOSS_SUM_THREADS, total_weight<T>(at, p))
PLB_EACH_FLOAT(PLB_LOSS)
