// SPDX-License-Identifier: Apache-2.0
// The ops, as functions that append to a graph. Shapes are written x[N,C,H,W]; "…" is any number
// of axes. An axis may be negative: -1 is the last. A value that an op cannot take makes the graph
// fail (plumb/graph.h); nothing here needs a check of its own.
#ifndef PLUMB_OPS_H
#define PLUMB_OPS_H

#include "plumb/graph.h"

enum { PLB_MAX_SPATIAL = 3 };

// ------------------------------------------------------------------ convolution, matrix product
typedef enum plb_activation {
    PLB_ACT_NONE,
    PLB_ACT_RELU,
    PLB_ACT_CLAMP, // between alpha and beta
    PLB_ACT_SILU,  // x sigmoid(x); on devices that fuse it
} plb_activation;

// What passes fuse behind a convolution, product or normalisation:
// y = act(op(x) + bias + residual). It has no gaps: attributes are compared by their bytes.
typedef struct plb_epilogue {
    int64_t activation; // plb_activation
    double alpha, beta;
} plb_epilogue;

// Per spatial axis; a stride or dilation of 0 means 1, groups 0 means 1.
typedef struct plb_conv_attrs {
    int64_t stride[PLB_MAX_SPATIAL], pad_begin[PLB_MAX_SPATIAL], pad_end[PLB_MAX_SPATIAL];
    int64_t dilation[PLB_MAX_SPATIAL];
    int64_t groups;
    plb_epilogue epilogue;
    int64_t extent[PLB_MAX_SPATIAL]; // conv_input_grad, conv_weight_grad: of what they compute
} plb_conv_attrs;

// The same stride, padding and so on along `axes` spatial axes.
PLB_API plb_conv_attrs plb_conv_uniform(int axes, int64_t stride, int64_t pad, int64_t dilation,
                                        int64_t groups);
// x[N,C,…] w[K,C/groups,…] bias[K] or PLB_NONE -> y[N,K,…]; one to three spatial axes.
PLB_API plb_value plb_conv(plb_graph *graph, plb_value x, plb_value w, plb_value bias,
                           const plb_conv_attrs *attrs);
// Transposed: x[N,K,…] w[K,C/groups,…] bias[C] -> y[N,C,…]; each extent of y is
// (x - 1) stride - pad_begin - pad_end + dilation (w - 1) + 1 + output_pad.
PLB_API plb_value plb_conv_transpose(plb_graph *graph, plb_value x, plb_value w, plb_value bias,
                                     const plb_conv_attrs *attrs,
                                     const int64_t output_pad[PLB_MAX_SPATIAL]);

// The two gradients of conv, ops of their own (extent: spatial extents of x, or of w).
PLB_API plb_value plb_conv_input_grad(plb_graph *graph, plb_value dy, plb_value w,
                                      const plb_conv_attrs *attrs);
PLB_API plb_value plb_conv_weight_grad(plb_graph *graph, plb_value x, plb_value dy,
                                       const plb_conv_attrs *attrs);

typedef struct plb_matmul_attrs {
    int64_t trans_a, trans_b; // the last two axes are swapped first
    plb_epilogue epilogue;
} plb_matmul_attrs;

// a[…,M,K] b[…,K,N] -> [… broadcast,M,N].
PLB_API plb_value plb_matmul(plb_graph *graph, plb_value a, plb_value b,
                             const plb_matmul_attrs *attrs);
// x[…,I] w[O,I] bias[O] or PLB_NONE -> y[…,O].
PLB_API plb_value plb_linear(plb_graph *graph, plb_value x, plb_value w, plb_value bias);

// Convolution and product of 8-bit integers: with acc the sum of (x - x_zero) w over a window or a
// row, y = clamp(round((acc + bias) multiplier) + y_zero, low, high); an f32 y is not rounded and
// has no zero. x is u8 or i8, w is i8, multiplier[K] and bias[K] are floats. No gradient. A kernel
// may add y_zero before it rounds: halfway between two integers, an odd y_zero gives the other one.
typedef struct plb_int8_attrs {
    plb_conv_attrs conv; // int8_conv; no epilogue
    int64_t trans_b;     // int8_matmul
    int64_t x_zero, y_zero;
    double low, high; // of y
    int64_t dtype;    // plb_dtype of y: u8, i8 or f32
} plb_int8_attrs;
// x[N,C,…] w[K,C/groups,…] -> y[N,K,…].
PLB_API plb_value plb_int8_conv(plb_graph *graph, plb_value x, plb_value w, plb_value multiplier,
                                plb_value bias, const plb_int8_attrs *attrs);
