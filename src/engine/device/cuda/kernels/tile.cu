// SPDX-License-Identifier: Apache-2.0
// Convolutions of few pixels on tensor cores, where a launch takes as long as its memory and its
// waiting, not as its sums. A block makes a tile of pixels x filters; what is summed up, all taps
// of all channels, is split over the blocks of a cluster, which add their parts of the tile up
// through each other's shared memory, in a fixed order: so a layer of 49 pixels fills a device.
// And a block asks for its filters before it waits for the kernel in front of it, whose result it
// needs for the pixels alone.
#include "engine/device/cuda/kernels/tile.h"

#include "engine/device/cuda/kernels/own.cuh"
#include "engine/device/cuda/kernels/tensor_core.cuh"

enum { WARPS = PLB_TILE_THREADS / 32, VECTORS = PLB_TILE_CHUNK_BYTES / 16 };
enum { ROWS_EACH = PLB_TILE_THREADS / VECTORS }; // that all threads copy a vector each of

// A stage holds a chunk of each pixel, then of each filter, as rows of VECTORS times 16 bytes. A
// warp has 32 pixels and WIDTH filters.
template <int PIXELS, int FILTERS> struct tile {
    enum {
        STAGE = (PIXELS + FILTERS) * VECTORS * 16,
        DOWN = PIXELS / 32, // warps
        WIDTH = FILTERS / (WARPS / DOWN),
        EIGHTS = WIDTH / 8,
        PITCH = PLB_TILE_PITCH(FILTERS),               // of the sums in shared memory
        EACH = PIXELS * FILTERS / 4 / PLB_TILE_THREADS // parts of four sums a thread
    };
};

// ---------------------------------------------------------------------------- tensor cores
// As tensor cores read it: f32 is rounded to TF32, as they only cut it off; what is no number stays
// none.
template <typename T> __device__ static inline void round_words(uint32_t (&)[4], T) {}
__device__ static inline void round_words(uint32_t (&word)[4], float) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (fabsf(__uint_as_float(word[i])) < INFINITY) word[i] += 0x1000;
    }
}

// Four matrices of eight rows of 16 bytes; each lane names a row.
__device__ static inline void load_matrices(uint32_t (&out)[4], uint32_t row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(row)
                 : "memory");
}

// Where a row's vector lies: turned, so that one column of eight rows meets all banks.
__device__ static inline uint32_t vector_at(uint32_t rows, int row, int vector) {
    return rows + (uint32_t)(row * VECTORS + (vector ^ (row & 7))) * 16;
}

// What a warp multiplies at once, 32 bytes of each row: of its pixels twice sixteen, of its filters
// WIDTH / 16 times as many. Each lane names rows to load.
template <typename T, int PIXELS, int FILTERS> struct fragments {
    typedef tile<PIXELS, FILTERS> shape;
    uint32_t a[2][4], b[shape::EIGHTS / 2][4];

    __device__ void load(uint32_t stage, int step) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const int pixel = warp % shape::DOWN * 32 + lane % 16;
        const int filter = warp / shape::DOWN * shape::WIDTH + lane / 16 * 8 + lane % 8;
        const uint32_t filters = stage + PIXELS * VECTORS * 16;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            load_matrices(a[i], vector_at(stage, pixel + i * 16, step * 2 + lane / 16));
        }
#pragma unroll
        for (int i = 0; i < shape::EIGHTS / 2; i++) {
            load_matrices(b[i], vector_at(filters, filter + i * 16, step * 2 + lane / 8 % 2));
        }
    }
    __device__ void multiply_into(float (&sum)[2][shape::EIGHTS][4]) {
#pragma unroll
        for (int i = 0; i < 2; i++) round_words(a[i], T());
#pragma unroll
        for (int i = 0; i < shape::EIGHTS / 2; i++) {
            round_words(b[i], T());
#pragma unroll
            for (int k = 0; k < 2; k++) {
                multiply(sum[k][2 * i], a[k], b[i][0], b[i][1], T());
                multiply(sum[k][2 * i + 1], a[k], b[i][2], b[i][3], T());
            }
        }
    }
};

// One stage; what comes next is on its way while tensor cores have what came before.
template <typename T, int PIXELS, int FILTERS>
__device__ static void multiply_stage(uint32_t stage,
                                      float (&sum)[2][tile<PIXELS, FILTERS>::EIGHTS][4]) {
    fragments<T, PIXELS, FILTERS> f[2];
    f[0].load(stage, 0);
#pragma unroll
    for (int step = 0; step < VECTORS / 2; step++) {
        if (step + 1 < VECTORS / 2) f[(step + 1) % 2].load(stage, step + 1);
        f[step % 2].multiply_into(sum);
    }
}

