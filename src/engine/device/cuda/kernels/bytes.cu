// SPDX-License-Identifier: Apache-2.0
// Runs of bytes, set or copied: in words of 16 bytes where both ends allow, byte by byte elsewhere.
#include "engine/device/cuda/kernels/bytes.h"

#include "engine/device/cuda/kernels/own.cuh"

__device__ static bool in_words(const plb_bytes_params &p) {
    return (((uintptr_t)p.to | (uintptr_t)p.from) & 15) == 0;
}

PLB_GLOBAL void plb_bytes_set(const plb_bytes_params p) {
    const int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t step = (int64_t)gridDim.x * blockDim.x, words = in_words(p) ? p.count / 16 : 0;
    const uint4 word = {p.word, p.word, p.word, p.word};
    for (int64_t i = first; i < words; i += step) ((uint4 *)p.to)[i] = word;
    for (int64_t i = words * 16 + first; i < p.count; i += step) {
        ((uint8_t *)p.to)[i] = (uint8_t)p.word;
    }
}

PLB_GLOBAL void plb_bytes_copy(const plb_bytes_params p) {
    const int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t step = (int64_t)gridDim.x * blockDim.x, words = in_words(p) ? p.count / 16 : 0;
    for (int64_t i = first; i < words; i += step) ((uint4 *)p.to)[i] = ((const uint4 *)p.from)[i];
    for (int64_t i = words * 16 + first; i < p.count; i += step) {
        ((uint8_t *)p.to)[i] = ((const uint8_t *)p.from)[i];
    }
}
