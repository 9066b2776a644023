// SPDX-License-Identifier: Apache-2.0
// Loading, storing and computing blocks of lanes. f32 goes to the vector table; f64 and i64 are
// rarer and use the ops' own scalar definitions, with loops of their own for the commonest.
#include <math.h>
#include <string.h>

#include "engine/device/cpu/pointwise.h"
#include "engine/tensor/odd.h"

size_t plb_lane_bytes(plb_lane lane) {
    return lane == PLB_LANE_F32 ? sizeof(float) : sizeof(double);
}

bool plb_lane_is_native(plb_lane lane, plb_dtype dtype) {
    return (lane == PLB_LANE_F32 && dtype == PLB_F32) ||
           (lane == PLB_LANE_F64 && dtype == PLB_F64) || (lane == PLB_LANE_I64 && dtype == PLB_I64);
}

// ---------------------------------------------------------------------------- load
static void fill_lanes(plb_lane lane, void *lanes, int64_t n) {
    if (lane == PLB_LANE_F32) {
        float *y = lanes, a = y[0];
        for (int64_t i = 1; i < n; i++) y[i] = a;
    } else { // 64 bits, whatever they mean
        int64_t *y = lanes, a = y[0];
        for (int64_t i = 1; i < n; i++) y[i] = a;
    }
}

static void gather_f32(float *y, const float *a, int64_t stride, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = a[i * stride];
}

static void load_f32(const plb_vec *vec, float *y, plb_dtype dtype, const void *from,
                     int64_t stride, int64_t n) {
    if (stride == 1 && dtype == PLB_F32) {
        memcpy(y, from, (size_t)n * sizeof *y);
    } else if (stride == 1 && dtype == PLB_BF16) {
        vec->from_bf16(y, from, n);
    } else if (stride == 1 && dtype == PLB_F16) {
        vec->from_f16(y, from, n);
    } else if (stride == 1 && dtype == PLB_BOOL) {
        vec->from_bool(y, from, n);
    } else if (stride == 1 && dtype == PLB_U8) {
        vec->from_u8(y, from, n);
    } else if (stride == 1 && dtype == PLB_I8) {
        vec->from_i8(y, from, n);
    } else if (dtype == PLB_F32) {
        gather_f32(y, from, stride, n);
    } else if (dtype == PLB_BOOL) {
        for (int64_t i = 0; i < n; i++) y[i] = ((const uint8_t *)from)[i * stride] != 0;
    } else {
        for (int64_t i = 0; i < n; i++) y[i] = (float)plb_load_f64(from, dtype, i * stride);
    }
}

void plb_lane_load(const plb_vec *vec, plb_lane lane, void *lanes, plb_dtype dtype,
                   const void *from, int64_t stride, int64_t n) {
    const int64_t read = stride ? n : 1;
    if (lane == PLB_LANE_F32) {
        load_f32(vec, lanes, dtype, from, stride, read);
    } else if (lane == PLB_LANE_F64) {
        double *y = lanes;
        for (int64_t i = 0; i < read; i++) {
            y[i] = dtype == PLB_BOOL ? ((const uint8_t *)from)[i * stride] != 0
                                     : plb_load_f64(from, dtype, i * stride);
        }
    } else {
        int64_t *y = lanes;
        for (int64_t i = 0; i < read; i++) y[i] = plb_load_i64(from, dtype, i * stride);
    }
    if (!stride) fill_lanes(lane, lanes, n);
}