// x[M,C] w[C,K], or w[K,C] with trans_b -> y[M,K].
PLB_API plb_value plb_int8_matmul(plb_graph *graph, plb_value x, plb_value w, plb_value multiplier,
                                  plb_value bias, const plb_int8_attrs *attrs);

typedef struct plb_int8_add_attrs {
    double scale_a, scale_b, shift;
    int64_t y_zero;
    double low, high; // of y
    int64_t dtype;    // plb_dtype of y: u8 or i8
} plb_int8_add_attrs;
// clamp(round(a scale_a + b scale_b + shift) + y_zero, low, high); a and b are u8 or i8.
PLB_API plb_value plb_int8_add(plb_graph *graph, plb_value a, plb_value b,
                               const plb_int8_add_attrs *attrs);

typedef struct plb_attention_attrs {
    double scale;        // of the products of queries and keys
    int64_t zero_masked; // a query that may see no key (its mask is -infinity) gives 0, not NaN
} plb_attention_attrs;
// q[B,H,L,D] k[B,H,S,D] v[B,H,S,E] -> y[B,L,H,E]: softmax(scale q k^T + mask) v for each head. The
// mask broadcasts to [B,H,L,S]; PLB_NONE: none.
PLB_API plb_value plb_attention(plb_graph *graph, plb_value q, plb_value k, plb_value v,
                                plb_value mask, const plb_attention_attrs *attrs);

typedef enum plb_recurrent_kind {
    PLB_RNN_TANH,
    PLB_RNN_RELU,
    PLB_GRU,             // gates z, r, n
    PLB_GRU_RESET_AFTER, // r times the product instead of the product of r times h
    PLB_LSTM,            // gates i, o, f, g
} plb_recurrent_kind;
typedef struct plb_recurrent_attrs {
    int64_t kind;
    int64_t reverse; // from the last step to the first
} plb_recurrent_attrs;
// One direction of a recurrent layer with G gates, the products with its input made: x[T,B,G H]
// r[G H,H] h0[B,H], of an LSTM c0[B,H], rb[G H] or PLB_NONE -> y[T,B,H], the last h[B,H], and of an
// LSTM the last c[B,H].
PLB_API plb_value plb_recurrent(plb_graph *graph, plb_value x, plb_value r, plb_value h0,
                                plb_value c0, plb_value rb, const plb_recurrent_attrs *attrs);
PLB_API int plb_recurrent_gates(int64_t kind);
// The same as small ops, of at most 1024 steps. `in` and `out` in the order above.
PLB_API void plb_recurrent_unrolled(plb_graph *graph, const plb_recurrent_attrs *attrs,
                                    const plb_value in[5], plb_value out[3]);

// ------------------------------------------------------------------ normalisation
typedef struct plb_norm_attrs {
    double eps;
    int64_t groups; // group_norm
    int64_t axes;   // layer_norm: how many of the last axes
    int64_t masked; // batch_norm_grad: dy where y > 0 is a fourth output
    plb_epilogue epilogue;
} plb_norm_attrs;

// Statistics of the batch (Ioffe, Szegedy 2015). x[N,C,…] gamma[C] beta[C] -> three outputs:
// y like x, mean[C], inv_std[C] = 1 / sqrt(variance + eps), the variance divided by its count.
// The statistics of 16-bit floats are f32, and gamma and beta may be. PLB_NONE for gamma: ones,
// for beta: zeros.
PLB_API plb_value plb_batch_norm(plb_graph *graph, plb_value x, plb_value gamma, plb_value beta,
                                 double eps);
