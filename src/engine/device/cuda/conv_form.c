// SPDX-License-Identifier: Apache-2.0
#include "engine/device/cuda/conv_form.h"

#include "base/core/status.h"

// A dense operand with these extents; 1-d values get a height of 1.
static plb_cudnn_tensor operand(const plb_conv_spec *s, int64_t uid, int64_t a, int64_t b,
                                const int64_t *extents) {
    const int axes = s->shape.axes == 3 ? 3 : 2, rank = 2 + axes;
    plb_cudnn_tensor t = {.uid = uid, .dtype = s->dtype, .rank = rank, .dim = {a, b}};
    for (int i = 0; i < axes; i++) t.dim[2 + i] = extents[PLB_MAX_SPATIAL - axes + i];
    const bool last = s->layout == PLB_LAYOUT_NHWC;
    int64_t stride = last ? b : 1;
    for (int i = rank - 1; i >= 2; i--) {
        t.stride[i] = stride;
        stride *= t.dim[i];
    }
    t.stride[1] = last ? 1 : stride;
    t.stride[0] = last ? stride : stride * b;
    return t;
}

// Adds what one op hands to the next, or the result when nothing is left to do.
static plb_status add_value(plb_cudnn_graph *graph, const plb_cudnn_tensor *y, plb_dtype inner,
                            int left, cudnnBackendDescriptor_t *out) {
    plb_cudnn_tensor t = *y;
    if (left > 0) {
        t.uid = 100 + left;
        t.dtype = inner;
        t.inner = true;
    }
    return plb_cudnn_add_tensor(graph, &t, out);
}

typedef struct chain {
    plb_cudnn_graph *graph;
    plb_cudnn_tensor y;
    plb_dtype inner;
    int left; // ops still to come
    cudnnBackendDescriptor_t now;
} chain;

static plb_status chain_sum(chain *c, const plb_cudnn_tensor *with) {
    cudnnBackendDescriptor_t operand_of, next;
    c->left--;
    PLB_TRY(plb_cudnn_add_tensor(c->graph, with, &operand_of));
    PLB_TRY(add_value(c->graph, &c->y, c->inner, c->left, &next));
    PLB_TRY(plb_cudnn_add_sum(c->graph, c->now, operand_of, next));
    c->now = next;
    return PLB_OK;
}

static plb_status chain_epilogue(const plb_conv_spec *s, char form, chain *c) {
    static const int64_t ones[PLB_MAX_SPATIAL] = {1, 1, 1};
    plb_cudnn_tensor bias = operand(s, PLB_CONV_BIAS, 1, s->shape.k, ones);
    plb_cudnn_tensor residual = c->y;
    residual.uid = PLB_CONV_RESIDUAL;
    if (form != 'a') bias.dtype = c->inner;
    if (form == 'b' && s->bias) PLB_TRY(chain_sum(c, &bias));
    if (s->residual) PLB_TRY(chain_sum(c, &residual));
    if (form != 'b' && s->bias) PLB_TRY(chain_sum(c, &bias));
    if (s->epilogue.activation == PLB_ACT_NONE) return PLB_OK;
    double bounds[2];
    cudnnBackendDescriptor_t y;
    plb_epilogue_bounds(&s->epilogue, bounds);
    PLB_TRY(plb_cudnn_add_tensor(c->graph, &c->y, &y));
    if (s->epilogue.activation == PLB_ACT_SILU) return plb_cudnn_add_silu(c->graph, c->now, y);
    return plb_cudnn_add_clamp(c->graph, c->now, y, bounds);
}

