// SPDX-License-Identifier: Apache-2.0
// An ONNX file to explain: its graph, and numbers for its inputs.
#include "cli/explain_file.h"

#include <string.h>

#include "base/core/philox.h"
#include "base/core/status.h"

plb_status plb_explain_file(const char *path, const char *task, const char *dims,
                            plb_onnx_model *out) {
    if (strcmp(task, "train") == 0) {
        return plb_fail(PLB_EINVAL, "--task train: a file is only inferred");
    }
    PLB_TRY(plb_cli_onnx_load(path, dims, out));
    if (!plb_onnx_needs_interp(out->graph)) return PLB_OK;
    return plb_fail(PLB_EUNSUPPORTED, "%s branches or loops on data, and so has no plan", path);
}

static void fill(const plb_tensor *to, uint64_t stream, int64_t number) {
    int64_t count = plb_shape_count(&to->shape);
    for (int64_t i = 0; i < count; i++) {
        plb_philox_block block = plb_philox(1, (uint64_t)i, stream);
        double sum = -2; // of four uniform numbers: nearly normal, with deviation 0.58
        for (int k = 0; k < 4; k++) sum += (double)plb_uniform_f32(block.word[k]);
        if (plb_dtype_is_float(to->dtype))
            plb_store_f64(to->data, to->dtype, i, 1.7 * sum);
        else
            plb_store_i64(to->data, to->dtype, i, count == 1 ? number : 0);
    }
}

plb_status plb_explain_fill_file(plb_plan *plan, const plb_graph *graph, const char *dims) {
    plb_onnx_dims given;
    const char *name;
    plb_type type;
    PLB_TRY(plb_onnx_dims_read(dims, &given));
    for (int i = 0; plb_onnx_end(graph, false, i, &name, &type); i++) {
        plb_tensor to;
        int64_t number = 0;
        PLB_TRY(plb_plan_input(plan, name, &to));
        for (int k = 0; k < given.n; k++) {
            if (strcmp(given.list[k].name, name) == 0) number = given.list[k].extent;
        }
        fill(&to, (uint64_t)i, number);
    }
    return PLB_OK;
}
