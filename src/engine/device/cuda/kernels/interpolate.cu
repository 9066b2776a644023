// SPDX-License-Identifier: Apache-2.0
// Resampling and its gradient. The taps are computed as the definition does it
// (engine/ops/interpolate_shape.c), in the same precision and order, so that rounding picks the
// same neighbours. The gradient gathers: a thread goes through those windows that may reach its
// pixel, and asks each for its taps.
#include "engine/device/cuda/kernels/own.cuh"
#include "engine/device/cuda/kernels/pool.h"

enum { NEAREST, LINEAR, CUBIC, MAX_TAPS = 4 };

struct resample_taps {
    int count, index[MAX_TAPS];
    double weight[MAX_TAPS];
};

// Without contraction to fused multiply-adds, which round once where the definition rounds twice.
__device__ static double rounded(const plb_pool_params &p, double value) {
    return p.wide ? value : (double)(float)value;
}

__device__ static double step_of(const plb_pool_params &p, int axis) {
    const int in = p.in[axis], out = p.out[axis];
    if (p.align_corners && p.mode != NEAREST) {
        return out <= 1 ? 0 : rounded(p, (double)(in - 1) / (double)(out - 1));
    }
    const double scale = p.scale[axis];
    return rounded(p, scale > 0 ? 1 / scale : (double)in / (double)out);
}

__device__ static int clamped(int64_t index, int extent) {
    return index < 0 ? 0 : index >= extent ? extent - 1 : (int)index;
}

__device__ static void cubic_weights(const plb_pool_params &p, double t, double *weight) {
    const double a = -0.75;
    for (int i = 0; i < MAX_TAPS; i++) {
        const double x = fabs(t + 1 - i);
        const double near = ((a + 2) * x - (a + 3)) * x * x + 1;
        const double far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
        weight[i] = rounded(p, x <= 1 ? near : far);
    }
}

__device__ static resample_taps taps_of(const plb_pool_params &p, int axis, int out) {
    resample_taps taps = {1, {0}, {1}};
    if (axis < p.first_axis) return taps;
    const int in = p.in[axis];
    const double step = step_of(p, axis);
    if (p.mode == NEAREST) {
        taps.index[0] =
            clamped((int64_t)floorf((float)rounded(p, __dmul_rn((double)out, step))), in);
        return taps;
    }
    const bool cubic = p.mode == CUBIC;
    if (in == p.out[axis] && !cubic) {
        taps.index[0] = out;
        return taps;
    }
    double at = rounded(p, __dmul_rn(step, (double)out));
    if (!p.align_corners) {
        at = rounded(p, rounded(p, __dmul_rn(step, (double)out + 0.5)) - 0.5);
        if (at < 0 && !cubic) at = 0;
    }
    int64_t first = (int64_t)floor(at);
    if (first > in - 1) first = in - 1;
    double t = rounded(p, at - (double)first);
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    if (cubic) {
        taps.count = 4;
        for (int i = 0; i < 4; i++) taps.index[i] = clamped(first - 1 + i, in);
        cubic_weights(p, t, taps.weight);
    } else {
        taps.count = 2;
        taps.index[0] = (int)first, taps.index[1] = clamped(first + 1, in);
        taps.weight[0] = rounded(p, 1 - t), taps.weight[1] = t;
    }
    return taps;
}

struct pixel {
    int n, c, at[PLB_POOL_AXES];
};
__device__ static pixel pixel_of(const plb_pool_params &p, const int32_t *extent, int64_t number) {
    uint32_t i = (uint32_t)number;
    pixel it;
    if (p.channel_inner) it.c = (int)(i % (uint32_t)p.c), i /= (uint32_t)p.c;
    for (int axis = PLB_POOL_AXES - 1; axis >= 0; axis--) {
        it.at[axis] = (int)(i % (uint32_t)extent[axis]), i /= (uint32_t)extent[axis];
    }
    if (!p.channel_inner) it.c = (int)(i % (uint32_t)p.c), i /= (uint32_t)p.c;
    it.n = (int)i;
    return it;
}
__device__ static int64_t offset_of(const int64_t *stride, const pixel &it) {
    return it.n * stride[0] + it.c * stride[1] + it.at[0] * stride[2] + it.at[1] * stride[3] +
           it.at[2] * stride[4];
}

