// SPDX-License-Identifier: Apache-2.0
// Reductions over any axes of values with any strides. A block is a table of outputs and cells, of
// which those that lie next to each other in memory run along x; threads fold cells of their own,
// then each other's in a fixed tree. Where outputs are few, their cells are split over several
// blocks, and a second kernel folds the parts in order. No atomics: the same bits in every run.
#include "engine/device/cuda/kernels/reduce.h"

#include "engine/device/cuda/kernels/own.cuh"

// What a fold is: a state, that of no cells, a cell that joins (`origin`: the first cell of the
// output), two states that join, and the value. A is the type of a cell.
template <typename A> struct sums {
    struct state {
        A sum;
    };
    __device__ static state none(const plb_reduce_params &) { return {0}; }
    __device__ static void add(const plb_reduce_params &, state &s, A x, A, int64_t) { s.sum += x; }
    __device__ static void join(const plb_reduce_params &, state &s, const state &o) {
        s.sum += o.sum;
    }
    __device__ static A value(const plb_reduce_params &p, const state &s) {
        return p.fold == PLB_FOLD_MEAN ? s.sum / (A)p.cells : s.sum;
    }
};

template <typename A> struct products {
    struct state {
        A product;
    };
    __device__ static state none(const plb_reduce_params &) { return {1}; }
    __device__ static void add(const plb_reduce_params &, state &s, A x, A, int64_t) {
        s.product *= x;
    }
    __device__ static void join(const plb_reduce_params &, state &s, const state &o) {
        s.product *= o.product;
    }
    __device__ static A value(const plb_reduce_params &, const state &s) { return s.product; }
};

// The greatest and where it stood, or with arg_min and min the least. The first of equals; a NaN
// goes before all numbers.
template <typename A> struct extremes {
    struct state {
        A best;
        int64_t place; // -1: nothing yet
    };
    __device__ static state none(const plb_reduce_params &) { return {0, -1}; }
    __device__ static bool before(const plb_reduce_params &p, A a, A b) {
        if (b != b) return false;
        const bool least = p.fold == PLB_FOLD_MIN || p.fold == PLB_FOLD_ARG_MIN;
        return a != a || (least ? a < b : a > b);
    }
    __device__ static void add(const plb_reduce_params &p, state &s, A x, A, int64_t k) {
        join(p, s, {x, k});
    }
    __device__ static void join(const plb_reduce_params &p, state &s, const state &o) {
        if (o.place < 0) return;
        const bool wins = s.place < 0 || before(p, o.best, s.best) ||
                          (o.place < s.place && !before(p, s.best, o.best));
        if (wins) s = o;
    }
    __device__ static A value(const plb_reduce_params &, const state &s) { return s.best; }
    __device__ static int64_t place(const state &s) { return s.place; }
};

// Sums about the first cell, which keeps the variance of data with a large mean.
template <typename A> struct variances {
    struct state {
        A sum, square;
    };
    __device__ static state none(const plb_reduce_params &) { return {0, 0}; }
    __device__ static void add(const plb_reduce_params &, state &s, A x, A origin, int64_t) {
        const A d = x - origin;
        s.sum += d, s.square += d * d;
    }
    __device__ static void join(const plb_reduce_params &, state &s, const state &o) {
        s.sum += o.sum, s.square += o.square;
    }
    __device__ static A value(const plb_reduce_params &p, const state &s) {
        const double n = (double)p.cells, left = n - p.p, sum = (double)s.sum;
        double square = (double)s.square - sum * sum / n;
        if (square < 0) square = 0;
        return (A)(square / (left > 0 ? left : 0));
    }
};

