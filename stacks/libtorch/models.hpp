// SPDX-License-Identifier: Apache-2.0
// Models written by hand for PyTorch's C++ API, with torchvision's architecture and names.
#pragma once
#include <string>

#include <torch/nn.h>

namespace plumb {

// A module whose forward pass takes a batch and gives logits.
struct Model : torch::nn::Module {
    virtual torch::Tensor forward(torch::Tensor x) = 0;
};

struct ModelOptions {
    int64_t size, classes;
    bool dropout; // false: p = 0 everywhere
};

// mnist_cnn, alexnet, vgg16, vgg19, resnet18, resnet50 or mobilenet_v2; NULL for any other.
std::shared_ptr<Model> make_model(const std::string &name, const ModelOptions &options);

} // namespace plumb
