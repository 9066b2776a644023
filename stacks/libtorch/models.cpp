// SPDX-License-Identifier: Apache-2.0
#include "models.hpp"

namespace nn = torch::nn;
namespace fn = torch::nn::functional;

namespace plumb {
namespace {

nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1, int64_t pad = 0,
                bool bias = true) {
    return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(pad).bias(bias));
}

nn::ReLU relu() {
    return nn::ReLU(nn::ReLUOptions(true));
}

nn::MaxPool2d max_pool(int64_t kernel, int64_t stride, int64_t pad = 0) {
    return nn::MaxPool2d(nn::MaxPool2dOptions(kernel).stride(stride).padding(pad));
}

// x[N,1,size,size] -> [N,classes] log-probabilities: the CNN of PyTorch's MNIST example.
struct MnistCnn : Model {
    nn::Conv2d conv1, conv2;
    nn::Dropout2d conv2_drop;
    nn::Dropout fc1_drop;
    nn::Linear fc1, fc2;

    explicit MnistCnn(const ModelOptions &o)
        : conv1(conv(1, 10, 5)), conv2(conv(10, 20, 5)), conv2_drop(o.dropout ? 0.5 : 0.0),
          fc1_drop(o.dropout ? 0.5 : 0.0), fc1(20 * extent(o.size) * extent(o.size), 50),
          fc2(50, o.classes) {
        register_module("conv1", conv1);
        register_module("conv2", conv2);
        register_module("conv2_drop", conv2_drop);
        register_module("fc1", fc1);
        register_module("fc1_drop", fc1_drop);
        register_module("fc2", fc2);
    }

    static int64_t extent(int64_t size) { return ((size - 4) / 2 - 4) / 2; }

    torch::Tensor forward(torch::Tensor x) override {
        x = torch::relu(torch::max_pool2d(conv1(x), 2));
        x = torch::relu(torch::max_pool2d(conv2_drop(conv2(x)), 2));
        x = fc1_drop(torch::relu(fc1(x.flatten(1))));
        return torch::log_softmax(fc2(x), 1);
    }
};

// x[N,3,size,size] -> [N,classes]: features, pooling to a fixed extent, classifier.
struct Stacked : Model {
    nn::Sequential features, classifier;
    nn::AdaptiveAvgPool2d avgpool;

    explicit Stacked(int64_t extent) : avgpool(nn::AdaptiveAvgPool2dOptions({extent, extent})) {}

    void add(nn::Sequential features_, nn::Sequential classifier_) {
        features = register_module("features", features_);
        register_module("avgpool", avgpool);
        classifier = register_module("classifier", classifier_);
    }

    torch::Tensor forward(torch::Tensor x) override {
        return classifier->forward(avgpool(features->forward(x)).flatten(1));
    }
};

std::shared_ptr<Model> alexnet(const ModelOptions &o) {
    auto model = std::make_shared<Stacked>(6);
    const double p = o.dropout ? 0.5 : 0.0;
    model->add(nn::Sequential(conv(3, 64, 11, 4, 2), relu(), max_pool(3, 2), conv(64, 192, 5, 1, 2),
                              relu(), max_pool(3, 2), conv(192, 384, 3, 1, 1), relu(),
                              conv(384, 256, 3, 1, 1), relu(), conv(256, 256, 3, 1, 1), relu(),
                              max_pool(3, 2)),
               nn::Sequential(nn::Dropout(p), nn::Linear(256 * 6 * 6, 4096), relu(), nn::Dropout(p),
                              nn::Linear(4096, 4096), relu(), nn::Linear(4096, o.classes)));
    return model;
}

// `convs`: how many there are between two pools.
std::shared_ptr<Model> vgg(const std::vector<int> &convs, const ModelOptions &o) {
    auto model = std::make_shared<Stacked>(7);
    const double p = o.dropout ? 0.5 : 0.0;
    nn::Sequential features;
    int64_t in = 3;
    for (size_t group = 0; group < convs.size(); group++) {
        const int64_t out = group < 3 ? 64 << group : 512;
        for (int i = 0; i < convs[group]; i++) {
            features->push_back(conv(in, out, 3, 1, 1));
            features->push_back(relu());
            in = out;
        }
        features->push_back(max_pool(2, 2));
    }
    model->add(features, nn::Sequential(nn::Linear(512 * 7 * 7, 4096), relu(), nn::Dropout(p),
                                        nn::Linear(4096, 4096), relu(), nn::Dropout(p),
                                        nn::Linear(4096, o.classes)));
    return model;
}

// Two 3x3 convolutions, or 1x1, 3x3 and 1x1 with four times the channels (He et al. 2015; the
// stride in the 3x3, as torchvision has it).
struct Block : nn::Module {
    nn::Conv2d conv1{nullptr}, conv2{nullptr}, conv3{nullptr};
    nn::BatchNorm2d bn1{nullptr}, bn2{nullptr}, bn3{nullptr};
    nn::Sequential downsample{nullptr};

    Block(int64_t in, int64_t width, int64_t stride, bool bottleneck) {
        const int64_t out = bottleneck ? 4 * width : width;
        if (bottleneck) {
            add(1, conv1, bn1, conv(in, width, 1, 1, 0, false), width);
            add(2, conv2, bn2, conv(width, width, 3, stride, 1, false), width);
            add(3, conv3, bn3, conv(width, out, 1, 1, 0, false), out);
        } else {
            add(1, conv1, bn1, conv(in, width, 3, stride, 1, false), width);
            add(2, conv2, bn2, conv(width, width, 3, 1, 1, false), width);
        }
        if (stride == 1 && in == out) return;
        downsample = register_module(
            "downsample", nn::Sequential(conv(in, out, 1, stride, 0, false), nn::BatchNorm2d(out)));
    }

