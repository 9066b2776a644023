// SPDX-License-Identifier: Apache-2.0
// One engine op, after lowering, as one node of ONNX: the inverse of the mappings.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "engine/ops/pointwise.h"
#include "onnx/dtype.h"
#include "onnx/writer.h"
#include "plumb/ops.h"

typedef plb_onnx_writer writer;

static plb_type type_in(const writer *w, const plb_node *n, int k) {
    return plb_value_type(w->graph, k < n->n_in ? n->in[k] : PLB_NONE);
}

// The node with the engine's inputs as they are.
static Onnx__NodeProto *same(writer *w, const plb_node *n, const char *op) {
    Onnx__NodeProto *to = plb_onnx_put(w, n, op, 1);
    int last = n->n_in;
    while (last > 0 && n->in[last - 1] < 0) last--;
    for (int k = 0; k < last; k++) plb_onnx_put_in(w, to, n->in[k]);
    return to;
}

static plb_status refuse_fused(const plb_epilogue *epilogue, const plb_node *n, int most_in) {
    if (epilogue->activation == PLB_ACT_NONE && n->n_in <= most_in) return PLB_OK;
    return plb_fail(PLB_EUNSUPPORTED, "it is fused with what follows it");
}

// ---------------------------------------------------------------------------- windows
// begin…, end…
static void set_pads(writer *w, Onnx__NodeProto *to, const int64_t *begin, const int64_t *end,
                     int axes) {
    int64_t pads[2 * PLB_MAX_SPATIAL];
    for (int i = 0; i < axes; i++) pads[i] = begin[i], pads[axes + i] = end[i];
    plb_onnx_set_ints(w, to, "pads", pads, 2 * axes);
}

static void set_conv(writer *w, Onnx__NodeProto *to, const plb_conv_attrs *a, const plb_shape *x,
                     const plb_shape *weights) {
    int axes = x->rank - 2;
    plb_onnx_set_ints(w, to, "kernel_shape", weights->dim + 2, axes);
    plb_onnx_set_ints(w, to, "strides", a->stride, axes);
    plb_onnx_set_ints(w, to, "dilations", a->dilation, axes);
    plb_onnx_set_int(w, to, "group", a->groups ? a->groups : 1);
}

static plb_status write_conv(writer *w, const plb_node *n) {
    const plb_conv_attrs *a = n->attrs;
    plb_shape x = type_in(w, n, 0).shape, weights = type_in(w, n, 1).shape;
    PLB_TRY(refuse_fused(&a->epilogue, n, 3));
    Onnx__NodeProto *to = same(w, n, "Conv");
    set_conv(w, to, a, &x, &weights);
    set_pads(w, to, a->pad_begin, a->pad_end, x.rank - 2);
    return PLB_OK;
}

// What the extent has beyond the natural one is output padding.
static plb_status write_conv_transpose(writer *w, const plb_node *n) {
    const plb_conv_attrs *a = n->attrs;
    plb_shape x = type_in(w, n, 0).shape, weights = type_in(w, n, 1).shape;
    int64_t more[PLB_MAX_SPATIAL] = {0};
    bool pads_more = false;
    PLB_TRY(refuse_fused(&a->epilogue, n, 3));
    for (int i = 0; i < x.rank - 2; i++) {
        int64_t natural = (x.dim[2 + i] - 1) * a->stride[i] - a->pad_begin[i] - a->pad_end[i] +
                          a->dilation[i] * (weights.dim[2 + i] - 1) + 1;
        more[i] = a->extent[i] - natural;
        pads_more |= more[i] != 0;
        if (more[i] < 0 || more[i] >= a->stride[i]) {
            return plb_fail(PLB_EUNSUPPORTED, "an output padding of %lld", (long long)more[i]);
        }
    }
    Onnx__NodeProto *to = same(w, n, "ConvTranspose");
    set_conv(w, to, a, &x, &weights);
    set_pads(w, to, a->pad_begin, a->pad_end, x.rank - 2);
    if (pads_more) plb_onnx_set_ints(w, to, "output_padding", more, x.rank - 2);
    return PLB_OK;
}

