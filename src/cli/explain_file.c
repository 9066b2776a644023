// SPDX-License-Identifier: Apache-2.0
// An ONNX file to explain: its graph, and numbers for its inputs.
#include "cli/explain_file.h"

#include <string.h>

#include "base/core/philox.h"
#include "base/core/status.h"

static plb_status build_step(const char *path, int64_t batch, const plb_step_options *step,
                             plb_onnx_model *m) {
    plb_onnx_learning learning;
    plb_value loss;
    PLB_TRY(plb_onnx_open(path, &m->file));
    m->model = plb_model_new();
    if (!m->model) return plb_fail(PLB_ENOMEM, "out of memory for a model");
    plb_status status = plb_onnx_learning_of(m->file, batch, &learning);
    if (status) return plb_fail_context(status, "%s", path);
    PLB_TRY(plb_model_program(m->model, "train", &m->graph));
    PLB_TRY(plb_onnx_build_learning(m->file, &learning, m->graph, &loss));
    return plb_train_step(m->graph, loss, step);
}

plb_status plb_explain_file(const char *path, const char *dims, int64_t batch,
                            const plb_step_options *step, plb_onnx_model *out) {
    *out = (plb_onnx_model){0};
    if (step && dims)
        return plb_fail(PLB_EINVAL, "--dim is for inference: a training step takes --batch");
    if (step) {
        PLB_TRY(build_step(path, batch, step, out));
    } else {
        PLB_TRY(plb_cli_onnx_load(path, dims, out));
    }
    if (!plb_onnx_needs_interp(out->graph)) return PLB_OK;
    return plb_fail(PLB_EUNSUPPORTED, "%s branches or loops on data, and so has no plan", path);
}

// `classes` above 0: what integers are drawn of, in turn; else they are `number` or 0.
static void fill(const plb_tensor *to, uint64_t stream, int64_t number, int64_t classes) {
    int64_t count = plb_shape_count(&to->shape);
    for (int64_t i = 0; i < count; i++) {
        plb_philox_block block = plb_philox(1, (uint64_t)i, stream);
        double sum = -2; // of four uniform numbers: nearly normal, with deviation 0.58
        for (int k = 0; k < 4; k++) sum += (double)plb_uniform_f32(block.word[k]);
        if (plb_dtype_is_float(to->dtype))
            plb_store_f64(to->data, to->dtype, i, 1.7 * sum);
        else
            plb_store_i64(to->data, to->dtype, i,
                          classes      ? i * 7 % classes
                          : count == 1 ? number
                                       : 0);
    }
}

plb_status plb_explain_fill_file(plb_plan *plan, const plb_graph *graph, const char *dims,
                                 bool training) {
    plb_onnx_dims given;
    const char *name;
    plb_type type;
    const int64_t classes = training ? plb_onnx_learning_classes(graph) : 0;
    PLB_TRY(plb_onnx_dims_read(dims, &given));
    for (int i = 0; plb_onnx_end(graph, false, i, &name, &type); i++) {
        plb_tensor to;
        int64_t number = 0;
        PLB_TRY(plb_plan_input(plan, name, &to));
        for (int k = 0; k < given.n; k++) {
            if (strcmp(given.list[k].name, name) == 0) number = given.list[k].extent;
        }
        fill(&to, (uint64_t)i, number, classes);
    }
    return PLB_OK;
}