// (sum |x|^p)^(1/p); p = 0 counts what is not zero, infinite p gives the greatest or the least.
template <typename A> struct norms {
    struct state {
        A sum;
    };
    __device__ static state none(const plb_reduce_params &p) {
        return {isinf(p.p) && p.p < 0 ? (A)INFINITY : (A)0};
    }
    __device__ static void add(const plb_reduce_params &p, state &s, A x, A, int64_t) {
        x = x < 0 ? -x : x;
        if (p.p == 2) {
            s.sum += x * x;
        } else if (p.p == 1) {
            s.sum += x;
        } else if (isinf(p.p)) {
            join(p, s, {x});
        } else if (p.p == 0) {
            s.sum += x != x ? x : (A)(x != 0);
        } else {
            s.sum += (A)pow((double)x, p.p);
        }
    }
    __device__ static void join(const plb_reduce_params &p, state &s, const state &o) {
        if (!isinf(p.p)) {
            s.sum += o.sum;
        } else if (s.sum == s.sum) { // a NaN stays
            const bool wins = o.sum != o.sum || (p.p > 0 ? o.sum > s.sum : o.sum < s.sum);
            if (wins) s.sum = o.sum;
        }
    }
    __device__ static A value(const plb_reduce_params &p, const state &s) {
        if (p.p == 2) return sqrt(s.sum);
        if (p.p == 0 || p.p == 1 || isinf(p.p)) return s.sum;
        return (A)pow((double)s.sum, 1 / p.p);
    }
};

// log of the sum of exponentials, kept as the greatest cell and the sum of e^(x - greatest).
template <typename A> struct logsumexps {
    struct state {
        A greatest, sum;
    };
    __device__ static state none(const plb_reduce_params &) { return {(A)-INFINITY, 0}; }
    __device__ static void add(const plb_reduce_params &p, state &s, A x, A, int64_t) {
        join(p, s, {x, 1});
    }
    // Infinities stand for themselves: e^(inf - inf) would make a NaN of them.
    __device__ static void join(const plb_reduce_params &, state &s, const state &o) {
        if (o.greatest == (A)-INFINITY) return;
        if (s.greatest == (A)-INFINITY) {
            s = o;
        } else if (o.greatest != s.greatest) {
            const bool up = o.greatest > s.greatest;
            const A high = up ? o.greatest : s.greatest;
            const A mine = up ? exp(s.greatest - high) : (A)1;
            const A other = up ? (A)1 : exp(o.greatest - high);
            s = {high, s.sum * mine + o.sum * other};
        } else {
            s.sum += o.sum;
        }
    }
    __device__ static A value(const plb_reduce_params &, const state &s) {
        if (s.greatest == (A)-INFINITY) return s.greatest;
        return log(s.sum) + s.greatest;
    }
};

// any, all, and integers' max and min: on the integers themselves, u64 with its top bit turned so
// that it compares as signed.
struct logic {
    struct state {
        int64_t value;
    };
    __device__ static state none(const plb_reduce_params &p) { return {p.fold == PLB_FOLD_ALL}; }
    __device__ static void add(const plb_reduce_params &p, state &s, int64_t x, int64_t, int64_t) {
        join(p, s, {x != 0});
    }
    __device__ static void join(const plb_reduce_params &p, state &s, const state &o) {
        s.value = p.fold == PLB_FOLD_ALL ? s.value & o.value : s.value | o.value;
    }
    __device__ static int64_t value(const plb_reduce_params &, const state &s) { return s.value; }
};

__device__ static int64_t ordered(const plb_reduce_params &p, int64_t bits) {
    const bool flips =
        p.dtype == PLB_CODE_U64 && (p.fold == PLB_FOLD_MAX || p.fold == PLB_FOLD_MIN ||
                                    p.fold == PLB_FOLD_ARG_MAX || p.fold == PLB_FOLD_ARG_MIN);
    return flips ? bits ^ INT64_MIN : bits;
}

// ---------------------------------------------------------------------------- where cells lie
__device__ static int64_t walked(int rank, const int64_t *dim, const int64_t *stride, int64_t at) {
    if (rank <= 1) return at * stride[0];
    int64_t offset = 0;
    uint32_t i = (uint32_t)at;
    for (int axis = rank - 1; axis > 0; axis--) {
        const uint32_t extent = (uint32_t)dim[axis], rest = i / extent;
        offset += (int64_t)(i - rest * extent) * stride[axis];
        i = rest;
    }
    return offset + (int64_t)i * stride[0];
}

