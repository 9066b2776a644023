// SPDX-License-Identifier: Apache-2.0
// Resampling and its gradient, any strides.
#include "base/core/status.h"
#include "engine/device/cuda/pool.h"
#include "plumb/ops.h"

static const char *refuse(const plb_query *q) {
    return plb_own_refuse(q);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    const plb_interpolate_attrs *attrs = q->attrs;
    plb_pool_params p = {.count = plb_shape_count(&q->out[0].shape),
                         .mode = (int32_t)attrs->mode,
                         .align_corners = attrs->align_corners != 0,
                         .first_axis = PLB_POOL_AXES - (q->in[0].shape.rank - 2),
                         .wide = q->in[0].dtype == PLB_F64};
    plb_cuda_pool_extents(q, &p);
    for (int i = p.first_axis; i < PLB_POOL_AXES; i++) p.scale[i] = attrs->scale[i - p.first_axis];
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    if (p.count == 0) return PLB_OK;
    const char *name = q->op == PLB_OP_interpolate ? "interpolate" : "interpolate_grad";
    return plb_own_end(
        out, plb_own_add(own, &own->any, name, q->out[0].dtype, plb_cuda_pool_grid(q, p.count)));
}

const plb_kernel plb_cuda_kernel_interpolate = {
    .name = "taps", .op = PLB_OP_interpolate, .refuse = refuse, .prepare = prepare};
