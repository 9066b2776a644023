// SPDX-License-Identifier: Apache-2.0
#include "onnx/dtype.h"

#include "base/core/status.h"

static const struct {
    const char *name;
    plb_dtype dtype; // PLB_DTYPE_COUNT: none
} types[] = {
    {"undefined", PLB_DTYPE_COUNT},
    {"float", PLB_F32},
    {"uint8", PLB_U8},
    {"int8", PLB_I8},
    {"uint16", PLB_U16},
    {"int16", PLB_I16},
    {"int32", PLB_I32},
    {"int64", PLB_I64},
    {"string", PLB_DTYPE_COUNT},
    {"bool", PLB_BOOL},
    {"float16", PLB_F16},
    {"double", PLB_F64},
    {"uint32", PLB_U32},
    {"uint64", PLB_U64},
    {"complex64", PLB_DTYPE_COUNT},
    {"complex128", PLB_DTYPE_COUNT},
    {"bfloat16", PLB_BF16},
    {"float8e4m3fn", PLB_DTYPE_COUNT},
    {"float8e4m3fnuz", PLB_DTYPE_COUNT},
    {"float8e5m2", PLB_DTYPE_COUNT},
    {"float8e5m2fnuz", PLB_DTYPE_COUNT},
    {"uint4", PLB_DTYPE_COUNT},
    {"int4", PLB_DTYPE_COUNT},
    {"float4e2m1", PLB_DTYPE_COUNT},
    {"float8e8m0", PLB_DTYPE_COUNT},
    {"uint2", PLB_DTYPE_COUNT},
    {"int2", PLB_DTYPE_COUNT},
};
enum { TYPES = sizeof types / sizeof *types };

const char *plb_onnx_dtype_name(int64_t number) {
    return number >= 0 && number < TYPES ? types[number].name : "unknown";
}

plb_status plb_onnx_dtype(int64_t number, plb_dtype *out) {
    *out = number >= 0 && number < TYPES ? types[number].dtype : PLB_DTYPE_COUNT;
    if (*out != PLB_DTYPE_COUNT) return PLB_OK;
    return plb_fail(PLB_EUNSUPPORTED, "element type %s (%lld)", plb_onnx_dtype_name(number),
                    (long long)number);
}

int plb_onnx_dtype_number(plb_dtype dtype) {
    for (int i = 1; i < TYPES; i++) {
        if (types[i].dtype == dtype) return i;
    }
    return 0;
}
