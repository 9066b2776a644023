// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/core/alloc.h"
#include "fuzz.h"
#include "io/npy.h"

static volatile double sink; // keeps the loads

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes) {
    plb_tensor t;
    if (plb_npy_parse(bytes, size_bytes, "input", &t)) return 0;
    int64_t count = plb_shape_count(&t.shape);
    if ((size_t)count * plb_dtype_size(t.dtype) > size_bytes || !plb_tensor_is_dense(&t)) abort();
    for (int64_t k = 0; k < count; k++) sink = plb_load_f64(t.data, t.dtype, k);
    plb_free(t.data);
    return 0;
}