static plb_status build(const plb_conv_spec *s, char form, cudnnHandle_t handle,
                        plb_cudnn_graph *graph) {
    const plb_conv_shape *c = &s->shape;
    const int axes = c->axes == 3 ? 3 : 2;
    const plb_cudnn_tensor x = operand(s, PLB_CONV_X, c->n, c->c, c->in);
    const plb_cudnn_tensor w = operand(s, PLB_CONV_W, c->k, c->c / c->groups, c->kernel);
    chain values = {.graph = graph, .y = operand(s, PLB_CONV_Y, c->n, c->k, c->out)};
    values.inner = s->dtype == PLB_F64 ? PLB_F64 : PLB_F32;
    if (!plb_conv_form_is_bare(form)) {
        values.left = s->bias + s->residual + (s->epilogue.activation != PLB_ACT_NONE);
    }
    plb_cudnn_convolution convolution = {.op = s->op, .precision = values.inner, .axes = axes};
    for (int i = 0; i < axes; i++) {
        int from = PLB_MAX_SPATIAL - axes + i;
        convolution.stride[i] = c->stride[from], convolution.dilation[i] = c->dilation[from];
        convolution.pad[i] = c->pad[from], convolution.pad_end[i] = c->pad_end[from];
    }
    PLB_TRY(plb_cudnn_add_tensor(graph, &x, &convolution.x));
    PLB_TRY(plb_cudnn_add_tensor(graph, &w, &convolution.w));
    PLB_TRY(add_value(graph, &values.y, values.inner, values.left, &values.now));
    convolution.y = values.now;
    PLB_TRY(plb_cudnn_add_convolution(graph, &convolution));
    if (!plb_conv_form_is_bare(form)) PLB_TRY(chain_epilogue(s, form, &values));
    return plb_cudnn_graph_finish(graph, handle);
}

// Each output is a sum over the pixels under a filter; that pixel's gradient is a sum over the
// outputs whose filters lay over it, which are as far on the other side. What the node calls x and
// y are y and x of this.
static plb_conv_spec turned_of(const plb_conv_spec *s) {
    plb_conv_spec t = *s;
    t.op = s->op == PLB_OP_conv ? PLB_OP_conv_input_grad : PLB_OP_conv;
    t.shape.c = s->shape.k, t.shape.k = s->shape.c;
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        const int64_t reach = s->shape.dilation[i] * (s->shape.kernel[i] - 1);
        t.shape.in[i] = s->shape.out[i], t.shape.out[i] = s->shape.in[i];
        t.shape.pad[i] = reach - s->shape.pad[i];
        t.shape.pad_end[i] = reach - s->shape.pad_end[i];
    }
    return t;
}

plb_status plb_conv_graph_build(const plb_conv_spec *s, char form, cudnnHandle_t handle,
                                plb_cudnn_graph *graph) {
    if (form != 't') return build(s, form, handle, graph);
    const plb_conv_spec turned = turned_of(s);
    return build(&turned, form, handle, graph);
}

// Version 9.14 reads a residual of 9 channels and one pixel from wrong places, in engines that it
// itself proposes: it gets none whose pixels do not begin on whole vectors, and none of one pixel.
static bool residual_is_safe(const plb_conv_spec *s) {
    const int64_t *out = s->shape.out, pixels = out[0] * out[1] * out[2];
    return pixels > 1 && s->shape.k * (int64_t)plb_dtype_size(s->dtype) % 16 == 0;
}

// Engines for products of f32 are few, and differ by op. On tensor cores turned gradients were no
// faster (docs/cuda.md); convolutions were not tried.
static bool turning_may_pay(const plb_conv_spec *s) {
    const plb_conv_shape *c = &s->shape;
    bool several_taps = false;
    if (!plb_conv_without_tensor_cores(s) || s->op == PLB_OP_conv_weight_grad) return false;
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        const int64_t reach = c->dilation[i] * (c->kernel[i] - 1);
        if (c->stride[i] != 1 || c->pad[i] > reach || c->pad_end[i] > reach) return false;
        several_taps |= c->kernel[i] > 1;
    }
    return c->groups == 1 && several_taps;
}

bool plb_conv_form_is_bare(char form) {
    return form == 't' || form == 'u';
}

bool plb_conv_form_applies(const plb_conv_spec *s, char form) {
    bool act = s->epilogue.activation != PLB_ACT_NONE, narrow = s->dtype != PLB_F32;
    if (form == 'u') return true;
    if (form == 't') return turning_may_pay(s);
    if (s->dtype == PLB_F64 || !(s->bias || s->residual || act)) return false;
    if (s->residual && !residual_is_safe(s)) return false;
    if (form == 'b') return s->bias && (narrow || s->residual);
    if (form == 'c') return s->bias && narrow && s->residual;
    return true;
}