template <typename T>
__device__ static void forward(const plb_operands &at, const plb_pool_params &p) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
        const pixel to = pixel_of(p, p.out, i);
        const resample_taps d = taps_of(p, 0, to.at[0]), h = taps_of(p, 1, to.at[1]),
                            w = taps_of(p, 2, to.at[2]);
        wide<T> sum = 0;
        for (int a = 0; a < d.count; a++) {
            for (int b = 0; b < h.count; b++) {
                for (int c = 0; c < w.count; c++) {
                    const double weight = d.weight[a] * h.weight[b] * w.weight[c];
                    const pixel from = {to.n, to.c, {d.index[a], h.index[b], w.index[c]}};
                    if (weight == 0) continue; // an infinity beside the grid does not count
                    sum += (wide<T>)weight *
                           widen(((const T *)at.in[0])[offset_of(p.stride[0], from)]);
                }
            }
        }
        ((T *)at.out[0])[offset_of(p.stride[1], to)] = narrow<T>(sum);
    }
}

// Windows [first, end) along an axis whose taps may reach position `at`: taps lie within two
// pixels of the coordinate, and one more is left for rounding; what lies outside of x counts at
// its edge.
struct reach {
    int first, end;
};
__device__ static reach reach_of(const plb_pool_params &p, int axis, int at) {
    const int in = p.in[axis], out = p.out[axis];
    const double step = axis < p.first_axis ? 1 : step_of(p, axis);
    reach r = {0, out};
    if (step <= 0) return r;
    const double low = (at - 4) / step - 2, high = (at + 4) / step + 2;
    if (low > 0 && at < in - 4) r.first = low < out ? (int)low : out;
    if (low > 0 && at >= in - 4) r.first = (int)(low < out - 1 ? low : out - 1);
    if (high < out && at < in - 4) r.end = (int)high + 1 < out ? (int)high + 1 : out;
    if (r.first < 0) r.first = 0;
    return r;
}

__device__ static double weight_at(const resample_taps &taps, int at) {
    double weight = 0;
    for (int i = 0; i < taps.count; i++) weight += taps.index[i] == at ? taps.weight[i] : 0;
    return weight;
}

template <typename T>
__device__ static void backward(const plb_operands &at, const plb_pool_params &p) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
        const pixel to = pixel_of(p, p.in, i);
        const reach d = reach_of(p, 0, to.at[0]), h = reach_of(p, 1, to.at[1]),
                    w = reach_of(p, 2, to.at[2]);
        wide<T> sum = 0;
        for (int a = d.first; a < d.end; a++) {
            const double wa = weight_at(taps_of(p, 0, a), to.at[0]);
            if (wa == 0) continue;
            for (int b = h.first; b < h.end; b++) {
                const double wb = wa * weight_at(taps_of(p, 1, b), to.at[1]);
                if (wb == 0) continue;
                for (int c = w.first; c < w.end; c++) {
                    const double weight = wb * weight_at(taps_of(p, 2, c), to.at[2]);
                    if (weight == 0) continue;
                    const pixel from = {to.n, to.c, {a, b, c}};
                    sum += (wide<T>)weight *
                           widen(((const T *)at.in[0])[offset_of(p.stride[0], from)]);
                }
            }
        }
        ((T *)at.out[0])[offset_of(p.stride[1], to)] = narrow<T>(sum);
    }
}

#define PLB_INTERPOLATE(T, dtype)                                                      \
    PLB_GLOBAL void __launch_bounds__(PLB_POOL_THREADS)                                \
        plb_interpolate_##dtype(const plb_operands at, const plb_pool_params p) {      \
        begin();                                                                       \
        forward<T>(at, p);                                                             \
    }                                                                                  \
    PLB_GLOBAL void __launch_bounds__(PLB_POOL_THREADS)                                \
        plb_interpolate_grad_##dtype(const plb_operands at, const plb_pool_params p) { \
        begin();                                                                       \
        backward<T>(at, p);                                                            \
    }
PLB_EACH_FLOAT(PLB_INTERPOLATE)
