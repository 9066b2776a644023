// SPDX-License-Identifier: Apache-2.0
// What a file itself says of the batches that it could learn from.
#include "base/core/status.h"
#include "engine/graph/graph.h"
#include "plumb/onnx.h"

enum { FILE_BATCH = 32 }; // where the file and the caller leave it open

static plb_status shape_input(const plb_onnx_input_info *info, int64_t batch,
                              plb_onnx_learning *out) {
    const plb_shape *s = &info->shape;
    if (!info->ranked || s->rank < 2) {
        return plb_fail(PLB_EUNSUPPORTED, "input %s: expected batches of at least two axes",
                        info->name);
    }
    if (s->dim[0] > 0 && !batch) out->batch = s->dim[0];
    out->channels = out->height = out->width = 1;
    for (int i = 1; i < s->rank; i++) {
        if (s->dim[i] > 0) continue;
        return plb_fail(PLB_EUNSUPPORTED, "input %s: extent %d is open: training needs it given",
                        info->name, i);
    }
    for (int i = 1; i < s->rank; i++) out->width *= s->dim[i];
    if (s->rank != 4) return PLB_OK;
    bool last = s->dim[1] > 4 && s->dim[3] <= 4; // channels
    out->channels = s->dim[last ? 3 : 1];
    out->height = s->dim[last ? 1 : 2], out->width = s->dim[last ? 2 : 3];
    return PLB_OK;
}

plb_status plb_onnx_learning_of(const plb_onnx *file, int64_t batch, plb_onnx_learning *out) {
    *out = (plb_onnx_learning){.batch = batch ? batch : FILE_BATCH, .classes = 2};
    for (int i = 0; i < plb_onnx_input_count(file); i++) {
        plb_onnx_input_info info;
        PLB_TRY(plb_onnx_input(file, i, &info));
        if (plb_dtype_is_float(info.dtype)) return shape_input(&info, batch, out);
    }
    return plb_fail(PLB_EUNSUPPORTED, "expected an input of floats");
}

// The count of right answers takes the largest of the scores.
int64_t plb_onnx_learning_classes(const plb_graph *graph) {
    int64_t classes = 2;
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].op != PLB_OP_arg_max) continue;
        const plb_shape scores = plb_value_shape(graph, graph->nodes[i].in[0]);
        if (scores.rank == 2) classes = scores.dim[1];
    }
    return classes;
}