static Onnx__NodeProto *write_pool(writer *w, const plb_node *n, const char *op) {
    const plb_pool_attrs *a = n->attrs;
    int axes = type_in(w, n, 0).shape.rank - 2;
    Onnx__NodeProto *to = same(w, n, op);
    plb_onnx_set_ints(w, to, "kernel_shape", a->kernel, axes);
    plb_onnx_set_ints(w, to, "strides", a->stride, axes);
    set_pads(w, to, a->pad_begin, a->pad_end, axes);
    if (a->ceil_mode) plb_onnx_set_int(w, to, "ceil_mode", 1);
    return to;
}

static plb_status write_max_pool(writer *w, const plb_node *n) {
    const plb_pool_attrs *a = n->attrs;
    if (w->needed[n->out + 1]) {
        return plb_fail(PLB_EUNSUPPORTED, "positions of maxima, which ONNX counts otherwise");
    }
    Onnx__NodeProto *to = write_pool(w, n, "MaxPool");
    plb_onnx_set_ints(w, to, "dilations", a->dilation, type_in(w, n, 0).shape.rank - 2);
    return PLB_OK;
}

static plb_status write_avg_pool(writer *w, const plb_node *n) {
    const plb_pool_attrs *a = n->attrs;
    Onnx__NodeProto *to = write_pool(w, n, "AveragePool");
    plb_onnx_set_int(w, to, "count_include_pad", a->count_include_pad != 0);
    return PLB_OK;
}

static plb_status write_global_pool(writer *w, const plb_node *n) {
    same(w, n, "GlobalAveragePool"); // to one element, after lowering
    return PLB_OK;
}