// ---------------------------------------------------------------------------- store
static void store_f32(const plb_vec *vec, const float *a, plb_dtype dtype, void *to, int64_t stride,
                      int64_t n) {
    if (stride == 1 && dtype == PLB_F32) {
        memcpy(to, a, (size_t)n * sizeof *a);
    } else if (stride == 1 && dtype == PLB_BF16) {
        vec->to_bf16(to, a, n);
    } else if (stride == 1 && dtype == PLB_F16) {
        vec->to_f16(to, a, n);
    } else if (stride == 1 && dtype == PLB_BOOL) {
        vec->to_bool(to, a, n);
    } else if (stride == 1 && dtype == PLB_U8) {
        vec->to_u8(to, a, n);
    } else if (stride == 1 && dtype == PLB_I8) {
        vec->to_i8(to, a, n);
    } else if (dtype == PLB_BOOL) {
        for (int64_t i = 0; i < n; i++) ((uint8_t *)to)[i * stride] = a[i] != 0;
    } else {
        for (int64_t i = 0; i < n; i++) plb_store_f64(to, dtype, i * stride, (double)a[i]);
    }
}

void plb_lane_store(const plb_vec *vec, plb_lane lane, const void *lanes, plb_dtype dtype, void *to,
                    int64_t stride, int64_t n) {
    if (lane == PLB_LANE_F32) {
        store_f32(vec, lanes, dtype, to, stride, n);
    } else if (lane == PLB_LANE_F64) {
        const double *a = lanes;
        for (int64_t i = 0; i < n; i++) {
            if (dtype == PLB_BOOL) {
                ((uint8_t *)to)[i * stride] = a[i] != 0;
            } else {
                plb_store_f64(to, dtype, i * stride, a[i]);
            }
        }
    } else {
        const int64_t *a = lanes;
        for (int64_t i = 0; i < n; i++) plb_store_i64(to, dtype, i * stride, a[i]);
    }
}

// ---------------------------------------------------------------------------- casts
static plb_number get(plb_lane lane, const void *lanes, int64_t i) {
    plb_number value;
    if (lane == PLB_LANE_I64) {
        value.i = ((const int64_t *)lanes)[i];
    } else {
        value.f =
            lane == PLB_LANE_F32 ? (double)((const float *)lanes)[i] : ((const double *)lanes)[i];
    }
    return value;
}

// Integers are rounded once, to `to`: in lanes that are wider, what is cut off makes them odd.
static void whole_to_real(plb_lane lane, plb_dtype to, const int64_t *a, void *y, int64_t n) {
    float *single = y;
    double *real = y;
    if (to == PLB_BOOL) {
        for (int64_t i = 0; i < n; i++) {
            if (lane == PLB_LANE_F32) single[i] = a[i] != 0;
            if (lane != PLB_LANE_F32) real[i] = a[i] != 0;
        }
    } else if (lane == PLB_LANE_F32 && to == PLB_F32) {
        for (int64_t i = 0; i < n; i++) single[i] = (float)a[i];
    } else if (lane == PLB_LANE_F32) {
        for (int64_t i = 0; i < n; i++) single[i] = plb_odd_f32_of_f64(plb_odd_f64_of_i64(a[i]));
    } else {
        const bool same = to == PLB_F64;
        for (int64_t i = 0; i < n; i++) real[i] = same ? (double)a[i] : plb_odd_f64_of_i64(a[i]);
    }
}

static void put(plb_lane lane, void *lanes, int64_t i, double real) {
    if (lane == PLB_LANE_F32) {
        ((float *)lanes)[i] = (float)real;
    } else {
        ((double *)lanes)[i] = real;
    }
}

// Lanes of bools hold reals, so a bool goes the way of a float of 0 or 1.
static void run_cast(const plb_vec *vec, const plb_lane_instr *instr, const void *a, void *y,
                     int64_t n) {
    const plb_dtype to = instr->dtype;
    if (instr->to == PLB_LANE_F32 && (to == PLB_U8 || to == PLB_I8)) {
        vec->to_whole(y, a, to == PLB_I8 ? -128 : 0, to == PLB_I8 ? 127 : 255, n);
    } else if (instr->from == instr->to && instr->from != PLB_LANE_I64 && to != PLB_BOOL) {
        if (a != y) memmove(y, a, (size_t)n * plb_lane_bytes(instr->to));
    } else if (instr->from == PLB_LANE_F32 && to == PLB_BOOL) {
        for (int64_t i = 0; i < n; i++) ((float *)y)[i] = ((const float *)a)[i] != 0;
    } else if (instr->to != PLB_LANE_I64 && instr->from == PLB_LANE_I64) {
        whole_to_real(instr->to, to, a, y, n);
    } else if (instr->to != PLB_LANE_I64) {
        for (int64_t i = 0; i < n; i++) {
            double real = get(instr->from, a, i).f;
            put(instr->to, y, i, to == PLB_BOOL ? real != 0 : real);
        }
    } else {
        const bool whole = instr->from == PLB_LANE_I64;
        for (int64_t i = 0; i < n; i++) {
            plb_dtype from = whole ? instr->from_dtype : PLB_F64;
            ((int64_t *)y)[i] = plb_number_cast(get(instr->from, a, i), from, to).i;
        }
    }
}