// With given statistics: (x - mean) / sqrt(variance + eps) * gamma + beta.
// Any [C] may be f32 when x is of 16 bits; gamma and beta may be PLB_NONE.
PLB_API plb_value plb_batch_norm_infer(plb_graph *graph, plb_value x, plb_value gamma,
                                       plb_value beta, plb_value mean, plb_value variance,
                                       double eps);
// Over the last `axes` axes; gamma and beta have their shape, or are PLB_NONE.
PLB_API plb_value plb_layer_norm(plb_graph *graph, plb_value x, plb_value gamma, plb_value beta,
                                 int axes, double eps);
// x[N,C,…], statistics per sample and group of C/groups channels; gamma[C], beta[C] or PLB_NONE.
PLB_API plb_value plb_group_norm(plb_graph *graph, plb_value x, plb_value gamma, plb_value beta,
                                 int64_t groups, double eps);
PLB_API plb_value plb_instance_norm(plb_graph *graph, plb_value x, plb_value gamma, plb_value beta,
                                    double eps);

// ------------------------------------------------------------------ pooling, resampling
typedef struct plb_pool_attrs {
    int64_t kernel[PLB_MAX_SPATIAL], stride[PLB_MAX_SPATIAL]; // stride 0: as the kernel
    int64_t pad_begin[PLB_MAX_SPATIAL], pad_end[PLB_MAX_SPATIAL], dilation[PLB_MAX_SPATIAL];
    int64_t ceil_mode;               // round extents up, as PyTorch does
    int64_t count_include_pad;       // avg_pool: divide by the kernel's size at the edges too
    int64_t extent[PLB_MAX_SPATIAL]; // grads: spatial extents of x; adaptive: of y
} plb_pool_attrs;

PLB_API plb_pool_attrs plb_pool_uniform(int axes, int64_t kernel, int64_t stride, int64_t pad);
// x[N,C,…] -> two outputs: y, and i32 positions of the maxima in the flattened spatial plane of x
// (the first of equals; a NaN wins).
PLB_API plb_value plb_max_pool(plb_graph *graph, plb_value x, const plb_pool_attrs *attrs);
PLB_API plb_value plb_avg_pool(plb_graph *graph, plb_value x, const plb_pool_attrs *attrs);
// Windows [floor(i in/out), ceil((i+1) in/out)) along each spatial axis.
PLB_API plb_value plb_adaptive_avg_pool(plb_graph *graph, plb_value x,
                                        const int64_t extent[PLB_MAX_SPATIAL]);
// x's extents must be multiples of these: other windows differ in size (PLB_EUNSUPPORTED).
PLB_API plb_value plb_adaptive_max_pool(plb_graph *graph, plb_value x,
                                        const int64_t extent[PLB_MAX_SPATIAL]);
PLB_API plb_value plb_global_avg_pool(plb_graph *graph, plb_value x); // -> [N,C,1,…]

typedef enum plb_interpolation { PLB_NEAREST, PLB_LINEAR, PLB_CUBIC } plb_interpolation;
typedef struct plb_interpolate_attrs {
    int64_t mode; // plb_interpolation; cubic: two spatial axes only
    int64_t align_corners;
    int64_t extent[PLB_MAX_SPATIAL]; // of y; interpolate_grad: of x
    double scale[PLB_MAX_SPATIAL];   // y over x, for coordinates; 0: from the extents
} plb_interpolate_attrs;
PLB_API plb_value plb_interpolate(plb_graph *graph, plb_value x,
                                  const plb_interpolate_attrs *attrs);

// ------------------------------------------------------------------ pointwise
typedef struct plb_pointwise_attrs {
    double alpha, beta;
} plb_pointwise_attrs;

