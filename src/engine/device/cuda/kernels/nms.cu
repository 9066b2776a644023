// SPDX-License-Identifier: Apache-2.0
// nms: a block picks the boxes of one class of one batch, one after the other; then one block
// writes the rows of all classes behind each other. Numbers are f64, as in the definition.
#include "engine/device/cuda/kernels/nms.h"

#include "engine/device/cuda/kernels/own.cuh"

struct box {
    double low[2], high[2];
};

__device__ static box box_of(const plb_operands &at, const plb_nms_params &p, int64_t batch,
                             int64_t i) {
    double v[4];
    box b;
    for (int k = 0; k < 4; k++) {
        v[k] = load_float(at.in[0], p.dtype, batch * p.box[0] + i * p.box[1] + k * p.box[2]);
    }
    for (int k = 0; k < 2; k++) {
        const double x = v[k], y = v[2 + k];
        b.low[k] = p.centred ? x - y / 2 : fmin(x, y);
        b.high[k] = p.centred ? x + y / 2 : fmax(x, y);
    }
    return b;
}

__device__ static double area(const box &b) {
    return fmax(b.high[0] - b.low[0], 0.0) * fmax(b.high[1] - b.low[1], 0.0);
}

__device__ static double overlap(const box &a, const box &b) {
    box both;
    for (int k = 0; k < 2; k++) {
        both.low[k] = fmax(a.low[k], b.low[k]);
        both.high[k] = fmin(a.high[k], b.high[k]);
    }
    const double shared = area(both), all = area(a) + area(b) - shared;
    return all > 0 ? shared / all : 0;
}

struct candidate {
    double score;
    int place; // -1: none
};
__device__ static bool is_better(const candidate &a, const candidate &b) {
    if (a.place < 0 || b.place < 0) return b.place < 0 && a.place >= 0;
    return a.score > b.score || (a.score == b.score && a.place < b.place);
}

// The best box that is left, in all threads; the first of equals.
__device__ static candidate best_left(const plb_operands &at, const plb_nms_params &p,
                                      int64_t scores, const uint8_t *gone) {
    __shared__ candidate found[PLB_NMS_THREADS];
    candidate best = {p.least_score, -1};
    for (int i = threadIdx.x; i < p.boxes; i += PLB_NMS_THREADS) {
        if (gone[i]) continue;
        const double score = load_float(at.in[1], p.dtype, scores + i * p.score[2]);
        if (score > best.score) best = candidate{score, i};
    }
    __syncthreads(); // an earlier result may still be read
    found[threadIdx.x] = best;
    __syncthreads();
    for (int half = PLB_NMS_THREADS / 2; half; half /= 2) {
        if (threadIdx.x < half && is_better(found[threadIdx.x + half], found[threadIdx.x])) {
            found[threadIdx.x] = found[threadIdx.x + half];
        }
        __syncthreads();
    }
    return found[0];
}

PLB_GLOBAL void __launch_bounds__(PLB_NMS_THREADS)
    plb_nms_pick(const plb_operands at, const plb_nms_params p) {
    begin();
    const int64_t list = blockIdx.x, lists = (int64_t)p.batches * p.classes;
    const int64_t batch = list / p.classes,
                  scores = batch * p.score[0] + (list - batch * p.classes) * p.score[1];
    int32_t *counts = (int32_t *)at.workspace, *picks = counts + lists + list * p.most;
    uint8_t *gone = (uint8_t *)(counts + lists + lists * p.most) + list * p.boxes;
    int count = 0;
    // Only the thread that wrote a mark reads it: box i is always of the same thread.
    for (int i = threadIdx.x; i < p.boxes; i += PLB_NMS_THREADS) gone[i] = 0;
    while (count < p.most) {
        const candidate best = best_left(at, p, scores, gone);
        if (best.place < 0) break;
        if (threadIdx.x == 0) picks[count] = best.place;
        count++;
        const box chosen = box_of(at, p, batch, best.place);
        for (int i = threadIdx.x; i < p.boxes; i += PLB_NMS_THREADS) {
            if (gone[i]) continue;
            gone[i] = i == best.place || overlap(chosen, box_of(at, p, batch, i)) > p.most_overlap;
        }
    }
    if (threadIdx.x == 0) counts[list] = count;
}

// Rows {batch, class, box} of all lists, zeros behind them, and how many there are.
PLB_GLOBAL void __launch_bounds__(PLB_NMS_THREADS)
    plb_nms_write(const plb_operands at, const plb_nms_params p) {
    begin();
    __shared__ int64_t ends[PLB_NMS_THREADS];
    const int64_t lists = (int64_t)p.batches * p.classes, rows = lists * p.most;
    const int32_t *counts = (const int32_t *)at.workspace, *picks = counts + lists;
    int64_t *out = (int64_t *)at.out[0], before = 0;
    for (int64_t first = 0; first < lists; first += PLB_NMS_THREADS) {
        const int64_t list = first + threadIdx.x;
        const int own = list < lists ? counts[list] : 0;
        ends[threadIdx.x] = own;
        __syncthreads();
        for (int step = 1; step < PLB_NMS_THREADS; step *= 2) {
            const int64_t left = threadIdx.x >= step ? ends[threadIdx.x - step] : 0;
            __syncthreads();
            ends[threadIdx.x] += left;
            __syncthreads();
        }
        const int64_t begin = before + ends[threadIdx.x] - own;
        for (int i = 0; i < own && out; i++) {
            out[3 * (begin + i)] = list / p.classes;
            out[3 * (begin + i) + 1] = list % p.classes;
            out[3 * (begin + i) + 2] = picks[list * p.most + i];
        }
        before += ends[PLB_NMS_THREADS - 1];
        __syncthreads();
    }
    for (int64_t i = 3 * before + threadIdx.x; i < 3 * rows && out; i += PLB_NMS_THREADS) {
        out[i] = 0;
    }
    if (threadIdx.x == 0 && at.out[1]) *(int64_t *)at.out[1] = before;
}
