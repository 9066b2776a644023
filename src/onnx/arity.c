// SPDX-License-Identifier: Apache-2.0
// How many inputs an op has at most, in the version that has most. Mappings read those that they
// know of, so that one more would be passed over, whatever its author meant.
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "onnx/build.h"

// Ops that take any number are not among them.
static const struct {
    int most;
    const char *ops; // each between spaces
} rows[] = {
    {0, " Constant "},
    {1, " Abs Acos Acosh ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BitwiseNot"
        " BlackmanWindow Cast Ceil Celu ConstantOfShape Cos Cosh DepthToSpace Det"
        " DynamicQuantizeLinear Elu Erf Exp EyeLike Flatten Floor Gelu GlobalAveragePool"
        " GlobalLpPool GlobalMaxPool HammingWindow HannWindow HardSigmoid HardSwish Hardmax"
        " Identity If IsInf IsNaN LRN LeakyRelu Log LogSoftmax LpNormalization LpPool MaxPool"
        " MeanVarianceNormalization Mish Neg NonZero Not Reciprocal Relu Round Selu Shape"
        " Shrink Sigmoid Sign Sin Sinh Size Softmax Softplus Softsign SpaceToDepth Sqrt Swish"
        " Tan Tanh ThresholdedRelu Transpose Unique "},
    {2, " Add AffineGrid And BitShift BitwiseAnd BitwiseOr BitwiseXor CastLike CenterCropPad"
        " Compress CumProd CumSum Div Equal Expand Gather GatherElements GatherND Greater"
        " GreaterOrEqual GridSample Less LessOrEqual MatMul Mod Mul Or PRelu Pow"
        " RMSNormalization ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean"
        " ReduceMin ReduceProd ReduceSum ReduceSumSquare Reshape ReverseSequence Split Squeeze"
        " Sub SwiGLU TopK Trilu Unsqueeze Upsample Xor "},
    {3, " Clip Col2Im Conv ConvTranspose DFT DequantizeLinear Dropout Gemm GroupNormalization"
        " InstanceNormalization LayerNormalization MaxUnpool NegativeLogLikelihoodLoss OneHot"
        " QuantizeLinear Range RoiAlign Scatter ScatterElements ScatterND"
        " SoftmaxCrossEntropyLoss TensorScatter Tile Where "},
    {4, " CausalConvWithState ConvInteger MatMulInteger Pad Resize RotaryEmbedding STFT "},
    {5, " BatchNormalization DeformConv MelWeightMatrix NonMaxSuppression Slice "},
    {6, " GRU LinearAttention RNN "},
    {7, " Attention "},
    {8, " LSTM QLinearMatMul "},
    {9, " QLinearConv "},
};

static int most_inputs(const char *op) {
    char word[64];
    snprintf(word, sizeof word, " %s ", op);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strstr(rows[i].ops, word)) return rows[i].most;
    }
    return INT_MAX;
}

plb_status plb_onnx_check_inputs(const plb_onnx_node *n) {
    const int most = most_inputs(n->op);
    for (int i = most; i < n->n_in; i++) {
        if (!*plb_onnx_string(n->proto->input[i])) continue; // one that is left out
        return plb_fail(PLB_EINVAL, "expected at most %d input%s, found %d", most,
                        most == 1 ? "" : "s", n->n_in);
    }
    return PLB_OK;
}