    void add(int i, nn::Conv2d &convolution, nn::BatchNorm2d &norm, nn::Conv2d made,
             int64_t channels) {
        convolution = register_module("conv" + std::to_string(i), made);
        norm = register_module("bn" + std::to_string(i), nn::BatchNorm2d(channels));
    }

    torch::Tensor forward(torch::Tensor x) {
        torch::Tensor y = bn1(conv1(x)).relu_();
        y = bn2(conv2(y));
        if (!conv3.is_empty()) y = bn3(conv3(y.relu_()));
        y += downsample.is_empty() ? x : downsample->forward(x);
        return y.relu_();
    }
};

// x[N,3,size,size] -> [N,classes]
struct ResNet : Model {
    nn::Conv2d conv1;
    nn::BatchNorm2d bn1;
    nn::Sequential layers[4];
    nn::Linear fc;

    ResNet(const std::vector<int> &blocks, bool bottleneck, int64_t classes)
        : conv1(conv(3, 64, 7, 2, 3, false)), bn1(64), fc(bottleneck ? 2048 : 512, classes) {
        register_module("conv1", conv1);
        register_module("bn1", bn1);
        int64_t in = 64;
        for (int l = 0; l < 4; l++) {
            const int64_t width = 64 << l;
            nn::Sequential layer;
            for (int b = 0; b < blocks[static_cast<size_t>(l)]; b++) {
                layer->push_back(Block(in, width, b == 0 && l > 0 ? 2 : 1, bottleneck));
                in = bottleneck ? 4 * width : width;
            }
            layers[l] = register_module("layer" + std::to_string(l + 1), layer);
        }
        register_module("fc", fc);
    }

    torch::Tensor forward(torch::Tensor x) override {
        x = torch::max_pool2d(bn1(conv1(x)).relu_(), 3, 2, 1);
        for (auto &layer : layers) x = layer->forward(x);
        return fc(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
    }
};

// A convolution, its norm, and values cut to 0 to 6.
struct Clipped : nn::Module {
    nn::Conv2d convolution;
    nn::BatchNorm2d norm;

    Clipped(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups)
        : convolution(nn::Conv2dOptions(in, out, kernel)
                          .stride(stride)
                          .padding(kernel / 2)
                          .groups(groups)
                          .bias(false)),
          norm(out) {
        register_module("0", convolution);
        register_module("1", norm);
    }

    torch::Tensor forward(torch::Tensor x) { return norm(convolution(x)).clamp_(0, 6); }
};

// Channels times `widening`, a depthwise 3x3 convolution, and a linear one back to few (Sandler et
// al. 2018).
struct InvertedResidual : nn::Module {
    nn::Sequential steps;
    bool shortcut;

    InvertedResidual(int64_t in, int64_t out, int64_t stride, int64_t widening)
        : shortcut(stride == 1 && in == out) {
        const int64_t wide = in * widening;
        if (widening != 1) steps->push_back(Clipped(in, wide, 1, 1, 1));
        steps->push_back(Clipped(wide, wide, 3, stride, wide));
        steps->push_back(conv(wide, out, 1, 1, 0, false));
        steps->push_back(nn::BatchNorm2d(out));
        register_module("conv", steps);
    }

    torch::Tensor forward(torch::Tensor x) {
        return shortcut ? x + steps->forward(x) : steps->forward(x);
    }
};

std::shared_ptr<Model> mobilenet_v2(const ModelOptions &o) {
    static constexpr struct {
        int64_t widening, out, blocks, stride;
    } groups[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                  {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    auto model = std::make_shared<Stacked>(1);
    nn::Sequential features(Clipped(3, 32, 3, 2, 1));
    int64_t in = 32;
    for (const auto &group : groups) {
        for (int64_t i = 0; i < group.blocks; i++) {
            const int64_t stride = i == 0 ? group.stride : 1;
            features->push_back(InvertedResidual(in, group.out, stride, group.widening));
            in = group.out;
        }
    }
    features->push_back(Clipped(in, 1280, 1, 1, 1));
    model->add(features,
               nn::Sequential(nn::Dropout(o.dropout ? 0.2 : 0.0), nn::Linear(1280, o.classes)));
    return model;
}

} // namespace

std::shared_ptr<Model> make_model(const std::string &name, const ModelOptions &o) {
    if (name == "mnist_cnn") return std::make_shared<MnistCnn>(o);
    if (name == "alexnet") return alexnet(o);
    if (name == "vgg16") return vgg({2, 2, 3, 3, 3}, o);
    if (name == "vgg19") return vgg({2, 2, 4, 4, 4}, o);
    if (name == "mobilenet_v2") return mobilenet_v2(o);
    if (name == "resnet18") {
        return std::make_shared<ResNet>(std::vector<int>{2, 2, 2, 2}, false, o.classes);
    }
    if (name == "resnet50") {
        return std::make_shared<ResNet>(std::vector<int>{3, 4, 6, 3}, true, o.classes);
    }
    return nullptr;
}

} // namespace plumb