template <typename T> struct floats {
    typedef wide<T> cell;
    __device__ static cell load(const plb_operands &at, const plb_reduce_params &, int64_t i) {
        return widen(((const T *)at.in[0])[i]);
    }
    __device__ static void store(const plb_operands &at, const plb_reduce_params &, int64_t i,
                                 cell value) {
        ((T *)at.out[0])[i] = narrow<T>(value);
    }
};

struct integers {
    typedef int64_t cell;
    __device__ static cell load(const plb_operands &at, const plb_reduce_params &p, int64_t i) {
        return ordered(p, load_integer(at.in[0], p.dtype, i));
    }
    __device__ static void store(const plb_operands &at, const plb_reduce_params &p, int64_t i,
                                 cell value) {
        store_integer(at.out[0], p.dtype, i, ordered(p, value));
    }
};

template <typename Access, typename Fold>
__device__ static void put_state(const plb_operands &at, const plb_reduce_params &p, int64_t output,
                                 const typename Fold::state &s) {
    const int64_t to = walked(p.kept_rank, p.kept_dim, p.kept_out, output);
    Access::store(at, p, to, Fold::value(p, s));
}

template <typename Fold>
__device__ static void put_place(const plb_operands &at, const plb_reduce_params &p, int64_t output,
                                 const typename Fold::state &s) {
    const int64_t to = walked(p.kept_rank, p.kept_dim, p.kept_out, output);
    ((int64_t *)at.out[0])[to] = Fold::place(s);
}

template <typename Access, typename Fold, bool Places> struct ending {
    __device__ static void put(const plb_operands &at, const plb_reduce_params &p, int64_t output,
                               const typename Fold::state &s) {
        put_state<Access, Fold>(at, p, output, s);
    }
};
template <typename Access, typename Fold> struct ending<Access, Fold, true> {
    __device__ static void put(const plb_operands &at, const plb_reduce_params &p, int64_t output,
                               const typename Fold::state &s) {
        put_place<Fold>(at, p, output, s);
    }
};

// ---------------------------------------------------------------------------- the two kernels
template <typename Access, typename Fold>
__device__ static typename Fold::state fold_own(const plb_operands &at, const plb_reduce_params &p,
                                                int64_t output, int lane, int lanes) {
    typedef typename Access::cell A;
    enum { UNROLL = 4 };
    typename Fold::state s = Fold::none(p);
    const int64_t step = (int64_t)lanes * gridDim.y;
    const int64_t base = walked(p.kept_rank, p.kept_dim, p.kept_in, output);
    int64_t k = (int64_t)blockIdx.y * lanes + lane;
    if (k >= p.cells) return s;
    const A origin = Access::load(at, p, base);
    for (; k + (UNROLL - 1) * step < p.cells; k += UNROLL * step) {
        A x[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; i++) {
            x[i] = Access::load(at, p,
                                base + walked(p.cell_rank, p.cell_dim, p.cell_in, k + i * step));
        }
#pragma unroll
        for (int i = 0; i < UNROLL; i++) Fold::add(p, s, x[i], origin, k + i * step);
    }
    for (; k < p.cells; k += step) {
        const int64_t from = base + walked(p.cell_rank, p.cell_dim, p.cell_in, k);
        Fold::add(p, s, Access::load(at, p, from), origin, k);
    }
    return s;
}

