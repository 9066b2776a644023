// SPDX-License-Identifier: Apache-2.0
// pad: x with more elements before and after along each axis, or with fewer where the numbers are
// negative. constant: of one value; reflect: mirrored at the first and last element, which are not
// repeated; edge: these two repeated.
#include "engine/ops/pad.h"

#include "base/core/status.h"
#include "engine/ops/walk.h"

plb_status plb_pad_check(const char *op, const plb_pad_attrs *attrs, const plb_shape *x,
                         const plb_shape *y) {
    if (attrs->mode < PLB_PAD_CONSTANT || attrs->mode > PLB_PAD_EDGE) {
        return plb_fail(PLB_EINVAL, "%s: mode %lld", op, (long long)attrs->mode);
    }
    for (int i = 0; i < x->rank; i++) {
        const int64_t before = attrs->before[i], after = attrs->after[i], extent = x->dim[i];
        bool legal = extent >= 0 && y->dim[i] >= 0;
        if (attrs->mode != PLB_PAD_CONSTANT) legal &= before >= 0 && after >= 0;
        if (attrs->mode == PLB_PAD_EDGE) legal &= extent > 0 || (before == 0 && after == 0);
        if (attrs->mode == PLB_PAD_REFLECT && (before || after)) {
            legal &= before < extent && after < extent;
        }
        if (!legal) {
            return plb_fail(PLB_EINVAL, "%s: axis %d: %lld before and %lld after an extent of %lld",
                            op, i, (long long)before, (long long)after, (long long)extent);
        }
    }
    return PLB_OK;
}

int64_t plb_pad_source(plb_pad_mode mode, int64_t position, int64_t extent) {
    if (position >= 0 && position < extent) return position;
    if (mode == PLB_PAD_CONSTANT) return -1;
    if (mode == PLB_PAD_EDGE) return position < 0 ? 0 : extent - 1;
    return position < 0 ? -position : 2 * (extent - 1) - position;
}

void plb_pad_describe(const void *attrs, plb_strbuf *text) {
    static const char *const modes[] = {"constant", "reflect", "edge"};
    const plb_pad_attrs *a = attrs;
    int rank = 0; // the attributes do not say it: trailing zeros are left out
    for (int i = 0; i < PLB_MAX_RANK; i++) {
        if (a->before[i] || a->after[i]) rank = i + 1;
    }
    plb_strbuf_printf(text, "\"mode\":\"%s\",", modes[a->mode]);
    plb_describe_list(text, "before", a->before, rank);
    plb_strbuf_printf(text, ",");
    plb_describe_list(text, "after", a->after, rank);
    if (a->mode == PLB_PAD_CONSTANT) plb_strbuf_printf(text, ",\"value\":%.17g", a->value);
}

static plb_status infer(plb_signature *s) {
    const plb_pad_attrs *attrs = s->attrs;
    plb_type y = s->in[0];
    for (int i = 0; i < y.shape.rank; i++) {
        int64_t *extent = &y.shape.dim[i];
        if (__builtin_add_overflow(*extent, attrs->before[i], extent) ||
            __builtin_add_overflow(*extent, attrs->after[i], extent)) {
            return plb_fail(PLB_EINVAL, "pad: axis %d: the extent is too large", i);
        }
    }
    PLB_TRY(plb_pad_check("pad", attrs, &s->in[0].shape, &y.shape));
    s->out[0] = y;
    return PLB_OK;
}

static bool map(const plb_call *call, const int64_t *to, int64_t *from) {
    const plb_pad_attrs *attrs = call->attrs;
    const plb_shape *x = &call->in[0].shape;
    for (int i = 0; i < x->rank; i++) {
        from[i] = plb_pad_source((plb_pad_mode)attrs->mode, to[i] - attrs->before[i], x->dim[i]);
        if (from[i] < 0) return false;
    }
    return true;
}

static plb_status ref(const plb_call *call) {
    return plb_walk_gather(call, map, ((const plb_pad_attrs *)call->attrs)->value);
}

// A constant pad transposes to the opposite pad: what was added is cut off, what was cut is zero.
static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    (void)needed;
    plb_pad_attrs attrs = *(const plb_pad_attrs *)plb_node_attrs(graph, node);
    attrs.value = 0;
    if (attrs.mode != PLB_PAD_CONSTANT) {
        din[0] = plb_emit(graph, PLB_OP_pad_grad, &dout[0], 1, &attrs);
        return;
    }
    for (int i = 0; i < PLB_MAX_RANK; i++) {
        attrs.before[i] = -attrs.before[i];
        attrs.after[i] = -attrs.after[i];
    }
    din[0] = plb_pad(graph, dout[0], &attrs);
}

static const plb_pad_attrs ones = {PLB_PAD_CONSTANT, {0, 0, 1, 1}, {0, 0, 1, 2}, 0},
                           mixed = {PLB_PAD_CONSTANT, {-1, 2}, {3, -2}, 0.5},
                           mirror = {PLB_PAD_REFLECT, {0, 0, 2, 1}, {0, 0, 1, 2}, 0},
                           repeat = {PLB_PAD_EDGE, {0, 0, 3, 0}, {0, 0, 1, 2}, 0},
                           full = {PLB_PAD_REFLECT, {3}, {3}, 0},
                           row = {PLB_PAD_CONSTANT, {1}, {2}, -1},
                           one = {PLB_PAD_EDGE, {2}, {2}, 0}, none = {0},
                           shorter = {PLB_PAD_CONSTANT, {0, -3}, {0, -1}, 0};
static const plb_sample samples[] = {
    {"constant", .in = {PLB_T(2, 3, 3, 4)}, .n_in = 1, .attrs = &ones},
    {"cut and filled", .in = {PLB_T(3, 4)}, .n_in = 1, .attrs = &mixed},
    {"reflect", .in = {PLB_T(1, 2, 3, 4)}, .n_in = 1, .attrs = &mirror},
    {"reflect, as far as it goes", .in = {PLB_T(4)}, .n_in = 1, .attrs = &full},
    {"edge", .in = {PLB_T(1, 2, 2, 3)}, .n_in = 1, .attrs = &repeat},
    {"edge of one element", .in = {PLB_T(1)}, .n_in = 1, .attrs = &one},
    {"from nothing", .in = {PLB_T(0)}, .n_in = 1, .attrs = &row},
    {"to nothing", .in = {PLB_T(2, 4)}, .n_in = 1, .attrs = &shorter},
    {"scalar", .in = {{PLB_F32, {0}}}, .n_in = 1, .attrs = &none},
    {"integers", .in = {PLB_TI(4)}, .n_in = 1, .attrs = &row, .low = {-9}, .high = {9},
     .no_gradient = true},
};

const plb_op plb_op_pad = {
    .name = "pad",
    .flags = PLB_OP_FOLLOWS,
    .attrs_bytes = sizeof(plb_pad_attrs),
    .min_in = 1,
    .max_in = 1,
    .infer = infer,
    .grad = grad,
    .flops = plb_no_flops,
    .ref = ref,
    .describe = plb_pad_describe,
    PLB_SAMPLES(samples),
};

plb_value plb_pad(plb_graph *graph, plb_value x, const plb_pad_attrs *attrs) {
    plb_pad_attrs used = *attrs;
    const int rank = plb_value_shape(graph, x).rank;
    for (int i = rank; i < PLB_MAX_RANK; i++) used.before[i] = used.after[i] = 0;
    return plb_emit(graph, PLB_OP_pad, &x, 1, &used);
}