// ---------------------------------------------------------------------------- copies
// 16 bytes, or as many zeros: then nothing is read.
__device__ static inline void copy_vector(uint32_t to, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(to), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}
__device__ static inline void end_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int LEFT> __device__ static inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// A thread copies one vector of each ROWS_EACH-th row; where that lies in a stage.
__device__ static inline uint32_t place_of_thread() {
    return vector_at(0, threadIdx.x / VECTORS, threadIdx.x % VECTORS);
}

// Of filters, numbered as they are summed up: all channels of a tap, then those of the next.
template <typename T, int PIXELS, int FILTERS> struct filter_copier {
    const T *from;
    int at, left; // number; filters from the thread's first one on

    __device__ filter_copier(const plb_operands &o, const plb_tile_params &p, int chunk) {
        const int first = blockIdx.y * FILTERS + threadIdx.x / VECTORS;
        at = (chunk * VECTORS + threadIdx.x % VECTORS) * width_of<T>::value;
        from = (const T *)o.in[1] + (int64_t)first * p.depth + at;
        left = p.filters - first;
    }
    __device__ void copy(const plb_tile_params &p, uint32_t stage) {
        const uint32_t to = stage + PIXELS * VECTORS * 16 + place_of_thread();
        const int rows = at < p.depth ? left : 0;
#pragma unroll
        for (int i = 0; i < FILTERS; i += ROWS_EACH) {
            copy_vector(to + i * VECTORS * 16, from + (int64_t)i * p.depth, i < rows);
        }
        at += VECTORS * width_of<T>::value, from += VECTORS * width_of<T>::value;
    }
};

// Of pixels, which a filter's tap meets or, in the padding, does not.
template <typename T, int PIXELS> struct pixel_copier {
    enum { EACH = PIXELS / ROWS_EACH };
    int tap, s, c, step; // tap, its column, channel; where that lies from tap 0 and channel 0 on
    int first[EACH];     // element that those meet
    unsigned taps[EACH]; // bit t: tap t meets a pixel

    __device__ pixel_copier(const plb_tile_params &p, int chunk) {
        const int at = (chunk * VECTORS + threadIdx.x % VECTORS) * width_of<T>::value;
        tap = at / p.c, c = at - tap * p.c;
        const int r = tap / p.kernel[1];
        s = tap - r * p.kernel[1];
        step = (r * p.dilation[0] * p.in[1] + s * p.dilation[1]) * p.c + c;
        const int begin = blockIdx.x * PIXELS + threadIdx.x / VECTORS, line = begin / p.out[1];
        int n = line / p.out[0], h = line - n * p.out[0], w = begin - line * p.out[1];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int top = h * p.stride[0] - p.pad[0], left = w * p.stride[1] - p.pad[1];
            first[i] = ((n * p.in[0] + top) * p.in[1] + left) * p.c;
            taps[i] = begin + i * ROWS_EACH < p.pixels ? met(p, top, left) : 0;
#pragma unroll 1
            for (w += ROWS_EACH; w >= p.out[1]; w -= p.out[1]) {
                if (++h == p.out[0]) h = 0, n++;
            }
        }
    }
    __device__ static unsigned met(const plb_tile_params &p, int top, int left) {
        unsigned columns = 0, all = 0;
#pragma unroll 1
        for (int i = 0; i < p.kernel[1]; i++) {
            if ((unsigned)(left + i * p.dilation[1]) < (unsigned)p.in[1]) columns |= 1u << i;
        }
#pragma unroll 1
        for (int i = 0; i < p.kernel[0]; i++) {
            if ((unsigned)(top + i * p.dilation[0]) >= (unsigned)p.in[0]) continue;
            all |= columns << i * p.kernel[1];
        }
        return all;
    }
    __device__ void copy(const plb_operands &o, const plb_tile_params &p, uint32_t stage) {
        const uint32_t to = stage + place_of_thread();
        const unsigned bit = tap < PLB_TILE_TAPS ? 1u << tap : 0; // past the last one: met by none
        const T *from = (const T *)o.in[0] + step;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            copy_vector(to + i * ROWS_EACH * VECTORS * 16, from + first[i], taps[i] & bit);
        }
        c += VECTORS * width_of<T>::value, step += VECTORS * width_of<T>::value;
#pragma unroll 1
        for (; c >= p.c; c -= p.c) {
            step += (p.dilation[1] - 1) * p.c, tap++;
            if (++s < p.kernel[1]) continue;
            s = 0, step += (p.dilation[0] * p.in[1] - p.kernel[1] * p.dilation[1]) * p.c;
        }
    }
};

