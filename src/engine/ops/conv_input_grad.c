// SPDX-License-Identifier: Apache-2.0
// The gradient of conv with respect to x, which is also the transposed convolution: dy[N,K,…],
// w[K,C/groups,…] -> dx[N,C,…] with the spatial extents that the attributes give (several
// extents of x lead to the same y when the stride is over 1).
#include "base/core/status.h"
#include "engine/ops/conv_shape.h"

static plb_status input_grad_infer(plb_signature *s) {
    plb_conv_shape shape;
    PLB_TRY(plb_expect_floats(s, "conv_input_grad", 0, 1));
    PLB_TRY(plb_conv_shape_of(PLB_OP_conv_input_grad, &s->in[0].shape, &s->in[1].shape, s->attrs,
                              &shape));
    s->out[0] = (plb_type){s->in[0].dtype, plb_conv_x_shape(&shape)};
    return PLB_OK;
}

static void input_grad_grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                            plb_value *din) {
    plb_conv_attrs attrs = *(const plb_conv_attrs *)plb_node_attrs(graph, node);
    plb_value dy = plb_node_in(graph, node, 0), w = plb_node_in(graph, node, 1);
    if (needed[0]) din[0] = plb_conv(graph, dout[0], w, PLB_NONE, &attrs);
    if (needed[1]) {
        plb_shape shape = plb_value_shape(graph, w);
        for (int i = 2; i < shape.rank; i++) attrs.extent[i - 2] = shape.dim[i];
        din[1] = plb_conv_weight_grad(graph, dout[0], dy, &attrs);
    }
}

static double input_grad_flops(const plb_signature *s) {
    plb_conv_shape shape;
    if (plb_conv_shape_of(PLB_OP_conv_input_grad, &s->in[0].shape, &s->in[1].shape, s->attrs,
                          &shape)) {
        return 0;
    }
    return plb_conv_flops(&shape);
}

// dx[n,c,i] = sum over k, t of dy[n,k,o] w[k,c,t], where o is the output that meets i with tap t.
static double element_of_dx(const plb_call *call, const plb_conv_shape *s, int64_t n, int64_t c,
                            const int64_t *in) {
    int64_t c_group = s->c / s->groups, k_group = s->k / s->groups, first = c / c_group * k_group;
    double sum = 0;
    int64_t tap[PLB_MAX_SPATIAL] = {0}, out[PLB_MAX_SPATIAL];
    do {
        if (!plb_conv_out_at(s, in, tap, out)) continue;
        for (int64_t k = first; k < first + k_group; k++) {
            sum += plb_spatial_load(&call->in[0], n, k, out) *
                   plb_spatial_load(&call->in[1], k, c % c_group, tap);
        }
    } while (plb_index_next(tap, s->kernel, PLB_MAX_SPATIAL));
    return sum;
}

static plb_status input_grad_ref(const plb_call *call) {
    plb_conv_shape s;
    PLB_TRY(plb_conv_shape_of(PLB_OP_conv_input_grad, &call->in[0].shape, &call->in[1].shape,
                              call->attrs, &s));
    for (int64_t n = 0; n < s.n; n++) {
        for (int64_t c = 0; c < s.c; c++) {
            int64_t in[PLB_MAX_SPATIAL] = {0};
            do {
                plb_spatial_store(&call->out[0], n, c, in, element_of_dx(call, &s, n, c, in));
            } while (plb_index_next(in, s.in, PLB_MAX_SPATIAL));
        }
    }
    return PLB_OK;
}

plb_value plb_conv_input_grad(plb_graph *graph, plb_value dy, plb_value w,
                              const plb_conv_attrs *attrs) {
    plb_conv_attrs final = plb_conv_attrs_final(attrs, plb_value_shape(graph, dy).rank - 2);
    final.epilogue = (plb_epilogue){0};
    return plb_emit(graph, PLB_OP_conv_input_grad, (plb_value[]){dy, w}, 2, &final);
}