template <typename Access, typename Fold, bool Places>
__device__ static void fold_block(const plb_operands &at, const plb_reduce_params &p) {
    typedef typename Fold::state state;
    __shared__ state states[PLB_REDUCE_THREADS];
    const int lanes = p.cells_inner ? blockDim.x : blockDim.y;
    const int lane = p.cells_inner ? threadIdx.x : threadIdx.y;
    const int rows = p.cells_inner ? blockDim.y : blockDim.x;
    const int row = p.cells_inner ? threadIdx.y : threadIdx.x;
    const int pitch = p.cells_inner ? 1 : blockDim.x; // between lanes of one output
    state *const own = states + threadIdx.y * blockDim.x + threadIdx.x;
    for (int64_t first = (int64_t)blockIdx.x * rows; first < p.outputs;
         first += (int64_t)gridDim.x * rows) {
        const int64_t output = first + row;
        const bool live = output < p.outputs;
        *own = live ? fold_own<Access, Fold>(at, p, output, lane, lanes) : Fold::none(p);
        for (int half = lanes / 2; half; half /= 2) {
            __syncthreads();
            if (lane < half) Fold::join(p, *own, own[half * pitch]);
        }
        if (lane == 0 && live) {
            if (p.splits > 1) {
                ((state *)at.workspace)[blockIdx.y * p.outputs + output] = *own;
            } else {
                ending<Access, Fold, Places>::put(at, p, output, *own);
            }
        }
        __syncthreads();
    }
}

// The parts of an output: a column of threads shares them.
template <typename Access, typename Fold, bool Places>
__device__ static void fold_splits(const plb_operands &at, const plb_reduce_params &p) {
    typedef typename Fold::state state;
    __shared__ state states[PLB_REDUCE_THREADS];
    state *const own = states + threadIdx.y * blockDim.x + threadIdx.x;
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    state s = Fold::none(p);
#pragma unroll 4
    for (int split = threadIdx.y; split < p.splits && i < p.outputs; split += blockDim.y) {
        Fold::join(p, s, ((const state *)at.workspace)[split * p.outputs + i]);
    }
    *own = s;
    for (int half = blockDim.y / 2; half; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.y < half) Fold::join(p, *own, own[half * blockDim.x]);
    }
    if (threadIdx.y == 0 && i < p.outputs) ending<Access, Fold, Places>::put(at, p, i, *own);
}

// Sums and means of cells that lie next to each other, W at a time: a row of threads an output.
template <typename T, int W>
__device__ static void sum_rows(const plb_operands &at, const plb_reduce_params &p) {
    typedef wide<T> A;
    __shared__ A sums_of[PLB_REDUCE_THREADS];
    A *const own = sums_of + threadIdx.y * blockDim.x + threadIdx.x;
    const int64_t step = (int64_t)blockDim.x * gridDim.y * W;
    for (int64_t first = (int64_t)blockIdx.x * blockDim.y; first < p.outputs;
         first += (int64_t)gridDim.x * blockDim.y) {
        const int64_t output = first + threadIdx.y;
        A sum = 0;
        if (output < p.outputs) {
            const T *x = (const T *)at.in[0] + walked(p.kept_rank, p.kept_dim, p.kept_in, output);
#pragma unroll 4
            for (int64_t k = ((int64_t)blockIdx.y * blockDim.x + threadIdx.x) * W; k < p.cells;
                 k += step) {
                A value[W];
                load_wide<T, W>(x + k, value);
#pragma unroll
                for (int i = 0; i < W; i++) sum += value[i];
            }
        }
        *own = sum;
        for (int half = blockDim.x / 2; half; half /= 2) {
            __syncthreads();
            if ((int)threadIdx.x < half) *own += own[half];
        }
        if (threadIdx.x == 0 && output < p.outputs) {
            if (p.splits > 1) {
                ((A *)at.workspace)[blockIdx.y * p.outputs + output] = *own;
            } else {
                put_state<floats<T>, sums<A>>(at, p, output, {*own});
            }
        }
        __syncthreads();
    }
}

