// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "engine/tensor/odd.h"
#include "plumb/tensor.h"

typedef struct dtype_info {
    const char *name;
    size_t size_bytes;
    double epsilon; // of floats
} dtype_info;

static const dtype_info infos[PLB_DTYPE_COUNT] = {
    [PLB_F64] = {"f64", 8, 0x1p-52},   [PLB_F32] = {"f32", 4, 0x1p-23},
    [PLB_F16] = {"f16", 2, 0x1p-10},   [PLB_BF16] = {"bf16", 2, 0x1p-7},
    [PLB_I8] = {"i8", 1, 0},           [PLB_I16] = {"i16", 2, 0},
    [PLB_I32] = {"i32", 4, 0},         [PLB_I64] = {"i64", 8, 0},
    [PLB_U8] = {"u8", 1, 0},           [PLB_U16] = {"u16", 2, 0},
    [PLB_U32] = {"u32", 4, 0},         [PLB_U64] = {"u64", 8, 0},
    [PLB_BOOL] = {"bool", 1, 0},       [PLB_C64] = {"c64", 0, 0},
    [PLB_C128] = {"c128", 0, 0},       [PLB_F8_E4M3] = {"f8_e4m3", 0, 0},
    [PLB_F8_E5M2] = {"f8_e5m2", 0, 0}, [PLB_I4] = {"i4", 0, 0},
    [PLB_U4] = {"u4", 0, 0},
};

const char *plb_dtype_name(plb_dtype dtype) {
    return dtype < PLB_DTYPE_COUNT ? infos[dtype].name : "no dtype";
}

plb_dtype plb_dtype_from_name(const char *name) {
    for (int i = 0; i < PLB_DTYPE_COUNT; i++) {
        if (strcmp(infos[i].name, name) == 0) return (plb_dtype)i;
    }
    return PLB_DTYPE_COUNT;
}

size_t plb_dtype_size(plb_dtype dtype) {
    return dtype < PLB_DTYPE_COUNT ? infos[dtype].size_bytes : 0;
}

bool plb_dtype_is_float(plb_dtype dtype) {
    return dtype <= PLB_BF16;
}

bool plb_dtype_is_signed(plb_dtype dtype) {
    return dtype <= PLB_I64;
}

double plb_dtype_epsilon(plb_dtype dtype) {
    return dtype < PLB_DTYPE_COUNT ? infos[dtype].epsilon : 0;
}

double plb_load_f64(const void *data, plb_dtype dtype, int64_t offset) {
    switch (dtype) {
    case PLB_F64: return ((const double *)data)[offset];
    case PLB_F32: return ((const float *)data)[offset];
    case PLB_F16: return plb_f32_of_f16(((const uint16_t *)data)[offset]);
    case PLB_BF16: return plb_f32_of_bf16(((const uint16_t *)data)[offset]);
    case PLB_U64: return (double)((const uint64_t *)data)[offset];
    default: return (double)plb_load_i64(data, dtype, offset);
    }
}

int64_t plb_load_i64(const void *data, plb_dtype dtype, int64_t offset) {
    switch (dtype) {
    case PLB_I8: return ((const int8_t *)data)[offset];
    case PLB_I16: return ((const int16_t *)data)[offset];
    case PLB_I32: return ((const int32_t *)data)[offset];
    case PLB_I64: return ((const int64_t *)data)[offset];
    case PLB_BOOL:
    case PLB_U8: return ((const uint8_t *)data)[offset];
    case PLB_U16: return ((const uint16_t *)data)[offset];
    case PLB_U32: return ((const uint32_t *)data)[offset];
    case PLB_U64: return (int64_t)((const uint64_t *)data)[offset];
    default: break;
    }
    double value = plb_load_f64(data, dtype, offset);
    if (isnan(value)) return 0;
    if (value >= 0x1p63) return INT64_MAX;
    return value < -0x1p63 ? INT64_MIN : (int64_t)value;
}

void plb_store_f64(void *data, plb_dtype dtype, int64_t offset, double value) {
    switch (dtype) {
    case PLB_F64: ((double *)data)[offset] = value; return;
    case PLB_F32: ((float *)data)[offset] = (float)value; return;
    case PLB_F16: ((uint16_t *)data)[offset] = plb_f16_of_f32(plb_odd_f32_of_f64(value)); return;
    case PLB_BF16: ((uint16_t *)data)[offset] = plb_bf16_of_f32(plb_odd_f32_of_f64(value)); return;
    case PLB_BOOL: ((uint8_t *)data)[offset] = value != 0; return;
    case PLB_U64:
        ((uint64_t *)data)[offset] = !(value > 0)      ? 0
                                     : value >= 0x1p64 ? UINT64_MAX
                                                       : (uint64_t)value;
        return;
    default: break;
    }
    plb_store_i64(data, dtype, offset, plb_load_i64(&value, PLB_F64, 0));
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

void plb_store_i64(void *data, plb_dtype dtype, int64_t offset, int64_t value) {
    switch (dtype) {
    case PLB_I8: ((int8_t *)data)[offset] = (int8_t)clamp(value, INT8_MIN, INT8_MAX); return;
    case PLB_I16: ((int16_t *)data)[offset] = (int16_t)clamp(value, INT16_MIN, INT16_MAX); return;
    case PLB_I32: ((int32_t *)data)[offset] = (int32_t)clamp(value, INT32_MIN, INT32_MAX); return;
    case PLB_I64: ((int64_t *)data)[offset] = value; return;
    case PLB_U8: ((uint8_t *)data)[offset] = (uint8_t)clamp(value, 0, UINT8_MAX); return;
    case PLB_U16: ((uint16_t *)data)[offset] = (uint16_t)clamp(value, 0, UINT16_MAX); return;
    case PLB_U32: ((uint32_t *)data)[offset] = (uint32_t)clamp(value, 0, UINT32_MAX); return;
    case PLB_U64: ((uint64_t *)data)[offset] = value < 0 ? 0 : (uint64_t)value; return;
    case PLB_BOOL: ((uint8_t *)data)[offset] = value != 0; return;
    case PLB_F64: ((double *)data)[offset] = (double)value; return;
    default: plb_store_f64(data, dtype, offset, plb_odd_f64_of_i64(value)); return;
    }
}