#define ATTRS(...)            \
    &(const plb_conv_attrs) { \
        __VA_ARGS__           \
    }
static const plb_sample samples[] = {
    {.name = "3x3, 16 channels",
     .in = {PLB_T(1, 16, 5, 6), PLB_T(16, 16, 3, 3)},
     .n_in = 2,
     .attrs = ATTRS({1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, {0}, {5, 6}),
     .no_gradient = true},
    {.name = "few channels of many images", // for kernels whose vectors hold images
     .in = {PLB_T(9, 3, 6, 3), PLB_T(3, 2, 3, 2)},
     .n_in = 2,
     .attrs = ATTRS({1, 2}, {1, 1}, {1, 0}, {1, 1}, 1, {0}, {6, 5}),
     .no_gradient = true},
    {.name = "3x3",
     .in = {PLB_T(2, 4, 5, 4), PLB_T(4, 3, 3, 3)},
     .n_in = 2,
     .attrs = ATTRS({1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, {0}, {5, 4})},
    {.name = "1x1",
     .in = {PLB_T(2, 4, 5, 4), PLB_T(4, 3, 1, 1)},
     .n_in = 2,
     .attrs = ATTRS({1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, {0}, {5, 4})},
    {.name = "stride 2, asymmetric padding",
     .in = {PLB_T(1, 3, 4, 3), PLB_T(3, 2, 3, 2)},
     .n_in = 2,
     .attrs = ATTRS({2, 2}, {1, 0}, {2, 1}, {1, 1}, 1, {0}, {7, 6})},
    {.name = "1x1 stride 2 that skips the last",
     .in = {PLB_T(1, 2, 3, 3), PLB_T(2, 3, 1, 1)},
     .n_in = 2,
     .attrs = ATTRS({2, 2}, {0, 0}, {0, 0}, {1, 1}, 1, {0}, {6, 6})},
    {.name = "dilation",
     .in = {PLB_T(2, 2, 7, 3), PLB_T(2, 2, 3, 2)},
     .n_in = 2,
     .attrs = ATTRS({1, 3}, {2, 1}, {2, 1}, {2, 3}, 1, {0}, {7, 8})},
    {.name = "groups",
     .in = {PLB_T(1, 6, 4, 5), PLB_T(6, 2, 3, 3)},
     .n_in = 2,
     .attrs = ATTRS({1, 1}, {1, 1}, {1, 1}, {1, 1}, 2, {0}, {4, 5})},
    {.name = "depthwise, stride 2",
     .in = {PLB_T(2, 5, 3, 3), PLB_T(5, 1, 3, 3)},
     .n_in = 2,
     .attrs = ATTRS({2, 2}, {1, 1}, {1, 1}, {1, 1}, 5, {0}, {5, 5})},
    {.name = "1-d",
     .in = {PLB_T(2, 4, 5), PLB_T(4, 3, 4)},
     .n_in = 2,
     .attrs = ATTRS({2}, {1}, {2}, {1}, 1, {0}, {9})},
    {.name = "3-d",
     .in = {PLB_T(1, 2, 4, 3, 2), PLB_T(2, 2, 2, 3, 2)},
     .n_in = 2,
     .attrs = ATTRS({1, 1, 2}, {1, 1, 0}, {0, 1, 1}, {1, 1, 1}, 1, {0}, {4, 3, 4})},
};

const plb_op plb_op_conv_input_grad = {.name = "conv_input_grad",
                                       .flags = PLB_OP_SPATIAL,
                                       .spatial_in = 1 << 0,
                                       .spatial_out = 1 << 0,
                                       .attrs_bytes = sizeof(plb_conv_attrs),
                                       .min_in = 2,
                                       .max_in = 2,
                                       .infer = input_grad_infer,
                                       .grad = input_grad_grad,
                                       .flops = input_grad_flops,
                                       .ref = input_grad_ref,
                                       .describe = plb_conv_describe,
                                       PLB_SAMPLES(samples)};
