// SPDX-License-Identifier: Apache-2.0
// The gradient of conv with respect to w: x[N,C,…], dy[N,K,…] -> dw[K,C/groups,…] with the spatial
// extents that the attributes give.
#include "base/core/status.h"
#include "engine/ops/conv_shape.h"

static plb_status weight_grad_infer(plb_signature *s) {
    plb_conv_shape shape;
    PLB_TRY(plb_expect_floats(s, "conv_weight_grad", 0, 1));
    PLB_TRY(plb_conv_shape_of(PLB_OP_conv_weight_grad, &s->in[0].shape, &s->in[1].shape, s->attrs,
                              &shape));
    s->out[0] = (plb_type){s->in[0].dtype, plb_conv_w_shape(&shape)};
    return PLB_OK;
}

static void weight_grad_grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                             plb_value *din) {
    plb_conv_attrs attrs = *(const plb_conv_attrs *)plb_node_attrs(graph, node);
    plb_value x = plb_node_in(graph, node, 0), dy = plb_node_in(graph, node, 1);
    if (needed[0]) {
        plb_shape shape = plb_value_shape(graph, x);
        for (int i = 2; i < shape.rank; i++) attrs.extent[i - 2] = shape.dim[i];
        din[0] = plb_conv_input_grad(graph, dy, dout[0], &attrs);
    }
    if (needed[1]) din[1] = plb_conv(graph, x, dout[0], PLB_NONE, &attrs);
}

static double weight_grad_flops(const plb_signature *s) {
    plb_conv_shape shape;
    if (plb_conv_shape_of(PLB_OP_conv_weight_grad, &s->in[0].shape, &s->in[1].shape, s->attrs,
                          &shape)) {
        return 0;
    }
    return plb_conv_flops(&shape);
}

// dw[k,c,t] = sum over n, o of dy[n,k,o] x[n, c, where o meets t].
static double element_of_dw(const plb_call *call, const plb_conv_shape *s, int64_t k, int64_t c,
                            const int64_t *tap) {
    int64_t first = k / (s->k / s->groups) * (s->c / s->groups);
    double sum = 0;
    for (int64_t n = 0; n < s->n; n++) {
        int64_t out[PLB_MAX_SPATIAL] = {0}, in[PLB_MAX_SPATIAL];
        do {
            if (!plb_conv_in_at(s, out, tap, in)) continue;
            sum += plb_spatial_load(&call->in[0], n, first + c, in) *
                   plb_spatial_load(&call->in[1], n, k, out);
        } while (plb_index_next(out, s->out, PLB_MAX_SPATIAL));
    }
    return sum;
}

static plb_status weight_grad_ref(const plb_call *call) {
    plb_conv_shape s;
    PLB_TRY(plb_conv_shape_of(PLB_OP_conv_weight_grad, &call->in[0].shape, &call->in[1].shape,
                              call->attrs, &s));
    for (int64_t k = 0; k < s.k; k++) {
        for (int64_t c = 0; c < s.c / s.groups; c++) {
            int64_t tap[PLB_MAX_SPATIAL] = {0};
            do {
                plb_spatial_store(&call->out[0], k, c, tap, element_of_dw(call, &s, k, c, tap));
            } while (plb_index_next(tap, s.kernel, PLB_MAX_SPATIAL));
        }
    }
    return PLB_OK;
}

plb_value plb_conv_weight_grad(plb_graph *graph, plb_value x, plb_value dy,
                               const plb_conv_attrs *attrs) {
    plb_conv_attrs final = plb_conv_attrs_final(attrs, plb_value_shape(graph, x).rank - 2);
    final.epilogue = (plb_epilogue){0};
    return plb_emit(graph, PLB_OP_conv_weight_grad, (plb_value[]){x, dy}, 2, &final);
}

#define ATTRS(...)            \
    &(const plb_conv_attrs) { \
        __VA_ARGS__           \
    }
static const plb_sample samples[] = {
    {.name = "few channels of many images", // for kernels whose vectors hold images
     .in = {PLB_T(9, 2, 6, 5), PLB_T(9, 3, 6, 3)},
     .n_in = 2,
     .attrs = ATTRS({1, 2}, {1, 1}, {1, 0}, {1, 1}, 1, {0}, {3, 2}),
     .no_gradient = true},
    {.name = "3x3",
     .in = {PLB_T(2, 3, 5, 4), PLB_T(2, 4, 5, 4)},
     .n_in = 2,
     .attrs = ATTRS({1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, {0}, {3, 3})},
    {.name = "1x1",
     .in = {PLB_T(2, 3, 5, 4), PLB_T(2, 4, 5, 4)},
     .n_in = 2,
     .attrs = ATTRS({1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, {0}, {1, 1})},
    {.name = "stride 2, asymmetric padding",
     .in = {PLB_T(1, 2, 7, 6), PLB_T(1, 3, 4, 3)},
     .n_in = 2,
     .attrs = ATTRS({2, 2}, {1, 0}, {2, 1}, {1, 1}, 1, {0}, {3, 2})},
    {.name = "1x1 stride 2",
     .in = {PLB_T(1, 3, 6, 6), PLB_T(1, 2, 3, 3)},
     .n_in = 2,
     .attrs = ATTRS({2, 2}, {0, 0}, {0, 0}, {1, 1}, 1, {0}, {1, 1})},
    {.name = "dilation",
     .in = {PLB_T(2, 2, 7, 8), PLB_T(2, 2, 7, 3)},
     .n_in = 2,
     .attrs = ATTRS({1, 3}, {2, 1}, {2, 1}, {2, 3}, 1, {0}, {3, 2})},
    {.name = "groups",
     .in = {PLB_T(1, 4, 4, 5), PLB_T(1, 6, 4, 5)},
     .n_in = 2,
     .attrs = ATTRS({1, 1}, {1, 1}, {1, 1}, {1, 1}, 2, {0}, {3, 3})},
    {.name = "depthwise, stride 2",
     .in = {PLB_T(2, 5, 5, 5), PLB_T(2, 5, 3, 3)},
     .n_in = 2,
     .attrs = ATTRS({2, 2}, {1, 1}, {1, 1}, {1, 1}, 5, {0}, {3, 3})},
    {.name = "1-d",
     .in = {PLB_T(2, 3, 9), PLB_T(2, 4, 5)},
     .n_in = 2,
     .attrs = ATTRS({2}, {1}, {2}, {1}, 1, {0}, {4})},
    {.name = "3-d",
     .in = {PLB_T(1, 2, 4, 3, 4), PLB_T(1, 2, 4, 3, 2)},
     .n_in = 2,
     .attrs = ATTRS({1, 1, 2}, {1, 1, 0}, {0, 1, 1}, {1, 1, 1}, 1, {0}, {2, 3, 2})},
};

const plb_op plb_op_conv_weight_grad = {.name = "conv_weight_grad",
                                        .flags = PLB_OP_SPATIAL,
                                        .spatial_in = 1 << 0 | 1 << 1,
                                        .attrs_bytes = sizeof(plb_conv_attrs),
                                        .min_in = 2,
                                        .max_in = 2,
                                        .infer = weight_grad_infer,
                                        .grad = weight_grad_grad,
                                        .flops = weight_grad_flops,
                                        .ref = weight_grad_ref,
                                        .describe = plb_conv_describe,
                                        PLB_SAMPLES(samples)};
