// SPDX-License-Identifier: Apache-2.0
// The equivalent graphs of cuDNN for one convolution with its epilogue.
//
// A form is one graph that computes the node:
//   'a'  y = act((conv + residual) + bias), bias in the values' own type
//   'b'  y = act((conv + bias) + residual), bias in f32
//   'c'  y = act((conv + residual) + bias), bias in f32
//   't'  the bare convolution as the gradient of another, and a gradient as a convolution: of the
//        filter turned, with inputs and outputs exchanged and each plane read from its end
//   'u'  the bare convolution; the epilogue of bare ones is a kernel of ours behind them
// Engines that were compiled ahead take some of them, those compiled at run time others, and which
// is fastest only time can tell.
#ifndef PLB_ENGINE_DEVICE_CUDA_CONV_FORM_H
#define PLB_ENGINE_DEVICE_CUDA_CONV_FORM_H

#include "engine/device/cuda/conv_spec.h"
#include "engine/device/cuda/cudnn.h"

#define PLB_CONV_FORMS "abctu"
// Names of operands in a graph and its plans.
enum { PLB_CONV_X = 1, PLB_CONV_W, PLB_CONV_Y, PLB_CONV_BIAS, PLB_CONV_RESIDUAL };

// Whether a form says something that those before it do not.
bool plb_conv_form_applies(const plb_conv_spec *s, char form);
// Whether a graph of this form leaves the epilogue to somebody else.
bool plb_conv_form_is_bare(char form);
// Describes it in `graph`, which is new, and finishes it.
PLB_MUST_USE plb_status plb_conv_graph_build(const plb_conv_spec *s, char form,
                                             cudnnHandle_t handle, plb_cudnn_graph *graph);

#endif