// ---------------------------------------------------------------------------- the end
// All threads of all blocks of a cluster come to both; between them a thread may do other things.
__device__ static inline void arrive_at_cluster() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ static inline void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// To where `to` is in the shared memory of block `rank` of the cluster.
__device__ static inline void store_shared_of(float *to, int rank, const float4 &v) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\t"
                 "st.shared::cluster.v4.f32 [there], {%2, %3, %4, %5};\n\t}"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "r"(rank), "f"(v.x), "f"(v.y),
                   "f"(v.z), "f"(v.w)
                 : "memory");
#endif
}

// Within the bounds; what is no number stays so.
__device__ static inline float bounded(const plb_tile_params &p, float x) {
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(p.low));
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(p.high));
    return x;
}

// A lane has two sums of a row and two of the eighth row below. Its neighbour has the two beside
// them: one of them gets four of the first row, the other four of the second.
__device__ static inline float4 four_of_row(const float (&sum)[4]) {
    const bool odd = threadIdx.x & 1;
    const float x = __shfl_xor_sync(~0u, odd ? sum[0] : sum[2], 1);
    const float y = __shfl_xor_sync(~0u, odd ? sum[1] : sum[3], 1);
    return odd ? make_float4(x, y, sum[2], sum[3]) : make_float4(sum[0], sum[1], x, y);
}

// Each block of a cluster ends with the sums of its share of the pixels: `sums` has a part of each
// block, one after the other.
template <int PIXELS, int FILTERS>
__device__ static void share_sums(float *sums,
                                  const float (&sum)[2][tile<PIXELS, FILTERS>::EIGHTS][4]) {
    typedef tile<PIXELS, FILTERS> shape;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, splits = gridDim.z;
    const int column = warp / shape::DOWN * shape::WIDTH + lane % 4 / 2 * 4;
    const int share = PIXELS / splits, shift = __ffs(share) - 1; // powers of two
    if (splits > 1) wait_for_cluster();                          // all have begun
#pragma unroll
    for (int part = 0; part < 2; part++) {
        const int row = warp % shape::DOWN * 32 + part * 16 + lane % 2 * 8 + lane / 4;
        const int owner = row >> shift;
        float *to = sums + (blockIdx.z * share + row - owner * share) * shape::PITCH + column;
#pragma unroll
        for (int i = 0; i < shape::EIGHTS; i++) {
            const float4 four = four_of_row(sum[part][i]);
            if (splits > 1) {
                store_shared_of(to + i * 8, owner, four);
            } else {
                *(float4 *)(to + i * 8) = four;
            }
        }
    }
    if (splits > 1) {
        arrive_at_cluster();
        wait_for_cluster();
    } else {
        __syncthreads();
    }
}

// Writes a block's share of the tile, parts of four filters of a pixel. What the epilogue reads is
// asked for before the sums are there.
template <typename T, int PIXELS, int FILTERS> struct writer {
    typedef tile<PIXELS, FILTERS> shape;
    enum { ACROSS = FILTERS / 4, ROWS = PLB_TILE_THREADS / ACROSS }; // ROWS: from part to part
    int share, rows, first; // pixels of the block; those from the thread's on; their element
    float bias[4];
    pack<T, 4> residual[shape::EACH];

    __device__ writer(const plb_operands &o, const plb_tile_params &p) {
        share = PIXELS / gridDim.z;
        const int row = threadIdx.x / ACROSS, filter = blockIdx.y * FILTERS + column();
        const int pixel = blockIdx.x * PIXELS + blockIdx.z * share + row;
        rows = filter < p.filters ? min(share - row, p.pixels - pixel) : 0;
        first = pixel * p.filters + filter;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            bias[e] = o.in[2] && rows > 0 ? (float)widen(((const T *)o.in[2])[filter + e]) : 0;
        }
#pragma unroll
        for (int i = 0; i < shape::EACH; i++) {
            if (!o.in[3] || i * ROWS >= rows) break;
            residual[i] = *(const pack<T, 4> *)((const T *)o.in[3] + first + i * ROWS * p.filters);
        }
    }
    __device__ int column() const {
        return threadIdx.x % ACROSS * 4;
    }
    // SPLITS: 1, or of any more the most that there are.
    template <int SPLITS>
    __device__ void write(const plb_operands &o, const plb_tile_params &p, const float *sums) {
        const int splits = SPLITS > 1 ? gridDim.z : 1;
        const float *from = sums + threadIdx.x / ACROSS * shape::PITCH + column();
#pragma unroll
        for (int i = 0; i < shape::EACH / (SPLITS > 1 ? 2 : 1); i++) {
            if (i * ROWS >= rows) break;
            float4 part[SPLITS];
#pragma unroll
            for (int k = 0; k < SPLITS; k++) {
                if (k < splits)
                    part[k] = *(const float4 *)(from + k * share * shape::PITCH);
                else
                    part[k] = make_float4(0, 0, 0, 0);
            }
#pragma unroll
            for (int k = 1; k < SPLITS; k++) {
                part[0].x += part[k].x, part[0].y += part[k].y;
                part[0].z += part[k].z, part[0].w += part[k].w;
            }
            put(o, p, part[0], i);
            from += ROWS * shape::PITCH;
        }
    }
    __device__ void put(const plb_operands &o, const plb_tile_params &p, const float4 &sum, int i) {
        float value[4] = {sum.x + bias[0], sum.y + bias[1], sum.z + bias[2], sum.w + bias[3]};
        if (o.in[3]) {
#pragma unroll
            for (int e = 0; e < 4; e++) value[e] += widen(residual[i].v[e]);
        }
        if (p.silu) {
#pragma unroll
            for (int e = 0; e < 4; e++) value[e] *= sigmoid(value[e]);
        } else {
#pragma unroll
            for (int e = 0; e < 4; e++) value[e] = bounded(p, value[e]);
        }
        store_narrow<T, 4>((T *)o.out[0] + first + i * ROWS * p.filters, value);
    }
};