PLB_API plb_value plb_neg(plb_graph *graph, plb_value x);
PLB_API plb_value plb_abs(plb_graph *graph, plb_value x);
PLB_API plb_value plb_sign(plb_graph *graph, plb_value x);
PLB_API plb_value plb_exp(plb_graph *graph, plb_value x);
PLB_API plb_value plb_log(plb_graph *graph, plb_value x);
PLB_API plb_value plb_log1p(plb_graph *graph, plb_value x);
PLB_API plb_value plb_expm1(plb_graph *graph, plb_value x);
PLB_API plb_value plb_sqrt(plb_graph *graph, plb_value x);
PLB_API plb_value plb_rsqrt(plb_graph *graph, plb_value x);
PLB_API plb_value plb_reciprocal(plb_graph *graph, plb_value x);
PLB_API plb_value plb_sin(plb_graph *graph, plb_value x);
PLB_API plb_value plb_cos(plb_graph *graph, plb_value x);
PLB_API plb_value plb_tanh(plb_graph *graph, plb_value x);
PLB_API plb_value plb_tan(plb_graph *graph, plb_value x);
PLB_API plb_value plb_sinh(plb_graph *graph, plb_value x);
PLB_API plb_value plb_cosh(plb_graph *graph, plb_value x);
PLB_API plb_value plb_asin(plb_graph *graph, plb_value x);
PLB_API plb_value plb_acos(plb_graph *graph, plb_value x);
PLB_API plb_value plb_atan(plb_graph *graph, plb_value x);
PLB_API plb_value plb_asinh(plb_graph *graph, plb_value x);
PLB_API plb_value plb_acosh(plb_graph *graph, plb_value x);
PLB_API plb_value plb_atanh(plb_graph *graph, plb_value x);
PLB_API plb_value plb_sigmoid(plb_graph *graph, plb_value x);
PLB_API plb_value plb_relu(plb_graph *graph, plb_value x);
PLB_API plb_value plb_relu6(plb_graph *graph, plb_value x);
PLB_API plb_value plb_leaky_relu(plb_graph *graph, plb_value x, double slope);
PLB_API plb_value plb_elu(plb_graph *graph, plb_value x, double alpha);
PLB_API plb_value plb_selu(plb_graph *graph, plb_value x);
PLB_API plb_value plb_celu(plb_graph *graph, plb_value x, double alpha);
PLB_API plb_value plb_gelu(plb_graph *graph, plb_value x);      // by erf
PLB_API plb_value plb_gelu_tanh(plb_graph *graph, plb_value x); // the approximation
PLB_API plb_value plb_silu(plb_graph *graph, plb_value x);
PLB_API plb_value plb_mish(plb_graph *graph, plb_value x);
PLB_API plb_value plb_hardswish(plb_graph *graph, plb_value x);
PLB_API plb_value plb_hardsigmoid(plb_graph *graph, plb_value x);
PLB_API plb_value plb_clamp(plb_graph *graph, plb_value x, double low, double high); // hardtanh
PLB_API plb_value plb_softplus(plb_graph *graph, plb_value x, double beta, double threshold);
PLB_API plb_value plb_softsign(plb_graph *graph, plb_value x);
PLB_API plb_value plb_erf(plb_graph *graph, plb_value x);
PLB_API plb_value plb_floor(plb_graph *graph, plb_value x);
PLB_API plb_value plb_ceil(plb_graph *graph, plb_value x);
PLB_API plb_value plb_round(plb_graph *graph, plb_value x); // halves to even
PLB_API plb_value plb_trunc(plb_graph *graph, plb_value x);
PLB_API plb_value plb_isnan(plb_graph *graph, plb_value x); // -> bool
PLB_API plb_value plb_not(plb_graph *graph, plb_value x);   // bool -> bool
PLB_API plb_value plb_affine(plb_graph *graph, plb_value x, double scale, double shift);
PLB_API plb_value plb_cast(plb_graph *graph, plb_value x, plb_dtype dtype);

