// SPDX-License-Identifier: Apache-2.0
// The first convolution of a ResNet: 64 filters of 7x7 over three channels, stride 2, on tensor
// cores. Three channels are no multiple of what those take, but a row of a filter is: its seven
// pixels lie side by side, 21 numbers, and an eighth pixel with weights of zero makes 24. So the
// part of the image under a tile is laid out [row][pixel][channel] in shared memory, and what
// multiplies a row of the filters is read straight from there: one pixel to the right is six
// numbers further. Filters are packed ahead in the order in which the lanes want them, channels so
// that a lane ends with eight neighbours.
#include "engine/device/cuda/kernels/image.h"

#include "engine/device/cuda/kernels/own.cuh"
#include "engine/device/cuda/kernels/tensor_core.cuh"

enum { ROW = PLB_IMAGE_COLUMNS * PLB_IMAGE_CHANNELS, TILES_N = 8, TILES_M = 2 };

// How many groups of 32 x 16 bytes of packed filters a row of taps has.
template <typename T> struct groups_of {
    enum { value = sizeof(T) == 2 ? 6 : 12 };
};

// As multiply, of half as many columns of a.
__device__ static inline void multiply_8(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b,
                                         __nv_bfloat16) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, "
                 "{%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(b));
}
__device__ static inline void multiply_8(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b,
                                         __half) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, "
                 "{%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(b));
}
// As tensor cores read it: f32 is rounded to TF32.
template <typename T> __device__ static inline T rounded(T x) {
    return x;
}
template <> __device__ inline float rounded<float>(float x) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
}

// ---------------------------------------------------------------------------- filters
// The output channel behind column `column` (0 to 7) of the `tile`-th eight: a lane of the result
// has two columns of each eight, and gets the channels 8 t to 8 t + 7 of each 32.
__device__ static int channel_of(int tile, int column) {
    return tile / 4 * 32 + column / 2 * 8 + tile % 4 * 2 + column % 2;
}

template <typename T>
__device__ static T weight_at(const plb_operands &at, const plb_image_params &p, int filter, int r,
                              int k) {
    const int s = k / PLB_IMAGE_CHANNELS, c = k - s * PLB_IMAGE_CHANNELS;
    if (s >= PLB_IMAGE_TAPS) return (T)0.0f;
    return rounded(((const T *)at.in[0])[filter * p.w[0] + c * p.w[1] + r * p.w[2] + s * p.w[3]]);
}

// One word of the packed filters a thread: [row][group][lane][4].
template <typename T>
__device__ static void pack_filters(const plb_operands &at, const plb_image_params &p) {
    enum { GROUPS = groups_of<T>::value, PER = 4 / (int)sizeof(T) };
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int word = i % 4, lane = i / 4 % 32, group = i / 128 % GROUPS, r = i / (128 * GROUPS);
    if (r >= PLB_IMAGE_TAPS) return;
    const int t = lane % 4, at_word = group % 4 * 4 + word, step = group / 4;
    int tile = at_word / 2, k;
    if (sizeof(T) == 4) {
        k = step * 8 + t * 2 + at_word % 2;
    } else if (step == 0) {
        k = t * 2 + at_word % 2 * 8;
    } else {
        tile = at_word, k = 16 + t * 2;
    }
    const int filter = channel_of(tile, lane / 4);
    T *to = (T *)at.out[0] + (int64_t)i * PER;
#pragma unroll
    for (int e = 0; e < PER; e++) to[e] = weight_at<T>(at, p, filter, r, k + e);
}

// ---------------------------------------------------------------------------- one row of taps
// `from`: what pixel 0 of the warp's first row of pixels multiplies; the second is two rows below.
template <typename T>
__device__ static inline void multiply_row(const T *from, const uint4 *filters, int lane,
                                           float (&sum)[TILES_M][TILES_N][4]) {
    const int g = lane / 4, t = lane % 4;
    uint32_t a[TILES_M][6];
#pragma unroll
    for (int m = 0; m < TILES_M; m++) {
        const uint32_t *low = (const uint32_t *)(from + m * 2 * ROW + g * 6) + t;
        const uint32_t *high = low + 8 * 6 / 2;
        a[m][0] = low[0], a[m][1] = high[0], a[m][2] = low[4], a[m][3] = high[4];
        a[m][4] = low[8], a[m][5] = high[8];
    }
#pragma unroll
    for (int q = 0; q < 4; q++) {
        const uint4 b = filters[q * 32 + lane];
#pragma unroll
        for (int m = 0; m < TILES_M; m++) {
            const uint32_t first[4] = {a[m][0], a[m][1], a[m][2], a[m][3]};
            multiply(sum[m][2 * q], first, b.x, b.y, T());
            multiply(sum[m][2 * q + 1], first, b.z, b.w, T());
        }
    }
#pragma unroll
    for (int q = 0; q < 2; q++) {
        const uint4 b = filters[(4 + q) * 32 + lane];
#pragma unroll
        for (int m = 0; m < TILES_M; m++) {
            multiply_8(sum[m][4 * q], a[m][4], a[m][5], b.x, T());
            multiply_8(sum[m][4 * q + 1], a[m][4], a[m][5], b.y, T());
            multiply_8(sum[m][4 * q + 2], a[m][4], a[m][5], b.z, T());
            multiply_8(sum[m][4 * q + 3], a[m][4], a[m][5], b.w, T());
        }
    }
}

