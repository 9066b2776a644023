// SPDX-License-Identifier: Apache-2.0
// Whatever is taken is within the bytes, aligned, and found again by its name.
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "io/safetensors.h"

static volatile double sink; // keeps the loads

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes) {
    plb_safetensors *file;
    if (plb_safetensors_parse(bytes, size_bytes, "input", &file)) return 0;
    size_t total = 0;
    for (size_t i = 0; i < plb_safetensors_count(file); i++) {
        const plb_named_tensor *named = plb_safetensors_at(file, i);
        const plb_tensor *t = &named->tensor;
        if (plb_safetensors_find(file, named->name) != named) abort();
        if ((uintptr_t)t->data % plb_dtype_size(t->dtype)) abort();
        int64_t count = plb_shape_count(&t->shape);
        for (int64_t k = 0; k < count; k++) sink = plb_load_f64(t->data, t->dtype, k);
        total += (size_t)count * plb_dtype_size(t->dtype);
    }
    if (total > size_bytes) abort();
    (void)plb_safetensors_metadata(file, "format");
    plb_safetensors_free(file);
    return 0;
}
