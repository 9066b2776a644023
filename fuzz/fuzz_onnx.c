// SPDX-License-Identifier: Apache-2.0
// A model that is taken is described and built; what is refused says why. Open extents become 2.
#include <stdlib.h>

#include "base/core/alloc.h"
#include "fuzz.h"
#include "plumb/onnx.h"

static void build(const plb_onnx *file) {
    plb_model *model = plb_model_new();
    plb_graph *graph;
    char *fixed = NULL;
    const plb_onnx_options options = {.open_extent = 2};
    if (model && !plb_model_program(model, "main", &graph)) {
        plb_status status = plb_onnx_build(file, &options, graph, &fixed);
        if (status && !*plb_error_text()) abort();
    }
    plb_free(fixed);
    plb_model_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes) {
    plb_onnx *file;
    if (plb_onnx_parse(bytes, size_bytes, "input", &file)) return 0;
    plb_onnx_use *uses = plb_alloc_array(PLB_ONNX_MAX_USES, sizeof *uses);
    int count;
    if (uses && plb_onnx_uses(file, uses, &count) && !*plb_error_text()) abort();
    plb_free(uses);
    build(file);
    plb_onnx_free(file);
    return 0;
}