static plb_status write_interpolate(writer *w, const plb_node *n) {
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    const plb_interpolate_attrs *a = n->attrs;
    plb_shape x = type_in(w, n, 0).shape;
    Onnx__NodeProto *to = plb_onnx_put(w, n, "Resize", 1);
    bool scaled = false;
    for (int i = 0; i < x.rank - 2; i++) scaled |= a->scale[i] != 0;
    int64_t sizes[PLB_MAX_RANK] = {x.dim[0], x.dim[1]};
    for (int i = 2; i < x.rank; i++) sizes[i] = a->extent[i - 2];
    if (scaled) return plb_fail(PLB_EUNSUPPORTED, "scales that differ from the extents'");
    plb_onnx_put_in(w, to, n->in[0]);
    plb_onnx_put_in(w, to, PLB_NONE);
    plb_onnx_put_in(w, to, PLB_NONE);
    plb_onnx_put_ints(w, to, "sizes", sizes, x.rank);
    plb_onnx_set_text(w, to, "mode", modes[a->mode]);
    const char *coordinates = a->mode == PLB_NEAREST ? "asymmetric"
                              : a->align_corners     ? "align_corners"
                                                     : "half_pixel";
    plb_onnx_set_text(w, to, "coordinate_transformation_mode", coordinates);
    if (a->mode == PLB_NEAREST) plb_onnx_set_text(w, to, "nearest_mode", "floor");
    if (a->mode == PLB_CUBIC) plb_onnx_set_float(w, to, "cubic_coeff_a", -0.75);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- products, norms
static plb_status write_matmul(writer *w, const plb_node *n) {
    const plb_matmul_attrs *a = n->attrs;
    PLB_TRY(refuse_fused(&a->epilogue, n, 3));
    bool plain = !a->trans_a && !a->trans_b && (n->n_in < 3 || n->in[2] < 0);
    Onnx__NodeProto *to = same(w, n, plain ? "MatMul" : "Gemm");
    if (a->trans_a) plb_onnx_set_int(w, to, "transA", 1);
    if (a->trans_b) plb_onnx_set_int(w, to, "transB", 1);
    return PLB_OK;
}

static plb_status write_norm(writer *w, const plb_node *n) {
    const plb_norm_attrs *a = n->attrs;
    PLB_TRY(refuse_fused(&a->epilogue, n, n->op == PLB_OP_batch_norm_infer ? 5 : 3));
    Onnx__NodeProto *to = NULL;
    if (n->op == PLB_OP_batch_norm_infer) {
        to = same(w, n, "BatchNormalization");
    } else if (n->op == PLB_OP_layer_norm) {
        to = same(w, n, "LayerNormalization");
        plb_onnx_set_int(w, to, "axis", -a->axes);
    } else {
        to = same(w, n, "GroupNormalization");
        plb_onnx_set_int(w, to, "num_groups", a->groups);
    }
    plb_onnx_set_float(w, to, "epsilon", a->eps);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- pointwise
static plb_status write_alpha(writer *w, const plb_node *n) {
    const plb_pointwise_attrs *a = n->attrs;
    const char *op = n->op == PLB_OP_leaky_relu ? "LeakyRelu"
                     : n->op == PLB_OP_elu      ? "Elu"
                                                : "Celu";
    plb_onnx_set_float(w, same(w, n, op), "alpha", a->alpha);
    return PLB_OK;
}

static plb_status write_clamp(writer *w, const plb_node *n) {
    const plb_pointwise_attrs *a = n->attrs;
    plb_dtype dtype = type_in(w, n, 0).dtype;
    Onnx__NodeProto *to = same(w, n, "Clip");
    plb_onnx_put_scalar(w, to, "min", dtype, a->alpha);
    plb_onnx_put_scalar(w, to, "max", dtype, a->beta);
    return PLB_OK;
}

static plb_status write_hardsigmoid(writer *w, const plb_node *n) {
    Onnx__NodeProto *to = same(w, n, "HardSigmoid");
    plb_onnx_set_float(w, to, "alpha", 1.0 / 6);
    plb_onnx_set_float(w, to, "beta", 0.5);
    return PLB_OK;
}

static plb_status write_gelu_tanh(writer *w, const plb_node *n) {
    plb_onnx_set_text(w, same(w, n, "Gelu"), "approximate", "tanh");
    return PLB_OK;
}

static plb_status write_cast(writer *w, const plb_node *n) {
    const plb_cast_attrs *a = n->attrs;
    plb_onnx_set_int(w, same(w, n, "Cast"), "to", plb_onnx_dtype_number((plb_dtype)a->dtype));
    return PLB_OK;
}

static plb_status write_shift(writer *w, const plb_node *n) {
    const char *direction = n->op == PLB_OP_shift_left ? "LEFT" : "RIGHT";
    plb_onnx_set_text(w, same(w, n, "BitShift"), "direction", direction);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- along axes
static const char *const reductions[][2] = {
    {"reduce_sum", "ReduceSum"},   {"reduce_mean", "ReduceMean"},
    {"reduce_prod", "ReduceProd"}, {"reduce_max", "ReduceMax"},
    {"reduce_min", "ReduceMin"},   {"reduce_logsumexp", "ReduceLogSumExp"},
    {"reduce_any", "ReduceMax"},   {"reduce_all", "ReduceMin"},
};

static plb_status write_reduce(writer *w, const plb_node *n) {
    const plb_reduce_attrs *a = n->attrs;
    const char *op = NULL;
    int64_t axes[PLB_MAX_RANK];
    int count = 0;
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++) {
        if (strcmp(reductions[i][0], plb_op_of(n->op)->name) == 0) op = reductions[i][1];
    }
    if (!op) return plb_fail(PLB_EUNSUPPORTED, "there is no such reduction in ONNX");
    for (int i = 0; i < type_in(w, n, 0).shape.rank; i++) {
        if (a->axes >> i & 1) axes[count++] = i;
    }
    Onnx__NodeProto *to = same(w, n, op);
    if (count) plb_onnx_put_ints(w, to, "axes", axes, count);
    plb_onnx_set_int(w, to, "keepdims", a->keep != 0);
    return PLB_OK;
}

static plb_status write_arg(writer *w, const plb_node *n) {
    const plb_axis_attrs *a = n->attrs;
    Onnx__NodeProto *to = same(w, n, n->op == PLB_OP_arg_max ? "ArgMax" : "ArgMin");
    plb_onnx_set_int(w, to, "axis", a->axis);
    plb_onnx_set_int(w, to, "keepdims", a->keep != 0);
    return PLB_OK;
}

static plb_status write_softmax(writer *w, const plb_node *n) {
    const plb_axis_attrs *a = n->attrs;
    const char *op = n->op == PLB_OP_softmax ? "Softmax" : "LogSoftmax";
    plb_onnx_set_int(w, same(w, n, op), "axis", a->axis);
    return PLB_OK;
}

static plb_status write_cumsum(writer *w, const plb_node *n) {
    const plb_axis_attrs *a = n->attrs;
    Onnx__NodeProto *to = same(w, n, "CumSum");
    plb_onnx_put_scalar(w, to, "axis", PLB_I64, (double)a->axis);
    plb_onnx_set_int(w, to, "reverse", a->reverse != 0);
    plb_onnx_set_int(w, to, "exclusive", a->exclusive != 0);
    return PLB_OK;
}

static plb_status write_top_k(writer *w, const plb_node *n) {
    const plb_axis_attrs *a = n->attrs;
    Onnx__NodeProto *to = plb_onnx_put(w, n, "TopK", 2);
    plb_onnx_put_in(w, to, n->in[0]);
    plb_onnx_put_ints(w, to, "k", &a->k, 1);
    plb_onnx_set_int(w, to, "axis", a->axis);
    plb_onnx_set_int(w, to, "largest", a->descending != 0);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- indices
static plb_status write_take(writer *w, const plb_node *n) {
    const plb_index_attrs *a = n->attrs;
    const char *op = n->op == PLB_OP_take ? "Gather" : "GatherElements";
    plb_onnx_set_int(w, same(w, n, op), "axis", a->axis);
    return PLB_OK;
}

static plb_status write_scatter(writer *w, const plb_node *n) {
    static const char *const words[] = {"none", "add", "mul", "max", "min"};
    const plb_index_attrs *a = n->attrs; // also the first member of plb_scatter_attrs
    int64_t how = n->op == PLB_OP_scatter_add ? PLB_SCATTER_ADD : PLB_SCATTER_PUT;
    if (n->op == PLB_OP_scatter_reduce) how = ((const plb_scatter_attrs *)n->attrs)->how;
    Onnx__NodeProto *to = same(w, n, "ScatterElements");
    plb_onnx_set_int(w, to, "axis", a->axis);
    plb_onnx_set_text(w, to, "reduction", words[how]);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- shapes
static plb_status write_concat(writer *w, const plb_node *n) {
    plb_onnx_set_int(w, same(w, n, "Concat"), "axis", ((const plb_axis_attrs *)n->attrs)->axis);
    return PLB_OK;
}

// begin + step k for k < extent; a step back that ends with element 0 ends before all of them.
static plb_status write_slice(writer *w, const plb_node *n) {
    const plb_slice_attrs *a = n->attrs;
    plb_shape x = type_in(w, n, 0).shape;
    int64_t begin[PLB_MAX_RANK], end[PLB_MAX_RANK], axes[PLB_MAX_RANK], step[PLB_MAX_RANK];
    int count = 0;
    for (int i = 0; i < x.rank; i++) {
        if (a->begin[i] == 0 && a->step[i] == 1 && a->shape.dim[i] == x.dim[i]) continue;
        int64_t last = a->begin[i] + a->step[i] * a->shape.dim[i];
        begin[count] = a->begin[i], step[count] = a->step[i], axes[count] = i;
        end[count++] = last < 0 ? INT64_MIN + 1 : last;
    }
    if (count == 0 && x.rank > 0) { // all of it: not every reader knows empty lists
        begin[0] = 0, end[0] = x.dim[0], axes[0] = 0, step[0] = 1, count = 1;
    }
    Onnx__NodeProto *to = same(w, n, "Slice");
    plb_onnx_put_ints(w, to, "starts", begin, count);
    plb_onnx_put_ints(w, to, "ends", end, count);
    plb_onnx_put_ints(w, to, "axes", axes, count);
    plb_onnx_put_ints(w, to, "steps", step, count);
    return PLB_OK;
}

static plb_status write_pad(writer *w, const plb_node *n) {
    static const char *const modes[] = {"constant", "reflect", "edge"};
    const plb_pad_attrs *a = n->attrs;
    plb_type x = type_in(w, n, 0);
    int64_t pads[2 * PLB_MAX_RANK];
    for (int i = 0; i < x.shape.rank; i++) {
        pads[i] = a->before[i], pads[x.shape.rank + i] = a->after[i];
    }
    Onnx__NodeProto *to = same(w, n, "Pad");
    plb_onnx_put_ints(w, to, "pads", pads, 2 * x.shape.rank);
    if (a->mode == PLB_PAD_CONSTANT) plb_onnx_put_scalar(w, to, "value", x.dtype, a->value);
    plb_onnx_set_text(w, to, "mode", modes[a->mode]);
    return PLB_OK;
}

static plb_status write_reshape(writer *w, const plb_node *n) {
    const plb_shape *shape = &((const plb_shape_attrs *)n->attrs)->shape;
    Onnx__NodeProto *to = same(w, n, n->op == PLB_OP_reshape ? "Reshape" : "Expand");
    plb_onnx_put_ints(w, to, "shape", shape->dim, shape->rank);
    bool zero = n->op == PLB_OP_reshape && plb_shape_count(shape) == 0;
    if (zero) plb_onnx_set_int(w, to, "allowzero", 1);
    return PLB_OK;
}

static plb_status write_permute(writer *w, const plb_node *n) {
    const plb_permute_attrs *a = n->attrs;
    plb_onnx_set_ints(w, same(w, n, "Transpose"), "perm", a->axes, type_in(w, n, 0).shape.rank);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- the tables
static const struct {
    plb_op_id op;
    const char *name;
} plain[] = {
    {PLB_OP_neg, "Neg"},
    {PLB_OP_abs, "Abs"},
    {PLB_OP_sign, "Sign"},
    {PLB_OP_exp, "Exp"},
    {PLB_OP_log, "Log"},
    {PLB_OP_sqrt, "Sqrt"},
    {PLB_OP_reciprocal, "Reciprocal"},
    {PLB_OP_sin, "Sin"},
    {PLB_OP_cos, "Cos"},
    {PLB_OP_tanh, "Tanh"},
    {PLB_OP_tan, "Tan"},
    {PLB_OP_sinh, "Sinh"},
    {PLB_OP_cosh, "Cosh"},
    {PLB_OP_asin, "Asin"},
    {PLB_OP_acos, "Acos"},
    {PLB_OP_atan, "Atan"},
    {PLB_OP_asinh, "Asinh"},
    {PLB_OP_acosh, "Acosh"},
    {PLB_OP_atanh, "Atanh"},
    {PLB_OP_sigmoid, "Sigmoid"},
    {PLB_OP_relu, "Relu"},
    {PLB_OP_gelu, "Gelu"},
    {PLB_OP_mish, "Mish"},
    {PLB_OP_hardswish, "HardSwish"},
    {PLB_OP_softplus, "Softplus"},
    {PLB_OP_softsign, "Softsign"},
    {PLB_OP_erf, "Erf"},
    {PLB_OP_floor, "Floor"},
    {PLB_OP_ceil, "Ceil"},
    {PLB_OP_round, "Round"},
    {PLB_OP_isnan, "IsNaN"},
    {PLB_OP_not, "Not"},
    {PLB_OP_add, "Add"},
    {PLB_OP_sub, "Sub"},
    {PLB_OP_mul, "Mul"},
    {PLB_OP_div, "Div"},
    {PLB_OP_pow, "Pow"},
    {PLB_OP_remainder, "Mod"},
    {PLB_OP_min, "Min"},
    {PLB_OP_max, "Max"},
    {PLB_OP_bit_and, "BitwiseAnd"},
    {PLB_OP_bit_or, "BitwiseOr"},
    {PLB_OP_bit_xor, "BitwiseXor"},
    {PLB_OP_eq, "Equal"},
    {PLB_OP_lt, "Less"},
    {PLB_OP_le, "LessOrEqual"},
    {PLB_OP_gt, "Greater"},
    {PLB_OP_ge, "GreaterOrEqual"},
    {PLB_OP_and, "And"},
    {PLB_OP_or, "Or"},
    {PLB_OP_xor, "Xor"},
    {PLB_OP_where, "Where"},
};

static const struct {
    plb_op_id op;
    plb_status (*write)(writer *w, const plb_node *n);
} rules[] = {
    {PLB_OP_conv, write_conv},
    {PLB_OP_conv_input_grad, write_conv_transpose},
    {PLB_OP_max_pool, write_max_pool},
    {PLB_OP_avg_pool, write_avg_pool},
    {PLB_OP_adaptive_avg_pool, write_global_pool},
    {PLB_OP_interpolate, write_interpolate},
    {PLB_OP_matmul, write_matmul},
    {PLB_OP_batch_norm_infer, write_norm},
    {PLB_OP_layer_norm, write_norm},
    {PLB_OP_group_norm, write_norm},
    {PLB_OP_leaky_relu, write_alpha},
    {PLB_OP_elu, write_alpha},
    {PLB_OP_celu, write_alpha},
    {PLB_OP_clamp, write_clamp},
    {PLB_OP_hardsigmoid, write_hardsigmoid},
    {PLB_OP_gelu_tanh, write_gelu_tanh},
    {PLB_OP_cast, write_cast},
    {PLB_OP_shift_left, write_shift},
    {PLB_OP_shift_right, write_shift},
    {PLB_OP_reduce_sum, write_reduce},
    {PLB_OP_reduce_mean, write_reduce},
    {PLB_OP_reduce_prod, write_reduce},
    {PLB_OP_reduce_max, write_reduce},
    {PLB_OP_reduce_min, write_reduce},
    {PLB_OP_reduce_any, write_reduce},
    {PLB_OP_reduce_all, write_reduce},
    {PLB_OP_reduce_logsumexp, write_reduce},
    {PLB_OP_arg_max, write_arg},
    {PLB_OP_arg_min, write_arg},
    {PLB_OP_softmax, write_softmax},
    {PLB_OP_log_softmax, write_softmax},
    {PLB_OP_cumsum, write_cumsum},
    {PLB_OP_top_k, write_top_k},
    {PLB_OP_take, write_take},
    {PLB_OP_gather, write_take},
    {PLB_OP_scatter, write_scatter},
    {PLB_OP_scatter_add, write_scatter},
    {PLB_OP_scatter_reduce, write_scatter},
    {PLB_OP_concat, write_concat},
    {PLB_OP_slice, write_slice},
    {PLB_OP_pad, write_pad},
    {PLB_OP_reshape, write_reshape},
    {PLB_OP_expand, write_reshape},
    {PLB_OP_permute, write_permute},
};

plb_status plb_onnx_write_node(writer *w, const plb_node *node) {
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (plain[i].op != node->op) continue;
        same(w, node, plain[i].name);
        return w->status;
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].op != node->op) continue;
        PLB_TRY(rules[i].write(w, node));
        return w->status;
    }
    return plb_fail(PLB_EUNSUPPORTED, "there is no op of ONNX for it");
}
