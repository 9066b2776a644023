// SPDX-License-Identifier: Apache-2.0
// Concatenation of dense operands of one layout as rows of parts, in one launch
// (kernels/concat.cu), on the widest elements that all parts consist of.
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/kernels/concat.h"
#include "engine/device/cuda/own.h"
#include "plumb/ops.h"

enum { N_WIDTHS = 5 }; // elements of 1, 2, 4, 8 and 16 bytes

typedef struct joined {
    int log_size;                 // of the widest elements that the parts' sizes allow
    plb_own_step steps[N_WIDTHS]; // by the logarithm of the elements' size
    plb_concat_params params;     // in bytes
} joined;

// Elements in a row: those of the axis, and of what lies within it.
static int64_t inner_of(const plb_tensor *t, int axis) {
    const bool last = t->layout.kind == PLB_LAYOUT_NHWC; // channels are innermost
    int64_t n = t->shape.dim[axis];
    if (last && axis == 1) return n;
    for (int i = axis + 1; i < t->shape.rank; i++) n *= t->shape.dim[i];
    return last && axis > 1 ? n * t->shape.dim[1] : n;
}

static int axis_of(const plb_query *q) {
    const int axis = (int)((const plb_axis_attrs *)q->attrs)->axis;
    return axis < 0 ? axis + q->out[0].shape.rank : axis;
}

static const char *refuse(const plb_query *q) {
    const char *reason = plb_own_refuse(q);
    if (reason) return reason;
    if (q->n_in > PLB_CONCAT_PARTS) return "over 128 parts";
    if (plb_shape_count(&q->out[0].shape) == 0) return "empty";
    if (!plb_tensor_is_dense(&q->out[0])) return "the result has gaps";
    for (int k = 0; k < q->n_in; k++) {
        if (!plb_layout_equal(q->in[k].layout, q->out[0].layout)) return "layouts that differ";
        if (!plb_tensor_is_dense(&q->in[k])) return "a part has gaps";
        if (plb_shape_count(&q->in[k].shape) == 0) return "an empty part";
    }
    const int64_t row = inner_of(&q->out[0], axis_of(q)) * (int64_t)plb_dtype_size(q->out[0].dtype);
    return row > INT32_MAX ? "rows of over 2^31 bytes" : NULL;
}

// ---------------------------------------------------------------------------- running
// The widest elements that all parts' sizes and addresses are multiples of.
static int log_of(uintptr_t bits) {
    int log = 0;
    while (log < N_WIDTHS - 1 && !(bits >> log & 1u)) log++;
    return log;
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    const joined *j = state;
    plb_concat_params p = j->params;
    uintptr_t bits = (uintptr_t)call->out[0].data | (uintptr_t)1 << j->log_size;
    for (int k = 0; k < call->n_in; k++) {
        p.from[k] = call->in[k].data;
        bits |= (uintptr_t)call->in[k].data;
    }
    p.to = call->out[0].data;
    const int log = log_of(bits);
    for (int k = 0; k <= p.n; k++) p.begin[k] >>= log;
    p.width >>= log;
    return plb_own_launch(&j->steps[log], stream, (void *[]){&p});
}

// ---------------------------------------------------------------------------- preparing
static plb_cuda_grid grid_of(const plb_device *device, int64_t rows, int64_t width) {
    const int64_t columns = width <= 64 ? width : 32, down = PLB_CONCAT_THREADS / columns;
    const int64_t across = (width + columns - 1) / columns;
    int64_t blocks = (rows + down - 1) / down, most = 8 * (int64_t)device->sm_count / across;
    if (blocks > most) blocks = most;
    if (blocks < 1) blocks = 1;
    return (plb_cuda_grid){.blocks = {(unsigned)across, (unsigned)blocks},
                           .threads = {(unsigned)columns, (unsigned)down}};
}

static plb_status add_steps(plb_device *device, joined *j) {
    for (int log = 0; log <= j->log_size; log++) {
        char name[32];
        CUfunction function;
        snprintf(name, sizeof name, "plb_concat_%d", 1 << log);
        PLB_TRY(plb_cuda_function(device, name, &function));
        const plb_cuda_grid grid = grid_of(device, j->params.rows, j->params.width >> log);
        PLB_TRY(plb_own_step_of(device, function, grid, &j->steps[log]));
    }
    return PLB_OK;
}

static void fill(const plb_query *q, joined *j) {
    const int axis = axis_of(q);
    const int64_t size = (int64_t)plb_dtype_size(q->out[0].dtype);
    plb_concat_params *p = &j->params;
    uintptr_t bits = 0;
    p->n = q->n_in;
    p->width = (int32_t)(inner_of(&q->out[0], axis) * size);
    p->rows = plb_shape_count(&q->out[0].shape) * size / p->width;
    for (int k = 0; k < q->n_in; k++) {
        const int64_t bytes = inner_of(&q->in[k], axis) * size;
        p->begin[k + 1] = p->begin[k] + (int32_t)bytes;
        bits |= (uintptr_t)bytes;
    }
    j->log_size = log_of(bits);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "concat has one variant, found %s", choice);
    joined *j = plb_alloc(sizeof *j);
    if (!j) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    memset(j, 0, sizeof *j);
    fill(q, j);
    plb_status status = add_steps(q->device, j);
    if (status) {
        plb_free(j);
        return status;
    }
    *out = (plb_launch){.state = j, .release = plb_free, .run = run};
    out->bytes = 2 * (double)j->params.width * (double)j->params.rows;
    return PLB_OK;
}

const plb_kernel plb_cuda_kernel_concat = {
    .name = "parts", .op = PLB_OP_concat, .refuse = refuse, .prepare = prepare};
