// SPDX-License-Identifier: Apache-2.0
// iota: a stretch of one number for each position along the axis; the block of all positions is
// written once, and copied.
#include <string.h>

#include "base/core/status.h"
#include "engine/device/cpu/nest.h"
#include "plumb/ops.h"

// Doubles what is there until n elements of `size` bytes are.
static void repeat(char *to, size_t size, int64_t have, int64_t n) {
    while (have < n) {
        int64_t more = have < n - have ? have : n - have;
        memcpy(to + (size_t)have * size, to, (size_t)more * size);
        have += more;
    }
}

static void count_up(const plb_tensor *y, int64_t extent, int64_t inner) {
    const size_t size = plb_dtype_size(y->dtype);
    if (inner == 1 && y->dtype == PLB_F32) {
        for (int64_t i = 0; i < extent; i++) ((float *)y->data)[i] = (float)i;
    } else if (inner == 1 && y->dtype == PLB_I64) {
        for (int64_t i = 0; i < extent; i++) ((int64_t *)y->data)[i] = i;
    } else {
        for (int64_t i = 0; i < extent; i++) {
            plb_store_i64(y->data, y->dtype, i * inner, i);
            repeat((char *)y->data + (size_t)(i * inner) * size, size, 1, inner);
        }
    }
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)state, (void)stream;
    const plb_tensor *y = &call->out[0];
    const int64_t axis = ((const plb_iota_attrs *)call->attrs)->axis;
    const int64_t count = plb_shape_count(&y->shape), extent = y->shape.dim[axis];
    int64_t inner = 1;
    if (count == 0) return PLB_OK;
    for (int i = (int)axis + 1; i < y->shape.rank; i++) inner *= y->shape.dim[i];
    count_up(y, extent, inner);
    repeat(y->data, plb_dtype_size(y->dtype), extent * inner, count);
    return PLB_OK;
}

static const char *refuse(const plb_query *q) {
    const plb_tensor *y = &q->out[0];
    return y->layout.kind != PLB_LAYOUT_PLAIN || !plb_tensor_is_dense(y) ? "plain only" : NULL;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "iota has one variant, found %s", choice);
    const plb_tensor *y = &q->out[0];
    const double count = (double)plb_shape_count(&y->shape);
    *out = (plb_launch){.run = run, .bytes = count * (double)plb_dtype_size(y->dtype)};
    return PLB_OK;
}

const plb_kernel plb_cpu_iota = {
    .name = "fill", .op = PLB_OP_iota, .refuse = refuse, .prepare = prepare};