// The same of outputs that lie next to each other: a thread has W of them, a column of threads
// shares their cells.
template <typename T, int W>
__device__ static void sum_columns(const plb_operands &at, const plb_reduce_params &p) {
    typedef wide<T> A;
    __shared__ A sums_of[PLB_REDUCE_THREADS * W];
    const int64_t output = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * W;
    const int slots = blockDim.x * W;
    A sum[W] = {};
    if (output < p.outputs) {
        const T *x = (const T *)at.in[0] + walked(p.kept_rank, p.kept_dim, p.kept_in, output);
        const int64_t step = (int64_t)blockDim.y * gridDim.y;
#pragma unroll 4
        for (int64_t k = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; k < p.cells; k += step) {
            A value[W];
            load_wide<T, W>(x + k * p.cell_in[0], value);
#pragma unroll
            for (int i = 0; i < W; i++) sum[i] += value[i];
        }
    }
#pragma unroll
    for (int i = 0; i < W; i++) {
        sums_of[threadIdx.y * slots + i * blockDim.x + threadIdx.x] = sum[i];
    }
    __syncthreads();
    if (threadIdx.y || output >= p.outputs) return;
#pragma unroll
    for (int i = 0; i < W; i++) {
        A total = 0;
        for (int y = 0; y < (int)blockDim.y; y++) {
            total += sums_of[y * slots + i * blockDim.x + threadIdx.x];
        }
        if (p.splits > 1) {
            ((A *)at.workspace)[blockIdx.y * p.outputs + output + i] = total;
        } else {
            put_state<floats<T>, sums<A>>(at, p, output + i, {total});
        }
    }
}

#define PLB_SUMS(T, dtype)                                                          \
    PLB_GLOBAL void __launch_bounds__(PLB_REDUCE_THREADS)                           \
        plb_sum_rows_##dtype(const plb_operands at, const plb_reduce_params p) {    \
        begin();                                                                    \
        sum_rows<T, width_of<T>::value>(at, p);                                     \
    }                                                                               \
    PLB_GLOBAL void __launch_bounds__(PLB_REDUCE_THREADS)                           \
        plb_sum_columns_##dtype(const plb_operands at, const plb_reduce_params p) { \
        begin();                                                                    \
        sum_columns<T, width_of<T>::value>(at, p);                                  \
    }
PLB_EACH_FLOAT(PLB_SUMS)

#define PLB_FOLD(name, Access, Fold, Places)                                     \
    PLB_GLOBAL void __launch_bounds__(PLB_REDUCE_THREADS)                        \
        plb_##name(const plb_operands at, const plb_reduce_params p) {           \
        begin();                                                                 \
        fold_block<Access, Fold, Places>(at, p);                                 \
    }                                                                            \
    PLB_GLOBAL void __launch_bounds__(PLB_REDUCE_THREADS)                        \
        plb_splits_of_##name(const plb_operands at, const plb_reduce_params p) { \
        begin();                                                                 \
        fold_splits<Access, Fold, Places>(at, p);                                \
    }
#define PLB_FOLDS(T, dtype)                                                   \
    PLB_FOLD(reduce_sum_##dtype, floats<T>, sums<wide<T>>, false)             \
    PLB_FOLD(reduce_prod_##dtype, floats<T>, products<wide<T>>, false)        \
    PLB_FOLD(reduce_extreme_##dtype, floats<T>, extremes<wide<T>>, false)     \
    PLB_FOLD(reduce_var_##dtype, floats<T>, variances<wide<T>>, false)        \
    PLB_FOLD(reduce_norm_##dtype, floats<T>, norms<wide<T>>, false)           \
    PLB_FOLD(reduce_logsumexp_##dtype, floats<T>, logsumexps<wide<T>>, false) \
    PLB_FOLD(arg_##dtype, floats<T>, extremes<wide<T>>, true)
PLB_EACH_FLOAT(PLB_FOLDS)
PLB_FOLD(reduce_sum_integers, integers, sums<int64_t>, false)
PLB_FOLD(reduce_prod_integers, integers, products<int64_t>, false)
PLB_FOLD(reduce_extreme_integers, integers, extremes<int64_t>, false)
PLB_FOLD(reduce_logic_integers, integers, logic, false)
PLB_FOLD(arg_integers, integers, extremes<int64_t>, true)
