// SPDX-License-Identifier: Apache-2.0
// Loops over contiguous f32 that are compiled once an instruction set (vec.c, vec_avx2.c,
// vec_avx512.c include vec_body.h). Kernels bring their operands into blocks that stay in the
// first-level cache and call these; whoever holds a table never asks about instruction sets again.
//
// Functions are within 3 units in the last place of the exact value, or within 1e-6 of it
// relatively, wherever the result is a normal number (tests/engine/test_vec.c measures it).
#ifndef PLB_ENGINE_DEVICE_CPU_VEC_H
#define PLB_ENGINE_DEVICE_CPU_VEC_H

#include "engine/device/cpu/cpu.h"

// y = op(a, b, c) of n elements each; y may be one of the operands. Operands that the op does not
// have are read and ignored, so they must point somewhere. A bool is 0 or 1.
typedef struct plb_vec_args {
    const float *a, *b, *c;
    float *y;
    int64_t n;
    float alpha, beta; // the op's attributes
} plb_vec_args;

// One step of n weights. Pointers may be equal where the op may overwrite.
typedef struct plb_sgd_step {
    const float *w, *g, *m; // m NULL: no momentum
    float *out_w, *out_m;
    float lr, momentum, share, weight_decay; // share: 1 - dampening
    bool nesterov;
} plb_sgd_step;

typedef struct plb_adam_step {
    const float *w, *g, *m, *v;
    float *out_w, *out_m, *out_v;
    float decay;                      // factor of w, 1 unless decoupled
    float weight_decay;               // added to g, 0 when decoupled
    float beta1, beta2, rest1, rest2; // rest: 1 - beta
    float step_size, root_scale, eps; // lr / (1 - beta1^t), sqrt(1 - beta2^t)
} plb_adam_step;

// y = clamp(round(a scale_a + b scale_b + shift) + zero, low, high) of bytes; `turn` is
// exclusive-ored to what is read and written.
typedef struct plb_byte_sum {
    const uint8_t *a, *b;
    uint8_t *y;
    uint8_t turn_a, turn_b, turn_y;
    float scale_a, scale_b, shift, zero, low, high;
} plb_byte_sum;

typedef struct plb_vec {
    // Of each pointwise op but cast; NULL for others.
    void (*op[PLB_OP_COUNT])(const plb_vec_args *v);

    // Between f32 and the 16-bit floats, round to nearest even; bools: anything but 0 is 1.
    void (*from_f16)(float *y, const uint16_t *a, int64_t n);
    void (*from_bf16)(float *y, const uint16_t *a, int64_t n);
    void (*from_bool)(float *y, const uint8_t *a, int64_t n);
    void (*to_f16)(uint16_t *y, const float *a, int64_t n);
    void (*to_bf16)(uint16_t *y, const float *a, int64_t n);
    void (*to_bool)(uint8_t *y, const float *a, int64_t n);
    void (*add_bytes)(const plb_byte_sum *s, int64_t n);
    // Bytes; `to` takes whole numbers within the type.
    void (*from_u8)(float *y, const uint8_t *a, int64_t n);
    void (*from_i8)(float *y, const int8_t *a, int64_t n);
    void (*to_u8)(uint8_t *y, const float *a, int64_t n);
    void (*to_i8)(int8_t *y, const float *a, int64_t n);
    // As C converts to an integer, but between low and high, and 0 for a NaN; y may be a.
    void (*to_whole)(float *y, const float *a, float low, float high, int64_t n);

    // y = exp(a - shift); returns the sum of y.
    float (*exp_shifted)(float *y, const float *a, float shift, int64_t n);
    // y = alpha a + beta; y may be a.
    void (*scale)(float *y, const float *a, float alpha, float beta, int64_t n);
    // y += alpha a
    void (*add_scaled)(float *y, const float *a, float alpha, int64_t n);
    // y = b (a - shift)
    void (*scale_shifted)(float *y, const float *a, const float *b, float shift, int64_t n);

    // Elements [begin, end), in PyTorch's order of operations.
    void (*sgd)(const plb_sgd_step *s, int64_t begin, int64_t end);
    void (*adam)(const plb_adam_step *s, int64_t begin, int64_t end);
    // Words of the Philox blocks (low, high), (low + 1, high) and so on: four a block.
    void (*philox)(uint32_t *words, uint64_t key, uint64_t low, uint64_t high, int64_t blocks);
    // y = scale a where the upper 24 bits of the word are at least `least`, else 0.
    void (*drop)(float *y, const float *a, const uint32_t *words, int32_t least, float scale,
                 int64_t n);

    // Sums are of short f32 chains that are added up in f64.
    double (*sum)(const float *a, int64_t n);
    double (*sum_abs)(const float *a, int64_t n);
    double (*sum_squares)(const float *a, double shift, int64_t n); // of a - shift
    double (*dot)(const float *a, const float *b, int64_t n);
    double (*product)(const float *a, int64_t n);
    float (*max)(const float *a, int64_t n); // NaNs lose; -infinity of nothing
    float (*min)(const float *a, int64_t n);
    bool (*has_nan)(const float *a, int64_t n);

    // Down the columns of a[rows][n], rows `stride` elements apart, into acc[n].
    void (*columns_sum)(double *acc, const float *a, int64_t rows, int64_t stride, int64_t n);
    void (*columns_abs)(double *acc, const float *a, int64_t rows, int64_t stride, int64_t n);
    // Of (a - shift[n])^2.
    void (*columns_squares)(double *acc, const double *shift, const float *a, int64_t rows,
                            int64_t stride, int64_t n);
    void (*columns_product)(double *acc, const float *a, int64_t rows, int64_t stride, int64_t n);
    // A NaN wins.
    void (*columns_max)(double *acc, const float *a, int64_t rows, int64_t stride, int64_t n);
    void (*columns_min)(double *acc, const float *a, int64_t rows, int64_t stride, int64_t n);
} plb_vec;

PLB_API const plb_vec *plb_vec_of(plb_isa isa);

#endif
