// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors_dtype.h"

#include <string.h>

static const char *const names[PLB_DTYPE_COUNT] = {
    [PLB_F64] = "F64",   [PLB_F32] = "F32", [PLB_F16] = "F16", [PLB_BF16] = "BF16",
    [PLB_I8] = "I8",     [PLB_I16] = "I16", [PLB_I32] = "I32", [PLB_I64] = "I64",
    [PLB_U8] = "U8",     [PLB_U16] = "U16", [PLB_U32] = "U32", [PLB_U64] = "U64",
    [PLB_BOOL] = "BOOL",
};

// What the format has beyond ours.
static const char *const others[] = {
    "C64",     "F4",      "F6_E2M3",     "F6_E3M2",     "F8_E4M3",
    "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
};

plb_dtype plb_safetensors_dtype(const char *name, bool *known) {
    *known = true;
    for (int i = 0; i < PLB_DTYPE_COUNT; i++) {
        if (names[i] && strcmp(names[i], name) == 0) return (plb_dtype)i;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(others[i], name) == 0) return PLB_DTYPE_COUNT;
    }
    *known = false;
    return PLB_DTYPE_COUNT;
}

const char *plb_safetensors_dtype_name(plb_dtype dtype) {
    return dtype < PLB_DTYPE_COUNT ? names[dtype] : NULL;
}