// The same in TF32; the numbers 2 t and 2 t + 1 of eight stand where t and t + 4 would, in the
// filters too.
template <>
__device__ inline void multiply_row<float>(const float *from, const uint4 *filters, int lane,
                                           float (&sum)[TILES_M][TILES_N][4]) {
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int step = 0; step < 3; step++) {
        uint32_t a[TILES_M][4];
#pragma unroll
        for (int m = 0; m < TILES_M; m++) {
            const float *low = from + m * 2 * ROW + g * 6 + step * 8 + 2 * t;
            const uint2 x = *(const uint2 *)low, y = *(const uint2 *)(low + 8 * 6);
            a[m][0] = x.x, a[m][1] = y.x, a[m][2] = x.y, a[m][3] = y.y;
        }
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const uint4 b = filters[(step * 4 + q) * 32 + lane];
#pragma unroll
            for (int m = 0; m < TILES_M; m++) {
                multiply(sum[m][2 * q], a[m], b.x, b.y, float());
                multiply(sum[m][2 * q + 1], a[m], b.z, b.w, float());
            }
        }
    }
}

// ---------------------------------------------------------------------------- tiles
struct tile {
    int n, row, column; // first pixel of the result
    __device__ tile(const plb_image_params &p, int i) {
        column = i % p.across * PLB_IMAGE_TILE_COLUMNS, i /= p.across;
        row = i % p.down * PLB_IMAGE_TILE_ROWS, n = i / p.down;
    }
};

template <typename T>
__device__ static void load_image(const plb_operands &at, const plb_image_params &p, const tile &t,
                                  T *image) {
    enum { PLANE = PLB_IMAGE_ROWS * PLB_IMAGE_COLUMNS };
    const T *x = (const T *)at.in[0] + t.n * p.x[0];
    const int top = t.row * 2 - p.pad[0], left = t.column * 2 - p.pad[1];
#pragma unroll 4
    for (int i = threadIdx.x; i < PLANE * PLB_IMAGE_CHANNELS; i += PLB_IMAGE_THREADS) {
        const int c = i / PLANE, pixel = i - c * PLANE;
        const int row = pixel / PLB_IMAGE_COLUMNS, column = pixel - row * PLB_IMAGE_COLUMNS;
        const int h = top + row, w = left + column;
        const bool inside = (unsigned)h < (unsigned)p.in[0] && (unsigned)w < (unsigned)p.in[1];
        image[row * ROW + column * PLB_IMAGE_CHANNELS + c] =
            inside ? rounded(x[c * p.x[1] + h * p.x[2] + w * p.x[3]]) : (T)0.0f;
    }
}

template <typename T>
__device__ static void store(const plb_operands &at, const plb_image_params &p, const tile &here,
                             const float (&sum)[TILES_M][TILES_N][4]) {
    enum { EACH = 16 / (int)sizeof(T) };
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, t = lane % 4;
#pragma unroll
    for (int part = 0; part < 2; part++) {
        const int channel = part * 32 + t * 8;
        float bias[8] = {};
#pragma unroll
        for (int e = 0; e < 8 && at.in[2]; e++) bias[e] = widen(((const T *)at.in[2])[channel + e]);
#pragma unroll
        for (int m = 0; m < TILES_M; m++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int row = here.row + warp * 2 + m, column = here.column + lane / 4 + half * 8;
                if (row >= p.out[0] || column >= p.out[1]) continue;
                T *y = (T *)at.out[0] +
                       (((int64_t)here.n * p.out[0] + row) * p.out[1] + column) * 64 + channel;
#pragma unroll
                for (int e = 0; e < 8; e += EACH) {
                    float value[EACH];
#pragma unroll
                    for (int k = 0; k < EACH; k++) {
                        const float s = sum[m][part * 4 + (e + k) / 2][half * 2 + (e + k) % 2];
                        value[k] = activated(p.act, s + bias[e + k]);
                    }
                    store_narrow<T, EACH>(y + e, value);
                }
            }
        }
    }
}

template <typename T>
__device__ static void convolve(const plb_operands &at, const plb_image_params &p) {
    enum { GROUPS = groups_of<T>::value, FILTER_WORDS = PLB_IMAGE_TAPS * GROUPS * 32 };
    extern __shared__ uint4 memory[];
    T *image = (T *)(memory + FILTER_WORDS);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = threadIdx.x; i < FILTER_WORDS; i += PLB_IMAGE_THREADS) {
        memory[i] = ((const uint4 *)at.in[1])[i];
    }
    for (int i = blockIdx.x; i < p.tiles; i += gridDim.x) {
        const tile here(p, i);
        float sum[TILES_M][TILES_N][4] = {};
        __syncthreads(); // the tile before is done with
        load_image(at, p, here, image);
        __syncthreads();
#pragma unroll 1
        for (int r = 0; r < PLB_IMAGE_TAPS; r++) {
            multiply_row<T>(image + (warp * 4 + r) * ROW, memory + r * GROUPS * 32, lane, sum);
        }
        store<T>(at, p, here, sum);
    }
}

#define PLB_IMAGE(T, dtype)                                                                   \
    PLB_GLOBAL void __launch_bounds__(PLB_IMAGE_THREADS, 4)                                   \
        plb_image_conv_##dtype(const plb_operands at, const plb_image_params p) {             \
        begin();                                                                              \
        convolve<T>(at, p);                                                                   \
    }                                                                                         \
    PLB_GLOBAL void plb_image_pack_##dtype(const plb_operands at, const plb_image_params p) { \
        begin();                                                                              \
        pack_filters<T>(at, p);                                                               \
    }
PLB_IMAGE(float, f32)
PLB_IMAGE(__half, f16)
PLB_IMAGE(__nv_bfloat16, bf16)