// Two operands of one dtype, broadcast as numpy does.
PLB_API plb_value plb_add(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_sub(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_mul(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_div(plb_graph *graph, plb_value a, plb_value b); // integers: towards zero
PLB_API plb_value plb_pow(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_remainder(plb_graph *graph, plb_value a, plb_value b); // sign of b
PLB_API plb_value plb_min(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_max(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_prelu(plb_graph *graph, plb_value x, plb_value slope); // slope[C] or [1]
// Of the bits of integers; shifting by the width of the dtype or more leaves nothing. A shift to
// the right keeps the sign.
PLB_API plb_value plb_bit_and(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_bit_or(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_bit_xor(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_shift_left(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_shift_right(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_relu_grad(plb_graph *graph, plb_value dy, plb_value y); // dy where y > 0
// Comparisons and logic give bool.
PLB_API plb_value plb_eq(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_ne(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_lt(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_le(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_gt(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_ge(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_and(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_or(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_xor(plb_graph *graph, plb_value a, plb_value b);
PLB_API plb_value plb_where(plb_graph *graph, plb_value condition, plb_value a, plb_value b);

// ------------------------------------------------------------------ reductions, scans
typedef struct plb_reduce_attrs {
    int64_t axes; // bit i: axis i is reduced; 0: all
    int64_t keep; // keep them with extent 1
    double p;     // reduce_var: correction (1: unbiased); reduce_norm: the exponent
} plb_reduce_attrs;
// Bit set of axes: plb_axes(x's rank, n, (int[]){-1, 0}).
PLB_API int64_t plb_axes(int rank, int n, const int *axes);

PLB_API plb_value plb_sum(plb_graph *graph, plb_value x, int64_t axes, bool keep);
PLB_API plb_value plb_mean(plb_graph *graph, plb_value x, int64_t axes, bool keep);
PLB_API plb_value plb_prod(plb_graph *graph, plb_value x, int64_t axes, bool keep);
PLB_API plb_value plb_amax(plb_graph *graph, plb_value x, int64_t axes, bool keep);
PLB_API plb_value plb_amin(plb_graph *graph, plb_value x, int64_t axes, bool keep);
PLB_API plb_value plb_any(plb_graph *graph, plb_value x, int64_t axes, bool keep);
PLB_API plb_value plb_all(plb_graph *graph, plb_value x, int64_t axes, bool keep);
PLB_API plb_value plb_var(plb_graph *graph, plb_value x, int64_t axes, bool keep,
                          double correction);
PLB_API plb_value plb_norm(plb_graph *graph, plb_value x, int64_t axes, bool keep, double p);
PLB_API plb_value plb_logsumexp(plb_graph *graph, plb_value x, int64_t axes, bool keep);
// Sums `x` over the axes that broadcasting `shape` to x's shape had widened.
PLB_API plb_value plb_sum_to(plb_graph *graph, plb_value x, const plb_shape *shape);

typedef struct plb_axis_attrs {
    int64_t axis;
    int64_t k;                  // top_k
    int64_t descending;         // sort; top_k: the largest
    int64_t keep;               // arg_max, arg_min
    int64_t reverse, exclusive; // cumsum
} plb_axis_attrs;
PLB_API plb_value plb_arg_max(plb_graph *graph, plb_value x, int axis, bool keep); // -> i64
PLB_API plb_value plb_arg_min(plb_graph *graph, plb_value x, int axis, bool keep);
PLB_API plb_value plb_softmax(plb_graph *graph, plb_value x, int axis);
PLB_API plb_value plb_log_softmax(plb_graph *graph, plb_value x, int axis);
PLB_API plb_value plb_cumsum(plb_graph *graph, plb_value x, int axis, bool reverse, bool exclusive);
// Two outputs: values, i64 indices. Equal elements keep their order.
PLB_API plb_value plb_top_k(plb_graph *graph, plb_value x, int axis, int64_t k, bool largest);
PLB_API plb_value plb_sort(plb_graph *graph, plb_value x, int axis, bool descending);

// ------------------------------------------------------------------ losses
typedef enum plb_reduction { PLB_REDUCE_MEAN, PLB_REDUCE_SUM, PLB_REDUCE_NONE } plb_reduction;
typedef struct plb_loss_attrs {
    int64_t reduction;    // plb_reduction
    int64_t ignore_index; // a target that counts for nothing; -100 as PyTorch's default
    double smoothing;     // cross_entropy: label smoothing
    int64_t classes;      // nll_grad: C of what it computes; else 0
} plb_loss_attrs;
PLB_API plb_loss_attrs plb_loss_default(void);

// logits[N,C,…] target i64[N,…] weight[C] or PLB_NONE -> scalar, or [N,…] unreduced. MEAN divides
// by the sum of the targets' weights. A target that is no class and not ignored fails the run.
PLB_API plb_value plb_cross_entropy(plb_graph *graph, plb_value logits, plb_value target,
                                    plb_value weight, const plb_loss_attrs *attrs);
// The same of log-probabilities.
PLB_API plb_value plb_nll(plb_graph *graph, plb_value log_p, plb_value target, plb_value weight,
                          const plb_loss_attrs *attrs);
PLB_API plb_value plb_mse(plb_graph *graph, plb_value x, plb_value target, plb_reduction how);
PLB_API plb_value plb_l1(plb_graph *graph, plb_value x, plb_value target, plb_reduction how);
PLB_API plb_value plb_smooth_l1(plb_graph *graph, plb_value x, plb_value target, double beta,
                                plb_reduction how);
PLB_API plb_value plb_bce(plb_graph *graph, plb_value p, plb_value target, plb_reduction how);
PLB_API plb_value plb_bce_logits(plb_graph *graph, plb_value x, plb_value target,
                                 plb_reduction how);
// target * (log target - log_p); MEAN divides by the number of elements.
PLB_API plb_value plb_kl(plb_graph *graph, plb_value log_p, plb_value target, plb_reduction how);

// ------------------------------------------------------------------ random numbers
typedef struct plb_random_attrs {
    double p;         // dropout
    double low, high; // uniform: [low, high); normal: mean, standard deviation
    int64_t id;       // set by the builder; no two nodes of a program share one
    int64_t channels; // dropout: whole channels of x[N,C,…] at once
    plb_type type;    // of the numbers
} plb_random_attrs;
// The random state u64[2] = {seed, step}: the same state gives the same numbers. Declares the
// variable "random" (PLB_ROLE_STATE) and, once a program, an assign that advances the step at the
// end of the run.
PLB_API plb_value plb_random_state(plb_graph *graph);
// Zeroes with probability p and scales the rest by 1 / (1 - p); x itself when not training.
PLB_API plb_value plb_dropout(plb_graph *graph, plb_value x, double p);
PLB_API plb_value plb_dropout_channels(plb_graph *graph, plb_value x, double p);
PLB_API plb_value plb_random_uniform(plb_graph *graph, plb_dtype dtype, const plb_shape *shape,
                                     double low, double high);
PLB_API plb_value plb_random_normal(plb_graph *graph, plb_dtype dtype, const plb_shape *shape,
                                    double mean, double deviation);

// ------------------------------------------------------------------ indexing
// Indices are i64 and count from the first element; one that is negative or past the end fails the
// run.
typedef struct plb_index_attrs {
    int64_t axis;
    int64_t extent; // take_grad: of x along axis
} plb_index_attrs;
// x[…,D,…] index[I…] -> [… I… …] along axis: index_select, and embedding with axis 0.
PLB_API plb_value plb_take(plb_graph *graph, plb_value x, plb_value index, int axis);
PLB_API plb_value plb_embedding(plb_graph *graph, plb_value weight, plb_value index);
// Along axis 1, out[i][j] = x[i][index[i][j]] and so on (torch.gather); ranks are equal.
PLB_API plb_value plb_gather(plb_graph *graph, plb_value x, plb_value index, int axis);
// The opposite: x with out[i][index[i][j]] = source[i][j], or += for scatter_add. Index and source
// have one shape. Where two elements of scatter go to one place the last in row-major order stays,
// and gradients are only right where none do.
PLB_API plb_value plb_scatter(plb_graph *graph, plb_value x, plb_value index, plb_value source,
                              int axis);
PLB_API plb_value plb_scatter_add(plb_graph *graph, plb_value x, plb_value index, plb_value source,
                                  int axis);
typedef enum plb_scatter_how {
    PLB_SCATTER_PUT,
    PLB_SCATTER_ADD,
    PLB_SCATTER_MUL,
    PLB_SCATTER_MAX,
    PLB_SCATTER_MIN,
} plb_scatter_how;
typedef struct plb_scatter_attrs {
    plb_index_attrs index;
    int64_t how; // plb_scatter_how: MUL, MAX or MIN
} plb_scatter_attrs;
// The same with a product, or the larger or smaller, of what is there and source. No gradient.
PLB_API plb_value plb_scatter_reduce(plb_graph *graph, plb_value x, plb_value index,
                                     plb_value source, int axis, plb_scatter_how how);
// Two outputs: i64 positions [count of x, rank], of which the count (i64 scalar) first are meant;
// the rest are zero.
PLB_API plb_value plb_nonzero(plb_graph *graph, plb_value x);
// boxes[B,N,4] of corners (y or x first, in any order) or of centre and size, scores[B,C,N] ->
// two outputs: i64 rows {batch, class, box} [B C min(most, N), 3], of which the count (i64 scalar)
// first are meant: for each batch and class at most `most` boxes whose score is above least_score
// and that overlap no better one by more than most_overlap (intersection over union), by falling
// score.
typedef struct plb_nms_attrs {
    int64_t centred; // boxes are {x, y, width, height} of their centre and size
    int64_t most;
    double most_overlap, least_score;
} plb_nms_attrs;
PLB_API plb_value plb_nms(plb_graph *graph, plb_value boxes, plb_value scores,
                          const plb_nms_attrs *attrs);
// 0, 1, 2, … along `axis` of `shape`.
typedef struct plb_iota_attrs {
    plb_type type;
    int64_t axis;
} plb_iota_attrs;
PLB_API plb_value plb_iota(plb_graph *graph, plb_dtype dtype, const plb_shape *shape, int axis);

// ------------------------------------------------------------------ shapes
typedef struct plb_slice_attrs {
    int64_t begin[PLB_MAX_RANK], step[PLB_MAX_RANK]; // step 0: 1
    plb_shape shape;                                 // of the slice; slice_grad: of the whole
} plb_slice_attrs;
typedef enum plb_pad_mode { PLB_PAD_CONSTANT, PLB_PAD_REFLECT, PLB_PAD_EDGE } plb_pad_mode;
typedef struct plb_pad_attrs {
    int64_t mode;
    int64_t before[PLB_MAX_RANK], after[PLB_MAX_RANK]; // negative: cut off (constant mode only)
    double value;                                      // constant mode
} plb_pad_attrs;
typedef struct plb_shape_attrs {
    plb_shape shape; // reshape, expand
} plb_shape_attrs;
typedef struct plb_permute_attrs {
    int64_t axes[PLB_MAX_RANK];
} plb_permute_attrs;
typedef struct plb_flip_attrs {
    int64_t axes; // bit set
} plb_flip_attrs;

PLB_API plb_value plb_concat(plb_graph *graph, const plb_value *parts, int n, int axis);
// y[i] = x[begin + step i] along each axis; a negative begin counts from the end, a step may be
// negative, every element must exist.
PLB_API plb_value plb_slice(plb_graph *graph, plb_value x, const plb_slice_attrs *attrs);
// [begin, end) along one axis, as Python slices: both may be negative or past the end.
PLB_API plb_value plb_slice_axis(plb_graph *graph, plb_value x, int axis, int64_t begin,
                                 int64_t end);
// n parts of these extents, or n equal parts where `extents` is NULL.
PLB_API void plb_split(plb_graph *graph, plb_value x, int axis, int n, const int64_t *extents,
                       plb_value *out);
PLB_API plb_value plb_pad(plb_graph *graph, plb_value x, const plb_pad_attrs *attrs);
// One extent may be -1: what is left.
PLB_API plb_value plb_reshape(plb_graph *graph, plb_value x, const plb_shape *shape);
// All axes from first_axis on become one.
PLB_API plb_value plb_flatten(plb_graph *graph, plb_value x, int first_axis);
// Axis i of the result is axis axes[i] of x; n, the number of axes, is x's rank, or it fails.
PLB_API plb_value plb_permute(plb_graph *graph, plb_value x, const int *axes, int n);
PLB_API plb_value plb_transpose(plb_graph *graph, plb_value x, int axis_a, int axis_b);
PLB_API plb_value plb_expand(plb_graph *graph, plb_value x, const plb_shape *shape);
// `axes`: a set, as of plb_axes.
PLB_API plb_value plb_flip(plb_graph *graph, plb_value x, int64_t axes);
// Element i moves to i + shift, around the end.
PLB_API plb_value plb_roll(plb_graph *graph, plb_value x, int axis, int64_t shift);

// ------------------------------------------------------------------ regions
// A region is a graph of its own that a node runs. The function that builds one gets its inputs as
// values of `region` and writes its outputs, values of `region` too. It sees nothing else: what it
// needs from the program around it is captured. It may not read or assign variables (capture what a
// read gave) and so not draw random numbers.
typedef void (*plb_region_fn)(plb_graph *region, const plb_value *in, plb_value *out,
                              void *context);

typedef struct plb_if_spec {
    plb_value condition;            // bool scalar
    const plb_value *captures;      // both regions get them as `in`
    int n_captures, n_out;          // n_out: 1 to 16
    plb_region_fn then_fn, else_fn; // give n_out values of the same types
    void *context;
} plb_if_spec;
// n_out outputs: those of one region.
PLB_API plb_value plb_if(plb_graph *graph, const plb_if_spec *spec);

typedef struct plb_loop_spec {
    plb_value trips;     // i64 scalar, at most so many; PLB_NONE: until the body says stop
    plb_value condition; // bool scalar, whether to begin; PLB_NONE: yes
    const plb_value *carried, *captures;
    int n_carried, n_captures;
    int n_stacks;      // values kept from every trip
    int64_t max_trips; // with stacks: their extent; more trips than that fail the run
    // in: i64 scalar iteration, carried…, captures…; out: bool scalar, whether to go on (PLB_NONE:
    // yes), carried…, rows of the stacks….
    plb_region_fn body;
    void *context;
} plb_loop_spec;
// Outputs: carried…, stacks [max_trips, …]…, i64 scalar: the trips made, which is the count of the
// stacks; at most 16 in all. No gradient.
PLB_API plb_value plb_loop(plb_graph *graph, const plb_loop_spec *spec);

typedef struct plb_scan_spec {
    const plb_value *carried, *scanned, *captures; // scanned: [T, …], one T
    int n_carried, n_scanned, n_captures;
    int n_stacks;
    bool reverse; // from the last row to the first; stacks keep the order of the rows
    // in: carried…, rows of the scanned…, captures…; out: carried…, rows of the stacks….
    plb_region_fn body;
    void *context;
} plb_scan_spec;
// Outputs: carried…, stacks [T, …]…; at most 16 in all.
PLB_API plb_value plb_scan(plb_graph *graph, const plb_scan_spec *spec);

// ------------------------------------------------------------------ optimizer steps
typedef struct plb_sgd_attrs {
    double momentum, dampening, weight_decay;
    int64_t nesterov;
} plb_sgd_attrs;
typedef struct plb_adam_attrs {
    double beta1, beta2, eps, weight_decay;
    int64_t decoupled; // AdamW (Loshchilov, Hutter 2019)
} plb_adam_attrs;
// PyTorch's arithmetic. w, g and the moments have one shape; lr and step are f32 scalars (step
// counts from 1). Outputs: w', m' and for adam v'. Without momentum m may be PLB_NONE, and then
// there is one output. PyTorch's first step takes m = g; from m = 0 that is the same for dampening
// 0 only.
PLB_API plb_value plb_sgd(plb_graph *graph, plb_value w, plb_value g, plb_value m, plb_value lr,
                          const plb_sgd_attrs *attrs);
PLB_API plb_value plb_adam(plb_graph *graph, plb_value w, plb_value g, plb_value m, plb_value v,
                           plb_value lr, plb_value step, const plb_adam_attrs *attrs);
// The same where the loss was scaled: g is multiplied by `unscale` (f32 scalar) first, and where
// that is 0 the step is left out: all stays as it is.
PLB_API plb_value plb_sgd_scaled(plb_graph *graph, plb_value w, plb_value g, plb_value m,
                                 plb_value lr, plb_value unscale, const plb_sgd_attrs *attrs);
PLB_API plb_value plb_adam_scaled(plb_graph *graph, plb_value w, plb_value g, plb_value m,
                                  plb_value v, plb_value lr, plb_value step, plb_value unscale,
                                  const plb_adam_attrs *attrs);

#endif