// Of STAGES stages, all but one are under way.
template <typename T, int PIXELS, int FILTERS, int STAGES>
__device__ static void convolve(const plb_operands &o, const plb_tile_params &p) {
    typedef tile<PIXELS, FILTERS> shape;
    extern __shared__ uint4 memory[];
    enum { AHEAD = STAGES - 1, CHUNK = VECTORS * width_of<T>::value };
    const uint32_t stages = (uint32_t)__cvta_generic_to_shared(memory);
    float *sums = (float *)((char *)memory + PLB_TILE_STAGES_BYTES(PIXELS, FILTERS, STAGES));
    const int chunks = (p.depth + CHUNK - 1) / CHUNK;
    const int first = (int)((int64_t)chunks * blockIdx.z / gridDim.z);
    const int n = (int)((int64_t)chunks * (blockIdx.z + 1) / gridDim.z) - first;
    if (gridDim.z > 1) arrive_at_cluster();
    filter_copier<T, PIXELS, FILTERS> filters(o, p, first);
    float sum[2][shape::EIGHTS][4] = {};

    if (!p.early) wait_for_last();
#pragma unroll 1
    for (int i = 0; i < AHEAD && i < n; i++) filters.copy(p, stages + i * shape::STAGE);
    pixel_copier<T, PIXELS> pixels(p, first);
    if (p.early) wait_for_last();
#pragma unroll 1
    for (int i = 0; i < AHEAD; i++) {
        if (i < n) pixels.copy(o, p, stages + i * shape::STAGE);
        end_copies();
    }
    writer<T, PIXELS, FILTERS> writer(o, p);
    int from = 0, to = AHEAD;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        wait_for_copies<AHEAD - 1>();
        __syncthreads(); // what others copied is there, and the stage before is done with
        if (i + AHEAD < n) {
            filters.copy(p, stages + to * shape::STAGE);
            pixels.copy(o, p, stages + to * shape::STAGE);
        }
        end_copies();
        multiply_stage<T, PIXELS, FILTERS>(stages + from * shape::STAGE, sum);
        from = from + 1 == STAGES ? 0 : from + 1;
        to = to + 1 == STAGES ? 0 : to + 1;
    }
    share_sums<PIXELS, FILTERS>(sums, sum);
    if (gridDim.z > 1) {
        writer.template write<PLB_TILE_SPLITS>(o, p, sums);
    } else {
        writer.template write<1>(o, p, sums);
    }
}

#define PLB_TILE_OF(T, dtype, pixels, filters, stages)                                           \
    PLB_GLOBAL void __launch_bounds__(PLB_TILE_THREADS, 2)                                       \
        plb_tile_##pixels##x##filters##_##dtype(const plb_operands o, const plb_tile_params p) { \
        let_next_in();                                                                           \
        convolve<T, pixels, filters, stages>(o, p);                                              \
    }
#define PLB_TILE_EACH(pixels, filters, stages, time)  \
    PLB_TILE_OF(float, f32, pixels, filters, stages)  \
    PLB_TILE_OF(__half, f16, pixels, filters, stages) \
    PLB_TILE_OF(__nv_bfloat16, bf16, pixels, filters, stages)
PLB_TILES(PLB_TILE_EACH)
