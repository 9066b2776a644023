// SPDX-License-Identifier: Apache-2.0
// reorder: the same elements in another layout. Types do not change; the pass that appends it sets
// the layout of its output.
#include "engine/ops/reorder.h"

#include "base/core/status.h"
#include "engine/ops/walk.h"

static plb_status infer(plb_signature *s) {
    const plb_layout target = ((const plb_reorder_attrs *)s->attrs)->target;
    const plb_shape *x = &s->in[0].shape;
    if (target.kind != PLB_LAYOUT_PLAIN && (x->rank < 3 || x->rank > 5)) {
        return plb_fail(PLB_EINVAL, "reorder to %s: expected rank 3 to 5, found %d",
                        plb_layout_name(target), x->rank);
    }
    s->out[0] = s->in[0];
    return PLB_OK;
}

static plb_status ref(const plb_call *call) {
    return plb_tensor_copy(&call->out[0], &call->in[0]);
}

static void describe(const void *attrs, plb_strbuf *text) {
    plb_strbuf_printf(text, "\"layout\":\"%s\"",
                      plb_layout_name(((const plb_reorder_attrs *)attrs)->target));
}

static const plb_reorder_attrs plain = {{PLB_LAYOUT_PLAIN, 0}}, nhwc = {{PLB_LAYOUT_NHWC, 0}},
                               blocked = {{PLB_LAYOUT_BLOCKED, 8}};
static const plb_sample samples[] = {
    {"plain", .in = {PLB_T(2, 3)}, .n_in = 1, .attrs = &plain, .no_gradient = true},
    {"nhwc", .in = {PLB_T(2, 5, 3, 2)}, .n_in = 1, .attrs = &nhwc, .no_gradient = true},
    {"blocked", .in = {PLB_T(2, 11, 3)}, .n_in = 1, .attrs = &blocked, .no_gradient = true},
};

const plb_op plb_op_reorder = {
    .name = "reorder",
    .attrs_bytes = sizeof(plb_reorder_attrs),
    .min_in = 1,
    .max_in = 1,
    .infer = infer,
    .flops = plb_no_flops,
    .ref = ref,
    .describe = describe,
    PLB_SAMPLES(samples),
};