// ---------------------------------------------------------------------------- f64
#define COMMON(X)                     \
    X(add, a[i] + b[i])               \
    X(sub, a[i] - b[i])               \
    X(mul, a[i] * b[i])               \
    X(div, a[i] / b[i])               \
    X(relu, a[i] <= 0 ? 0 : a[i])     \
    X(relu_grad, b[i] > 0 ? a[i] : 0) \
    X(affine, alpha *a[i] + beta)     \
    X(not, a[i] == 0)                 \
    X(and, a[i] != 0 && b[i] != 0)    \
    X(or, a[i] != 0 || b[i] != 0)     \
    X(xor, (a[i] != 0) != (b[i] != 0))

static void run_f64(const plb_lane_instr *instr, const double *a, const double *b, double *y,
                    int64_t n) {
    const double alpha = instr->alpha, beta = instr->beta;
    switch (instr->op) {
#define CASE(op, expression)                                                             \
    case PLB_OP_##op:                                                                    \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = (double)(expression); \
        return;
        COMMON(CASE)
#undef CASE
    default:
        for (int64_t i = 0; i < n; i++) {
            double in[PLB_POINTWISE_MAX_IN] = {a[i], b[i]};
            y[i] = plb_pointwise_f64(instr->op, in, alpha, beta);
        }
    }
}

// ---------------------------------------------------------------------------- integers
static void run_i64(const plb_lane_instr *instr, const int64_t *a, const int64_t *b, void *y,
                    int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t in[PLB_POINTWISE_MAX_IN] = {a[i], b[i]};
        int64_t value =
            plb_pointwise_i64(instr->op, in, instr->alpha, instr->beta, instr->from_dtype);
        if (instr->to == PLB_LANE_I64) {
            ((int64_t *)y)[i] = value;
        } else {
            put(instr->to, y, i, (double)value);
        }
    }
}

static void run_where(const plb_lane_instr *instr, void *const *in, void *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) { // 64 bits, whatever they mean
        bool first = get(instr->condition, in[0], i).f != 0;
        ((int64_t *)y)[i] = ((const int64_t *)in[first ? 1 : 2])[i];
    }
}

void plb_lane_run(const plb_vec *vec, const plb_lane_instr *instr, void *const *values, int64_t n) {
    void *in[PLB_POINTWISE_MAX_IN], *y = values[instr->result];
    for (int k = 0; k < PLB_POINTWISE_MAX_IN; k++) {
        in[k] = values[instr->operand[k < instr->n_operands ? k : 0]];
    }
    if (instr->op == PLB_OP_cast) {
        run_cast(vec, instr, in[0], y, n);
    } else if (instr->op == PLB_OP_where && instr->from != PLB_LANE_F32) {
        run_where(instr, in, y, n);
    } else if (instr->from == PLB_LANE_F32) {
        plb_vec_args args = {.a = in[0],
                             .b = in[1],
                             .c = in[2],
                             .y = y,
                             .n = n,
                             .alpha = (float)instr->alpha,
                             .beta = (float)instr->beta};
        vec->op[instr->op](&args);
    } else if (instr->from == PLB_LANE_F64) {
        run_f64(instr, in[0], in[1], y, n);
    } else {
        run_i64(instr, in[0], in[1], y, n);
    }
}
