// SPDX-License-Identifier: Apache-2.0
// nms of boxes and scores with any strides.
#include "engine/device/cuda/kernels/nms.h"

#include <string.h>

#include "base/core/status.h"
#include "engine/device/cuda/own.h"
#include "plumb/ops.h"

enum { BOXES, SCORES };

static const char *refuse(const plb_query *q) {
    for (int k = 0; k < q->n_out; k++) {
        if (!plb_own_is_plain(&q->out[k])) return "plain results only";
    }
    return plb_own_refuse(q);
}

static plb_nms_params params_of(const plb_query *q) {
    const plb_nms_attrs *attrs = q->attrs;
    const plb_shape *scores = &q->in[SCORES].shape;
    const int64_t n = scores->dim[2], most = attrs->most < 0 ? 0 : attrs->most;
    plb_nms_params p = {.batches = (int32_t)scores->dim[0],
                        .classes = (int32_t)scores->dim[1],
                        .boxes = (int32_t)n,
                        .most = (int32_t)(most < n ? most : n),
                        .centred = attrs->centred != 0,
                        .dtype = (int32_t)q->in[BOXES].dtype,
                        .most_overlap = attrs->most_overlap,
                        .least_score = attrs->least_score};
    memcpy(p.box, q->in[BOXES].stride, sizeof p.box);
    memcpy(p.score, q->in[SCORES].stride, sizeof p.score);
    return p;
}

static plb_status add_steps(plb_own *own, const plb_nms_params *p) {
    plb_cuda_grid grid = {.blocks = {(unsigned)(p->batches * p->classes)},
                          .threads = {PLB_NMS_THREADS}};
    if (grid.blocks[0]) {
        PLB_TRY(plb_own_add(own, &own->any, "nms_pick", PLB_DTYPE_COUNT, grid));
    }
    grid.blocks[0] = 1;
    return plb_own_add(own, &own->any, "nms_write", PLB_DTYPE_COUNT, grid);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    const plb_nms_params p = params_of(q);
    const size_t lists = (size_t)p.batches * (size_t)p.classes;
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    out->workspace_bytes = lists * (sizeof(int32_t) * (1 + (size_t)p.most) + (size_t)p.boxes);
    out->optional_outputs = 3;
    return plb_own_end(out, add_steps(own, &p));
}

const plb_kernel plb_cuda_kernel_nms = {
    .name = "picks", .op = PLB_OP_nms, .refuse = refuse, .prepare = prepare};
